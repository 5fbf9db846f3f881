"""Verbs that only look: status, why, checkpoints, events, sql, list.

Each takes a `Context` and `Arguments` and returns a `Report`; nothing on disk or in the kernel changes.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from datetime import datetime

from durable_nb.engine.explaining import explain
from durable_nb.engine.missing import advice, lineage
from durable_nb.engine.pending import pending_rows
from durable_nb.engine.pending import text as pending_words
from durable_nb.engine.words import clock_text, duration_text, size_text
from durable_nb.errors import UNSIGNED, DurableError, Untrusted, UsageError
from durable_nb.history import Attempt, Run, State, fold
from durable_nb.model import Json
from durable_nb.store.lease import GONE
from durable_nb.verbs.arguments import Arguments
from durable_nb.verbs.context import Context
from durable_nb.verbs.report import Report, Table, counted

__all__ = ["cells", "checkpoints", "events", "label", "list_workflows", "sql", "status", "why"]


BETWEEN = "between cells"  # what changed something while no durable cell ran


def label(attempt: Attempt) -> str:
    """Return what a person calls the cell: its name, else its number."""
    return attempt.name or f"[{attempt.execution_count}]"


def _stamp(timestamp_us: int | None) -> str:
    if timestamp_us is None:
        return ""
    return datetime.fromtimestamp(timestamp_us / 1e6).astimezone().isoformat(timespec="seconds")


def _latest(state: State, run: Run | None) -> list[Attempt]:
    """Return the last attempt of every activity of the run, in the order in which the activities first ran."""
    latest: dict[str, Attempt] = {}
    for attempt in state.attempts:
        # A try that only made again what could not be stored says nothing of how its cell stands.
        if run is not None and attempt.run_id == run.run_id and not attempt.recompute:
            latest[attempt.activity_id] = attempt
    return list(latest.values())


def _status_of(context: Context, attempt: Attempt) -> str:
    """Return how an attempt stands; one that ran to its end here and could not be saved has no end in the history."""
    newest = max(a.started for a in context.state.attempts)
    ended = attempt.started < newest or bool(context.engine is not None and context.engine.trouble)
    return "not saved" if attempt.status == "running" and ended else attempt.status


def _attempt_json(context: Context, attempt: Attempt) -> dict[str, Json]:
    return {
        "activity_id": attempt.activity_id,
        "name": attempt.name,
        "cell": label(attempt),
        "status": _status_of(context, attempt),
        "attempts": context.state.tries.get((attempt.run_id, attempt.activity_id), 1),
        "skipped": attempt.reused,
        "started": _stamp(attempt.started),
        "duration_s": attempt.duration_s,
        "checkpoint": attempt.checkpoint_id,
        "stored_bytes": attempt.stored_bytes,
        "error": attempt.error,
    }


def status(context: Context, args: Arguments) -> Report:
    """Tell the run, its cells with state, attempts, time and size, what is unsaved and why the last kernel ended."""
    state = context.state
    run = state.run
    cells = [_attempt_json(context, a) for a in _latest(state, run)]
    in_flight = {ticket.parent_event for ticket in context.workflow.saving}
    for cell, attempt in zip(cells, _latest(state, run), strict=True):
        if attempt.event_id in in_flight:
            cell["status"] = "saving"
    rows = [
        (c["cell"], c["status"], c["attempts"], c["skipped"] or "", "" if c["duration_s"] is None else
         duration_text(c["duration_s"]), c["checkpoint"] or "", size_text(c["stored_bytes"]), c["error"])
        for c in cells
    ]  # fmt: skip
    lines = [f"workflow {context.workflow.workflow_id} · {_run_text(context, run)}"]
    lines += _kernel_lines(state)
    if context.engine is not None and context.engine.trouble:
        # Where the folder is gone the sentence has said what helps: to try again does not.
        again = "" if GONE in context.engine.trouble else " What is in memory is right; the next cell tries again."
        lines.append(f"NOT SAVED: {context.engine.trouble}.{again}")
    if not context.workflow.writable and context.engine is not None:
        lines.append("read-only: cells run here without being durable; loading the extension told why")
    lines += _saving_lines(context)
    later = pending_rows(context.engine) if context.engine is not None else []
    if context.engine is not None and later:
        lines.append(f"{pending_words(context.engine)}: `{context.prefix} restore --eager` loads all of it now")
    unsaved = _unsaved(context)
    columns = ("cell", "state", "attempts", "skipped", "took", "checkpoint", "stored", "error")
    tables = [Table(columns=columns, rows=rows)]
    if unsaved:
        tables.append(_unsaved_table(state, unsaved))
    if later:
        shown = [(name, kind, size_text(size)) for name, kind, size in later]
        tables.append(Table(columns=("not loaded yet", "type", "size"), rows=shown))
    problems = [p.detail for p in context.workflow.problems]
    after = [*(f"journal: {p}" for p in problems), *(f"events.duckdb: {n}" for n in context.projection.notes)]
    data = {
        "workflow_id": context.workflow.workflow_id,
        "run_id": run.run_id if run else None,
        "head": run.head if run else None,
        "writable": context.workflow.writable,
        "cells": cells,
        "unsaved": unsaved,
        "pending": [{"name": n, "type": kind, "size_bytes": size} for n, kind, size in later],
        "kernels": [
            {"kernel_id": k.kernel_id, "pid": k.pid, "host": k.host, "attached": _stamp(k.attached),
             "last_seen": _stamp(k.last_seen), "ended": k.ended, "cause": k.cause}
            for k in state.kernels.values()
        ],
        "problems": problems,
        "trouble": context.engine.trouble if context.engine else "",
        "durability": context.settings.durability if context.engine else None,
        "saving": [ticket.checkpoint_id for ticket in context.workflow.saving],
        "writer_pid": context.workflow.writer_pid,
        "no_writer": context.workflow.no_writer,
    }  # fmt: skip
    return Report(lines=lines, tables=tables if rows or unsaved or later else (), after=after, data=data)


def _run_text(context: Context, run: Run | None) -> str:
    if run is None:
        return "no run yet"
    finished = len({r.activity_id for r in run.records})
    head = f"last checkpoint {run.head}" if run.head else "nothing saved yet"
    if run.head in context.state.checkpoints:
        head += f" at {clock_text(context.state.checkpoints[run.head].timestamp)}"
    return f"run {run.run_id} since {clock_text(run.started)} · {finished} finished · {head}"


def _saving_lines(context: Context) -> list[str]:
    """Tell what was handed over and is not on disk yet, and why nothing is handed over, where that was asked for."""
    workflow = context.workflow
    lines = []
    if saving := workflow.saving:
        ids = ", ".join(ticket.checkpoint_id for ticket in saving)
        lines.append(
            f"saving: {ids} ({size_text(workflow.bytes_in_flight)}); what was handed over survives the kernel, not the "
            "machine"
        )
    if workflow.no_writer:
        lines.append(f"each cell is saved before its reply, because {workflow.no_writer}")
    return lines


def _kernel_lines(state: State) -> list[str]:
    lives = list(state.kernels.values())
    if len(lives) < 2:
        return []
    before = lives[-2]
    how = f"lost ({before.cause})" if before.ended == "lost" else before.ended or "no end recorded"
    return [f"the kernel before this one (pid {before.pid}, last seen {clock_text(before.last_seen)}): {how}"]


def _unsaved(context: Context) -> list[dict[str, str]]:
    entries = context.engine.missing if context.engine is not None else ()
    if context.engine is None and context.state.run and context.state.run.head:
        try:
            entries = context.workflow.manifest(context.state.run.head).unsaved
        except DurableError:
            entries = ()  # `verify` says what is wrong with it; status tells the rest
    absent = context.engine.absent if context.engine is not None else {}
    head = context.state.run.head if context.state.run else None
    ancestors = lineage(context.workflow, head) if entries else frozenset()
    found = []
    for u in entries:
        cell, line = advice(context.state, u, ancestors)
        found.append({"name": u.name, "path": u.path, "type": u.type, "reason": u.reason, "made_by": u.made_by,
                      "cell": cell, "type_this": line if u.name in absent else ""})  # fmt: skip
    return found


def _unsaved_table(state: State, unsaved: Sequence[dict[str, str]]) -> Table:
    """Return what is not saved as a table; the lines to type are a column of it where something is not back."""
    columns = ("not saved", "path", "type", "reason", "made by", "makes it again")
    rows = [
        (u["name"], u["path"], u["type"], u["reason"], u["cell"] or _maker_words(state, u["made_by"]), u["type_this"])
        for u in unsaved
    ]
    shown = len(columns) if any(u["type_this"] for u in unsaved) else len(columns) - 1
    return Table(columns=columns[:shown], rows=[row[:shown] for row in rows])


def _maker_words(state: State, made_by: str) -> str:
    """Return what a person calls what made a value: the history knows cells by ids, and all else by a word."""
    if made_by == "outside":
        return BETWEEN
    return next((label(a) for a in reversed(state.attempts) if a.activity_id == made_by), made_by)


def cells(context: Context) -> list[str]:
    """Return what the cells of this run are called."""
    return [label(attempt) for attempt in _latest(context.state, context.state.run)]


def why(context: Context, args: Arguments) -> Report:
    """Tell why a cell would be skipped or run: which code or input changed, made by which cell."""
    attempts = _latest(context.state, context.state.run)
    known = [label(a) for a in attempts]
    there_are = f"Cells: {', '.join(known)}." if known else "No cell has run in it yet."
    if not args.words:
        raise UsageError(f"`why` needs a cell: its name, or the number that stood beside it. {there_are}")
    word = args.words[0].strip("[]")
    attempt = _attempt_of(context.state, attempts, word)
    if attempt is None:
        near = difflib.get_close_matches(word, known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"No cell {args.words[0]!r} in this run.{meant} {there_are}")
    told = explain(context.engine, context.state, attempt)
    lines = [f"cell {label(attempt)}: {told.headline}", *(f"  · {reason}" for reason in told.reasons)]
    data = {"cell": label(attempt), "activity_id": attempt.activity_id, "would": told.would,
            "reasons": list(told.reasons), "last_decision": list(attempt.decision)}  # fmt: skip
    return Report(lines=lines, data=data)


def _attempt_of(state: State, latest: Sequence[Attempt], word: str) -> Attempt | None:
    """Return the attempt that a person means: of the cell of that name as it was met last, run or skipped.

    An edit may have been undone since the cell ran last: then an earlier attempt stands for it again. A number is what
    stood beside the cell at any time; the last cell that had it is meant.
    """
    if not latest:
        return None
    run_id, number = latest[0].run_id, int(word) if word.isdecimal() else 0
    tries = [a for a in state.attempts if a.run_id == run_id and not a.recompute]
    for called in (
        [a for a in tries if word in (a.name, a.activity_id, a.cell_id)],
        [a for a in tries if number and number in (a.execution_count, a.met_as)],
    ):
        if called:
            return max(called, key=lambda a: max(a.seq, a.met))
    return None


def checkpoints(context: Context, args: Arguments) -> Report:
    """List the checkpoints, newest last, with what made them."""
    state = context.state
    head = state.run.head if state.run else None
    rows: list[Sequence[object]] = []
    data: list[Json] = []
    labels = {a.checkpoint_id: label(a) for a in state.attempts if a.checkpoint_id}
    for info in state.checkpoints.values():
        if info.checkpoint_id in state.deleted:
            continue
        made = labels.get(info.checkpoint_id) or {"outside": BETWEEN}.get(info.reason, info.reason)
        mark = "head" if info.checkpoint_id == head else ""
        mark = "damaged" if info.checkpoint_id in state.corrupted else mark
        rows.append((info.checkpoint_id, clock_text(info.timestamp), made, info.changed, info.unsaved,
                     size_text(info.stored_bytes), info.run_id, mark))  # fmt: skip
        data.append({"checkpoint": info.checkpoint_id, "time": _stamp(info.timestamp), "made_by": made,
                     "changed": info.changed, "unsaved": info.unsaved, "stored_bytes": info.stored_bytes,
                     "run_id": info.run_id, "head": info.checkpoint_id == head,
                     "damaged": info.checkpoint_id in state.corrupted})  # fmt: skip
    count = counted(len(rows), "checkpoint")
    lines = [f"{count} of {context.workflow.workflow_id}; `{context.prefix} restore ID` restores one"]
    columns = ("checkpoint", "at", "made by", "changed", "unsaved", "stored", "run", "")
    return Report(lines=lines, tables=[Table(columns=columns, rows=rows)], data=data)


def events(context: Context, args: Arguments) -> Report:
    """List events, newest last; by type, --activity, --run, --last N (default 50)."""
    wanted = {w.lower() for w in args.words}
    last = args.number("--last", 50)
    rows: list[Sequence[object]] = []
    data: list[Json] = []
    seen: set[str] = set()
    for event in context.workflow.events():
        seen.add(event.event_type)
        if wanted and event.event_type.lower() not in wanted:
            continue
        if args.has("--activity") and args.flags["--activity"] not in (event.activity_id, event.payload.get("name")):
            continue
        if args.has("--run") and args.flags["--run"] != event.run_id:
            continue
        summary = _summary(event.payload)
        rows.append((event.seq, clock_text(event.timestamp), event.event_type, event.activity_id or "", summary))
        data.append({"seq": event.seq, "time": _stamp(event.timestamp), "event_id": event.event_id,
                     "event_type": event.event_type, "run_id": event.run_id, "activity_id": event.activity_id,
                     "attempt": event.attempt, "kernel_id": event.kernel_id,
                     "payload": {k: v for k, v in event.payload.items() if k not in _BULKY}})  # fmt: skip
    rows, data = rows[-last:] if last else [], data[-last:] if last else []
    lines = [counted(len(rows), "event")]
    absent = [word for word in args.words if word.lower() not in {kind.lower() for kind in seen}]
    if absent:
        lines.append(
            f"There is none of type {' or '.join(absent)}; there are {', '.join(sorted(seen)) or 'none at all'}."
        )
    return Report(
        lines=lines,
        tables=[Table(columns=("seq", "at", "event", "activity", "what"), rows=rows)],
        data=data,
    )


_BULKY = frozenset({"checkpoint", "attachments", "cells", "sources", "inputs"})
_TELLING = ("name", "checkpoint_id", "reason", "cause", "error", "pid")


def _summary(payload: Json) -> str:
    parts = [f"{key}={payload[key]}" for key in _TELLING if payload.get(key)]
    if "checkpoint" in payload:
        parts.append(str(payload["checkpoint"]["id"]))
    return " ".join(parts)


def sql(context: Context, args: Arguments) -> Report:
    """Query the history with SQL: table `events` and the views runs, activities, attempts, checkpoints, variables, …"""
    statement = " ".join(args.words).strip()
    if len(args.words) == 1 or not statement:
        statement = statement.strip("\"'") if statement[:1] in "\"'" and statement[-1:] == statement[:1] else statement
    if not statement:
        raise UsageError('`sql` needs a statement, such as sql "SELECT event_type, count(*) FROM events GROUP BY 1".')
    table = context.projection.query(statement)
    frame = table.to_dataframe()
    return Report(lines=[repr(table)], data=json.loads(table.to_json()), value=table if frame is None else frame)


def list_workflows(context: Context, args: Arguments) -> Report:
    """List the workflows of this folder."""
    rows: list[Sequence[object]] = []
    data: list[Json] = []
    for workflow_id in context.repository.workflow_ids():
        mine = context.opened is not None and workflow_id == context.opened.workflow_id
        try:
            summary = _workflow_summary(context, workflow_id, mine)
        except DurableError as error:
            reason = UNSIGNED if isinstance(error, Untrusted) else str(error)
            rows.append((workflow_id, "unreadable", "", "", reason))
            data.append({"workflow_id": workflow_id, "error": str(error)})
            continue
        head, finished, saved = summary
        rows.append((workflow_id, head or "", finished, saved, "this one" if mine else ""))
        data.append({"workflow_id": workflow_id, "head": head, "finished": finished, "last_event": saved, "this": mine})
    return Report(
        lines=[f"{counted(len(rows), 'workflow')} in {context.folder}"],
        tables=[Table(columns=("workflow", "head", "finished", "last event", ""), rows=rows)],
        data=data,
    )


def _workflow_summary(context: Context, workflow_id: str, mine: bool) -> tuple[str | None, int, str]:
    if mine:
        state = context.state
    else:
        state = fold(context.repository.workflow(workflow_id, kernel_id="reader", owner=None).events())
    run = state.run
    if run is None:
        return None, 0, ""
    return run.head, len({r.activity_id for r in run.records}), _stamp(run.last_event)
