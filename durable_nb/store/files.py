"""The local file system behind `ports.Files`: the only module that opens for writing, syncs, renames or removes.

Called by the store's other modules with paths relative to the repository root. When `sync` and `sync_folder` have
returned, what they promise survives a power cut, as far as the operating system and the disk tell the truth.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Sequence
from io import RawIOBase
from pathlib import Path

from durable_nb.errors import UsageError
from durable_nb.ports import WritableFile
from durable_nb.store.mapping import can_map, is_local, map_pages, populate

__all__ = ["LocalFiles", "LocalSpace"]

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_WINDOWS = os.name == "nt"
# `O_BINARY` exists on Windows only, `O_CLOEXEC` and `O_NOFOLLOW` elsewhere; a missing flag is no flag.
_COMMON_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
# Linux transfers at most 0x7ffff000 bytes per write; smaller pieces also keep an interrupt prompt.
_WRITE_BYTES = 64 * 1024 * 1024
_PIECES = 1024  # a call of the system takes no more


class LocalFiles:
    """A folder of the local file system; folders are made 0700 and files 0600."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(os.path.abspath(root))
        self._root = str(self.root)

    def __repr__(self) -> str:
        return f"LocalFiles({str(self.root)!r})"

    def create(self, path: str) -> WritableFile:
        """Create a new file for writing; FileExistsError if the name is taken."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON_FLAGS
        return _LocalWritable(os.open(self._full(path), flags, _FILE_MODE))

    def append(self, path: str) -> WritableFile:
        """Open an existing file so that writes go behind its last byte."""
        return _LocalWritable(os.open(self._full(path), os.O_WRONLY | os.O_APPEND | _COMMON_FLAGS))

    def space(self, path: str) -> LocalSpace:
        """Open a file, made if need be, to be written at any place, again and again."""
        return LocalSpace(os.open(self._full(path), os.O_WRONLY | os.O_CREAT | _COMMON_FLAGS, _FILE_MODE))

    def read(self, path: str, offset: int = 0, size_bytes: int | None = None) -> bytes:
        """Return the bytes from `offset`, fewer at the end."""
        with open(self._full(path), "rb", buffering=0) as file:
            if offset:
                file.seek(offset)
            if size_bytes is None:
                return file.readall()
            return _read_up_to(file.fileno(), size_bytes)

    def read_into(self, path: str, offset: int, parts: Sequence[bytearray | memoryview]) -> int:
        """Fill the parts one after the other with the bytes from `offset`; return how many there were."""
        with open(self._full(path), "rb", buffering=0) as file:
            if hasattr(os, "preadv"):
                count = os.preadv(file.fileno(), parts, offset)
                if count == sum(map(len, parts)):
                    return count
            # The system gave less than it was asked for, or cannot read into several places.
            file.seek(offset)
            return sum(_read_all_into(file, memoryview(part)) for part in parts)

    def map_into(self, path: str, offset: int, memory: memoryview, start: int, size_bytes: int) -> bool:
        """Let bytes of a file that never changes be those of `memory`; False where that cannot be."""
        address = can_map(memory) if is_local(self._root) else None
        if address is None:
            return False
        with open(self._full(path), "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size < offset + size_bytes:
                return False
            pages = map_pages(file.fileno(), offset, address + start, size_bytes)
            if pages is None:
                return False
            for first, last in ((0, pages[0]), (pages[1], size_bytes)):
                file.seek(offset + first)
                if _read_all_into(file, memory[start + first : start + last]) != last - first:
                    raise OSError(errno.EIO, "a file became shorter while it was read")
        return True

    def fetch(self, mapped: memoryview) -> None:
        """Have mapped bytes read by now; OSError where the file does not give them."""
        populate(mapped)

    def list(self, path: str) -> Sequence[tuple[str, int]]:
        """Return (name, size; -1 for a folder), sorted; empty if there is no such folder."""
        found: list[tuple[str, int]] = []
        try:
            entries = os.scandir(self._full(path))
        except FileNotFoundError:
            return found
        with entries:
            for entry in entries:
                try:
                    size_bytes = -1 if entry.is_dir() else entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    # Another process removed it between the listing and the question: it is not there.
                    continue
                found.append((entry.name, size_bytes))
        return sorted(found)

    def names(self, path: str) -> Sequence[str]:
        """Return the names in a folder, in any order; empty if there is no such folder."""
        try:
            return os.listdir(self._full(path))
        except FileNotFoundError:
            return []

    def stamp(self, path: str) -> object:
        """Return what changes when a name comes or goes, as soon as the clock of the file system has moved."""
        found = os.stat(self._full(path))
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)

    def rename(self, source: str, target: str) -> None:
        """Replace `target` atomically; durable after `sync_folder` of its folder."""
        os.replace(self._full(source), self._full(target))

    def remove(self, path: str) -> None:
        """Take a name away; FileNotFoundError if it is not there."""
        os.unlink(self._full(path))

    def make_folder(self, path: str) -> None:
        """Create a folder and its missing parents, each durable in its own parent."""
        self._make(Path(self._full(path)))

    def sync_folder(self, path: str) -> None:
        """Return only when creations, renames and removals in this folder are durable."""
        _sync_directory(self._full(path))

    def _make(self, folder: Path) -> None:
        if folder.is_dir():
            return
        if folder != self.root:
            self._make(folder.parent)
        try:
            os.mkdir(folder, _FOLDER_MODE)
        except FileExistsError:
            if not folder.is_dir():
                raise
        _sync_directory(str(folder.parent))

    def _full(self, path: str) -> str:
        """Return the absolute path; refuse one that could lead out of the root."""
        if path in {"", "."}:
            return self._root
        if not _stays_inside(path):
            raise UsageError(f"The path {path!r} leads out of the repository; nothing was read or written.")
        return os.path.join(self._root, path)


@functools.lru_cache(maxsize=256)
def _stays_inside(path: str) -> bool:
    """Tell whether a path leads to something below where it starts; a few paths are asked about again and again."""
    parts = path.split("/")
    return not any(part in {"", ".", ".."} or "\\" in part or "\0" in part or ":" in part for part in parts)


class _Descriptor:
    """A file descriptor, as long as it is of the file that was opened.

    The notebook's code may close all that there are (`os.closerange`), and the next file that it opens gets the number:
    nothing of ours is to be written there, and nothing of its to be cut or closed by us.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._file = _identity(descriptor)

    def _ours(self) -> int:
        if self._descriptor < 0 or _identity(self._descriptor) != self._file:
            raise OSError(errno.EBADF, "a file of the history was closed by other code of this process")
        return self._descriptor

    def close(self) -> None:
        """Release the handle; calling it twice is fine."""
        try:
            descriptor = self._ours()
        except OSError:
            return
        finally:
            self._descriptor = -1
        os.close(descriptor)


class _LocalWritable(_Descriptor):
    """An open file descriptor that only appends."""

    def write(self, data: bytes | memoryview) -> None:
        """Append all of `data`; the operating system may take it in pieces."""
        view, descriptor = memoryview(data).cast("B"), self._ours()
        while view:
            view = view[os.write(descriptor, view[:_WRITE_BYTES]) :]

    def write_together(self, parts: Sequence[bytes | memoryview]) -> None:
        """Append all of the pieces by one call of the system, if it takes them all."""
        left, descriptor = [memoryview(part).cast("B") for part in parts], self._ours()
        while left and hasattr(os, "writev"):
            written = os.writev(descriptor, left[:_PIECES])
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if written:
                left[0] = left[0][written:]
        for part in left:
            self.write(part)

    def sync(self) -> None:
        """Return only when everything written is durable."""
        _sync_data(self._ours())

    def truncate(self, size_bytes: int) -> None:
        """Cut to the first `size_bytes` bytes; later writes append there."""
        descriptor = self._ours()
        os.ftruncate(descriptor, size_bytes)
        os.lseek(descriptor, 0, os.SEEK_END)


class LocalSpace(_Descriptor):
    """A file that is written at any place and never synced: what is in it outlives the process, not the machine."""

    def write_at(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of `data` from `offset` on; OSError with an unknown part of it written."""
        view, descriptor = memoryview(data).cast("B"), self._ours()
        while view:
            written = os.pwrite(descriptor, view[:_WRITE_BYTES], offset)
            view, offset = view[written:], offset + written

    def cut(self, size_bytes: int) -> None:
        """Give the disk back what lies behind `size_bytes`; a file that is no longer stays as it is."""
        descriptor = self._ours()
        if os.fstat(descriptor).st_size > size_bytes:
            os.ftruncate(descriptor, size_bytes)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _read_all_into(file: RawIOBase, part: memoryview) -> int:
    count = 0
    while count < len(part) and (more := file.readinto(part[count:])):
        count += more
    return count


def _read_up_to(descriptor: int, size_bytes: int) -> bytes:
    pieces: list[bytes] = []
    missing = size_bytes
    while missing > 0:
        piece = os.read(descriptor, missing)
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _sync_data(descriptor: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        try:
            # On macOS fsync does not reach the platter; F_FULLFSYNC does, where the file system knows it.
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in {errno.ENOTSUP, errno.EINVAL, errno.ENOTTY}:
                raise
            os.fsync(descriptor)
    elif sys.platform.startswith("linux"):
        # fdatasync writes the data and the new length, which is all that an append-only file needs.
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _sync_directory(folder: str) -> None:
    if _WINDOWS:
        # Windows cannot open a folder for syncing; NTFS journals its metadata by itself.
        return
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and FUSE file systems answer EINVAL because they have nothing to sync for a folder.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
