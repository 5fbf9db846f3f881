"""Lets a forked child that loads a copy change nothing: no file or folder, no database, no program, no descriptor.

Called by `proof` in the child, for the rest of its life. What the user's own code does while it is loaded is not known
before, and the child is there to find that out: what would change something fails, and so the value is reported.
Opening for writing without emptying (`r+`, a memory map, an HDF5 file, a database) becomes opening for reading.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Collection
from typing import Any, Final
from urllib.parse import quote

from durable_nb.capture.files_guard import FileRefused, in_folder, writes

__all__ = ["leave_alone", "original"]

_STARTS: Final = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.fork", "os.forkpty",
     "os.kill", "os.killpg", "pty.spawn"}
)  # fmt: skip
# Where the paths are among the arguments of an event, and where the descriptors of the folders that they are in; first
# those of which the last part itself is changed, though it may be a link.
_ENTRIES: Final[dict[str, tuple[tuple[int, int | None], ...]]] = {
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),),
}
_CONTENTS: Final[dict[str, tuple[tuple[int, int | None], ...]]] = {
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.chflags": ((0, None),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
}
# By the address of what stands for it in the child: what a value that is loaded there refers to.
_ORIGINALS: Final[dict[int, Any]] = {}
_NOTHING: Final = ("/dev/null", "/dev/zero", "/dev/tty")


def leave_alone(own: str, keep: Collection[int]) -> None:
    """Change nothing from here on, except in the folder `own`, which is made, and on the descriptors in `keep`."""
    with contextlib.suppress(OSError):
        os.mkdir(own, 0o700)
    own = os.path.realpath(own)
    os.environ["TMPDIR"] = own
    tempfile.tempdir = own
    sys.dont_write_bytecode = True
    _let_go(keep)
    _open_for_reading(own)
    _read_databases()
    sys.addaudithook(_refusing(own))


def original(found: Any) -> Any:
    """Return what a global of the child stands for, or itself: values refer to what the kernel has."""
    return _ORIGINALS.get(id(found), found)


def _instead(replacement: Any, of: Any) -> Any:
    _ORIGINALS[id(replacement)] = of
    return replacement


def _let_go(keep: Collection[int]) -> None:
    """Point the descriptors of files, sockets and databases that the kernel has open to nothing."""
    null = os.open(os.devnull, os.O_RDWR)
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            found = [int(name) for name in os.listdir(folder)]
            break
    else:
        found = list(range(256))
    for fd in found:
        if fd != null and fd not in keep:
            with contextlib.suppress(OSError):  # that of the listing is closed by now
                os.fstat(fd)
                os.dup2(null, fd)


def _refusing(own: str) -> Callable[[str, tuple[Any, ...]], None]:
    inside, me = own + os.sep, os.getpid()

    def check(path: Any, folder: Any, *, entry: bool) -> None:
        if path is None:
            return
        if isinstance(path, int):
            found = _of_descriptor(path)
        else:
            named = os.path.abspath(os.fsdecode(in_folder(path, folder) or path))
            above, name = os.path.split(named)
            found = os.path.join(os.path.realpath(above), name) if entry else os.path.realpath(named)
        if found not in (*_NOTHING, own) and not found.startswith(inside):
            there = ", which is there" if os.path.lexists(found) else ""
            raise FileRefused(f"loading it would write, remove or rename {found}{there}")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments[:3]
            if not isinstance(path, int) and writes(mode, flags):
                check(path, -1, entry=False)
        elif (places := _ENTRIES.get(event) or _CONTENTS.get(event)) is not None:
            for at, folder in places:
                check(arguments[at], -1 if folder is None else arguments[folder], entry=event in _ENTRIES)
        elif event == "sqlite3.connect":
            if not _only_reads(arguments[0]):
                raise FileRefused(f"loading it would open the database {arguments[0]} for writing")
        elif event in _STARTS and not (event == "os.kill" and arguments[0] == me):
            raise FileRefused(f"loading it would start a program, or end one ({event})")

    return hook


def _of_descriptor(fd: int) -> str:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return os.path.realpath(os.readlink(f"{folder}/{fd}"))
    return f"descriptor {fd}"


def _open_for_reading(own: str) -> None:
    """Let who opens a file for reading and writing have it for reading, and a map of it to himself."""
    plain, low = io.open, os.open

    def is_theirs(path: Any) -> bool:
        return not isinstance(path, int) and not os.path.realpath(os.fsdecode(path)).startswith(own + os.sep)

    @functools.wraps(plain)
    def reading(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        if "+" in mode and not set(mode) & set("wax") and is_theirs(file):
            mode = mode.replace("+", "")
        return plain(file, mode, *args, **more)

    @functools.wraps(low)
    def low_reading(path: Any, flags: int, *args: Any, **more: Any) -> int:
        # The audit event does not say which folder a path counts from.
        path = in_folder(path, more.pop("dir_fd", None))
        if path is None:
            raise FileRefused("loading it would open a file by the descriptor of its folder")
        if flags & os.O_RDWR and not flags & (os.O_CREAT | os.O_TRUNC | os.O_APPEND) and is_theirs(path):
            flags &= ~os.O_RDWR
        return low(path, flags, *args, **more)

    io.open = builtins.open = _instead(reading, plain)
    os.open = _instead(low_reading, low)
    _map_privately(mmap)


def _map_privately(module: Any) -> None:
    real = module.mmap

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return issubclass(type(instance), real)

    class Private(metaclass=Kind):
        def __new__(cls, fileno: int, length: int, *args: Any, **more: Any) -> Any:
            more = {**dict(zip(("flags", "prot", "access", "offset"), args, strict=False)), **more}
            writes_too = more.get("prot", mmap.PROT_WRITE) & mmap.PROT_WRITE
            if fileno == -1 or more.get("access") == mmap.ACCESS_READ or not writes_too:
                return real(fileno, length, **more)
            return real(fileno, length, access=mmap.ACCESS_COPY, offset=more.get("offset", 0))

    module.mmap = _instead(Private, real)


def _only_reads(database: Any) -> bool:
    name = os.fsdecode(database) if isinstance(database, str | bytes | os.PathLike) else ""
    return name in ("", ":memory:") or (name.startswith("file:") and ("mode=ro" in name or "mode=memory" in name))


def _read_databases() -> None:
    """Let who opens a database or an HDF5 file, which is opened in C and so seen by nobody, have it for reading."""
    sqlite: Any = sys.modules.get("sqlite3")
    h5f: Any = sys.modules.get("h5py.h5f")
    if sqlite is not None:
        connect = sqlite.connect

        @functools.wraps(connect)
        def reading(database: Any, *args: Any, **more: Any) -> Any:
            if not _only_reads(database) and not more.get("uri"):
                database = f"file:{quote(os.path.abspath(os.fsdecode(database)))}?mode=ro&immutable=1"
                more = {**more, "uri": True}
            return connect(database, *args, **more)

        sqlite.connect = sqlite.dbapi2.connect = _instead(reading, connect)
    if h5f is not None:
        opening = h5f.open

        def only_reading(name: Any, flags: Any = None, *args: Any, **more: Any) -> Any:
            return opening(name, h5f.ACC_RDONLY, *args, **more)

        def refusing(name: Any, *args: Any, **more: Any) -> Any:
            raise FileRefused(f"loading it would write {os.fsdecode(name)}")

        h5f.open, h5f.create = _instead(only_reading, opening), _instead(refusing, h5f.create)
