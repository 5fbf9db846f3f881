"""A stretch in which Ctrl-C waits: between «it is durable» and «the memory knows» nothing may come in between.

Used around appends and commits, which are short; capturing and the user's body stay interruptible.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found,unused-ignore]
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["uninterrupted"]

# Below the functions of `signal`, which make enums of all that goes through them: four times a cell, for nothing.
_get, _set = _signal.getsignal, _signal.signal


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold SIGINT back until the block ends, then deliver it as if it had come just then."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signal handlers run in the main thread only, so nothing can interrupt this one
        return
    held: list[tuple[int, FrameType | None]] = []
    before = _get(signal.SIGINT)
    if before is None:
        yield  # a handler that was not installed from Python cannot be put back
        return
    _set(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        _set(signal.SIGINT, before)
    if held and callable(before):
        before(*held[-1])
