"""Run or skip: the engine's side of the decision, from options to the record that may stand for the cell.

Called for every durable cell before it runs, and by `why`. Nothing live changes.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from durable_nb.capture.access import code_hash
from durable_nb.engine.effects import CellRequest, Decision
from durable_nb.engine.inputs import Present
from durable_nb.engine.processes import digests
from durable_nb.engine.replay import OF_MODULES, Place
from durable_nb.engine.saving import know_everything
from durable_nb.errors import DurableError, UsageError
from durable_nb.history import Record
from durable_nb.model import Group, Manifest
from durable_nb.reuse import candidates, mismatches

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["decide"]

MAX_CANDIDATES = 50  # a cell run a thousand times is compared with its newest attempts only


def decide(engine: Engine, request: CellRequest, *, explain: bool = False) -> Decision:
    """Return whether a finished attempt may stand for this cell, and why (not); `explain` collects every reason."""
    options = request.options
    if options.rerun:
        return Decision(skip=False, reasons=("--rerun asks for it",))
    if options.setup:
        return Decision(skip=False, reasons=("a --setup cell always runs",))
    if options.skip_if:
        know_everything(engine)
        return _state_check(engine, request)
    if engine.settings.skip == "never":
        return Decision(skip=False, reasons=("skip is set to «never»",))
    run = engine.state.run
    before_seq = None if engine.settings.skip == "always" else engine.life_seq
    hashed = code_hash(request.transformed)
    found = candidates(run, hashed, cell_id=request.cell_id, before_seq=before_seq, after_seq=engine.replay.last_seq)
    if not explain:
        engine.replay.asked(hashed, request.cell_id, run.records[0] if run and run.records else None)
    who = request.name or request.cell_id
    if not found:
        return Decision(skip=False, reasons=(_no_candidate(engine, request, hashed),))
    if before_seq is not None:
        found = [r for r in found if not engine.replay.stands_for_another(r.seq, who)]
        if not found:
            return Decision(
                skip=False, reasons=("what finished with this code is another cell, which was met already",)
            )
    # Whether a record may stand is decided by everything that has happened, to files as well.
    know_everything(engine)
    # The changes of this moment are committed already, so the head knows the process state; streams that nobody
    # committed are as they were at the load.
    facts = Present(engine=engine, request=request, live_process=digests(engine))
    reasons: list[str] = []
    for record in found[:MAX_CANDIDATES]:
        try:
            why = (
                _unloadable(engine, record)
                or mismatches(record, facts, unknown_inputs=engine.settings.unknown_inputs, first_only=not explain)
                or _aliases(engine, record, facts)
            )
        except UsageError:
            raise
        except DurableError as error:
            why = [f"its record cannot be read ({error})"]
        if not why:
            return Decision(skip=True, record=record, reasons=(f"finished in {record.checkpoint_id}, nothing changed",))
        reasons = reasons or why
    if not explain:
        _take_back(engine, found[0])
    return Decision(skip=False, record=found[0], reasons=tuple(reasons))


def _take_back(engine: Engine, record: Record) -> None:
    """Let a cell that runs again find values of modules as it found them: what it counts would be counted twice.

    Unless a cell of this life has changed them since: then they are what they are to be.
    """
    run, head = engine.state.run, engine.head
    if not record.inputs.outside_effects or run is None or head is None:
        return
    last = next(r for r in reversed(run.records) if r.seq < engine.life_seq or r is record)
    restored = engine.workflow.manifest(last.checkpoint_id)
    since = {c for r in run.records if r.seq >= engine.life_seq for c in r.process_changed}
    since = since.union(*(one.process_changed for one in engine.in_flight))
    for component in OF_MODULES & set(record.process_changed) - since:
        if _digest(head, component) != _digest(restored, component):
            continue
        parent = engine.workflow.manifest(record.checkpoint_id).parent
        before = engine.workflow.manifest(parent) if parent is not None else None
        engine.replay.process[component] = Place(
            version=_digest(before, component), checkpoint_id=parent or record.checkpoint_id, seq=record.seq - 1
        )


def _digest(manifest: Manifest | None, component: str) -> str | None:
    entry = manifest.process.get(component) if manifest is not None else None
    return entry["digest"] if entry else None


def _unloadable(engine: Engine, record: Record) -> list[str]:
    """Return why skipping would leave a person without what the cell makes: what is stored of it did not load."""
    if not engine.unloadable:
        return []
    after = engine.workflow.manifest(record.checkpoint_id)
    for name in (n for n in record.changed if n in after.names):
        if (name, after.names[name].version) in engine.unloadable or not (
            _there(engine, name, after) or _whole(engine, after.groups[after.names[name].group_id])
        ):
            return [f"what is stored of `{name}`, which it makes, cannot be loaded"]
    return []


def _whole(engine: Engine, group: Group) -> bool:
    """Tell whether a group can be read; asked only after something could not, when other groups may have its chunks."""
    try:
        engine.workflow.check_group(group)
    except DurableError:
        return False
    return True


def _no_candidate(engine: Engine, request: CellRequest, hashed: str) -> str:
    run = engine.state.run
    done = run.by_code.get(hashed, ()) if run else ()
    if done:
        return "this code finished in this kernel; running it again is what you asked for"
    same = {("id", request.cell_id or ""), ("name", request.name)} - {("id", ""), ("name", "")}
    if run and not same.isdisjoint(run.finished):
        return "its code changed since it finished"
    return "it has not finished in this run"


def _state_check(engine: Engine, request: CellRequest) -> Decision:
    expression = request.options.skip_if
    try:
        reached = bool(eval(expression, engine.shell.namespace))
    except Exception as error:
        raise UsageError(
            f"--skip-if {expression!r} cannot be evaluated ({type(error).__name__}: {error}); the cell did not run."
        ) from None
    if not reached:
        return Decision(skip=False, reasons=(f"--skip-if {expression} is false",))
    found = candidates(engine.state.run, code_hash(request.transformed), cell_id=request.cell_id, before_seq=None)
    facts = Present(engine=engine, request=request, live_process=digests(engine))
    record = next((r for r in found if not mismatches(r, facts) and not _aliases(engine, r, facts)), None)
    return Decision(skip=True, record=record, reasons=(f"--skip-if {expression} is true",), reached=True)


def _aliases(engine: Engine, record: Record, facts: Present) -> list[str]:
    """Return why reusing the record would tear names apart that share an object, or join what did not."""
    if (text := facts.aliases_differ(record)) is not None:
        return [text]
    after = engine.workflow.manifest(record.checkpoint_id)
    for name in (n for n in record.changed if n in after.names):
        members = after.names.keys() & after.groups[after.names[name].group_id].names
        away = sorted(n for n in members - set(record.changed) if not _there(engine, n, after))
        there = _there(engine, name, after)
        if there and not away and members <= set(record.changed):
            continue  # all of them are the cell's own and loaded together when a cell runs
        joined = len(members) == 1 or (there and _joined_as_then(engine, name, sorted(members), after))
        if away and not (joined and engine.replay.names.keys().isdisjoint(members)):
            return [f"`{away[0]}` shares an object with `{name}` and is another version now"]
        if there and joined:
            continue
        if there:
            return [f"`{name}` shares objects differently than the cell had left it"]
        mutated = record.inputs.names.get(name) is not None or not facts.may_bind(name)
        if (
            mutated
            and name not in engine.replay.names
            and (holders := _holders(engine, name, record, after) - members - {name})
        ):
            return [_torn(name, holders)]
        # What it shares objects with is loaded along with it, and takes the place of what is live and equal.
        for mate in sorted(members - set(record.changed) - engine.replay.names.keys()):
            if holders := _met_with(engine, mate, _holders(engine, mate, record, after) - members):
                return [_torn(mate, holders)]
    return []


def _torn(name: str, holders: Set[str]) -> str:
    return f"skipping would replace `{name}`, which {', '.join(f'`{h}`' for h in sorted(holders))} still holds"


def _met_with(engine: Engine, name: str, holders: Set[str]) -> Set[str]:
    """Return the holders that a cell of this life made so, run or skipped; what comes further down is made again."""

    def held(one: str, other: str) -> bool:
        if one not in engine.replay.met:
            return False
        manifest = engine.workflow.manifest(engine.replay.met[one][1])
        variable = manifest.names.get(one)
        group = manifest.groups[variable.group_id] if variable else None
        return group is not None and (other in group.names or other in group.deps)

    return {h for h in holders if h in engine.replay.met and (held(h, name) or held(name, h))}


def _holders(engine: Engine, name: str, record: Record, after: Manifest) -> Set[str]:
    """Return the live variables that would keep the object of a name, if another one took its place."""
    live = engine.head.names if engine.head else {}
    by_name = {
        holder
        for group_id, group in (engine.head.groups.items() if engine.head else ())
        if name in group.deps
        for holder in group.names
        if holder in live and live[holder].group_id == group_id
    }
    # What is as it was then is loaded along with the definition that it holds on to.
    again = {n for n in by_name if n in after.names and after.names[n].version == live[n].version}
    again |= {n for n in by_name if n in engine.replay.names or n in record.changed}
    return engine.capture.shared_with([name]) | (by_name - again)


def _joined_as_then(engine: Engine, name: str, members: Sequence[str], after: Manifest) -> bool:
    """Do the names of a group share what they shared after the cell, whatever their versions are by now?"""
    if not engine.replay.names.keys().isdisjoint(members):
        return True  # settling will join them again
    assert engine.head is not None
    if engine.head.names[name].group_id == after.names[name].group_id:
        return True
    return engine.capture.same(after, engine.workflow.read_group, members) is None


def _there(engine: Engine, name: str, after: Manifest) -> bool:
    place = engine.replay.names.get(name)
    if place is not None:
        return place.version == after.names[name].version
    live = engine.head.names.get(name) if engine.head else None
    return live is not None and live.version == after.names[name].version
