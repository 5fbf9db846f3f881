"""What every journal promises, on a real disk and on the simulated one."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from durable_nb.errors import LeaseHeld
from durable_nb.ports import Files, Journal
from durable_nb.store.files import LocalFiles
from durable_nb.testing.journals import FOLDER, draft, open_journal
from durable_nb.testing.simfiles import SimFiles, SimulatedCrash


@pytest.fixture(params=["local", "simulated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """Return an empty disk of either kind."""
    return LocalFiles(tmp_path) if request.param == "local" else SimFiles()


def numbers(journal: Journal) -> list[int]:
    """Return the numbers of the events that are true."""
    return [event.payload["n"] for event in journal.read()]


def test_events_come_back_in_order(files: Files) -> None:
    """What was appended is read back, in order, by the writer, by a reader and by the next kernel."""
    journal = open_journal(files)
    events = [*journal.append([draft(0), draft(1)]), *journal.append([draft(2)])]
    assert [event.seq for event in events] == [1, 2, 3]
    assert events == list(journal.read())
    assert events == list(open_journal(files, read_only=True).read())
    journal.close()
    assert events == list(open_journal(files, "k2").read())


def test_nothing_appended_leaves_no_file(files: Files) -> None:
    """A kernel that records nothing leaves no journal file behind."""
    journal = open_journal(files)
    assert journal.append([]) == []
    journal.close()
    assert list(files.list(FOLDER)) == []


def test_reading_where_nothing_is(files: Files) -> None:
    """A workflow without a journal has no events, and reading makes nothing."""
    assert numbers(open_journal(files, read_only=True)) == []
    assert list(files.list(".")) == []


def test_the_owner_is_known(files: Files) -> None:
    """A writer knows its lease; epochs grow from kernel to kernel, also when no event was written."""
    epochs = []
    for kernel in ("k1", "k2", "k3"):
        journal = open_journal(files, kernel)
        assert journal.owner is not None
        epochs.append((journal.owner.kernel_id, journal.owner.epoch))
        journal.close()
    assert epochs == [("k1", 1), ("k2", 2), ("k3", 3)]


def test_a_second_writer_gets_the_owner_of_the_first(files: Files) -> None:
    """While the holder lives the lease is held; when it was given back it is free at once."""
    first = open_journal(files, "k1")
    with pytest.raises(LeaseHeld, match="process 101 on here") as caught:
        open_journal(files, "k2", alive=True)
    assert tuple(caught.value.details[name] for name in ("kernel_id", "pid", "host")) == ("k1", 101, "here")
    assert numbers(open_journal(files, "k2", read_only=True)) == []
    first.close(release=True)
    assert open_journal(files, "k2", alive=True).append([draft(1)])[0].epoch == 2


def test_threads_append_one_after_the_other(files: Files) -> None:
    """Appends from several threads become one chain with no gap."""
    journal = open_journal(files)
    threads = [
        threading.Thread(target=lambda: [journal.append([draft(0), draft(0)]) for _ in range(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = open_journal(files, read_only=True)
    assert list(range(1, 161)) == [event.seq for event in reader.read()]
    assert reader.problems == []


def scenario(files: SimFiles, done: list[int], on_error: Callable[[OSError], None]) -> None:
    """Append batches over two kernel lives; `done` gets the numbers that were acknowledged."""
    number = 0
    for kernel in ("k1", "k2"):
        for _ in range(20):
            try:
                journal = open_journal(files, kernel, rotate_bytes=3_000)
                break
            except OSError as error:
                on_error(error)
        for size in (1, 3, 1, 2):
            batch = list(range(number, number + size))
            try:
                journal.append([draft(n) for n in batch])
                done += batch
            except OSError as error:
                on_error(error)
            number += size
        try:
            journal.close()
        except OSError as error:
            on_error(error)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_every_io_failing_once(code: int) -> None:
    """Whatever call fails, a failed batch is not true at all, every other one is, and the next append succeeds."""
    for n in range(1, 10_000):
        files, done, errors = SimFiles(), [], []
        files.fail_at(n, OSError(code, "simulated"))
        scenario(files, done, errors.append)
        reader = open_journal(files.copy(), read_only=True)
        assert done == numbers(reader), n
        assert reader.problems == [], n
        if not errors:
            break
    assert n > 40


def test_two_failures_in_a_row_leave_no_torn_line_in_the_middle() -> None:
    """When the write fails and cutting it back fails too, the journal goes on in a new file."""
    files = SimFiles()
    journal = open_journal(files)
    journal.append([draft(0)])
    failing = journal._file

    class Failing:
        def __getattr__(self, name: str) -> object:
            return getattr(failing, name)

        def sync(self) -> None:
            raise OSError(errno.EIO, "simulated")

        def truncate(self, size_bytes: int) -> None:
            raise OSError(errno.EIO, "simulated")

    journal._file = Failing()  # type: ignore[assignment]
    with pytest.raises(OSError, match="simulated"):
        journal.append([draft(1), draft(2)])
    journal.append([draft(3)])
    reader = open_journal(files, read_only=True)
    assert numbers(reader) == [0, 3]
    assert reader.problems == []
    assert [name for name, _ in files.list(FOLDER)] == ["000001-k1.1.ndjson", "000001-k1.ndjson"]


def test_an_interrupt_while_writing_leaves_a_whole_journal() -> None:
    """Ctrl-C in the middle of an append takes that batch back, and the next one follows a good line."""
    files = SimFiles()
    journal = open_journal(files)
    journal.append([draft(0)])
    real = journal._file

    class Interrupted:
        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def write(self, data: bytes) -> None:
            real.write(data[: len(data) // 2])  # type: ignore[union-attr]
            raise KeyboardInterrupt

    journal._file = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        journal.append([draft(1)])
    journal._file = real
    journal.append([draft(2)])
    assert numbers(open_journal(files, read_only=True)) == [0, 2]


def test_every_crash() -> None:
    """After a power cut at any call every acknowledged event is there, of any other batch all or nothing."""
    for n in range(1, 10_000):
        crashed = False
        for seed in range(6):
            files, done = SimFiles(), []
            files.crash_at(n, seed=seed)
            try:
                scenario(files, done, lambda error: None)
            except SimulatedCrash:
                crashed = True
            found_disk = files.crash(random.Random(seed))
            journal = open_journal(found_disk, "k9")
            found = numbers(journal)
            whole_batches = [0, 1, 4, 5, 7, 8, 11, 12, 14]
            assert done == found[: len(done)], (n, seed)
            assert list(range(len(found))) == found, (n, seed)
            assert len(found) in whole_batches, (n, seed)
            assert {"torn_tail"} >= {problem.kind for problem in journal.problems}, (n, seed)
            journal.append([draft(99)])
            again = found_disk.crash(random.Random(seed + 1))
            reader = open_journal(again, read_only=True)
            assert [*found, 99] == numbers(reader), (n, seed)
            assert reader.problems == [], (n, seed)
        if not crashed:
            break
    assert n > 40


@pytest.mark.parametrize("fault", ["ignore_file_sync", "ignore_folder_sync"])
def test_the_crash_test_finds_a_missing_sync(fault: str) -> None:
    """A disk that does not sync files, or names, loses acknowledged events: the test above is able to fail."""
    lost = 0
    for seed in range(40):
        files, done = SimFiles(**{fault: True}), []
        scenario(files, done, lambda error: None)
        lost += numbers(open_journal(files.crash(random.Random(seed)), read_only=True)) != done
    assert lost > 0
