"""Parsers of argparse tell «no default» by a text of which there is one: pickle would make it a default like any other.

Merged into the plug-in by `load` once argparse is imported.
"""

from __future__ import annotations

import argparse
import copyreg
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "argparse"


def _fill_suppressed(target: Any, state: tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]) -> None:
    attributes, suppressed, defaults = state
    vars(target).update(attributes)
    vars(target).update(dict.fromkeys(suppressed, argparse.SUPPRESS))
    if defaults:
        vars(target)["_defaults"].update(dict.fromkeys(defaults, argparse.SUPPRESS))


@promise("exact")
def _part(obj: Any) -> Any:
    kind: Any = type(obj)
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
        return NotImplemented
    if getattr(kind, "__getstate__", None) is not getattr(object, "__getstate__", None):
        return NotImplemented
    held = dict(vars(obj))
    suppressed = tuple(name for name, value in held.items() if value is argparse.SUPPRESS)
    defaults = tuple(name for name, value in held.get("_defaults", {}).items() if value is argparse.SUPPRESS)
    if not suppressed and not defaults:
        return NotImplemented
    state = (held, suppressed, defaults)
    return copyreg.__newobj__, (kind,), state, None, None, _fill_suppressed  # type: ignore[attr-defined]


def plugin() -> Plugin:
    """Return what argparse needs."""
    bases: tuple[Any, ...] = (argparse.Action, argparse._ActionsContainer, argparse.Namespace)
    return Plugin(subclasses=tuple((base, _part) for base in bases))
