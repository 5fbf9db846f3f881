"""Connections of sqlite3 are reported; rows, which pickle refuses, come back as rows.

Merged into the plug-in by `load` once sqlite3 is imported.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = "sqlite3"


def _make_row(columns: list[str], values: tuple[Any, ...]) -> Any:
    # Only a query makes a cursor that knows column names.
    quoted = ('"' + column.replace('"', '""') + '"' for column in columns)
    connection = sqlite3.connect(":memory:")
    try:
        cursor = connection.execute("select " + ", ".join(f"null as {name}" for name in quoted))
        return sqlite3.Row(cursor, values)
    finally:
        connection.close()


@promise("exact")
def _row(row: Any) -> tuple[Any, ...]:
    return _make_row, (list(row.keys()), tuple(row))


@promise("reported", "it is open only in the process that made it")
def _open(obj: Any) -> tuple[Any, ...]:
    kind = type(obj).__name__
    raise Unstorable(f"a sqlite3.{kind} is open only in the process that made it; connect again in a cell")


def plugin() -> Plugin:
    """Return what sqlite3 needs."""
    kinds = (sqlite3.Connection, sqlite3.Cursor, sqlite3.Blob)
    return Plugin(exact={sqlite3.Row: _row}, subclasses=tuple((kind, _open) for kind in kinds))
