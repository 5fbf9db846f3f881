"""Keeps a cell that runs again by itself from writing over, removing or renaming files that are there.

Called by the engine while such a cell runs. It sees what Python opens, through the same audit hook as `files_read`; a
library that opens files in C (sqlite3, HDF5) is not seen. Nothing is stored here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final

__all__ = ["FileGuard", "FileRefused", "is_exclusive", "writes"]

_SAYS: Final = (
    "durable_nb: {path} is there, and a cell that runs again by itself may not write, remove or rename it. "
    "`%durable recompute NAME --force` lets it."
)
_NAMES: Final = {"os.remove": (0,), "os.truncate": (0,), "shutil.rmtree": (0,), "os.rmdir": (0,), "os.rename": (0, 1)}


class FileRefused(PermissionError):
    """A file that is there was to be changed by code that nobody asked to do so."""


def writes(mode: Any, flags: Any) -> bool:
    """Tell from the arguments of an `open` event whether the file is opened for writing."""
    flags = flags if isinstance(flags, int) else 0
    by_mode = isinstance(mode, str) and any(letter in mode for letter in "wax+")
    return by_mode or bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_TRUNC | os.O_CREAT))


def is_exclusive(mode: Any, flags: Any) -> bool:
    """Tell whether the open fails where there is a file already, so that it can harm none."""
    return (isinstance(mode, str) and "x" in mode) or (isinstance(flags, int) and bool(flags & os.O_EXCL))


class FileGuard:
    """Refuses, in the thread that made it, to change files that it did not see being made."""

    EVENTS: Final = frozenset({"open", *_NAMES})

    def __init__(self, path_of: Callable[[Any], str | None], *, says: str = _SAYS) -> None:
        """`path_of` returns the absolute path of a file of the user's, None for all others; `says` who may not."""
        self._path_of, self._says = path_of, says
        self._thread = threading.get_ident()
        self._made: set[str] = set()

    def event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take one audit event; FileRefused where it would change a file that was there before."""
        if threading.get_ident() != self._thread:
            return
        if event == "open":
            path, mode, flags = arguments[:3]
            if writes(mode, flags):
                self._check(path, makes=True, exclusive=is_exclusive(mode, flags))
            return
        for at in _NAMES[event]:
            self._check(arguments[at], makes=False, exclusive=False)

    def _check(self, path: Any, *, makes: bool, exclusive: bool) -> None:
        found = self._path_of(path)
        # A folder is opened for writing by `tempfile`, which makes a file of its own in it.
        if found is None or found in self._made or os.path.isdir(found):
            return
        if not os.path.lexists(found):
            if makes:
                self._made.add(found)
            return
        if not exclusive:
            raise FileRefused(self._says.format(path=found))

    def failed(self, error: Exception) -> None:
        """An event that cannot be understood is let through: the cell's own record was looked at before it ran."""
