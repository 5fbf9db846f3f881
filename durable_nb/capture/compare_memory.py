"""Where in memory lies what a value looks at, and who looks at the same: arrays, buffers, tensors and columns.

Called by `compare`: two sides are the same only if they share memory at the same places. Nothing is changed; what is
copied to answer is dropped.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Sequence
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.reducers.polars import address_range

__all__ = ["Span", "overlaps", "spans"]

Span = tuple[int, int]  # addresses: of the first byte, and behind the last


def spans(value: Any) -> list[Span]:
    """Return which stretches of memory a value looks at that others may write to; empty: none, or it does not say."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return []  # views of memory are told by the objects that they are views of, then
    if plainly.is_a(value, numpy.ndarray):
        return [_extent(value.__array_interface__["data"][0], value.shape, value.strides, value.itemsize)]
    if type(value) in (bytearray, array.array):
        start = int(numpy.frombuffer(value, numpy.uint8).__array_interface__["data"][0]) if len(value) else 0
        return [(start, start + memoryview(value).nbytes)]
    return _of_library(value)


def _of_library(value: Any) -> list[Span]:
    torch, polars, arrow = (sys.modules.get(name) for name in ("torch", "polars", "pyarrow.lib"))
    if torch is not None and hasattr(torch, "Tensor") and plainly.is_a(value, torch.Tensor):
        if value.layout != torch.strided:
            return []
        size = value.element_size()
        strides = [stride * size for stride in value.stride()]
        return [_extent(value.data_ptr(), value.shape, strides, size)]
    if polars is not None and hasattr(polars, "DataFrame") and plainly.is_a(value, (polars.DataFrame, polars.Series)):
        columns = value.get_columns() if plainly.is_a(value, polars.DataFrame) else [value]
        return [address_range(column) or (0, 0) for column in columns]
    if arrow is not None and hasattr(arrow, "Buffer") and plainly.is_a(value, arrow.Buffer):
        return [(value.address, value.address + value.size)] if value.is_cpu and value.is_mutable else []
    return []


def _extent(start: int, shape: Sequence[int], strides: Sequence[int], size: int) -> Span:
    start = end = int(start)
    for length, stride in zip(shape, strides, strict=True):
        if length == 0:
            return (start, start)
        if stride < 0:
            start += (length - 1) * stride
        else:
            end += (length - 1) * stride
    return (start, end + size)


def overlaps(places: Sequence[Span]) -> list[tuple[int, int]]:
    """Return for each place which block of memory it lies in, numbered by first appearance, and where in it."""
    found = [(-1, 0)] * len(places)
    blocks: list[tuple[int, list[int]]] = []
    end = -1
    for i in sorted((i for i, (start, stop) in enumerate(places) if start < stop), key=lambda i: places[i]):
        start, stop = places[i]
        if start >= end:
            blocks.append((start, []))
        blocks[-1][1].append(i)
        end = max(end, stop)
    blocks.sort(key=lambda block: min(block[1]))
    for number, (start, inside) in enumerate(blocks):
        for i in inside:
            found[i] = (number, places[i][0] - start)
    return found
