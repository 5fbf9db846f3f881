"""Which of the values that were loaded together hold a stand-in for what could not be made again.

Called by `codec` when a group came back with stand-ins in it. Looks at references only and runs no code of the user.
"""

from __future__ import annotations

import builtins
import gc
import sys
import types
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.foreign import Lost

__all__ = ["missing_in"]


def missing_in(value: object, namespace: dict[str, Any]) -> str | None:
    """Return the reason of a stand-in that a value leads to; None: it leads to none, and is whole."""
    stop = {id(namespace), id(vars(builtins)), id(sys.modules)}
    todo, seen = [value], set[int]()
    while todo:
        found: Any = todo.pop()
        if type(found) is Lost:
            return found.reason
        if id(found) in seen or id(found) in stop or plainly.is_a(found, types.CodeType | types.FrameType):
            continue
        seen.add(id(found))
        todo.extend(_held(found, namespace))
    return None


def _held(found: Any, namespace: dict[str, Any]) -> list[Any]:
    """Return what an object of this load holds; what was imported holds nothing of it."""
    if plainly.is_a(found, types.ModuleType) and sys.modules.get(found.__name__) is found:
        return []
    if plainly.is_a(found, type) and getattr(sys.modules.get(found.__module__), found.__name__, None) is found:
        return []
    if type(found) is types.FunctionType and found.__globals__ is not namespace:
        module = sys.modules.get(str(found.__globals__.get("__name__")))
        if module is not None and vars(module) is found.__globals__:
            return [found.__defaults__, found.__kwdefaults__, found.__dict__, *(found.__closure__ or ())]
    return gc.get_referents(found)
