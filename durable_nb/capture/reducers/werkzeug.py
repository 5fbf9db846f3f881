"""Proxies of werkzeug stand for what a context has just now: those that a module offers stay the module's.

Merged into the plug-in by `load` once werkzeug is imported. Nothing asks a proxy itself: it would pass the question on.
"""

from __future__ import annotations

from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named, owner
from durable_nb.capture.reducers.builtins import _make_attribute

LIBRARY = "werkzeug"


@promise("exact")
def _proxy(proxy: Any) -> tuple[Any, ...]:
    home = owner(proxy)
    if home is None:
        raise Unstorable(
            "a werkzeug proxy stands for something of a context of the lost kernel; make it again in a cell"
        )
    return _make_attribute, home


def plugin() -> Plugin:
    """Return what werkzeug needs."""
    return Plugin(subclasses=((named("werkzeug.local.LocalProxy"), _proxy),))
