"""Objects of notebook classes that derive from built-in containers and values, described without the class's methods.

Called by `pickler`. Pickle fills such an object through the class's `append`, `__setitem__` or `__new__`, before its
attributes are there: what those did is part of the content already, and doing it again fails or changes it. The
functions named `_make_*` and `_fill_*` are part of the format.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from durable_nb.capture.definitions import importable

__all__ = ["describe", "of_notebook"]

_HOOKS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs_ex__", "__getnewargs__")

# The value without what the class itself says of it.
_VALUES: Mapping[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: lambda obj: b"".join((obj,)),
    tuple: lambda obj: tuple(tuple.__iter__(obj)),
    frozenset: lambda obj: frozenset(frozenset.__iter__(obj)),
}
_CONTAINERS: Mapping[type, Callable[[Any], tuple[Any, ...]]] = {
    list: lambda obj: (),
    dict: lambda obj: (),
    set: lambda obj: (),
    collections.OrderedDict: lambda obj: (),
    collections.defaultdict: lambda obj: (obj.default_factory,),
    collections.deque: lambda obj: ((), obj.maxlen),
}


def _base(cls: type) -> type:
    return next((base for base in cls.__mro__ if base in _VALUES or base in _CONTAINERS), object)


def of_notebook(cls: type) -> bool:
    """Tell whether objects of a type are described here: it has a plain base, and no name and no way of its own."""
    base = _base(cls)
    if base is object or cls is base or importable(cls):
        return False
    return all(_native(cls, base, name) for name in _HOOKS)


def _native(cls: type, base: type, name: str) -> bool:
    found = getattr(cls, name, None)
    if found is getattr(object, name, None) or found is getattr(base, name, None):
        return True
    # What named tuples and counters bring says the same as their base.
    return type(found) is FunctionType and found.__module__ == "collections"


def describe(obj: Any) -> tuple[Any, ...]:
    """Return how pickle makes the object again: bare, then its content by the base's own methods."""
    cls = type(obj)
    base = _base(cls)
    state = object.__getstate__(obj)
    if base in _VALUES:
        return _make_value, (cls, base, _VALUES[base](obj)), state or None, None, None, _fill_state
    items = list(base.items(obj)) if issubclass(base, dict) else list(base.__iter__(obj))  # type: ignore[attr-defined]
    return _make_container, (cls, base, *_CONTAINERS[base](obj)), (state, items), None, None, _fill_container


def _make_value(cls: type, base: Any, value: Any) -> Any:
    return base.__new__(cls, value)


def _make_container(cls: type, base: Any, *args: Any) -> Any:
    made = base.__new__(cls)
    base.__init__(made, *args)
    return made


def _fill_state(target: Any, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        object.__getattribute__(target, "__dict__").update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(target, name, value)


def _fill_container(target: Any, state: tuple[Any, list[Any]]) -> None:
    attributes, items = state
    _fill_state(target, attributes)
    base: Any = _base(type(target))
    if issubclass(base, dict):
        for key, value in items:
            base.__setitem__(target, key, value)
    elif base is set:
        set.update(target, items)
    else:
        base.extend(target, items)
