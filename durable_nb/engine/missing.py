"""What is not back: which variables, which cell of the history makes each, and what a person types for it.

A variable that a checkpoint could not hold stays known until something binds its name again: it is carried from
checkpoint to checkpoint, so that every later life can say what it was. Used by the engine, the verbs and the shell's
error notes. Nothing here changes a live value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from durable_nb.errors import RestoreError
from durable_nb.history import Attempt, Record, State
from durable_nb.model import CheckpointId, Manifest, Unsaved

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine
    from durable_nb.store.workflow import Workflow

__all__ = [
    "RAN_AGAIN",
    "Maker",
    "Remade",
    "advice",
    "carried",
    "is_variable",
    "label",
    "lineage",
    "maker_of",
    "missing_rows",
    "missing_text",
    "not_stored",
    "note_restored",
    "note_skipped",
    "place",
    "used_since",
]

COLUMNS = ("name", "type", "made by", "type this", "why")
UNPROVABLE = "?"  # the version of an input that no checkpoint held
# What stands for a cell where something else than a durable cell made the value.
NO_CELL: Mapping[str, str] = {
    "": "no cell is recorded as the one that made it",
    "outside": "it was made outside of the durable cells, or by one that failed",
    "fresh run": "it was made before this run",
    "repair": "the checkpoint that told is damaged",
}
WIDEST = 110
# How the reason begins of what a person did not want to have saved.
LEFT_OUT = "left out on request"
# Said once below what ran again.
RAN_AGAIN = "Outputs of cells that ran again are not shown; what they do outside of the variables has happened again."
_OUT = re.compile(r"Out\[\d+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """The finished attempt that made a value, with the cell as it was typed."""

    record: Record
    attempt: Attempt

    @property
    def label(self) -> str:
        """What a person calls the cell."""
        return label(self.attempt)

    @property
    def marked(self) -> bool:
        """Whether the person allowed by a mark that the cell runs again by itself."""
        return self.attempt.options.get("on_unserializable") == "recompute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remade:
    """A cell that ran again for the sake of names that were not back; `problem` says why they still are not."""

    label: str
    wanted: tuple[str, ...]
    names: tuple[str, ...] = ()
    as_of: CheckpointId | None = None
    problem: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def sentence(self) -> str:
        """What happened, for a person."""
        if self.problem:
            return f"{_listed(self.wanted)} not made again: {self.problem.rstrip('.')}."
        as_of = f", with its inputs as of {self.as_of}" if self.as_of else ""
        told = "".join(f" {note}" for note in self.notes)
        return f"{_listed(self.names)} back: the cell {self.label} ran again{as_of}.{told}"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(f'`{n}`' for n in names)} {'is' if len(names) == 1 else 'are'}"


def label(attempt: Attempt) -> str:
    """Return what a person calls the cell of an attempt in a sentence: its name, else its number."""
    return f"«{attempt.name}»" if attempt.name else f"[{attempt.execution_count}]"


# ---- which names -----------------------------------------------------------------------------------------------------


def is_variable(entry: Unsaved, components: Collection[str]) -> bool:
    """Tell a variable (or a result in Out) from a part of the process state, of which `components` are the names."""
    if entry.type == "process state" or entry.name in components:
        return False
    return entry.name.isidentifier() or _OUT.fullmatch(entry.name) is not None


def _is_live(engine: Engine, name: str) -> bool:
    if name in engine.capture.lazy.names:
        return True
    found = _OUT.fullmatch(name)
    return int(name[4:-1]) in engine.shell.outs() if found else name in engine.shell.namespace


def note_restored(engine: Engine, entries: Iterable[Unsaved]) -> list[Unsaved]:
    """Take note of which variables of these are not there now (what was known before is forgotten); return them all."""
    components = engine.process.names()
    variables = [u for u in entries if is_variable(u, components)]
    engine.absent = {u.name: u for u in variables if not _is_live(engine, u.name)}
    return variables


def note_skipped(engine: Engine, record: Record, after: Manifest) -> None:
    """Take note of what a skipped cell had made and no checkpoint holds (a name that was left out on request)."""
    made = dict(record.unsaved)
    for entry in after.unsaved:
        if entry.name in made and entry.name not in engine.absent and not _is_live(engine, entry.name):
            engine.absent[entry.name] = entry
            if entry.name not in {u.name for u in engine.missing}:
                engine.missing = (*engine.missing, entry)


def carried(engine: Engine, found: Iterable[Unsaved]) -> tuple[Unsaved, ...]:
    """Return what is still not back, to be told again by the next checkpoint; `found` is what that one cannot hold."""
    told = {u.name for u in found}
    for name in [n for n in engine.absent if n in told or _is_live(engine, n)]:
        del engine.absent[name]
    return tuple(engine.absent.values())


# ---- which cell ------------------------------------------------------------------------------------------------------


def lineage(workflow: Workflow, at: CheckpointId | None) -> frozenset[str]:
    """Return a checkpoint and all that came before it; what lies on abandoned branches is not among them."""
    found: set[str] = set()
    while at is not None and at not in found:
        found.add(at)
        try:
            at = workflow.parent_of(at)
        except KeyError:  # its event is lost; what came before it cannot be told
            break
    return frozenset(found)


def maker_of(state: State, entry: Unsaved, ancestors: Collection[str]) -> Maker | str:
    """Return the attempt among the ancestors that made a value, or in a sentence why that cannot be told."""
    if entry.made_by in NO_CELL:
        return NO_CELL[entry.made_by]
    records = [
        record
        for run in state.runs.values()
        for record in run.records
        if record.activity_id == entry.made_by and record.checkpoint_id in ancestors
    ]
    for record in sorted(records, key=lambda r: r.seq, reverse=True):
        if entry.name in dict(record.unsaved) or entry.name in record.changed:
            attempts = (a for a in state.attempts if a.checkpoint_id == record.checkpoint_id and not a.recompute)
            if (attempt := next(attempts, None)) is not None:
                return Maker(record=record, attempt=attempt)
    return "the history has no finished cell that made it"


def used_since(engine: Engine, name: str, record: Record, ancestors: Collection[str]) -> list[str]:
    """Return the cells that used the value later: what they changed of it (a position, an entry) is not in it now."""
    found: dict[str, None] = {}
    labels = {a.checkpoint_id: label(a) for a in engine.state.attempts if a.checkpoint_id}
    for run in engine.state.runs.values():
        for later in run.records:
            uses = later.inputs.names.get(name) == UNPROVABLE or name in dict(later.unsaved)
            if later.seq > record.seq and later.checkpoint_id in ancestors and uses:
                found[labels.get(later.checkpoint_id, later.activity_id)] = None
    return list(found)


# ---- what is shown ---------------------------------------------------------------------------------------------------


def advice(state: State, entry: Unsaved, ancestors: Collection[str]) -> tuple[str, str]:
    """Return what a person calls the cell that makes it (empty: none is known), and the line to type."""
    maker = maker_of(state, entry, ancestors)
    if isinstance(maker, str):
        return "", ""
    return maker.label, f"%durable recompute {entry.name}" if entry.name.isidentifier() else ""


def missing_rows(engine: Engine, entries: Iterable[Unsaved]) -> list[tuple[str, ...]]:
    """Return a row of `COLUMNS` for each entry."""
    ancestors = lineage(engine.workflow, engine.head.checkpoint_id if engine.head else None)
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        cell, line = advice(engine.state, entry, ancestors) if entry.name in engine.absent else ("", "")
        rows.append((place(entry), entry.type, cell, line, _short(entry.reason)))
    return rows


def place(entry: Unsaved) -> str:
    """Return where it is: a path inside an object continues its name, that of a part of the process state has none."""
    apart = "." if entry.path and (entry.path[0].isalnum() or entry.path[0] == "_") else ""
    return f"{entry.name}{apart}{entry.path}"


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def missing_text(engine: Engine, entries: Iterable[Unsaved]) -> str:
    """Return the table of what is not back as text, empty if all is."""
    rows = missing_rows(engine, entries)
    if not rows:
        return ""
    used = [i for i in range(len(COLUMNS)) if any(row[i] for row in rows)]
    table = [[line[i] for i in used] for line in (COLUMNS, *rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(used))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join(["durable_nb: not back:", *(f"  {line}" for line in lines)])


def error_note(engine: Engine, name: str) -> str:
    """Return what to add to the NameError of a variable that is not back, empty for any other name."""
    entry = engine.absent.get(name)
    if entry is None or name in engine.shell.namespace:
        return ""
    if entry.reason.startswith(LEFT_OUT):
        return f"durable_nb: `{name}` is not back: it was {entry.reason.rstrip('.')}. {_makes_it(engine, entry)}"
    where = f"at {place(entry)}, " if entry.path else ""
    lost = "was saved, cannot be loaded" if any(n == name for n, _ in engine.unloadable) else "could not be saved"
    said = f"durable_nb: `{name}` {lost} and is not back: {where}{entry.reason.rstrip('.')}."
    return f"{said} {_makes_it(engine, entry)}"


def not_stored(engine: Engine, entry: Unsaved, checkpoint_id: CheckpointId) -> RestoreError:
    """Return the error for a variable that was asked for, and that this checkpoint tells of without holding it."""
    what = "was" if entry.reason.startswith(LEFT_OUT) else f"could not be saved in {checkpoint_id}:"
    hint = f"`{entry.name}` is in this kernel as it is." if _is_live(engine, entry.name) else _makes_it(engine, entry)
    return RestoreError(f"`{entry.name}` {what} {entry.reason.rstrip('.')}; nothing changed.", hint=hint)


def _makes_it(engine: Engine, entry: Unsaved) -> str:
    """Return what to type, so that a variable which is not back is there."""
    ancestors = lineage(engine.workflow, engine.head.checkpoint_id if engine.head else None)
    maker = maker_of(engine.state, entry, ancestors)
    if isinstance(maker, str) or entry.name not in engine.absent:
        return "Run the cell that makes it."
    return f"`%durable recompute {entry.name}` runs the cell {maker.label}, which makes it, again as of then."
