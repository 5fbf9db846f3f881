"""Connections and relations of DuckDB are reported; they are never shared with ours.

Merged into the plug-in by `load` once duckdb is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = "duckdb"


@promise("reported", "it belongs to an open connection")
def _open(obj: Any) -> tuple[Any, ...]:
    kind = type(obj).__name__
    raise Unstorable(
        f"a {kind} belongs to an open DuckDB connection; connect again in a cell, or keep .df() of a result"
    )


def plugin() -> Plugin:
    """Return what DuckDB needs."""
    module = sys.modules["duckdb"]
    kinds = (getattr(module, name, None) for name in ("DuckDBPyConnection", "DuckDBPyRelation", "Statement"))
    return Plugin(subclasses=tuple((kind, _open) for kind in kinds if kind is not None))
