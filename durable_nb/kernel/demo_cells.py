"""The cells of a notebook as the demonstration runs them, and outputs in a form that two runs can be compared by.

Pure; called by `demo` and by the tests that kill notebooks half-way.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from durable_nb.errors import UsageError
from durable_nb.model import Json

__all__ = ["Cell", "comparable", "first_difference", "read_cells", "skipped", "timeless"]

LOAD = "%load_ext durable_nb"
_HEADER = re.compile(r"\s*%%durable[ \t]*(?P<name>\w[\w.\-]*)?")
_SKIP_LINE = re.compile(r"finished \d\d:\d\d:\d\d in .* · skipped")
# What is new in every run, killed or not: times of day, how long something took, ids of runs; and how large what was
# stored is, because these are in it.
_MOMENT = re.compile(r"\b\d\d:\d\d:\d\d\b|\bin \d[\d.]* m?s\b|\br[0-9a-f]{8}-[0-9a-f]{6}\b|\b\d[\d.]* (?:[KMG]i)?B\b *")
_HISTORY = re.compile(r"^\s*%(durable\s|durable$|%durable_sql)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One code cell. `compared` is False for cells that show the history, which tells times and process ids."""

    cell_id: str
    name: str
    source: str
    durable: bool
    compared: bool


def read_cells(text: str, *, where: str) -> list[Cell]:
    """Return the code cells of a notebook, each durable and named unless it is a magic or says so itself.

    The first one loads the extension, whether the notebook does or not.
    """
    try:
        raw = json.loads(text)["cells"]
        sources = [(c.get("id", ""), "".join(c["source"])) for c in raw if c["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{where} is not a notebook of format 4 ({type(error).__name__}); nothing was run.") from None
    cells = [_cell(f"cell-{n}", cell_id, source) for n, (cell_id, source) in enumerate(sources, 1) if source.strip()]
    if any(LOAD in cell.source for cell in cells):
        return cells
    return [_cell("load", "durable-load", LOAD), *cells]


def _cell(name: str, cell_id: str, source: str) -> Cell:
    found = _HEADER.match(source)
    shows_history = LOAD in source or _HISTORY.search(source) is not None
    if found is not None and not source.lstrip().startswith("%%durable_"):
        if found["name"]:
            name = found["name"]
        else:
            source = source.replace("%%durable", f"%%durable {name}", 1)
        return Cell(cell_id=cell_id or name, name=name, source=source, durable=True, compared=not shows_history)
    if shows_history or source.lstrip().startswith("%%"):
        name = " ".join(source.split()[:2])[:14]
        return Cell(cell_id=cell_id or name, name=name, source=source, durable=False, compared=not shows_history)
    source = f"%%durable {name}\n{source}"
    return Cell(cell_id=cell_id or name, name=name, source=source, durable=True, compared=True)


def skipped(outputs: Iterable[Mapping[str, Json]]) -> bool:
    """Tell whether the line that stands above a skipped cell's outputs is among these."""
    return any(_is_skip_line(output) for output in outputs)


def comparable(outputs: Sequence[Mapping[str, Json]]) -> list[Json]:
    """Return what a reader sees of a cell's outputs: no ids, no counts, none of our lines, streams in one piece."""
    seen: list[Json] = []
    for output in outputs:
        if _is_skip_line(output):
            continue
        kind = output["output_type"]
        if kind == "stream":
            if seen and seen[-1][:2] == ["stream", output["name"]]:
                seen[-1][2] += output["text"]
            else:
                seen.append(["stream", output["name"], output["text"]])
        elif kind == "error":
            seen.append(["error", output["ename"], output["evalue"]])
        else:
            seen.append([kind, output["data"]])
    return seen


def timeless(outputs: Sequence[Json]) -> str:
    """Return comparable outputs as a text without times of day, durations, sizes in bytes and ids of runs."""
    return _MOMENT.sub("…", json.dumps(outputs, sort_keys=True, ensure_ascii=False))


def first_difference(one: Sequence[Json], other: Sequence[Json]) -> tuple[str, str]:
    """Return the first lines of two comparable outputs that are not the same; what has no text is named by its kind."""
    pairs = zip_longest(_lines(one), _lines(other), fillvalue="(nothing)")
    found = [(a, b) for a, b in pairs if a != b]
    return next(
        (pair for pair in found if len({_MOMENT.sub("…", line) for line in pair}) > 1), found[0] if found else ("", "")
    )


def _lines(outputs: Sequence[Json]) -> list[str]:
    found: list[str] = []
    for kind, *rest in outputs:
        if kind == "stream":
            found += rest[1].splitlines()
        elif kind == "error":
            found.append(": ".join(rest))
        else:
            data = rest[0]
            others = {mime: content for mime, content in data.items() if mime != "text/plain"}
            digest = hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()[:8]
            found += str(data.get("text/plain", "")).splitlines()
            found += [f"({', '.join(sorted(others))}, content {digest})"] if others else []
    return found


def _is_skip_line(output: Mapping[str, Json]) -> bool:
    return output["output_type"] == "display_data" and bool(_SKIP_LINE.match(output["data"].get("text/plain", "")))
