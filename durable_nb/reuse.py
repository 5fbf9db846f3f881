"""Whether a finished attempt may stand for a cell: the rules of reuse, as a pure function of a record and of facts.

Called by the engine for every candidate; what needs live values or the store is asked through `Facts`. An attempt is a
hit only when its code, everything it read, and the state of the process it depended on are what they were. Whatever is
unclear is a reason to run.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from durable_nb.history import Record, Run
from durable_nb.model import Json

__all__ = ["Facts", "candidates", "mismatches"]

# What is missing for these reasons costs no skip: a file handle left over by `with`, a name left out on request, the
# address of a view that is back.
HARMLESS = ("a closed file", "left out on request", "a view made again")


class Facts(Protocol):
    """What a decision has to know about the present; the engine answers, tests answer by hand."""

    def name_differs(self, name: str, version: str, record: Record) -> str | None:
        """Return None if the name has the content of that version now, else a sentence that says how it differs."""
        ...

    def present(self, name: str) -> bool:
        """Is the name there now (builtins count as present only for themselves, never here)?"""
        ...

    def is_builtin(self, name: str) -> bool: ...

    def components(self) -> Iterable[str]:
        """Return the components of process state that count for every cell, whatever it reads."""
        ...

    def process_differs(self, component: str, digest: str, unset: bool) -> str | None:
        """Return None if the component of process state is what it was, or unset then and untouched now."""
        ...

    def file_differs(self, mark: Json, record: Record) -> str | None:
        """Return None if the file is what the attempt read, or as a cell further down is recorded to have left it."""
        ...

    def file_overwritten(self, mark: Json, record: Record) -> str | None:
        """Return None unless a cell above has changed the file since the attempt left it so."""
        ...

    def depends_differs(self, depends: Mapping[str, str]) -> str | None: ...

    def module_differs(self, module: str, digest: str) -> str | None: ...

    def key(self) -> str: ...


def candidates(
    run: Run | None, code_hash: str, *, cell_id: str | None, before_seq: int | None, after_seq: int = 0
) -> Sequence[Record]:
    """Return the completed attempts of the run with this code, best first.

    Those of the same cell come first, newest before oldest: a person runs a cell until they like what it does. Cells
    that merely have the same code are told apart by their place: what came next after `after_seq`, the attempt that
    was reused last, comes first. `before_seq` leaves out what happened since this kernel was attached or restored:
    pressing Shift-Enter again means «run it»; None keeps all.
    """
    if run is None:
        return ()
    found = run.by_code.get(code_hash, [])
    if before_seq is not None:  # they are in the order of their ends
        found = found[: bisect.bisect_left(found, before_seq, key=lambda r: r.seq)]
    same = [r for r in found if cell_id is not None and r.cell_id == cell_id]
    others = [r for r in found if cell_id is None or r.cell_id != cell_id]
    following = [r for r in others if r.seq > after_seq]
    return [*reversed(same), *following, *reversed([r for r in others if r.seq <= after_seq])]


def mismatches(record: Record, facts: Facts, *, unknown_inputs: str = "skip", first_only: bool = True) -> list[str]:
    """Return why the record cannot stand for a run now; empty means that it can.

    Cheap reasons come first; with `first_only` the expensive ones are not looked for once a reason is found.
    """
    found: list[str] = []
    for reason in _reasons(record, facts, unknown_inputs):
        found.append(reason)
        if first_only:
            break
    return found


def _reasons(record: Record, facts: Facts, unknown_inputs: str) -> Iterable[str]:
    inputs = record.inputs
    if record.setup:
        yield "it is a --setup cell, which always runs"
    for effect in inputs.outside_effects:
        yield f"it changes something outside the namespace that no checkpoint holds ({effect})"
    for name, reason in record.unsaved:
        if not reason.startswith(HARMLESS):
            yield f"it makes `{name}`, which a checkpoint cannot hold ({reason})"
    if inputs.unknown and unknown_inputs == "run":
        yield f"it has inputs that cannot be seen ({', '.join(inputs.unknown)}) and unknown_inputs is «run»"
    if inputs.key != facts.key():
        yield "the value of --key is another one"
    if (text := facts.depends_differs(inputs.depends)) is not None:
        yield text
    for component, digest in inputs.process.items():
        if (text := facts.process_differs(component, digest, component in inputs.unset)) is not None:
            yield text
    if inputs.others_untouched:
        for component in facts.components():
            if component not in inputs.process and (text := facts.process_differs(component, "", True)) is not None:
                yield text
    for module, digest in inputs.modules.items():
        if (text := facts.module_differs(module, digest)) is not None:
            yield text
    for mark in inputs.files:
        if (text := facts.file_differs(mark, record)) is not None:
            yield text
    for mark in record.files_left:
        if (text := facts.file_overwritten(mark, record)) is not None:
            yield text
    yield from _name_reasons(record, facts)


def _name_reasons(record: Record, facts: Facts) -> Iterable[str]:
    for name, version in record.inputs.names.items():
        if version is None:
            # The cell completed although the name was absent, so it made the name before it read it, unless it
            # catches the absence or read a builtin of that name instead.
            if facts.present(name) and (record.inputs.handles_absence or facts.is_builtin(name)):
                yield f"`{name}` was not defined when it ran, and is now"
        elif (text := facts.name_differs(name, version, record)) is not None:
            yield text
