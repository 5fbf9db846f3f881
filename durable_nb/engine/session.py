"""The engine of one kernel: carries the flows' effects out and keeps what they need between cells.

Built by the kernel's composition root. `run_cell` is driven by the kernel layer and yields `Execute` only; when it
ends after a finished body, the cell is durable, or one line has said why not and nothing live was touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

from durable_nb.capture.files_read import FileReads
from durable_nb.capture.namespace import NamespaceCapture
from durable_nb.capture.process import ProcessState
from durable_nb.capture.settled import Touched
from durable_nb.config import Settings
from durable_nb.engine import decisions, inputs, missing, processes, reached, refusing, restoring, saving, versions
from durable_nb.engine.effects import (
    BodyOutcome,
    CellRequest,
    Complete,
    Decide,
    Decision,
    Effect,
    Execute,
    Fail,
    Notice,
    Outside,
    Reuse,
    Settle,
    Start,
    Started,
)
from durable_nb.engine.file_places import left_by
from durable_nb.engine.flows import activity, plain
from durable_nb.engine.interrupts import uninterrupted
from durable_nb.engine.payloads import activity_id_of, commit_payload, outputs_json, skipped_drafts, unsaved_differs
from durable_nb.engine.reached import Reached
from durable_nb.engine.replay import Replay
from durable_nb.engine.reusing import reuse
from durable_nb.errors import CaptureError, DurableError, UsageError
from durable_nb.history import State
from durable_nb.model import CheckpointId, Delta, Event, EventDraft, Json, Manifest, Unsaved
from durable_nb.ports import Clock, Observer, Shell
from durable_nb.resources import cpu_s, rss_bytes
from durable_nb.store.repository import Workflow

__all__ = ["Engine"]

MAX_FILES = 1000  # names of written files that an event keeps
BASELINE = "baseline"  # stands for a checkpoint in a look that nothing is stored of


@dataclass(slots=True, kw_only=True)
class Engine:
    """State and ports of one attached kernel. Fields below `observers` change as cells run."""

    workflow: Workflow
    shell: Shell
    clock: Clock
    settings: Settings
    capture: NamespaceCapture
    process: ProcessState
    kernel_id: str
    modules: Mapping[str, Any]
    new_run_id: Callable[[], str]
    observers: list[Observer] = field(default_factory=list)
    files: FileReads = field(default_factory=FileReads)
    # Runs a cell again beside the one that runs now: its option line and its body; raises what the body raises.
    run_beside: Callable[[str, str], None] | None = None
    # Runs a cell's body without showing or recording anything, except the definitions named; returns what it raised.
    run_aside: Callable[[str, Collection[str]], BaseException | None] | None = None

    state: State = field(default_factory=State)
    run_id: str = ""
    life_seq: int = 0  # records before this event may stand for a cell: they are of an earlier life
    head: Manifest | None = None
    replay: Replay = field(default_factory=Replay)
    attached_process: dict[str, str] = field(default_factory=dict)
    gui_untouched: str = ""
    gui_seen: dict[str, Json] = field(default_factory=dict)
    # What `versions` read of packages that do not say their version: module, spec and version by library.
    installed: dict[str, tuple[Any, Any, str | None]] = field(default_factory=dict)
    cells: dict[str, Json] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    watch: inputs.Watch | None = None
    trouble: str = ""
    last_decision: Decision | None = None
    durability: str = "sync"  # of the cell that runs
    in_flight: list[saving.InFlight] = field(default_factory=list)
    missing: tuple[Unsaved, ...] = ()
    reached: Reached = field(default_factory=Reached)
    missed: tuple[str, ...] = ()  # what the last look found changed although nothing that ran leads to it
    absent: dict[str, Unsaved] = field(default_factory=dict)  # variables that are not back, until their names are bound
    unloadable: set[tuple[str, str]] = field(default_factory=set)  # name and version of what is stored and did not load

    # ---- running -------------------------------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        return self.workflow.writable

    def run_cell(self, request: CellRequest) -> Generator[Execute, BodyOutcome, None]:
        """Run or reuse one cell; yields `Execute` when the body is to run and takes its outcome."""
        if not self.writable:
            restoring.settle_for(self, request)
            yield Execute()
            return
        self.durability = request.options.durability or self.settings.durability
        if self.durability == "async":
            saving.start(self)
        saving.take_in(self)
        flow = activity(request) if request.durable else plain(request)
        if not request.durable:
            reached.reaches(self, request)
        try:
            effect = flow.send(None)
            while True:
                answer = (yield effect) if isinstance(effect, Execute) else self.perform(effect)
                effect = flow.send(answer)
        except StopIteration:
            return
        finally:
            if self.watch is not None:
                self.watch.end()
                self.watch = None

    def beside(self, request: CellRequest | None) -> AbstractContextManager[None]:
        """Return the block in which code that is no cell runs."""
        return reached.beside(self, request)

    def perform(self, effect: Effect) -> Any:
        """Carry one effect out and return its answer."""
        match effect:
            case Outside(request=request):
                return self.guarded(
                    "look at what changed between cells", lambda: self.commit_outside(request, behind=True)
                )
            case Decide(request=request):
                return self._decide(request)
            case Reuse(request=request, decision=decision):
                return reuse(self, request, decision)
            case Settle(request=request):
                return restoring.settle_for(self, request)
            case Start(request=request, decision=decision):
                return self._start(request, decision)
            case Complete(request=request, decision=decision, started=started, outcome=outcome):
                return self._save(request, decision, started, outcome)
            case Fail(request=request, started=started, outcome=outcome):
                return self.guarded("record the failure", lambda: self._fail(request, started, outcome))
            case Notice(request=request):
                return self._notice(request)
        raise TypeError(f"no such effect: {effect!r}")

    def guarded(self, what: str, action: Callable[[], Any]) -> Any:
        """Do it, and let no trouble of ours reach the user's cell: their result is in memory and stays there."""
        try:
            return action()
        except UsageError:
            raise
        except (DurableError, OSError) as error:
            saving.degrade(self, what, error)
        except Exception as error:  # a defect of ours must not cost the user their cell; it is told, not hidden
            saving.degrade(self, what, error)
        return None

    # ---- journal -------------------------------------------------------------------------------------------------

    def append(self, *drafts: EventDraft) -> list[Event]:
        """Make the events durable, take them into the state and show them to the observers."""
        return saving.append(self, drafts)

    def draft(self, event_type: str, payload: Mapping[str, Json] | None = None, **more: Any) -> EventDraft:
        return EventDraft(event_type=event_type, run_id=self.run_id, payload=payload or {}, **more)

    def took(self, events: Sequence[Event]) -> None:
        for event in events:
            self.state.apply(event)
        for observer in self.observers:
            observer(events)

    def commit(
        self,
        draft: EventDraft,
        delta: Delta,
        *,
        attachments: Mapping[str, bytes] | None = None,
        behind: bool = False,
    ) -> None:
        """Store the delta, make its event true, and move the head there; with `behind` hand it over if that is wanted.

        A commit that was handed over is what the head says, and not yet part of the state.
        """
        skipped = skipped_drafts(self, draft, delta)
        if behind and self.durability == "async" and saving.hand_over(self, draft, delta, attachments or {}, skipped):
            return
        saving.drain(self)
        with uninterrupted():
            committed = self.workflow.commit(draft, delta, attachments=attachments or {}, also=skipped)
            self.took([committed.event])
            self.head = committed.manifest
            self.missing = committed.manifest.unsaved
        saving.recover(self)

    # ---- effects -------------------------------------------------------------------------------------------------

    def _decide(self, request: CellRequest) -> Decision:
        decision = decisions.decide(self, request)
        self.last_decision = decision
        return decision

    def _start(self, request: CellRequest, decision: Decision) -> Started:
        activity_id = activity_id_of(request)
        before = inputs.before(self, request)
        reached.note(self, before.access)
        number = 1 + self.state.tries.get((self.run_id, activity_id), 0)
        event = None
        try:
            event = self.append(
                self.draft(
                    "ActivityStarted",
                    {
                        "name": request.name,
                        "source": request.source,
                        "code_hash": before.code_hash,
                        "cell_id": request.cell_id,
                        "execution_count": request.execution_count,
                        "options": request.options.to_json(),
                        "decision": list(decision.reasons),
                    },
                    activity_id=activity_id,
                    attempt=number,
                )
            )[0]
        except (DurableError, OSError) as error:
            saving.degrade(self, "record that this cell starts", error)
        self.process.note_cell(request.tree)
        ending = ExitStack()
        absent = frozenset(n for n in self.absent if n not in self.shell.namespace)
        self.watch = inputs.Watch(
            inputs=before, absent=absent, files=ending.enter_context(self.files.recording()), ending=ending
        )
        return Started(
            event=event,
            activity_id=activity_id,
            attempt=number,
            began_s=self.clock.monotonic_s(),
            cpu_s=cpu_s(),
        )

    def metadata(self, started: Started) -> dict[str, Json]:
        return {
            "execution_time_ms": round((self.clock.monotonic_s() - started.began_s) * 1000, 3),
            "resource_usage": {
                "cpu_ms": round((cpu_s() - started.cpu_s) * 1000, 3),
                "rss_bytes": rss_bytes(),
            },
        }

    def _save(self, request: CellRequest, decision: Decision, started: Started, outcome: BodyOutcome) -> None:
        """Make the finished cell durable; an interrupt meanwhile ends the attempt in the history as well."""
        before = self.head
        refused: CaptureError | None = None
        try:
            refused = self.guarded(
                "save this cell",
                lambda: saving.twice(self, lambda: self._complete(request, decision, started, outcome)),
            )
        except KeyboardInterrupt as error:
            if self.head is not before:
                raise KeyboardInterrupt("interrupted, when the cell had finished and was saved.") from error
            if (event := started.event) is not None:
                stopped = KeyboardInterrupt("while the result was being saved")
                self.guarded("record the interrupt", lambda: self.record_error(started, event, stopped, left_by(self)))
            raise
        if refused is not None:
            raise refused

    def _complete(
        self, request: CellRequest, decision: Decision, started: Started, outcome: BodyOutcome
    ) -> CaptureError | None:
        """Commit the cell; or refuse to, because it made what cannot be stored and was to fail then."""
        assert self.watch is not None
        metadata = self.metadata(started)
        files, left = self.watch.end(), left_by(self)
        late = reached.reaches(self, request)
        delta, process_changed = self.delta(
            started.activity_id, request.options.include, request.options.exclude, self.watch.inputs.access.stores
        )
        found, effects = inputs.after(self, request, self.watch.inputs, late, files, delta)
        self.replay.did(self.watch.inputs.code_hash, found.names, found.outside_effects, set(process_changed))
        event = started.event or self.append(
            self.draft(
                "ActivityStarted",
                {"name": request.name, "source": request.source, "code_hash": self.watch.inputs.code_hash,
                 "cell_id": request.cell_id, "execution_count": request.execution_count, "late": True},
                activity_id=started.activity_id,
                attempt=started.attempt,
            )
        )[0]  # fmt: skip
        if request.options.on_unserializable == "fail" and (made := refusing.made_by(self, started, delta)):
            return refusing.refuse(self, started, event, made)
        payload = {
            **commit_payload(self, delta, process_changed, absent=self.watch.absent),
            **effects,
            "name": request.name,
            "execution_count": request.execution_count,
            "inputs": found.to_json(),
            "setup": request.options.setup,
            "files_written": files.touched[:MAX_FILES],
            "files_left": left,
        }
        draft = self.draft(
            "ActivityCompleted",
            payload,
            activity_id=started.activity_id,
            attempt=started.attempt,
            metadata={"code_hash": self.watch.inputs.code_hash, **metadata},
            correlation={"parent_event": event.event_id},
        )
        attachments = {"outputs": outputs_json(outcome)} if outcome.outputs else {}
        self.commit_delta(draft, delta, attachments, behind=True)
        return None

    def _fail(self, request: CellRequest, started: Started, outcome: BodyOutcome) -> None:
        error = outcome.error
        assert error is not None
        reached.reaches(self, request)
        self._note_cells()
        if started.event is None:
            return
        self.record_error(started, started.event, error, left_by(self))
        # What it had changed by then stays in memory, and hours of work may be in it: a loss must not take it back.
        # The next durable cell would commit the same.
        self.commit_outside(behind=True)

    def record_error(self, started: Started, event: Event, error: BaseException, left: Sequence[Json] = ()) -> None:
        self.append(
            self.draft(
                "ActivityCanceled" if isinstance(error, KeyboardInterrupt) else "ActivityFailed",
                {"error": f"{type(error).__name__}: {error}"[:2000], "error_type": type(error).__name__,
                 "error_message": str(error)[:2000], **({"files_left": list(left)} if left else {})},
                activity_id=started.activity_id,
                attempt=started.attempt,
                metadata=self.metadata(started),
                correlation={"parent_event": event.event_id},
            )
        )  # fmt: skip

    def _notice(self, request: CellRequest) -> None:
        reached.reaches(self, request)
        self.process.note_cell(request.tree, ran=True)
        self._note_cells()

    # ---- what changed --------------------------------------------------------------------------------------------

    def _note_cells(self) -> int:
        """Take in what the shell has new to tell of inputs and sources; return the execution count."""
        state = self.shell.state()
        self.cells.update(state["inputs"])
        self.sources.update(self.shell.cell_sources())
        return int(state["execution_count"])

    def delta(
        self, made_by: str, include: Sequence[str] = (), exclude: Sequence[str] = (), written: Collection[str] = ()
    ) -> tuple[Delta, list[str]]:
        """Return what is different from the head: the namespace, and the state of the process around it."""
        execution_count = self._note_cells()
        checkpoint_id = self.workflow.next_checkpoint_id()
        with reached.taken(self) as touched:
            captured = self.capture.delta(
                self.head,
                checkpoint_id,
                made_by=made_by,
                include=include,
                exclude=exclude,
                written=written,
                touched=touched,
                # Where no code of a cell ran since the last look, the next one, after this cell, is soon enough.
                audit=touched != Touched() or made_by != "outside",
            )
        self.missed = captured.missed
        process = processes.differing(self)
        partly = self.process.partial(self.shell.namespace, captured.kinds)
        unsaved = (*captured.unsaved, *self.process.reported(), *partly, *missing.carried(self, captured.unsaved))
        delta = Delta(
            checkpoint_id=checkpoint_id,
            parent=self.head.checkpoint_id if self.head else None,
            names=captured.names,
            groups=captured.groups,
            process=process,
            shell={"execution_count": execution_count},
            unsaved=unsaved,
            versions=versions.new_versions(self, captured.names),
        )
        return delta, sorted(process)

    def commit_delta(
        self, draft: EventDraft, delta: Delta, attachments: Mapping[str, bytes], *, behind: bool = False
    ) -> None:
        self.commit(draft, delta, attachments=attachments, behind=behind)
        self.replay.meet(delta.names, delta.checkpoint_id)
        # Only now: after a failed commit the next one has to tell of the same cells.
        self.cells.clear()
        self.sources.clear()

    def commit_outside(
        self, request: CellRequest | None = None, *, reason: str = "outside", behind: bool = False
    ) -> CheckpointId | None:
        """Commit what changed while no durable cell ran; None if nothing did."""
        if self.replay or (request is not None and reached.nothing_ran(self)):
            return None  # nothing has run since the load, when live names are not where places are, or the last look
        delta, process_changed = self.delta(reason)
        if not (delta.names or delta.process or unsaved_differs(self.head, delta.unsaved)) and reason == "outside":
            return None
        payload = {**commit_payload(self, delta, process_changed), "reason": reason}
        self.commit_delta(self.draft("CheckpointCompleted", payload), delta, {}, behind=behind)
        return delta.checkpoint_id

    def adopt(self, manifest: Manifest, names: Sequence[str]) -> None:
        """Take the live values of `names` for the manifest's versions, and look at them before anything can run."""
        self.capture.adopt(manifest, names)
        # Looked at later, a value that the next cell changes would pass for the version that was restored.
        self.capture.delta(manifest, BASELINE, made_by="")

    def recapture(self) -> None:
        """Store the live namespace anew, whole, because the store lost a part of what it held of it."""
        self.capture.lazy.load_all()
        self.head = None
        self.attached_process = {}
        self.capture.forget()
        self.commit_outside(reason="repair")

    # ---- end -----------------------------------------------------------------------------------------------------

    def detach(self, reason: str) -> None:
        """Record an orderly end: restart, shutdown, exit or unload."""
        if reason == "unload":
            self.capture.lazy.load_all(last=True)  # afterwards nobody is there to load it
            while self.capture.lazy.mapped:
                self.capture.lazy.own_some()
        if self.writable:
            if reason != "unload":
                self.guarded("save what changed since the last cell", self.commit_outside)
            self.guarded("record the end", lambda: self.append(self.draft("KernelDetached", {"reason": reason})))
        self.workflow.close(release=True)
