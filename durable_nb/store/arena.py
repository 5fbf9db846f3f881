"""Where in the arena the bytes of the commits in flight go: a ring that is filled and freed in order.

Used by `Behind` in the kernel; it decides about places and writes nothing itself. The same places are used again and
again, because memory that is in the page cache already costs a tenth of fresh memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

__all__ = ["Ring"]


class Ring:
    """Places in a file of at most `budget_bytes`; what was taken first is given back first."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._head = 0  # where the next piece goes
        self._taken: deque[tuple[int, int, int]] = deque()  # (begin, end, bytes) of each take, oldest first

    @property
    def end(self) -> int:
        """Where the last of the places that are taken ends."""
        return max((end for _, end, _ in self._taken), default=0)

    def take(self, lengths: Sequence[int]) -> list[int] | None:
        """Return a place for each piece, None while there is no room; ValueError if there never will be."""
        total = sum(lengths)
        if total > self.budget_bytes:
            raise ValueError(f"{total} bytes never fit into {self.budget_bytes}")
        if not self._taken:
            self._head = 0
        begin = self._place_for(total)
        if begin is None:
            return None
        offsets, at = [], begin
        for length in lengths:
            offsets.append(at)
            at += length
        self._head = at
        self._taken.append((begin, at, total))
        self.used_bytes += total
        return offsets

    def give_back(self) -> None:
        """Free what was taken first."""
        self.used_bytes -= self._taken.popleft()[2]

    def undo(self) -> None:
        """Take the last take back."""
        begin, _, total = self._taken.pop()
        self._head = self._taken[-1][1] if self._taken else begin
        self.used_bytes -= total

    def _place_for(self, total: int) -> int | None:
        if not self._taken:
            return 0
        tail = self._taken[0][0]
        if self._head >= tail:
            if self._head + total <= self.budget_bytes:
                return self._head
            # Strictly less: a head that meets the tail would look like an empty ring.
            return 0 if total < tail else None
        return self._head if self._head + total < tail else None
