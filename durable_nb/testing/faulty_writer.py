"""A writer process that dies, waits or meets a full disk where a test says so, by files beside the repository.

Started by `writer_client` instead of the real one. Beside the folder of the repository, `die-at` holds the name of a
point at which it kills itself, `wait-at-POINT` is a named pipe from which it reads before it goes on, and as long as
there is a file `full` the disk takes nothing.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import sys
from pathlib import Path

from durable_nb.ports import WritableFile
from durable_nb.store.files import LocalFiles
from durable_nb.store.writer import Writer

__all__ = ["main"]


class _Faults:
    """What the test has laid out beside the repository."""

    def __init__(self) -> None:
        self._beside: Path | None = None

    def files(self, root: str) -> LocalFiles:
        """Return the files of the repository, on a disk that may be full."""
        self._beside = Path(root).parent
        return _Disk(root, self._beside / "full")

    def reached(self, point: str) -> None:
        """Do what the test has laid out for this point."""
        assert self._beside is not None
        die_at = self._beside / "die-at"
        if die_at.exists() and die_at.read_text() == point:
            os.kill(os.getpid(), signal.SIGKILL)
        pipe = self._beside / f"wait-at-{point}"
        if pipe.exists() and stat.S_ISFIFO(pipe.stat().st_mode):
            pipe.read_bytes()


class _Disk(LocalFiles):
    """A disk that is full while there is a file that says so."""

    def __init__(self, root: str, full: Path) -> None:
        super().__init__(root)
        self._full_mark = full

    def create(self, path: str) -> WritableFile:
        """Create a file, if there is room."""
        if self._full_mark.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().create(path)


def main() -> None:
    """Run the writer on the socket whose descriptor is the first argument."""
    faults = _Faults()
    Writer(socket.socket(fileno=int(sys.argv[1])), files_of=faults.files, reached=faults.reached).run()
