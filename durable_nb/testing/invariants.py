"""The seven invariants that hold after every fault, written once: each function raises AssertionError naming its own.

Called by the fault and property tests, and by anyone who tests a store of their own. They read; the only one that
writes is `gc_keeps_everything_reachable`, which collects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from durable_nb.model import CheckpointId, Event, Owner
from durable_nb.store.repository import Repository
from durable_nb.store.workflow import Workflow
from durable_nb.testing.simfiles import SimFiles

__all__ = [
    "acknowledged_checkpoints_are_there",
    "completed_attempts_have_their_checkpoint",
    "gc_keeps_everything_reachable",
    "head_is_whole",
    "history_is_a_valid_word",
    "opening_twice_changes_nothing",
    "restored",
    "restored_is_before_or_after",
]

# What a namespace is to the store: the content of every group, by the names in it.
Content = Mapping[tuple[str, ...], tuple[bytes, tuple[bytes, ...]]]

_ENDS = {"ActivityCompleted", "ActivityFailed", "ActivityCanceled", "ActivityLost"}


def restored(workflow: Workflow, checkpoint_id: CheckpointId) -> Content:
    """Read everything that a checkpoint holds."""
    content = {}
    for group in workflow.manifest(checkpoint_id).groups.values():
        pickle, buffers = workflow.read_group(group)
        content[group.names] = (pickle, tuple(bytes(buffer) for buffer in buffers))
    return content


def head_is_whole(workflow: Workflow) -> None:
    """I1: the head names only existing, valid objects."""
    kept = [info for info in workflow.checkpoints() if not info.corrupted]
    if kept:
        restored(workflow, kept[-1].id)


def acknowledged_checkpoints_are_there(workflow: Workflow, acknowledged: Mapping[CheckpointId, Content]) -> None:
    """I2: an acknowledged checkpoint is never lost, and holds what it held."""
    there = {info.id for info in workflow.checkpoints() if not info.corrupted}
    missing = sorted(acknowledged.keys() - there)
    assert not missing, f"I2: acknowledged checkpoints are lost: {missing}"
    for checkpoint_id, content in acknowledged.items():
        assert restored(workflow, checkpoint_id) == content, f"I2: {checkpoint_id} holds something else"


def restored_is_before_or_after(found: Content | None, before: Content | None, after: Content | None) -> None:
    """I3: what is restored is what was there before or after the interrupted step, nothing else."""
    assert found in (before, after), "I3: a step is half applied"


def completed_attempts_have_their_checkpoint(workflow: Workflow) -> None:
    """I4: no attempt is completed without its checkpoint."""
    there = {info.event.event_id for info in workflow.checkpoints()}
    deleted = {e.payload["checkpoint_id"] for e in workflow.events() if e.event_type == "CheckpointDeleted"}
    for event in workflow.events():
        if event.event_type == "ActivityCompleted":
            checkpoint = event.payload.get("checkpoint", {}).get("id")
            assert event.event_id in there or checkpoint in deleted, f"I4: event {event.seq} has no checkpoint"


def gc_keeps_everything_reachable(repository: Repository, owner: Owner) -> None:
    """I5: `gc` never removes a reachable object."""
    before = repository.verify()
    repository.gc(owner=owner)
    after = repository.verify()
    assert after.problems == before.problems, f"I5: gc removed something: {after.problems}"
    assert after.chunks == before.chunks, "I5: gc removed a reachable chunk"


def history_is_a_valid_word(events: Iterable[Event]) -> None:
    """I6: seq counts up, epochs never go back, and no attempt ends twice or without having begun."""
    last_seq, last_epoch = 0, 0
    begun: set[tuple[str, str | None, int | None]] = set()
    ended: set[tuple[str, str | None, int | None]] = set()
    for event in events:
        assert event.seq > last_seq, f"I6: event {event.seq} follows {last_seq}"
        assert event.epoch >= last_epoch, f"I6: epoch {event.epoch} follows {last_epoch}"
        last_seq, last_epoch = event.seq, event.epoch
        attempt = (event.run_id, event.activity_id, event.attempt)
        if event.event_type == "ActivityStarted":
            assert attempt not in begun, f"I6: attempt {attempt} began twice"
            begun.add(attempt)
        elif event.event_type in _ENDS:
            assert attempt in begun, f"I6: attempt {attempt} ended without having begun"
            assert attempt not in ended, f"I6: attempt {attempt} ended twice"
            ended.add(attempt)


def opening_twice_changes_nothing(files: SimFiles, repository: Repository, workflow_id: str) -> None:
    """I7: opening to read, verifying and opening again changes no byte on the disk."""
    before = files.snapshot()
    for _ in range(2):
        workflow = repository.workflow(workflow_id, kernel_id="reader", owner=None)
        head_is_whole(workflow)
        workflow.close()
    repository.verify()
    assert files.snapshot() == before, "I7: reading changed the disk"
