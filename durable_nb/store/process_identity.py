"""Who a process is, beyond its pid: start time, boot and host; and whether it still runs.

Called by the lease. Nothing here is durable; answers are true at the moment they are given.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from durable_nb.model import Owner
from durable_nb.ports import Clock

__all__ = ["is_alive", "process_of", "this_process"]

# States of /proc/PID/stat in which a process runs no more: a zombie waits for its parent, X is on its way out.
_DEAD_STATES = frozenset("ZXx")


def this_process(kernel_id: str, clock: Clock) -> Owner:
    """Describe the calling process as the owner of a lease; the lease gives it its epoch."""
    return process_of(os.getpid(), kernel_id, clock)


def process_of(pid: int, kernel_id: str, clock: Clock) -> Owner:
    """Describe a process of this machine as an owner of a lease."""
    return Owner(
        kernel_id=kernel_id,
        pid=pid,
        process_start=_process_start(pid) or "",
        boot_id=_boot_id(),
        host=socket.gethostname(),
        since=clock.now_us(),
        epoch=0,
    )


def is_alive(owner: Owner) -> bool | None:
    """Say whether the process runs: True or False on this host, None where it cannot be known (another host)."""
    if owner.host != socket.gethostname():
        return None
    boot_id = _boot_id()
    if owner.boot_id and boot_id and owner.boot_id != boot_id:
        return False
    start = _process_start(owner.pid)
    if start is None:
        return False
    # Where the start time cannot be read, a running process of that pid counts as the owner: better to wait too long
    # for a recycled pid than to take the lease from somebody who writes.
    return not owner.process_start or not start or start == owner.process_start


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        # macOS and Windows have no such file; pid and start time have to do.
        return ""


def _process_start(pid: int) -> str | None:
    """Return when the process started in the system's own notation, "" if that is unknown, None if it is not there."""
    if pid <= 0:
        return None
    if sys.platform == "win32":
        return _windows_process_start(pid)
    if Path("/proc/self/stat").exists():
        return _linux_process_start(pid)
    return _posix_process_start(pid)


def _linux_process_start(pid: int) -> str | None:
    try:
        content = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:
        return ""
    # The command name stands in parentheses and may contain anything; fields are counted behind the last one.
    fields = content.rpartition(")")[2].split()
    return None if fields[0] in _DEAD_STATES else fields[19]


def _posix_process_start(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return ""
    return ""


def _windows_process_start(pid: int) -> str | None:
    import ctypes

    windll = getattr(ctypes, "windll")  # noqa: B009  (the attribute exists on Windows only, and mypy knows it)
    query_limited_information, still_active = 0x1000, 259
    handle = windll.kernel32.OpenProcess(query_limited_information, False, pid)
    if not handle:
        return None
    try:
        code = ctypes.c_ulong()
        windll.kernel32.GetExitCodeProcess(handle, ctypes.byref(code))
        if code.value != still_active:
            return None
        times = (ctypes.c_ulonglong * 4)()
        pointers = [ctypes.byref(times, 8 * index) for index in range(4)]
        return str(times[0]) if windll.kernel32.GetProcessTimes(handle, *pointers) else ""
    finally:
        windll.kernel32.CloseHandle(handle)
