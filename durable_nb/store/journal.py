"""The journal of one workflow: append events in order and durably, and read back the ones that are true.

Called by the repository and the engine. When `append` has returned, its events are durable, together, and no writer
with an older epoch can follow them; when it raised OSError, none of them is true.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from durable_nb.errors import RepositoryError, RepositoryNotFound, StaleEpoch, UsageError
from durable_nb.model import SCHEMA_VERSION, Event, EventDraft, Json, Owner, Problem
from durable_nb.ports import Clock, Files, WritableFile
from durable_nb.store.journal_lines import encode_line
from durable_nb.store.journal_reader import Head, JournalReader, Segment, segments
from durable_nb.store.lease import Lease
from durable_nb.store.process_identity import is_alive
from durable_nb.store.signing import SigningKey

__all__ = ["ROTATE_BYTES", "FileJournal", "Lent", "journal_digests"]

# A file above this size is continued in a new one.
ROTATE_BYTES = 64 * 1024 * 1024
# The name of the key stands near the start of a line.
_PEEK_BYTES = 4096
_KERNEL_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """Where a journal goes on: lent by the process that holds the lease to another one that holds it as well."""

    owner: Owner
    file: str  # empty: a new one is begun
    number: int
    size_bytes: int
    head: Head


def _accept_nothing(digest: str) -> bool:
    return False


def journal_digests(files: Files, folder: str) -> list[str]:
    """Return the SHA-256 of each journal file as it is now: what `durable-nb trust` records."""
    return [hashlib.sha256(files.read(f"{folder}/{segment.name}")).hexdigest() for segment in segments(files, folder)]


class FileJournal:
    """Implements `ports.Journal` on files, one per writer; appends may come from several threads."""

    def __init__(
        self,
        files: Files,
        folder: str,
        *,
        workflow_id: str,
        key: SigningKey,
        clock: Clock,
        lease: Lease | None,
        trust: bool,
        accepts: Callable[[str], bool],
        rotate_bytes: int = ROTATE_BYTES,
    ) -> None:
        self._files = files
        self._folder = folder
        self._workflow_id = workflow_id
        self._key = key
        self._clock = clock
        self._lease = lease
        self._trust = trust
        self._accepts = accepts
        self._rotate_bytes = rotate_bytes
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._problems: list[Problem] = []
        self._head: Head | None = None
        self._file: WritableFile | None = None
        self._name = ""
        self._number = 0
        self._size_bytes = 0
        # True while bytes behind `_size_bytes` may be in the file that no reader must ever find followed by others.
        self._dirty = False
        self._unsynced = False
        self._closed = False
        self._lent = False
        self._unsettled = False

    @classmethod
    def continued(
        cls, files: Files, folder: str, lent: Lent, *, workflow_id: str, key: SigningKey, clock: Clock
    ) -> FileJournal:
        """Go on with a journal that was lent to this process, under the lease that both hold."""
        lease = Lease(files, f"{folder.rpartition('/')[0]}/leases".lstrip("/"), lent.owner)
        journal = cls(
            files,
            folder,
            workflow_id=workflow_id,
            key=key,
            clock=clock,
            lease=lease,
            trust=False,
            accepts=_accept_nothing,
        )
        journal._head, journal._number, journal._size_bytes = lent.head, lent.number, lent.size_bytes
        if lent.file:
            journal._file, journal._name = files.append(f"{folder}/{lent.file}"), lent.file
        return journal

    @classmethod
    def open(
        cls,
        files: Files,
        folder: str,
        *,
        workflow_id: str,
        key: SigningKey,
        clock: Clock,
        kernel_id: str,
        owner: Owner | None,
        trust: bool = False,
        accepts: Callable[[str], bool] = _accept_nothing,
        take_over: bool = False,
        alive: Callable[[Owner], bool | None] = is_alive,
        rotate_bytes: int = ROTATE_BYTES,
    ) -> FileJournal:
        """Open the journal in `folder`: to write under a new epoch if `owner` is given, else to read.

        Raises LeaseHeld while another kernel may be writing; `take_over` ends its claim. `accepts` says whether the
        user trusts a foreign file with this SHA-256, `trust` accepts every foreign file.
        """
        if not _KERNEL_ID.fullmatch(kernel_id):
            raise UsageError(f"The kernel id {kernel_id!r} is not made of letters, digits, - and _ only.")
        journal = cls(
            files,
            folder,
            workflow_id=workflow_id,
            key=key,
            clock=clock,
            lease=None,
            trust=trust,
            accepts=accepts,
            rotate_bytes=rotate_bytes,
        )
        if owner is None:
            return journal
        present = segments(files, folder)
        journal._refuse_foreign(present)
        files.make_folder(folder)
        journal._lease = Lease.acquire(
            files,
            f"{folder.rpartition('/')[0]}/leases".lstrip("/"),
            owner,
            clock=clock,
            min_epoch=max((segment.epoch for segment in present), default=0) + 1,
            last_sign=lambda: journal._find_head().timestamp,
            take_over=take_over,
            alive=alive,
        )
        journal._head = None
        try:
            journal._settle_predecessor()
        except BaseException:
            journal.close()
            raise
        return journal

    @property
    def owner(self) -> Owner | None:
        """The lease this journal writes under; None when it was opened to read."""
        return self._lease.owner if self._lease else None

    @property
    def problems(self) -> list[Problem]:
        """What the last complete reading found damaged, missing or torn."""
        return list(self._problems)

    def read(self, after_seq: int = 0) -> Iterator[Event]:
        """Yield the trusted events in order of `seq`, from the first one behind `after_seq`."""
        reader = self._reader()
        for event in reader.events():
            if event.seq > after_seq:
                yield event
        self._problems = reader.problems
        with self._lock:
            if self._head is None:
                self._head = reader.head

    def append(self, drafts: Sequence[EventDraft], *, sync: bool = True) -> list[Event]:
        """Make the events durable, in order and together, and return them; on OSError none of them is true.

        Without `sync` they outlive the process, and the machine from the next append or `sync` on.
        """
        with self._lock:
            lease = self._writable_lease()
            lease.may_try()
            self._settle()
            head = self._head or self._find_head()
            data, events, after = self._encode(drafts, head, lease.owner)
            if not events:
                return events
            file = self._open_for(len(data))
            self._dirty = True
            try:
                file.write(data)
                self._unsynced = not sync
                if sync:
                    file.sync()
                # Whoever took the lease over did so before it read this file: if no newer epoch is there now, the
                # next owner will find these lines, and they count. If one is there, it may not have seen them.
                lease.check()
                self._size_bytes += len(data)
                self._head = after
                self._dirty = False
            except BaseException:
                # Also when interrupted: whatever is behind the last good byte must not be followed by a good line.
                self._clean_up()
                raise
            return events

    def sync(self) -> None:
        """Make durable what was appended without; on OSError it may not be."""
        with self._lock:
            self._sync()

    def _sync(self) -> None:
        if self._unsynced and self._file is not None:
            self._unsynced = False
            self._file.sync()

    def lend(self) -> Lent:
        """Leave the writing to another process until `take_back`; what was appended so far is durable."""
        with self._lock:
            lease = self._writable_lease()
            lease.check()
            if self._dirty:
                self._clean_up()
            head = self._head or self._find_head()
            lent = Lent(
                owner=lease.owner,
                file=self._name if self._file is not None else "",
                number=self._number,
                size_bytes=self._size_bytes if self._file is not None else 0,
                head=head,
            )
            self._lent = True
            if self._file is not None:
                self._abandon_file()
            return lent

    def check(self) -> None:
        """Raise if this history is not there any more, or somebody else has taken its lease."""
        if self._lease is not None:
            self._lease.check()

    def share(self, other: Owner | None) -> None:
        """Say beside the lease which process holds it as well; None: no other does any more."""
        if self._lease is not None:
            self._lease.share(other)

    def take_back(self) -> None:
        """Write here again, in a new file: the process that it was lent to has ended, or has promised to write no more.

        What that process appended is durable when this returns, and counts.
        """
        with self._lock:
            self._lent, self._unsettled = False, True
            self._head = None
            # The other process may have begun files of its own; a name is never used twice.
            self._file, self._size_bytes, self._dirty = None, 0, False
            self._settle()

    def close(self, *, release: bool = True) -> None:
        """Stop writing; with `release` give the lease back, else leave it to be taken over."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._dirty:
                self._clean_up()
            if self._file is not None:
                self._sync()
                self._file.close()
                self._file = None
            if release and self._lease is not None:
                self._lease.release()

    def beat(self) -> None:
        """Leave a sign of life beside the lease; nothing if this journal is read or closed."""
        if self._lease is not None and not self._closed:
            self._lease.beat(self._clock.now_us())

    def _writable_lease(self) -> Lease:
        if self._lease is None or self._closed:
            raise RepositoryError(
                "This notebook's history is open for reading only; nothing was recorded.",
                hint="Load the extension again to write.",
            )
        if self._lent:
            raise RepositoryError("The writer of this kernel records at present; nothing was recorded here.")
        if os.getpid() != self._pid:
            raise StaleEpoch(
                "A forked child of the kernel tried to record something; only the kernel itself does. "
                "Everything stored is safe.",
                hint="Use the %durable commands in the kernel's own process.",
            )
        return self._lease

    def _refuse_foreign(self, present: Sequence[Segment]) -> None:
        """Raise Untrusted before anything is changed, the lease included, if a file names another key than ours."""
        ours = f'"key":"{self._key.key_id}"'.encode()
        if any(
            ours not in self._files.read(f"{self._folder}/{segment.name}", 0, _PEEK_BYTES)
            for segment in present
            if segment.size_bytes
        ):
            # It may be damage as well; only reading it all can tell.
            self._find_head()

    def _settle(self) -> None:
        if self._unsettled:
            self._settle_predecessor()
            self._unsettled = False

    def _settle_predecessor(self) -> None:
        """Make durable what the last writer left: it may have died between a write and its sync, and we build on it."""
        present = [segment for segment in segments(self._files, self._folder) if segment.size_bytes]
        if present:
            file = self._files.append(f"{self._folder}/{present[-1].name}")
            try:
                file.sync()
            finally:
                file.close()
            self._files.sync_folder(self._folder)

    def _reader(self) -> JournalReader:
        return JournalReader(
            self._files,
            self._folder,
            workflow_id=self._workflow_id,
            key=self._key,
            trust=self._trust,
            accepts=self._accepts,
        )

    def _find_head(self) -> Head:
        reader = self._reader()
        for _ in reader.events():
            pass
        self._problems = reader.problems
        self._head = reader.head
        return reader.head

    def _encode(self, drafts: Sequence[EventDraft], head: Head, owner: Owner) -> tuple[bytes, list[Event], Head]:
        lines, events = [], []
        for index, draft in enumerate(drafts, 1):
            now_us = self._clock.now_us()
            metadata = dict(draft.metadata)
            if now_us < head.timestamp:
                # Time never runs backwards in a history; how far the clock had been set back is kept beside it.
                metadata["clock_skew_us"] = head.timestamp - now_us
            place: dict[str, Json] = {
                "epoch": owner.epoch,
                "event_id": f"{owner.epoch}-{head.seq + 1}",
                "kernel_id": owner.kernel_id,
                "metadata": metadata,
                "schema_version": SCHEMA_VERSION,
                "seq": head.seq + 1,
                "timestamp": max(now_us, head.timestamp),
                "workflow_id": self._workflow_id,
            }
            line, event = encode_line(draft, place, prev=head.hash, batch=(index, len(drafts)), key=self._key)
            lines.append(line)
            events.append(event)
            head = Head(hash=event.hash, seq=event.seq, timestamp=event.timestamp)
        return b"".join(lines), events, head

    def _open_for(self, size_bytes: int) -> WritableFile:
        """Return the file to append to, clean up to its last good byte; a new one if need be."""
        if self._dirty:
            self._clean_up()
        if self._file is not None and self._size_bytes and self._size_bytes + size_bytes > self._rotate_bytes:
            self._sync()
            self._abandon_file()
        while self._file is None:
            number, owner = self._number, self._writable_lease().owner
            suffix = f".{number}" if number else ""
            # A number is never used twice: what an earlier, failed attempt left under it stays behind.
            self._number += 1
            name = f"{owner.epoch:06d}-{owner.kernel_id}{suffix}.ndjson"
            try:
                file = self._files.create(f"{self._folder}/{name}")
            except FileExistsError:
                continue
            try:
                self._files.sync_folder(self._folder)
            except OSError:
                file.close()
                raise
            self._file, self._name, self._size_bytes = file, name, 0
        return self._file

    def _clean_up(self) -> None:
        """Cut the file back to its last good byte; where that fails or is not ours to do, never write to it again."""
        try:
            if self._file is not None and self._lease is not None:
                # A newer owner may have read what is there and continued from it: then it must stay.
                self._lease.check()
                self._file.truncate(self._size_bytes)
                self._file.sync()
        except (OSError, StaleEpoch, RepositoryNotFound):
            # The caller already raises what went wrong first. The next append opens a new file, whose first line
            # chains to the last good one, and so says that nothing behind it counts.
            self._abandon_file()
        self._dirty = False

    def _abandon_file(self) -> None:
        file, self._file = self._file, None
        self._dirty = False
        if file is not None:
            file.close()
