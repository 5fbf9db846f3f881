"""Ask the operating system what a kernel and the processes that it started used: processor, memory, bytes to disk.

Called by `speed_measuring.py`. Nothing runs in the processes that are asked.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Family", "beside", "cpu_beside_s", "cpu_main_s", "cpu_s", "end_all", "lives", "peak_bytes", "written_bytes"]

_PAUSE_S = 0.05


@dataclass(slots=True, kw_only=True)
class Family:
    """The processes of some kernels: they have `token` in their environment, or were seen below one that has it.

    `started` is when those that were seen were started; ids are used again.
    """

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    started: dict[int, str] = field(default_factory=dict)


def cpu_s(pid: int) -> float:
    """Return the processor seconds of all threads of a process so far."""
    # The number of another process's clock is made of its id: CPUCLOCK_SCHED of clock_getcpuclockid(3).
    return time.clock_gettime((~pid << 3) | 2)


def cpu_main_s(pid: int) -> float:
    """Return the processor seconds of the main thread of a process so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def beside(family: Family, kernel_pid: int | None) -> list[int]:
    """Return the processes that the kernel started, wherever they hang now, as far as they can be told.

    Without a kernel: those that a dead one left.
    """
    mark, parents, marked = f"SPEED_BENCHMARK={family.token}".encode(), {}, set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            # A process may end while it is looked at.
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
                if mark in Path(entry.path, "environ").read_bytes():
                    marked.add(int(entry.name))
    kernel = set() if kernel_pid is None else {kernel_pid}
    found = marked | {pid for pid, started in family.started.items() if lives(pid, started)} | kernel
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    for pid in found - kernel - family.started.keys():
        with contextlib.suppress(OSError):
            family.started[pid] = _stat(pid)[19]
    return [pid for pid in found - kernel if lives(pid, family.started.get(pid))]


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat that follow the name: state, parent, …, [19] when it was started."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def lives(pid: int, started: str | None = None) -> bool:
    """Tell whether a process runs, and is the one that was started then."""
    try:
        fields = _stat(pid)
    except OSError:
        return False
    # Ids are used again, and a dead child whose parent does not wait for it is dead.
    return fields[0] not in "ZX" and started in (None, fields[19])


def cpu_beside_s(family: Family, kernel_pid: int) -> float:
    """Return the processor seconds of the kernel's children: those that live, and those that it has waited for."""
    fields = _stat(kernel_pid)
    total = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    for pid in beside(family, kernel_pid):
        with contextlib.suppress(OSError):
            total += cpu_s(pid)
    return total


def written_bytes(family: Family, kernel_pid: int) -> int:
    """Return the bytes that the kernel and its children have given to the disk, replaced ones included."""
    total = 0
    for pid in (kernel_pid, *beside(family, kernel_pid)):
        with contextlib.suppress(OSError):
            found = re.search(r"^write_bytes: (\d+)", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)
            total += int(found[1]) if found else 0
    return total


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had at a time."""
    with contextlib.suppress(OSError):
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


def end_all(family: Family, wait_s: float) -> None:
    """Wait for what the killed kernels left to finish, and end what does not; return when it is gone."""
    deadline = time.perf_counter() + wait_s
    while (left := beside(family, None)) and time.perf_counter() < deadline:
        time.sleep(_PAUSE_S)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(lives(pid, family.started.get(pid)) for pid in left):
        time.sleep(_PAUSE_S)
