"""Saving behind the cells: commits that are handed over to the writer, and what to do when it fails.

Used by the engine. The head moves when a commit is handed over; the state and the observers learn of it when it is
durable. When a function here returns, what the writer has told was taken in, and after a setback the head is durable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from durable_nb.engine.interrupts import uninterrupted
from durable_nb.engine.words import counted_names, size_text
from durable_nb.errors import CheckpointError, DurableError, RepositoryError, RepositoryNotFound
from durable_nb.model import CheckpointId, Delta, Event, EventDraft, Json, Manifest, Unsaved

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = [
    "InFlight",
    "append",
    "degrade",
    "drain",
    "files_read",
    "hand_over",
    "know_everything",
    "process_set",
    "recover",
    "start",
    "take_in",
    "twice",
    "without_writer",
]

T = TypeVar("T")

# Facts that a fold takes in any order with the commits before them. Whatever else is recorded waits for these.
_OVERTAKES = frozenset({"ActivityStarted"})
_LOOK_S = 0.2
_SAY_AFTER_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """What the engine goes back to if this commit turns out never to be made, and what the state does not know yet."""

    checkpoint_id: CheckpointId
    head: Manifest | None
    missing: tuple[Unsaved, ...]
    cells: Mapping[str, Json]
    sources: Mapping[str, str]
    process_changed: frozenset[str]
    files_read: frozenset[str]


def start(engine: Engine) -> None:
    """Start the process that saves in the background, if there is none; it is used from when it is ready."""
    if engine.writable and not engine.workflow.no_writer:
        engine.workflow.start_writer(clock=engine.clock, budget_bytes=engine.settings.budget_bytes, guard=uninterrupted)


@contextmanager
def without_writer(engine: Engine) -> Iterator[None]:
    """Have everything durable and the journal in this process for the length of a block."""
    had_one = engine.workflow.writer_pid is not None
    drain(engine)
    with uninterrupted():
        engine.workflow.stop_writer()
        _took(engine, ())
    _after_setback(engine)
    try:
        yield
    finally:
        if had_one:
            start(engine)


def append(engine: Engine, drafts: Sequence[EventDraft]) -> list[Event]:
    """Make events durable; the start of a cell waits for nothing that earlier cells left, and not for the disk."""
    overtakes = all(draft.event_type in _OVERTAKES for draft in drafts)
    if not overtakes:
        drain(engine)
    with uninterrupted():
        events = engine.workflow.append(drafts, soon=overtakes and engine.durability == "async")
        _took(engine, events)
    _after_setback(engine)
    return events


def hand_over(
    engine: Engine, draft: EventDraft, delta: Delta, attachments: Mapping[str, bytes], also: Sequence[EventDraft]
) -> bool:
    """Hand a commit over, waiting while too much is in flight; return False if it is to be made in this process.

    CheckpointError when it builds on one that could not be stored.
    """
    prepared = engine.workflow.prepare(draft, delta, attachments=attachments, also=also)
    if prepared is None:
        return False
    if not engine.workflow.has_room(prepared):
        _wait(engine, lambda: engine.workflow.has_room(prepared))
    with uninterrupted():
        manifest = engine.workflow.hand_over(prepared)
        if manifest is None:
            return False
        engine.in_flight.append(
            InFlight(
                checkpoint_id=delta.checkpoint_id,
                head=engine.head,
                missing=engine.missing,
                cells=dict(engine.cells),
                sources=dict(engine.sources),
                process_changed=frozenset(draft.payload.get("process_changed", ())),
                files_read=frozenset(mark["path"] for mark in draft.payload.get("inputs", {}).get("files", ())),
            )
        )
        engine.head, engine.missing = manifest, manifest.unsaved
    return True


def take_in(engine: Engine) -> None:
    """Take in what has become durable, and that the writer has failed, if it has."""
    if threading.current_thread() is not threading.main_thread():
        return  # whoever looks while a cell runs sees what is known now
    if engine.workflow.quiet:
        return
    with uninterrupted():
        engine.workflow.take_in()
        made = _took(engine, ())
    if not _after_setback(engine) and made:
        recover(engine)


def drain(engine: Engine) -> None:
    """Return when everything that was handed over is durable, or known not to be; only the main thread waits."""
    take_in(engine)
    if threading.current_thread() is threading.main_thread() and engine.workflow.saving:
        _wait(engine, lambda: not engine.workflow.saving)


def know_everything(engine: Engine) -> None:
    """Have the state hold all that cells of this kernel did, and the head all that is live."""
    head = engine.head
    drain(engine)
    if engine.head is not head:  # the writer has failed, and what it could not store was made outside of this cell
        engine.guarded("look at what changed between cells", engine.commit_outside)


def process_set(engine: Engine) -> Set[str]:
    """Return the components of process state that the run has set, be the commit that says so in flight."""
    known = engine.state.run.process_set if engine.state.run else set()
    return known.union(*(one.process_changed for one in engine.in_flight))


def files_read(engine: Engine) -> Set[str]:
    """Return the files that finished cells of the run have read, be the commit that says so in flight."""
    known = engine.state.run.files_read if engine.state.run else set()
    return known.union(*(one.files_read for one in engine.in_flight))


def twice(engine: Engine, action: Callable[[], T]) -> T:
    """Do it, and once more from the last durable head if it was built on a commit that could not be stored."""
    before = engine.workflow.no_writer
    try:
        return action()
    except CheckpointError:
        # The action may have found out by itself, while it waited for what was in flight.
        if not _after_setback(engine) and engine.workflow.no_writer == before:
            raise
        return action()


def recover(engine: Engine) -> None:
    """Record that storing works again, if it had not."""
    if engine.trouble:
        trouble, engine.trouble = engine.trouble, ""
        engine.append(engine.draft("StorageRecovered", {"error": trouble}))


def degrade(engine: Engine, what: str, error: BaseException) -> None:
    """Say what could not be done and that nothing in memory is lost; the next commit that succeeds takes it back."""
    cause = error.__cause__ if isinstance(error, (CheckpointError, RepositoryError)) and error.__cause__ else error
    detail = str(cause) if isinstance(cause, (OSError, DurableError)) else f"{type(cause).__name__}: {cause}"
    engine.trouble = f"could not {what}: {detail}".rstrip(".")
    if isinstance(cause, RepositoryNotFound):  # what was stored is not there, and the error says what to do
        later = engine.capture.lazy.names
        only_there = f" Not loaded yet: {counted_names(sorted(later))}." if later else ""
        engine.shell.say(f"durable_nb {engine.trouble}.{only_there}")
        return
    safe = f"checkpoint {engine.head.checkpoint_id} is intact" if engine.head else "nothing was saved before"
    engine.shell.say(
        f"durable_nb {engine.trouble}. Your variables are in memory as the cell left them and {safe}; "
        "the next durable cell tries again. `%durable status` tells more."
    )


def _wait(engine: Engine, done: Callable[[], bool]) -> None:
    """Wait, interruptibly, taking in what is told; say so if it takes long."""
    began_s, told = engine.clock.monotonic_s(), False
    while not done():
        engine.workflow.wait(_LOOK_S)
        take_in(engine)
        if not told and engine.clock.monotonic_s() - began_s > _SAY_AFTER_S:
            told = True
            size = size_text(engine.workflow.bytes_in_flight)
            engine.shell.say(f"durable_nb: waiting until what earlier cells changed is on disk ({size} to go).")


def _took(engine: Engine, events: Sequence[Event]) -> bool:
    """Take events in, and before them what has become durable meanwhile; return whether a commit is among that."""
    news = engine.workflow.news()
    if news:
        made = {event.payload["checkpoint"]["id"] for event in news if "checkpoint" in event.payload}
        engine.in_flight = [one for one in engine.in_flight if one.checkpoint_id not in made]
    if news or events:
        engine.took(sorted([*news, *events], key=lambda event: event.seq))
    return bool(news)


def _after_setback(engine: Engine) -> bool:
    """Go back to the last durable head if the writer has failed; return whether it has."""
    setback = engine.workflow.setback()
    if setback is None:
        return False
    with uninterrupted():
        _took(engine, ())
        lost = [one for one in engine.in_flight if one.checkpoint_id in setback.lost]
        engine.in_flight.clear()
        if lost:
            engine.head, engine.missing = lost[0].head, lost[0].missing
        for one in reversed(lost):
            # They were told to the history by the commits that are lost.
            engine.cells = {**one.cells, **engine.cells}
            engine.sources = {**one.sources, **engine.sources}
    what = f"save {', '.join(setback.lost)} in the background" if setback.lost else "go on saving in the background"
    degrade(engine, what, setback.error)
    engine.shell.say("durable_nb: from now on each cell is saved before its reply.")
    degraded = engine.draft("StorageDegraded", {"error": engine.trouble, "not_made": list(setback.lost)})
    engine.guarded("record that", lambda: append(engine, [degraded]))
    return True
