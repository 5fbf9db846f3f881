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
    """Return (module, name) of a global of an imported module that is this very object, hashed by identity."""
    found = _found(obj)
    # A module that was loaded again has another one now.
    if found is not None and getattr(sys.modules.get(found[0]), found[1], None) is not obj:
        return None
    return found


@lru_cache(maxsize=512)
def _found(obj: Any) -> tuple[str, str] | None:
    # Looking through every module takes milliseconds: once for each object.
    for module, content in list(sys.modules.items()):
        if module in _NOT_OWNERS:
            continue
        for name, value in list(getattr(content, "__dict__", {}).items()):
            if value is obj:
                return module, name
    return None
