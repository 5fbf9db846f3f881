"""Context variables come back with their name, their default and the value that they have in the context of cells.

Merged into the plug-in by `load` once contextvars is imported. One that a module owns stays the module's.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import owner
from durable_nb.capture.reducers.builtins import _make_attribute

LIBRARY = "contextvars"


def _make_context_var(name: str, default: tuple[Any, ...]) -> Any:
    return contextvars.ContextVar(name, default=default[0]) if default else contextvars.ContextVar(name)


def _fill_context_var(var: Any, state: tuple[Any, ...]) -> None:
    var.set(state[0])


def _default(var: Any) -> tuple[Any, ...]:
    try:
        return (contextvars.Context().run(var.get),)
    except LookupError:
        return ()


def _value(var: Any) -> tuple[Any, ...]:
    # Whether it was ever set: a value that is set and equals the default is still a value.
    return (var.get(),) if var in contextvars.copy_context() else ()


@promise("exact")
def _context_var(var: Any) -> tuple[Any, ...]:
    home = owner(var)
    if home is not None:
        return _make_attribute, home
    return _make_context_var, (var.name, _default(var)), _value(var) or None, None, None, _fill_context_var


@promise("reported", "it belongs to the flow of the lost kernel")
def _of_flow(obj: Any) -> tuple[Any, ...]:
    raise Unstorable(f"a contextvars.{type(obj).__name__} belongs to the flow of the lost kernel")


def _referents(var: Any) -> Iterable[Any] | None:
    return None if owner(var) is not None else (*_default(var), *_value(var))


def plugin() -> Plugin:
    """Return what contextvars needs."""
    flow: tuple[Any, ...] = (contextvars.Context, contextvars.Token)
    return Plugin(
        exact={contextvars.ContextVar: _context_var, **dict.fromkeys(flow, _of_flow)},
        referents={contextvars.ContextVar: _referents},
    )
