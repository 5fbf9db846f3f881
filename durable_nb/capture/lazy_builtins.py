"""The builtins of a namespace that still misses names: a global that nobody finds is asked for before it is an error.

Installed by `lazy` while variables of a restored checkpoint are still to be loaded, taken away when none is. Python
looks a global up in the namespace, which stays a plain dict, and then in the builtins that the function was made with;
so the functions of the namespace that exist already are given these builtins, and all of them get the plain ones back.
"""

from __future__ import annotations

import builtins
import gc
import struct
import sys
import types
from collections.abc import Callable
from typing import Any

try:
    import ctypes
except ImportError:  # a Python that was built without it: nothing is loaded later there
    ctypes = None  # type: ignore[assignment]

__all__ = ["LazyBuiltins", "install", "remove", "supported"]

_POINTER = struct.calcsize("P")


class LazyBuiltins(dict[str, Any]):
    """A copy of the builtins that asks `find` for what is neither in it nor in the real ones.

    A copy, because a lookup that ends in `__missing__` takes eight times as long as one that does not.
    """

    __slots__ = ("before", "find")

    def __init__(self, find: Callable[[str], tuple[object] | None], before: object) -> None:
        super().__init__(vars(builtins))
        self.find = find
        self.before = before  # what the namespace had under `__builtins__`, None for nothing

    def __missing__(self, name: str) -> object:
        real = vars(builtins)
        if name in real:
            return real[name]
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found[0]

    def __getattr__(self, name: str) -> Any:
        # In a notebook `__builtins__` is the module.
        return getattr(builtins, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return vars, (builtins,)

    def sync(self) -> None:
        """Take over what was added, replaced or removed in the real builtins since."""
        real = vars(builtins)
        for name in [name for name in self if name not in real]:
            del self[name]
        for name, value in list(real.items()):
            if self.get(name) is not value:
                self[name] = value


def supported() -> bool:
    """Tell whether this Python lets a function have other builtins than those it was made with."""
    if ctypes is None or sys.implementation.name != "cpython":
        return False
    if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
        return False
    probe = types.FunctionType(_probe.__code__, {"__builtins__": {"found": _POINTER}})
    first, second = _slot(probe, 0), _slot(probe, 1)
    if (first.value, second.value) != (id(probe.__globals__), id(_held(probe))):
        return False
    other = {"found": -_POINTER}
    _give(probe, other)
    return _held(probe) is other and probe() == -_POINTER


def _probe() -> object:
    return found  # type: ignore[name-defined]  # noqa: F821


def install(namespace: dict[str, Any], find: Callable[[str], tuple[object] | None]) -> LazyBuiltins:
    """Let the code of a namespace, its existing functions included, ask `find` for the globals that it misses."""
    lazy = LazyBuiltins(find, namespace.get("__builtins__"))
    namespace["__builtins__"] = lazy
    for function in _functions(namespace):
        if function.__globals__ is namespace:
            _give(function, lazy)
    return lazy


def remove(namespace: dict[str, Any], lazy: LazyBuiltins) -> None:
    """Put the plain builtins back wherever these are, so that code is as fast as ever."""
    if namespace.get("__builtins__") is lazy:
        if lazy.before is None:
            del namespace["__builtins__"]
        else:
            namespace["__builtins__"] = lazy.before
    for holder in gc.get_referrers(lazy):
        if type(holder) is types.FunctionType and _held(holder) is lazy:
            _give(holder, vars(builtins))
        elif type(holder) is dict and holder.get("__builtins__") is lazy:
            # A dictionary in which code of the notebook ran `exec`.
            holder["__builtins__"] = vars(builtins)


def _functions(namespace: dict[str, Any]) -> list[types.FunctionType]:
    return [found for found in gc.get_referrers(namespace) if type(found) is types.FunctionType]


def _held(function: types.FunctionType) -> object:
    return getattr(function, "__builtins__")  # noqa: B009  # typeshed does not know it


def _slot(function: types.FunctionType, index: int) -> ctypes.c_void_p:
    # A function begins with its globals and its builtins, in this order, in every version since 3.10; `supported`
    # proves it for the one that runs.
    return ctypes.c_void_p.from_address(id(function) + object.__basicsize__ + index * _POINTER)


def _give(function: types.FunctionType, held: dict[str, Any]) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
    # What was there keeps its reference: a frame of this function that is suspended has borrowed it from here.
    _slot(function, 1).value = id(held)
