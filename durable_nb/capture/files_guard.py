"""Keeps a cell that runs again by itself from writing over, removing or renaming files that are there.

Called by the engine while such a cell runs, and while values are loaded. It sees what Python opens, through the same
audit hook as `files_read`; a library that opens files in C (sqlite3, HDF5) is not seen. Nothing is stored here.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

__all__ = ["FileGuard", "FileRefused", "in_folder", "is_exclusive", "writes"]

_SAYS: Final = (
    "durable_nb: {path} is there, and a cell that runs again by itself may not write, remove or rename it. "
    "`%durable recompute NAME --force` lets it."
)
# Where the paths are among the arguments of an event, and where the descriptors of the folders that they are in.
_NAMES: Final[dict[str, tuple[tuple[int, int | None], ...]]] = {
    "os.remove": ((0, 1),),
    "os.truncate": ((0, None),),
    "shutil.rmtree": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2),),  # what is written under the other name is not seen
}
_IMPORT: Final = "<frozen importlib._bootstrap>"


class FileRefused(PermissionError):
    """A file that is there was to be changed by code that nobody asked to do so."""


def writes(mode: Any, flags: Any) -> bool:
    """Tell from the arguments of an `open` event whether the file is opened for writing."""
    flags = flags if isinstance(flags, int) else 0
    by_mode = isinstance(mode, str) and any(letter in mode for letter in "wax+")
    return by_mode or bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_TRUNC | os.O_CREAT))


def only_opens(mode: Any, flags: Any) -> bool:
    """Tell whether opening leaves what is in a file as it is, as for a memory map that can be written to."""
    emptied = isinstance(flags, int) and bool(flags & (os.O_TRUNC | os.O_APPEND))
    return not emptied and not (isinstance(mode, str) and any(letter in mode for letter in "wax"))


def is_exclusive(mode: Any, flags: Any) -> bool:
    """Tell whether the open fails where there is a file already, so that it can harm none."""
    return (isinstance(mode, str) and "x" in mode) or (isinstance(flags, int) and bool(flags & os.O_EXCL))


def in_folder(path: Any, folder: Any) -> Any:
    """Return a path that counts from an open folder as one that counts from the working folder."""
    if not isinstance(folder, int) or folder < 0 or not isinstance(path, str | bytes | os.PathLike):
        return path
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
    except OSError:  # not Linux: who empties a folder has named the folder itself before
        return None


def _entry(path: str) -> str:
    """Return where an entry of a folder really is; the entry itself may be a link."""
    above, name = os.path.split(path)
    return os.path.join(os.path.realpath(above), name)


def _is_importing() -> bool:
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != _IMPORT:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None


class FileGuard:
    """Refuses, in the thread that made it, to change files that it did not see being made."""

    EVENTS: Final = frozenset({"open", "os.mkdir", *_NAMES})

    def __init__(self, path_of: Callable[[Any], str | None], *, says: str = _SAYS, loads: bool = False) -> None:
        """`path_of` returns the absolute path of a file of the user's, None for all others; `says` who may not.

        What `loads` values may open files to map them, and import libraries that write what is theirs.
        """
        self._path_of, self._says, self._loads = path_of, says, loads
        self._thread = threading.get_ident()
        self._made: set[str] = set()

    def event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take one audit event; FileRefused where it would change a file that was there before."""
        if threading.get_ident() != self._thread:
            return
        if event == "open":
            path, mode, flags = arguments[:3]
            if writes(mode, flags) and not (self._loads and only_opens(mode, flags)):
                found = self._path_of(path)
                # A folder is opened for writing by `tempfile`, which makes a file of its own in it.
                if found is not None and not os.path.isdir(found):
                    self._check(os.path.realpath(found), makes=True, exclusive=is_exclusive(mode, flags))
        elif event == "os.mkdir":
            if (found := self._path_of(in_folder(arguments[0], arguments[2]))) is not None:
                self._check(_entry(found), makes=True, exclusive=True)
        else:
            for at, folder in _NAMES[event]:
                path = in_folder(arguments[at], -1 if folder is None else arguments[folder])
                if (found := self._path_of(path)) is not None:
                    self._check(_entry(found), makes=False, exclusive=False)

    def _check(self, path: str, *, makes: bool, exclusive: bool) -> None:
        if any(path == made or path.startswith(made + os.sep) for made in self._made):
            return
        if not os.path.lexists(path):
            if makes:
                self._made.add(path)
        elif not exclusive and not (self._loads and _is_importing()):
            raise FileRefused(self._says.format(path=path))

    def failed(self, error: Exception) -> None:
        """An event that cannot be understood is let through: the cell's own record was looked at before it ran."""
