"""The machine loses power within every operation of a small life of a repository, with unsynced data and names lost."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from durable_nb.errors import DurableError
from durable_nb.model import Event
from durable_nb.store.workflow import Workflow
from durable_nb.testing.recovery import check_recovery
from durable_nb.testing.scenario import Scenario, open_repository
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
