"""Bits flip in journal, manifest and pack: a clear message, nothing wrong is restored, everything undamaged is."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from durable_nb.errors import DurableError, FormatVersion, Integrity, RepositoryNotFound, Untrusted
from durable_nb.model import CheckpointId, EventDraft, Problem
from durable_nb.store.repository import Repository
from durable_nb.store.signing import SigningKey
from durable_nb.store.workflow import Workflow
from durable_nb.testing import invariants
from durable_nb.testing.clock import ManualClock
from durable_nb.testing.scenario import NOTEBOOK, Scenario, delta_of, open_repository
from durable_nb.testing.simfiles import SimFiles

FLIPS_PER_FILE = 25


def lived() -> tuple[SimFiles, Scenario]:
    """Return a disk with a whole repository on it, and what is in it."""
    files, life = SimFiles(), Scenario()
    life.run(files)
    return files, life


def places(files: SimFiles, part: str, flips: int = FLIPS_PER_FILE) -> list[tuple[str, int, int]]:
    """Return (path, offset, mask) of the bits to flip: the first and last bytes of each file, and random ones."""
    rng = random.Random(part)
    found = []
    for path, content in files.snapshot().items():
        if part in path and content:
            offsets = {0, 1, len(content) - 1, len(content) - 2, *(rng.randrange(len(content)) for _ in range(flips))}
            found += [(path, offset, 1 << rng.randrange(8)) for offset in sorted(offsets)]
    assert found
    return found


def reader(files: SimFiles) -> Workflow:
    """Open the notebook's history to read."""
    return open_repository(files).workflow(NOTEBOOK, kernel_id="reader", owner=None)


def unrestorable(workflow: Workflow, life: Scenario) -> set[CheckpointId]:
    """Return the checkpoints that do not come back; fail if one comes back as something else."""
    lost = set()
    for checkpoint_id, content in life.acknowledged.items():
        try:
            assert content == invariants.restored(workflow, checkpoint_id)
        except (Integrity, RepositoryNotFound, Untrusted):
            lost.add(checkpoint_id)
    return lost


def named(problems: Sequence[Problem]) -> set[str]:
    """Return the checkpoints that the problems take with them."""
    return {checkpoint_id for problem in problems for checkpoint_id in problem.checkpoints}


@pytest.mark.parametrize("part", ["/manifests/", "packs/"])
def test_a_flipped_bit_in_a_file_is_found_named_and_repaired(part: str) -> None:
    """`verify` names the object and exactly the lost checkpoints; after repair it is clean and work goes on."""
    whole, life = lived()
    for path, offset, mask in places(whole, part):
        files = whole.copy()
        files.damage(path, offset, mask)
        try:
            check_damage_and_repair(files, life, path)
        except BaseException as error:
            error.add_note(f"{path} at {offset}, mask {mask:#x}")
            raise


def check_damage_and_repair(files: SimFiles, life: Scenario, path: str) -> None:
    """Check the report against what really does not come back, repair, and work on."""
    name = path.rpartition("/")[2]
    lost = unrestorable(reader(files), life)
    report = open_repository(files).verify()
    assert named(report.problems) == lost
    if not report.problems:
        # The flip is in a part of a pack that nothing kept needs any more.
        assert not lost
        return
    assert all(problem.detail for problem in report.problems)
    objects = " ".join(problem.object + problem.detail for problem in report.problems)
    assert name in objects or "chunk" in objects
    foreign = {cid for problem in report.problems if problem.kind == "unsigned" for cid in problem.checkpoints}
    damaged_file = files.snapshot()[path]
    repaired = open_repository(files).verify(repair=True)
    assert all(problem.repaired for problem in repaired.problems if problem.kind != "unsigned")
    if not foreign:
        after = files.snapshot()
        kept = [content for place, content in after.items() if place.startswith("quarantine/")]
        assert [damaged_file] == kept or after.get(path) not in (None, damaged_file)
        assert open_repository(files).verify().problems == ()
    repository = open_repository(files)
    workflow = Scenario(kernels=10).open(repository)
    there = [info.id for info in workflow.checkpoints() if not info.corrupted]
    assert set(life.acknowledged) - lost == set(there) - foreign
    later = Scenario(kernels=10, acknowledged={cid: life.acknowledged[cid] for cid in there})
    if workflow.checkpoints()[-1].id in there and not foreign:
        later.commit(workflow, {"later": (b"after the repair", ())})
        assert invariants.restored(workflow, workflow.checkpoints()[-1].id)[("later",)] == (b"after the repair", ())


def test_a_flipped_bit_in_the_journal_costs_only_the_line_it_is_in() -> None:
    """The line is named with its checkpoint; every checkpoint that is not built on it comes back."""
    whole, life = lived()
    for path, offset, mask in places(whole, "/journal/"):
        files = whole.copy()
        files.damage(path, offset, mask)
        workflow = reader(files)
        lost = unrestorable(workflow, life)
        report = open_repository(files).verify()
        places_named = [problem for problem in report.problems if problem.object.startswith(path)]
        assert places_named, f"{path} at {offset}: {report.problems}"
        tail = {cid for cid in lost if int(cid[1:]) > int((workflow.checkpoints() or [None])[-1].id[1:])}
        assert lost - tail <= named(report.problems), f"{path} at {offset}"
        assert named(report.problems) <= lost | {"c2", "c6"}, f"{path} at {offset}"
        line = whole.snapshot()[path][:offset].count(b"\n") + 1
        assert any(problem.object in {f"{path}:{line}", f"{path}:{line + 1}"} for problem in places_named)


def test_after_repair_of_a_damaged_journal_the_newest_whole_checkpoint_is_built_on() -> None:
    """Checkpoints that hung on a lost line are marked, only the line itself stays reported, and work goes on."""
    whole, life = lived()
    for path, offset, mask in places(whole, "/journal/", flips=8):
        files = whole.copy()
        files.damage(path, offset, mask)
        lost = unrestorable(reader(files), life)
        open_repository(files).verify(repair=True)
        assert all(problem.object.startswith(path) for problem in open_repository(files).verify().problems)
        workflow = Scenario(kernels=10).open(open_repository(files))
        there = [info.id for info in workflow.checkpoints() if not info.corrupted]
        assert set(life.acknowledged) - lost <= set(there), f"{path} at {offset}"
        delta = delta_of(workflow, {"later": (b"after the repair", ())}, parent=there[-1])
        made = workflow.commit(EventDraft(event_type="CheckpointCompleted", run_id="r"), delta)
        workflow.close()
        found = invariants.restored(reader(files), made.manifest.checkpoint_id)
        assert found == {**invariants.restored(reader(files), there[-1]), ("later",): (b"after the repair", ())}


def test_a_missing_pack_or_manifest_is_named_and_costs_only_what_needs_it() -> None:
    """A file that somebody deleted is reported as missing, with the checkpoints that it takes with it."""
    whole, life = lived()
    for path in whole.snapshot():
        if "/manifests/" not in path and not path.startswith("packs/"):
            continue
        files = whole.copy()
        files.remove(path)
        lost = unrestorable(reader(files), life)
        report = open_repository(files).verify()
        assert {"missing"} == {problem.kind for problem in report.problems}
        assert lost == named(report.problems)
        open_repository(files).verify(repair=True)
        assert open_repository(files).verify().problems == ()


def test_a_manifest_of_another_key_is_refused_with_one_clear_sentence_unless_trusted() -> None:
    """A repository of another user's key says so, and opens when it is trusted as a whole."""
    files, life = lived()
    other = SigningKey(b"another person's key, also long enough")
    clock = ManualClock(tick_us=1000)
    with pytest.raises(Untrusted) as caught:
        Repository.open(files, key=other, clock=clock).workflow(NOTEBOOK, kernel_id="k", owner=None)
    assert "not signed with your key" in str(caught.value)
    assert "trust" in caught.value.hint
    trusting = Repository.open(files, key=other, clock=clock, trust=True)
    workflow = trusting.workflow(NOTEBOOK, kernel_id="k", owner=None)
    invariants.acknowledged_checkpoints_are_there(workflow, life.acknowledged)


def test_gc_touches_nothing_where_a_needed_object_is_damaged() -> None:
    """Where a manifest cannot be read it is unknown what it needs, so gc removes nothing and says so."""
    files, _ = lived()
    path = next(path for path in files.snapshot() if "/manifests/c7-" in path)
    files.damage(path, 40)
    before = {p: c for p, c in files.snapshot().items() if not p.startswith("leases/")}
    with pytest.raises(Integrity):
        open_repository(files).gc()
    assert before == {p: c for p, c in files.snapshot().items() if not p.startswith("leases/")}


def test_a_newer_format_is_refused_and_an_unknown_flag_is_read_only() -> None:
    """FormatVersion, with nothing changed, for a repository of a newer durable_nb; unknown flags forbid writing."""
    files, life = lived()
    files.replace("FORMAT", b'{"flags":[],"format":"durable_nb","version":3}\n')
    before = files.snapshot()
    with pytest.raises(FormatVersion):
        open_repository(files)
    assert before == files.snapshot()
    files.replace("FORMAT", b'{"flags":["encrypted"],"format":"durable_nb","version":1}\n')
    invariants.acknowledged_checkpoints_are_there(reader(files), life.acknowledged)
    with pytest.raises(FormatVersion):
        life.open(open_repository(files))


@pytest.mark.parametrize("name", ["FORMAT", "workflow.json"])
def test_damage_in_the_labels_is_clear_or_harmless(name: str) -> None:
    """A flipped bit in FORMAT gives one clear sentence at worst; workflow.json is made good from the journal."""
    whole, life = lived()
    path = next(path for path in whole.snapshot() if path.endswith(name))
    refused: list[DurableError] = []
    for offset in range(len(whole.snapshot()[path])):
        files = whole.copy()
        files.damage(path, offset, 0x10)
        try:
            invariants.acknowledged_checkpoints_are_there(reader(files), life.acknowledged)
        except DurableError as error:
            refused.append(error)
    assert all(error.hint for error in refused)
    assert (name == "FORMAT") == bool(refused)
