"""A finished cell stands for itself: its names are noted where they are now, its outputs are shown again.

Called by the engine for a cell that is skipped, and when a kernel takes up where a lost one had skipped to. No live
variable changes here, until `take_up` has the engine load what the skipped cells made.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from durable_nb.engine import missing
from durable_nb.engine.restoring import settle
from durable_nb.engine.words import clock_text, duration_text
from durable_nb.errors import DurableError
from durable_nb.history import Record
from durable_nb.model import Group, Manifest, Output, Variable

if TYPE_CHECKING:
    from durable_nb.engine.effects import CellRequest, Decision
    from durable_nb.engine.session import Engine

__all__ = ["reuse", "take_up"]


def reuse(engine: Engine, request: CellRequest, decision: Decision) -> None:
    """Let the record stand for the cell: note where its names are now, show its outputs, record the fact."""
    record = decision.record
    if record is None:
        engine.shell.say(f"skipped · {decision.reasons[0]} · `%%durable --rerun` runs it")
        reached = engine.draft("ActivityReused", {"reason": decision.reasons[0], "name": request.name})
        engine.guarded("record that a cell was skipped", lambda: engine.append(reached))
        return
    after = engine.workflow.manifest(record.checkpoint_id)
    outputs = load_outputs(engine, record)
    reused = engine.draft(
        "ActivityReused",
        {
            "name": record.name,
            "checkpoint_id": record.checkpoint_id,
            "of_event": record.event_id,
            "reason": decision.reasons[0],
            "execution_count": request.execution_count,
        },
        activity_id=record.activity_id,
    )
    engine.guarded("record that a cell was skipped", lambda: engine.append(reused))
    engine.replay.take(record, after, request.cell_id, request.name)
    _drop_places_reached(engine, after)
    missing.note_skipped(engine, record, after)
    engine.process.note_cell(request.tree)
    engine.shell.say(skip_line(record, decision))
    engine.shell.emit(outputs)
    _bring_result(engine, record, request.execution_count)


def skip_line(record: Record, decision: Decision) -> str:
    unknown = f" · inputs it cannot see: {', '.join(record.inputs.unknown)}" if record.inputs.unknown else ""
    reached = f" · {decision.reasons[0]}" if decision.reached else ""
    return (
        f"finished {clock_text(record.timestamp)} in {duration_text(record.duration_s)} · skipped{reached}{unknown} · "
        "`%%durable --rerun` runs it again"
    )


def load_outputs(engine: Engine, record: Record) -> list[Output]:
    """Return the outputs that the attempt showed, in order."""
    if not record.outputs:
        return []
    event = next(iter(engine.workflow.events(after_seq=record.seq - 1)), None)
    data = engine.workflow.attachment(event, "outputs") if event is not None else None
    if data is None:
        return []
    return [Output(kind=item["kind"], content=item["content"]) for item in json.loads(data)]


def _drop_places_reached(engine: Engine, after: Manifest) -> None:
    """Forget the places at which the live names already are, alone or together with those they share objects with."""
    replay, head = engine.replay, engine.head
    live = head.names if head else {}
    joined: dict[str, dict[str, frozenset[str]]] = {}
    for name, place in list(replay.names.items()):
        variable = live.get(name)
        if place.version is None:
            if name not in live:
                del replay.names[name]
            continue
        if variable is None or variable.version != place.version or name not in after.names:
            continue
        then = after.groups[after.names[name].group_id]
        if then.group_id not in joined:
            joined[then.group_id] = _joined_by_now(engine, then)
        if _parted(engine, name, joined[then.group_id]):
            continue
        if variable.group_id == then.group_id or (
            not (name in replay.apart or _joined_since(engine, after, then, variable))
            and (len(then.names) == 1 or _same_together(engine, after, then))
        ):
            del replay.names[name]
    now = engine.head.process if engine.head else {}
    for component, place in list(replay.process.items()):
        entry = now.get(component)
        if (entry["digest"] if entry else None) == place.version:
            del replay.process[component]


def _parted(engine: Engine, name: str, joined: Mapping[str, frozenset[str]]) -> bool:
    """Has the cell that was met last for a name taken it apart from names that were met before?"""
    met = engine.replay.met
    return any(met[n][0] < met[name][0] and n not in joined[name] for n in joined)


def _joined_by_now(engine: Engine, group: Group) -> dict[str, frozenset[str]]:
    """Return for each name of a group that was met in this life those that it is joined to, itself included.

    Of two names the cell that was met last says whether they share objects; others may join them through a third.
    """
    met = engine.replay.met
    found = {n: {n} for n in group.names if n in met}
    for name in found:
        turn, checkpoint_id = met[name]
        manifest = engine.workflow.manifest(checkpoint_id)
        variable = manifest.names.get(name)
        for other in manifest.groups[variable.group_id].names if variable else ():
            if other in found and met[other][0] <= turn and found[other] is not found[name]:
                found[name] |= found[other]
                found.update(dict.fromkeys(found[name], found[name]))
    return {n: frozenset(part) for n, part in found.items()}


def _joined_since(engine: Engine, after: Manifest, then: Group, variable: Variable) -> bool:
    """Does the live variable share objects with a name that the cell left by itself?

    A name that came later, or was other then, is no matter: the cell that joined them comes further down. Unless that
    cell was met already in this life, run or skipped: then this one has to take them apart.
    """
    assert engine.head is not None
    more = set(engine.head.groups[variable.group_id].names) - set(then.names)
    read = engine.workflow.read_group
    return bool(more & engine.replay.met.keys()) or any(
        engine.capture.same(after, read, [n]) is None for n in sorted(more) if n in after.names
    )


def _same_together(engine: Engine, after: Manifest, group: Group) -> bool:
    """Are the live names of the group, which is stored as part of another one now, still what they were and so joined?

    A cell that ran again has left another version of a name, and it may be equal.
    """
    live, met = engine.head.names if engine.head else {}, engine.replay.met
    for name in group.names:
        if name not in live:
            return False
        version = live[name].version
        if version != after.names[name].version and (name not in met or met[name][1] != version):
            return False  # what a cell further down has left
    return engine.capture.same(after, engine.workflow.read_group, list(group.names)) is None


def _bring_result(engine: Engine, record: Record, execution_count: int) -> None:
    """Make the result of the skipped cell `Out[n]` and `_` of this one."""
    key = f"Out[{record.execution_count}]"
    if key in record.changed and key not in engine.replay.names:
        outs = engine.shell.outs()
        if record.execution_count in outs:
            engine.shell.set_out(execution_count, outs[record.execution_count], latest=True)


def take_up(engine: Engine, passed: Sequence[str], kept: Collection[str]) -> str | None:
    """Go on to where the lost kernel was: past the cells that it skipped after the last one that ran.

    `passed` are the records they stood for, in order; the names in `kept` stay as they are. Returns why that cannot
    be, in which case the variables are as the last cell that ran left them.
    """
    run = engine.state.run
    records = {record.event_id: record for record in (run.records if run else ())}
    for record in (records[event_id] for event_id in passed if event_id in records):
        after = engine.workflow.manifest(record.checkpoint_id)
        engine.replay.take(record, after)
        for name in kept:
            engine.replay.names.pop(name, None)
        _drop_places_reached(engine, after)
    try:
        settle(engine, reason="continue")
    except DurableError as error:
        return str(error.args[0])
    finally:
        # Run All begins at the top again.
        engine.replay.begin()
    return None
