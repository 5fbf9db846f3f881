"""What was pickled is proved loadable before it counts: groups of things not yet proved are loaded in a forked child.

Called by `namespace` once per capture with the groups that are new in kind. Nothing in the live process changes; a
child that crashes or hangs proves that its group does not load. Where there is no fork, only groups without the user's
own code are loaded, in this process.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import select
import signal
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from durable_nb.capture.borrowing import BORROWED
from durable_nb.capture.codec import Codec, Dumped, Failed
from durable_nb.capture.files_guard import FileGuard, FileRefused
from durable_nb.capture.process_modules import is_local_module

__all__ = ["Claim", "Proofs"]

_STARTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.startfile"})
TIMEOUT_S = 15.0  # a busy machine may be slow to import what a value needs; what hangs has no use for time
LOADED_BYTES_PER_S = 10e6  # what even a busy machine loads in a second
COMPARED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A dumped group, and a function that says how what was loaded differs from what is live (None: not at all)."""

    dumped: Dumped
    differs: Callable[[Mapping[str, Any]], str | None]


def _says_its_hash(cls: type) -> bool:
    return isinstance(type.__getattribute__(cls, "__hash__"), types.FunctionType) and (
        cls.__module__ == "__main__" or is_local_module(cls.__module__)
    )


class Proofs:
    """Which types and definitions this process has already seen come back."""

    def __init__(self, codec: Callable[[], Codec], resolve: Callable[[str], object]) -> None:
        self._codec, self._resolve = codec, resolve
        self._types: dict[int, weakref.ref[type]] = {}  # no weak set: that asks classes whether they are equal
        self._marks: set[str] = set()
        self._kept: list[Any] = []  # filled in a child only

    def needed(self, dumped: Dumped) -> bool:
        """Tell whether a group holds anything that has not been proved yet, or cannot be proved once for all.

        An object that says its hash itself may say none any more (`key.name = []`), and is in a set all the same.
        """
        if not (dumped.marks <= self._marks and all(map(self._is_proved, dumped.types))):
            return True
        return dumped.size_bytes <= COMPARED_BYTES and any(map(_says_its_hash, dumped.types))

    def _is_proved(self, cls: type) -> bool:
        known = self._types.get(id(cls))
        return known is not None and known() is cls

    def check(self, claims: Sequence[Claim]) -> list[str | None]:
        """Return, for each claim, why it does not load (None: it does, and that is remembered)."""
        verdicts: list[str | None] = []
        while len(verdicts) < len(claims):
            rest = claims[len(verdicts) :]
            verdicts.extend(self._in_child(rest) if hasattr(os, "fork") else [_final(self._try(c)) for c in rest])
        for claim, verdict in zip(claims, verdicts, strict=True):
            if verdict is None:
                self._types.update((id(cls), weakref.ref(cls)) for cls in claim.dumped.types)
                self._marks |= claim.dumped.marks
        return verdicts

    def _try(self, claim: Claim) -> Iterator[str | None]:
        """Yield first why a group does not load, then, if it does, how it differs."""
        dumped = claim.dumped
        token = BORROWED.set(True)
        try:
            # The child has the live memory copy-on-write; without a child nothing may write to it.
            buffers = dumped.buffers if hasattr(os, "fork") else [b.toreadonly() for b in dumped.buffers]
            loaded = self._codec().load(dumped.pickle, buffers, self._resolve, codec=dumped.codec)
        except Failed as failure:
            self._keep(failure)
            yield f"it was stored but does not load: {failure.args[0]}"
            return
        finally:
            BORROWED.reset(token)
        self._keep(loaded)
        yield None
        yield claim.differs(loaded) if dumped.size_bytes <= COMPARED_BYTES else None

    def _keep(self, loaded: object) -> None:
        """Let the child end without freeing what it made: a copy that goes may take the user's files with it.

        A failure leads to what had been made by then. To free very deep objects would overrun Python's stack as well.
        """
        if hasattr(os, "fork"):
            self._kept.append(loaded)

    def _in_child(self, claims: Sequence[Claim]) -> list[str | None]:
        read, write = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of forks in a process with threads; this child only loads and ends.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            self._child(claims, write)
        os.close(write)
        slowest = max(claim.dumped.size_bytes for claim in claims) / LOADED_BYTES_PER_S
        try:
            lines, timed_out = _read_lines(read, TIMEOUT_S + slowest)
        except BaseException:  # an interrupt: the child must not stay behind
            _kill(pid)
            _wait(pid)
            raise
        finally:
            os.close(read)
        if timed_out:
            _kill(pid)
        status = _wait(pid)
        said: dict[int, list[str | None]] = {}
        for line in lines:
            number, verdict = json.loads(line)
            said.setdefault(number, []).append(verdict)
        verdicts = [_final(iter(said[number])) for number in sorted(said)]
        # What loaded and was then not compared in time has been proved all the same.
        comparing = bool(said) and said[max(said)] == [None]
        if len(verdicts) < len(claims) and not comparing:
            end = f"did not end within {TIMEOUT_S + slowest:.0f} s" if timed_out else _how_it_ended(status)
            verdicts.append(f"it was stored but does not load: loading it in a child process {end}")
        return verdicts

    def _child(self, claims: Sequence[Claim], write: int) -> None:
        # Never returns: whatever happens in here must not run the parent's cleanup a second time.
        try:
            gc.disable()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            _leave_alone()
            kept = _silence()  # noqa: F841  closing a kernel's stream would wait for a thread that is not here
            for number, claim in enumerate(claims):
                for verdict in self._try(claim):
                    os.write(write, json.dumps([number, verdict]).encode() + b"\n")
        except BaseException:
            os._exit(1)
        os._exit(0)


def _final(said: Iterator[str | None]) -> str | None:
    return next((verdict for verdict in said if verdict is not None), None)


def _leave_alone() -> None:
    """Refuse, for as long as this process lives, to change files that are there, and to start programs."""
    guard = FileGuard(_path, says="loading it would write, remove or rename {path}, which is there")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in FileGuard.EVENTS and not (event == "open" and _only_opens(*arguments[1:3])):
            guard.event(event, arguments)
        elif event in _STARTS:
            raise FileRefused(f"loading it would start a program ({event})")

    sys.dont_write_bytecode = True
    sys.addaudithook(hook)


def _only_opens(mode: Any, flags: Any) -> bool:
    """Tell whether opening leaves what is in a file as it is, as for a memory map that can be written to."""
    emptied = isinstance(flags, int) and bool(flags & (os.O_TRUNC | os.O_APPEND))
    return not emptied and not (isinstance(mode, str) and any(letter in mode for letter in "wax"))


def _path(path: Any) -> str | None:
    """Return the absolute path of a file; None for what is already open, and for what is no file of anybody's."""
    if isinstance(path, int) or path is None:
        return None
    found = os.path.abspath(os.fsdecode(path))
    return None if found.startswith(("/dev/", "/proc/")) else found


def _silence() -> tuple[Any, Any]:
    # A kernel's streams send what is written to the front end from a thread that this child does not have.
    before = sys.stdout, sys.stderr
    # Named like what they stand for: a variable that holds the console comes back as the one that is there.
    sys.stdout, sys.stderr = (type(type(stream).__qualname__, (io.StringIO,), {})() for stream in before)
    return before


def _read_lines(fd: int, timeout_s: float) -> tuple[list[bytes], bool]:
    data = b""
    while True:
        # Every verdict has this long; a deadlock in a forked child is possible and must not stop the kernel.
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
