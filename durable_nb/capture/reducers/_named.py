"""Base classes given by name, for parts of a library that may be imported later; objects by the module that owns them.

Used by the files beside it: the plug-in of a library is made once, when the library is first seen.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

__all__ = ["named", "owner"]

# What the notebook binds is the notebook's, and IPython puts the last result among the built-in names.
_NOT_OWNERS = frozenset({"__main__", "builtins"})


class _Named(type):
    """Makes `issubclass` compare names instead of classes."""

    names: frozenset[str]

    def __subclasscheck__(cls, subclass: type) -> bool:
        return any(f"{base.__module__}.{base.__qualname__}" in cls.names for base in subclass.__mro__)


def named(*names: str) -> Any:
    """Return a class that counts every class with one of these full names among its bases as its subclass."""
    return _Named("named", (), {"names": frozenset(names)})


def owner(obj: Any) -> tuple[str, str] | None:
    """Return (module, name) of a global of an imported module that is this very object; nothing is asked of it."""
    found = _found(_Identity(obj))
    # A module that was loaded again has another one now.
    if found is not None and getattr(sys.modules.get(found[0]), found[1], None) is not obj:
        return None
    return found


class _Identity:
    """A key that is equal to those of the same object, whatever the object says of itself; it keeps the object."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __hash__(self) -> int:
        return id(self.obj)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.obj is self.obj


@lru_cache(maxsize=512)
def _found(key: _Identity) -> tuple[str, str] | None:
    # Looking through every module takes milliseconds: once for each object.
    for module, content in list(sys.modules.items()):
        if module in _NOT_OWNERS:
            continue
        for name, value in list(getattr(content, "__dict__", {}).items()):
            if value is key.obj:
                return module, name
    return None
