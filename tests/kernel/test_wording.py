"""What a newcomer reads: names that do not exist, what is not saved, where the history is, and why a cell runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.kernels import Kernel
from durable_nb.testing.lives import Lives, said, skipped


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """A notebook in its second life, with a lock that cannot be stored and a name that was left out."""
    with Lives(tmp_path_factory.mktemp("words"), durable=False) as notebook:
        notebook.run("%%durable a\nvalue = 1", "%%durable f\ndef f():\n    return 1")
        notebook.run("%%durable b --exclude password\nimport threading\nm = threading.Lock()\nheld = m.acquire()\n"
                     "password = 'x'")  # fmt: skip
        notebook.kill()
        yield notebook


def _refused(lives: Lives, line: str) -> tuple[str, str]:
    reply = lives.kernel.run(f"%durable {line}", store_history=False)
    return reply.ename, reply.evalue


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("restore valeu", "has no variable `valeu`; nothing changed. Did you mean `value`? It has: "),
        ("restore c99", "There is no checkpoint c99; nothing changed."),
        ("recompute zzz", "There is no variable `zzz`"),
    ],
)
def test_a_name_that_does_not_exist(lives: Lives, line: str, words: str) -> None:
    """A mistyped variable or checkpoint is an UnknownName, not a repository that is not there."""
    name, text = _refused(lives, line)
    assert (name, words in text) == ("UnknownName", True), text


def test_what_a_checkpoint_could_not_hold_is_told_when_it_is_asked_for(lives: Lives) -> None:
    """`restore m` says why `m` was not stored and what makes it again; one left out on request is told as that."""
    name, text = _refused(lives, "restore m")
    assert (name, "`m` could not be saved in c3: a lock" in text) == ("RestoreError", True), text
    assert "`%durable recompute m` runs the cell «b», which makes it, again as of then." in text
    name, text = _refused(lives, "restore password")
    assert (name, text.startswith("`password` was left out on request")) == ("RestoreError", True), text


def test_a_name_left_out_on_request_is_not_called_unsavable(lives: Lives) -> None:
    """The note at its NameError says that it was left out, and what makes it."""
    notes = "\n".join(lives.kernel.run("password").traceback)
    assert "`password` is not back: it was left out on request" in notes
    assert ("could not be saved" in notes, "%durable recompute password" in notes) == (False, True)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Lives]:
    """A notebook of its own."""
    with Lives(tmp_path, durable=False) as notebook:
        yield notebook


def _why(lives: Lives, cell: str) -> tuple[str, str]:
    told = lives.verb(f"why {cell}")
    return told["would"], " ".join(told["reasons"])


def test_restore_before_anything_is_saved(fresh: Lives) -> None:
    """Nothing is called «back» that never was."""
    assert "Nothing has been saved yet" in said(fresh.run("%durable restore"))


def test_why_tells_of_the_cell_as_it_was_met_last(fresh: Lives) -> None:
    """After an edit that was undone `why` says what the next press of the key does, as for any skipped cell."""
    one, two = "%%durable f\nx = 1", "%%durable f\nx = 2"
    fresh.run(one)
    fresh.kill()
    assert not skipped(fresh.run(two))
    assert _why(fresh, "f") == ("run", "this code finished in this kernel; running it again is what you asked for")
    assert (skipped(fresh.run(one)), skipped(fresh.run(one))) == (True, True)
    assert _why(fresh, "f")[0] == "skip"
    assert not skipped(fresh.run(two))
    assert _why(fresh, "f")[0] == "run"


def test_why_names_what_it_cannot_see(fresh: Lives) -> None:
    """A skip in spite of inputs that nobody sees says so and names them; a number finds a cell, skipped or run."""
    cell = "%%durable count\n!true\nn = 1"
    fresh.run("1", cell, "2")
    fresh.kill()
    assert skipped(fresh.run(cell))
    assert "inputs it cannot see: " in said(fresh.run(cell))
    would, reasons = _why(fresh, "count")
    assert (would, "but it has inputs that cannot be seen (" in reasons, "--depends PATH" in reasons) == (
        "skip",
        True,
        True,
    )
    assert {"count"} == {fresh.verb(f"why {word}")["cell"] for word in ("3", "[3]", "count")}
    refused = fresh.kernel.run("%durable why 99", store_history=False).evalue
    assert "No cell '99' in this run." in refused


def test_why_says_in_words_what_changed(fresh: Lives) -> None:
    """A changed function, list and random stream, with the cell that changed them and without the walk's own words."""
    cells = ["%%durable seeds\nimport random\nrandom.seed(1)", "%%durable f\ndef f():\n    return 1", "items = [1]",
             "%%durable uses\ny = f() + len(items)", "%%durable draws\nz = random.random()"]  # fmt: skip
    fresh.run(*cells)
    fresh.kill()
    fresh.run("%%durable f\ndef f():\n    return 2", "items = [1, 2]", "random.seed(5)")
    _, uses = _why(fresh, "uses")
    assert "`f` changed: f (function) is another one now (now as " in uses
    assert "made by the cell «f»; the cell read it as " in uses
    assert "`items` changed: items (list) has 2 items now, and 1 then (" in uses
    assert "changed outside of the durable cells" in uses
    _, draws = _why(fresh, "draws")
    assert draws == "the random numbers of `random` go on from another place than they did then"


def test_a_part_of_the_process_state_is_written_apart(fresh: Lives) -> None:
    """`logging.getLogger(…)` is not one word with what stands before it."""
    fresh.run("%%durable log\nimport logging, sys\nclass H(logging.Handler):\n    def __init__(self):\n"
              "        super().__init__()\n        self.stream = open('log.txt', 'w')\n"
              "logging.getLogger('my').addHandler(H())")  # fmt: skip
    assert "logging.getLogger('my').handlers" in fresh.kill()


def test_status_has_the_column_of_lines_to_type_only_where_there_is_one(fresh: Lives) -> None:
    """Before a loss nothing has to be made again; what made a value has the name that people see."""
    fresh.run("%%durable\nimport threading\nm = threading.Lock()\nheld = m.acquire()")
    text = said(fresh.run("%durable status"))
    assert ("makes it again" in text, "made by" in text, "code-" in text) == (False, True, False)
    fresh.kill()
    text = said(fresh.run("%durable status"))
    assert ("makes it again" in text, "%durable recompute m" in text) == (True, True)


def test_one_line_has_one_time_zone(tmp_path: Path) -> None:
    """With TZ among the variables that come back both times of the line are of that zone."""
    with Lives(tmp_path, durable=False, environ={"DURABLE_NB_ENV": "TZ"}) as lives:
        lives.run("%%durable zone\nimport os, time\nos.environ['TZ'] = 'XYZ-9'\ntime.tzset()\nx = 1")
        times = re.findall(r"(\d\d):\d\d:\d\d", lives.kill())
        assert (len(times), len(set(times))) == (2, 1)


@pytest.mark.parametrize("folder", ["/proc/nope", "/dev/null/below"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, folder: str) -> None:
    """The error names the folder and the setting that names it."""
    environ = {"DURABLE_NB_KEY_FILE": str(tmp_path / "key"), "DURABLE_NB_DIR": folder}
    with Kernel(tmp_path, environ=environ) as kernel:
        told = kernel.run("%load_ext durable_nb").evalue
    assert (f"failed: {folder}: " in told, f"DURABLE_NB_DIR={folder} names it" in told) == (True, True), told


def test_a_history_that_is_gone_says_what_is_only_there(tmp_path: Path) -> None:
    """Variables that were not loaded yet are named, and the status promises no next try that cannot help."""
    with Lives(tmp_path, durable=False, environ={"DURABLE_NB_EAGER_BYTES": "0"}) as lives:
        lives.run("%%durable a\nimport os\nlarge = os.urandom(3_000_000)\nx = 1")
        lives.kill()
        gone = f"import shutil\nshutil.rmtree({str(tmp_path / '.durable')!r})"
        told = said(lives.run(f"%%durable b\n{gone}"))
        assert ("what was not loaded yet is in that folder alone" in told, "begins a new history" in told) == (
            True,
            True,
        )
        status = said(lives.run("%durable status"))
        assert ("NOT SAVED: " in status, "the next cell tries again" in status) == (True, False)


def test_the_first_load_says_that_it_works(tmp_path: Path) -> None:
    """One line tells where the history begins; loading again, in this kernel or the next, begins none."""
    line = "durable_nb: a new history begins in .durable."
    with Lives(tmp_path, durable=False) as lives:
        assert lives.loaded == line
        lives.run("%%durable a\nx = 1")
        assert said(lives.run("%reload_ext durable_nb")) == ""
        assert line not in lives.kill()


def test_a_renamed_notebook_is_told_of_its_history(tmp_path: Path) -> None:
    """Where the history of a notebook is there and the notebook is not, the first load of another one says so."""
    told = {}
    for name in ("new", "beside"):
        (tmp_path / f"{name}.ipynb").write_text("{}")
    for name in ("old", "new", "beside"):
        environ = {"JPY_SESSION_NAME": str(tmp_path / f"{name}.ipynb")}
        with Lives(tmp_path, durable=False, environ=environ) as lives:
            told[name] = lives.loaded
            lives.run("%%durable a\nx = 1")
        if name == "new":  # named after it, as it should be now
            (tmp_path / "old.ipynb").write_text("{}")
    begins = "durable_nb: a new history begins in .durable."
    assert (begins, begins) == (told["old"], told["beside"])
    assert "the history of «old» is there, whose notebook is not" in told["new"]
    assert "DURABLE_NB_WORKFLOW=old goes on with it." in told["new"]


def test_a_second_kernel_reads_and_skips_nothing(tmp_path: Path) -> None:
    """Beside the kernel that writes, the saved variables come back on request; cells run, and `why` says so."""
    environ = {"JPY_SESSION_NAME": str(tmp_path / "n.ipynb")}
    cell = "%%durable a\nx = 1"
    with Lives(tmp_path, durable=False, environ=environ) as first:
        first.run(cell)
        first.kill()
        with Lives(tmp_path, durable=False, environ=environ) as second:
            assert f"Another kernel writes to this notebook's history: process {first.kernel.pid} " in second.loaded
            assert "1 variable of 1 finished cell is back" in said(second.run("%durable restore"))
            assert second.run("x").result == "1"
            assert _why(second, "a")[0] == "run"
            assert not skipped(second.run(cell))
            assert second.kernel.run("%durable new").ename == "LeaseHeld"


def test_cells_that_read_what_was_left_out_are_never_skipped(tmp_path: Path) -> None:
    """Nothing tells whether the value is the same, so the cell runs, and `why` names the variable."""
    cells = ["%%durable a --exclude secret\nsecret = 'x'", "%%durable b\nn = len(secret)"]
    with Lives(tmp_path, durable=False) as lives:
        lives.run(*cells)
        lives.kill()
        lives.run("secret = 'x'")
        assert _why(lives, "b") == ("run", "it reads `secret`, which no checkpoint can hold")
        assert not skipped(lives.run(cells[1]))
