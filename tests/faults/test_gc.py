"""Garbage collection and deletion: space comes back, nothing that is needed goes, and no writer is disturbed."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from durable_nb.chunking import PICKLE_CHUNK_BYTES
from durable_nb.errors import LeaseHeld, RepositoryError, RepositoryNotFound
from durable_nb.model import CheckpointId, EventDraft
from durable_nb.store.workflow import Workflow
from durable_nb.testing import invariants
from durable_nb.testing.scenario import Scenario, delta_of, newest, open_repository, owner, randbytes
from durable_nb.testing.simfiles import SimFiles

DRAFT = EventDraft(event_type="CheckpointCompleted", run_id="r")


def commit(workflow: Workflow, name: str, content: bytes) -> CheckpointId:
    """Commit one variable."""
    delta = delta_of(workflow, {name: (content, ())}, parent=newest(workflow))
    return workflow.commit(DRAFT, delta).manifest.checkpoint_id


def test_gc_gives_back_the_space_of_deleted_checkpoints_and_a_dry_run_says_the_same() -> None:
    """A dry run reports what gc then frees, to the byte, and changes nothing."""
    files = SimFiles()
    repository = open_repository(files)
    workflow = Scenario().open(repository)
    first = commit(workflow, "x", randbytes(1, 200_000))
    kept = commit(workflow, "x", randbytes(2, 200_000))
    assert repository.gc(dry_run=True, owner=owner(1)).freed_bytes == 0
    workflow.delete_checkpoint(first)
    before = files.snapshot()
    dry = repository.gc(dry_run=True, owner=owner(1))
    assert before == files.snapshot()
    done = repository.gc(owner=owner(1))
    assert replace(dry, dry_run=False) == done
    # Two manifests: that of the deleted checkpoint, and that of its child before it became a keyframe.
    assert (done.chunks, done.packs, done.manifests) == (-(-200_000 // PICKLE_CHUNK_BYTES), 1, 2)
    after = files.snapshot()
    stored = sum(len(content) for path, content in before.items() if "leases" not in path)
    left = sum(len(content) for path, content in after.items() if "leases" not in path)
    assert stored - left == done.freed_bytes > 200_000
    assert {("x",): (randbytes(2, 200_000), ())} == invariants.restored(workflow, kept)


def test_a_pack_that_is_mostly_garbage_is_written_anew() -> None:
    """What is still needed of it moves to a new pack, and the rest is freed."""
    files = SimFiles()
    repository = open_repository(files)
    workflow = Scenario().open(repository)
    changes = {"big": (randbytes(1, 300_000), ()), "small": (randbytes(2, 70_000), ())}
    first = workflow.commit(DRAFT, delta_of(workflow, changes, parent=None)).manifest.checkpoint_id
    last = commit(workflow, "big", b"little")
    workflow.delete_checkpoint(first)
    report = repository.gc(owner=owner(1))
    assert report.freed_bytes > 300_000
    (pack,) = [content for path, content in files.snapshot().items() if path.startswith("packs/")]
    assert len(pack) < 71_000
    assert randbytes(2, 70_000) == invariants.restored(workflow, last)[("small",)][0]
    assert repository.verify().problems == ()


def test_workflows_share_chunks_and_gc_keeps_what_any_of_them_needs() -> None:
    """The same content is stored once for two notebooks, and stays while one of them has it."""
    files = SimFiles()
    repository = open_repository(files)
    one = repository.workflow("one.ipynb", kernel_id="k1", owner=owner(1))
    two = repository.workflow("two.ipynb", kernel_id="k2", owner=owner(1))
    first = commit(one, "x", randbytes(1, 200_000))
    commit(two, "y", randbytes(1, 200_000))
    assert len(files.list("packs")) == 1
    commit(one, "x", b"gone")
    one.delete_checkpoint(first)
    repository.gc(owner=owner(1))
    assert randbytes(1, 200_000) == invariants.restored(two, CheckpointId("c1"))[("y",)][0]
    assert repository.workflow_ids() == ["one.ipynb", "two.ipynb"]


def test_gc_and_repair_refuse_while_another_kernel_writes_in_the_folder() -> None:
    """LeaseHeld names the process; nothing is changed; reading and a dry run go on."""
    files = SimFiles()
    other = replace(owner(1), pid=os.getppid(), process_start="")
    workflow = open_repository(files).workflow("busy.ipynb", kernel_id="k1", owner=other)
    commit(workflow, "x", randbytes(1, 200_000))
    repository = open_repository(files)
    for refused in (repository.gc, lambda: repository.verify(repair=True)):
        with pytest.raises(LeaseHeld) as caught:
            refused()
        assert str(os.getppid()) in caught.value.message
    assert repository.verify().problems == ()
    assert repository.gc(dry_run=True).freed_bytes == 0


def test_no_kernel_begins_to_write_while_gc_works() -> None:
    """A notebook that is opened in the middle of a gc of another process is refused, and later opens."""
    files = SimFiles()
    repository = open_repository(files)
    refusals: list[str] = []

    def begin(point: str) -> None:
        with pytest.raises(LeaseHeld) as caught:
            open_repository(files).workflow("new.ipynb", kernel_id="k2", owner=owner(2))
        refusals.append(caught.value.message)

    repository.reached = begin
    repository.gc(owner=replace(owner(1), pid=os.getppid(), process_start=""))
    assert len(refusals) == 1
    open_repository(files).workflow("new.ipynb", kernel_id="k2", owner=owner(2))


def test_the_newest_checkpoint_cannot_be_deleted_and_a_deleted_one_is_gone() -> None:
    """Deleting the head or what is not there is refused; a deleted id is never used again."""
    workflow = Scenario().open(open_repository(SimFiles()))
    first, second = commit(workflow, "x", b"1"), commit(workflow, "x", b"2")
    with pytest.raises(RepositoryError, match="newest"):
        workflow.delete_checkpoint(second)
    workflow.delete_checkpoint(first)
    with pytest.raises(RepositoryNotFound, match="deleted"):
        workflow.manifest(first)
    with pytest.raises(RepositoryNotFound):
        workflow.delete_checkpoint(first)
    assert workflow.next_checkpoint_id() == "c3"


def test_a_checkpoint_is_read_from_at_most_one_keyframe_and_63_deltas() -> None:
    """However long the history, no checkpoint is more than 63 deltas away from a complete manifest."""
    files = SimFiles()
    workflow = Scenario().open(open_repository(files))
    for n in range(200):
        commit(workflow, f"x{n}", f"value {n}".encode())
    depths = [workflow.body(info.id)["depth"] for info in workflow.checkpoints()]
    assert max(depths) == 63
    assert depths.count(0) == 4
    later = open_repository(files).workflow("analysis.ipynb", kernel_id="reader", owner=None)
    assert {(f"x{n}",): (f"value {n}".encode(), ()) for n in range(150)} == invariants.restored(
        later, CheckpointId("c150")
    )
