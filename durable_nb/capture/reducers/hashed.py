"""Instances that hash by what they hold, which a cycle may ask of them before they hold it.

Merged into the plug-in by `load`. Python's own way makes an object empty and fills it last; where it is a key of a dict
that it holds itself, that dict asks for its hash before. So what is plain in it is there from the start.
"""

from __future__ import annotations

import copyreg
import types
from typing import Any

from durable_nb.capture.reducers import SHARING, Plugin, promise

LIBRARY = None

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_WAYS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs_ex__", "__getnewargs__")


class _Hashed(type):
    """Makes `issubclass` true for plain classes with a `__hash__` of their own."""

    def __subclasscheck__(cls, subclass: Any) -> bool:
        if not isinstance(getattr(subclass, "__hash__", None), types.FunctionType):
            return False
        if any(getattr(subclass, way, None) is not getattr(object, way, None) for way in _WAYS):
            return False
        return all(
            base is object or (base.__flags__ & _HEAP_TYPE and base not in copyreg.dispatch_table)
            for base in subclass.__mro__
        )


def _make_hashed(cls: type, attributes: dict[str, Any], slots: dict[str, Any]) -> Any:
    made: Any = object.__new__(cls)
    if attributes:
        object.__getattribute__(made, "__dict__").update(attributes)
    for name, value in slots.items():
        object.__setattr__(made, name, value)
    return made


def _fill_hashed(target: Any, state: dict[str, Any]) -> None:
    # Nothing runs between the two: the order of the attributes is that of the original.
    held = object.__getattribute__(target, "__dict__")
    held.clear()
    held.update(state)


def _share_hashed(target: Any, state: dict[str, Any]) -> None:
    object.__setattr__(target, "__dict__", state)


def _fill_hashed_slots(target: Any, state: tuple[dict[str, Any] | None, dict[str, Any]]) -> None:
    if state[0] is not None:
        _fill_hashed(target, state[0])
    for name, value in state[1].items():
        object.__setattr__(target, name, value)


@promise("exact")
def _hashed(obj: Any) -> Any:
    reduced: Any = object.__reduce_ex__(obj, 2)
    state = reduced[2]
    own, slots = state if isinstance(state, tuple) else (state, {})
    plain = [{name: value for name, value in (part or {}).items() if _is_plain(value)} for part in (own, slots)]
    sharing = SHARING.get()
    shared = sharing is not None and not isinstance(state, tuple) and id(state) in sharing.dicts
    count = sum(map(len, plain))
    if not shared and count in (0, len(own or ()) + len(slots)):
        return NotImplemented  # what holds plain values only is in no cycle
    args = (type(obj), *plain)
    if isinstance(state, tuple):
        return _make_hashed, args, state, None, None, _fill_hashed_slots
    return _make_hashed, args, state, None, None, _share_hashed if shared else _fill_hashed


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or (type(value) in (tuple, frozenset) and all(map(_is_plain, value)))


def plugin() -> Plugin:
    """Return what instances with a hash of their own need."""
    return Plugin(subclasses=((_Hashed("hashed", (), {}), _hashed),))
