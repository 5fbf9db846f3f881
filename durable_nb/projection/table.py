"""The result of a query: columns, types and rows, shown as text, HTML, JSON or a DataFrame.

Returned by `Projection.query` to the magics and the command line; it holds plain Python values and no connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from html import escape
from typing import Any

__all__ = ["Table"]

# What is shown is bounded, what is held is not: a notebook with a million rows in an output does not open again.
SHOWN_ROWS_TEXT = 60
SHOWN_ROWS_HTML = 200
SHOWN_WIDTH = 60

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
_NUMBERS = _INTEGERS | {"HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of a query with the names and DuckDB types of their columns; times are UTC."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        """Return the rows as aligned text, cut to what a person reads."""
        cells = [[_shown(value) for value in row] for row in self.rows[:SHOWN_ROWS_TEXT]]
        widths = [max(len(line[i]) for line in [list(self.columns), *cells]) for i in range(len(self.columns))]
        numeric = [_is_number(kind) for kind in self.types]

        def line(values: list[str]) -> str:
            padded = (
                value.rjust(width) if right else value.ljust(width)
                for value, width, right in zip(values, widths, numeric, strict=True)
            )
            return "  ".join(padded).rstrip()

        lines = [line(list(self.columns)), line(["─" * width for width in widths]), *map(line, cells)]
        return "\n".join([*lines, self._count(SHOWN_ROWS_TEXT)])

    def _repr_html_(self) -> str:
        """Return the rows as an HTML table without any script or style sheet; every value is escaped."""
        aligned = [' style="text-align: right"' if _is_number(k) else ' style="text-align: left"' for k in self.types]
        head = "".join(f"<th{a}>{escape(name)}</th>" for name, a in zip(self.columns, aligned, strict=True))
        body = "".join(
            "<tr>" + "".join(f"<td{a}>{escape(_shown(v))}</td>" for v, a in zip(row, aligned, strict=True)) + "</tr>"
            for row in self.rows[:SHOWN_ROWS_HTML]
        )
        count = escape(self._count(SHOWN_ROWS_HTML))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><div>{count}</div>"

    def to_json(self) -> str:
        """Return a JSON array with one object per row: JSON columns as what they hold, times as ISO 8601 in UTC.

        Where several columns have the same name, the second is called NAME_1 and so on.
        """
        names = _distinct(self.columns)
        rows = [
            {name: _plain(v, kind) for name, kind, v in zip(names, self.types, row, strict=True)} for row in self.rows
        ]
        return json.dumps(rows, ensure_ascii=False, allow_nan=False)

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with the same columns, or None where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            return None
        series = {i: self._series(pandas, i) for i in range(len(self.columns))}
        frame = pandas.DataFrame(series, index=range(len(self.rows)))
        # Assigned afterwards, because a query may return two columns of one name.
        frame.columns = list(self.columns)
        return frame

    def _series(self, pandas: Any, i: int) -> Any:
        values = [row[i] for row in self.rows]
        kind = self.types[i]
        if kind in _INTEGERS:
            # A plain integer column with a NULL would silently turn into floats.
            return pandas.Series(
                values, dtype="Int64" if None in values else "int64" if kind != "UBIGINT" else "uint64"
            )
        if kind in ("FLOAT", "DOUBLE"):
            return pandas.Series(values, dtype="float64")
        if kind == "TIMESTAMP":
            return pandas.Series(values, dtype="datetime64[us]")
        return pandas.Series(values) if values else pandas.Series(values, dtype=object)

    def _count(self, shown: int) -> str:
        total = len(self.rows)
        word = "row" if total == 1 else "rows"
        return f"({total} {word})" if total <= shown else f"({total} {word}, the first {shown} shown)"


def _distinct(columns: tuple[str, ...]) -> list[str]:
    names: list[str] = []
    for column in columns:
        name, n = column, 0
        while name in names:
            n += 1
            name = f"{column}_{n}"
        names.append(name)
    return names


def _is_number(kind: str) -> bool:
    return kind in _NUMBERS or kind.startswith("DECIMAL")


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond else "seconds")
    if isinstance(value, float):
        return f"{value:.6g}"
    # Line ends and control characters would tear the table; a person sees them as what Python calls them.
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value)[: SHOWN_WIDTH * 4])
    return text if len(text) <= SHOWN_WIDTH else text[: SHOWN_WIDTH - 1] + "…"


def _plain(value: Any, kind: str = "") -> Any:
    if kind == "JSON" and isinstance(value, str):
        return json.loads(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, datetime):
        return value.isoformat() + ("Z" if value.tzinfo is None else "")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.hex() if isinstance(value, bytes) else str(value)
