"""Verbs that act: restore, new, verify, gc, trust, doctor.

In a kernel they act at once. From the command line, `restore` and `new` move the run's head for the next kernel; while
a live kernel holds the workflow they are refused with its pid, because it alone may write.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from durable_nb.engine.attaching import continue_run, restored_lines
from durable_nb.engine.missing import missing_text
from durable_nb.engine.pending import load_all
from durable_nb.engine.restoring import Restored, restore_names
from durable_nb.engine.starting import start_run
from durable_nb.engine.words import size_text
from durable_nb.errors import RepositoryNotFound, UnknownName, UsageError
from durable_nb.model import CheckpointId, EventDraft
from durable_nb.verbs.arguments import Arguments
from durable_nb.verbs.context import Context
from durable_nb.verbs.opening import history_folder
from durable_nb.verbs.report import Report, Table, counted
from durable_nb.verbs.trusting import accepted

__all__ = ["demo", "doctor", "gc", "new", "restorable", "restore", "trust", "verify"]

MOST_OFFERED = 50  # checkpoints that Tab shows

_CHECKPOINT = re.compile(r"c\d+\Z")


def restore(context: Context, args: Arguments) -> Report:
    """Bring back the last checkpoint, another one, or single variables of it."""
    words = list(args.words)
    checkpoint_id = _known(context, words.pop(0)) if words and _CHECKPOINT.match(words[0]) else None
    if args.has("--trust"):
        context.repository.trust = True
    if context.engine is None:
        return _restore_for_next_kernel(context, checkpoint_id, words)
    engine = context.engine
    if words:
        wanted = checkpoint_id or _head(context)
        restored = restore_names(engine, wanted, words)
        others = [name for name in restored.names if name not in words]
        report = _report(context, restored, [_names_line(words, others, wanted)])
        report.data["with"] = others
        return report
    if checkpoint_id is None and _nothing_to_restore(context):
        later = len(engine.capture.lazy.names)
        if args.has("--eager") and later:
            load_all(engine)
            return Report(lines=[f"{counted(later, 'variable')} more loaded; everything is back."],
                          data={"restored": True, "loaded": later})  # fmt: skip
        if engine.head is None:
            return Report(
                lines=["Nothing has been saved yet, so there is nothing to restore; nothing was changed."],
                data={"restored": False, "checkpoint": None},
            )
        head = engine.head.checkpoint_id
        table = missing_text(engine, [u for u in engine.missing if u.name in engine.absent])
        all_of_it = "Everything that could be saved" if table else "Everything"
        return Report(
            lines=[f"{all_of_it} is back already ({head}); nothing was changed.", *filter(None, [table])],
            data={"restored": False, "checkpoint": head},
        )
    run_id = _run_of(context, checkpoint_id)
    restored = continue_run(engine, run_id, checkpoint_id, eager=args.has("--eager"))
    return _report(context, restored, restored_lines(engine, restored, ""))


def _names_line(words: list[str], others: list[str], wanted: CheckpointId) -> str:
    also = (
        f"; so {'is' if len(others) == 1 else 'are'} {', '.join(others)}, which belong{'s' if len(others) == 1 else ''}"
    )
    return f"{', '.join(words)}: back as {wanted} has {_them(words)}{f'{also} to {_them(words)}' if others else ''}."


def _them(words: list[str]) -> str:
    return "it" if len(words) == 1 else "them"


def _report(context: Context, restored: Restored, lines: list[str]) -> Report:
    data = {
        "restored": True,
        "checkpoint": restored.checkpoint_id,
        "names": list(restored.names),
        "pending": list(restored.pending),
        "missing": [{"name": u.name, "path": u.path, "type": u.type, "reason": u.reason} for u in restored.missing],
        "recomputed": [name for remade in restored.remade for name in remade.names],
        "warnings": list(restored.warnings),
    }
    return Report(lines=lines, data=data)


def _head(context: Context) -> CheckpointId:
    run = context.state.run
    if run is None or run.head is None:
        raise RepositoryNotFound("Nothing has been saved in this run yet; nothing changed.")
    return run.head


def _known(context: Context, word: str) -> CheckpointId:
    info = context.state.checkpoints.get(word)
    if info is None or word in context.state.deleted:
        last = next(reversed(context.state.checkpoints), "none yet")
        raise UnknownName(
            f"There is no checkpoint {word}; nothing changed.",
            hint=f"The newest is {last}; `{context.prefix} checkpoints` lists them.",
        )
    return info.checkpoint_id


def _nothing_to_restore(context: Context) -> bool:
    """Is the live namespace the current run's head already, with no earlier run that a restart left behind?"""
    engine = context.engine
    assert engine is not None
    if engine.head is not None:
        return True
    return _previous_run(context) is None


def _previous_run(context: Context) -> str | None:
    """Return the newest run that has something saved."""
    for run in reversed(context.state.runs.values()):
        if run.head is not None:
            return run.run_id
    return None


def _run_of(context: Context, checkpoint_id: CheckpointId | None) -> str:
    if checkpoint_id is not None:
        return context.state.checkpoints[checkpoint_id].run_id
    run_id = _previous_run(context)
    assert run_id is not None
    return run_id


def _restore_for_next_kernel(context: Context, checkpoint_id: CheckpointId | None, words: list[str]) -> Report:
    if words:
        raise UsageError(
            f"Single variables go into a live kernel: type `%durable restore {' '.join(words)}` in the notebook."
        )
    wanted = checkpoint_id or _newest(context)
    context.workflow.manifest(wanted)
    run_id = context.state.checkpoints[wanted].run_id
    workflow = context.take_lease()
    workflow.append(
        [
            EventDraft(event_type="RunRecovered", run_id=run_id, payload={"checkpoint_id": wanted}),
            EventDraft(
                event_type="CheckpointRestored",
                run_id=run_id,
                payload={"checkpoint_id": wanted, "whole": True, "names": 0, "missing": [], "pending": True},
            ),
        ]
    )
    line = f"The next kernel of {workflow.workflow_id} begins at {wanted}."
    return Report(lines=[line], data={"restored": False, "next_kernel": wanted, "run_id": run_id})


def _newest(context: Context) -> CheckpointId:
    for run in reversed(context.state.runs.values()):
        if run.head is not None:
            return run.head
    raise RepositoryNotFound("Nothing has been saved here yet; nothing changed.")


def restorable(context: Context) -> list[str]:
    """Return the checkpoints that can be restored, newest first, then the names that the head holds."""
    state = context.state
    found = [one for one in reversed(state.checkpoints) if one not in state.deleted]
    head = context.engine.head if context.engine is not None else None
    return [*found[:MOST_OFFERED], *sorted(head.names if head is not None else ())]


def new(context: Context, args: Arguments) -> Report:
    """Begin a fresh run: what is finished is no longer skipped; the history of earlier runs stays."""
    if context.engine is not None:
        run_id = start_run(context.engine, reason="new")
    else:
        workflow = context.take_lease()
        run_id = context.new_run_id()
        previous = context.state.current_run
        workflow.append(
            [EventDraft(event_type="RunStarted", run_id=run_id, payload={"reason": "new", "previous_run": previous})]
        )
    line = f"A fresh run has begun ({run_id}). Variables that live in a kernel stay; every cell runs again."
    return Report(lines=[line], data={"run_id": run_id})


def verify(context: Context, args: Arguments) -> Report:
    """Check every event, manifest and chunk; `--repair` sets damaged objects aside so that the rest works."""
    found = context.repository.verify(repair=args.has("--repair"))
    engine = context.engine
    lost = {checkpoint for problem in found.problems if problem.repaired for checkpoint in problem.checkpoints}
    if engine is not None and engine.writable and engine.head is not None and engine.head.checkpoint_id in lost:
        engine.recapture()
    verdict = counted(len(found.problems), "problem") if found.problems else "all whole"
    lines = [
        f"{counted(found.workflows, 'workflow')}, {counted(found.events, 'event')}, "
        f"{counted(found.checkpoints, 'checkpoint')}, {counted(found.chunks, 'chunk')}, "
        f"{size_text(found.size_bytes)} of packs read: {verdict}"
    ]
    rows = [
        (p.object, p.kind, p.detail, ", ".join(p.checkpoints), "set aside" if p.repaired else "")
        for p in found.problems
    ]
    after = []
    foreign = [p for p in found.problems if p.kind == "unsigned"]
    if len(found.problems) > len(foreign) and not args.has("--repair"):
        after = [f"Everything else can be restored. `{context.prefix} verify --repair` sets the damage aside."]
    if foreign:
        place = shlex.quote(str(context.folder))
        after.append(f"If you trust who wrote what is not signed with your key: `durable-nb trust {place}` accepts it.")
    data = {
        "ok": not found.problems, "workflows": found.workflows, "events": found.events,
        "checkpoints": found.checkpoints, "chunks": found.chunks, "size_bytes": found.size_bytes,
        "problems": [{"object": p.object, "kind": p.kind, "detail": p.detail, "checkpoints": list(p.checkpoints),
                      "repaired": p.repaired} for p in found.problems],
    }  # fmt: skip
    tables = [Table(columns=("object", "kind", "what", "checkpoints", ""), rows=rows)] if rows else []
    unrepaired = [p for p in found.problems if not p.repaired and p.kind not in ("orphan", "torn_tail")]
    return Report(lines=lines, tables=tables, after=after, data=data, ok=not unrepaired)


def gc(context: Context, args: Arguments) -> Report:
    """Remove what no kept checkpoint reaches; `--dry-run` only counts it."""
    found = context.repository.gc(dry_run=args.has("--dry-run"))
    verb = "would be removed" if found.dry_run else "removed"
    counts = (counted(found.chunks, "chunk"), counted(found.packs, "pack"), counted(found.manifests, "manifest"))
    line = f"{', '.join(counts)} {verb}: {size_text(found.freed_bytes)} freed, {size_text(found.kept_bytes)} kept."
    data = {"chunks": found.chunks, "packs": found.packs, "manifests": found.manifests,
            "freed_bytes": found.freed_bytes, "kept_bytes": found.kept_bytes, "dry_run": found.dry_run}  # fmt: skip
    return Report(lines=[line], data=data)


def trust(context: Context, args: Arguments) -> Report:
    """Trust the history in a folder as it is now: it was made with another key, and restoring runs code from it."""
    folder = history_folder(Path(args.words[0]).expanduser()) if args.words else context.folder
    return accepted(folder, context.trust(folder))


def doctor(context: Context, args: Arguments) -> Report:
    """Check this machine and store: versions, key, folder, syncs, lease, and what is known to be wrong."""
    checks = context.checks()
    rows = [(name, "ok" if c["ok"] else "PROBLEM", c["detail"]) for name, c in checks.items()]
    ok = all(c["ok"] for c in checks.values())
    return Report(
        lines=["All well." if ok else "Something needs attention:"],
        tables=[Table(columns=("check", "", "detail"), rows=rows)],
        data={"ok": ok, "checks": dict(checks)},
        ok=ok,
    )


def demo(context: Context, args: Arguments) -> Report:
    """Show a crash survived, in a temporary folder: run, kill half-way, continue, compare, query."""
    return context.demo(args.words)
