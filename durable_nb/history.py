"""What the journal says: events folded into a State.

Pure: no clock, no disk, no live objects. The engine calls `fold` at load and `State.apply` for every event that became
durable; `reuse` decides by the records that are kept here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from durable_nb.model import CheckpointId, Event, Inputs, Json

__all__ = [
    "Attempt",
    "Checkpoint",
    "Inputs",
    "KernelLife",
    "Record",
    "Run",
    "State",
    "fold",
]

COMMITS = frozenset({"ActivityCompleted", "CheckpointCompleted"})
ENDS = {
    "ActivityCompleted": "completed",
    "ActivityFailed": "failed",
    "ActivityCanceled": "canceled",
    "ActivityLost": "lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A completed attempt: what a later life of the same run may reuse."""

    event_id: str
    seq: int
    run_id: str
    kernel_id: str
    activity_id: str
    name: str
    cell_id: str | None
    code_hash: str
    checkpoint_id: CheckpointId
    inputs: Inputs
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    process_changed: tuple[str, ...]
    unsaved: tuple[tuple[str, str], ...]
    setup: bool
    timestamp: int
    duration_s: float
    execution_count: int
    outputs: bool
    # Files that it opened for writing, removed or renamed and that are there; None: recorded before that was noted.
    files_written: tuple[str, ...] | None = None
    # Marks of the files that it changed, as it left them, and of folders in which it changed the names.
    files_left: tuple[Json, ...] = ()


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One try of an activity, open until an event ends it."""

    activity_id: str
    name: str
    attempt: int
    run_id: str
    kernel_id: str
    started: int
    event_id: str
    seq: int
    source: str
    cell_id: str | None
    code_hash: str
    execution_count: int
    options: Mapping[str, Json] = field(default_factory=dict)
    decision: tuple[str, ...] = ()
    status: str = "running"
    ended: int | None = None
    error: str = ""
    duration_s: float | None = None
    checkpoint_id: str | None = None
    stored_bytes: int = 0
    reused: int = 0
    met: int = 0  # the event (seq) of the last skip for which it stood, and the number of the cell then
    met_as: int = 0
    unsaved: tuple[Json, ...] = ()
    # Ran only to make again what a checkpoint could not hold, with its inputs as of then: the attempt (its end's event)
    # that it repeats. Such a try never stands for the cell.
    recompute: str = ""


@dataclass(slots=True, kw_only=True)
class KernelLife:
    """One kernel process attached to the workflow."""

    kernel_id: str
    run_id: str
    attached: int
    pid: int
    host: str
    process: Mapping[str, Json]
    last_seen: int
    ended: str = ""  # restart | shutdown | exit | unload | lost; empty: no end recorded
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A commit of the journal: when, in which run, and by what."""

    checkpoint_id: CheckpointId
    run_id: str
    timestamp: int
    activity_id: str
    name: str
    reason: str
    changed: int
    unsaved: int
    stored_bytes: int
    seq: int


@dataclass(slots=True, kw_only=True)
class Run:
    """One pass through the notebook, across as many kernels as it takes."""

    run_id: str
    started: int
    reason: str
    head: CheckpointId | None = None
    last_event: int = 0
    records: list[Record] = field(default_factory=list)
    by_code: dict[str, list[Record]] = field(default_factory=dict)
    finished: set[tuple[str, str]] = field(default_factory=set)  # ("id", cell id) and ("name", name) of the records
    process_set: set[str] = field(default_factory=set)
    cells: dict[str, Json] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    # Once a cell has run in the middle of the notebook the head is there, too: what is skipped then is further on.
    passing: bool = False
    passed: list[str] = field(default_factory=list)
    # Path → ends (seq) of attempts and how they left that file, in order; and the paths that finished ones have read.
    files: dict[str, list[tuple[int, Json]]] = field(default_factory=dict)
    files_read: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class State:
    """A fold of the journal: everything `status`, the panel and the decisions look at."""

    workflow_id: str = ""
    runs: dict[str, Run] = field(default_factory=dict)
    kernels: dict[str, KernelLife] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    open_attempts: dict[str, Attempt] = field(default_factory=dict)
    tries: dict[tuple[str, str], int] = field(default_factory=dict)
    current_run: str | None = None
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    completed: dict[str, Attempt] = field(default_factory=dict)  # by the checkpoint that each made
    last_seq: int = 0
    events: int = 0
    degraded: str = ""
    corrupted: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)

    @property
    def run(self) -> Run | None:
        return self.runs.get(self.current_run) if self.current_run else None

    @property
    def last_kernel(self) -> KernelLife | None:
        return next(reversed(self.kernels.values()), None)

    def apply(self, event: Event) -> None:
        """Take one event in; unknown types change nothing, so that newer journals stay readable."""
        self.events += 1
        self.last_seq = event.seq
        self.workflow_id = event.workflow_id
        if life := self.kernels.get(event.kernel_id):
            life.last_seen = max(life.last_seen, event.timestamp)
        if run := self.runs.get(event.run_id):
            run.last_event = max(run.last_event, event.timestamp)
        handler = _HANDLERS.get(event.event_type)
        if handler is not None:
            handler(self, event)
        if event.event_type in COMMITS:
            self._commit(event)

    def begin_run(self, event: Event, reason: str) -> Run:
        """Take note of a run whose first event this is."""
        self.current_run = event.run_id
        run = Run(run_id=event.run_id, started=event.timestamp, reason=reason, last_event=event.timestamp)
        self.runs[event.run_id] = run
        return run

    def run_of(self, event: Event) -> Run:
        """Return the run of an event; the line that told of its beginning can be damaged, and the run is there."""
        return self.runs.get(event.run_id) or self.begin_run(event, "")

    def _commit(self, event: Event) -> None:
        run = self.run_of(event)
        run.head = event.payload["checkpoint"]["id"]
        run.passing = run.passing or event.payload.get("reason") == "replay"
        run.passed.clear()
        self.checkpoints[run.head] = Checkpoint(
            checkpoint_id=run.head,
            run_id=event.run_id,
            timestamp=event.timestamp,
            activity_id=event.activity_id or "",
            name=event.payload.get("name", ""),
            reason=event.payload.get("reason", "activity"),
            changed=len(event.payload.get("changed", ())),
            unsaved=len(event.payload.get("unsaved", ())),
            stored_bytes=event.payload.get("stored_bytes", 0),
            seq=event.seq,
        )
        run.process_set.update(event.payload.get("process_changed", ()))
        run.cells.update(event.payload.get("cells", {}))
        run.sources.update(event.payload.get("sources", {}))


def fold(events: Iterable[Event]) -> State:
    """Return the State that these events make, in order."""
    state = State()
    for event in events:
        state.apply(event)
    return state


def _run_started(state: State, event: Event) -> None:
    state.begin_run(event, event.payload.get("reason", ""))


def _kernel_attached(state: State, event: Event) -> None:
    payload = event.payload
    state.kernels.pop(event.kernel_id, None)
    state.kernels[event.kernel_id] = KernelLife(
        kernel_id=event.kernel_id,
        run_id=event.run_id,
        attached=event.timestamp,
        pid=payload.get("pid", 0),
        host=payload.get("host", ""),
        process=payload,
        last_seen=event.timestamp,
    )
    state.current_run = event.run_id
    if run := state.runs.get(event.run_id):
        run.passing = False


def _kernel_detached(state: State, event: Event) -> None:
    if life := state.kernels.get(event.kernel_id):
        life.ended = event.payload.get("reason", "exit")


def _kernel_lost(state: State, event: Event) -> None:
    if life := state.kernels.get(event.payload.get("kernel_id", "")):
        life.ended = "lost"
        life.cause = event.payload.get("cause", "")


def _run_recovered(state: State, event: Event) -> None:
    state.current_run = event.run_id
    if life := state.kernels.get(event.kernel_id):
        life.run_id = event.run_id


def _activity_started(state: State, event: Event) -> None:
    payload = event.payload
    attempt = Attempt(
        activity_id=event.activity_id or "",
        name=payload.get("name", ""),
        attempt=event.attempt or 1,
        run_id=event.run_id,
        kernel_id=event.kernel_id,
        started=event.timestamp,
        event_id=event.event_id,
        seq=event.seq,
        source=payload.get("source", ""),
        cell_id=payload.get("cell_id"),
        code_hash=payload.get("code_hash", ""),
        execution_count=payload.get("execution_count", 0),
        options=payload.get("options", {}),
        decision=tuple(payload.get("decision", ())),
        recompute=payload.get("recompute", {}).get("of_event", ""),
    )
    state.attempts.append(attempt)
    state.tries[event.run_id, attempt.activity_id] = state.tries.get((event.run_id, attempt.activity_id), 0) + 1
    state.open_attempts[event.event_id] = attempt


def _activity_ended(state: State, event: Event) -> None:
    started = event.correlation.get("parent_event") or event.payload.get("started_event", "")
    attempt = state.open_attempts.pop(started, None)
    if attempt is None:
        return
    attempt.status = ENDS[event.event_type]
    attempt.ended = event.timestamp
    attempt.error = event.payload.get("error", "") or event.payload.get("cause", "")
    took = event.metadata.get("execution_time_ms")
    attempt.duration_s = took / 1000 if took is not None else (event.timestamp - attempt.started) / 1e6
    if (run := state.runs.get(event.run_id)) is not None:
        for mark in event.payload.get("files_left", ()):
            run.files.setdefault(mark["path"], []).append((event.seq, mark))
    if event.event_type != "ActivityCompleted":
        return
    attempt.checkpoint_id = event.payload["checkpoint"]["id"]
    state.completed[attempt.checkpoint_id] = attempt
    attempt.stored_bytes = event.payload.get("stored_bytes", 0)
    attempt.unsaved = tuple(event.payload.get("unsaved", ()))
    if not attempt.recompute:
        _record(state, event, attempt)


def _record(state: State, event: Event, attempt: Attempt) -> None:
    payload = event.payload
    made = {*payload.get("unsaved_new", ()), *payload.get("unsaved_made", ())}
    record = Record(
        event_id=event.event_id,
        seq=event.seq,
        run_id=event.run_id,
        # A commit that one kernel handed over may have been finished by the next.
        kernel_id=event.metadata.get("handed_over_by", {}).get("kernel_id", event.kernel_id),
        activity_id=attempt.activity_id,
        name=attempt.name,
        cell_id=attempt.cell_id,
        code_hash=attempt.code_hash,
        checkpoint_id=payload["checkpoint"]["id"],
        inputs=Inputs.from_json(payload.get("inputs", {})),
        changed=(*(item["name"] for item in payload.get("changed", ())), *payload.get("written", ())),
        deleted=(*payload.get("deleted", ()), *payload.get("removed", ())),
        process_changed=tuple(payload.get("process_changed", ())),
        unsaved=tuple((u["name"], u["reason"]) for u in payload.get("unsaved", ()) if u["name"] in made),
        setup=bool(payload.get("setup", False)),
        timestamp=event.timestamp,
        duration_s=attempt.duration_s or 0.0,
        execution_count=attempt.execution_count,
        outputs=bool(payload.get("attachments")),
        files_written=tuple(payload["files_written"]) if "files_written" in payload else None,
        files_left=tuple(payload.get("files_left", ())),
    )
    run = state.run_of(event)
    run.records.append(record)
    run.files_read.update(mark["path"] for mark in record.inputs.files)
    run.by_code.setdefault(record.code_hash, []).append(record)
    run.finished.update((("id", record.cell_id or ""), ("name", record.name)))


def _activity_reused(state: State, event: Event) -> None:
    wanted = event.payload.get("of_event")
    run = state.runs.get(event.run_id)
    if run is not None and run.passing and wanted:
        run.passed.append(wanted)
    attempt = state.completed.get(event.payload.get("checkpoint_id", ""))
    if attempt is not None and wanted:
        attempt.reused += 1
        attempt.met, attempt.met_as = event.seq, event.payload.get("execution_count", 0)


def _checkpoint_restored(state: State, event: Event) -> None:
    run = state.runs.get(event.run_id)
    if run is not None and event.payload.get("whole", True):
        if run.head != event.payload["checkpoint_id"]:
            run.passed.clear()
        run.head = event.payload["checkpoint_id"]
        run.passing = False


def _storage_degraded(state: State, event: Event) -> None:
    state.degraded = event.payload.get("error", "")


def _storage_recovered(state: State, event: Event) -> None:
    state.degraded = ""


def _checkpoint_corrupted(state: State, event: Event) -> None:
    state.corrupted.add(event.payload["checkpoint_id"])


def _checkpoint_deleted(state: State, event: Event) -> None:
    state.deleted.add(event.payload["checkpoint_id"])


_HANDLERS = {
    "RunStarted": _run_started,
    "KernelAttached": _kernel_attached,
    "KernelDetached": _kernel_detached,
    "KernelLost": _kernel_lost,
    "RunRecovered": _run_recovered,
    "ActivityStarted": _activity_started,
    "ActivityCompleted": _activity_ended,
    "ActivityFailed": _activity_ended,
    "ActivityCanceled": _activity_ended,
    "ActivityLost": _activity_ended,
    "ActivityReused": _activity_reused,
    "CheckpointRestored": _checkpoint_restored,
    "StorageDegraded": _storage_degraded,
    "StorageRecovered": _storage_recovered,
    "CheckpointCorrupted": _checkpoint_corrupted,
    "CheckpointDeleted": _checkpoint_deleted,
}
