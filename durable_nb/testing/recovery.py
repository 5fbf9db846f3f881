"""Recover a repository after a fault as the next kernel does, and check everything that was promised.

Called by the fault and property tests with what is left of a simulated disk and the scenario that lived on it.
"""

from __future__ import annotations

from durable_nb.store.workflow import Workflow
from durable_nb.testing import invariants
from durable_nb.testing.scenario import NOTEBOOK, Scenario, open_repository, owner
from durable_nb.testing.simfiles import SimFiles

__all__ = ["check_promises", "check_recovery", "take_over"]

# A write that was never acknowledged may leave a torn or orphaned line behind; that is no loss.
HARMLESS = frozenset({"torn_tail", "orphan"})


def check_recovery(life: Scenario, disk: SimFiles) -> None:
    """Recover on what is left of the disk, check the invariants, work on, collect, and check again."""
    life.kernels += 1
    repository = open_repository(disk)
    workflow = life.open(repository)
    check_promises(life, workflow)
    problems = [problem for problem in repository.verify().problems if problem.kind != "torn_tail"]
    assert problems == []
    invariants.opening_twice_changes_nothing(disk, repository, NOTEBOOK)
    take_over(life, workflow)
    life.commit(workflow, {"later": (b"after the crash", ())})
    invariants.gc_keeps_everything_reachable(repository, owner(life.kernels))
    check_promises(life, workflow)
    workflow.close()


def check_promises(life: Scenario, workflow: Workflow) -> None:
    """Check I1 to I4 and I6."""
    invariants.head_is_whole(workflow)
    invariants.acknowledged_checkpoints_are_there(workflow, life.acknowledged)
    there = {info.id for info in workflow.checkpoints()}
    for checkpoint_id in there - life.acknowledged.keys():
        assert life.in_flight is not None, f"{checkpoint_id} was never asked for, or its deletion was acknowledged"
        assert life.in_flight[0] == checkpoint_id
        found = invariants.restored(workflow, checkpoint_id)
        invariants.restored_is_before_or_after(found, None, life.in_flight[1])
    for info in workflow.checkpoints():
        if info.id in life.attachments:
            attached = workflow.attachment(info.event, "outputs")
            assert life.attachments[info.id] == attached, f"{info.id} lost its outputs"
    invariants.completed_attempts_have_their_checkpoint(workflow)
    invariants.history_is_a_valid_word(workflow.events())


def take_over(life: Scenario, workflow: Workflow) -> None:
    """Let the model know which way the interrupted step went."""
    there = {info.id for info in workflow.checkpoints()}
    if life.in_flight is not None and life.in_flight[0] in there:
        life.acknowledged[life.in_flight[0]] = life.in_flight[1]
        life.acknowledged = {cid: life.acknowledged[cid] for cid in sorted(there, key=lambda c: int(c[1:]))}
    life.in_flight = None
