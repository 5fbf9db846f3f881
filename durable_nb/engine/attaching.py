"""A kernel attaches to its workflow: what became of the last one, which run goes on, what comes back.

Called once by the kernel's composition root. When `attach` returns, the journal says that this kernel is here, lost
attempts are recorded as lost, and the namespace is back if it was to come back by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from durable_nb.engine import missing, pending, processes
from durable_nb.engine.recomputing import run_allowed
from durable_nb.engine.restoring import Restored, latest_restorable, restore_checkpoint
from durable_nb.engine.reusing import take_up
from durable_nb.engine.words import clock_text
from durable_nb.errors import DurableError, RepositoryNotFound
from durable_nb.history import Attempt, KernelLife, fold
from durable_nb.model import CheckpointId, Json
from durable_nb.resources import uncollected

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["attach", "continue_run", "restored_lines"]

ORDERLY = {"shutdown": "was shut down", "exit": "ended", "unload": "was detached", "restart": "was restarted"}


def attach(engine: Engine, identity: Mapping[str, Json]) -> list[str]:
    """Attach this kernel and return the lines to show; `identity` is what the journal keeps of this process."""
    pending.connect(engine)
    with uncollected():
        engine.state = fold(engine.workflow.events())
    engine.gui_untouched = processes.gui_entry(engine)["digest"]
    engine.attached_process = {n: entry["digest"] for n, entry in processes.live(engine).items()}
    last = engine.state.last_kernel
    if not engine.writable:
        engine.run_id = engine.state.current_run or engine.new_run_id()
        return []
    previous = engine.state.current_run
    if last is not None and not last.ended and last.kernel_id != engine.kernel_id:
        # It was killed before it could say so itself, but its end had been asked for.
        last.ended = engine.workflow.take_ending(last.kernel_id)
    same_process = last is not None and last.kernel_id == engine.kernel_id
    fresh = previous is None or (
        last is not None and last.ended == "restart" and engine.settings.on_restart == "fresh" and not same_process
    )
    engine.run_id = previous if previous is not None and not fresh else engine.new_run_id()
    cause, lost = ("", None) if same_process else _close_last(engine, last, identity, previous)
    if fresh:
        reason = "first" if previous is None else "restart"
        engine.append(engine.draft("RunStarted", {"reason": reason, "previous_run": previous}))
    engine.append(engine.draft("KernelAttached", dict(identity)))
    engine.life_seq = engine.state.last_seq
    if same_process:
        _same_process(engine)
        return []
    return _bring_back(engine, fresh=fresh, last=last, cause=cause, lost=lost, previous=previous)


def _same_process(engine: Engine) -> None:
    """The extension was unloaded and loaded again: everything is live, and what ran before ran in this life."""
    run = engine.state.run
    mine = [r.seq for r in run.records if r.kernel_id == engine.kernel_id] if run else []
    engine.life_seq = min(mine, default=engine.life_seq)
    if run and run.head:
        engine.head = engine.workflow.manifest(run.head)
        engine.missing = engine.head.unsaved
        missing.note_restored(engine, engine.missing)


def _close_last(
    engine: Engine, last: KernelLife | None, identity: Mapping[str, Json], previous: str | None
) -> tuple[str, Attempt | None]:
    """Record the loss of the last kernel and of the attempts it did not end; return cause and attempt."""
    if last is None or previous is None:
        return "", None
    engine_run, engine.run_id = engine.run_id, last.run_id or previous
    cause = ""
    lost = None
    drafts = []
    seen = engine.workflow.take_loss(last.kernel_id)
    if not last.ended:
        cause = _cause(last, {**identity, **seen})
        drafts.append(
            engine.draft(
                "KernelLost", {"kernel_id": last.kernel_id, "cause": cause, "last_seen": last.last_seen, **seen}
            )
        )
    newest = max((a.seq for a in engine.state.attempts), default=0)
    for attempt in engine.state.open_attempts.values():
        # One that others followed had ended in memory; only its end could not be recorded.
        lost = attempt if attempt.seq == newest else lost
        drafts.append(
            engine.draft(
                "ActivityLost",
                {"name": attempt.name, "cause": cause or ORDERLY.get(last.ended, last.ended)},
                activity_id=attempt.activity_id,
                attempt=attempt.attempt,
                correlation={"parent_event": attempt.event_id},
            )
        )
    if drafts:
        engine.append(*drafts)
    engine.run_id = engine_run
    return cause, lost


def _cause(last: KernelLife, identity: Mapping[str, Json]) -> str:
    """Return what is known of why a kernel that recorded no end is gone.

    How often the system ran out of memory is in `identity`: as of now, or as of when the kernel's writer saw the end.
    """
    then = last.process
    if then.get("host") != identity.get("host"):
        return f"its machine {then.get('host')} is not this one"
    if then.get("boot_id") != identity.get("boot_id"):
        return "the machine was restarted"
    before, now = then.get("oom_kills"), identity.get("oom_kills")
    if isinstance(before, int) and isinstance(now, int) and now > before:
        return "out of memory: the system killed a process here since"
    return "killed or crashed: it recorded no end"


def _bring_back(
    engine: Engine, *, fresh: bool, last: KernelLife | None, cause: str, lost: Attempt | None, previous: str | None
) -> list[str]:
    if fresh:
        before = engine.state.runs.get(previous) if previous else None
        if before is None or before.head is None:
            return []
        when = clock_text(before.last_event)
        return [
            f"durable_nb: a fresh run, because you restarted the kernel. `%durable restore` continues the previous one "
            f"({before.head}, last saved {when})."
        ]
    run = engine.state.run
    assert run is not None
    if run.head is None:
        story = _story(last, cause, lost)
        return [f"durable_nb: {story}; nothing had been saved yet."] if story else []
    if engine.settings.restore != "auto":
        engine.append(engine.draft("RunRecovered", {"checkpoint_id": None, "restored": 0, "missing": 0}))
        offer = "`%durable restore` brings it back" if engine.settings.restore == "ask" else "restore is off"
        story = _story(last, cause, lost)
        return [f"durable_nb: {story or 'an earlier kernel ended'}; {offer} ({run.head})."]
    try:
        restored = continue_run(engine, run.run_id, keep_live=True)
    except DurableError as error:
        return [f"durable_nb: {_story(last, cause, lost)}; it could not be brought back: {error}"]
    # Only now: with TZ among the variables of DURABLE_NB_ENV the time zone is another one, and a line has one.
    return restored_lines(engine, restored, _story(last, cause, lost))


def continue_run(
    engine: Engine,
    run_id: str,
    checkpoint_id: CheckpointId | None = None,
    *,
    keep_live: bool = False,
    eager: bool = False,
) -> Restored:
    """Make the run the current one and bring its last whole checkpoint (or the named one) back."""
    run = engine.state.runs[run_id]
    wanted = checkpoint_id or latest_restorable(engine, run.head)
    if wanted is None:
        raise RepositoryNotFound(
            "This run has no checkpoint that can be restored; nothing changed.", hint="`%durable verify` tells why."
        )
    if engine.run_id != run_id:
        engine.run_id = run_id
    if engine.writable:
        engine.append(engine.draft("RunRecovered", {"checkpoint_id": wanted, "kernel_id": engine.kernel_id}))
    passed = tuple(run.passed) if wanted == run.head else ()
    restored = restore_checkpoint(engine, wanted, keep_live=keep_live, eager=eager)
    trouble = take_up(engine, passed, restored.kept) if passed else None
    if trouble:
        told = f"the cells skipped after {wanted} are not taken up, run them again: {trouble}"
        restored = replace(restored, warnings=(*restored.warnings, told))
    engine.life_seq = engine.state.last_seq + 1
    return run_allowed(engine, restored)


def restored_lines(engine: Engine, restored: Restored, story: str) -> list[str]:
    """Return the one line with counts and age, the damage if an older checkpoint had to do, and what is missing."""
    info = engine.state.checkpoints.get(restored.checkpoint_id)
    when = f", saved {clock_text(info.timestamp)}" if info else ""
    run = engine.state.run
    # Those that had finished by then: the checkpoint need not be the newest.
    known = [r for r in run.records if info is None or r.seq <= info.seq] if run else []
    cells = len({r.activity_id for r in known})
    names = sum(1 for n in restored.names if not n.startswith(("Out[", "sys.")))
    head = f"{story}; " if story else ""
    later = f", {words}," if (words := pending.text(engine)) else ""
    line = (
        f"durable_nb: {head}{_count(names, 'variable')}{later} of {_count(cells, 'finished cell')} "
        f"{'is' if names == 1 else 'are'} back ({restored.checkpoint_id}{when}). Run All goes on from there."
    )
    lines = [line]
    if restored.setups:
        lines.append(f"durable_nb: --setup cells ran again: {', '.join(restored.setups)}.")
    if restored.failed_setups:
        lines.append(f"durable_nb: --setup cells failed, run them yourself: {'; '.join(restored.failed_setups)}.")
    if restored.kept:
        lines.append(
            f"durable_nb: kept as this kernel has defined them, other than in {restored.checkpoint_id}: "
            f"{', '.join(f'`{n}`' for n in restored.kept)}."
        )
    if restored.warnings:
        lines.append("durable_nb: other versions than at the save: " + "; ".join(restored.warnings) + ".")
    lines += [f"durable_nb: {remade.sentence}" for remade in restored.remade]
    if any(remade.names for remade in restored.remade):
        lines.append(f"durable_nb: {missing.RAN_AGAIN}")
    if restored.missing:
        lines.append(missing.missing_text(engine, restored.missing))
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _story(last: KernelLife | None, cause: str, lost: Attempt | None) -> str:
    if last is None:
        return ""
    when = clock_text(last.last_seen)
    where = ""
    if lost is not None:
        label = f"«{lost.name}»" if lost.name else f"[{lost.execution_count}]"
        where = f" in cell {label}"
    if cause:
        return f"the last kernel was lost after {when}{where} ({cause})"
    return f"the last kernel {ORDERLY.get(last.ended, 'ended')} after {when}{where}"
