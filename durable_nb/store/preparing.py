"""What a commit hands over: which chunks of its groups are new, and a manifest that can be worked with at once.

Called by `Workflow` in the kernel. Nothing is written here and nothing is durable: the chunks are views of the user's
memory, which must not change before they are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from durable_nb.chunking import cut
from durable_nb.model import BufferRef, Delta, Digest, EventDraft, Group, GroupId, Json, Manifest
from durable_nb.store.commits import buffers_of, stored_as
from durable_nb.store.known import Known, Marks
from durable_nb.store.manifests import KEYFRAME_EVERY, apply_body, delta_body, keyframe_body
from durable_nb.store.pending import PendingChunks, Ticket, parse_place, place

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A commit, ready to be handed over. `pieces` are the new chunks and then the attachments.

    `piece_marks` are the marks of the new chunks, as they were when the value was looked at.
    """

    ticket: Ticket
    draft: EventDraft
    also: Sequence[EventDraft]
    body: Json
    manifest: Manifest
    depth: int
    marks: Mapping[GroupId, Sequence[Marks]]
    pieces: Sequence[memoryview]
    piece_marks: Sequence[bytes]
    chunks: int
    attachments: Sequence[str]

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.pieces))


def prepare(
    ticket: Ticket,
    draft: EventDraft,
    delta: Delta,
    attachments: Mapping[str, bytes],
    also: Sequence[EventDraft],
    *,
    parent: Manifest | None,
    depth: int,
    corrupted: bool,
    known: Known,
    tickets: Mapping[int, Ticket],
    workflow_id: str,
) -> Prepared:
    """Find out what is new in a delta of `parent`, which is `depth` deltas away from its keyframe.

    `known` are the chunks of the commits before by their marks, `tickets` the hand-overs that are not settled.
    ValueError when the delta is not whole.
    """
    pieces: list[memoryview] = []
    marks: dict[GroupId, Sequence[Marks]] = {}
    groups: dict[GroupId, Group] = {}
    find, new = known.reader(), dict[bytes, str]()
    for data in delta.groups:
        made: list[Marks] = []
        for whole, chunk_bytes, each in buffers_of(data):
            entries: list[str] = []
            for chunk, mark in zip(cut(whole, chunk_bytes), each, strict=True):
                entry = find(mark) or new.get(mark)
                if entry is None:
                    entry = new[mark] = place(ticket.number, len(pieces))
                    pieces.append(chunk)
                entries.append(entry)
            chunks = _named(entries, ticket, tickets)
            made.append(Marks(ref=BufferRef(size_bytes=len(whole), chunk_bytes=chunk_bytes, chunks=chunks), marks=each))
        groups[data.group_id] = stored_as(data, [each.ref for each in made])
        marks[data.group_id] = made
    body = delta_body(delta, groups, parent, workflow_id, depth + 1)
    manifest = apply_body(parent, body)
    # As decoded from the body a group would hold places; these hold on to the hand-over that will name them.
    mine = {**{group.group_id: group for group in delta.kept}, **groups}
    manifest = replace(manifest, groups={gid: mine.get(gid, group) for gid, group in manifest.groups.items()})
    if body["depth"] >= KEYFRAME_EVERY or corrupted:
        body = keyframe_body(manifest, workflow_id)
    return Prepared(
        ticket=ticket,
        draft=draft,
        also=also,
        body=body,
        manifest=manifest,
        depth=body["depth"],
        marks=marks,
        pieces=(*pieces, *(memoryview(content) for content in attachments.values())),
        piece_marks=tuple(new),
        chunks=len(pieces),
        attachments=tuple(attachments),
    )


def _named(entries: Sequence[str], ticket: Ticket, tickets: Mapping[int, Ticket]) -> Sequence[Digest]:
    numbers = {at[0] for entry in entries if (at := parse_place(entry)) is not None}
    if not numbers:
        return tuple(map(Digest, entries))
    return PendingChunks(entries, {n: ticket if n == ticket.number else tickets[n] for n in numbers})
