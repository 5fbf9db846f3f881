"""A repository under any sequence of commits, deletes, gcs, reopenings, failing disks and power cuts keeps its word."""

from __future__ import annotations

import errno
import os
import random

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from durable_nb.errors import CheckpointError
from durable_nb.model import CheckpointId, EventDraft
from durable_nb.store.repository import Repository
from durable_nb.store.workflow import Workflow
from durable_nb.testing import invariants
from durable_nb.testing.invariants import Content
from durable_nb.testing.scenario import NOTEBOOK, delta_of, open_repository, owner, randbytes
from durable_nb.testing.simfiles import SimFiles, SimulatedCrash

NAMES = st.sampled_from(["a", "b", "c", "d"])
SIZES = st.sampled_from([0, 1, 500, 3000, 70_000, 1_100_000])
VALUES = st.tuples(st.integers(0, 3), SIZES, st.lists(SIZES, max_size=2))
CHANGES = st.dictionaries(NAMES, st.none() | VALUES, max_size=3)


class RepositoryMachine(RuleBasedStateMachine):
    """The model is a dict of contents by checkpoint; the world is one simulated disk."""

    checkpoints = Bundle("checkpoints")

    def __init__(self) -> None:
        super().__init__()
        self.files = SimFiles()
        self.kernels = 0
        self.promised: dict[CheckpointId, Content] = {}
        self.reopen()

    def reopen(self) -> None:
        """Start the next kernel on what is on the disk."""
        self.kernels += 1
        self.repository: Repository = open_repository(self.files)
        kernel = owner(self.kernels)
        self.workflow: Workflow = self.repository.workflow(NOTEBOOK, kernel_id=kernel.kernel_id, owner=kernel)

    def prepare(self, parent: CheckpointId | None, changes: dict[str, object]) -> tuple[object, Content]:
        """Return the delta for changes on top of a checkpoint, and what it will hold."""
        before = dict(self.promised[parent]) if parent is not None else {}
        made: dict[str, tuple[bytes, tuple[bytes, ...]] | None] = {}
        for name, value in changes.items():
            if value is None:
                if (name,) in before:
                    made[name] = None
                    del before[(name,)]
                continue
            seed, size_bytes, buffers = value  # type: ignore[misc]
            content = (randbytes(seed, size_bytes), tuple(randbytes(seed + 1, size) for size in buffers))
            made[name] = content
            before[(name,)] = content
        return delta_of(self.workflow, made, parent=parent), before

    @rule(target=checkpoints, changes=CHANGES)
    def commit_first(self, changes: dict[str, object]) -> CheckpointId:
        """Commit a namespace that has no parent."""
        return self._commit(None, changes)

    @rule(target=checkpoints, parent=checkpoints, changes=CHANGES)
    def commit(self, parent: CheckpointId, changes: dict[str, object]) -> CheckpointId:
        """Commit on top of any checkpoint that is there, so that histories branch."""
        return self._commit(self._there(parent), changes)

    def _there(self, checkpoint_id: CheckpointId) -> CheckpointId | None:
        return checkpoint_id if checkpoint_id in self.promised else None

    def _commit(self, parent: CheckpointId | None, changes: dict[str, object]) -> CheckpointId:
        delta, after = self.prepare(parent, changes)
        committed = self.workflow.commit(EventDraft(event_type="CheckpointCompleted", run_id="r"), delta)
        note(f"{committed.manifest.checkpoint_id} on {parent}: {sorted(changes)}")
        self.promised[committed.manifest.checkpoint_id] = after
        return committed.manifest.checkpoint_id

    @rule(checkpoint_id=consumes(checkpoints))
    def delete(self, checkpoint_id: CheckpointId) -> None:
        """Delete a checkpoint that is not the newest."""
        kept = [info.id for info in self.workflow.checkpoints()]
        if checkpoint_id in kept[:-1]:
            note(f"delete {checkpoint_id}")
            self.workflow.delete_checkpoint(checkpoint_id)
            del self.promised[checkpoint_id]

    @rule()
    def gc(self) -> None:
        """Collect garbage; every reachable object stays."""
        note("gc")
        invariants.gc_keeps_everything_reachable(self.repository, owner(self.kernels))

    @rule()
    def next_kernel(self) -> None:
        """End the kernel in an orderly way and start the next."""
        self.workflow.close()
        self.reopen()

    @precondition(lambda self: self.promised)
    @rule(parent=checkpoints, changes=CHANGES, at=st.integers(1, 14), seed=st.integers(0, 10**6), what=st.booleans())
    def crash(self, parent: CheckpointId, changes: dict[str, object], at: int, seed: int, what: bool) -> None:
        """Lose power within some operation of a commit or a gc."""
        delta, after = self.prepare(self._there(parent), changes)
        self.files.crash_at(at, seed=seed)
        in_flight = None
        try:
            if what:
                in_flight = delta.checkpoint_id
                self.workflow.commit(EventDraft(event_type="CheckpointCompleted", run_id="r"), delta)
                self.promised[delta.checkpoint_id] = after
                in_flight = None
            else:
                self.repository.gc(owner=owner(self.kernels))
        except SimulatedCrash:
            note(f"crash at {at} of {'commit' if what else 'gc'}, seed {seed}")
        self.files = self.files.crash(random.Random(seed))
        self.reopen()
        if in_flight in {info.id for info in self.workflow.checkpoints()}:
            self.promised[in_flight] = after

    @rule(parent=checkpoints, changes=CHANGES, at=st.integers(1, 14), number=st.sampled_from([errno.ENOSPC, errno.EIO]))
    def disk_fails(self, parent: CheckpointId, changes: dict[str, object], at: int, number: int) -> None:
        """Let one call of a commit fail: either the commit says so and changed nothing, or it is there."""
        delta, after = self.prepare(self._there(parent), changes)
        self.files.fail_at(at, OSError(number, os.strerror(number)))
        try:
            self.workflow.commit(EventDraft(event_type="CheckpointCompleted", run_id="r"), delta)
        except CheckpointError as error:
            note(f"call {at} failed: {error.message}")
        else:
            self.promised[delta.checkpoint_id] = after
        self.files.fail_at(10**9, OSError(number, "never"))

    @invariant()
    def everything_promised_is_there(self) -> None:
        """I1, I2, I6, and nothing is there that was never promised."""
        invariants.head_is_whole(self.workflow)
        invariants.acknowledged_checkpoints_are_there(self.workflow, self.promised)
        invariants.history_is_a_valid_word(self.workflow.events())
        assert set(self.promised) == {info.id for info in self.workflow.checkpoints()}

    def teardown(self) -> None:
        """A new kernel finds the same, and verify is clean."""
        self.reopen()
        self.everything_promised_is_there()
        problems = [p for p in self.repository.verify().problems if p.kind not in {"torn_tail", "orphan"}]
        assert problems == []


class TestRepositoryShort(RepositoryMachine.TestCase):  # type: ignore[misc]
    """Any short history keeps every promise."""

    settings = settings(max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
class TestRepositoryLong(RepositoryMachine.TestCase):  # type: ignore[misc]
    """Any long history keeps every promise."""

    settings = settings(
        max_examples=500, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
    )
