"""Bound methods, and what functools.cmp_to_key makes: described by what they are bound to, not by a name.

Merged into the plug-in by `load`. Pickle stores a bound method as an attribute of its object, which need not have it
under that name, and need not be whole yet when the method comes back.
"""

from __future__ import annotations

import functools
import gc
import types
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "functools"

_KEY = type(functools.cmp_to_key(lambda a, b: 0))


def _make_method(function: Any, owner: Any) -> types.MethodType:
    return types.MethodType(function, owner)


@promise("exact")
def _method(method: types.MethodType) -> Any:
    function, owner = method.__func__, method.__self__
    name = getattr(function, "__name__", "")
    if getattr(function, "__module__", None) != "__main__" and _found(owner, name) is function:
        return NotImplemented  # a library's method goes by its name, whatever the library's next version is made of
    return _make_method, (function, owner)


def _found(owner: Any, name: str) -> Any:
    """Return the function that a look-up of an attribute ends at, without running code of the owner's class."""
    if not isinstance(owner, type):
        try:
            if name in object.__getattribute__(owner, "__dict__"):
                return None
        except (AttributeError, TypeError):
            pass
    classes = type(owner).__mro__
    if isinstance(owner, type):
        classes = (*owner.__mro__, *classes)
    held = next((vars(base)[name] for base in classes if name in vars(base)), None)
    return getattr(held, "__func__", held)


def _make_key(compare: Any, *held: Any) -> Any:
    made = functools.cmp_to_key(compare)
    return made(*held) if held else made


@promise("exact")
def _key(key: Any) -> tuple[Any, ...]:
    compare = next(held for held in gc.get_referents(key) if not isinstance(held, type))
    return _make_key, (compare, *((key.obj,) if getattr(key, "obj", None) is not None else ()))


def _make_dispatch_method() -> Any:
    return functools.singledispatchmethod(_make_method)


def _fill_dispatch_method(target: Any, state: dict[str, Any]) -> None:
    vars(target).update(state)


@promise("exact")
def _dispatch_method(method: Any) -> tuple[Any, ...]:
    # Versions of Python keep a cache of their own in it, which making one makes.
    state = {name: value for name, value in vars(method).items() if name != "_method_cache"}
    return _make_dispatch_method, (), state, None, None, _fill_dispatch_method


def plugin() -> Plugin:
    """Return what methods and comparison keys need."""
    return Plugin(exact={types.MethodType: _method, _KEY: _key, functools.singledispatchmethod: _dispatch_method})
