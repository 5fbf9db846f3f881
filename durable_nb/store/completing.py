"""Carrying out what a kernel handed over: the commit of a record, in the same order as any other.

Used by the writer while the kernel goes on, and by the next kernel when both are gone. When `complete` has returned,
the checkpoint is durable; when it has raised, there is none, and the same record may be tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from durable_nb.errors import Integrity
from durable_nb.model import Digest, Event, Json
from durable_nb.ports import Files
from durable_nb.store.chunks import ChunkStore, PackWriter, compress, digest_of
from durable_nb.store.commits import INLINE_BYTES, Commits, Plan, make_plan
from durable_nb.store.handover import Record, draft_from_json, fingerprint, named_body, seed_of
from durable_nb.store.signing import SigningKey

__all__ = ["Completed", "Completing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What became of a record: its events, the names of its chunks, and whether its bytes changed while it was made."""

    events: Sequence[Event]
    digests: Sequence[Digest]
    altered: bool


class Completing(Commits):
    """Makes commits of records, in the order in which they were handed over."""

    def __init__(
        self,
        *,
        files: Files,
        folder: str,
        chunks: ChunkStore,
        key: SigningKey,
        append: Callable[[Plan, Sequence[Digest], bool], list[Event]],
        reached: Callable[[str], None],
    ) -> None:
        self.folder = folder
        self._files = files
        self._chunks = chunks
        self._key = key
        self._append = append
        self._reached = reached
        self._named: dict[int, Sequence[Digest]] = {}
        self._made: tuple[Sequence[Digest], bool] = ((), False)

    def learn(self, number: int, digests: Sequence[Digest]) -> None:
        """Take note of how the chunks of a hand-over are called; later records mean them by their place."""
        self._named[number] = digests

    def complete(self, record: Record, *, alone: bool, made_by: Mapping[str, Json] | None = None) -> Completed:
        """Make the commit of a record.

        `alone`: its maker is gone, so its bytes must be what they were when it was made; Integrity if they are not.
        While the maker lives, bytes that differ are those of a value that a thread changed during the copy.
        `made_by` is added to what the events say of themselves.
        """
        header = record.header
        self._named = {n: d for n, d in self._named.items() if n >= header["oldest"]}
        count = header["chunks"]
        new, digests, attachments, packed_bytes, altered = self._store_pieces(record, count, alone)
        try:
            body = named_body(header["body"], self._named | {record.number: digests})
        except (KeyError, IndexError) as error:
            raise Integrity(
                f"Checkpoint {header['body']['checkpoint_id']} builds on a hand-over that was not carried out.",
                kind="missing",
                object=header["body"]["checkpoint_id"],
            ) from error
        draft, *also = (
            draft_from_json({**data, "metadata": {**data["metadata"], **(made_by or {})}})
            for data in (header["draft"], *header["also"])
        )
        plan = make_plan(
            draft,
            body,
            new,
            dict(zip(header["attachments"], attachments, strict=True)),
            also,
            chunks=self._chunks,
            key=self._key,
            packed_bytes=packed_bytes,
        )
        self._made = (digests, altered)
        events = self._make_true(plan)
        self.learn(record.number, digests)
        return Completed(events=events, digests=digests, altered=altered)

    def _store_pieces(
        self, record: Record, count: int, alone: bool
    ) -> tuple[dict[Digest, memoryview], list[Digest], list[bytes], int, bool]:
        """Name the chunks, and store those of a large commit in a pack, in one pass over the bytes.

        The pack is durable, as a part of a commit must be, and nothing names it before the whole record is proved.
        """
        small = sum(record.header["lengths"][:count]) <= INLINE_BYTES
        seed = seed_of(record.header["nonce"], self._key)
        new: dict[Digest, memoryview] = {}
        packed: set[Digest] = set()
        digests: list[Digest] = []
        attachments: list[bytes] = []
        prints: list[bytes] = []
        packed_bytes = 0
        pack: PackWriter | None = None
        try:
            for index, piece in enumerate(record.pieces(self._files, self.folder)):
                if record.in_arena:
                    prints.append(fingerprint(piece, seed))
                if index >= count:
                    attachments.append(piece)
                    continue
                digest = digest_of(piece)
                digests.append(digest)
                if digest in self._chunks or digest in packed or digest in new:
                    continue
                if small:
                    new[digest] = memoryview(piece)
                    continue
                pack = pack or self._chunks.open_pack()
                codec, stored = compress(piece)
                pack.add(digest, codec, len(piece), stored)
                packed.add(digest)
                packed_bytes += len(piece)
            altered = not record.proves(b"".join(prints), self._key)
            if altered and alone:
                raise Integrity(
                    f"What was handed over for checkpoint {record.header['body']['checkpoint_id']} is not what is in "
                    "the arena any more, so it was not carried out. Every earlier checkpoint is safe.",
                    kind="damaged",
                    object=record.header["body"]["checkpoint_id"],
                )
            self._reached("before-pack")
            if pack is not None:
                self._chunks.finish_pack(pack)
        except BaseException:
            if pack is not None:
                pack.abandon()
            raise
        return new, digests, attachments, packed_bytes, altered

    def _store_events(self, plan: Plan) -> list[Event]:
        return self._append(plan, *self._made)
