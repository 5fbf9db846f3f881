"""Files read are input (reuse.md, rule 6): which ones are seen, and when they count as changed."""

# The expected value stands on the left in every test.

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import durable_nb
from durable_nb.capture import file_marks
from durable_nb.capture.file_marks import FileMark, changed, fingerprint, made_again
from durable_nb.capture.files_read import FileReads, Recording


def seen_by(action: Callable[[], object]) -> Recording:
    """Record the file accesses of one call."""
    with FileReads().recording() as seen:
        action()
    return seen


def names(seen: Recording) -> list[str]:
    """Return the base names of the recorded inputs."""
    return [Path(mark.path).name for mark in seen.reads]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files, as the working directory."""
    (tmp_path / "a.csv").write_text("1,2\n")
    (tmp_path / "b.csv").write_text("3,4\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_opened_for_reading_is_input(data: Path) -> None:
    """Paths of every kind and relative ones are recorded as absolute paths with size, time and digest."""
    seen = seen_by(lambda: [open("a.csv").close(), Path("b.csv").read_bytes(), open(b"a.csv", "rb").close()])
    expected = (fingerprint(str(data / "a.csv")), fingerprint(str(data / "b.csv")))
    assert expected == seen.reads
    assert () == seen.unknown


def test_os_open_is_seen(data: Path) -> None:
    """A low-level open counts as well."""
    seen = seen_by(lambda: os.close(os.open("a.csv", os.O_RDONLY)))
    assert ["a.csv"] == names(seen)


def test_reads_of_other_threads_are_seen(data: Path) -> None:
    """What a thread reads during the cell is input of the cell."""

    def run() -> None:
        thread = threading.Thread(target=lambda: (data / "b.csv").read_text())
        thread.start()
        thread.join()

    assert ["b.csv"] == names(seen_by(run))


def test_nothing_is_recorded_outside(data: Path) -> None:
    """Before and after a recording the hook is inert."""
    reads = FileReads()
    (data / "a.csv").read_text()
    with reads.recording() as seen:
        pass
    (data / "a.csv").read_text()
    assert ((), (), ()) == (seen.reads, seen.written, seen.unknown)


def test_recordings_may_overlap(data: Path) -> None:
    """A cell that runs inside another's recording gives its reads to both."""
    reads = FileReads()
    with reads.recording() as outer:
        with reads.recording() as inner:
            (data / "a.csv").read_text()
        (data / "b.csv").read_text()
    assert (["a.csv"], ["a.csv", "b.csv"]) == (names(inner), names(outer))


def test_a_file_that_the_cell_wrote_first_is_no_input(data: Path) -> None:
    """Reading back one's own output depends on nothing outside."""

    def run() -> None:
        Path("new.csv").write_text("x")
        Path("new.csv").read_text()

    seen = seen_by(run)
    assert ((), (str(data / "new.csv"),), ()) == (seen.reads, seen.written, seen.unknown)


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_file_read_and_then_changed_makes_inputs_unknown(data: Path, mode: str) -> None:
    """What was read is gone, so nothing can be compared later."""

    def run() -> None:
        Path("a.csv").read_text()
        with open("a.csv", mode) as stream:
            stream.write("x")

    seen = seen_by(run)
    expected = (f"{data / 'a.csv'} was read and then changed",)
    assert ((), expected) == (seen.reads, seen.unknown)


def test_updating_in_place_makes_inputs_unknown(data: Path) -> None:
    """Mode `r+` reads and changes at once."""
    seen = seen_by(lambda: open("a.csv", "r+").close())
    assert (f"{data / 'a.csv'} was read and then changed",) == seen.unknown


def test_a_file_that_another_process_changes_meanwhile_makes_inputs_unknown(data: Path) -> None:
    """The mark at the end must be of what was read."""

    def run() -> None:
        Path("a.csv").read_text()
        os.utime("a.csv", ns=(1, 1))

    assert (f"{data / 'a.csv'} changed while the cell ran",) == seen_by(run).unknown


def test_a_file_that_was_not_there_is_input(data: Path) -> None:
    """`try: open(...) except FileNotFoundError` takes another way once the file exists."""

    def run() -> None:
        with pytest.raises(FileNotFoundError):
            open("cache.json").close()

    (mark,) = seen_by(run).reads
    assert ("missing", None) == (mark.kind, changed(mark))
    Path("cache.json").write_text("{}")
    assert f"{data / 'cache.json'} was not there and is there now." == changed(mark)


def test_a_listed_folder_is_input(data: Path) -> None:
    """A new file that a pattern would find changes what the cell reads."""
    (mark,) = seen_by(lambda: list(Path().glob("*.csv"))).reads
    assert ("folder", None) == (mark.kind, changed(mark))
    (data / "a.csv").write_text("other contents, same names")
    (data / ".durable").mkdir()
    assert changed(mark) is None
    (data / "c.csv").write_text("")
    assert f"{data} holds other files now." == changed(mark)


def test_the_import_system_lists_folders_for_itself(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing a module does not make the listing of the folder an input."""
    (data / "local_zz.py").write_text("A = 1\n")
    monkeypatch.syspath_prepend(str(data))

    def run() -> None:
        __import__("local_zz")

    try:
        assert "folder" not in {mark.kind for mark in seen_by(run).reads}
    finally:
        sys.modules.pop("local_zz", None)


def test_files_of_the_installation_and_the_tools_are_ignored(data: Path) -> None:
    """Libraries, devices, our own folder and byte code are no data."""
    (data / ".durable").mkdir()
    (data / ".durable" / "x").write_text("")
    (data / "x.pyc").write_text("")
    paths = [json.__file__, pytest.__file__, "/proc/self/stat", "/dev/null", ".durable/x", "x.pyc"]
    assert [] == names(seen_by(lambda: [open(p, "rb").close() for p in paths if os.path.exists(p)]))


def test_folders_and_pipes_are_told_apart(data: Path) -> None:
    """Opening a folder is nothing; a pipe cannot be read again, so inputs are unknown."""
    seen = seen_by(lambda: os.close(os.open(".", os.O_RDONLY)))
    assert ((), ()) == (seen.reads, seen.unknown)
    os.mkfifo("pipe")
    seen = seen_by(lambda: os.close(os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)))
    assert (f"{data / 'pipe'} is no regular file",) == seen.unknown


def test_other_programs_and_the_network_make_inputs_unknown(data: Path) -> None:
    """What they read is not seen."""

    def connect() -> None:
        with socket.socket() as sock, pytest.raises(OSError, match=r".*"):
            sock.connect(("127.0.0.1", 1))

    expected = [("other program",), ("shell command",), ("network",)]
    actions = [lambda: subprocess.run(["true"], check=True), lambda: os.system("true"), connect]
    assert expected == [seen_by(a).unknown for a in actions]


def test_sqlite_files_are_unseen_but_memory_is_nothing(data: Path) -> None:
    """The database library reads its file by itself."""
    sqlite3 = pytest.importorskip("sqlite3")
    expected = [("sqlite3",), ()]
    assert expected == [seen_by(lambda p=p: sqlite3.connect(p).close()).unknown for p in ("x.db", ":memory:")]


def test_the_hook_never_raises(data: Path) -> None:
    """An event that cannot be understood makes the inputs unknown and lets the user's call pass."""
    seen = seen_by(lambda: sys.audit("open", object(), "r", 0))
    assert "could not be followed" in seen.unknown[0]


def test_the_hook_costs_little(data: Path) -> None:
    """Other audit events cost well under 5 µs each, recording or not."""

    def per_event() -> float:
        start = time.perf_counter()
        for _ in range(20_000):
            sys.audit("some.event")
        return (time.perf_counter() - start) / 20_000

    with FileReads().recording():
        active = min(per_event() for _ in range(20))
    # The target is 1 µs; shared machines and tracing get some room.
    assert active < 5e-6


# -- marks ---------------------------------------------------------------------------------------------------------


def test_marks_are_json(data: Path) -> None:
    """A mark survives JSON and is compared in that form too."""
    mark = fingerprint("a.csv")
    value = json.loads(json.dumps(mark.as_json()))
    assert (mark, None) == (FileMark.from_json(value), changed(value))


def test_same_size_and_time_is_unchanged_without_reading(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a file that looks different is read."""
    mark = fingerprint("a.csv")
    monkeypatch.setattr(file_marks, "_digest", lambda *_: pytest.fail("read"))
    assert changed(mark) is None


def test_a_touched_file_is_unchanged(data: Path) -> None:
    """Another time with the same contents is no change."""
    mark = fingerprint("a.csv")
    os.utime("a.csv", ns=(5, 5))
    assert changed(mark) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda p: p.write_text("9,9\n"), "{} has other contents now."),
        (lambda p: p.write_text("longer than before"), "{} has 18 bytes instead of 4."),
        (lambda p: p.unlink(), "{} is not there any more."),
        (lambda p: (p.unlink(), p.mkdir()), "{} was a file and is none now."),
    ],
)
def test_a_changed_file_is_told_in_one_sentence(data: Path, change: Callable[[Path], object], expected: str) -> None:
    """Contents, size, absence and kind are told apart."""
    path = data / "a.csv"
    mark = fingerprint(str(path))
    os.utime(path, ns=(5, 5))
    change(path)
    assert expected.format(path) == changed(mark)


def test_large_files_are_sampled(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit both ends and pieces between are read; a change there is found."""
    monkeypatch.setattr(file_marks, "FULL_DIGEST_BYTES", 4 << 20)
    path = data / "large.bin"
    path.write_bytes(bytes(8 << 20))
    mark = fingerprint(str(path))
    assert mark.digest.startswith("sampled:")
    found = []
    for offset in (0, (8 << 20) - 1, (((8 << 20) - (1 << 20)) // 65) * 30 + 5):
        with open(path, "r+b") as stream:
            stream.seek(offset)
            stream.write(b"x")
        os.utime(path, ns=(offset + 7, offset + 7))
        found.append(changed(mark))
        path.write_bytes(bytes(8 << 20))
    assert [f"{path} has other contents now."] * 3 == found


def test_our_own_files_are_no_inputs(tmp_path: Path) -> None:
    """The package's files and the folder of the data are nobody's input, wherever they lie."""
    mine, theirs = tmp_path / "data" / "x.bin", tmp_path / "in.txt"
    mine.parent.mkdir()
    mine.write_text("1")
    theirs.write_text("2")
    with FileReads([str(mine.parent)]).recording() as seen:
        mine.read_text()
        theirs.read_text()
        Path(durable_nb.__file__).read_text()
    assert [str(theirs)] == [mark.path for mark in seen.reads]


def test_removed_files_are_told_and_whether_they_were_made_again(tmp_path: Path) -> None:
    """What a recording removed or renamed and is gone is in `removed`; a tree removed by descriptor is not."""
    for name in ("one", "two", "back"):
        (tmp_path / name).write_text("x")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "inside").write_text("x")
    with FileReads().recording() as seen:
        (tmp_path / "one").unlink()
        (tmp_path / "two").rename(tmp_path / "three")
        (tmp_path / "back").unlink()
        (tmp_path / "back").write_text("y")
        shutil.rmtree(tmp_path / "tree")
    gone = {str(tmp_path / "one"), str(tmp_path / "two")}
    assert gone == {path for path in seen.removed if "inside" not in path}
    assert made_again(str(tmp_path / "one"), 0) is None
    assert "back" in (made_again(str(tmp_path / "back"), 0) or "")
    assert made_again(str(tmp_path / "back"), 1 << 62) is None
