"""Bars of progress share a lock that their class makes with the first one; those that are shown count as shown.

Merged into the plug-in by `load` once tqdm is imported.
"""

from __future__ import annotations

from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "tqdm"


def _make_bar(cls: Any, shown: bool) -> Any:
    cls.get_lock()
    made = object.__new__(cls)
    if shown:
        # Bars below each other find their lines by this.
        cls._instances.add(made)
    return made


@promise("exact")
def _bar(bar: Any) -> Any:
    kind: Any = type(bar)
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
        return NotImplemented
    shown = any(one is bar for one in list(getattr(kind, "_instances", ())))
    return _make_bar, (kind, shown), dict(vars(bar))


def plugin() -> Plugin:
    """Return what tqdm needs."""
    return Plugin(subclasses=((named("tqdm.std.tqdm"), _bar),))
