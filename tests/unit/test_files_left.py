"""What a recording tells of the files that a cell changed, and the story of a file over several cells."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from durable_nb.capture import files_left
from durable_nb.capture.file_marks import fingerprint
from durable_nb.capture.files_read import FileReads
from durable_nb.engine.file_places import left_so_by_later, overwritten
from durable_nb.engine.replay import Replay


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder outside of what is ignored, with two files and a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c").write_text("c")
    return tmp_path


def left(change: Callable[[], object], *known: str) -> dict[str, dict[str, Any]]:
    """Return the marks of what a change leaves, by file name, while the paths in `known` have been read."""
    with FileReads().recording() as seen:
        change()
    return {os.path.relpath(mark["path"]): mark for mark in seen.left([os.path.abspath(path) for path in known])}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda: Path("a").write_text("new"), {"a": "file"}),
        (lambda: Path("n").write_text("new"), {"n": "file"}),
        (lambda: Path("a").unlink(), {"a": "missing"}),
        (lambda: Path("a").rename("n"), {"a": "missing", "n": "file"}),
        (lambda: os.replace("a", "b"), {"a": "missing", "b": "file"}),
        (lambda: shutil.rmtree("sub"), {"sub": "missing"}),
        (lambda: Path("d").mkdir(), {"d": "folder"}),
        (lambda: os.link("a", "n"), {"n": "file"}),
        (lambda: os.symlink("a", "n"), {"n": "file"}),
        (lambda: os.truncate("a", 0), {"a": "file"}),
        (lambda: shutil.copy("a", "n"), {"n": "file"}),
        (lambda: Path("a").read_text(), {}),
        (lambda: open("a", "a").close(), {}),
        (lambda: tempfile.TemporaryDirectory(dir=".").cleanup(), {}),
    ],
)  # fmt: skip
def test_changed_files_are_marked_as_they_are_left(
    data: Path, change: Callable[[], object], expected: dict[str, str]
) -> None:
    """What is written, removed, renamed or made has a mark; what was only opened, or came and went, has none."""
    found = left(change)
    assert expected == {name: mark["kind"] for name, mark in found.items()}
    assert all(mark["digest"] for mark in found.values() if mark["kind"] == "file")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda: Path("sub/n").write_text("x"), ["sub", "sub/n"]),
        (lambda: Path("sub/c").write_text("x"), ["sub/c"]),
        (lambda: Path("sub/c").unlink(), ["sub", "sub/c"]),
    ],
)
def test_a_listed_folder_is_marked_when_names_in_it_change(
    data: Path, change: Callable[[], object], expected: list[str]
) -> None:
    """A folder that a cell has listed gets a mark when names came or went, not when a file in it was written again."""
    assert expected == sorted(left(change, "sub"))


def test_what_was_kept_in_a_file_is_told(data: Path) -> None:
    """A file that was added to says what it was before; one that was also rewritten does not say that all is there."""

    def both() -> None:
        for mode in ("a", "r+"):
            with open("b", mode) as stream:
                stream.write("xyz")

    def add() -> None:
        with open("a", "a") as stream:
            stream.write("x")

    before = {name: fingerprint(name) for name in ("a", "b")}
    found = left(add) | left(both) | {"w": left(lambda: Path("a").write_text("w"))["a"]}
    told = {name: (mark.get("before"), mark.get("appended")) for name, mark in found.items()}
    was = {name: [mark.size_bytes, str(mark.mtime_ns)] for name, mark in before.items()}
    assert {"a": (was["a"], True), "b": (was["b"], None), "w": (None, None)} == told


def test_large_files_that_nobody_has_read_cost_no_time(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit per cell, written files are not read for their marks, unless a cell has read them before."""
    monkeypatch.setattr(files_left, "FULL_DIGEST_BYTES", 5)

    def write() -> None:
        for name in ("a", "b", "n"):
            Path(name).write_text("1234")

    assert {"a": True, "b": False, "n": True} == {n: bool(m["digest"]) for n, m in left(write, "n").items()}


def engine_at(story: dict[str, list[tuple[int, dict[str, Any]]]], met: dict[str, int]) -> Any:
    """Return what stands for an engine whose run changed files so, and which has met the given ends of attempts."""
    files = {os.path.abspath(name): marks for name, marks in story.items()}
    replay = Replay()
    for name, seq in met.items():
        mark = dict(story[name])[seq]
        replay.meet_files([mark], seq)
    return SimpleNamespace(state=SimpleNamespace(run=SimpleNamespace(files=files)), replay=replay)


@pytest.mark.parametrize(
    ("writers", "met", "expected"),
    [
        ([2, 6], {"a": 2}, True),
        ([6], {}, True),
        ([2, 6], {}, False),
        ([2, 6], {"a": 6}, False),
        ([2], {"a": 2}, False),
    ],
    ids=["in its place", "a file of others", "writer not met", "later writer met", "nobody wrote it later"],
)
def test_a_reader_stands_only_in_its_place(data: Path, writers: list[int], met: dict[str, int], expected: bool) -> None:
    """A changed file is no reason if a later cell left it so, and the writer met last is the one before the reader."""
    read = fingerprint("a").as_json()
    story = {"a": [(seq, left(lambda seq=seq: Path("a").write_text(f"by {seq}"))["a"]) for seq in writers]}
    record: Any = SimpleNamespace(seq=4)
    assert expected == left_so_by_later(engine_at(story, met), read, record)
    Path("a").write_text("outside")
    assert not left_so_by_later(engine_at(story, met), read, record)


def test_a_folder_that_was_taken_away_takes_its_files_along(data: Path) -> None:
    """A file is gone as the cell left it that removed the folder above it, until somebody makes it again."""
    read = fingerprint("sub/c").as_json()
    story = {"sub": [(6, left(lambda: shutil.rmtree("sub"))["sub"])]}
    record: Any = SimpleNamespace(seq=4)
    assert left_so_by_later(engine_at(story, {}), read, record)
    assert not left_so_by_later(engine_at(story, {"sub": 6}), read, record)
    Path("sub").mkdir()
    Path("sub/c").write_text("again")
    assert not left_so_by_later(engine_at(story, {}), read, record)


def test_a_writer_runs_when_a_cell_above_has_written_since(data: Path) -> None:
    """Overwritten by a cell that was met above it, its file is to be written again; added to, or in order, not."""
    record: Any = SimpleNamespace(seq=4)
    mine = left(lambda: Path("a").write_text("mine"))["a"]

    def add() -> None:
        with open("a", "a") as stream:
            stream.write("more")

    added = left(add)["a"]
    story = {"a": [(4, mine), (6, added)]}
    assert overwritten(engine_at(story, {"a": 6}), mine, record) is None
    story = {"a": [(4, mine), (6, left(lambda: Path("a").write_text("theirs"))["a"])]}
    assert "has changed since" in str(overwritten(engine_at(story, {"a": 6}), mine, record))
    assert overwritten(engine_at(story, {"a": 4}), mine, record) is None
