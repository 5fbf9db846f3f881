"""Whether what is loaded is there to stay, and who owns the buffers that a load is given.

Used by `codec`, `staging` and `proof`, and by rebuild functions that would copy a buffer for ownership's sake only, or
make what acts when it goes away. Changes nothing but what `given` is told to use up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

__all__ = ["BORROWED", "address_of", "fresh", "given"]

# Below this a copy costs nothing that anybody notices.
ARRAY_FROM_BYTES = 4 * 1024 * 1024

# True while something is loaded on trial or to be compared: nothing large is copied then, and no weak reference calls.
BORROWED: ContextVar[bool] = ContextVar("durable_nb_borrowed", default=False)


def fresh(size_bytes: int) -> Any:
    """Return memory to read a buffer into: an array of numpy where it is large, so that an array can take it over.

    numpy also asks for large pages, which are there several times as fast as small ones.
    """
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or size_bytes < ARRAY_FROM_BYTES:
        return bytearray(size_bytes)
    return numpy.empty(size_bytes, numpy.uint8)


def address_of(memory: Any) -> int:
    """Return where memory that `fresh` made as an array begins."""
    return int(memory.__array_interface__["data"][0])


def given(buffers: Sequence[Any]) -> Iterator[Any]:
    """Yield buffers that are given away and let go of each, so that what copies one needs memory for one only."""
    rest = list(reversed(buffers))
    if isinstance(buffers, list):
        buffers.clear()
    while rest:
        yield rest.pop()
