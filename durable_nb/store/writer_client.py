"""The kernel's end of its writer process: start it, ask it, notice that it is gone.

Used by `Behind`. `request` returns the writer's answer or raises what went wrong there; `WriterGone` means that the
process has ended, and that everything it wrote before is in the repository.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xxhash
import zstandard

from durable_nb.errors import RepositoryError
from durable_nb.model import Json
from durable_nb.store.channel import Channel, pair

__all__ = ["WRITER", "WriterClient", "WriterGone"]

WRITER = "durable_nb.store.writer"
_LOOK_S = 0.2
_WAKE_S = 1.0  # after so long without a word the process is told to go on, should somebody have stopped it
_END_S = 10.0  # how long the process may take to end after it has said that it will


class WriterGone(RepositoryError):
    """The writer process has ended without having said good-bye."""


class WriterClient:
    """One writer process."""

    def __init__(self, started: Mapping[str, Json], *, module: str = WRITER) -> None:
        """Start the process and return at once; OSError where none can be started."""
        ours, theirs = pair()
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _program(module), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=os.sep,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = Channel(ours)
        self._death = _pidfd(self.pid)
        self._news: deque[tuple[bytes, Any]] = deque()
        self._ready = False
        self._heard_s = time.monotonic()
        self._channel.send(b"S", json.dumps(dict(started)).encode())

    @property
    def pid(self) -> int:
        """The process id of the writer."""
        return self._process.pid

    @property
    def gone(self) -> bool:
        """Whether the process has ended, or hung up; what it said before can still be taken."""
        return self._channel.ended or self._process.poll() is not None

    def ready(self) -> bool:
        """Whether the process has started and waits for the journal."""
        if not self._ready:
            self._take()
        return self._ready

    def send(self, kind: bytes, payload: bytes) -> None:
        """Say something that is not answered at once; what the socket does not take waits for the next call."""
        self._channel.send(kind, payload)

    def request(self, kind: bytes, payload: bytes, answer: bytes) -> Any:
        """Ask, and wait for the answer; raise what went wrong there. What else is told meanwhile waits for `news`."""
        self.send(kind, payload)
        while True:
            self.wait(_LOOK_S)  # first: no answer is there yet
            gone = self.gone  # before: what it said until then is there to be taken
            self._take()
            if self._news and self._news[-1][0] == answer:
                result = self._news.pop()[1]
                if isinstance(result, BaseException):
                    raise result
                return result
            if gone:
                raise WriterGone("The process that saves in the background has ended.")

    def news(self, *, read: bool = True) -> list[tuple[bytes, Any]]:
        """Return what the writer has told since the last call, in order; without `read` up to the last answer."""
        if read:
            self._take()
        told = list(self._news)
        self._news.clear()
        return told

    def wait(self, timeout_s: float) -> None:
        """Wait until the writer tells something or ends, at most so long."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN | (select.POLLOUT if self._channel.waiting else 0))
        if self._death is not None:
            poll.register(self._death, select.POLLIN)
        if not poll.poll(timeout_s * 1000) and time.monotonic() - self._heard_s > _WAKE_S:
            self._wake()
        self._channel.pump()

    def _wake(self) -> None:
        """Continue the process: a stopped one (SIGSTOP, a debugger) would hold the next cell for ever."""
        self._heard_s = time.monotonic()
        if hasattr(signal, "SIGCONT"):
            self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Return when the process has ended; one that does not is killed, because its journal is about to be used."""
        self._channel.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._death is not None:
            os.close(self._death)
            self._death = None

    def kill(self) -> None:
        """End the process now; returns when it is gone."""
        self._process.kill()
        self.end()

    def _take(self) -> None:
        self._channel.pump()
        while (message := self._channel.take()) is not None:
            kind, payload = message
            self._heard_s = time.monotonic()
            if kind == b"r":
                self._ready = True
                continue
            self._news.append((kind, pickle.loads(payload) if payload else None))
            # An answer ends what is taken, so that `request` finds it at the end of the news.
            if kind in (b"a", b"l", b"b"):
                return


def _program(module: str) -> str:
    """Return what the process runs: our package and what it needs, and nothing of the user's environment."""
    ours = [Path(__file__).resolve().parents[2], *(Path(str(m.__file__)).parents[1] for m in (xxhash, zstandard))]
    paths = list(dict.fromkeys(map(str, ours)))
    return f"import sys; sys.path.extend({paths!r}); from {module} import main; main()"


def _pidfd(pid: int) -> int | None:
    opener = getattr(os, "pidfd_open", None)
    try:
        return None if opener is None else int(opener(pid))
    except OSError:
        return None
