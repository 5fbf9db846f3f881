"""Members of a class that come back before the others, because loading an object of the class calls them.

A class can hold an object of its own (`B.shared = B()`), which is then loaded while the class has no members yet: its
state would be set without `__setstate__`, and a set would ask for a hash that the class does not have. Used by
`definitions`; nothing here keeps anything.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from durable_nb.capture import plainly

__all__ = ["Hooks", "hooks"]

_NAMES = frozenset(
    {"__setstate__", "__new__", "__setattr__", "__getattr__", "__hash__", "__eq__", "__setitem__", "append", "extend",
     "add"}
)  # fmt: skip
_METHODS = (types.FunctionType, staticmethod, classmethod)


class Hooks:
    """A part of a class's state that sets these members as soon as it is loaded."""

    __slots__ = ("_cls", "_members")

    def __init__(self, cls: type, members: dict[str, Any]) -> None:
        self._cls, self._members = cls, members

    def __reduce__(self) -> tuple[Any, ...]:
        return _set, (self._cls, self._members)


def hooks(cls: type, members: Mapping[str, Any]) -> dict[str, Hooks]:
    """Return the beginning of a class's state: the hooks among its members, if it has any."""
    found = {name: value for name, value in members.items() if name in _NAMES and plainly.is_a(value, _METHODS)}
    return {"hooks": Hooks(cls, found)} if found else {}


def _set(cls: type, members: Mapping[str, Any]) -> None:
    for name, value in members.items():
        type.__setattr__(cls, name, value)
