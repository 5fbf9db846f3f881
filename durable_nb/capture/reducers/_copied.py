"""Functions that a library has cloudpickle copy: they come back as functions of the notebook, not with its values.

Used by the reducers of such libraries. A copy would go on with the variables as they were when it was written; what
is written here sees those that there are when the library makes the function, which may be long after the restore.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import io
import pickle
import sys
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

from durable_nb.capture.reducers import Unstorable

__all__ = ["written"]

_MAIN = "__main__"
_ATOMS = (int, float, complex, str, bytes, type(None), types.ModuleType)


def _make_in_notebook(code: types.CodeType, name: str, cells: tuple[Any, ...], state: dict[str, Any]) -> Any:
    function = types.FunctionType(code, vars(sys.modules[_MAIN]), name, None, tuple(map(types.CellType, cells)))
    for attribute, value in state.items():
        setattr(function, attribute, value)
    return function


def written(write: Callable[[], Any]) -> Any:
    """Return what `write` returns; functions of the notebook that it has cloudpickle copy stay such.

    Raises Unstorable for a function that holds an object of the notebook, which would be another one from then on.
    """
    if importlib.util.find_spec("cloudpickle") is None:
        return write()
    cloudpickle = importlib.import_module("cloudpickle")
    own, here = cloudpickle.dumps, threading.get_ident()
    refused: list[str] = []

    class Pickler(cloudpickle.Pickler):  # type: ignore[name-defined,misc]
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, types.FunctionType) and obj.__globals__ is vars(sys.modules[_MAIN]):
                return _function(obj)
            return super().reducer_override(obj)

    def dumps(obj: Any, *args: Any, **options: Any) -> Any:
        # Other threads may be writing at this moment, and want what they would get anyway.
        if threading.get_ident() != here:
            return own(obj, *args, **options)
        refused.extend(_held(obj))
        stream = io.BytesIO()
        Pickler(stream, *args, **options).dump(obj)
        return stream.getvalue()

    def refuse(obj: Any, *args: Any, **options: Any) -> Any:
        # Tried first by some; it would write a function by its name, which need not be there yet when it is looked up.
        if threading.get_ident() != here:
            return plain(obj, *args, **options)
        raise pickle.PicklingError("cloudpickle writes it")

    plain = pickle.dumps
    with mock.patch.object(cloudpickle, "dumps", dumps), mock.patch.object(pickle, "dumps", refuse):
        result = write()
    if refused:
        raise Unstorable(f"{refused[0]}, of which it would get a copy; make it again in a cell")
    return result


def _function(function: types.FunctionType) -> tuple[Any, ...]:
    names = ("__qualname__", "__module__", "__defaults__", "__kwdefaults__", "__dict__")
    state = {name: value for name in names if (value := getattr(function, name))}
    return _make_in_notebook, (function.__code__, function.__name__, tuple(_contents(function)), state)


def _contents(function: types.FunctionType) -> Iterable[Any]:
    return [cell.cell_contents for cell in function.__closure__ or ()]


def _same(value: Any) -> bool:
    """Tell whether a copy of a value is as good as the value: it never changes, or is found by its name."""
    if isinstance(value, type):
        return value.__module__ != _MAIN
    if isinstance(value, types.BuiltinFunctionType):
        return isinstance(value.__self__, types.ModuleType | None)
    return type(value) in _ATOMS or isinstance(value, types.ModuleType)


def _held(written: Any) -> Iterable[str]:
    """Say what of the notebook is in something that a copy would not share with it any more."""
    seen, left = set(), [written]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, types.FunctionType) and one.__module__ == _MAIN:
            if one.__globals__ is not vars(sys.modules[_MAIN]):
                yield f"function {one.__qualname__} has variables of its own"
            defaults, others = one.__defaults__ or (), one.__kwdefaults__ or {}
            for value in (*_contents(one), *defaults, *others.values(), *vars(one).values()):
                if isinstance(value, types.FunctionType):
                    left.append(value)
                elif not _same(value):
                    yield f"function {one.__qualname__} holds a {type(value).__qualname__}"
        elif isinstance(one, types.FunctionType):
            left += _contents(one)
        elif isinstance(one, types.MethodType):
            left += [one.__func__, one.__self__]
        elif isinstance(one, functools.partial):
            left += [one.func, *one.args, *one.keywords.values()]
        elif type(one).__module__ == _MAIN:
            yield f"it holds a {type(one).__qualname__}"
        elif callable(one) and not isinstance(one, type):
            left += getattr(one, "__dict__", {}).values()
