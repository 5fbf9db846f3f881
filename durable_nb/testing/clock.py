"""A clock that moves only when a test says so.

Used by tests and by the generator of the committed example repository, which needs the same times every time.
"""

from __future__ import annotations

__all__ = ["ManualClock"]


class ManualClock:
    """Implements `ports.Clock`; `tick_us` is added to both times after every question for the wall clock."""

    def __init__(self, now_us: int = 1_700_000_000_000_000, *, tick_us: int = 0) -> None:
        self._now_us = now_us
        self._monotonic_us = 0
        self._tick_us = tick_us

    def now_us(self) -> int:
        """Return the wall clock, microseconds since the epoch."""
        now_us = self._now_us
        self.advance(self._tick_us / 1_000_000)
        return now_us

    def monotonic_s(self) -> float:
        """Return the seconds advanced so far."""
        return self._monotonic_us / 1_000_000

    def advance(self, seconds: float) -> None:
        """Let time pass for both clocks."""
        passed_us = round(seconds * 1_000_000)
        self._now_us += passed_us
        self._monotonic_us += passed_us

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back, as an administrator or a time server does; the monotonic one goes on."""
        self._now_us -= round(seconds * 1_000_000)
