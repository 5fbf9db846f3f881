"""Connections and relations of DuckDB are reported; they are never shared with ours. Its types come back.

Merged into the plug-in by `load` once duckdb is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "duckdb"


@promise("reported", "it belongs to an open connection")
def _open(obj: Any) -> tuple[Any, ...]:
    kind = type(obj).__name__
    raise Unstorable(
        f"a {kind} belongs to an open DuckDB connection; connect again in a cell, or keep .df() of a result"
    )


def _make_type(text: str) -> Any:
    return sys.modules["duckdb"].sqltype(text)


@promise("exact")
def _type(kind: Any) -> Any:
    return _make_type, (str(kind),)


def plugin() -> Plugin:
    """Return what DuckDB needs."""
    module = sys.modules["duckdb"]
    kinds = (getattr(module, name, None) for name in ("DuckDBPyConnection", "DuckDBPyRelation", "Statement"))
    refused = tuple((kind, _open) for kind in kinds if kind is not None)
    return Plugin(
        subclasses=(*refused, (named("_duckdb._sqltypes.DuckDBPyType", "_duckdb.typing.DuckDBPyType"), _type))
    )
