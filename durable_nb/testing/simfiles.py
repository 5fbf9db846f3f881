"""A simulated disk behind `ports.Files`: it knows what was written and what was synced, and can lose the difference.

Used by the fault tests, and by anyone who tests an implementation on top of `Files`. Nothing is durable but what
`sync` and `sync_folder` promised: `crash(rng)` returns the disk as a machine may find it after a power cut. The model
is SQLite's `test6.c`: unsynced data is lost in part, torn at any byte, or replaced by zeros; unsynced names are lost
or kept one by one; a rename is atomic. A failed sync drops what it should have made durable, as Linux does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from durable_nb.errors import UsageError
from durable_nb.ports import WritableFile

__all__ = ["SimFiles", "SimulatedCrash"]

READING = frozenset({"read", "list"})
_PAGE_BYTES = 4096


class SimulatedCrash(BaseException):
    """The simulated machine lost power; a BaseException so that no handler of the code under test survives it."""


@dataclass(slots=True)
class _Inode:
    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    # Below this length `content` is what `synced` is; a truncation lowers it, a sync raises it.
    same_below: int = 0
    # What a failed sync dropped from the cache: later syncs do not bring it to the disk unless it is written again.
    dropped: list[tuple[int, int]] = field(default_factory=list)

    def sync(self) -> None:
        durable = bytearray(self.content)
        for start, stop in self.dropped:
            durable[start:stop] = bytes(len(durable[start:stop]))
        self.synced = bytes(durable)
        self.same_below = len(self.content)

    def drop(self) -> None:
        if self.same_below < len(self.content):
            self.dropped.append((self.same_below, len(self.content)))

    def truncate(self, size_bytes: int) -> None:
        del self.content[size_bytes:]
        self.same_below = min(self.same_below, size_bytes)
        self.dropped = [(start, min(stop, size_bytes)) for start, stop in self.dropped if start < size_bytes]

    def after_crash(self, rng: random.Random) -> bytes:
        base, old = self.synced[: self.same_below], self.synced[self.same_below :]
        new = bytearray(self.content[self.same_below :])
        if bytes(new) == old:
            return self.synced
        choice = rng.random()
        if choice < 0.25:
            return base + old
        if choice < 0.4:
            return base + bytes(new)
        new = new[: rng.randint(0, len(new))]
        if rng.random() < 0.4:
            # The length reached the disk and some pages did not: they read as zeros.
            for start in range(0, len(new), _PAGE_BYTES):
                if rng.random() < 0.5:
                    new[start : start + _PAGE_BYTES] = bytes(len(new[start : start + _PAGE_BYTES]))
        return base + bytes(new)


@dataclass(frozen=True, slots=True)
class _Change:
    """One unsynced change of a name: what it holds afterwards, and for a rename where the file went."""

    path: str
    inode: _Inode | None
    moved_to: str | None = None
    moved: _Inode | None = None


class SimFiles:
    """An in-memory disk with an operation counter, faults on demand and a crash."""

    def __init__(self, *, ignore_file_sync: bool = False, ignore_folder_sync: bool = False) -> None:
        self.ignore_file_sync = ignore_file_sync
        self.ignore_folder_sync = ignore_folder_sync
        self.operations: list[str] = []
        self._rng = random.Random(0)
        self._names: dict[str, _Inode] = {}
        self._durable: dict[str, _Inode] = {}
        self._pending: list[_Change] = []
        self._folders: set[str] = {""}
        self._fail: tuple[int, OSError] | None = None
        self._crash_at: int | None = None
        self._dead = False

    # Faults.

    def fail_at(self, n: int, error: OSError) -> None:
        """Let the `n`-th operation from now on (1 is the next) raise `error`, a write after doing a part of it."""
        self._fail = (len(self.operations) + n, error)

    def crash_at(self, n: int, *, seed: int = 0) -> None:
        """Let the machine lose power within the `n`-th operation from now on; `seed` decides how far it gets."""
        self._crash_at = len(self.operations) + n
        self._rng = random.Random(seed)

    def crash(self, rng: random.Random) -> SimFiles:
        """Return the disk as it may be found after a power cut now; this one is unusable afterwards."""
        self._dead = True
        found = SimFiles(ignore_file_sync=self.ignore_file_sync, ignore_folder_sync=self.ignore_folder_sync)
        found._folders = set(self._folders)
        contents: dict[int, bytes] = {}
        for path, inode in self._surviving_names(rng).items():
            content = contents.setdefault(id(inode), inode.after_crash(rng))
            # Two names of one file do not stay linked: nothing here ever writes through one and reads the other.
            survivor = _Inode(bytearray(content), content, len(content))
            found._names[path] = found._durable[path] = survivor
        return found

    def copy_before_crash(self, seed: int) -> SimFiles:
        """Return the disk as it may be found after a power cut now, and stay usable."""
        found = self.crash(random.Random(seed))
        self._dead = False
        return found

    def copy(self) -> SimFiles:
        """Return an independent disk with the same, now wholly durable, content."""
        twin = SimFiles(ignore_file_sync=self.ignore_file_sync, ignore_folder_sync=self.ignore_folder_sync)
        twin._folders = set(self._folders)
        for path, inode in self._names.items():
            content = bytes(inode.content)
            twin._names[path] = twin._durable[path] = _Inode(bytearray(content), content, len(content))
        return twin

    def snapshot(self) -> dict[str, bytes]:
        """Return every file's present content by path, for comparisons."""
        return {path: bytes(inode.content) for path, inode in sorted(self._names.items())}

    def damage(self, path: str, offset: int, mask: int = 0x01) -> None:
        """Flip the bits of `mask` in one byte of a file, durably (`offset` may be negative)."""
        inode = self._names[path]
        inode.content[offset] ^= mask
        inode.synced = bytes(inode.content)

    def replace(self, path: str, content: bytes) -> None:
        """Give a file another content, durably."""
        self._names[path] = self._durable[path] = _Inode(bytearray(content), content, len(content))

    # The port.

    def create(self, path: str) -> WritableFile:
        """Create a new file; FileExistsError if the name is taken."""
        self._check(path)
        self._operation("create", lambda: self._create(path))
        return _SimWritable(self, path, self._names[path])

    def append(self, path: str) -> WritableFile:
        """Open an existing file so that writes go behind its last byte."""
        self._operation("append", lambda: None)
        return _SimWritable(self, path, self._inode(path))

    def read(self, path: str, offset: int = 0, size_bytes: int | None = None) -> bytes:
        """Return the bytes from `offset`, fewer at the end."""
        self._check(path)
        self._operation("read", lambda: None)
        stop = None if size_bytes is None else offset + size_bytes
        return bytes(memoryview(self._inode(path).content)[offset:stop])

    def list(self, path: str) -> Sequence[tuple[str, int]]:
        """Return (name, size; -1 for a folder), sorted; empty if there is no such folder."""
        self._operation("list", lambda: None)
        prefix = f"{path}/" if path not in {"", "."} else ""
        found = {p[len(prefix) :]: len(i.content) for p, i in self._names.items() if p.startswith(prefix)}
        folders = {p[len(prefix) :]: -1 for p in self._folders if p and p.startswith(prefix)}
        return sorted((name, size) for name, size in {**found, **folders}.items() if "/" not in name)

    def rename(self, source: str, target: str) -> None:
        """Replace `target` atomically; durable after `sync_folder` of its folder."""
        self._check(target)
        self._operation("rename", lambda: self._rename(source, target))

    def remove(self, path: str) -> None:
        """Take a name away; FileNotFoundError if it is not there."""
        self._operation("remove", lambda: self._remove(path))

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents, durably."""
        self._operation("make_folder", lambda: self._make_folder(path))

    def sync_folder(self, path: str) -> None:
        """Make creations, renames and removals in this folder durable."""
        if (path if path != "." else "") not in self._folders:
            raise FileNotFoundError(path)
        self._operation("sync_folder", lambda: self._sync_folder(path))

    # How it works.

    def _operation(self, kind: str, effect: Callable[[], None], partial: Callable[[], None] | None = None) -> None:
        if self._dead:
            raise SimulatedCrash
        self.operations.append(kind)
        count = len(self.operations)
        if count == self._crash_at:
            self._dead = True
            if self._rng.random() < 0.5:
                (effect if partial is None else partial)()
            raise SimulatedCrash
        if self._fail is not None and count == self._fail[0]:
            if partial is not None:
                partial()
            error = self._fail[1]
            self._fail = None
            raise error
        effect()

    def _check(self, path: str) -> None:
        parts = path.split("/")
        if any(part in {"", ".", ".."} or "\\" in part or "\0" in part or ":" in part for part in parts):
            raise UsageError(f"The path {path!r} leads out of the repository; nothing was read or written.")

    def _inode(self, path: str) -> _Inode:
        if path not in self._names:
            raise FileNotFoundError(path)
        return self._names[path]

    def _create(self, path: str) -> None:
        if path in self._names or path in self._folders:
            raise FileExistsError(path)
        if _parent(path) not in self._folders:
            raise FileNotFoundError(path)
        inode = _Inode()
        self._names[path] = inode
        self._pending.append(_Change(path, inode))

    def _rename(self, source: str, target: str) -> None:
        inode = self._inode(source)
        if _parent(target) not in self._folders:
            raise FileNotFoundError(target)
        del self._names[source]
        self._names[target] = inode
        self._pending.append(_Change(target, inode))
        self._pending.append(_Change(source, None, target, inode))

    def _remove(self, path: str) -> None:
        self._inode(path)
        del self._names[path]
        self._pending.append(_Change(path, None))

    def _make_folder(self, path: str) -> None:
        while path and path != ".":
            if path in self._names:
                raise FileExistsError(path)
            self._folders.add(path)
            path = _parent(path)

    def _sync_folder(self, path: str) -> None:
        if self.ignore_folder_sync:
            return
        folder = "" if path == "." else path
        remaining: list[_Change] = []
        for change in self._pending:
            if _parent(change.path) != folder:
                remaining.append(change)
            elif change.inode is None:
                self._durable.pop(change.path, None)
                if change.moved_to is not None and self._names.get(change.moved_to) is change.moved is not None:
                    # A rename is atomic: its source cannot be durably gone while its target is not there.
                    self._durable[change.moved_to] = change.moved
            else:
                self._durable[change.path] = change.inode
        self._pending = remaining

    def _surviving_names(self, rng: random.Random) -> dict[str, _Inode]:
        """Apply an arbitrary subset of the unsynced changes, in order; a file that moved is never at neither place."""
        names = dict(self._durable)
        keep = rng.choice((0.1, 0.5, 0.9))
        for change in self._pending:
            if rng.random() >= keep:
                continue
            if change.inode is not None:
                names[change.path] = change.inode
            elif change.moved_to is None or names.get(change.moved_to) is change.moved:
                names.pop(change.path, None)
        return names


class _SimWritable:
    """An open file of the simulated disk."""

    def __init__(self, disk: SimFiles, path: str, inode: _Inode) -> None:
        self._disk, self._path, self._inode = disk, path, inode
        self._closed = False

    def write(self, data: bytes | memoryview) -> None:
        """Append all of `data`, or an unknown part of it when a fault is due."""
        content = bytes(data)
        part = self._disk._rng.randint(0, len(content))
        self._do(
            "write", lambda: self._inode.content.extend(content), lambda: self._inode.content.extend(content[:part])
        )

    def sync(self) -> None:
        """Make the content durable; when it fails, what was unsynced stays undurable even after a later sync."""
        self._do("sync", self._sync, self._inode.drop)

    def truncate(self, size_bytes: int) -> None:
        """Cut to the first `size_bytes` bytes."""
        self._do("truncate", lambda: self._inode.truncate(size_bytes))

    def close(self) -> None:
        """Release the handle."""
        self._closed = True

    def _sync(self) -> None:
        if not self._disk.ignore_file_sync:
            self._inode.sync()

    def _do(self, kind: str, effect: Callable[[], None], partial: Callable[[], None] | None = None) -> None:
        if self._closed:
            raise ValueError(f"write to closed file {self._path}")
        self._disk._operation(kind, effect, partial)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
