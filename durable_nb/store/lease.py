"""The lease of a workflow: one writer at a time, fenced by an epoch that only grows.

Called by the journal, which takes the lease when it opens to write and asks `check` around every append. When
`acquire` has returned, the claim is durable and every older epoch is refused from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime

from durable_nb.errors import LeaseHeld, RepositoryNotFound, StaleEpoch
from durable_nb.model import Owner
from durable_nb.ports import Clock, Files, TellsFolders
from durable_nb.store.process_identity import is_alive
from durable_nb.store.signing import canonical_json

__all__ = ["GONE", "GRACE_S", "Lease", "current_owner", "holders"]

# A kernel on another host cannot be asked whether it lives. It is respected for so long after its last sign of life.
GRACE_S = 60.0
# How the sentence begins when what was stored is not there any more; whoever shows it can tell it from other trouble.
GONE = "The folder of this notebook's history was removed or moved while this kernel was running"
_CLAIM = ".json"
_RELEASED = ".released"
_BEAT = ".beat"
# A process that holds the lease together with the one that claimed it: the kernel's writer.
_WRITER = ".writer"


def current_owner(files: Files, folder: str) -> Owner | None:
    """Return who holds the lease in this folder (alive or not), None if it was given back or never taken."""
    epoch, released = _newest(files, folder)
    return None if epoch == 0 or released else _read_claim(files, folder, epoch)


def holders(files: Files, folder: str) -> list[Owner]:
    """Return the processes that hold the lease in this folder together, alive or not; none if it was given back.

    The first one claimed it. It is free for the next when none of them runs any more.
    """
    epoch, released = _newest(files, folder)
    if epoch == 0 or released:
        return []
    found = (_read_claim(files, folder, epoch), _read_claim(files, folder, epoch, _WRITER))
    return [owner for owner in found if owner is not None]


class Lease:
    """A claim on one epoch. Whoever creates the file of an epoch owns it; a file of a higher epoch ends the claim."""

    def __init__(self, files: Files, folder: str, owner: Owner) -> None:
        self.owner = owner
        self._files = files
        self._folder = folder
        self._tells = files if isinstance(files, TellsFolders) else None
        self._stamp: object = None  # of the folder, before the last look that found all well
        self._claimed = b""  # our own claim, as it was read last

    @classmethod
    def acquire(
        cls,
        files: Files,
        folder: str,
        owner: Owner,
        *,
        clock: Clock,
        min_epoch: int = 1,
        last_sign: Callable[[], int] = lambda: 0,
        take_over: bool = False,
        alive: Callable[[Owner], bool | None] = is_alive,
    ) -> Lease:
        """Take the lease under a new epoch of at least `min_epoch`; LeaseHeld while somebody else may be writing.

        `last_sign` tells the time of the newest event of the journal; `take_over` ends even a live owner's claim.
        """
        files.make_folder(folder)
        epoch, released = _newest(files, folder)
        if epoch and not released and not take_over:
            beat_us = _read_beat(files, folder, epoch)
            for number, holder in enumerate(holders(files, folder)):
                signs = lambda: max(last_sign(), beat_us)  # noqa: E731  (it is asked rarely, and costs reading)
                _refuse_if_held(holder, owner, clock.now_us(), signs, alive, draining=number > 0)
        now_us = clock.now_us()
        claimed = replace(owner, epoch=max(epoch + 1, min_epoch), since=now_us)
        lease = cls(files, folder, claimed)
        try:
            lease._claim()
        except FileExistsError:
            lease._lost(_read_claim(files, folder, claimed.epoch))
        if _newest(files, folder)[0] > claimed.epoch:
            lease._lost(current_owner(files, folder))
        lease._forget_older()
        return lease

    def may_try(self) -> None:
        """Do what `check` does, unless the folder looks as it did then: for who checks again before anything counts.

        A claim made in the very moment of the last look may have left the folder's time as it was.
        """
        if self._tells is None or self._stamp is None or self._stamp != self._stamp_now():
            self.check()

    def check(self) -> None:
        """Raise StaleEpoch if a newer epoch has been claimed, RepositoryNotFound if our own claim is not there."""
        stamp, self._stamp = self._stamp_now(), None
        newest = _highest(_names(self._files, self._folder) if self._tells is None else self._tells.names(self._folder))
        if newest <= self.owner.epoch:
            self._must_be_there()
            self._stamp = stamp
        if newest > self.owner.epoch:
            holder = _read_claim(self._files, self._folder, newest)
            who = f"process {holder.pid} on {holder.host}" if holder else "another kernel"
            raise StaleEpoch(
                f"This kernel no longer writes to this notebook's history: {who} took it over (epoch {newest}). "
                "Your variables in memory are untouched, and everything stored before is safe.",
                hint="Continue in the other kernel, or restart this one and load the extension to take over again.",
                epoch=self.owner.epoch,
                newer_epoch=newest,
            )

    def _must_be_there(self) -> None:
        """Raise RepositoryNotFound if the folder was removed or moved: an open file takes what nobody will find."""
        path = _path(self._folder, self.owner.epoch, _CLAIM)
        found = _read(self._files, path)
        if found is not None and found == self._claimed:
            return
        claim = None if found is None else _claim_of(found)
        if found is not None and claim is not None and claim.kernel_id == self.owner.kernel_id:
            self._claimed = found
        else:
            raise RepositoryNotFound(
                f"{GONE}, so nothing can be saved there. What is in memory is untouched; what was not loaded yet is "
                "in that folder alone.",
                hint="Put the folder back, and the next cell saves again. Or type `%reload_ext durable_nb`, then run a "
                "durable cell: it begins a new history, with what is in memory.",
            )

    def _stamp_now(self) -> object:
        try:
            return None if self._tells is None else self._tells.stamp(self._folder)
        except OSError:
            return None  # what is wrong with it is found out by looking into it

    def beat(self, now_us: int) -> None:
        """Leave a sign of life for kernels on other hosts; may be called from any thread, promises no durability."""
        fresh = _path(self._folder, self.owner.epoch, ".beating")
        try:
            file = self._files.create(fresh)
        except FileExistsError:
            self._files.remove(fresh)  # left by a beat that the disk refused half-way
            file = self._files.create(fresh)
        try:
            file.write(str(now_us).encode())
        finally:
            file.close()
        self._files.rename(fresh, _path(self._folder, self.owner.epoch, _BEAT))

    def release(self) -> None:
        """Give the lease back, so that the next kernel need not ask whether this one lives."""
        if _newest(self._files, self._folder) != (self.owner.epoch, False):
            return
        # No sync: if a power cut takes the mark away, the process that held the lease is gone as well.
        self._files.create(_path(self._folder, self.owner.epoch, _RELEASED)).close()

    def share(self, other: Owner | None) -> None:
        """Say which process holds the lease together with the one that claimed it; None: no other does any more.

        Not synced: if a power cut takes the note away, the processes that it names are gone as well.
        """
        path, fresh = _path(self._folder, self.owner.epoch, _WRITER), _path(self._folder, self.owner.epoch, ".writing")
        for stale in (fresh, *([path] if other is None else [])):
            try:
                self._files.remove(stale)
            except FileNotFoundError:
                continue  # there was none
        if other is None:
            return
        file = self._files.create(fresh)
        try:
            file.write(canonical_json(asdict(other)) + b"\n")
        finally:
            file.close()
        self._files.rename(fresh, path)

    def _claim(self) -> None:
        file = self._files.create(_path(self._folder, self.owner.epoch, _CLAIM))
        try:
            file.write(canonical_json(asdict(self.owner)) + b"\n")
            file.sync()
        finally:
            file.close()
        self._files.sync_folder(self._folder)

    def _lost(self, holder: Owner | None) -> None:
        raise _held(holder or self.owner, "took the lease at the same moment")

    def _forget_older(self) -> None:
        """Remove claims that nobody needs: an old owner only ever looks for a higher epoch, and that is this one."""
        for name, _ in self._files.list(self._folder):
            epoch = _epoch_of(name)
            if 0 < epoch < self.owner.epoch - 1:
                try:
                    self._files.remove(f"{self._folder}/{name}")
                except FileNotFoundError:
                    continue  # Another kernel tidied up as well.


def _refuse_if_held(
    holder: Owner,
    owner: Owner,
    now_us: int,
    last_sign: Callable[[], int],
    alive: Callable[[Owner], bool | None],
    *,
    draining: bool = False,
) -> None:
    if (holder.kernel_id, holder.pid, holder.process_start) == (owner.kernel_id, owner.pid, owner.process_start):
        # The same kernel loads the extension again without having let go; it is not its own rival.
        return
    state = alive(holder)
    if state is True and draining:
        raise _held(holder, "ended, and its writer is still saving what it was handed", draining=True)
    if state is True:
        raise _held(holder, "is still running")
    if state is None:
        quiet_us = now_us - max(holder.since, last_sign())
        if quiet_us < GRACE_S * 1_000_000:
            raise _held(holder, "runs on another host and wrote less than a minute ago")


def _held(holder: Owner, why: str, *, draining: bool = False) -> LeaseHeld:
    since = datetime.fromtimestamp(holder.since / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return LeaseHeld(
        f"Another kernel writes to this notebook's history: process {holder.pid} on {holder.host}, since {since} "
        f"(kernel {holder.kernel_id}); it {why}. Everything stored is safe and can be read here, nothing is recorded.",
        hint="Try again in a moment." if draining else "Shut the other kernel down and load the extension again.",
        pid=holder.pid,
        host=holder.host,
        since=holder.since,
        kernel_id=holder.kernel_id,
        epoch=holder.epoch,
        draining=draining,
    )


def _path(folder: str, epoch: int, ending: str) -> str:
    return f"{folder}/{epoch:06d}{ending}"


def _epoch_of(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else 0


def _newest(files: Files, folder: str) -> tuple[int, bool]:
    """Return the highest epoch that was claimed and whether it was given back; (0, False) if there is none."""
    names = _names(files, folder)
    epoch = _highest(names)
    return epoch, f"{epoch:06d}{_RELEASED}" in names


def _names(files: Files, folder: str) -> list[str]:
    return [name for name, _ in files.list(folder)]


def _highest(names: Iterable[str]) -> int:
    return max(map(_epoch_of, names), default=0)


def _read_beat(files: Files, folder: str, epoch: int) -> int:
    """Return when the owner of an epoch last gave a sign of life; 0 if it never did."""
    try:
        return int(files.read(_path(folder, epoch, _BEAT)))
    except (FileNotFoundError, ValueError):
        return 0


def _read_claim(files: Files, folder: str, epoch: int, ending: str = _CLAIM) -> Owner | None:
    """Return the owner of an epoch; None if its claim was never completed, so that nobody writes under it."""
    found = _read(files, _path(folder, epoch, ending))
    return None if found is None else _claim_of(found)


def _read(files: Files, path: str) -> bytes | None:
    try:
        return files.read(path)
    except FileNotFoundError:
        return None


def _claim_of(content: bytes) -> Owner | None:
    try:
        return Owner(**json.loads(content))
    except (ValueError, TypeError):
        # The claimer died between creating and writing the file, or is about to find out that it was overtaken.
        return None
