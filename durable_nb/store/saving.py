"""A workflow's commits behind the kernel's back: what is in flight, what became of it, and what to do when it fails.

The part of `Workflow` that knows the writer process. What the writer cannot do any more, the kernel does itself: after
a setback the journal is in its own hands again, what is durable is known, and every open commit counts as never made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass

from durable_nb.errors import CheckpointError, DurableError, RepositoryError, RepositoryNotFound
from durable_nb.model import CheckpointId, Delta, Event, EventDraft, Json, Manifest
from durable_nb.ports import Clock
from durable_nb.store.behind import Behind, made_by
from durable_nb.store.commits import Commits
from durable_nb.store.files import LocalFiles
from durable_nb.store.handover import places_named_by
from durable_nb.store.journal import FileJournal
from durable_nb.store.known import Known
from durable_nb.store.left_over import LeftOver
from durable_nb.store.pending import Ticket
from durable_nb.store.preparing import Prepared, prepare
from durable_nb.store.signing import SigningKey
from durable_nb.store.writer_client import WRITER, WriterGone

__all__ = ["BUDGET_BYTES", "Saving", "Setback"]

BUDGET_BYTES = 512 << 20
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """The writer has failed: why, and which commits that were handed over are not there."""

    error: BaseException
    lost: tuple[CheckpointId, ...]


class Saving(Commits):
    """What a workflow does through its writer; without one, nothing of it happens."""

    workflow_id: str
    _journal: FileJournal
    _key: SigningKey
    _events: list[Event]
    _stored: Known
    _corrupted: set[str]
    _behind: Behind | None
    _handed: dict[CheckpointId, tuple[Manifest, int]]
    _news: list[Event]
    _setback: Setback | None

    def _begin_saving(self) -> None:
        self._behind, self._setback = None, None
        self._handed, self._news = {}, []
        self.no_writer = ""  # why there is no process that saves in the background, where one was asked for
        self.left_over = LeftOver()  # what the last kernel had handed over, and nobody had finished

    # What the workflow gives.

    def _known(self, checkpoint_id: CheckpointId) -> tuple[Manifest, int]:
        raise NotImplementedError

    def _note(self, event: Event) -> None:
        raise NotImplementedError

    def _remember(self, manifest: Manifest, depth: int) -> None:
        raise NotImplementedError

    def body(self, checkpoint_id: CheckpointId) -> dict[str, Json]:
        raise NotImplementedError

    # The life of the writer.

    def start_writer(
        self,
        *,
        clock: Clock,
        budget_bytes: int = BUDGET_BYTES,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
        module: str = WRITER,
    ) -> None:
        """Start the process that saves in the background, and do not wait for it; `no_writer` says why there is none.

        `guard` keeps interrupts out while messages of the writer are taken in.
        """
        if self._behind is not None:
            return
        if not isinstance(self._files, LocalFiles) or not hasattr(os, "pwrite"):
            self.no_writer = "this system has no way to hand memory to another process"
            return
        try:
            self._behind = Behind(
                files=self._files,
                folder=self.folder,
                workflow_id=self.workflow_id,
                journal=self._journal,
                key=self._key,
                clock=clock,
                budget_bytes=budget_bytes,
                guard=guard,
                wait_for=self._wait_for,
                reached=self._reached,
                module=module,
            )
        except (OSError, RepositoryError) as error:
            self.no_writer = f"the process that saves in the background cannot be started: {error}"
        # What was stored before may have been collected since. The writer is told names and does not ask whether they
        # are there still, so it is told only of what was stored since it began: until it ends nothing is collected.
        self._stored.clear()

    def stop_writer(self) -> None:
        """Wait for what is in flight, and take the journal back; nothing if there is no writer."""
        self.drain()
        if self._behind is not None:
            behind, self._behind = self._behind, None
            try:
                behind.end()
            finally:
                if behind.failure is not None:
                    self._behind = behind
                    self._fall_back()
                else:
                    behind.forget()

    @property
    def writer_pid(self) -> int | None:
        """The process that has the journal; None while this one has it."""
        return self._behind.pid if self._behind is not None and self._behind.on else None

    @property
    def saving(self) -> Sequence[Ticket]:
        """The commits in flight, oldest first."""
        return tuple(self._behind.tickets.values()) if self._behind is not None else ()

    @property
    def bytes_in_flight(self) -> int:
        """How many bytes wait in the arena."""
        return self._behind.bytes_in_flight if self._behind is not None else 0

    def can_hand_over(self) -> bool:
        """Whether there is a writer that takes commits; gives it the journal as soon as it has started."""
        self._check()
        return self._behind is not None and self._behind.ready()

    # Handing over.

    def prepare(
        self,
        draft: EventDraft,
        delta: Delta,
        *,
        attachments: Mapping[str, bytes] | None = None,
        also: Sequence[EventDraft] = (),
    ) -> Prepared | None:
        """Draw up a commit to be handed over; None if it is to be made in this process.

        CheckpointError when it builds on one that the writer could not store.
        """
        here = not self.can_hand_over()
        self._must_be_next(delta)
        if here:
            return None
        assert self._behind is not None
        parent, depth = (None, -1) if delta.parent is None else self._known(delta.parent)
        prepared = prepare(
            self._behind.ticket(delta.checkpoint_id, draft),
            draft,
            delta,
            attachments or {},
            also,
            parent=parent,
            depth=depth,
            corrupted=delta.parent in self._corrupted,
            known=self._stored,
            tickets=self._behind.tickets,
            workflow_id=self.workflow_id,
        )
        return prepared if self._behind.fits(prepared) else None

    def has_room(self, prepared: Prepared) -> bool:
        """Whether a commit can be handed over now; CheckpointError if it builds on one that has failed meanwhile."""
        self._check()
        if self._behind is None:
            raise self._overtaken(prepared.ticket.checkpoint_id)
        return self._behind.has_room(prepared)

    def hand_over(self, prepared: Prepared) -> Manifest | None:
        """Hand a commit over and return what is the head from now on; None if the disk refuses to take it this way."""
        if self._behind is None or self._behind.failure is not None:
            raise self._overtaken(prepared.ticket.checkpoint_id)
        try:
            steady = self._behind.hand_over(prepared)
        except OSError:
            return None  # the commit is made in this process instead, which says what is wrong with the disk
        manifest = prepared.manifest
        self._handed[manifest.checkpoint_id] = (manifest, prepared.depth)
        self._stored.update(manifest.groups, prepared.marks if steady else {})
        return manifest

    def _overtaken(self, checkpoint_id: CheckpointId) -> CheckpointError:
        return CheckpointError(
            f"Checkpoint {checkpoint_id} was not saved, because saving in the background has failed. "
            "Your variables are untouched in memory.",
            hint="The next durable cell stores them again.",
        )

    def _must_be_next(self, delta: Delta) -> None:
        raise NotImplementedError

    # What became of it.

    def is_away(self) -> bool:
        """Tell whether somebody has moved or removed the whole history, which may be put back."""
        try:
            self._journal.check()
        except RepositoryNotFound:
            return True
        except (DurableError, OSError):
            return False
        return False

    @property
    def quiet(self) -> bool:
        """Whether there is no writer, and nothing to be told of one."""
        return self._behind is None and self._setback is None and not self._news

    def take_in(self) -> None:
        """Take in what the writer has told; `news` are the events that became durable."""
        if self._behind is None:
            return
        self._noted(self._behind.take_in())
        for ticket in self._behind.altered:
            self._stored.drop(ticket.checkpoint_id)
        self._behind.altered.clear()
        self._check()

    def news(self) -> list[Event]:
        """Return the events of commits that were handed over and have become durable since the last call."""
        news, self._news = self._news, []
        return news

    def setback(self) -> Setback | None:
        """Return, once, that the writer has failed; this process has the journal again."""
        setback, self._setback = self._setback, None
        return setback

    def wait(self, timeout_s: float) -> None:
        """Wait until there may be something to take in, at most so long; may be interrupted."""
        if self._behind is not None:
            self._behind.wait(timeout_s)

    def drain(self) -> None:
        """Return when nothing is in flight any more."""
        self.take_in()
        while self.saving:
            self.wait(_LOOK_S)
            self.take_in()

    def _wait_for(self, ticket: Ticket) -> None:
        while not ticket.settled:
            self.wait(_LOOK_S)
            self.take_in()

    def _noted(self, events: Sequence[Event]) -> None:
        for event in events:
            self._note(event)
            checkpoint = event.payload.get("checkpoint")
            if checkpoint is not None and (made := self._handed.pop(checkpoint["id"], None)) is not None:
                self._remember(*made)
        self._news += events

    def _append_behind(self, drafts: Sequence[EventDraft], *, soon: bool) -> list[Event] | None:
        """Append through the writer; None if that is to be done in this process."""
        if not self.can_hand_over():
            return None
        assert self._behind is not None
        try:
            events = self._behind.append(drafts, soon=soon)
        except WriterGone:
            return self._fall_back() or None
        self._noted(self._behind.take_in(read=False))
        for event in events:
            self._note(event)
        return events

    def _check(self) -> None:
        if self._behind is not None and self._behind.failure is not None:
            self._news += self._fall_back()

    def _fall_back(self) -> list[Event]:
        """Take the journal back from a writer that has failed, and find out what it made durable.

        Returns the events that are nobody's commit: those of the append that it could not answer any more.
        """
        behind = self._behind
        assert behind is not None
        assert behind.failure is not None
        self._noted(behind.take_in())
        flights = behind.end()
        found = list(self._journal.read(self._events[-1].seq if self._events else 0))
        made = made_by(flights, found)
        mine = {event.event_id for flight, event in made for event in _batch(found, event, flight.also)}
        others = []
        for event in found:
            if event.event_id in mine:
                self._noted([event])
            else:
                self._note(event)
                others.append(event)
        for flight, _ in made:
            durable = self.body(flight.ticket.checkpoint_id)
            flight.ticket.digests = places_named_by(flight.ticket.number, flight.body, durable)
        lost = [flight.ticket for flight in flights if not flight.ticket.settled]
        for ticket in lost:
            ticket.error = behind.failure
            self._handed.pop(ticket.checkpoint_id, None)
        if lost:
            self._stored.clear()
        self._behind = None
        self.no_writer = f"the process that saves in the background has failed: {behind.failure}"
        self._setback = Setback(error=behind.failure, lost=tuple(ticket.checkpoint_id for ticket in lost))
        # What failed the writer may fail this as well, and no cell is to fail with it. An index that knows less than
        # there is costs no more than chunks that are stored once more.
        with suppress(OSError):
            behind.forget()
            self._chunks.refresh(durable=True)
        return others


def _batch(events: Sequence[Event], first: Event, more: int) -> Sequence[Event]:
    begin = next(i for i, event in enumerate(events) if event is first)
    return events[begin : begin + 1 + more]
