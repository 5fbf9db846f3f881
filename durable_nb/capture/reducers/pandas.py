"""The options object of pandas stays the one of the process; frames, groupings and stylers pickle by themselves.

Merged into the plug-in by `load` once pandas is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "pandas"


def _make_options(path: str) -> Any:
    import pandas

    options = pandas.options
    for part in path.split(".") if path else ():
        options = getattr(options, part)
    return options


@promise("exact")
def _options(options: Any) -> tuple[Any, ...]:
    # It is a window on the global settings; a copy of them would be set without any effect.
    return _make_options, (vars(options)["prefix"],)


def _referents(options: Any) -> Iterable[Any] | None:
    # Of the whole there is one; a part is made anew whenever somebody asks for it.
    return () if vars(options)["prefix"] else None


def _index_referents(index: Any) -> Iterable[Any]:
    # Looking something up fills caches, which are not stored and whose views of the data must not count as sharing.
    return [value for name, value in vars(index).items() if name not in ("_cache", "_references", "_id")]


def plugin() -> Plugin:
    """Return what pandas needs."""
    pandas = sys.modules["pandas"]
    kind = type(pandas.options)
    return Plugin(exact={kind: _options}, referents={kind: _referents, pandas.Index: _index_referents})
