"""The pages of a file in the place of pages of memory: read without a copy, written to privately (Linux with glibc).

Called by `LocalFiles.map_into` and by `Workflow.own`. Memory that was mapped belongs to who allocated it, as before,
and is given back like any other. What cannot be mapped safely is refused, and nothing has changed.
"""

from __future__ import annotations

import mmap
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

__all__ = ["PAGE", "can_map", "is_local", "map_pages", "own", "populate"]

# What a system call returns where it fails, an address that is none.
_FAILED = (1 << 64) - 1
PAGE = 4096
_FIXED, _POPULATE_READ, _POPULATE_WRITE, _ASYNC = 0x10, 22, 23, 1
_WORD = 8
_HEADER = 2 * _WORD  # of a block of glibc
_IS_MAPPED = 2
_FLAGS = 7
# File systems of this machine: elsewhere a file may vanish or change under a mapping, which ends the process.
_LOCAL = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
_OCTAL = re.compile(r"\\([0-7]{3})")  # a blank in the name of a folder


@dataclass(frozen=True, slots=True)
class _Calls:
    """The system's calls; each lets other threads run meanwhile."""

    map: Callable[..., int | None]
    advise: Callable[..., int]
    sync: Callable[..., int]
    error: Callable[[], int]
    at: Callable[[int], int]
    address: Callable[[memoryview], int]


@cache
def _calls() -> _Calls | None:
    """Return the system's calls, None where this is not a Linux whose C library and kernel are known to do."""
    if not sys.platform.startswith("linux") or sys.maxsize < _FAILED >> 1 or mmap.PAGESIZE != PAGE:
        return None
    if sys.byteorder != "little" or not _has_glibc():
        return None
    try:
        import ctypes
    except ImportError:
        return None
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    library.madvise.argtypes = library.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    calls = _Calls(
        map=library.mmap,
        advise=library.madvise,
        sync=library.msync,
        error=ctypes.get_errno,
        at=lambda address: int(ctypes.c_uint64.from_address(address).value),
        address=lambda view: ctypes.addressof(ctypes.c_char.from_buffer(view)),
    )
    return calls if _proved(calls) else None


def _has_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, OSError, ValueError):
        return False


def _proved(calls: _Calls) -> bool:
    """Tell whether this kernel reads pages in, and makes them private, when it is told to (since 5.14)."""
    with mmap.mmap(-1, PAGE) as page, memoryview(page) as view:
        address = calls.address(view)
        found = [calls.advise(address, PAGE, how) for how in (_POPULATE_READ, _POPULATE_WRITE)]
    return found == [0, 0]


def can_map(memory: memoryview) -> int | None:
    """Return the address of memory whose pages may be replaced, None if they may not.

    They may if the block is one that glibc has mapped for itself alone, and will unmap as a whole: its header, in the
    first page, says so, and that page stays.
    """
    calls = _calls()
    if calls is None or memory.readonly or not memory.contiguous:
        return None
    address = calls.address(memory)
    if address % PAGE != _HEADER:
        return None
    size, before = calls.at(address - _WORD), calls.at(address - _HEADER)
    whole = size & ~_FLAGS
    if before or size & _FLAGS != _IS_MAPPED or whole % PAGE or not 0 <= whole - _HEADER - memory.nbytes < 2 * PAGE:
        return None
    return address


def map_pages(descriptor: int, offset: int, address: int, size_bytes: int) -> tuple[int, int] | None:
    """Put the whole pages among these bytes of a file there; return which bytes came so, as a slice, or None."""
    calls = _calls()
    if calls is None or (address - offset) % PAGE:
        return None
    start, stop = -address % PAGE, size_bytes - (address + size_bytes) % PAGE
    if start >= stop:
        return None
    place = (address + start, stop - start, mmap.PROT_READ | mmap.PROT_WRITE)
    if calls.map(*place, mmap.MAP_PRIVATE | _FIXED, descriptor, offset + start) == address + start:
        return start, stop
    # Too many mappings, say. In some kernels what was there may be gone by now.
    is_there = calls.sync(address + start, stop - start, _ASYNC) == 0
    if not is_there and calls.map(*place, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED, -1, 0) != address + start:
        raise MemoryError("the memory for a stored variable could not be mapped")
    return None


def populate(view: memoryview) -> None:
    """Have the pages of mapped memory read; OSError if the disk does not give them, instead of a signal later."""
    calls = _calls()
    if calls is not None:
        _advise(calls, calls.address(view), view.nbytes, _POPULATE_READ)


def own(address: int, size_bytes: int) -> None:
    """Give the process copies of its own of the pages there, whose content stays as it is.

    Pages that are not there any more, or somebody else's by now, are left or filled as their first use would.
    """
    calls = _calls()
    if calls is not None:
        start = -(-address // PAGE) * PAGE
        calls.advise(start, max(0, address + size_bytes - start) // PAGE * PAGE, _POPULATE_WRITE)


def _advise(calls: _Calls, address: int, size_bytes: int, how: int) -> None:
    start = address // PAGE * PAGE
    stop = -(-(address + size_bytes) // PAGE) * PAGE
    if calls.advise(start, stop - start, how) != 0:
        raise OSError(calls.error(), "the pages of a stored variable cannot be read")


@cache
def is_local(folder: str) -> bool:
    """Tell whether a folder is on a file system of this machine, as far as the system says."""
    path, found = os.path.realpath(folder), ("", "")
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                before, _, after = line.partition(" - ")
                at = _OCTAL.sub(lambda code: chr(int(code[1], 8)), before.split()[4])
                if os.path.commonpath((at, path)) == at and len(at) >= len(found[0]):
                    found = (at, after.split()[0])
    except (OSError, ValueError, IndexError):
        return False
    return found[1] in _LOCAL
