"""Memory views, `super()` objects, finished generators, and errors with a traceback that still prints.

Merged into the plug-in by `load`. A view of a bytearray, bytes or array goes on looking at that object.
"""

from __future__ import annotations

import array
import ctypes
import linecache
import sys
import types
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._memory import unprotected
from durable_nb.capture.reducers._tracebacks import described, made_again, sources
from durable_nb.capture.reducers.builtins import _exception

LIBRARY = "types"

_STRIDES = 0x0018  # PyBUF_STRIDES
_Place = tuple[tuple[int, ...], tuple[int, ...]]


# --- super ------------------------------------------------------------------------------------------------------------


def _make_super(cls: type, *bound: Any) -> Any:
    return super(cls, *bound)


def _told(obj: Any, name: str) -> Any:
    # A super() object answers for another one whatever it is asked itself.
    return vars(super)[name].__get__(obj)


@promise("exact")
def _super(obj: Any) -> tuple[Any, ...]:
    cls, bound, of = _told(obj, "__thisclass__"), _told(obj, "__self__"), _told(obj, "__self_class__")
    return _make_super, (cls,) if of is None else (cls, bound)


# --- memory views -----------------------------------------------------------------------------------------------------


def _make_memoryview(obj: Any, readonly: bool) -> memoryview:
    if not readonly and _is_array(obj):
        with unprotected(obj):
            return memoryview(obj)
    made = memoryview(obj)
    return made.toreadonly() if readonly and not made.readonly else made


def _make_part(obj: Any, readonly: bool, start: int, place: _Place, code: str, step: int) -> memoryview:
    """Return a view of a part: `place` are the shape and the number of bytes there; `step` counts items."""
    shape, (size,) = place
    made: Any = _make_memoryview(obj, readonly).cast("B")[start : start + size]
    shaped: memoryview = made.cast(code, shape) if len(shape) != 1 else made.cast(code)[::step]
    return shaped


def _make_released() -> memoryview:
    made = memoryview(b"")
    made.release()
    return made


class _Buffer(ctypes.Structure):
    """CPython's Py_buffer."""

    _fields_ = (
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    )  # fmt: skip


def _address(view: memoryview) -> int:
    """Return where the first item of a view is in memory, which memory views themselves keep to themselves."""
    found = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(found), _STRIDES)
    try:
        return int(found.buf or 0)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(found))


@promise("equal", "it sees the same memory again; an address in it that C code holds is not followed")
def _memoryview(view: memoryview) -> tuple[Any, ...]:
    try:
        obj = view.obj
    except ValueError:
        return _make_released, ()
    if type(obj) not in (bytes, bytearray, array.array) and not _is_array(obj):
        raise Unstorable(f"a view of the memory of a {type(obj).__module__}.{type(obj).__qualname__}")
    whole = memoryview(obj)
    start = _address(view) - _address(whole) if view.nbytes else 0
    if not start and (view.shape, view.strides, view.format) == (whole.shape, whole.strides, whole.format):
        return _make_memoryview, (obj, view.readonly)
    if not whole.c_contiguous or not view.format.strip("@").isalpha() or len(view.format.strip("@")) != 1:
        raise Unstorable("a view of memory in an unusual order or format")
    if view.c_contiguous:
        return _make_part, (obj, view.readonly, start, (view.shape, (view.nbytes,)), view.format, 1)
    if view.ndim != 1:
        raise Unstorable("a view of memory in an unusual order or format")
    (count,), (stride,) = view.shape or (), view.strides or ()
    step, size = stride // view.itemsize, abs(stride) * (count - 1) + view.itemsize
    first = start if stride > 0 else start - size + view.itemsize
    return _make_part, (obj, view.readonly, first, (view.shape, (size,)), view.format, step)


def _is_array(obj: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(obj) is numpy.ndarray


# --- errors and their tracebacks --------------------------------------------------------------------------------------


def _make_traceback(entries: tuple[tuple[Any, ...], ...], sources: dict[str, str]) -> types.TracebackType | None:
    """Return a traceback that prints as it did, the source of cells included; its frames hold no variables."""
    for filename, source in sources.items():
        linecache.cache.setdefault(filename, (len(source), None, source.splitlines(keepends=True), filename))
    return made_again(entries)


@promise("equal", "it prints as it did, but its frames hold no variables")
def _traceback(traceback: types.TracebackType) -> tuple[Any, ...]:
    entries = described(traceback)
    return _make_traceback, (entries, sources(entries))


def _fill_error(made: BaseException, state: tuple[Any, Any, Any]) -> None:
    """Give an error its traceback, then what its own way or ours gives it."""
    traceback, fill, rest = state
    made.__traceback__ = traceback
    if fill is not None:
        fill(made, rest)
    elif rest is not None:
        made.__setstate__(rest)


@promise("equal", "its traceback prints as it did, but the frames hold no variables")
def _error(error: BaseException) -> Any:
    reduced = _exception(error)
    if error.__traceback__ is None:
        return reduced
    if reduced is NotImplemented:
        reduced = error.__reduce_ex__(5)
    if not isinstance(reduced, tuple):
        return reduced
    func, args, state, items, pairs, fill = (*reduced, None, None, None, None)[:6]
    return func, args, (error.__traceback__, fill, state), items, pairs, _fill_error


# --- generators -------------------------------------------------------------------------------------------------------


def _make_finished(code: Any, name: str, qualname: str) -> Any:
    """Return a generator that has come to its end; nothing of its code runs."""
    if not isinstance(code, types.CodeType):
        return code  # what stands for code that this Python cannot make again says so itself
    cells = tuple(types.CellType() for _ in code.co_freevars)
    most = code.co_argcount + code.co_kwonlyargcount
    keywords = dict.fromkeys(code.co_varnames[code.co_argcount : most])
    made = types.FunctionType(code, {}, name, None, cells)(*[None] * code.co_argcount, **keywords)
    made.__name__, made.__qualname__ = name, qualname
    made.close()
    return made


@promise("exact", "one that has come to its end; the frame of any other is in the lost kernel, and it is reported")
def _generator(generator: Any) -> Any:
    if generator.gi_frame is not None:
        return generator.__reduce_ex__(5)  # which says why it is not possible
    return _make_finished, (generator.gi_code, generator.__name__, generator.__qualname__)


def _no_frame(generator: Any) -> tuple[()] | None:
    # What a frame holds is not followed: the generator is not stored.
    return () if generator.gi_frame is None else None


def plugin() -> Plugin:
    """Return what these objects of the interpreter need."""
    return Plugin(
        exact={
            super: _super,
            memoryview: _memoryview,
            types.TracebackType: _traceback,
            types.GeneratorType: _generator,
        },
        subclasses=((BaseException, _error),),
        referents={types.GeneratorType: _no_frame},
    )
