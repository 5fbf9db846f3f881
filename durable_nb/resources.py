"""What this process uses, and what the system says about memory: read from the operating system, never raises.

Called by the engine for the metadata of events and for the cause of a lost kernel.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cpu_s", "oom_kills", "rss_bytes", "uncollected"]

_CGROUP_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def cpu_s() -> float:
    """Return the CPU time of this process, all threads, in seconds."""
    return time.process_time()


@contextmanager
def uncollected() -> Iterator[None]:
    """Until the block ends, let the garbage collector not begin by itself.

    For a block that makes many objects which all stay, as reading a long history does: the collector would look at
    all of them again and again, and that takes longer than to make them. No code of the user may run in it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on and not gc.get_freeze_count():
            # All that is new counts as old at once. Else the collector would go through it three times after all.
            gc.freeze()
            gc.unfreeze()
        if was_on:
            gc.enable()


def rss_bytes() -> int:
    """Return the resident memory of this process; the peak where only that is known; 0 where nothing is."""
    try:
        # Without the layers of `open`: this is asked for at the end of every cell.
        handle = os.open("/proc/self/statm", os.O_RDONLY)
        try:
            pages = int(os.read(handle, 256).split()[1])
        finally:
            os.close(handle)
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return _peak_rss_bytes()


def _peak_rss_bytes() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def oom_kills() -> int | None:
    """Return how often the system killed a process of this control group for want of memory; None if unknown."""
    for name in _CGROUP_EVENTS:
        try:
            lines = Path(name).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdigit():
                return int(value)
    return None
