"""Two kernels on one workflow: real processes that live, are killed, become zombies; hosts that cannot be asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from durable_nb.errors import LeaseHeld, StaleEpoch
from durable_nb.model import Owner
from durable_nb.store.files import LocalFiles
from durable_nb.store.journal import FileJournal
from durable_nb.store.lease import Lease, current_owner
from durable_nb.store.process_identity import is_alive, this_process
from durable_nb.testing.clock import ManualClock
from durable_nb.testing.journals import FOLDER, draft, fake_owner, fixed_key, open_journal
from durable_nb.testing.simfiles import SimFiles

LEASES = "workflows/w1/leases"
POSIX = pytest.mark.skipif(os.name == "nt", reason="signals as on POSIX")
CHILD = """
import sys
from pathlib import Path
from durable_nb.store.files import LocalFiles
from durable_nb.store.journal import FileJournal
from durable_nb.store.process_identity import this_process
from durable_nb.testing.clock import ManualClock
from durable_nb.testing.journals import FOLDER, draft, fixed_key

clock = ManualClock()
journal = FileJournal.open(
    LocalFiles(Path(sys.argv[1])), FOLDER, workflow_id="w1", key=fixed_key(), clock=clock, kernel_id="child",
    owner=this_process("child", clock),
)
n = 0
for line in sys.stdin:
    if line == "exit\\n":
        journal.close()
        break
    try:
        journal.append([draft(n), draft(n + 1)])
        n += 2
        print("done", n, flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


class Child:
    """A kernel in a process of its own."""

    def __init__(self, root: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def append(self) -> str:
        """Let it append two events; return what it says."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("append\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        """End it in whatever state it is."""
        self.process.kill()
        self.process.communicate(timeout=30)


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    """Start a child that holds the lease, with its first two events written."""
    made = Child(tmp_path)
    assert made.append() == "done 2"
    yield made
    made.close()


def open_here(root: Path, *, take_over: bool = False) -> FileJournal:
    """Open the journal as this process, with the real question whether the holder lives."""
    clock = ManualClock()
    return FileJournal.open(
        LocalFiles(root),
        FOLDER,
        workflow_id="w1",
        key=fixed_key(),
        clock=clock,
        kernel_id="parent",
        owner=this_process("parent", clock),
        take_over=take_over,
    )


def test_a_live_kernel_keeps_its_lease_and_can_be_read(tmp_path: Path, child: Child) -> None:
    """The second kernel is told pid, host, since and kernel, reads everything, and the first one goes on."""
    with pytest.raises(LeaseHeld, match=f"process {child.process.pid} on .* since 2023-11-14 22:13:20 UTC") as caught:
        open_here(tmp_path)
    assert caught.value.details["kernel_id"] == "child"
    assert caught.value.details["since"] == 1_700_000_000_000_000
    reader = open_journal(LocalFiles(tmp_path), read_only=True)
    assert [event.payload["n"] for event in reader.read()] == [0, 1]
    assert child.append() == "done 4"
    assert [event.payload["n"] for event in reader.read(2)] == [2, 3]


@POSIX
def test_a_killed_kernel_is_followed_at_once(tmp_path: Path, child: Child) -> None:
    """After kill -9 the lease is free at once, reaped or zombie, and nothing acknowledged is lost."""
    child.process.send_signal(signal.SIGKILL)
    # Wait without reaping: the parent of a killed kernel may be busy, and a zombie must not hold a lease.
    os.waitid(os.P_PID, child.process.pid, os.WEXITED | os.WNOWAIT)
    journal = open_here(tmp_path)
    assert journal.owner is not None
    assert journal.owner.epoch == 2
    journal.append([draft(2)])
    assert [event.payload["n"] for event in journal.read()] == [0, 1, 2]
    journal.close()
    child.process.wait(timeout=30)
    assert open_here(tmp_path).append([draft(3)])[0].epoch == 3


@POSIX
def test_a_stopped_kernel_that_was_overtaken_is_refused_when_it_wakes(tmp_path: Path, child: Child) -> None:
    """A kernel that slept through a takeover cannot write any more, and says so."""
    child.process.send_signal(signal.SIGSTOP)
    with pytest.raises(LeaseHeld):
        open_here(tmp_path)
    journal = open_here(tmp_path, take_over=True)
    journal.append([draft(2)])
    child.process.send_signal(signal.SIGCONT)
    assert child.append() == "StaleEpoch"
    assert [event.payload["n"] for event in journal.read()] == [0, 1, 2]
    assert journal.problems == []


def test_a_kernel_that_ends_in_order_gives_the_lease_back(tmp_path: Path, child: Child) -> None:
    """After an orderly end nobody holds the lease."""
    child.process.communicate("exit\n", timeout=30)
    assert current_owner(LocalFiles(tmp_path), LEASES) is None
    assert open_here(tmp_path).owner is not None


def test_the_identity_of_a_process_is_more_than_its_pid() -> None:
    """This process is alive; the same pid with another start time or boot is somebody else; another host is unknown."""
    me = this_process("k", ManualClock())
    other_start = replace(me, process_start="1") if me.process_start else replace(me, pid=2**22 + 5)
    assert [
        is_alive(me),
        is_alive(other_start),
        is_alive(replace(me, pid=0)),
        is_alive(replace(me, boot_id="another boot") if me.boot_id else replace(me, pid=-1)),
        is_alive(replace(me, host="elsewhere")),
    ] == [True, False, False, False, None]


def take(files: SimFiles, kernel: str, clock: ManualClock, *, alive: bool | None, **options: object) -> Lease:
    """Take the lease on a simulated disk."""
    owner = fake_owner(kernel, pid=len(kernel) + 100)
    return Lease.acquire(files, LEASES, owner, clock=clock, alive=lambda holder: alive, **options)  # type: ignore[arg-type]


def test_another_host_is_respected_for_a_minute_after_its_last_event() -> None:
    """A host that cannot be asked keeps its lease while it writes; after a quiet minute the lease is taken over."""
    files, clock = SimFiles(), ManualClock()
    old = take(files, "k1", clock, alive=None)
    written_us = clock.now_us() + 30_000_000
    clock.advance(80)
    with pytest.raises(LeaseHeld, match="wrote less than a minute ago"):
        take(files, "other", clock, alive=None, last_sign=lambda: written_us)
    clock.advance(20)
    assert take(files, "other", clock, alive=None, last_sign=lambda: written_us).owner.epoch == 2
    with pytest.raises(StaleEpoch):
        old.check()


def test_the_same_kernel_is_not_its_own_rival() -> None:
    """Loading the extension again without unloading it takes the lease anew, and the old object is fenced off."""
    files, clock = SimFiles(), ManualClock()
    first = take(files, "k1", clock, alive=True)
    second = take(files, "k1", clock, alive=True)
    second.check()
    with pytest.raises(StaleEpoch):
        first.check()


def test_a_claim_that_was_never_completed_holds_nothing() -> None:
    """A kernel that died while claiming leaves an empty file; the next one goes past it."""
    files, clock = SimFiles(), ManualClock()
    take(files, "k1", clock, alive=False)
    files.create(f"{LEASES}/000002.json").close()
    assert take(files, "other", clock, alive=True).owner.epoch == 3


def test_two_claims_at_the_same_moment_have_one_winner() -> None:
    """Between looking and claiming another kernel may come first: exactly one of the two owns the epoch."""
    files, clock = SimFiles(), ManualClock()
    winners: list[Lease] = []
    real_create = files.create

    def create(path: str) -> object:
        files.create = real_create  # type: ignore[method-assign]
        winners.append(take(files, "first", clock, alive=True))
        return real_create(path)

    files.create = create  # type: ignore[method-assign, assignment]
    with pytest.raises(LeaseHeld, match="at the same moment"):
        take(files, "later", clock, alive=True)
    winners[0].check()
    assert current_owner(files, LEASES) == winners[0].owner


def test_a_claimer_that_fell_behind_does_not_win_an_old_epoch() -> None:
    """A kernel that was stopped between looking and claiming finds newer claims, and gives up."""
    files, clock = SimFiles(), ManualClock()
    real_create = files.create
    newest: list[Lease] = []

    def create(path: str) -> object:
        files.create = real_create  # type: ignore[method-assign]
        newest.extend(take(files, kernel, clock, alive=False) for kernel in ("a", "bb", "ccc"))
        return real_create(path)

    files.create = create  # type: ignore[method-assign, assignment]
    with pytest.raises(LeaseHeld):
        take(files, "later", clock, alive=True)
    newest[-1].check()
    assert current_owner(files, LEASES) == newest[-1].owner


def test_epochs_are_higher_than_any_journal_file() -> None:
    """When the lease files were lost, a new kernel still gets an epoch of its own."""
    files = SimFiles()
    for kernel in ("k1", "k2"):
        journal = open_journal(files, kernel)
        journal.append([draft(1)])
        journal.close()
    for name, _ in files.list(LEASES):
        files.remove(f"{LEASES}/{name}")
    assert open_journal(files, "k3").append([draft(2)])[0].epoch == 3


def test_old_claims_are_tidied_up() -> None:
    """However many kernels there were, the folder of leases stays small."""
    files, clock = SimFiles(), ManualClock()
    for _ in range(20):
        take(files, "k1", clock, alive=False).release()
    assert len(files.list(LEASES)) <= 4


def test_a_late_release_does_not_free_the_next_owner() -> None:
    """An old owner that lets go after it was overtaken changes nothing."""
    files, clock = SimFiles(), ManualClock()
    old = take(files, "k1", clock, alive=False)
    new = take(files, "k22", clock, alive=False)
    old.release()
    assert current_owner(files, LEASES) == new.owner


def test_an_owner_survives_its_file() -> None:
    """What is read from the claim is what was written."""
    files, clock = SimFiles(), ManualClock()
    owner: Owner = take(files, "k1", clock, alive=False).owner
    assert (owner.kernel_id, owner.pid, owner.epoch, owner.since) == ("k1", 102, 1, 1_700_000_000_000_000)
    assert current_owner(files, LEASES) == owner


class OneTick(LocalFiles):
    """A disk whose clock stands still: whatever happens to a folder, its time stays the same."""

    def stamp(self, path: str) -> object:
        """Return what every folder always had."""
        return 0


def test_a_takeover_in_one_tick_of_the_clock_is_found_before_the_append_returns(tmp_path: Path) -> None:
    """Where the time of the folder does not tell of the new claim, the look behind the write does."""
    old = open_journal(OneTick(tmp_path), "k1")
    old.append([draft(1)])
    new = open_journal(LocalFiles(tmp_path), "k2")
    new.append([draft(2)])
    with pytest.raises(StaleEpoch):
        old.append([draft(9)])
    new.append([draft(3)])
    read = open_journal(LocalFiles(tmp_path), "reader", read_only=True)
    assert [1, 2, 3] == [event.payload["n"] for event in read.read()]


def test_a_takeover_is_found_before_anything_is_written(tmp_path: Path) -> None:
    """The time of the folder tells of the new claim, and the old owner leaves its file alone."""
    old = open_journal(LocalFiles(tmp_path), "k1")
    old.append([draft(1)])
    path = tmp_path / FOLDER / "000001-k1.ndjson"
    before = path.read_bytes()
    claimed = tmp_path / LEASES / "000001.json"
    seen = (tmp_path / LEASES).stat().st_mtime_ns
    open_journal(LocalFiles(tmp_path), "k2")
    os.utime(tmp_path / LEASES, ns=(seen + 10**9, seen + 10**9))  # as if the clock had moved by then
    with pytest.raises(StaleEpoch):
        old.append([draft(9)])
    assert (before, True) == (path.read_bytes(), claimed.exists())
