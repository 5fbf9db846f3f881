"""What a verb returns: lines and tables that show themselves as text, as HTML without scripts, and as JSON.

Values are shortened for display here and nowhere else; JSON carries them whole.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from durable_nb.model import Json

__all__ = ["Report", "Table", "counted"]

WIDTH = 60
LAST_WIDTH = 160  # of the last column: nothing is behind it, and it often says what to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns and rows of short text."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    def text(self) -> str:
        cells = [[*map(_short, row[:-1]), _short(row[-1], LAST_WIDTH)] for row in self.rows]
        widths = [max(len(c), *(len(r[i]) for r in cells)) if cells else len(c) for i, c in enumerate(self.columns)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(self.columns, widths, strict=True)).rstrip()]
        lines.append("  ".join("─" * min(w, WIDTH) for w in widths))
        lines += ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join(lines)

    def html(self) -> str:
        head = "".join(f"<th style='text-align:left'>{html.escape(c)}</th>" for c in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(_short(v))}</td>" for v in row) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The answer of a verb; `data` is the whole of it as JSON, `ok` False sets the command's exit code."""

    lines: Sequence[str] = ()
    tables: Sequence[Table] = ()
    after: Sequence[str] = ()
    data: Json = field(default_factory=dict)
    ok: bool = True
    value: object = None  # what `%%durable_sql --save NAME` keeps, or a DataFrame to show

    def __repr__(self) -> str:
        return "\n".join([*self.lines, *(table.text() for table in self.tables), *self.after])

    def _repr_html_(self) -> str:
        as_html = getattr(self.value, "_repr_html_", None)
        if as_html is not None:
            return str(as_html())
        parts = [
            f"<pre>{html.escape(line)}</pre>" if "\n" in line else f"<div>{html.escape(line)}</div>"
            for line in self.lines
        ]
        parts += [table.html() for table in self.tables]
        parts += [f"<div>{html.escape(line)}</div>" for line in self.after]
        return "".join(parts)

    def to_json(self) -> str:
        return json.dumps(self.data, ensure_ascii=False, indent=2, default=str)


def counted(number: int, thing: str) -> str:
    """Return «1 event», «2 events»."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _short(value: object, width: int = WIDTH) -> str:
    text = "" if value is None else str(value)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"
