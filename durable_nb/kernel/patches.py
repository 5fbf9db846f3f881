"""Replaces methods on living objects and puts back exactly what was there.

Used by everything in `kernel/` that has to sit in IPython's or ipykernel's way. After `undo`, an object's `__dict__`
is as it was before `put`, unless somebody else replaced the same method in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Patches"]

_ABSENT = object()


class Patches:
    """A list of replaced methods that can be taken back together."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []

    def put(self, target: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace the attribute `name` on the instance `target` by `make(what is there now)`."""
        before = vars(target).get(name, _ABSENT)
        replacement = make(getattr(target, name))
        setattr(target, name, replacement)
        self._done.append((target, name, before, replacement))

    def undo(self) -> None:
        """Put everything back, the last one first; what somebody else replaced since is left to them."""
        while self._done:
            target, name, before, replacement = self._done.pop()
            if vars(target).get(name) is not replacement:
                continue
            if before is _ABSENT:
                delattr(target, name)
            else:
                setattr(target, name, before)
