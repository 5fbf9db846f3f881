"""Dialects of csv come back from their settings; readers and writers do not show what they read from and write to.

Merged into the plug-in by `load` once csv is imported.
"""

from __future__ import annotations

import _csv
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = "csv"

_SETTINGS = (
    "delimiter", "doublequote", "escapechar", "lineterminator", "quotechar", "quoting", "skipinitialspace", "strict",
)  # fmt: skip


def _make_dialect(settings: dict[str, Any]) -> Any:
    return _csv.Dialect(**settings)


@promise("exact")
def _dialect(dialect: Any) -> tuple[Any, ...]:
    return _make_dialect, ({name: getattr(dialect, name) for name in _SETTINGS},)


@promise("reported", "it does not show what it reads from or writes to")
def _at_work(obj: Any) -> tuple[Any, ...]:
    does = "reads from" if isinstance(obj, _csv.Reader) else "writes to"  # type: ignore[attr-defined,unused-ignore]
    raise Unstorable(f"a csv.{type(obj).__name__} does not show what it {does}; make it again in a cell")


def plugin() -> Plugin:
    """Return what csv needs."""
    exact = {_csv.Dialect: _dialect, _csv.Reader: _at_work, _csv.Writer: _at_work}  # type: ignore[attr-defined,unused-ignore]
    return Plugin(exact=exact)
