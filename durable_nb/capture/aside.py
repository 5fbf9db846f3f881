"""Work on copies of the user's values in a forked child, which changes nothing and frees nothing.

Called by `proof` and by `namespace`. Loading a copy, and letting it go, runs the user's own code; in the child it can
harm neither the live values nor a file. A child that crashes or hangs costs its answer only.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from durable_nb.capture.left_alone import leave_alone

__all__ = ["CAN_FORK", "aside"]

CAN_FORK = hasattr(os, "fork")


def aside(work: Callable[[list[Any]], Iterable[Any]], timeout_s: float) -> tuple[list[Any], str | None]:
    """Return what `work` yields in a child (JSON), and how it ended if not by itself, such as «crashed with SIGSEGV».

    What `work` puts into the list that it is given is never freed: a copy that goes may take the user's files with it,
    and to free very deep objects would overrun Python's stack. Each answer may take `timeout_s` seconds.
    """
    read, write = os.pipe()
    own = os.path.join(tempfile.gettempdir(), f"durable_nb-{os.urandom(8).hex()}")
    with warnings.catch_warnings():
        # Python 3.12 warns of forks in a process with threads; this child only loads and ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _child(work, write, own)
    os.close(write)
    try:
        lines, timed_out = _read_lines(read, timeout_s)
        if timed_out:
            _kill(pid)
        status = _wait(pid)
    except BaseException:  # an interrupt: the child must not stay behind
        _kill(pid)
        _wait(pid)
        raise
    finally:
        os.close(read)
        shutil.rmtree(own, ignore_errors=True)
    answers = [json.loads(line) for line in lines]
    if timed_out:
        return answers, f"did not end within {timeout_s:.0f} s"
    return answers, None if status == 0 else _how_it_ended(status)


def _child(work: Callable[[list[Any]], Iterable[Any]], write: int, own: str) -> None:
    # Never returns: whatever happens in here must not run the parent's cleanup a second time.
    try:
        gc.disable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        leave_alone(own, [write])
        kept: list[Any] = [_silence()]  # closing a kernel's stream would wait for a thread that is not here
        for answer in work(kept):
            os.write(write, json.dumps(answer).encode() + b"\n")
    except BaseException:
        os._exit(1)
    os._exit(0)


def _silence() -> tuple[Any, Any]:
    # A kernel's streams send what is written to the front end from a thread that this child does not have.
    before = sys.stdout, sys.stderr
    # Named like what they stand for: a variable that holds the console comes back as the one that is there.
    sys.stdout, sys.stderr = (type(type(stream).__qualname__, (io.StringIO,), {})() for stream in before)
    return before


def _read_lines(fd: int, timeout_s: float) -> tuple[list[bytes], bool]:
    data = b""
    while True:
        # Every answer has this long; a deadlock in a forked child is possible and must not stop the kernel.
        ready, _, _ = select.select([fd], [], [], timeout_s)
        if not ready:
            return data.split(b"\n")[:-1], True
        part = os.read(fd, 1 << 16)
        if not part:
            return data.split(b"\n")[:-1], False
        data += part


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _wait(pid: int) -> int | None:
    """Return how a child ended, None where the notebook has its children's ends thrown away or taken by a handler."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return None


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "did not finish"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        deep = " (nested too deeply?)" if number == signal.SIGSEGV else ""
        return f"crashed with {signal.Signals(number).name}{deep}"
    return f"ended with status {os.WEXITSTATUS(status)}"
