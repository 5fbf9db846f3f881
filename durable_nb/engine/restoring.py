"""Bringing variables back: those that skipped cells made, a checkpoint, single names.

Called by the engine and by the verb `restore`. Everything a call needs is loaded and verified aside before the first
live name changes; when a function here returns, the head says what the live namespace is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from durable_nb.capture.staging import Staged
from durable_nb.engine import missing, pending, processes, versions
from durable_nb.engine.missing import Remade
from durable_nb.engine.processes import GUI
from durable_nb.errors import DurableError, RestoreError, UnknownName
from durable_nb.model import CheckpointId, Delta, GroupId, Json, Manifest, Unsaved, Variable

if TYPE_CHECKING:
    from durable_nb.engine.effects import CellRequest
    from durable_nb.engine.session import Engine

__all__ = ["Restored", "before_beside", "put_back", "restore_checkpoint", "restore_names", "settle", "settle_for"]

_LISTED = 12  # so many variables are spelt out where the one that was asked for is not there


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What came back and what did not."""

    checkpoint_id: CheckpointId
    names: tuple[str, ...]
    missing: tuple[Unsaved, ...]
    warnings: tuple[str, ...] = ()
    setups: tuple[str, ...] = ()
    failed_setups: tuple[str, ...] = ()
    remade: tuple[Remade, ...] = ()  # cells that ran again for what a checkpoint cannot hold, as their marks allow
    pending: tuple[str, ...] = ()  # loaded when they are needed
    kept: tuple[str, ...] = ()  # live variables that differ from the checkpoint and stayed as this kernel has them


# ---- settle ----------------------------------------------------------------------------------------------------------


def settle(engine: Engine, *, reason: str = "replay") -> None:
    """Load what the places of skipped cells say, because a cell is about to run for real."""
    replay = engine.replay
    if not replay:
        return
    found: dict[str, tuple[Manifest, Variable]] = {}
    staged: list[Staged] = []
    process: dict[str, Json] = {}
    postponed: list[tuple[Manifest, set[str], dict[str, object]]] = []
    for checkpoint_id, whole in _sources(replay.checkpoints()):
        manifest = engine.workflow.manifest(checkpoint_id)
        torn = _torn_groups(engine, manifest) if whole else frozenset()
        wanted = [
            name
            for name, place in replay.names.items()
            if name not in found
            and place.version is not None
            and name in manifest.names
            and manifest.names[name].version == place.version
            and manifest.names[name].group_id not in torn
        ]
        for component, place in replay.process.items():
            entry = manifest.process.get(component)
            if component not in process and entry and entry["digest"] == place.version:
                process[component] = entry
        if wanted:
            wanted += _made_of(engine, manifest, wanted)
            later = pending.choose(engine, manifest, wanted)
            theirs = {n for n in manifest.names if n in wanted or _is_its_place(engine, n, manifest)}
            waiting = {n for n in later & theirs if n not in found}
            # A definition that is loaded later itself is not taken from what is live now: the two would be twins.
            needs = {dep for n in later for dep in manifest.groups[manifest.names[n].group_id].deps} - waiting
            needs = needs.difference(*(names for _, names, _ in postponed))
            at_once = [n for n in wanted if n not in later]
            part = engine.capture.stage(manifest, pending.reader(engine, manifest), at_once, needs, anew=waiting)
            _refuse_incomplete(engine, manifest, part, at_once)
            live = engine.shell.namespace
            kept = {n: part.values[n] if n in part.values else live[n] for n in needs & {*part.values, *part.reused}}
            kept |= {n: part.values[n] for n in waiting & part.values.keys()}
            part = replace(part, values={n: v for n, v in part.values.items() if n in theirs})
            staged.append(part)
            postponed.append((manifest, {n for n in waiting if n not in part.values}, kept))
            arrived = (*part.values, *postponed[-1][1])
            found.update({n: (manifest, manifest.names[n]) for n in arrived if n not in found})
    deleted = [name for name, place in replay.names.items() if place.version is None]
    processes.restore(engine, process, only=processes.EARLY & process.keys())
    for part in reversed(staged):
        _apply(engine, part)
    for name in deleted:
        engine.shell.namespace.pop(name, None)
    engine.capture.lazy.drop(deleted)
    for manifest, names, kept in postponed:
        engine.capture.lazy.postpone(manifest, pending.reader(engine, manifest), names, kept)
    untouched = {name for name, place in replay.process.items() if place.version is None}
    processes.restore(engine, process, only=(process.keys() | untouched) - processes.EARLY)
    replay.clear()
    replaced = {*found, *deleted}
    groups = engine.head.groups.values() if engine.head else ()
    left = any(not replaced.isdisjoint(g.deps) and replaced.isdisjoint(g.names) for g in groups)
    _commit_kept(engine, found, deleted, process, reason=reason)
    pending.prepare(engine)
    if left:
        # Stored as «the definition of that name», which is another one or gone now: a loss before the next commit
        # would bring these back with the wrong one.
        engine.guarded("save what holds on to replaced definitions", engine.commit_outside)


def _sources(checkpoints: Sequence[CheckpointId]) -> Iterable[tuple[CheckpointId, bool]]:
    """Give where to load from, in order, and whether only groups count of which every name is to be as it is there.

    The newest first: its groups hold the sharing as of the last skip. Where a part of a group is to be another version,
    since attempts of several lives stand for the cells, an older checkpoint may have the group as it is to be.
    """
    return [(checkpoint_id, whole) for whole in (True, False) for checkpoint_id in checkpoints]


def _torn_groups(engine: Engine, manifest: Manifest) -> Set[GroupId]:
    """Return the groups of a checkpoint that have a name which is to be another version than it is there."""
    return {v.group_id for name, v in manifest.names.items() if not _is_its_place(engine, name, manifest)}


def settle_for(engine: Engine, request: CellRequest) -> None:
    """Bring the variables to where the skipped cells left them and load what the cell needs, because it is to run."""
    settle(engine)
    pending.need(engine, request)


def before_beside(engine: Engine, request: CellRequest) -> None:
    """Bring what code outside of cells reads to where the skipped cells left it, and load what it needs.

    A front end's variable inspector must not see what a cell further down the notebook had made of the variables.
    """
    if engine.writable and engine.replay:
        engine.guarded("load what the skipped cells made", lambda: settle(engine))
    pending.need(engine, request)


def _is_its_place(engine: Engine, name: str, manifest: Manifest) -> bool:
    """Is a name that was loaded along with others to be what this checkpoint says? Else it stays what it is."""
    place = engine.replay.names.get(name)
    live = engine.head.names.get(name) if engine.head else None
    wanted = place.version if place else live.version if live else None
    return wanted == manifest.names[name].version


def _made_of(engine: Engine, manifest: Manifest, wanted: Sequence[str]) -> list[str]:
    """Return the names that stay at their version but hold on to a definition among `wanted`, by name.

    An instance is stored as «of the class C»: if C is loaded anew, it has to become one of the new C, as it was.
    """
    live = engine.head.names if engine.head else {}
    loaded = {manifest.names[name].group_id for name in wanted}
    mates = {n for n, v in manifest.names.items() if v.group_id in loaded and _is_its_place(engine, n, manifest)}
    replaced, more = {*wanted, *mates}, list[str]()
    groups = [group for group in manifest.groups.values() if group.deps and replaced.isdisjoint(group.names)]
    while True:
        found = [
            group
            for group in groups
            if not replaced.isdisjoint(group.deps)
            and replaced.isdisjoint(group.names)
            and all(n in live and live[n].version == manifest.names[n].version for n in group.names)
            and len({live[n].group_id for n in group.names}) == 1
        ]
        if not found:
            return more
        for group in found:
            replaced.update(group.names)
            more.extend(n for n in group.names if n not in engine.replay.names)


def _note_unloadable(engine: Engine, manifest: Manifest, staged: Staged) -> None:
    lost = {u.name for u in staged.unsaved}
    engine.unloadable.update((n, manifest.names[n].version) for n in lost if n in manifest.names)


def _refuse_incomplete(engine: Engine, manifest: Manifest, staged: Staged, wanted: Sequence[str]) -> None:
    lost = [u for u in staged.unsaved if u.name in wanted]
    _note_unloadable(engine, manifest, staged)
    if lost:
        raise RestoreError(
            f"`{lost[0].name}` as the skipped cells left it cannot be loaded ({lost[0].reason}); nothing changed.",
            hint="Run the cell that makes it with `%%durable --rerun`.",
        )


def _apply(engine: Engine, staged: Staged, *, delete_others: bool = False) -> None:
    outs = engine.capture.apply(staged, delete_others=delete_others)
    last = sorted(outs)[-3:]
    for n in sorted(outs):
        engine.shell.set_out(n, outs[n], latest=n in last)


def _live_digests(engine: Engine) -> dict[str, str]:
    return {name: entry["digest"] for name, entry in processes.live(engine).items()}


def _commit_kept(
    engine: Engine,
    found: Mapping[str, tuple[Manifest, Variable]],
    deleted: Iterable[str],
    process: Mapping[str, Json],
    *,
    reason: str,
) -> None:
    """Make the head say that these names are stored versions again, without storing them again."""
    groups = {v.group_id: manifest.groups[v.group_id] for manifest, v in found.values()}
    head, absent = engine.head, missing.carried(engine, ())
    delta = Delta(
        checkpoint_id=engine.workflow.next_checkpoint_id(),
        parent=head.checkpoint_id if head else None,
        names={**{n: v for n, (_, v) in found.items()}, **{n: None for n in deleted if head and n in head.names}},
        kept=tuple(groups.values()),
        process=dict(process),
        unsaved=(*(u for u in (head.unsaved if head else ()) if u.name not in engine.absent), *absent),
    )
    payload = {"changed": [], "deleted": sorted(deleted), "unsaved": [], "reason": reason,
               "restored": sorted(found)}  # fmt: skip
    before = engine.head
    engine.guarded(
        "record where the variables are", lambda: engine.commit(engine.draft("CheckpointCompleted", payload), delta)
    )
    if engine.head is not before and engine.head is not None:
        engine.adopt(engine.head, list(found))
    engine.attached_process = _live_digests(engine)


# ---- restore ---------------------------------------------------------------------------------------------------------


def restore_checkpoint(
    engine: Engine, checkpoint_id: CheckpointId, *, keep_live: bool = False, eager: bool = False
) -> Restored:
    """Bring the namespace, process state, history and counters to a checkpoint, which becomes the head.

    Of a large checkpoint the largest variables are loaded later, unless `eager`. With `keep_live` what this kernel
    defined before stays, and wins where it differs from the checkpoint: cells that ran before the extension was loaded
    have just said what these names are.
    """
    manifest = engine.workflow.manifest(checkpoint_id)
    mine = _differing(engine, manifest) if keep_live else {}
    run = engine.state.run
    engine.shell.restore_state(
        {
            "execution_count": manifest.shell.get("execution_count", 1),
            "inputs": dict(run.cells) if run else {},
        }
    )
    engine.shell.restore_sources(run.sources if run else {})
    processes.restore(engine, manifest.process, only=processes.EARLY)
    later = pending.choose(engine, manifest, eager=eager, live=mine)
    with pending.deferring(engine, manifest, later, alone=True) as source:
        at_once = [n for n in manifest.names if n not in later]
        source.beside = {}
        read = pending.reader(engine, manifest)
        staged = engine.capture.stage(manifest, read, at_once, into=source.beside)
        _note_unloadable(engine, manifest, staged)
        _apply(engine, staged, delete_others=not keep_live)
        engine.shell.namespace.update(mine)
    engine.capture.lazy.keep(source, staged.values)
    source.beside = None
    lost = processes.restore(engine, manifest.process, only={*engine.process.names(), GUI} - processes.EARLY)
    engine.replay.begin()
    engine.head = manifest
    engine.adopt(manifest, [n for n in staged.values if n in manifest.names and n not in mine])
    pending.prepare(engine)
    engine.attached_process = _live_digests(engine)
    engine.missing = (*manifest.unsaved, *versions.explained(engine, manifest, staged.unsaved), *lost)
    variables = missing.note_restored(engine, engine.missing)
    engine.process.carry([u for u in manifest.unsaved if u not in variables])
    warnings = versions.version_warnings(engine, manifest)
    if engine.writable:
        done = engine.draft(
            "CheckpointRestored",
            {
                "checkpoint_id": checkpoint_id,
                "whole": True,
                "names": len(staged.values.keys() | later),
                "missing": [{"name": u.name, "reason": u.reason} for u in engine.missing],
            },
        )
        engine.guarded("record the restore", lambda: engine.append(done))
    return Restored(
        checkpoint_id=checkpoint_id,
        names=tuple(sorted(staged.values.keys() | later - mine.keys())),
        pending=tuple(engine.capture.lazy.names),
        missing=engine.missing,
        warnings=warnings,
        kept=tuple(sorted(mine)),
    )


def _differing(engine: Engine, manifest: Manifest) -> dict[str, object]:
    """Return the live variables that are other than the checkpoint's."""
    read = engine.workflow.read_group
    live = {n: v for n, v in engine.capture.names().items() if n in manifest.names and not n.startswith("Out[")}
    return {n: v for n, v in live.items() if engine.capture.same(manifest, read, [n]) is not None}


def restore_names(engine: Engine, checkpoint_id: CheckpointId, names: Sequence[str]) -> Restored:
    """Bring single variables back as a checkpoint has them, with those that they share objects with."""
    manifest = engine.workflow.manifest(checkpoint_id)
    if absent := [n for n in names if n not in manifest.names]:
        raise _not_in(engine, manifest, absent)
    if engine.writable:
        settle(engine)
        engine.commit_outside(None)
    staged = engine.capture.stage(manifest, pending.reader(engine, manifest), names)
    _refuse_incomplete(engine, manifest, staged, names)
    _apply(engine, staged)
    found = {n: (manifest, manifest.names[n]) for n in staged.values if n in manifest.names}
    if engine.writable:
        _commit_kept(engine, found, (), {}, reason="restore")
        engine.append(
            engine.draft(
                "CheckpointRestored",
                {"checkpoint_id": checkpoint_id, "whole": False, "names": len(found), "missing": []},
            )
        )
    return Restored(checkpoint_id=checkpoint_id, names=tuple(sorted(found)), missing=())


def _not_in(engine: Engine, manifest: Manifest, absent: Sequence[str]) -> DurableError:
    """Return the error for names that a checkpoint does not hold: it could not save them, or never heard of them."""
    told = [u for u in manifest.unsaved if u.name in absent]
    if told:
        return missing.not_stored(engine, told[0], manifest.checkpoint_id)
    known = sorted(n for n in manifest.names if n.isidentifier())
    near = difflib.get_close_matches(absent[0], known, n=1)
    meant = f"Did you mean `{near[0]}`? " if near else ""
    more = ", …" if len(known) > _LISTED else ""
    return UnknownName(
        f"{manifest.checkpoint_id} has no variable {', '.join(f'`{n}`' for n in absent)}; nothing changed.",
        hint=f"{meant}It has: {', '.join(known[:_LISTED]) or 'no variables'}{more}.",
    )


def put_back(engine: Engine, names: Sequence[str]) -> list[str]:
    """Bind names to what the head says again, because something changed them that must not; return what to tell."""
    head = engine.head
    assert head is not None
    if not names:
        return []
    staged = engine.capture.stage(head, engine.workflow.read_group, names)
    _apply(engine, staged)
    engine.adopt(head, [n for n in staged.values if n in head.names])
    lost = {u.name for u in staged.unsaved}
    return [
        f"It changed `{n}`, which {'could not be put back' if n in lost else 'was put back'} as {head.checkpoint_id} "
        "has it."
        for n in names
    ]


def latest_restorable(engine: Engine, head: CheckpointId | None) -> CheckpointId | None:
    """Return the head, or if it is damaged the newest whole checkpoint before it; None if there is none."""
    wanted = head
    while wanted is not None:
        try:
            engine.workflow.manifest(wanted)
            return wanted
        except DurableError:
            earlier = [c.id for c in engine.workflow.checkpoints() if _before(c.id, wanted)]
            wanted = earlier[-1] if earlier else None
    return None


def _before(one: str, other: str) -> bool:
    return int(one[1:]) < int(other[1:])
