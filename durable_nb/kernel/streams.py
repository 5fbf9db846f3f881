"""The standard streams of a kernel: waits until what was written to them is passed on, and no longer.

Called by `outputs` around the body of a durable cell. When `drain` and `flush` have returned, everything that was
written before is where a listener has heard it.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

__all__ = ["drain", "flush"]

_DRAIN_S = 0.2


def flush(streams: Iterable[Any]) -> None:
    """Return when everything that was written to the streams so far has been passed on."""
    for stream in streams:
        if not getattr(stream, "closed", False) and not _is_passed_on(stream):
            stream.flush()


def _is_passed_on(stream: Any) -> bool:
    """Tell whether a stream of ipykernel holds nothing, and nothing of it is on its way.

    To flush it is to ask its thread and to wait for the answer, twice a cell and stream: most of what recording costs.
    What was written is in the buffers, or that thread has taken it out and is inside `_flush`, or it is passed on. The
    order matters: what leaves the buffers after the first look is seen by the second.
    """
    cls = type(stream)
    buffers = getattr(stream, "_buffers", None)
    if cls.__module__ != "ipykernel.iostream" or type(buffers) is not defaultdict or buffers:
        return False
    thread = getattr(stream.pub_thread, "thread", None)
    frame = sys._current_frames().get(thread.ident) if thread is not None else None
    if frame is None:
        return False
    flushing = cls._flush.__code__
    while frame is not None:
        if frame.f_code is flushing:
            return False
        frame = frame.f_back
    return True


def drain(streams: Iterable[Any]) -> None:
    """Return when what C code and child processes have written so far is in the streams."""
    # ipykernel reads what C code and child processes write to descriptors 1 and 2 in a thread of its own.
    for stream in streams:
        pipe, reader = getattr(stream, "_fid", None), getattr(stream, "watch_fd_thread", None)
        if os.name == "posix" and isinstance(pipe, int) and reader is not None and reader.is_alive():
            _wait_until_read(pipe, reader.native_id)


def _wait_until_read(pipe: int, reader: int) -> None:
    deadline_s = time.monotonic() + _DRAIN_S
    while time.monotonic() < deadline_s:
        if not select.select([pipe], [], [], 0)[0]:
            waiting = _waits_for(pipe, reader)
            if waiting is None:
                # Where the system does not tell, a thread that has just read gets the time to pass it on.
                time.sleep(0.001)
            if waiting is not False:
                return
        time.sleep(0.0002)


def _waits_for(descriptor: int, thread: int) -> bool | None:
    """Whether a thread of this process is blocked in a system call on a descriptor; None if the system won't tell."""
    try:
        handle = os.open(f"/proc/self/task/{thread}/syscall", os.O_RDONLY)
        try:
            fields = os.read(handle, 256).split()
        finally:
            os.close(handle)
    except OSError:
        return None
    # «number first-argument …», or «running» while it is in no system call.
    return len(fields) > 1 and fields[1] == hex(descriptor).encode()
