"""A repository that somebody else signed: refused, accepted once, refused again when it has grown."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from durable_nb.errors import Untrusted
from durable_nb.model import Delta, EventDraft, GroupData, GroupId, Variable
from durable_nb.store.repository import Repository
from durable_nb.store.signing import SigningKey, TrustStore
from durable_nb.store.trust import trust
from durable_nb.store.workflow import Workflow
from durable_nb.testing.clock import ManualClock
from durable_nb.testing.journals import fake_owner, fixed_key
from durable_nb.testing.simfiles import SimFiles

SIZES = (10, 100_000)


def open_as(files: SimFiles, key: SigningKey, store: TrustStore | None = None, kernel_id: str = "k1") -> Workflow:
    """Open the workflow to write as the owner of a key."""
    accepts = store.accepts if store else lambda digest: False
    repository = Repository.open(files, key=key, clock=ManualClock(tick_us=1), accepts=accepts)
    return repository.workflow("n.ipynb", kernel_id=kernel_id, owner=fake_owner(kernel_id))


def commit(workflow: Workflow, size_bytes: int) -> None:
    """Commit one variable of that size; a large one makes a manifest file."""
    checkpoint_id = workflow.next_checkpoint_id()
    group = GroupData(
        group_id=GroupId(f"g{checkpoint_id}"),
        names=("x",),
        codec="pickle",
        pickle=random.Random(size_bytes).randbytes(size_bytes),  # what repeats would be stored once, in the event
        types=("bytes",),
    )
    variable = Variable(group_id=group.group_id, version=checkpoint_id, type="bytes", size_bytes=size_bytes)
    kept = workflow.checkpoints()
    workflow.commit(
        EventDraft(event_type="CheckpointCompleted", run_id="r"),
        Delta(checkpoint_id=checkpoint_id, parent=kept[-1].id if kept else None, names={"x": variable}, groups=[group]),
    )


def read_sizes(workflow: Workflow) -> list[int]:
    """Return the size of the variable in each checkpoint."""
    return [workflow.manifest(info.id).names["x"].size_bytes for info in workflow.checkpoints()]


@pytest.fixture
def foreign() -> SimFiles:
    """Return a repository of somebody else, with an inline checkpoint and one with a manifest file."""
    files = SimFiles()
    workflow = open_as(files, fixed_key("the key of somebody else"))
    for size_bytes in SIZES:
        commit(workflow, size_bytes)
    workflow.close()
    return files


def test_a_foreign_repository_is_refused_and_unchanged(foreign: SimFiles) -> None:
    """Without a word of the user's nothing in it is read, and no byte is changed, the lease included."""
    before = foreign.snapshot()
    with pytest.raises(Untrusted, match="durable-nb trust FOLDER"):
        open_as(foreign, fixed_key())
    assert foreign.snapshot() == before


def test_trusted_once_it_is_read_and_continued_for_good(foreign: SimFiles, tmp_path: Path) -> None:
    """After trust, journal and manifests are read, this user's checkpoints follow, and a later process reads all."""
    assert trust(foreign, TrustStore(tmp_path / "trusted.json")) == 2
    workflow = open_as(foreign, fixed_key(), TrustStore(tmp_path / "trusted.json"), "k2")
    assert read_sizes(workflow) == list(SIZES)
    commit(workflow, 30)
    workflow.close()
    again = open_as(foreign, fixed_key(), TrustStore(tmp_path / "trusted.json"), "k3")
    assert read_sizes(again) == [*SIZES, 30]
    assert again.problems == []
    again.close()
    assert trust(foreign, TrustStore(tmp_path / "trusted.json")) == 1


def test_what_is_added_by_others_later_is_refused(foreign: SimFiles, tmp_path: Path) -> None:
    """Trust holds for what was there: a later event of the other person's is asked for again."""
    store = TrustStore(tmp_path / "trusted.json")
    trust(foreign, store)
    theirs = open_as(foreign, fixed_key("the key of somebody else"), kernel_id="k2")
    commit(theirs, 40)
    theirs.close()
    with pytest.raises(Untrusted):
        open_as(foreign, fixed_key(), store, "k3")


def test_a_foreign_manifest_in_an_own_journal_is_refused(tmp_path: Path) -> None:
    """A manifest file that another key signed is not read, even with the body that the journal names."""
    files = SimFiles()
    workflow = open_as(files, fixed_key())
    commit(workflow, 100_000)
    workflow.close()
    (path,) = [path for path in files.snapshot() if "/manifests/" in path]
    body = files.read(path).split(b"\n")[0]
    files.replace(path, body + b'\n{"hmac_sha256":"' + b"0" * 64 + b'","key_id":"0000000000000000"}\n')
    with pytest.raises(Untrusted):
        read_sizes(open_as(files, fixed_key(), kernel_id="k2"))
