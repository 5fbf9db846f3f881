"""The writer process: what a kernel handed over is finished, whoever of the two dies, and whatever the disk does."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from durable_nb.engine import saving
from durable_nb.errors import CheckpointError, LeaseHeld
from durable_nb.model import CheckpointId, EventDraft
from durable_nb.store.files import LocalFiles
from durable_nb.store.lease import holders
from durable_nb.store.process_identity import is_alive
from durable_nb.store.repository import folder_name
from durable_nb.testing.handing import FAULTY, NOTEBOOK, HandingKernel, delta_of, open_here, value_of
from durable_nb.testing.invariants import (
    completed_attempts_have_their_checkpoint,
    head_is_whole,
    history_is_a_valid_word,
)

BUDGET = 8 << 20
BIG = 3 << 20
FOLDER = f"workflows/{folder_name(NOTEBOOK)}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a repository; what the faulty writer looks for lies beside it."""
    return tmp_path / "repo"


@pytest.fixture
def kernel(root: Path) -> Iterator[HandingKernel]:
    """A kernel with a writer that can be told to fail, and one checkpoint."""
    with HandingKernel(root) as made:
        made.do("begin")
        made.do("commit", "x", 1, BIG)
        writer = made.do("start_writer", FAULTY, BUDGET)
        assert writer is not None
        yield made
    # A test that failed may have left it waiting.
    if any(owner.pid == writer and is_alive(owner) for owner in holders(LocalFiles(root), f"{FOLDER}/leases")):
        os.kill(writer, signal.SIGKILL)
        wait_for_writers(root)


def wait_for_writers(root: Path) -> None:
    """Return when every process that holds the lease has ended."""
    for owner in holders(LocalFiles(root), f"{FOLDER}/leases"):
        while is_alive(owner):
            os.sched_yield()


def hold(root: Path, point: str) -> Path:
    """Let the writer wait at a point until `release`."""
    pipe = root.parent / f"wait-at-{point}"
    os.mkfifo(pipe)
    return pipe


def release(pipe: Path) -> None:
    """Let the writer go on; only once it is there."""
    descriptor = os.open(pipe, os.O_WRONLY)
    pipe.unlink()
    os.close(descriptor)


def content(root: Path) -> dict[str, bytes]:
    """Open as the next kernel does, check the invariants, and return the variables of the newest checkpoint."""
    wait_for_writers(root)
    repository, workflow = open_here(root)
    try:
        history_is_a_valid_word(workflow.events())
        completed_attempts_have_their_checkpoint(workflow)
        head_is_whole(workflow)
        there = [info.id for info in workflow.checkpoints()]
        manifest = workflow.manifest(there[-1])
        found = {
            name: bytes(workflow.read_group(manifest.groups[variable.group_id])[1][0])
            for name, variable in manifest.names.items()
        }
    finally:
        workflow.close()
    assert repository.verify().problems == ()
    assert LocalFiles(root).list(f"{FOLDER}/inflight") == [], "hand-over files are left"
    return found


def test_what_was_handed_over_becomes_durable_in_order(root: Path, kernel: HandingKernel) -> None:
    """Commits are completed in the order of their hand-over, and their events come with the next look."""
    handed = []
    for seed in range(2, 7):
        kernel.do("begin")
        handed.append(kernel.do("hand_over", "xy"[seed % 2], seed, BIG if seed == 4 else 5_000))
    status = kernel.do("drain")
    assert handed == ["c2", "c3", "c4", "c5", "c6"]
    assert status["saving"] == []
    assert len(status["news"]) == 5
    assert status["news"] == sorted(status["news"])
    assert kernel.do("read", "x")
    kernel.do("close")
    assert content(root) == {"x": value_of(6, 5_000), "y": value_of(5, 5_000)}


def test_small_appends_do_not_wait_for_a_large_commit(root: Path, kernel: HandingKernel) -> None:
    """A hundred starts are durable while a commit is in flight, which then comes after them in the history."""
    pipe = hold(root, "before-pack")
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    starts = [kernel.do("begin") for _ in range(100)]
    assert kernel.do("status")["saving"] == ["c2"]
    release(pipe)
    news = kernel.do("drain")["news"]
    assert news == [starts[-1] + 1]
    assert starts == list(range(starts[0], starts[0] + 100))


def test_reading_back_what_is_in_flight_waits_for_it(root: Path, kernel: HandingKernel) -> None:
    """A group whose chunks have no name yet is read as soon as it is stored, and is what it was."""
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    kernel.do("begin")
    kernel.do("hand_over", "x", 3, BIG)
    assert kernel.do("read", "x")


@pytest.mark.parametrize("point", ["copied", "logged", "handed-over"])
def test_a_kernel_that_dies_while_it_hands_over(root: Path, kernel: HandingKernel, point: str) -> None:
    """What it answered for is there; the commit that it died over is there as a whole or not at all."""
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    kernel.do("begin")
    kernel.do("die_at", point)
    with pytest.raises(EOFError):
        kernel.do("hand_over", "y", 3, BIG)
    found = content(root)
    expected = {"x": value_of(2, BIG)} | ({} if point == "copied" else {"y": value_of(3, BIG)})
    assert found == expected


def test_the_writer_outlives_its_kernel(root: Path, kernel: HandingKernel) -> None:
    """It is in a session of its own, finishes what is in flight, gives the lease back and ends."""
    writer = kernel.do("status")["writer"]
    assert os.getsid(writer) == writer
    pipe = hold(root, "before-event")
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    kernel.kill()
    with pytest.raises(LeaseHeld) as caught:
        open_here(root)
    assert caught.value.details["draining"]
    assert caught.value.details["pid"] == writer
    release(pipe)
    assert content(root) == {"x": value_of(2, BIG)}


@pytest.mark.parametrize(
    "point",
    ["taken", "before-pack", "after-pack", "after-manifest", "before-event", "appended", "after-event", "answered"],
)
def test_a_writer_that_dies(root: Path, kernel: HandingKernel, point: str) -> None:
    """The kernel notices, knows what is durable and what is not, and goes on by itself."""
    kernel.do("begin")
    (root.parent / "die-at").write_text(point)
    kernel.do("hand_over", "x", 2, BIG)
    status = kernel.do("drain")
    news = status["news"]
    while status["writer"] is not None:  # it had answered, and is about to die
        status = kernel.do("status")
        news += status["news"]
    durable = point in ("appended", "after-event", "answered")
    assert status["setback"][1] == ([] if durable else ["c2"])
    assert status["head"] == ("c2" if durable else "c1")
    assert len(news) == durable
    assert kernel.do("begin") > 0
    assert kernel.do("hand_over", "x", 3, BIG) == "sync"
    assert kernel.do("read", "x")
    kernel.do("close")
    assert content(root) == {"x": value_of(3, BIG)}


@pytest.mark.parametrize("point", ["taken", "before-pack", "after-pack", "before-event", "after-event"])
def test_both_die_and_the_next_kernel_finishes(root: Path, kernel: HandingKernel, point: str) -> None:
    """What was handed over is carried out when the workflow is opened again, each commit once and in order."""
    pipe = hold(root, point)
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    kernel.do("begin")
    kernel.do("hand_over", "x", 3, BIG)
    kernel.do("begin")
    kernel.do("hand_over", "y", 4, 1_000)
    writer = kernel.do("status")["writer"]
    descriptor = os.open(pipe, os.O_WRONLY)  # the writer is there now
    kernel.kill()
    os.kill(writer, signal.SIGKILL)
    os.close(descriptor)
    wait_for_writers(root)
    _, workflow = open_here(root)
    assert workflow.left_over.refused == ()
    assert workflow.left_over.finished == (("c3", "c4") if point == "after-event" else ("c2", "c3", "c4"))
    workflow.close()
    assert content(root) == {"x": value_of(3, BIG), "y": value_of(4, 1_000)}


def both_dead(root: Path, kernel: HandingKernel) -> tuple[Path, Path]:
    """Let both die with two commits in flight; return log and arena."""
    pipe = hold(root, "taken")
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    kernel.do("begin")
    kernel.do("hand_over", "y", 3, BIG)
    writer = kernel.do("status")["writer"]
    descriptor = os.open(pipe, os.O_WRONLY)
    kernel.kill()
    os.kill(writer, signal.SIGKILL)
    os.close(descriptor)
    wait_for_writers(root)
    pipe.unlink()
    inflight = root / FOLDER / "inflight"
    return next(inflight.glob("*.log")), next(inflight.glob("*.arena"))


def test_a_torn_record_is_dropped_and_told(root: Path, kernel: HandingKernel) -> None:
    """A log that ends in the middle of a record gives what came before it."""
    log, _ = both_dead(root, kernel)
    os.truncate(log, log.stat().st_size - 10)
    _, workflow = open_here(root)
    assert workflow.left_over.finished == ("c2",)
    assert ["cut off" in text for text in workflow.left_over.refused] == [True]
    workflow.close()
    assert content(root) == {"x": value_of(2, BIG)}


@pytest.mark.parametrize("which", ["log", "arena"])
def test_what_somebody_else_wrote_is_never_carried_out(root: Path, kernel: HandingKernel, which: str) -> None:
    """One changed byte in the log or the arena, and the commit that it belongs to and those behind it are refused."""
    log, arena = both_dead(root, kernel)
    changed = log if which == "log" else arena
    data = bytearray(changed.read_bytes())
    data[1000] ^= 1
    changed.write_bytes(data)
    _, workflow = open_here(root)
    assert workflow.left_over.finished == ()
    assert len(workflow.left_over.refused) == 1
    workflow.close()
    assert content(root) == {"x": value_of(1, BIG)}


def test_a_full_disk_in_the_writer(root: Path, kernel: HandingKernel) -> None:
    """The commit in flight and those behind it count as never made, the kernel is told why, and goes on by itself."""
    (root.parent / "full").touch()
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    kernel.do("begin")
    # The writer may have failed by now, and then this one is not even handed over.
    handed = kernel.do("hand_over", "y", 3, 1_000)
    status = kernel.do("drain")
    assert "No space left" in status["setback"][0]
    assert status["setback"][1] == (["c2"] if handed == "failed" else ["c2", "c3"])
    assert "No space left" in status["no_writer"]
    assert kernel.do("hand_over", "x", 4, BIG) == "sync"
    kernel.do("close")
    assert content(root) == {"x": value_of(4, BIG)}


def test_a_disk_that_is_full_when_the_kernel_is_gone(root: Path, kernel: HandingKernel) -> None:
    """The writer cannot finish; the next kernel does, when there is room again."""
    pipe = hold(root, "taken")
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    (root.parent / "full").touch()
    kernel.kill()
    release(pipe)
    wait_for_writers(root)
    (root.parent / "full").unlink()
    assert content(root) == {"x": value_of(2, BIG)}


def test_what_does_not_fit_into_the_budget_waits(root: Path, kernel: HandingKernel) -> None:
    """A third commit has no room while two are in flight; one that never fits is made in the kernel."""
    pipe = hold(root, "before-pack")
    kernel.do("begin")
    assert kernel.do("hand_over", "x", 2, 7 << 20) == "c2"
    kernel.do("begin")
    assert kernel.do("hand_over", "y", 3, 7 << 20) == "full"
    assert kernel.do("hand_over", "z", 3, 2_000) == "c3"
    release(pipe)
    kernel.do("drain")
    kernel.do("begin")
    assert kernel.do("hand_over", "y", 3, 7 << 20) == "c4"
    kernel.do("begin")
    assert kernel.do("hand_over", "x", 4, BUDGET * 3) == "sync"
    kernel.do("close")
    assert content(root) == {"x": value_of(4, BUDGET * 3), "y": value_of(3, 7 << 20), "z": value_of(3, 2_000)}


def test_the_journal_goes_back_and_forth(root: Path, kernel: HandingKernel) -> None:
    """A kernel that takes its journal back and starts another writer continues one history."""
    for seed in range(2, 5):
        kernel.do("begin")
        kernel.do("hand_over", "x", seed, BIG)
        kernel.do("stop_writer")
        kernel.do("begin")
        kernel.do("commit", "y", seed, 2_000)
        assert kernel.do("start_writer", FAULTY, BUDGET) is not None
    kernel.do("close")
    assert content(root) == {"x": value_of(4, BIG), "y": value_of(4, 2_000)}


def test_a_forked_child_is_refused(root: Path, kernel: HandingKernel) -> None:
    """It shares the connection to the writer and the files; it can neither write nor take an answer away."""
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    assert kernel.do("fork") == "StaleEpoch StaleEpoch StaleEpoch StaleEpoch"
    kernel.do("begin")
    kernel.do("hand_over", "y", 3, BIG)
    assert len(kernel.do("drain")["news"]) == 2
    kernel.do("close")
    assert content(root) == {"x": value_of(2, BIG), "y": value_of(3, BIG)}


def test_what_was_collected_is_stored_again(root: Path, kernel: HandingKernel) -> None:
    """A value that comes back after its chunks were collected is handed over anew, not by the names of what is gone."""
    for seed in (2, 3):
        kernel.do("begin")
        kernel.do("hand_over", "x", seed, BIG)
    assert kernel.do("collect") > 0
    assert kernel.do("start_writer", FAULTY, BUDGET) is not None
    kernel.do("begin")
    kernel.do("hand_over", "x", 2, BIG)
    kernel.do("close")
    assert content(root) == {"x": value_of(2, BIG)}


def survive(root: Path, kills: int) -> None:
    """Kill kernels at random moments, now and then with their writer; nothing that was answered for is ever lost."""
    seed = int(os.environ.get("DURABLE_NB_TEST_SEED", random.SystemRandom().randrange(10**6)))
    print(f"seed {seed}")
    rng = random.Random(seed)
    answered: dict[str, bytes] = {}
    for life in range(kills):
        with HandingKernel(root, f"k{life}") as kernel:
            writer = kernel.do("start_writer", FAULTY, BUDGET)
            for _ in range(rng.randrange(1, 6)):
                name, value, size = rng.choice("xyz"), rng.randrange(10**6), rng.choice((500, 100_000, 2 << 20))
                kernel.do("begin")
                while (made := kernel.do("hand_over", name, value, size)) == "full":
                    kernel.do("drain")
                answered[name] = value_of(value, size)
                assert made != "sync"
            kernel.kill()
            if rng.random() < 0.3:
                os.kill(writer, signal.SIGKILL)
        assert content(root) == answered, f"seed {seed}, life {life}"


def test_20_random_kills(root: Path) -> None:
    """No answered commit is lost in 20 lives that end by SIGKILL."""
    survive(root, 20)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_200_random_kills(root: Path) -> None:
    """The long form: 200 lives."""
    survive(root, 200)


def test_the_writer_imports_the_store_and_nothing_else() -> None:
    """It starts fast and stays small: no capture, no engine, no IPython, nothing of the user's environment."""
    program = (
        "import sys; before = set(sys.modules); import durable_nb.store.writer; "
        "print(*sorted({m.split('.')[0] if not m.startswith('durable_nb.') else m for m in set(sys.modules) - before}))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    ours = {m.split(".")[1] for m in loaded if m.startswith("durable_nb.")}
    assert ours == {"chunking", "clock", "errors", "model", "ports", "resources", "store"}
    assert {
        m for m in loaded if m.split(".")[0] not in sys.stdlib_module_names and m.split(".")[0] != "durable_nb"
    } == {
        "xxhash",
        "zstandard",
    }


def test_what_builds_on_a_commit_that_was_lost_meanwhile(root: Path) -> None:
    """It is refused as overtaken, so that the cell is looked at and stored anew, and not taken for a defect."""
    _, workflow = open_here(root)
    lost = replace(delta_of(workflow, CheckpointId("c8"), "x", b"2"), checkpoint_id=CheckpointId("c9"))
    with pytest.raises(CheckpointError, match="c9 was not saved, because saving in the background has failed"):
        workflow.commit(EventDraft(event_type="CheckpointCompleted", run_id="r", payload={}), lost)
    workflow.close()


def test_a_cell_is_saved_once_more_when_its_save_has_found_the_writer_dead() -> None:
    """The setback was taken in while the save waited for room: the second try builds on what is durable."""
    workflow = SimpleNamespace(no_writer="", setback=lambda: None)
    engine: Any = SimpleNamespace(workflow=workflow)
    tries = []

    def save() -> str:
        tries.append(workflow.no_writer)
        if not workflow.no_writer:
            workflow.no_writer = "it has failed"
            raise CheckpointError("overtaken")
        return "saved"

    assert (saving.twice(engine, save), tries) == ("saved", ["", "it has failed"])


def test_a_save_that_fails_by_itself_is_not_tried_again() -> None:
    """An error that no setback explains is the cell's to tell."""
    workflow = SimpleNamespace(no_writer="", setback=lambda: None)
    engine: Any = SimpleNamespace(workflow=workflow)

    def save() -> None:
        raise CheckpointError("the disk is full")

    with pytest.raises(CheckpointError, match="the disk is full"):
        saving.twice(engine, save)
