"""The system's clock: the only implementation of `ports.Clock` outside the tests.

Built by the composition roots (kernel, command line) and handed down; nothing else reads the time.
"""

from __future__ import annotations

import time

__all__ = ["SystemClock"]


class SystemClock:
    """Wall and monotonic time of this machine."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        return time.monotonic()
