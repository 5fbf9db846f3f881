"""Objects that look at another built-in object: memoryviews at a buffer, iterators at a dict and their place in it.

Merged into the plug-in by `load`. What comes back looks at the object that came back, so that changes go through.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = None

_FULL_RO = 0x11C  # PyBUF_FULL_RO: shape, strides and format, readable


# --- memoryviews ------------------------------------------------------------------------------------------------------


def _make_memoryview(
    exporter: Any, start: int, form: str, shape: tuple[int, ...], step: int, readonly: bool
) -> memoryview:
    """Make a view of `exporter` from byte `start` on; `step` counts items, of views with one dimension."""
    whole = memoryview(exporter)
    length = shape[0] if len(shape) == 1 else 1
    size = whole.itemsize if form == whole.format else memoryview(bytes(64)).cast(form).itemsize  # type: ignore[call-overload]
    flat: Any = whole.cast("B")
    view: memoryview
    if length == 0 and len(shape) == 1:
        view = flat[start:start].cast(form)
    elif len(shape) == 1:
        low = start if step > 0 else start + (length - 1) * step * size
        items = (length - 1) * abs(step) + 1
        view = flat[low : low + items * size].cast(form)[:: step or 1]
    else:
        bytes_of = size
        for extent in shape:
            bytes_of *= extent
        view = flat[start : start + bytes_of].cast(form, shape)
    return view.toreadonly() if readonly and not view.readonly else view


def _make_whole_memoryview(exporter: Any, readonly: bool) -> memoryview:
    view = memoryview(exporter)
    return view.toreadonly() if readonly and not view.readonly else view


@promise("exact")
def _memoryview(view: memoryview) -> tuple[Any, ...]:
    try:
        exporter = view.obj
    except ValueError:
        raise Unstorable("a memoryview that was released") from None
    whole = memoryview(exporter)
    start = _address(view) - _address(whole)
    same = (start, view.format, view.shape, view.strides) == (0, whole.format, whole.shape, whole.strides)
    if same:
        return _make_whole_memoryview, (exporter, view.readonly)
    shape = tuple(view.shape or ())
    step = view.strides[0] // view.itemsize if len(shape) == 1 and view.strides else 1
    regular = view.c_contiguous if len(shape) != 1 else step * view.itemsize == (view.strides or (0,))[0]
    if not whole.c_contiguous or not regular or not shape or view.format.lstrip("@") not in tuple("cbB?hHiIlLqQnNfdP"):
        raise Unstorable("a memoryview whose items do not lie in a row; keep the object that it is a view of instead")
    return _make_memoryview, (exporter, start, view.format, shape, step, view.readonly)


def _address(view: memoryview) -> int:
    """Return where in memory the first item of a view is, which only the interpreter's own interface tells."""
    import ctypes

    class Buffer(ctypes.Structure):
        _fields_ = [
            ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
            ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
            ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
            ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
        ]  # fmt: skip

    buffer = Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), _FULL_RO)
    try:
        return int(buffer.buf or 0)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))


def _exporter(view: memoryview) -> Iterable[Any]:
    try:
        return (view.obj,)
    except ValueError:
        return ()


# --- iterators over a dict --------------------------------------------------------------------------------------------

_EMPTY: dict[str, str] = {}
_KINDS: dict[type, str] = {
    **{type(iter(getattr(_EMPTY, k)())): k for k in ("keys", "values", "items")},
    **{type(reversed(getattr(_EMPTY, k)())): f"reversed {k}" for k in ("keys", "values", "items")},
}


def _make_dict_iterator(target: dict[Any, Any], kind: str, remaining: int) -> Iterator[Any]:
    """Make an iterator over `target` that has so many steps left."""
    words = kind.split()
    view = getattr(target, words[-1])()
    made: Iterator[Any] = reversed(view) if len(words) == 2 else iter(view)
    if len(target) < remaining:
        raise ValueError("an iterator inside the dict that it goes over")
    for _ in range(len(target) - remaining):
        next(made)
    return made


@promise("exact")
def _dict_iterator(iterator: Any) -> tuple[Any, ...]:
    kind = _KINDS[type(iterator)]
    held = [part for part in gc.get_referents(iterator) if isinstance(part, dict)]
    if not held:  # it lets its dict go at the end
        return _make_dict_iterator, ({}, kind, 0)
    try:
        remaining = len(iterator.__reduce__()[1][0])
    except RuntimeError as error:
        raise Unstorable(f"an iterator that can only raise an error: {error}") from None
    return _make_dict_iterator, (held[0], kind, remaining)


def plugin() -> Plugin:
    """Return what views of built-in objects need."""
    return Plugin(
        exact={memoryview: _memoryview, **dict.fromkeys(_KINDS, _dict_iterator)},
        referents={
            memoryview: _exporter,
            **dict.fromkeys(_KINDS, lambda it: [part for part in gc.get_referents(it) if isinstance(part, dict)]),
        },
    )
