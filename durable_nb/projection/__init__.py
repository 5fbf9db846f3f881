"""The lens: the journal as tables and views in one DuckDB file that can always be rebuilt."""

from __future__ import annotations

from durable_nb.projection.duckdb import Projection
from durable_nb.projection.table import Table

__all__ = ["Projection", "Table"]
