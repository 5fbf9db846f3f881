"""Which files a cell changes, and how it leaves them: written, added to, removed, renamed (rule 6).

Fed by the recording of a cell (`files_read`) and asked when the cell has ended. Only what Python does itself is seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container
from typing import Any, Final

from durable_nb.capture.file_marks import FULL_DIGEST_BYTES, FileMark, fingerprint

__all__ = ["MAX_LEFT", "Changes"]

MAX_LEFT: Final = 1000
# Which arguments of an event are paths that it changes, and which one holds the descriptor of the folder they are in.
_CHANGED: Final[dict[str, tuple[tuple[int, int | None], ...]]] = {
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.truncate": ((0, None),),
    "shutil.rmtree": ((0, 1),),
}


class Changes:
    """The paths that a cell changed, each with what was there before its first change."""

    EVENTS: Final = frozenset(_CHANGED)

    def __init__(self, path_of: Callable[[Any], str | None]) -> None:
        """`path_of` returns the absolute path of a file of the user's, None for all others."""
        self._path_of = path_of
        self._was: dict[str, bool] = {}
        self._before: dict[str, list[Any]] = {}
        self._rewritten: set[str] = set()

    def event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take one audit event, which comes before the change itself."""
        for at, folder in _CHANGED[event]:
            # A name inside an open folder is not looked up; `shutil.rmtree` tells of the folder itself.
            if folder is not None and arguments[folder] not in (-1, None):
                continue
            if (path := self._path_of(arguments[at])) is not None:
                self.note(path, keeps=event == "os.truncate")

    def note(self, path: str, *, keeps: bool, appends: bool = False) -> None:
        """Note that a path is about to be changed.

        `keeps`: a part of what the file holds may stay; `appends`: all of it stays, and more comes behind it.
        """
        if not appends:
            self._rewritten.add(path)
        if path in self._was:
            return
        try:
            status = os.lstat(path)
        except OSError:
            self._was[path] = False
            return
        self._was[path] = True
        if keeps and stat.S_ISREG(status.st_mode):
            self._before[path] = [status.st_size, str(status.st_mtime_ns)]

    def left(self, known: Container[str]) -> list[dict[str, Any]]:
        """Return how the changed paths are now, and those folders of `known` in which names came or went.

        The marks are JSON. `before` is the size and time that a file had when it was opened without emptying it, and
        `appended` says that all of it is still there. Of files that are not in `known` only so much is read, to keep
        the end of a cell short: the rest have no digest.
        """
        paths = sorted(self._was, key=lambda p: (p not in known, p))[:MAX_LEFT]
        found, unread = [], FULL_DIGEST_BYTES
        for path in [*paths, *self._folders(known)]:
            try:
                status = os.stat(path)
            except OSError:
                # What only came and went, such as a temporary file, has left nothing.
                if self._was.get(path) or path in known:
                    found.append(FileMark(path=path, kind="missing").as_json())
                continue
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                continue
            before = self._before.get(path)
            if before == [status.st_size, str(status.st_mtime_ns)]:
                continue  # opened, and not written to
            contents = path in known or status.st_size <= unread
            unread -= status.st_size if contents and path not in known else 0
            try:
                mark = fingerprint(path, contents=contents)
            except OSError:
                continue  # It cannot be read, so nobody can tell later what it holds.
            more: dict[str, Any] = {"before": before} if before else {}
            if before and path not in self._rewritten:
                more["appended"] = True
            found.append({**mark.as_json(), **more})
        return found

    def _folders(self, known: Container[str]) -> list[str]:
        folders: set[str] = set()
        for path, was in self._was.items():
            folder = os.path.dirname(path)
            if folder in known and folder not in folders and folder not in self._was and os.path.lexists(path) != was:
                folders.add(folder)
        return sorted(folders)
