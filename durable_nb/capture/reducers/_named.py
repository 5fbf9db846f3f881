"""Base classes given by name, for parts of a library that may be imported later than the library itself.

Used by the files beside it: the plug-in of a library is made once, when the library is first seen.
"""

from __future__ import annotations

from typing import Any

__all__ = ["named"]


class _Named(type):
    """Makes `issubclass` compare names instead of classes."""

    names: frozenset[str]

    def __subclasscheck__(cls, subclass: type) -> bool:
        return any(f"{base.__module__}.{base.__qualname__}" in cls.names for base in subclass.__mro__)


def named(*names: str) -> Any:
    """Return a class that counts every class with one of these full names among its bases as its subclass."""
    return _Named("named", (), {"names": frozenset(names)})
