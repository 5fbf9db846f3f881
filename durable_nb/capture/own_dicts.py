"""Objects whose `__dict__` somebody else holds, too: a variable, a closure, another object.

Called by `pickler` for every object while such a dictionary is there. Whatever describes the object, the dictionary it
ends up with is the one that the others hold. The function `_join_dict` is part of the format.
"""

from __future__ import annotations

import types
from typing import Any

from durable_nb.capture import rebuild
from durable_nb.capture.reducers import Unstorable
from durable_nb.capture.reducers.builtins import _make_attribute

__all__ = ["keep_shared", "shared_dict"]

# What leads to an object that is stored elsewhere.
_REFERENCES = (rebuild._main, rebuild._main_raw, rebuild._make_module, rebuild._make_unwrapped, _make_attribute)


def shared_dict(obj: Any, dicts: frozenset[int]) -> dict[str, Any] | None:
    """Return the `__dict__` of an object if it is among those that are shared."""
    try:
        held: Any = object.__getattribute__(obj, "__dict__")
    except (AttributeError, TypeError):
        return None
    if id(held) not in dicts or isinstance(obj, type | types.ModuleType):
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


def _join_dict(target: Any, given: tuple[Any, Any, dict[str, Any], bool]) -> None:
    """Give an object its state in the way of its own, and then the dictionary that others hold, as that left it."""
    setter, state, held, chosen = given
    if state is None:
        pass
    elif setter is not None:
        setter(target, state)
    elif hasattr(target, "__setstate__"):
        target.__setstate__(state)
    else:
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        object.__getattribute__(target, "__dict__").update(attributes or {})
        for name, value in (slots or {}).items():
            setattr(target, name, value)
    own = object.__getattribute__(target, "__dict__")
    if own is not held:
        content = dict(own)
        if chosen:
            held.clear()
        held.update(content)
        object.__setattr__(target, "__dict__", held)
