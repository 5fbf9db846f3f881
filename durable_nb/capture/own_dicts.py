"""Attributes that pickling an object does not keep: its `__dict__` is somebody else's, too, or is left out.

Called by `pickler`. Whatever describes an object, the dictionary it ends up with is the one that a variable, a closure
or another object holds, if one does; and what a subclass of a date or a Decimal, or a Counter, has beside its value is
kept. The functions `_join_dict` and `_keep_attributes` are part of the format.
"""

from __future__ import annotations

import pickle
import sys
import types
from functools import cached_property
from typing import Any

from durable_nb.capture import plainly, rebuild
from durable_nb.capture.reducers import Unstorable
from durable_nb.capture.reducers.builtins import _make_attribute

__all__ = ["describe_left_out", "keep_shared", "leaves_out", "shared_dict"]

# What leads to an object that is stored elsewhere.
_REFERENCES = (rebuild._main, rebuild._main_raw, rebuild._make_module, rebuild._make_unwrapped, _make_attribute)

_TABLES = "pandas.core.generic"  # whose own attributes have names with an underscore


def shared_dict(obj: Any, dicts: frozenset[int]) -> dict[str, Any] | None:
    """Return the `__dict__` of an object if it is among those that are shared."""
    try:
        held: Any = object.__getattribute__(obj, "__dict__")
    except (AttributeError, TypeError):
        return None
    if id(held) not in dicts or plainly.is_a(obj, type | types.ModuleType):
        return None
    if any(type(vars(base).get("__dict__")) is types.MemberDescriptorType for base in type(obj).__mro__):
        raise Unstorable(f"a {type(obj).__qualname__} whose `__dict__` something else holds, too; store a copy of it")
    return held  # type: ignore[no-any-return]


def keep_shared(obj: Any, reduced: Any, dicts: frozenset[int], *, chosen: bool = False) -> Any:
    """Return the description of an object with the dictionary that others hold, if there is one.

    `chosen`: the notebook's class says itself what lasts of the attributes.
    """
    if not isinstance(reduced, tuple) or reduced[0] in _REFERENCES or (held := shared_dict(obj, dicts)) is None:
        return reduced
    func, args, state, items, pairs, setter = (*reduced, None, None, None, None)[:6]
    return func, args, (setter, state, held, chosen), items, pairs, _join_dict


def leaves_out(cls: type) -> bool:
    """Tell whether objects of a type may have attributes that the pickling of its base knows nothing of."""
    for base in cls.__mro__[:-1] if cls.__dictoffset__ else ():
        found = vars(base)
        if "__getstate__" in found and base.__module__ in ("__main__", _TABLES):
            return base.__module__ == _TABLES
        if "__reduce__" in found or "__reduce_ex__" in found:
            return base.__module__.partition(".")[0] in sys.stdlib_module_names and base.__module__ != "__main__"
    return False


def describe_left_out(obj: Any, reduced: Any) -> Any:
    """Return the description of an object with its attributes, where that makes a new object and says none of them."""
    if not isinstance(reduced, tuple) or len(reduced) < 2:
        return reduced
    func, args, state, items, pairs, setter = (*reduced, None, None, None, None)[:6]
    cls = type(obj)
    said = state[0] if isinstance(state, tuple) and state and isinstance(state[0], dict) else state
    told = {n for base in cls.__mro__ for n, value in vars(base).items() if plainly.is_a(value, cached_property)}
    told |= said.keys() if isinstance(said, dict) else set()
    is_table = any(base.__module__ == _TABLES for base in cls.__mro__)
    held = object.__getattribute__(obj, "__dict__")
    own = {n: value for n, value in held.items() if n not in told and not (is_table and n.startswith("_"))}
    if is_table:
        own = {n: value for n, value in own.items() if _lasts(value)}
    is_new = func is cls or (isinstance(args, tuple) and args[:1] == (cls,))
    if not own or not is_new:
        return reduced
    return func, args, (setter, state, own), items, pairs, _keep_attributes


def _lasts(value: Any) -> bool:
    """Can what hangs on a table be pickled? Libraries hang there what cannot be, and rely on its being left out."""
    if plainly.is_a(value, types.FunctionType | type) or plainly.module(type(value)) == "__main__":
        return True
    try:
        pickle.dumps(value, 5)
    except Exception:  # whatever it raises, pandas would not have kept it either
        return False
    return True


def _set_state(target: Any, setter: Any, state: Any) -> None:
    """Give an object its state as pickle does."""
    if state is None:
        return
    if setter is not None:
        setter(target, state)
    elif hasattr(target, "__setstate__"):
        target.__setstate__(state)
    else:
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        object.__getattribute__(target, "__dict__").update(attributes or {})
        for name, value in (slots or {}).items():
            setattr(target, name, value)


def _keep_attributes(target: Any, given: tuple[Any, Any, dict[str, Any]]) -> None:
    """Give an object its state in the way of its own, and beside it the attributes that this knows nothing of."""
    setter, state, attributes = given
    _set_state(target, setter, state)
    object.__getattribute__(target, "__dict__").update(attributes)


def _join_dict(target: Any, given: tuple[Any, Any, dict[str, Any], bool]) -> None:
    """Give an object its state in the way of its own, and then the dictionary that others hold, as that left it."""
    setter, state, held, chosen = given
    _set_state(target, setter, state)
    own = object.__getattribute__(target, "__dict__")
    if own is not held:
        content = dict(own)
        if chosen:
            held.clear()
        held.update(content)
        object.__setattr__(target, "__dict__", held)
