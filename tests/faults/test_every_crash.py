"""The machine loses power within every operation of a small life of a repository, with unsynced data and names lost."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from durable_nb.errors import DurableError
from durable_nb.model import Event
from durable_nb.store.workflow import Workflow
from durable_nb.testing import invariants
from durable_nb.testing.scenario import NOTEBOOK, Scenario, open_repository, owner
from durable_nb.testing.simfiles import READING, SimFiles, SimulatedCrash

SHORT_SEEDS = range(2)
LONG_SEEDS = range(40)


def changing_operations() -> list[int]:
    """Return the numbers of the operations that change the disk: a crash within another is a crash between two."""
    files = SimFiles()
    Scenario().run(files)
    return [n for n, kind in enumerate(files.operations, 1) if kind not in READING]


def crash_points(seeds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (operation, seed) for every crash to try."""
    operations = changing_operations()
    for seed in seeds:
        for n in operations:
            yield n, seed


def crash_and_check(n: int, seed: int, **faults: bool) -> None:
    """Crash within operation `n`, recover as the next kernel does, and check everything that was promised."""
    files = SimFiles(**faults)
    files.crash_at(n, seed=seed)
    life = Scenario()
    with pytest.raises(SimulatedCrash):
        life.run(files)
    check_recovery(life, files.crash(random.Random(seed * 10_007 + n)))


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
            assert life.attachments[info.id] == workflow.attachment(info.event, "outputs")
    invariants.completed_attempts_have_their_checkpoint(workflow)
    invariants.history_is_a_valid_word(workflow.events())


def take_over(life: Scenario, workflow: Workflow) -> None:
    """Let the model know which way the interrupted step went."""
    there = {info.id for info in workflow.checkpoints()}
    if life.in_flight is not None and life.in_flight[0] in there:
        life.acknowledged[life.in_flight[0]] = life.in_flight[1]
        life.acknowledged = {cid: life.acknowledged[cid] for cid in sorted(there, key=lambda c: int(c[1:]))}
    life.in_flight = None


def broken_points(seeds: Sequence[int], **faults: bool) -> list[tuple[int, int]]:
    """Return the crash points at which the check fails."""
    broken = []
    for n, seed in crash_points(seeds):
        try:
            crash_and_check(n, seed, **faults)
        except (AssertionError, DurableError, KeyError):
            broken.append((n, seed))
            if len(broken) >= 5:
                break
    return broken


def test_every_crash_leaves_what_was_acknowledged() -> None:
    """After a crash within any operation, acknowledged checkpoints restore and nothing is half applied."""
    for n, seed in crash_points(SHORT_SEEDS):
        try:
            crash_and_check(n, seed)
        except BaseException as error:
            error.add_note(f"operation {n}, seed {seed}")
            raise


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_every_crash_leaves_what_was_acknowledged_long() -> None:
    """The same with forty seeds for what is torn and lost."""
    for n, seed in crash_points(LONG_SEEDS):
        crash_and_check(n, seed)


def test_without_file_sync_the_check_fails() -> None:
    """A store that does not sync its files loses acknowledged checkpoints, and the crash test sees it."""
    assert broken_points(SHORT_SEEDS, ignore_file_sync=True)


def test_without_folder_sync_the_check_fails() -> None:
    """A store that does not sync its folders loses acknowledged checkpoints, and the crash test sees it."""
    assert broken_points(SHORT_SEEDS, ignore_folder_sync=True)


def test_event_before_manifest_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that writes the event before the manifest has heads that name nothing, and the crash test sees it."""

    def event_first(self: Workflow, plan: object) -> list[Event]:
        events = self._store_events(plan)
        self._store_chunks(plan)
        self._store_manifest(plan)
        return events

    monkeypatch.setattr(Workflow, "_make_true", event_first)
    assert broken_points(SHORT_SEEDS)


def test_named_crash_points_are_reached_in_the_order_of_the_crash_table() -> None:
    """A commit passes after-pack, after-manifest, before-event, after-event, and gc passes after-gc-write."""
    repository = open_repository(SimFiles())
    passed: list[str] = []
    repository.reached = passed.append
    life = Scenario()
    life.commit(life.open(repository), {"a": (b"x" * 10, ())})
    life.collect(repository)
    assert passed == ["after-pack", "after-manifest", "before-event", "after-event", "after-gc-write"]
