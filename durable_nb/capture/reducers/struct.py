"""Compiled formats of struct, which pickle refuses, are compiled again from their text.

Merged into the plug-in by `load` once struct is imported.
"""

from __future__ import annotations

import struct
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "struct"


def _make_struct(cls: Any, form: str) -> Any:
    return cls(form)


@promise("exact")
def _struct(obj: Any) -> Any:
    kind: Any = type(obj)
    if kind is not struct.Struct and (
        kind.__init__ is not struct.Struct.__init__ or kind.__new__ is not struct.Struct.__new__
    ):
        return obj.__reduce_ex__(5)
    return _make_struct, (kind, obj.format), getattr(obj, "__dict__", None) or None


def plugin() -> Plugin:
    """Return what struct needs."""
    return Plugin(subclasses=((struct.Struct, _struct),))
