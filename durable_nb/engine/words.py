"""How times, lengths and sizes are said to a person. Pure; used by everything that shows something."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

__all__ = ["clock_text", "counted_names", "duration_text", "size_text"]


def counted_names(names: Iterable[str]) -> str:
    """Return names as they stand in a sentence: `a`, `b`."""
    return ", ".join(f"`{name}`" for name in names)


def clock_text(timestamp_us: int) -> str:
    """Return the local time of day."""
    return datetime.fromtimestamp(timestamp_us / 1e6).astimezone().strftime("%H:%M:%S")


def duration_text(seconds: float) -> str:
    """Return a length of time as a person would say it: 85 ms, 4.2 s, 12 m 5 s, 3 h 12 m."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {rest} s"


def size_text(size_bytes: int) -> str:
    """Return a size with its unit: 312 B, 4.2 KiB, 1.1 GiB."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"
