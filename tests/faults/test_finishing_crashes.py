"""The machine loses power while the next kernel finishes what was handed over, within every operation."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from durable_nb.model import CheckpointId, Delta, EventDraft
from durable_nb.ports import Files
from durable_nb.store.commits import Plan
from durable_nb.store.completing import Completing
from durable_nb.store.handover import (
    FOLDER,
    FORMAT,
    arena_path,
    draft_to_json,
    encode_record,
    fingerprint,
    log_path,
    seed_of,
)
from durable_nb.store.known import Known
from durable_nb.store.pending import Ticket
from durable_nb.store.preparing import Prepared, prepare
from durable_nb.store.workflow import Workflow
from durable_nb.testing import invariants
from durable_nb.testing.handing import delta_of
from durable_nb.testing.scenario import KEY, NOTEBOOK, open_repository, owner, randbytes
from durable_nb.testing.simfiles import READING, SimFiles, SimulatedCrash

X, Y = randbytes(1, 90_000), randbytes(2, 150_000)
SEEDS = range(3)


def started(attempt: int) -> EventDraft:
    """Return the beginning of a cell."""
    return EventDraft(event_type="ActivityStarted", run_id="r1", activity_id="cell", attempt=attempt)


def write_synced(files: Files, path: str, content: bytes) -> None:
    """Write a file that a power cut leaves alone, so that the crash is about what is made of it."""
    file = files.create(path)
    file.write(content)
    file.sync()
    file.close()
    files.sync_folder(path.rpartition("/")[0])


def hand_over(files: Files, workflow: Workflow, prepared: list[Prepared]) -> None:
    """Lay out a log and an arena as a kernel leaves them that died with its writer."""
    nonce, arena, log = "n", b"", b""
    for number, one in enumerate(prepared, 1):
        offsets, lengths, prints = [], [], b""
        for piece in one.pieces:
            offsets.append(len(arena))
            lengths.append(len(piece))
            prints += fingerprint(piece, seed_of(nonce, KEY))
            arena += piece
        header = {
            "format": FORMAT, "number": number, "oldest": 1, "epoch": 1, "kernel_id": "k1", "boot_id": "",
            "nonce": nonce, "draft": draft_to_json(one.draft), "also": [], "body": one.body, "chunks": one.chunks,
            "attachments": [], "in_arena": True, "offsets": offsets, "lengths": lengths,
        }  # fmt: skip
        log += encode_record(header, b"", prints, KEY)
    files.make_folder(f"{workflow.folder}/{FOLDER}")
    write_synced(files, arena_path(workflow.folder, 1), arena)
    write_synced(files, log_path(workflow.folder, 1), log)


def left_behind(**faults: bool) -> SimFiles:
    """Return a disk with one checkpoint, and two more in flight of which the second builds on chunks of the first."""
    files = SimFiles(**faults)
    repository = open_repository(files)
    workflow = repository.workflow(NOTEBOOK, kernel_id="k1", owner=owner(1))
    workflow.append([started(1)])
    draft = EventDraft(event_type="ActivityCompleted", run_id="r1", activity_id="cell", attempt=1)
    workflow.commit(draft, delta_of(workflow, None, "x", b"first"))
    workflow.append([started(2), started(3)])
    handed: list[Prepared] = []
    tickets: dict[int, Ticket] = {}
    parent, known = workflow.manifest(CheckpointId("c1")), Known()
    for number, (name, value) in enumerate([("x", X), ("x", X + Y)], 1):
        delta = delta_of(workflow, parent.checkpoint_id, name, value)
        checkpoint_id = CheckpointId(f"c{number + 1}")
        ticket = tickets[number] = Ticket(number, checkpoint_id, lambda ticket: None)
        draft = EventDraft(event_type="ActivityCompleted", run_id="r1", activity_id="cell", attempt=number + 1)
        one = prepare(
            ticket, draft, replaced(delta, checkpoint_id), {}, (), parent=parent, depth=number - 1, corrupted=False,
            known=known, tickets=tickets, workflow_id=NOTEBOOK,
        )  # fmt: skip
        parent = one.manifest
        known.update(parent.groups, one.marks)
        handed.append(one)
    hand_over(files, workflow, handed)
    workflow.close(release=False)
    return files


def replaced(delta: Delta, checkpoint_id: CheckpointId) -> Delta:
    """Give a delta the id that it gets when the one before it is still in flight."""
    names = {n: replace(v, version=checkpoint_id) if v else None for n, v in delta.names.items()}
    return replace(delta, checkpoint_id=checkpoint_id, names=names)


def operations() -> list[int]:
    """Return the numbers of the operations of the finishing that change the disk."""
    files = left_behind()
    before = len(files.operations)
    open_repository(files).workflow(NOTEBOOK, kernel_id="k2", owner=owner(2)).close()
    return [n for n, kind in enumerate(files.operations[before:], 1) if kind not in READING]


def crash_points() -> Iterator[tuple[int, int]]:
    """Yield (operation, seed) for every crash to try."""
    numbers = operations()
    for seed in SEEDS:
        for n in numbers:
            yield n, seed


def crash_and_check(n: int, seed: int) -> None:
    """Crash within operation `n` of the finishing, open again, and check that both commits are there, once."""
    files = left_behind()
    files.crash_at(n, seed=seed)
    with pytest.raises(SimulatedCrash):
        open_repository(files).workflow(NOTEBOOK, kernel_id="k2", owner=owner(2)).close()
    disk = files.crash(random.Random(seed * 10_007 + n))
    repository = open_repository(disk)
    workflow = repository.workflow(NOTEBOOK, kernel_id="k3", owner=owner(3))
    invariants.history_is_a_valid_word(workflow.events())
    invariants.completed_attempts_have_their_checkpoint(workflow)
    assert [info.id for info in workflow.checkpoints()] == ["c1", "c2", "c3"]
    assert invariants.restored(workflow, CheckpointId("c2")) == {("x",): (b"a pickle", (X,))}
    assert invariants.restored(workflow, CheckpointId("c3")) == {("x",): (b"a pickle", (X + Y,))}
    assert [p for p in repository.verify().problems if p.kind != "torn_tail"] == []
    workflow.close()


def test_every_crash_while_finishing_leaves_both_commits() -> None:
    """Chunks, manifest, event: whatever operation the power is lost in, the next opening finishes the rest."""
    for n, seed in crash_points():
        try:
            crash_and_check(n, seed)
        except BaseException as error:
            error.add_note(f"operation {n}, seed {seed}")
            raise


def test_event_before_manifest_fails_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finishing in another order has heads that name nothing, and the check above sees it."""

    def event_first(self: Completing, plan: Plan) -> object:
        events = self._store_events(plan)
        self._store_chunks(plan)
        self._store_manifest(plan)
        return events

    monkeypatch.setattr(Completing, "_make_true", event_first)
    broken = 0
    for n, seed in crash_points():
        try:
            crash_and_check(n, seed)
        except Exception:
            broken += 1
    assert broken > 0
