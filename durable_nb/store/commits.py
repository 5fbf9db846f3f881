"""What one commit is going to write: which chunks are new, what rides in the event, what goes into files.

Called by `Workflow.commit` before the first byte is written. Nothing is durable here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from durable_nb.chunking import CHUNK_BYTES, MOST_CHUNK_BYTES, PICKLE_CHUNK_BYTES, cut, digest_of_marks, marks_of
from durable_nb.model import BufferRef, Delta, Digest, Event, EventDraft, Group, GroupData, GroupId, Json
from durable_nb.ports import Files
from durable_nb.store import inline
from durable_nb.store.chunks import ChunkStore, digest_of
from durable_nb.store.known import Known, Marks
from durable_nb.store.manifests import canonical, ref_to_json, sign
from durable_nb.store.signing import SigningKey
from durable_nb.store.temporary import write_durably

__all__ = [
    "INLINE_BYTES", "Commits", "Plan", "Staged", "buffers_of", "make_plan", "manifest_name", "stage", "stored_as",
]  # fmt: skip

# What a commit stores in all, when it is so little that one append to the journal is the cheapest place for it.
INLINE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The groups of a delta with their chunks named, their marks, and the chunks that are stored nowhere yet."""

    groups: dict[GroupId, Group]
    marks: dict[GroupId, Sequence[Marks]]
    new: dict[Digest, memoryview]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything one commit writes, ready before the first byte is written."""

    chunks: Mapping[Digest, memoryview]
    manifest: tuple[str, bytes] | None
    draft: EventDraft
    also: Sequence[EventDraft]
    stored_bytes: int


def buffers_of(data: GroupData) -> Iterator[tuple[memoryview, int, tuple[bytes, ...]]]:
    """Yield the pickle of a group and then its buffers, each with the size of its chunks and their marks."""
    for i, buffer in enumerate((memoryview(data.pickle), *data.buffers)):
        whole, chunk_bytes = buffer.cast("B"), CHUNK_BYTES if i else PICKLE_CHUNK_BYTES
        yield whole, chunk_bytes, data.marks[i] if data.marks else marks_of(whole, chunk_bytes)


def stored_as(data: GroupData, refs: Sequence[BufferRef]) -> Group:
    """Return a captured group with its buffers named."""
    return Group(
        group_id=data.group_id,
        names=data.names,
        codec=data.codec,
        pickle=refs[0],
        buffers=tuple(refs[1:]),
        deps=data.deps,
        types=data.types,
        digest=digest_of_marks([ref.size_bytes for ref in refs], data.marks) if _needs_digest(data) else "",
    )


def _needs_digest(data: GroupData) -> bool:
    return len(data.names) > 1 and len(data.buffers) > 0 and len(data.marks) == 1 + len(data.buffers)


def stage(delta: Delta, chunks: ChunkStore, known: Known, inline_chunks: Container[str]) -> Staged:
    """Name every chunk of a delta's groups and find out which of them have to be stored.

    `known` are the chunks of the last commit by their marks, `inline_chunks` the digests that events carry already.
    """
    groups: dict[GroupId, Group] = {}
    marks: dict[GroupId, Sequence[Marks]] = {}
    new: dict[Digest, memoryview] = {}
    find = known.reader()
    for data in delta.groups:
        made: list[Marks] = []
        for whole, chunk_bytes, each in buffers_of(data):
            digests: list[Digest] = []
            steady = True
            for chunk, mark in zip(cut(whole, chunk_bytes), each, strict=True):
                digest = Digest(find(mark) or "")
                if not digest:
                    digest = digest_of(chunk)
                    # A thread may have changed it since it was looked at: then its mark says nothing of the name.
                    steady = steady and marks_of(chunk, MOST_CHUNK_BYTES) == (mark,)
                if digest not in chunks and digest not in inline_chunks:
                    new[digest] = chunk
                digests.append(digest)
            ref = BufferRef(size_bytes=len(whole), chunk_bytes=chunk_bytes, chunks=tuple(digests))
            made.append(Marks(ref=ref, marks=each if steady else ()))
        groups[data.group_id] = stored_as(data, [each.ref for each in made])
        marks[data.group_id] = made
    return Staged(groups=groups, marks=marks, new=new)


def make_plan(
    draft: EventDraft,
    body: dict[str, Json],
    new: dict[Digest, memoryview],
    attachments: Mapping[str, bytes],
    also: Sequence[EventDraft],
    *,
    chunks: ChunkStore,
    key: SigningKey,
    packed_bytes: int = 0,
) -> Plan:
    """Decide what rides in the event and what goes into files; `packed_bytes` are in a pack of this commit already."""
    encoded = canonical(body)
    stored_bytes = len(encoded) + packed_bytes
    checkpoint: dict[str, Json] = {"id": body["checkpoint_id"], "parent": body["parent"]}
    manifest: tuple[str, bytes] | None = None
    to_pack: dict[Digest, memoryview] = {}
    room = INLINE_BYTES - len(encoded) - sum(len(chunk) for chunk in new.values()) - packed_bytes
    if room >= 0:
        carried = {digest: inline.chunk_to_json(chunk) for digest, chunk in new.items()}
        checkpoint["inline"] = {"body": body, "chunks": carried}
        stored_bytes += sum(len(chunk["data"]) for chunk in carried.values())
    else:
        room = INLINE_BYTES
        to_pack.update(new)
        manifest = (manifest_name(body["checkpoint_id"], digest_of(encoded)), sign(encoded, key))
        checkpoint |= {"manifest": manifest[0], "digest": digest_of(encoded), "size_bytes": len(encoded)}
    attached: dict[str, Json] = {}
    for name, content in attachments.items():
        if len(content) <= min(room, INLINE_BYTES // 2):
            room -= len(content)
            attached[name] = inline.bytes_to_json(content)
        else:
            ref, unknown = chunks.put(memoryview(content))
            to_pack.update(unknown)
            attached[name] = {"buffer": ref_to_json(ref)}
        stored_bytes += len(content)
    stored_bytes += sum(len(chunk) for chunk in to_pack.values())
    payload = {**draft.payload, "checkpoint": checkpoint, "stored_bytes": stored_bytes}
    if attached:
        payload["attachments"] = attached
    return Plan(
        chunks=to_pack,
        manifest=manifest,
        draft=replace(draft, payload=payload),
        also=also,
        stored_bytes=stored_bytes,
    )


class Commits:
    """The order in which a commit is made true; used by a workflow in the kernel, and by the writer."""

    folder: str
    _files: Files
    _chunks: ChunkStore
    _reached: Callable[[str], None]

    def _make_true(self, plan: Plan) -> list[Event]:
        """Write chunks, manifest, event, each durable before the next begins: the event is the only commit point."""
        self._store_chunks(plan)
        self._reached("after-pack")
        self._store_manifest(plan)
        self._reached("after-manifest")
        self._reached("before-event")
        events = self._store_events(plan)
        self._reached("after-event")
        return events

    def _store_chunks(self, plan: Plan) -> None:
        self._chunks.write_pack(plan.chunks.items())

    def _store_manifest(self, plan: Plan) -> None:
        if plan.manifest is not None:
            name, content = plan.manifest
            write_durably(self._files, f"{self.folder}/manifests/{name}", content)

    def _store_events(self, plan: Plan) -> list[Event]:
        raise NotImplementedError


def manifest_name(checkpoint_id: str, digest: str) -> str:
    """Return the name of the manifest file of a body with this digest."""
    return f"{checkpoint_id}-{digest[:12]}.json"
