"""Saving behind the kernel's back: hands commits over to the writer process and takes in what became of them.

Made by `Workflow.start_writer`. When `hand_over` has returned, a SIGKILL of the kernel loses nothing of the commit: the
writer finishes it, or the next kernel does. It is durable when `take_in` has returned its event.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from typing import Any

from durable_nb.chunking import MOST_CHUNK_BYTES, marks_of
from durable_nb.errors import RepositoryError, StaleEpoch
from durable_nb.model import CheckpointId, Digest, Event, EventDraft, Json
from durable_nb.ports import Clock, WritableFile
from durable_nb.store.arena import Ring
from durable_nb.store.files import LocalFiles, LocalSpace
from durable_nb.store.handover import (
    FOLDER,
    FORMAT,
    arena_path,
    draft_to_json,
    encode_record,
    fingerprint,
    log_path,
    seed_of,
)
from durable_nb.store.journal import FileJournal
from durable_nb.store.pending import Ticket
from durable_nb.store.preparing import Prepared
from durable_nb.store.process_identity import process_of
from durable_nb.store.signing import SigningKey, canonical_json
from durable_nb.store.writer_client import WRITER, WriterClient, WriterGone

__all__ = ["Behind", "Flight", "made_by"]

RIDING_BYTES = 64 * 1024  # what a commit may have to ride in its record instead of in the arena
_LOG_BYTES = 1 << 20  # a longer log is begun anew when nothing is in flight
_MOST_IN_FLIGHT = 256


class Flight:
    """A commit in flight: its ticket, the body of its record, and how many events it makes beside its own."""

    __slots__ = ("also", "body", "in_arena", "ticket")

    def __init__(self, ticket: Ticket, body: Json, also: int, *, in_arena: bool) -> None:
        self.ticket, self.body, self.also, self.in_arena = ticket, body, also, in_arena


class Behind:
    """The writer process of a workflow, its log and its arena."""

    def __init__(
        self,
        *,
        files: LocalFiles,
        folder: str,
        workflow_id: str,
        journal: FileJournal,
        key: SigningKey,
        clock: Clock,
        budget_bytes: int,
        guard: Callable[[], AbstractContextManager[None]],
        wait_for: Callable[[Ticket], None],
        reached: Callable[[str], None],
        module: str = WRITER,
    ) -> None:
        """Start the process; RepositoryError or OSError where that is not possible.

        `guard` keeps interrupts out while messages are taken in; `wait_for` returns when a ticket is settled.
        """
        owner = journal.owner
        if owner is None:
            raise RepositoryError("A history that is open for reading has no writer.")
        self._files, self._folder, self._journal, self._key = files, folder, journal, key
        self._guard, self._wait_for, self._reached = guard, wait_for, reached
        self._owner, self._clock = owner, clock
        self._asking = threading.RLock()  # one thread at a time talks with the writer
        self._ring = Ring(budget_bytes)
        self._log: WritableFile | None = None
        self._log_bytes = 0
        self._arena: LocalSpace | None = None
        self._nonce = secrets.token_hex(16)
        self._seed = seed_of(self._nonce, key)
        self._flights: deque[Flight] = deque()
        self._numbers = 0
        self._pid = os.getpid()
        self.on = False  # whether the writer has the journal
        self.failure: BaseException | None = None
        self.altered: list[Ticket] = []  # hand-overs whose bytes changed while they were copied
        started = {
            "root": str(files.root),
            "folder": folder,
            "workflow_id": workflow_id,
            "secret": key.reveal(),
            "kernel": asdict(owner),
        }
        self._client = WriterClient(started, module=module)

    @property
    def pid(self) -> int:
        """The process id of the writer."""
        return self._client.pid

    @property
    def tickets(self) -> Mapping[int, Ticket]:
        """The commits in flight, oldest first."""
        return OrderedDict((flight.ticket.number, flight.ticket) for flight in self._flights)

    @property
    def bytes_in_flight(self) -> int:
        """How many bytes of the arena wait to be stored."""
        return self._ring.used_bytes

    # ---- the journal ---------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether the writer has the journal; it is given to it as soon as the process has started."""
        self._must_be_kernel()
        if not self.on and self.failure is None:
            if self._client.ready():
                self._lend()
            elif self._client.gone:
                self.failure = WriterGone("The process that saves in the background could not be started.")
        return self.on and self.failure is None

    def _lend(self) -> None:
        """Give the writer the journal; the errors are those of an append, and then it has not got it."""
        lent = self._journal.lend()
        self.on = True
        told = {"owner": asdict(lent.owner), "file": lent.file, "number": lent.number, "size_bytes": lent.size_bytes}
        head = {"hash": lent.head.hash, "seq": lent.head.seq, "timestamp": lent.head.timestamp}
        try:
            self._journal.share(process_of(self.pid, self._owner.kernel_id, self._clock))
            self._client.request(b"L", json.dumps({**told, "head": head}).encode(), b"l")
        except Exception as error:  # whatever it is, the kernel goes on by itself and tells
            self.failure = error

    def append(self, drafts: Sequence[EventDraft], *, soon: bool = False) -> list[Event]:
        """Append events; they may come before those of commits in flight. WriterGone when it is not known if they are.

        When this returns they outlive this process, and the machine as well unless that is to be `soon`.
        What became of commits before them is to be taken in first.
        """
        self._must_be_kernel()
        encoded = canonical_json([draft_to_json(draft) for draft in drafts])
        try:
            with self._asking:
                events: list[Event] = self._client.request(b"P" if soon else b"A", encoded, b"a")
        except WriterGone as error:
            self.failure = error
            raise
        return events

    # ---- handing over --------------------------------------------------------------------------------------------

    def ticket(self, checkpoint_id: CheckpointId, draft: EventDraft) -> Ticket:
        """Return the ticket for a commit that is going to be handed over."""
        self._numbers += 1
        parent = str(draft.correlation.get("parent_event") or "")
        return Ticket(self._numbers, checkpoint_id, self._wait_for, parent_event=parent)

    def fits(self, prepared: Prepared) -> bool:
        """Whether a commit can be handed over at all; a larger one has to be made in the kernel."""
        return prepared.size_bytes <= self._ring.budget_bytes

    def has_room(self, prepared: Prepared) -> bool:
        """Whether a commit can be handed over now."""
        if len(self._flights) >= _MOST_IN_FLIGHT:
            return False
        if prepared.size_bytes <= RIDING_BYTES:
            return True
        if self._ring.take([len(piece) for piece in prepared.pieces]) is None:
            return False
        self._ring.undo()
        return True

    def hand_over(self, prepared: Prepared) -> bool:
        """Hand a commit over; OSError when the disk refuses, and then it was not.

        Tell whether its chunks are what they were when they were looked at: a thread may have changed them meanwhile.
        """
        self._must_be_kernel()
        in_arena = prepared.size_bytes > RIDING_BYTES
        lengths = [len(piece) for piece in prepared.pieces]
        offsets = self._ring.take(lengths) if in_arena else _one_behind_the_other(lengths)
        if offsets is None:
            raise RepositoryError("There is no room in the arena; nothing was handed over.")
        try:
            prints = self._copy(prepared.pieces, offsets) if in_arena else b""
            self._reached("copied")
            riding = b"" if in_arena else b"".join(prepared.pieces)
            header = self._header(prepared, in_arena=in_arena, offsets=offsets, lengths=lengths)
            offset = self._write(encode_record(header, riding, prints, self._key))
        except BaseException:
            if in_arena:
                self._ring.undo()
                self._shrink()
            raise
        self._reached("logged")
        self._flights.append(Flight(prepared.ticket, prepared.body, len(prepared.also), in_arena=in_arena))
        self._client.send(b"H", str(offset).encode())
        self._reached("handed-over")
        new = prepared.pieces[: prepared.chunks]
        return all(marks_of(p, MOST_CHUNK_BYTES) == (m,) for p, m in zip(new, prepared.piece_marks, strict=True))

    def _header(
        self, prepared: Prepared, *, in_arena: bool, offsets: Sequence[int], lengths: Sequence[int]
    ) -> dict[str, Json]:
        oldest = min((flight.ticket.number for flight in self._flights), default=prepared.ticket.number)
        return {
            "format": FORMAT,
            "number": prepared.ticket.number,
            "oldest": oldest,
            "epoch": self._owner.epoch,
            "kernel_id": self._owner.kernel_id,
            "boot_id": self._owner.boot_id,
            "nonce": self._nonce,
            "draft": draft_to_json(prepared.draft),
            "also": [draft_to_json(draft) for draft in prepared.also],
            "body": prepared.body,
            "chunks": prepared.chunks,
            "attachments": list(prepared.attachments),
            "in_arena": in_arena,
            "offsets": list(offsets),
            "lengths": list(lengths),
        }

    def _copy(self, pieces: Sequence[memoryview], offsets: Sequence[int]) -> bytes:
        """Copy the pieces into the arena; return their fingerprints."""
        if self._arena is None:
            self._make_folder()
            self._arena = self._files.space(arena_path(self._folder, self._owner.epoch))
        prints = []
        for piece, offset in zip(pieces, offsets, strict=True):
            prints.append(fingerprint(piece, self._seed))
            self._arena.write_at(offset, piece)
        return b"".join(prints)

    def _shrink(self) -> None:
        """Give a disk that is full back what was copied in vain: the commit is now made without a copy."""
        if self._arena is not None:
            with suppress(OSError):  # the error that led here is the one to tell
                self._arena.cut(self._ring.end)

    def _write(self, record: bytes) -> int:
        """Append a record to the log and return where it begins; whatever fails, no part of it stays."""
        log = self._open_log()
        if not self._flights and self._log_bytes > _LOG_BYTES:
            log.truncate(0)
            self._log_bytes = 0
        offset = self._log_bytes
        try:
            log.write(record)
        except BaseException:
            log.truncate(offset)
            raise
        self._log_bytes += len(record)
        return offset

    def _open_log(self) -> WritableFile:
        if self._log is None:
            self._make_folder()
            self._remove(log_path(self._folder, self._owner.epoch))
            self._log = self._files.create(log_path(self._folder, self._owner.epoch))
            self._log_bytes = 0
        return self._log

    def _make_folder(self) -> None:
        # Where the whole history was moved away, its folders must not be made anew in its place.
        self._journal.check()
        self._files.make_folder(f"{self._folder}/{FOLDER}")

    # ---- what became of it ---------------------------------------------------------------------------------------

    def take_in(self, *, read: bool = True) -> list[Event]:
        """Return the events of commits that became durable since the last call, in the order of the journal.

        Without `read` those that came before what was appended last, and no others.
        """
        self._must_be_kernel()
        events: list[Event] = []
        with self._guard(), self._asking:
            for kind, told in self._client.news(read=read):
                if kind == b"h":
                    events += self._settle(*told)
                elif kind == b"f":
                    self.failure = self.failure or told[1]
            if self._client.gone and self.on and self.failure is None:
                self.failure = WriterGone("The process that saves in the background has ended.")
        return events

    def _settle(self, number: int, events: list[Event], digests: Sequence[Digest], altered: bool) -> list[Event]:
        flight = self._flights.popleft()
        if flight.ticket.number != number:
            raise RepositoryError(f"The writer answered hand-over {number} instead of {flight.ticket.number}.")
        flight.ticket.digests = digests
        if altered:
            self.altered.append(flight.ticket)
        if flight.in_arena:
            self._ring.give_back()
        return events

    def wait(self, timeout_s: float) -> None:
        """Wait until the writer tells something, at most so long."""
        self._client.wait(timeout_s)

    # ---- the end -------------------------------------------------------------------------------------------------

    def end(self) -> Sequence[Flight]:
        """Take the journal back; what is still in flight is returned, and may be durable or not.

        Without a failure everything must be settled before. When this returns, the process has ended.
        """
        try:
            if self.on and self.failure is None and not self._client.gone:
                self._client.request(b"B", b"", b"b")
        except (WriterGone, OSError) as error:
            self.failure = error
        if self.failure is not None or not self.on:
            self._client.kill()
        else:
            self._client.end()
        for open_file in (self._log, self._arena):
            if open_file is not None:
                open_file.close()
        if self.on:
            self._journal.take_back()
            self.on = False
        self._journal.share(None)
        return list(self._flights)

    def forget(self) -> None:
        """Remove log and arena, which nobody needs any more."""
        for path in (log_path(self._folder, self._owner.epoch), arena_path(self._folder, self._owner.epoch)):
            self._remove(path)

    def _must_be_kernel(self) -> None:
        """Refuse a forked child, which shares the connection and the files and would spoil both."""
        if os.getpid() != self._pid:
            raise StaleEpoch(
                "A forked child of the kernel tried to record something; only the kernel itself does. "
                "Everything stored is safe.",
                hint="Use the %durable commands in the kernel's own process.",
            )

    def _remove(self, path: str) -> None:
        try:
            self._files.remove(path)
        except FileNotFoundError:
            return  # nothing was ever handed over


def _one_behind_the_other(lengths: Sequence[int]) -> list[int]:
    offsets, at = [], 0
    for length in lengths:
        offsets.append(at)
        at += length
    return offsets


def made_by(flights: Sequence[Flight], events: Sequence[Event]) -> list[tuple[Flight, Event]]:
    """Return the flights whose commit is among these events, with it."""
    made: dict[Any, Event] = {e.payload["checkpoint"]["id"]: e for e in events if "checkpoint" in e.payload}
    return [(flight, made[cid]) for flight in flights if (cid := flight.ticket.checkpoint_id) in made]
