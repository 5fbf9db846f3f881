"""A zoo of values: one of each class of many libraries, with what is promised to come back, held to it by real kernels.

Used by `tests/zoo`; `python -m durable_nb.testing.zoo` writes the table `durable_nb/capture/ZOO.md` from the same rows,
and with names of files it says which of their promises are not kept.
A file of values is `tests/zoo/values/NAME.py` with `LIBRARY` (its top-level module), `SETUP` (a cell) and `VALUES`.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from durable_nb.capture.reducers import Kept
from durable_nb.testing.kernels import Kernel, Reply

__all__ = ["STANDARD", "TABLE", "VALUES", "Enclosure", "Value", "enclosures", "problems", "table"]

STANDARD = "standard library"
_REPOSITORY = Path(__file__).resolve().parents[2]
VALUES = _REPOSITORY / "tests" / "zoo" / "values"
TABLE = _REPOSITORY / "durable_nb" / "capture" / "ZOO.md"
NOT_BACK = "could not be saved"
_KEPT: tuple[Kept, ...] = ("exact", "equal", "reported")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of a class and what is promised of it.

    `make` is an expression, or lines of which the last is one; `check` an expression over `x` that is true before the
    kernel is lost and after. `cls` is the full name of the value's class or of a base of it; a value that shares
    something with others may stand with them in a plain dict, list or tuple.
    """

    cls: str
    make: str
    check: str
    keeps: Kept
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a row that says less than the table needs."""
        if self.keeps not in _KEPT:
            raise ValueError(f"{self.cls}: keeps is one of {', '.join(_KEPT)}, not {self.keeps!r}")
        if self.keeps != "exact" and not self.note:
            raise ValueError(f"{self.cls}: a value that is {self.keeps} needs a note: what is new, or why")


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """The values of one file, which live in one kernel."""

    name: str
    library: str
    setup: str
    values: tuple[Value, ...]

    @property
    def installed(self) -> bool:
        """Whether the library can be imported here."""
        if self.library == STANDARD:
            return True
        try:
            return importlib.util.find_spec(self.library) is not None
        except ModuleNotFoundError:  # of `google.protobuf` not even the first part
            return False


def enclosures(folder: Path = VALUES) -> list[Enclosure]:
    """Return what the files of a folder say, in order of library and file."""
    found = [_read(path) for path in sorted(folder.glob("*.py"))]
    return sorted(found, key=lambda e: (e.library != STANDARD, e.library.lower(), e.name))


def _read(path: Path) -> Enclosure:
    # Not by import: a file has the name of its library and must not stand in for it.
    spec = importlib.util.spec_from_file_location(f"zoo_values_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Enclosure(name=path.stem, library=module.LIBRARY, setup=module.SETUP, values=tuple(module.VALUES))


# --- in kernels -------------------------------------------------------------------------------------------------------


def problems(enclosure: Enclosure, folder: Path) -> list[str]:
    """Make every value in a kernel, kill it, restore in another one; return each promise that was not kept."""
    environ = {"DURABLE_NB_KEY_FILE": str(folder / "key")}
    with Kernel(folder, environ=environ) as kernel:
        _run(kernel, "%load_ext durable_nb", "%durable on", enclosure.setup)
        for number, value in enumerate(enclosure.values):
            _run(kernel, *_cells(number, value))
        _run(kernel, "%durable off")
        before = _look(kernel, enclosure)
        kernel.sigkill()
    with Kernel(folder, environ=environ) as kernel:
        _run(kernel, "%load_ext durable_nb", "%durable restore")
        said = {n: _use(kernel, n) for n, value in enumerate(enclosure.values) if value.keeps == "reported"}
        after = {**_look(kernel, enclosure), "said": said}
    return list(_judge(enclosure, before, after))


def _use(kernel: Kernel, number: int) -> str:
    """Return what a person reads who uses a value that is not back."""
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(kernel.run(f"x{number}").traceback))


def _run(kernel: Kernel, *cells: str) -> Reply:
    for cell in cells:
        reply = kernel.run(cell, timeout_s=120)
        if reply.status != "ok":
            said = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply.traceback))
            raise RuntimeError(f"this cell failed:\n{cell}\n{said}")
    return reply


def _cells(number: int, value: Value) -> Iterator[str]:
    """Yield the cell that makes a value under a name of its own, and the one that gives it another name."""
    lines = value.make.strip("\n").split("\n")
    last = ast.parse("\n".join(lines)).body[-1]
    if not isinstance(last, ast.Expr):
        raise ValueError(f"the last line of what makes a {value.cls} is no expression")
    # The source stays as it is written: functions and classes are found in it again.
    above, made = lines[: last.lineno - 1], lines[last.lineno - 1 :]
    yield "\n".join([*above, f"x{number} = (" + "\n".join(made) + "\n)", f"alias{number} = x{number}"])


def _look(kernel: Kernel, enclosure: Enclosure) -> dict[str, Any]:
    rows = [{"cls": v.cls, "check": v.check} for v in enclosure.values]
    # Beside the namespace: nothing may stay in it, and a comparison must not see names of ours.
    code = (
        "import durable_nb.testing.zookeeper\n"
        f"print('zoo:' + durable_nb.testing.zookeeper.look(globals(), {json.dumps(rows)!r}))"
    )
    said = _run(kernel, code).text()
    found: dict[str, Any] = json.loads(said[said.rindex("zoo:") + 4 :])
    return found


# --- judging ----------------------------------------------------------------------------------------------------------


def _judge(enclosure: Enclosure, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    may_lack, may_say = set(), set()
    for number, value in enumerate(enclosure.values):
        was, now = before["values"][number], after["values"][number]
        yield from (f"{value.cls} ({value.keeps}): {text}" for text in _compare(value, was, now, before, after, number))
        if value.keeps == "reported":
            may_lack |= {f"x{number}", f"alias{number}"}
        elif value.keeps == "equal":
            # What is new in a value that came back may be in the report as well.
            may_say |= {f"x{number}", f"alias{number}"}
    for when, seen in (("the checkpoint", before), ("the restore", after)):
        for name, reason in seen["unsaved"].items():
            if name in before["names"] and name not in may_lack | may_say:
                yield f"{when} leaves out {name}: {reason}"
    lost = set(before["names"]) - set(after["names"]) - may_lack
    if lost:
        yield f"these names are gone: {', '.join(sorted(lost))}"


def _compare(
    value: Value, was: dict[str, Any], now: dict[str, Any], before: dict[str, Any], after: dict[str, Any], number: int
) -> Iterator[str]:
    if was["error"]:
        yield f"before the loss: {was['error']}"
        return
    if not was["is_a"]:
        yield f"the row's class is not among those of the value: {was['classes']}"
    yield from _as_reduced(value, was["promise"])
    if value.keeps == "reported":
        for when, seen in (("the checkpoint", before), ("the restore", after)):
            silent = [name for name in (f"x{number}", f"alias{number}") if not seen["unsaved"].get(name)]
            yield from (f"{name} is not reported by {when}" for name in silent)
        if not now["raises"]:
            yield f"it came back: {now}"
        elif NOT_BACK not in after["said"][number]:
            yield f"using it after the restore does not say why it is not there: {after['said'][number]}"
        return
    if now["raises"]:
        reason = before["unsaved"].get(f"x{number}") or after["unsaved"].get(f"x{number}") or "nothing is said of it"
        yield f"it is not there: {now['raises']} ({reason})"
    elif now["error"]:
        yield f"after the restore: {now['error']}"
    elif was["classes"] != now["classes"]:
        yield f"it was a {was['classes'][0]} and came back as {now['classes'][0]}"
    if not now["raises"] and not now["alias"]:
        yield "the other name of it holds another object now"


def _as_reduced(value: Value, promised: str | None) -> Iterator[str]:
    """Compare the row with what the class's reducer promises: less is allowed where the note says why."""
    if promised is None or promised == value.keeps:
        return
    weaker = _KEPT.index(value.keeps) > _KEPT.index(promised)
    if not weaker or not value.note:
        yield f"its reducer promises {promised}"


# --- the table --------------------------------------------------------------------------------------------------------


def table(shown: Sequence[Enclosure]) -> str:
    """Return the document: counts, what the words mean, one row per value."""
    rows = [(e.library, v) for e in shown for v in e.values]
    libraries = {library for library, _ in rows} - {STANDARD}
    theirs = {v.cls for library, v in rows if library != STANDARD}
    own = {v.cls for library, v in rows if library == STANDARD}
    counts = ", ".join(f"{sum(v.keeps == kept for _, v in rows)} {kept}" for kept in _KEPT)
    classes = f"{len(theirs)} classes of {len(libraries)} libraries and {len(own)} of the standard library"
    head = f"""# What comes back, class by class

{classes}: {len(rows)} values, {counts}.

Each row is a value that the tests make in a kernel, lose by SIGKILL, and look at in the next kernel (`tests/zoo`).

- **exact**: type, content, identity and sharing are as they were, and it goes on behaving the same.
- **equal**: it compares equal and serves the same; the note says what is new.
- **reported**: it is not stored. `durable_nb.unsaved()` names it with the reason, and the rest of its cell comes back.

This file is generated: `python -m durable_nb.testing.zoo`.

| library | class | promise | note |
|---|---|---|---|
"""
    lines = (f"| {library} | `{v.cls}` | {v.keeps} | {v.note.replace('|', '&#124;')} |\n" for library, v in rows)
    return "".join(chain([head], lines))


def _main(names: Sequence[str]) -> None:
    """Write the table; with names of files, say instead which of their promises are not kept."""
    for enclosure in enclosures():
        if enclosure.name in names:
            with tempfile.TemporaryDirectory() as folder:
                broken = problems(enclosure, Path(folder))
            sys.stdout.write("\n".join([f"{enclosure.name}: {len(broken)} of {len(enclosure.values)}", *broken, ""]))
    if not names:
        TABLE.write_text(table(enclosures()), encoding="utf-8")
        sys.stdout.write(f"{TABLE}\n")


if __name__ == "__main__":
    # The rows are made of the class that an import gives, not of this script's own.
    from durable_nb.testing import zoo

    zoo._main(sys.argv[1:])
