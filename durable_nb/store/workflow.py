"""One workflow's history in the store: commit in the right order, resolve manifests, read groups back.

Made by `Repository.workflow`; called by the engine. When `commit` has returned, the checkpoint survives a power cut;
when it has raised, the repository is as it was and the next commit may be tried at once. The order that makes this so
(chunks, sync; manifest, sync; event, sync) stands in `_make_true` and in FORMAT.md's crash table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from durable_nb.chunking import Marked
from durable_nb.errors import RepositoryError, RepositoryNotFound
from durable_nb.model import (
    BufferRef,
    CheckpointId,
    Committed,
    Delta,
    Digest,
    Event,
    EventDraft,
    Group,
    Json,
    Manifest,
    Problem,
)
from durable_nb.ports import Files
from durable_nb.store import endings, inline, mapping
from durable_nb.store.chunks import ChunkStore, digest_of, missing
from durable_nb.store.commits import Plan, make_plan, manifest_name, stage
from durable_nb.store.explain import not_saved, reading, writing
from durable_nb.store.known import Known
from durable_nb.store.manifests import (
    KEYFRAME_EVERY,
    apply_body,
    canonical,
    delta_body,
    keyframe_body,
    open_signed,
    ref_from_json,
    sign,
)
from durable_nb.store.reading import Memory, read_buffers
from durable_nb.store.saving import Saving
from durable_nb.store.signing import SigningKey
from durable_nb.store.temporary import write_durably

if TYPE_CHECKING:
    from durable_nb.store.journal import FileJournal

__all__ = ["CheckpointInfo", "Workflow"]

_CACHED_MANIFESTS = 16
CHECKED_CHUNKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo:
    """A checkpoint that was not deleted: its id, its parent's id, the event that made it true."""

    id: CheckpointId
    parent: CheckpointId | None
    event: Event
    corrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a checkpoint's body is: inline in its event, or in a manifest file of this digest."""

    event: Event
    parent: CheckpointId | None
    manifest: str = ""
    digest: str = ""


class Workflow(Saving):
    """The checkpoints and events of one workflow; writes only under the lease of its journal."""

    def __init__(
        self,
        *,
        files: Files,
        folder: str,
        workflow_id: str,
        journal: FileJournal,
        chunks: ChunkStore,
        key: SigningKey,
        trusts: Callable[[bytes], bool],
        reached: Callable[[str], None],
        closed: Callable[[Workflow], None],
    ) -> None:
        self.workflow_id = workflow_id
        self.folder = folder
        self._files = files
        self._journal = journal
        self._chunks = chunks
        self._key = key
        self._trusts = trusts
        self._reached = reached
        self._closed = closed
        self._events: list[Event] = []
        self._locations: dict[CheckpointId, Location] = {}
        self._deleted: set[str] = set()
        self._corrupted: set[str] = set()
        self._without_attachments: set[str] = set()
        self._inline: dict[Digest, Event] = {}
        self._resolved: OrderedDict[CheckpointId, tuple[Manifest, int]] = OrderedDict()
        # Where buffers go: memory that what is made of them can keep as its own.
        self.allocate: Callable[[int], Memory] = bytearray
        self.own = mapping.own
        self._highest = 0
        self._stored = Known()
        self._begin_saving()
        for event in journal.read():
            self._note(event)

    @property
    def writable(self) -> bool:
        """Whether this process holds the lease."""
        return self._journal.owner is not None

    @property
    def problems(self) -> list[Problem]:
        """What the journal found wrong when it was opened."""
        return list(self._journal.problems)

    # The life and the end of a kernel.

    def beat(self) -> None:
        """Leave a sign of life for kernels on other machines; may be called from any thread."""
        self._journal.beat()

    def note_ending(self, reason: str) -> None:
        """Leave a durable note that this kernel's end was asked for; may be called from any thread."""
        if self._journal.owner is not None:
            endings.leave(self._files, self.folder, self._journal.owner.kernel_id, reason)

    def take_ending(self, kernel_id: str) -> str:
        """Return why an earlier kernel's end was asked for, empty if it was not, and forget it."""
        return endings.take(self._files, self.folder, kernel_id)

    def take_loss(self, kernel_id: str) -> dict[str, Json]:
        """Return what the writer of a lost kernel noted of its end, empty if nothing, and forget it."""
        return endings.take_loss(self._files, self.folder, kernel_id)

    def keyed_digest(self, text: str) -> str:
        """Return a digest that tells nothing about a secret text to who does not have the key."""
        return self._key.sign(b"durable_nb input\0" + text.encode("utf-8", "surrogatepass"))

    # Reading.

    def events(self, after_seq: int = 0) -> Iterator[Event]:
        """Yield the trusted events behind `after_seq`; a workflow opened to read sees what its writer has added."""
        if not self.writable:
            for event in self._journal.read(self._events[-1].seq if self._events else 0):
                self._note(event)
        # A copy: the caller may append while it iterates.
        yield from self._events[bisect_right(self._events, after_seq, key=lambda event: event.seq) :]

    def checkpoints(self) -> list[CheckpointInfo]:
        """Return the checkpoints that were not deleted, oldest first."""
        return [
            CheckpointInfo(id=cid, parent=at.parent, event=at.event, corrupted=cid in self._corrupted)
            for cid, at in self._locations.items()
            if cid not in self._deleted
        ]

    def attached_chunks(self) -> dict[str, list[Event]]:
        """Return the chunks that attachments lie in, with their events; without attachments that were reported lost."""
        found: dict[str, list[Event]] = {}
        for event in self._events:
            if event.event_id not in self._without_attachments:
                for stored in event.payload.get("attachments", {}).values():
                    for digest in stored.get("buffer", {}).get("chunks", ()):
                        found.setdefault(digest, []).append(event)
        return found

    def lost_checkpoints(self) -> list[CheckpointId]:
        """Return the ids, up to the newest, of which the journal has no trusted event."""
        ids = (CheckpointId(f"c{n}") for n in range(1, self._highest + 1))
        return [cid for cid in ids if cid not in self._locations]

    def read_file(self, path: str) -> bytes:
        """Return a file of the repository as it is, for reports."""
        return self._files.read(path)

    def next_checkpoint_id(self) -> CheckpointId:
        """Return the id for the next commit: c1, c2, …; ids of deleted checkpoints are not used again."""
        handed = (int(checkpoint_id[1:]) for checkpoint_id in self._handed)
        return CheckpointId(f"c{max(self._highest, *handed) + 1}" if self._handed else f"c{self._highest + 1}")

    def manifest(self, checkpoint_id: CheckpointId) -> Manifest:
        """Return the whole manifest of a checkpoint, reading at most one keyframe and the deltas since."""
        with reading(f"the manifest of checkpoint {checkpoint_id}"):
            return self._known(checkpoint_id)[0]

    def _known(self, checkpoint_id: CheckpointId) -> tuple[Manifest, int]:
        if checkpoint_id in self._handed:
            return self._handed[checkpoint_id]
        if checkpoint_id in self._deleted or checkpoint_id not in self._locations:
            state = "was deleted" if checkpoint_id in self._deleted else "does not exist"
            raise RepositoryNotFound(
                f"Checkpoint {checkpoint_id} {state}; nothing was changed.",
                hint="Type `%durable checkpoints` for those that can be restored.",
            )
        return self._resolve(checkpoint_id)

    def _resolve(self, checkpoint_id: CheckpointId) -> tuple[Manifest, int]:
        """Return a manifest and how many deltas it is away from its keyframe."""
        bodies: list[dict[str, Json]] = []
        at: CheckpointId | None = checkpoint_id
        while at is not None and at not in self._resolved:
            body = self._body(at)
            bodies.append(body)
            at = None if body["depth"] == 0 else CheckpointId(body["parent"])
        manifest, depth = (None, 0) if at is None else self._resolved[at]
        for body in reversed(bodies):
            manifest, depth = apply_body(manifest, body), body["depth"]
        assert manifest is not None
        self._remember(manifest, depth)
        return manifest, depth

    def body(self, checkpoint_id: CheckpointId) -> dict[str, Json]:
        """Return the verified body of a checkpoint as stored; Integrity or Untrusted if that cannot be had."""
        with reading(f"the manifest of checkpoint {checkpoint_id}"):
            return self._body(checkpoint_id)

    def _body(self, checkpoint_id: CheckpointId) -> dict[str, Json]:
        if checkpoint_id not in self._locations:
            raise missing(f"the event of checkpoint {checkpoint_id}")
        at = self._locations[checkpoint_id]
        if not at.manifest:
            inlined: dict[str, Json] = at.event.payload["checkpoint"]["inline"]["body"]
            return inlined
        path = f"{self.folder}/manifests/{at.manifest}"
        try:
            content = self._files.read(path)
        except FileNotFoundError as error:
            raise missing(f"manifest {at.manifest}") from error
        return open_signed(at.manifest, content, digest=at.digest, key=self._key, trusts=self._trusts)

    def is_there(self, checkpoint_id: CheckpointId) -> bool:
        """Whether an event has made this checkpoint, deleted since or not."""
        return checkpoint_id in self._locations

    def parent_of(self, checkpoint_id: CheckpointId) -> CheckpointId | None:
        """Return what a checkpoint was made from, be it in flight; KeyError when no event tells of it."""
        if checkpoint_id in self._handed:
            return self._handed[checkpoint_id][0].parent
        return self._locations[checkpoint_id].parent

    def location(self, checkpoint_id: CheckpointId) -> Location:
        """Return where a checkpoint's body is stored."""
        return self._locations[checkpoint_id]

    def chunk(self, digest: str) -> bytes:
        """Return the verified bytes of a chunk, from a pack or from the event that carries it."""
        event = self._inline.get(Digest(digest))
        if event is None:
            with reading(f"chunk {digest}"):
                return self._chunks.get(digest)
        return inline.chunk_from_json(digest, event.payload["checkpoint"]["inline"]["chunks"][digest])

    def is_inline(self, digest: str) -> bool:
        """Whether a chunk rides in an event of this workflow's journal."""
        return digest in self._inline

    def read_group(
        self, group: Group, proves: Callable[[bytes, Marked], bool] | None = None, *, mapped: bool = False
    ) -> tuple[bytes, Marked]:
        """Return a group's pickle and its buffers, verified; the buffers are fresh and writable. For any thread.

        `proves` tells, quicker than the digests of all chunks, whether these bytes are what a signed manifest means;
        `check_group` is then called later. The pickle, which can run code, is verified by its digests in any case. With
        `mapped`, buffers may be the pages of a pack until `own` is called for them.
        """
        data = bytes(self._read([group.pickle])[0])
        if proves is not None:
            buffers = self._read(group.buffers, self.allocate, verify=False, mapped=mapped)
            if proves(data, buffers):
                return data, buffers
            mapped = False  # something is damaged: what is whole is looked for, and copied
        return data, self._read(group.buffers, self.allocate, mapped=mapped)

    def check_group(self, group: Group) -> None:
        """Verify by their digests the chunks that a group is made of; Integrity where one differs. For any thread."""
        for ref in (group.pickle, *group.buffers):
            for at in range(0, len(ref.chunks), CHECKED_CHUNKS):
                start = at * ref.chunk_bytes
                size_bytes = min(CHECKED_CHUNKS * ref.chunk_bytes, ref.size_bytes - start)
                self._read([replace(ref, size_bytes=size_bytes, chunks=ref.chunks[at : at + CHECKED_CHUNKS])])

    def attachment(self, event: Event, name: str) -> bytes | None:
        """Return what was attached to an event under this name, None if nothing was."""
        stored = event.payload.get("attachments", {}).get(name)
        if stored is None:
            return None
        where = [ref_from_json(stored["buffer"])] if "buffer" in stored else []
        return bytes(self._read(where)[0]) if where else inline.bytes_from(stored)

    def _read(self, refs: Sequence[BufferRef], allocate: Callable[[int], Memory] = bytearray, **how: bool) -> Marked:
        return read_buffers(refs, self._chunks, self._files, self._inline_chunk, allocate, **how)

    def _inline_chunk(self, digest: str) -> bytes | None:
        return self.chunk(digest) if Digest(digest) in self._inline else None

    # Writing.

    def append(self, drafts: Sequence[EventDraft], *, soon: bool = False) -> list[Event]:
        """Append events that make no checkpoint; durable together when this returns, or `soon`; none if it raises."""
        self._must_write()
        with writing("Recording in this notebook's history"):
            return self._append(drafts, soon=soon)

    def _must_be_next(self, delta: Delta) -> None:
        if delta.checkpoint_id != self.next_checkpoint_id():
            if self._setback is not None or not (delta.parent is None or delta.parent in self._locations):
                raise self._overtaken(delta.checkpoint_id)
            raise ValueError(f"the next checkpoint is {self.next_checkpoint_id()}, not {delta.checkpoint_id}")

    def commit(
        self,
        draft: EventDraft,
        delta: Delta,
        *,
        attachments: Mapping[str, bytes] | None = None,
        also: Sequence[EventDraft] = (),
    ) -> Committed:
        """Make a delta a checkpoint, durably, by the event of `draft`; the events of `also` are appended with it.

        CheckpointError when the disk refuses: the repository is as it was. ValueError when the delta is not whole.
        """
        self._must_write()
        self.drain()
        self._must_be_next(delta)
        try:
            parent, depth = (None, -1) if delta.parent is None else self._known(delta.parent)
            staged = stage(delta, self._chunks, self._stored, self._inline.keys())
            body = delta_body(delta, staged.groups, parent, self.workflow_id, depth + 1)
            manifest = apply_body(parent, body)
            if body["depth"] >= KEYFRAME_EVERY or delta.parent in self._corrupted:
                body = keyframe_body(manifest, self.workflow_id)
            plan = make_plan(draft, body, staged.new, attachments or {}, also, chunks=self._chunks, key=self._key)
            events = self._make_true(plan)
        except OSError as error:
            raise not_saved(error) from error
        self._remember(manifest, body["depth"])
        self._stored.update(manifest.groups, staged.marks)
        return Committed(event=events[0], manifest=manifest, stored_bytes=plan.stored_bytes)

    def delete_checkpoint(self, checkpoint_id: CheckpointId) -> Event:
        """Delete a checkpoint that is not the newest; its children become keyframes first. Space comes with `gc`."""
        self._must_write()
        self.drain()
        kept = [info.id for info in self.checkpoints()]
        if checkpoint_id not in kept:
            raise RepositoryNotFound(f"There is no checkpoint {checkpoint_id}; nothing was deleted.")
        if checkpoint_id == kept[-1]:
            raise RepositoryError(
                f"Checkpoint {checkpoint_id} is the newest one and is kept; nothing was deleted.",
                hint="Delete older ones, or make a new checkpoint first.",
            )
        try:
            rebased = {
                child: self._write_keyframe(self._known(child)[0])
                for child in kept
                if self._locations[child].parent == checkpoint_id
                and child not in self._corrupted
                and self._body(child)["depth"] > 0
            }
            self._reached("after-manifest")
            draft = EventDraft(
                event_type="CheckpointDeleted",
                run_id=self._locations[checkpoint_id].event.run_id,
                payload={"checkpoint_id": checkpoint_id, "rebased": rebased},
            )
            return self._append([draft])[0]
        except OSError as error:
            raise not_saved(error) from error

    def close(self, *, release: bool = True) -> None:
        """Wait for what is in flight, and stop writing; with `release` give the lease back."""
        self._closed(self)
        with writing("Giving the lease of this notebook back"):
            self.stop_writer()
            self._journal.close(release=release)

    def _store_events(self, plan: Plan) -> list[Event]:
        return self._append([plan.draft, *plan.also])

    def _write_keyframe(self, manifest: Manifest) -> dict[str, Json]:
        encoded = canonical(keyframe_body(manifest, self.workflow_id))
        name = manifest_name(manifest.checkpoint_id, digest_of(encoded))
        write_durably(self._files, f"{self.folder}/manifests/{name}", sign(encoded, self._key))
        return {"manifest": name, "digest": digest_of(encoded), "size_bytes": len(encoded)}

    def _append(self, drafts: Sequence[EventDraft], *, soon: bool = False) -> list[Event]:
        if (events := self._append_behind(drafts, soon=soon)) is not None:
            return events
        events = self._journal.append(drafts)
        for event in events:
            self._note(event)
        return events

    def _must_write(self) -> None:
        if not self.writable:
            raise RepositoryError(
                f"The workflow {self.workflow_id!r} was opened to read; nothing was recorded.",
                hint="Close the other kernel of this notebook and load the extension again.",
            )

    # Folding.

    def _note(self, event: Event) -> None:
        """Take an event into the index of checkpoints."""
        self._events.append(event)
        payload = event.payload
        checkpoint = payload.get("checkpoint")
        if checkpoint is not None:
            parent = None if checkpoint["parent"] is None else CheckpointId(checkpoint["parent"])
            self._highest = max(self._highest, int(checkpoint["id"][1:]))
            self._locations[CheckpointId(checkpoint["id"])] = Location(
                event=event,
                parent=parent,
                manifest=checkpoint.get("manifest", ""),
                digest=checkpoint.get("digest", ""),
            )
            if "inline" in checkpoint:
                self._inline.update((digest, event) for digest in checkpoint["inline"]["chunks"])
        elif event.event_type == "CheckpointDeleted":
            self._deleted.add(payload["checkpoint_id"])
            for child, at in payload["rebased"].items():
                if child in self._locations:  # Else its own event is damaged, and reported as such.
                    moved = replace(self._locations[child], manifest=at["manifest"], digest=at["digest"])
                    self._locations[child] = moved
        elif event.event_type == "CheckpointCorrupted":
            self._corrupted.add(payload["checkpoint_id"])
        elif event.event_type == "AttachmentsCorrupted":
            self._without_attachments.add(payload["of_event"])

    def _remember(self, manifest: Manifest, depth: int) -> None:
        self._resolved[manifest.checkpoint_id] = (manifest, depth)
        self._resolved.move_to_end(manifest.checkpoint_id)
        while len(self._resolved) > _CACHED_MANIFESTS:
            self._resolved.popitem(last=False)
