"""The parts of making things again that need no kernel: options, history, guarded files, process state put aside."""

from __future__ import annotations

import decimal
import os
import random
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from durable_nb.capture.files_guard import FileRefused
from durable_nb.capture.files_read import FileReads
from durable_nb.capture.process import ProcessState
from durable_nb.engine.effects import CellOptions
from durable_nb.engine.missing import Remade, is_variable
from durable_nb.errors import UsageError
from durable_nb.history import fold
from durable_nb.kernel.options import parse
from durable_nb.model import Unsaved
from durable_nb.testing.events import History
from durable_nb.testing.notebook import Notebook


@pytest.mark.parametrize("choice", ["report", "fail", "recompute"])
def test_the_option_survives_the_history(choice: str) -> None:
    """What was chosen for a cell is what its record says; the default is not written."""
    options = parse(f"--on-unserializable {choice}")[1]
    assert (choice, choice == "report") == (options.on_unserializable, "on_unserializable" not in options.to_json())
    assert options == CellOptions.from_json(options.to_json())


def test_a_wrong_choice_names_the_right_ones() -> None:
    """The line says what there is, and the cell does not run."""
    with pytest.raises(UsageError, match="report or fail or recompute, not 'ignore'"):
        parse("--on-unserializable ignore")


def test_an_attempt_that_made_something_again_never_stands_for_its_cell() -> None:
    """The fold knows the try and its checkpoint, and has no record of it."""
    history = History()
    history.attach()
    first = history.run("a", {"x": "int"})
    payload = {"name": "a", "source": "a = 1", "code_hash": "h-a", "recompute": {"of_event": first.event_id}}
    started = history.add("ActivityStarted", payload, activity_id="id-a", attempt=2)
    checkpoint = {"id": "c9", "parent": "c8"}
    history.add("ActivityCompleted", {"checkpoint": checkpoint}, activity_id="id-a", parent_event=started.event_id)
    state = fold(history.events)
    assert state.run is not None
    assert ("c9", 0) == (state.run.head, len(state.run.records))
    assert (first.event_id, "completed") == (state.attempts[-1].recompute, state.attempts[-1].status)
    assert {("wf-run-1", "id-a"): 2} == state.tries


def _refused(action: Any) -> bool:
    try:
        action()
    except FileRefused:
        return True
    return False


def test_a_guard_keeps_files_that_are_there(tmp_path: Path) -> None:
    """Writing, appending, removing, renaming and cutting a file that is there is refused; new files may be made."""
    there, new = tmp_path / "there.txt", tmp_path / "new.txt"
    there.write_text("kept")
    with FileReads().guarding():
        for mode in ("w", "a", "r+", "wb"):
            assert _refused(lambda mode=mode: open(there, mode))  # noqa: SIM115
        assert _refused(lambda: os.open(there, os.O_WRONLY))
        assert _refused(lambda: os.remove(there))
        assert _refused(lambda: os.rename(there, new))
        assert _refused(lambda: os.rename(there.parent / "there.txt", tmp_path / "x"))
        assert _refused(lambda: os.truncate(there, 0))
        assert there.read_text() == "kept"
        new.write_text("a")
        new.write_text("b")
        new.unlink()
        with tempfile.NamedTemporaryFile(dir=tmp_path) as own:
            own.write(b"x")
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "own").write_text("x")
        elsewhere = threading.Thread(target=lambda: open(tmp_path / "other.txt", "w").close())
        elsewhere.start()
        elsewhere.join()
        assert _refused(lambda: (tmp_path / "other.txt").open("w"))
    there.write_text("changed")
    assert there.read_text() == "changed"


def test_a_recording_tells_what_running_again_would_change(tmp_path: Path) -> None:
    """Files written and left, and files removed, count; new files of one's own, temporary and read ones do not."""
    for name in ("read", "over", "gone"):
        (tmp_path / name).write_text(name)
    with FileReads().recording() as seen:
        (tmp_path / "read").read_text()
        (tmp_path / "over").write_text("x")
        (tmp_path / "made").write_text("x")
        (tmp_path / "gone").unlink()
        open(tmp_path / "exclusive", "x").close()
        with tempfile.NamedTemporaryFile(dir=tmp_path):
            pass
    assert tuple(str(tmp_path / name) for name in ("gone", "made", "over")) == seen.touched


def test_process_state_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block sees the streams and the folder it was given, and leaves nothing of what it changed."""
    monkeypatch.chdir(tmp_path)
    process = ProcessState()
    random.seed(1)
    stored = process.capture()["random"].value
    expected = [random.random(), random.random()]
    os.mkdir("sub")
    os.chdir("sub")
    random.seed(2)
    before = (random.getstate(), os.getcwd(), decimal.getcontext().prec, dict(os.environ))
    with process.aside({"random": stored, "cwd": None}) as problems:
        assert (expected, str(tmp_path)) == ([random.random(), random.random()], os.getcwd())
        os.environ["DNB_TEST_ASIDE"] = "1"
        decimal.getcontext().prec = 7
        random.seed(3)
        os.chdir("/")
    assert before == (random.getstate(), os.getcwd(), decimal.getcontext().prec, dict(os.environ))
    assert [] == problems
    assert process.touched("random")


def test_a_look_knows_which_cell_made_what_is_not_stored() -> None:
    """The maker is the cell that bound the value, also where a later one has taken over its address."""
    notebook = Notebook()
    notebook.run("g = (i for i in 'a')")
    notebook.run("x = 1")
    assert "cell 1" == notebook.unsaved["g"].made_by
    notebook.run("g = None\ng = (i for i in 'b')")
    assert "cell 3" == notebook.unsaved["g"].made_by
    notebook.capture.note_made({"g": "another"})
    notebook.look()
    assert ("another", "another") == (notebook.unsaved["g"].made_by, notebook.capture.made_by("g"))


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("conn", "sqlite3.Connection", True),
        ("Out[3]", "generator", True),
        ("os.environ[X]", "str", False),
        ("logging", "StreamHandler", False),
        ("cwd", "process state", False),
    ],
)
def test_variables_are_told_from_process_state(name: str, kind: str, expected: bool) -> None:
    """Only variables are missing until their name is bound; process state has its own rules."""
    entry = Unsaved(name=name, path="", type=kind, reason="")
    assert expected is is_variable(entry, {"logging", "cwd"})


def test_what_ran_again_is_told_in_sentences() -> None:
    """Names, cell, checkpoint and what is different are said; a problem says what did not happen."""
    remade = Remade(label="«a»", wanted=("x", "y"), names=("x", "y"), as_of="c3", notes=("It works on a copy.",))
    assert "`x`, `y` are back: the cell «a» ran again, with its inputs as of c3. It works on a copy." == remade.sentence
    assert "`x` is not made again: no." == Remade(label="«a»", wanted=("x",), problem="no").sentence
