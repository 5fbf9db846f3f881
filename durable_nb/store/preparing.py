"""What a commit hands over: which chunks of its groups are new, and a manifest that can be worked with at once.

Called by `Workflow` in the kernel. Nothing is written here and nothing is durable: the chunks are views of the user's
memory, which must not change before they are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import xxhash

from durable_nb.model import BufferRef, Delta, Digest, EventDraft, Group, GroupId, Json, Manifest
from durable_nb.store.chunks import CHUNK_BYTES, Marks, cut
from durable_nb.store.commits import MarkKey
from durable_nb.store.manifests import KEYFRAME_EVERY, apply_body, delta_body, keyframe_body
from durable_nb.store.pending import PendingChunks, Ticket, names_now, parse_place, place

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A commit, ready to be handed over. `pieces` are the new chunks and then the attachments."""

    ticket: Ticket
    draft: EventDraft
    also: Sequence[EventDraft]
    body: Json
    manifest: Manifest
    depth: int
    marks: Mapping[MarkKey, Marks]
    pieces: Sequence[memoryview]
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
    prior: Mapping[MarkKey, Marks],
    tickets: Mapping[int, Ticket],
    workflow_id: str,
) -> Prepared:
    """Find out what is new in a delta of `parent`, which is `depth` deltas away from its keyframe.

    `prior` holds the marks of the commits before, `tickets` the hand-overs that are not settled. ValueError when the
    delta is not whole.
    """
    pieces: list[memoryview] = []
    marks: dict[MarkKey, Marks] = {}
    groups: dict[GroupId, Group] = {}
    for data in delta.groups:
        refs: list[BufferRef] = []
        for i, buffer in enumerate((memoryview(data.pickle), *data.buffers)):
            at = (data.group_id, i)
            ref, marks[at] = changed_chunks(buffer.cast("B"), prior.get(at), ticket, tickets, pieces)
            refs.append(ref)
        groups[data.group_id] = Group(
            group_id=data.group_id,
            names=data.names,
            codec=data.codec,
            pickle=refs[0],
            buffers=tuple(refs[1:]),
            deps=data.deps,
            types=data.types,
        )
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
        chunks=len(pieces),
        attachments=tuple(attachments),
    )


def changed_chunks(
    data: memoryview,
    prior: Marks | None,
    ticket: Ticket,
    tickets: Mapping[int, Ticket],
    pieces: list[memoryview],
) -> tuple[BufferRef, Marks]:
    """Add the chunks of a buffer that differ from its last commit to `pieces`; return its reference and its marks."""
    entries: list[str] = []
    marks: list[bytes] = []
    names = names_now(prior.ref.chunks) if prior is not None else ()
    for i, chunk in enumerate(cut(data)):
        mark = xxhash.xxh3_128_digest(chunk)
        marks.append(mark)
        if prior is not None and _is_same(prior, i, len(chunk), mark):
            entries.append(names[i])
        else:
            entries.append(place(ticket.number, len(pieces)))
            pieces.append(chunk)
    ref = BufferRef(size_bytes=len(data), chunk_bytes=CHUNK_BYTES, chunks=_named(entries, ticket, tickets))
    return ref, Marks(ref=ref, marks=tuple(marks))


def _named(entries: Sequence[str], ticket: Ticket, tickets: Mapping[int, Ticket]) -> Sequence[Digest]:
    numbers = {at[0] for entry in entries if (at := parse_place(entry)) is not None}
    if not numbers:
        return tuple(map(Digest, entries))
    return PendingChunks(entries, {n: ticket if n == ticket.number else tickets[n] for n in numbers})


def _is_same(prior: Marks, i: int, size_bytes: int, mark: bytes) -> bool:
    if i >= len(prior.marks) or prior.marks[i] != mark:
        return False
    return size_bytes == min(CHUNK_BYTES, prior.ref.size_bytes - i * CHUNK_BYTES)
