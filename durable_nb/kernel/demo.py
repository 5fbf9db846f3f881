"""A crash shown and survived: `durable-nb demo [NOTEBOOK]` runs a notebook, kills its kernel and continues it.

Called by the command line. Everything happens in a temporary folder with a signing key of its own: the notebook, the
user's data and the user's key are not touched. What happens is told on standard error while it happens; the report
says whether outputs and variables equal those of an uninterrupted run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import resources
from json import loads
from pathlib import Path

from durable_nb.clock import SystemClock
from durable_nb.config import Settings
from durable_nb.engine.words import duration_text
from durable_nb.errors import UsageError
from durable_nb.kernel.demo_cells import Cell, comparable, first_difference, read_cells, skipped, timeless
from durable_nb.kernel.driver import Kernel, Reply
from durable_nb.kernel.fingerprint import CELL
from durable_nb.model import Json
from durable_nb.projection.table import Table as Rows
from durable_nb.verbs.opening import locate, open_projection, open_repository
from durable_nb.verbs.report import Report, Table

__all__ = ["demo"]

CELL_TIMEOUT_S = 600
WIDEST = 96
# The cell to die in is looked for in this part of the notebook: some work is done by then, and some is left.
MIDDLE = (0.35, 0.9)

BY_KERNEL = """
SELECT dense_rank() OVER (ORDER BY a.seq) AS kernel, e.payload->>'$.name' AS cell, e.event_type AS event,
       e.payload->>'$.decision' AS decision
FROM events e JOIN events a ON a.kernel_id = e.kernel_id AND a.event_type = 'KernelAttached'
WHERE e.event_type IN ('ActivityStarted', 'ActivityCompleted', 'ActivityReused')
ORDER BY e.seq
"""
HISTORY = """
SELECT name AS cell, status, attempts, losses AS lost, reuses AS skipped, round(duration_s, 2) AS took_s
FROM activities ORDER BY first_started
"""


@dataclass(slots=True, kw_only=True)
class Seen:
    """What one run of the notebook showed, by place of the cell."""

    outputs: dict[int, list[Json]] = field(default_factory=dict)
    took_s: dict[int, float] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


class _CellFailed(Exception):
    """The notebook's own error: there is nothing to show with a notebook that does not run."""


def demo(words: Sequence[str]) -> Report:
    """Run the notebook whole, then again with a SIGKILL in the middle; compare, and print the history by SQL."""
    if len(words) > 1 or any(word.startswith("-") for word in words):
        raise UsageError(f"`demo` takes one notebook, not {' '.join(words)!r}. Usage: demo [NOTEBOOK] [--json]")
    text, where = _text(words)
    cells = read_cells(text, where=where)
    with tempfile.TemporaryDirectory(prefix="durable-nb-demo-") as folder:
        try:
            return _show(cells, text, where, Path(folder))
        except _CellFailed as error:
            return Report(lines=[str(error)], data={"ok": False, "error": str(error)}, ok=False)


def _text(words: Sequence[str]) -> tuple[str, str]:
    if not words:
        built_in = resources.files("durable_nb.kernel") / "demo.ipynb"
        return built_in.read_text(encoding="utf-8"), "the built-in notebook"
    path = Path(words[0])
    if not path.is_file():
        raise UsageError(f"There is no notebook {words[0]}; nothing was run.")
    return path.read_text(encoding="utf-8"), str(path)


def _show(cells: Sequence[Cell], text: str, where: str, folder: Path) -> Report:
    _say(f"1. {where}, {len(cells)} cells, once without interruption, to compare with:")
    whole = Seen()
    with _kernel(folder / "whole", text) as kernel:
        _run(kernel, cells, whole, show=True)
        whole.variables = _variables(kernel)

    target = _victim(cells, whole.took_s)
    died = folder / "killed"
    _say(f"2. The same notebook in another folder; SIGKILL in the middle of cell {cells[target].name}:")
    with _kernel(died, text) as kernel:
        _run(kernel, cells[:target], Seen(), show=False)
        _kill(kernel, cells[target], whole.took_s[target], _middle_line(whole.outputs[target]))

    _say("3. A new kernel, Run All:")
    again = Seen()
    with _kernel(died, text) as kernel:
        _run(kernel, cells, again, show=True)
        again.variables = _variables(kernel)
    return _report(cells, whole, again, died / "notebook.ipynb")


@contextmanager
def _kernel(folder: Path, text: str) -> Iterator[Kernel]:
    """Start a kernel that believes to be a front end's: told its notebook's path, and by no setting of the user."""
    folder.mkdir(exist_ok=True)
    (folder / "notebook.ipynb").write_text(text, encoding="utf-8")
    told = {name: "" for name in os.environ if name.startswith("DURABLE_NB_")}
    told |= {"DURABLE_NB_KEY_FILE": str(folder.parent / "key"), "JPY_SESSION_NAME": str(folder / "notebook.ipynb")}
    with Kernel(folder, environ=told) as kernel:
        yield kernel


def _run(kernel: Kernel, cells: Sequence[Cell], seen: Seen, *, show: bool) -> None:
    for at, cell in enumerate(cells):
        began = time.monotonic()
        reply = kernel.run(cell.source, cell_id=cell.cell_id, timeout_s=CELL_TIMEOUT_S)
        seen.took_s[at] = time.monotonic() - began
        _check(cell, reply)
        seen.outputs[at] = comparable(reply.outputs)
        was_skipped = skipped(reply.outputs)
        if was_skipped:
            seen.skipped.append(cell.name)
        _tell(cell, reply, seen.took_s[at], was_skipped=was_skipped, show=show)


def _check(cell: Cell, reply: Reply) -> None:
    if reply.status != "ok":
        raise _CellFailed(f"Cell {cell.name} ended with {reply.ename}: {reply.evalue}. The demonstration stops here.")


def _tell(cell: Cell, reply: Reply, took_s: float, *, was_skipped: bool, show: bool) -> None:
    what = "skipped, its outputs shown again" if was_skipped else f"ran in {duration_text(took_s)}"
    _say(f"   {cell.name:14} {what}")
    if not show:
        return
    for output in reply.outputs:
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        lines = text.strip().splitlines()
        for line in lines[:3]:
            _say(f"   {'':14}   {line[:96]}")
        if len(lines) > 3:
            _say(f"   {'':14}   … {len(lines) - 3} more lines")


def _victim(cells: Sequence[Cell], took_s: Mapping[int, float]) -> int:
    """Return the place of the longest durable cell in the middle of the notebook."""
    low, high = (share * len(cells) for share in MIDDLE)
    places = [i for i, cell in enumerate(cells) if cell.durable and low <= i <= high]
    places = places or [i for i, cell in enumerate(cells) if cell.durable]
    if not places:
        raise _CellFailed("The notebook has no cell that could be durable, so there is nothing to show.")
    return max(places, key=lambda i: took_s[i])


def _middle_line(outputs: Sequence[Json]) -> str:
    """Return the line in the middle of what a cell prints, empty if it prints less than three."""
    text = "".join(output[2] for output in outputs if output[:2] == ["stream", "stdout"])
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[(len(lines) - 1) // 2] if len(lines) > 2 else ""


def _kill(kernel: Kernel, cell: Cell, took_s: float, middle: str) -> None:
    """Begin the cell and kill the kernel half-way: when the middle of what it prints is there, else by the clock."""
    request = kernel.begin(cell.source, cell_id=cell.cell_id)
    began = time.monotonic()
    if middle:
        # A notebook that prints something else this time is killed by the clock, later.
        with suppress(TimeoutError):
            kernel.wait_for_text(request, middle, timeout_s=2 * took_s)
    else:
        time.sleep(took_s / 2)
    pid, after_s = kernel.pid, time.monotonic() - began
    kernel.sigkill()
    _say(f"   {cell.name:14} killed after {duration_text(after_s)}: SIGKILL to process {pid}")


def _variables(kernel: Kernel) -> dict[str, str]:
    reply = kernel.run(CELL, store_history=False)
    _check(Cell(cell_id="", name="that compares", source=CELL, durable=False, compared=False), reply)
    found: dict[str, str] = loads(reply.text())
    return found


def _report(cells: Sequence[Cell], whole: Seen, again: Seen, notebook: Path) -> Report:
    by_kernel, history = _query(notebook, BY_KERNEL, HISTORY)
    finished = {name for kernel, name, event, _ in by_kernel.rows if kernel == 1 and event == "ActivityCompleted"}
    ran = {name: why for kernel, name, event, why in by_kernel.rows if kernel == 2 and event == "ActivityStarted"}
    others = _differing_cells(cells, whole, again)
    times_only = [i for i in others if timeless(whole.outputs[i]) == timeless(again.outputs[i])]
    differing = [
        *(f"cell {cells[i].name} shows something else" for i in others if i not in times_only),
        *(f"variable {name} differs" for name in _differing_variables(whole, again)),
        *(f"cell {name} was finished and ran again: {why}" for name, why in ran.items() if name in finished),
        *(f"cell {name} was finished and not skipped" for name in sorted(finished - set(again.skipped) - set(ran))),
    ]
    compared = sum(cell.compared for cell in cells)
    lines = [
        f"finished before the kill, skipped after it: {', '.join(again.skipped) or 'none'}",
        f"ran in the new kernel: {', '.join(ran) or 'none'}",
        f"outputs of {compared} cells and {len(whole.variables)} variables compared with those of the "
        f"uninterrupted run: {'all equal' if not differing else 'NOT EQUAL'}",
        *differing,
        *_shown([i for i in others if i not in times_only], cells, whole, again),
        *(
            f"cell {cells[i].name} shows other times, sizes in bytes or ids of runs, and is the same otherwise"
            for i in times_only
        ),
        *_bodies(notebook.with_name("ran.log")),
        "",
        "The history, by SQL:",
        *HISTORY.strip().splitlines(),
    ]
    data = {
        "ok": not differing,
        "skipped": again.skipped,
        "ran": list(ran),
        "differing": differing,
        "other_times": [cells[i].name for i in times_only],
        "history": loads(history.to_json()),
    }
    table = Table(columns=history.columns, rows=history.rows)
    return Report(lines=lines, tables=[table], data=data, ok=not differing)


def _shown(places: Sequence[int], cells: Sequence[Cell], whole: Seen, again: Seen) -> list[str]:
    """Return the first line that differs of each of these cells, and what need not mean that anything was lost."""
    lines = []
    for i in places:
        one, other = first_difference(whole.outputs[i], again.outputs[i])
        lines += [
            f"  {cells[i].name}, uninterrupted:  {one[:WIDEST]}",
            f"  {cells[i].name}, after the kill: {other[:WIDEST]}",
        ]
    if lines:
        lines.append("What a cell takes from the clock, the process or the network is new in every run, killed or not.")
    return lines


def _bodies(log: Path) -> list[str]:
    """Return what the built-in notebook's bodies wrote themselves: the one that was killed twice, every other once."""
    return [f"bodies that ran, by their own log: {', '.join(log.read_text().split())}"] if log.is_file() else []


def _differing_cells(cells: Sequence[Cell], whole: Seen, again: Seen) -> list[int]:
    return [i for i, cell in enumerate(cells) if cell.compared and whole.outputs[i] != again.outputs[i]]


def _differing_variables(whole: Seen, again: Seen) -> list[str]:
    names = sorted(whole.variables.keys() | again.variables.keys())
    return [name for name in names if whole.variables.get(name) != again.variables.get(name)]


def _query(notebook: Path, *statements: str) -> list[Rows]:
    settings = Settings(key_file=str(notebook.parent.parent / "key"))
    place = locate(settings, notebook=str(notebook), cwd=notebook.parent)
    repository = open_repository(settings, place.folder, clock=SystemClock(), create=False)
    workflow = repository.workflow(place.workflow_id, kernel_id="demo", owner=None)
    projection = open_projection(repository, place.folder, workflow)
    try:
        return [projection.query(statement) for statement in statements]
    finally:
        projection.close()
        workflow.close()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
