"""Functions of the notebook that no variable holds: a callback given to a library, a method of a deleted class.

Kept by `settled`. Whoever holds such a function may call it at any time, and it finds the variables by their names,
which no count of references to these shows. But each function holds the namespace once, and these references are
counted after every look.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Collection
from sys import getrefcount
from typing import Any

from durable_nb.capture.trails import OurRef

__all__ = ["Unseen", "of_notebook"]


def of_notebook(functions: Collection[Any], namespace: dict[str, Any]) -> frozenset[int]:
    """Return the ids of the functions among definitions whose globals are the namespace."""
    return frozenset(id(f) for f in functions if type(f) is types.FunctionType and f.__globals__ is namespace)


class Unseen:
    """The functions of a namespace that the walk did not meet, found anew whenever the count of references moves."""

    def __init__(self) -> None:
        self._others: int | None = None  # references to the namespace that are no function's
        self._known: list[OurRef] = []

    def codes(self) -> list[types.CodeType]:
        """Return the code of those that were there after the last look."""
        return [f.__code__ for ref in self._known if (f := ref()) is not None]

    def note(self, namespace: dict[str, Any], seen: int, ids: Collection[frozenset[int]]) -> bool:
        """Take note of what is there after a look that met `seen` functions, with these `ids`; tell if that is new."""
        alive = sum(ref() is not None for ref in self._known)
        if alive == len(self._known) and self._others == getrefcount(namespace) - seen - alive:
            return False
        known = frozenset[int]().union(*ids)
        # A search of all objects; functions come and go far more often together with their names.
        self._known = [
            OurRef(holder)
            for holder in gc.get_referrers(namespace)
            if type(holder) is types.FunctionType and holder.__globals__ is namespace and id(holder) not in known
        ]
        self._others = getrefcount(namespace) - seen - len(self._known)
        return True
