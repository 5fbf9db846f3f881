"""The writer process of a kernel: appends its events, and commits what it hands over while the next cell runs.

Started by `writer_client` with one end of a socket, in a session of its own, so that what kills the kernel and its
process group does not reach it. Appends are answered when they are durable and never wait for a large commit, which a
thread makes; commits are made in the order in which they were handed over. When the kernel is gone, everything that it
handed over is finished, the lease is given back, and the process ends.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from durable_nb.clock import SystemClock
from durable_nb.errors import DurableError, RepositoryError
from durable_nb.model import Digest, Event, Owner
from durable_nb.ports import Files
from durable_nb.store import endings
from durable_nb.store.channel import Channel
from durable_nb.store.chunks import ChunkStore
from durable_nb.store.commits import Plan
from durable_nb.store.completing import Completing
from durable_nb.store.files import LocalFiles
from durable_nb.store.handover import arena_path, draft_from_json, log_path, read_record
from durable_nb.store.journal import FileJournal, Lent
from durable_nb.store.journal_reader import Head
from durable_nb.store.process_identity import is_alive
from durable_nb.store.signing import SigningKey

__all__ = ["Writer", "main"]

_LOOK_S = 0.2  # how often to look for the kernel where the system cannot tell of its end
_BEAT_S = 20.0
# Python hands the interpreter over so rarely that an append could wait for the thread that compresses.
_SWITCH_S = 0.0005


def _nothing(point: str) -> None:
    """Stand for the named crash points in production."""


class Writer:
    """The state of the process; `run` returns when nothing is left to do."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        files_of: Callable[[str], Files] = LocalFiles,
        reached: Callable[[str], None] = _nothing,
    ) -> None:
        self._channel = Channel(sock)
        self._files_of = files_of
        self._reached = reached
        self._clock = SystemClock()
        # Held from the append of an event to the message about it, so that messages arrive in the order of the journal.
        self._order = threading.Lock()
        self._work: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._worker = threading.Thread(target=self._commit_all, name="commits")
        self._journal: FileJournal | None = None
        self._failed: BaseException | None = None
        self._next_offset = 0  # in the log, behind the last record that was seen
        self._number: int | None = None  # of the record that is being committed
        self._done = False

    def run(self) -> None:
        """Serve until the kernel says good-bye, or is gone and all is finished."""
        kind, payload = self._first_message()
        if kind != b"S":
            return
        self._start(json.loads(payload))
        self._worker.start()
        self._channel.send(b"r", b"")
        try:
            self._serve()
        finally:
            self._finish()
            self._channel.flush()

    # ---- beginning -----------------------------------------------------------------------------------------------

    def _first_message(self) -> tuple[bytes, bytes]:
        while not self._channel.ended:
            if (message := self._channel.take()) is not None:
                return message
            select.select([self._channel], [], [], _LOOK_S)
        return b"", b""

    def _start(self, told: dict[str, Any]) -> None:
        self._files = self._files_of(told["root"])
        self._folder: str = told["folder"]
        self._workflow_id: str = told["workflow_id"]
        self._kernel = Owner(**told["kernel"])
        self._key = SigningKey(bytes.fromhex(told["secret"]))
        chunks = ChunkStore(self._files)
        chunks.refresh(durable=True)
        self._completing = Completing(
            files=self._files,
            folder=self._folder,
            chunks=chunks,
            key=self._key,
            append=self._append_commit,
            reached=self._reached,
        )

    def _borrow(self, payload: bytes) -> None:
        """Take the journal over from the kernel."""
        told = json.loads(payload)
        lent = Lent(
            owner=Owner(**told["owner"]),
            file=told["file"],
            number=told["number"],
            size_bytes=told["size_bytes"],
            head=Head(**told["head"]),
        )
        self._journal = FileJournal.continued(
            self._files,
            f"{self._folder}/journal",
            lent,
            workflow_id=self._workflow_id,
            key=self._key,
            clock=self._clock,
        )

    # ---- serving -------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        death = _pidfd(self._kernel.pid)
        try:
            poll = select.poll()
            poll.register(self._wake_read, select.POLLIN)
            if death is not None:
                poll.register(death, select.POLLIN)
            while not self._done:
                poll.register(self._channel, select.POLLIN | (select.POLLOUT if self._channel.waiting else 0))
                ready = {fd for fd, _ in poll.poll(None if death is not None else _LOOK_S * 1000)}
                if self._wake_read in ready:
                    os.read(self._wake_read, 4096)
                self._channel.pump()
                self._take_messages()
                self._sync()
                # The kernel's end is told by its process: forked children of it may hold the socket open for long.
                gone = self._channel.ended or (death in ready if death is not None else is_alive(self._kernel) is False)
                if gone and not self._done:
                    self._take_messages()
                    self._take_log()
                    self._done = True
        finally:
            if death is not None:
                os.close(death)

    def _take_messages(self) -> None:
        while (message := self._channel.take()) is not None:
            kind, payload = message
            if kind in (b"A", b"P"):
                self._append(payload, sync=kind == b"A")
            elif kind == b"H":
                self._accept(int(payload))
            elif kind == b"L":
                self._answer(b"l", lambda payload=payload: self._borrow(payload))  # type: ignore[misc]
            elif kind == b"B":
                self._done = True
                return

    def _append(self, payload: bytes, *, sync: bool) -> None:
        drafts = [draft_from_json(data) for data in json.loads(payload)]
        with self._order:
            self._answer(b"a", lambda: self._the_journal().append(drafts, sync=sync))

    def _sync(self) -> None:
        """Make durable what was answered before it was: a cell does not wait for the disk to begin."""
        if self._journal is not None and not self._done:
            try:
                self._journal.sync()
            except OSError as error:
                self._fail(-1, error)

    def _answer(self, kind: bytes, action: Callable[[], Any]) -> None:
        """Do it and tell the kernel the result, or what went wrong; the kernel raises it there."""
        try:
            result: Any = action()
        except (DurableError, OSError, ValueError, TypeError) as error:
            result = error
        self._channel.send(kind, pickle.dumps(result))

    def _the_journal(self) -> FileJournal:
        if self._journal is None:
            raise RepositoryError("The writer was not given the journal.")
        return self._journal

    # ---- committing ----------------------------------------------------------------------------------------------

    def _accept(self, offset: int) -> None:
        """Take a record that the kernel has told of."""
        try:
            if not self._queue(offset):
                # The notebook's code has closed the log's descriptor, say: without an answer the kernel would wait.
                raise RepositoryError("What the kernel handed over is not in its log.")
        except (DurableError, OSError) as error:
            self._fail(-1, error)

    def _queue(self, offset: int) -> bool:
        """Queue the record there; tell whether there is one."""
        record = read_record(self._files, log_path(self._folder, self._kernel.epoch), offset, self._key)
        if record is not None:
            self._next_offset = offset + record.size_bytes
            self._work.put(offset)
        return record is not None

    def _take_log(self) -> None:
        """Find what was written to the log completely, although the kernel could not say so any more."""
        while True:
            try:
                if not self._queue(self._next_offset):
                    return
            except (DurableError, FileNotFoundError):
                return  # the record that the kernel was about to write when it died: its cell was not answered

    def _commit_all(self) -> None:
        """Make the commits that are queued, in the worker's thread, until there is None."""
        while (offset := self._work.get()) is not None:
            self._commit(offset)

    def _commit(self, offset: int) -> None:
        path = log_path(self._folder, self._kernel.epoch)
        self._reached("taken")
        number = -1
        try:
            record = read_record(self._files, path, offset, self._key)
            assert record is not None  # it was read before it was queued
            number = record.number
            if self._failed is not None:
                raise self._failed
            self._number = number
            self._completing.complete(record, alone=False)
        except Exception as error:  # whatever it is, the kernel has to learn that this commit will not be
            self._fail(number, error)
        self._reached("answered")

    def _fail(self, number: int, error: BaseException) -> None:
        """Make no further commits, and tell the kernel why."""
        if isinstance(error, FileNotFoundError) and self._journal is not None:
            try:
                self._journal.check()
            except DurableError as better:  # the whole history is gone, or somebody else's
                error = better
        self._failed = self._failed or error
        self._tell(b"f", (number, _portable(error)))

    def _append_commit(self, plan: Plan, digests: Sequence[Digest], altered: bool) -> list[Event]:
        """Append the event of a commit and say so, as one step in the order of the journal."""
        with self._order:
            events = self._the_journal().append([plan.draft, *plan.also])
            self._reached("appended")
            self._tell(b"h", (self._number, events, digests, altered))
        return events

    def _tell(self, kind: bytes, what: object) -> None:
        self._channel.send(kind, pickle.dumps(what))
        if self._channel.waiting:
            os.write(self._wake_write, b".")

    # ---- the end -------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._work.put(None)
        while self._worker.is_alive():
            self._worker.join(_BEAT_S)
            if self._worker.is_alive() and self._journal is not None:
                # Kernels on other machines see by this that somebody still writes.
                self._answer(b"z", self._journal.beat)
        if self._journal is None:
            return
        said_goodbye = not self._channel.ended and is_alive(self._kernel) is not False
        if said_goodbye:
            self._journal.close(release=False)
            self._channel.send(b"b", b"")
            return
        if self._failed is None:
            # Otherwise the next kernel finds here what could not be finished.
            for path in (log_path(self._folder, self._kernel.epoch), arena_path(self._folder, self._kernel.epoch)):
                try:
                    self._files.remove(path)
                except FileNotFoundError:
                    continue  # nothing was ever handed over
        endings.note_loss(self._files, self._folder, self._kernel.kernel_id, self._clock.now_us())
        self._journal.close(release=True)


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None where the system has none."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return int(opener(pid))
    except OSError:
        return None


def _portable(error: BaseException) -> BaseException:
    """Return an error that the kernel can unpickle without anything of ours."""
    return error if isinstance(error, DurableError | OSError) else RepositoryError(f"{type(error).__name__}: {error}")


def main() -> None:
    """Run the writer on the socket whose descriptor is the first argument."""
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        # Whoever shuts the machine down sends these to every process: what was handed over is to be finished first.
        signal.signal(number, signal.SIG_IGN)
    sys.setswitchinterval(_SWITCH_S)
    Writer(socket.socket(fileno=int(sys.argv[1]))).run()
