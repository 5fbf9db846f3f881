"""Arrays, frames and generators of numpy and pandas in the canonical form: content, layout, and who shares memory.

Called by `canon` for objects that it does not know itself; each function returns an empty text for what is not its own.
"""

from __future__ import annotations

import hashlib
import mmap
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_nb.testing.canon import Canon

__all__ = ["Memory", "array", "array_like", "frame", "generator"]


class Memory:
    """Which arrays look at the same memory, and where in it; the gaps that nobody looks at do not count."""

    def __init__(self) -> None:
        self._roots: dict[int, list[tuple[str, Any]]] = {}
        self._columns: list[tuple[str, Any]] = []

    def array(self, path: str, obj: Any, root: Any) -> None:
        """Note an array and the object that owns its memory."""
        self._roots.setdefault(id(root), []).append((path, obj))

    def column(self, path: str, values: Any) -> None:
        """Note the values of a column, whose memory only matters where an array sees it too."""
        self._columns.append((path, values))

    def lines(self) -> list[tuple[str, str]]:
        """Return for each array that shares memory which bytes of it are whose."""
        found = []
        for arrays in self._roots.values():
            if len(arrays) > 1:
                found += _overlaps(arrays)
        everything = [pair for arrays in self._roots.values() for pair in arrays]
        numpy = _library("numpy")
        for path, values in self._columns:
            shared = [other for other, obj in everything if numpy.may_share_memory(obj, values)]
            if shared:
                found.append((f"{path} <memory>", f"shared with {shared}"))
        return found


def _overlaps(arrays: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Say of each array where its elements start, counted in the bytes that any of the arrays covers."""
    numpy = _library("numpy")
    starts = []
    for _, obj in arrays:
        at = numpy.int64(obj.__array_interface__["data"][0])
        for size, stride in zip(obj.shape, obj.strides, strict=True):
            at = numpy.add.outer(at, numpy.arange(size) * stride)
        starts.append(at.ravel())
    covered = numpy.unique(
        numpy.concatenate(
            [
                numpy.add.outer(at, numpy.arange(obj.itemsize)).ravel()
                for at, (_, obj) in zip(starts, arrays, strict=True)
            ]
        )
    )
    found = []
    for at, (path, _) in zip(starts, arrays, strict=True):
        places = numpy.searchsorted(covered, at).tolist()
        digest = hashlib.sha256(repr(places).encode()).hexdigest()[:8]
        found.append((f"{path} <memory>", f"of {arrays[0][0]} at {places[:6]} {digest}"))
    return found


def _below_strides(obj: Any) -> Any:
    """Return the array below what numpy itself puts between it and a view that is made by strides."""
    below: Any = getattr(obj, "base", None)
    return below.base if type(below).__name__ == "DummyArray" else obj


def _library(name: str) -> Any:
    return sys.modules.get(name)


def array_like(obj: Any) -> str | None:
    """Return the words for values of numpy and pandas that nobody can change: scalars, dtypes, indexes."""
    numpy, pandas = _library("numpy"), _library("pandas")
    if numpy is not None and isinstance(obj, numpy.generic | numpy.dtype):
        return f"{type(obj).__name__} {obj!r}"
    if pandas is not None and isinstance(obj, pandas.Index):
        return f"{type(obj).__name__} {obj.dtype} {list(obj)!r} {obj.names!r}"
    return None


def array(canon: Canon, obj: Any, path: str) -> str:
    """Describe an array: layout, content, the array or buffer that it is a view of, and its place in memory."""
    numpy = _library("numpy")
    if numpy is None or not isinstance(obj, numpy.ndarray):
        return ""
    found = [f"{type(obj).__name__} {obj.dtype} {obj.shape}{' writeable' if obj.flags.writeable else ''}"]
    if obj.dtype.hasobject:
        items = [(f"[{i}]", item) for i, item in enumerate(obj.ravel().tolist())]
        found.append(canon.parts(path, items))
    else:
        found.append(hashlib.sha256(obj.tobytes()).hexdigest()[:8] + f" {obj.ravel()[:6].tolist()}")
    root = _below_strides(obj)
    # A compiled object may own several pieces of memory that have nothing to do with each other: it is no root.
    while isinstance(getattr(root, "base", None), numpy.ndarray | memoryview | bytearray | bytes | mmap.mmap):
        root = _below_strides(root.base)
    canon.memory.array(path, obj, root.obj if isinstance(root, memoryview) else root)
    if (mask := getattr(obj, "mask", None)) is not None:
        found.append(f"mask {numpy.asarray(mask).tolist()!r}")
    return " ".join(found)


def frame(canon: Canon, obj: Any, path: str) -> str:
    """Describe a frame or series: labels, types and values of the columns, attrs; memory where an array sees it."""
    pandas, numpy = _library("pandas"), _library("numpy")
    if pandas is None or not isinstance(obj, pandas.DataFrame | pandas.Series):
        return ""
    found = [f"{type(obj).__name__} index {canon.ref(obj.index, f'{path}.index')}"]
    if isinstance(obj, pandas.Series):
        columns = [(obj.name, obj)]
    else:
        found.append(f"columns {canon.ref(obj.columns, f'{path}.columns')}")
        columns = [(label, obj.iloc[:, i]) for i, label in enumerate(obj.columns)]
    for label, column in columns:
        values = column._values
        found.append(f"{label!r} {column.dtype} {values.tolist()!r}")
        if isinstance(values, numpy.ndarray) and values.size:
            canon.memory.column(f"{path}[{label!r}]", values)
    found.append(f"attrs {canon.ref(obj.attrs, f'{path}.attrs')} {obj.flags!r}")
    return " ".join(found)


def generator(canon: Canon, obj: Any, path: str) -> str:
    """Describe a random generator of numpy by its state; generators may share one stream."""
    numpy = _library("numpy")
    if numpy is None:
        return ""
    if isinstance(obj, numpy.random.Generator):
        return f"Generator {canon.ref(obj.bit_generator, f'{path}.bit_generator')}"
    if isinstance(obj, numpy.random.RandomState):
        return f"RandomState {canon.ref(obj._bit_generator, f'{path}._bit_generator')} {obj.get_state()[3:]!r}"
    if isinstance(obj, numpy.random.BitGenerator):
        return f"{type(obj).__name__} {hashlib.sha256(repr(obj.state).encode()).hexdigest()[:12]}"
    return ""
