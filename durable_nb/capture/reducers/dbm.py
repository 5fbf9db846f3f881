"""Databases of dbm are files that write when they are closed or collected: reported.

Merged into the plug-in by `load` once dbm is imported. The one written in Python can be pickled, and what comes back
would write over the file.
"""

from __future__ import annotations

from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "dbm"


@promise("reported", "an open database is a file that is written to")
def _database(database: Any) -> tuple[Any, ...]:
    raise Unstorable("an open dbm database is a file, which is not opened again; open it in a cell")


def plugin() -> Plugin:
    """Return what dbm needs."""
    return Plugin(subclasses=((named("dbm.dumb._Database", "dbm.sqlite3._Database"), _database),))
