"""What fresh eyes found near the end: programs and accidents that nobody had tried, each as small as it gets.

Every test runs real kernels.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives, said


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook whose every cell is durable."""
    with Lives(tmp_path) as started:
        yield started


def saved(lives: Lives) -> list[str]:
    """Return the names in the last checkpoint."""
    return [row["name"] for row in lives.verb('sql "SELECT name FROM variables WHERE current"')]


def test_what_a_cell_left_out_stays_out(lives: Lives) -> None:
    """A name that `--exclude` kept from being saved is not saved by the cells after it, nor between them."""
    lives.run("%%durable --exclude secret\nsecret = 'pw'\nopen_part = 1", "x = 1", "y = len(secret)")
    lives.kill()
    assert lives.value("[n for n in ('secret', 'open_part', 'x', 'y') if n in globals()]") == ["open_part", "x", "y"]


def test_a_cell_without_the_option_saves_the_name_again(lives: Lives) -> None:
    """Taken away, the option has no effect any more; given to a cell again, it takes the name out of the checkpoint."""
    lives.run("%%durable --exclude secret\nsecret = 'pw'", "secret = 'pw'")
    assert saved(lives) == ["secret"]
    lives.run("%%durable --exclude secret\nsecret = 'pw'")
    assert saved(lives) == []


def test_including_names_keeps_what_other_cells_made(lives: Lives) -> None:
    """`--include` is about what its cell made: what was saved before is back after a loss and stays through a skip."""
    cells = ["a = [1]\nb = a", "%%durable --include 'keep*'\nkeep = 2\nother = 3"]
    lives.run(*cells)
    lives.kill()
    assert lives.value("[a, b is a, keep, 'other' in globals()]") == [[1], True, 2, False]
    assert lives.run_all(cells) == [True, True]
    lives.run("c = b + [keep]")
    assert lives.value("[a, b is a, c]") == [[1], True, [1, 2]]


def test_a_changed_name_that_is_left_out_is_not_back_as_it_was_before(lives: Lives) -> None:
    """An older value must not pass for the one that a cell left out; what shared objects with it is back."""
    lives.run("a = [1]\nb = a", "%%durable --exclude b\nb.append(2)")
    lives.kill()
    assert lives.value("[a, 'b' in globals()]") == [[1, 2], False]


def test_an_interrupt_while_a_result_is_saved_ends_the_attempt(lives: Lives) -> None:
    """Stopped while a large variable is saved, the cell counts as canceled, and the next cell saves the variable."""
    lives.run("a = 1")
    cell = "big = {i: [i, str(i) * 3] for i in range(300_000)}\nprint('made', flush=True)"
    request = lives.kernel.begin(cell)
    lives.kernel.wait_for_text(request, "made")
    lives.kernel.interrupt()
    reply = lives.kernel.finish(request)
    assert (reply.status, reply.ename) == ("error", "KeyboardInterrupt")
    assert [row["status"] for row in lives.status()["cells"]] == ["completed", "canceled"]
    lives.run("c = len(big)")
    told = lives.kill()
    assert " in cell " not in told
    assert lives.value("[a, c, len(big)]") == [1, 300_000, 300_000]
    assert lives.verb("verify")["ok"] is True


@pytest.mark.parametrize("accident", ["removed", "moved", "replaced"])
def test_a_history_that_goes_away_under_a_kernel_is_told(lives: Lives, tmp_path: Path, accident: str) -> None:
    """Cells run on and say at once that nothing is saved and what to type; after that everything is saved again."""
    lives.run("a = 1")
    history = tmp_path / ".durable"
    if accident == "removed":
        shutil.rmtree(history)
    else:
        history.rename(tmp_path / "elsewhere")
    if accident == "replaced":
        with Lives(tmp_path) as other:
            other.run("z = 1")
    reply = lives.run("b = 2")
    assert "was removed or moved" in said(reply)
    assert "%reload_ext durable_nb" in said(reply)
    assert "is intact" not in said(reply)
    assert "was removed or moved" in lives.verb("status")["trouble"]
    if accident == "moved":
        (tmp_path / "elsewhere").rename(history)
    else:
        lives.run("%reload_ext durable_nb", "%durable on")
    lives.run("c = 3")
    assert lives.verb("status")["trouble"] == ""
    lives.kill()
    assert lives.value("[a, b, c]") == [1, 2, 3]
    assert lives.verb("verify")["ok"] is True


def test_a_cell_whose_end_could_not_be_recorded_is_not_where_the_kernel_was_lost(lives: Lives, tmp_path: Path) -> None:
    """The cell named at the next load is the one that ran, not an earlier one that the disk refused to end."""
    lives.run("a = 1")
    history, elsewhere = tmp_path / ".durable", tmp_path / "elsewhere"
    move = f"import os\nos.rename({str(history)!r}, {str(elsewhere)!r})"
    assert "was removed or moved" in said(lives.run(f"b = 2\n{move}"))
    elsewhere.rename(history)
    lives.run("c = 3")
    assert " in cell " not in lives.kill()
    assert lives.value("[a, b, c]") == [1, 2, 3]


def test_what_was_left_out_is_named_with_its_type(lives: Lives) -> None:
    """The line that tells what is not back names the type and the request."""
    lives.run("%%durable --exclude secret\nsecret = 'pw'")
    line = lives.kill()
    row = "secret str [3] %durable recompute secret left out on request (--include, --exclude)"
    assert row in " ".join(line.split())


TIDY = """
import os, shutil, tempfile
class Scratch:
    def __init__(self): self.path = tempfile.mkdtemp(dir=".")
    def __del__(self): shutil.rmtree(self.path)
class Log:
    def __init__(self, path):
        self.path, self.file = path, open(path, "w")
        print("hello", file=self.file, flush=True)
    def __getstate__(self): return self.path
    def __setstate__(self, path): self.path, self.file = path, open(path, "w")
class Sweeper:
    def __init__(self):
        self.path = tempfile.mkdtemp(dir=".")
        open(self.path + "/kept", "w").close()
    def __setstate__(self, state):
        vars(self).update(state)
        shutil.rmtree(self.path)
class Broken(Scratch):
    def __setstate__(self, state):
        vars(self).update(state)
        raise ValueError("no")
scratch, log, broken, sweeper = [Scratch()], Log("live.log"), Broken(), Sweeper()
"""


def test_saving_leaves_files_alone_that_objects_remove_or_empty(lives: Lives) -> None:
    """A copy that is loaded to see whether it loads takes no file with it; what would empty one is not saved."""
    lives.run(TIDY)
    there = "[os.path.isdir(scratch[0].path), open('live.log').read(), os.path.isdir(broken.path)]"
    assert lives.value(there) == [True, "hello\n", True]
    assert lives.value("os.path.isfile(sweeper.path + '/kept')")
    unsaved = lives.value("{u.name: u.reason for u in __import__('durable_nb').unsaved()}")
    assert ("live.log, which is there" in unsaved["log"], "ValueError: no" in unsaved["broken"]) == (True, True)
    assert sorted(unsaved) == ["broken", "log", "sweeper"]
    lives.kill()
    assert lives.value("[os.path.isdir(scratch[0].path), open('live.log').read()]") == [True, "hello\n"]


def test_variables_with_the_names_of_the_shells_lists_come_back(lives: Lives) -> None:
    """`In` and `Out` are variables as soon as they are bound to something else."""
    lives.run("1 + 1", "before = len(In)", "In = [[1, 0], [0, 1]]\nOut = {'a': 1}")
    lives.kill()
    assert lives.value("[In, Out, before > 2]") == [[[1, 0], [0, 1]], {"a": 1}, True]
    assert lives.value("[u.name for u in __import__('durable_nb').unsaved()]") == []


@pytest.mark.parametrize("name", ["In", "Out", "_"])
def test_names_of_the_history_that_are_variables_are_changed_in_place(lives: Lives, name: str) -> None:
    """What leads to them is seen as with any other name."""
    lives.run(f"{name} = {{'a': 1, 'large': bytearray(1 << 20)}}", f"{name}['b'] = 2", "z = 1")
    lives.run(f"def more(): {name}['c'] = 3\nmore(); y = {name}", "z = 2")
    lives.kill()
    assert lives.value(f"[sorted({name}), y is {name}]") == [["a", "b", "c", "large"], True]


ENDS = """
import os, shutil
class Folder:
    def __init__(self):
        self.path = "work"
        os.makedirs(self.path, exist_ok=True)
    def __del__(self): shutil.rmtree(self.path)
"""


FINALIZES = """
import os, shutil, weakref
class Folder:
    def __init__(self):
        self.path = "work"
        os.makedirs(self.path, exist_ok=True)
    def __setstate__(self, state):
        self.__dict__.update(state)
        weakref.finalize(self, shutil.rmtree, self.path)
"""
ENDINGS = {
    "plain": ENDS.strip(),
    "made in a function": "import os\ndef made():\n"
    + textwrap.indent(ENDS.strip() + "\nreturn Folder", "    ")
    + "\nFolder = made()",
    "under another name": ENDS.strip() + "\nMaker = Folder\ndel Folder",
    "weakref.finalize": FINALIZES.strip(),
    "wrapped": ENDS.replace("    def __del__", "    @Wrapped\n    def __del__").replace(
        "class Folder", "class Wrapped:\n"
        "    def __init__(self, call): self.call = call\n"
        "    def __get__(self, obj, kind=None): return self.call.__get__(obj, kind)\n"
        "class Folder"
    ).strip(),
}  # fmt: skip


@pytest.mark.parametrize("how", ENDINGS)
def test_no_copy_that_is_compared_takes_a_folder_with_it(tmp_path: Path, how: str) -> None:
    """Whatever the class is called, wherever it was made, and however it says what it does when it goes.

    What cannot be compared counts as another one.
    """
    with Lives(tmp_path, durable=False, environ={"DURABLE_NB_RESTORE": "off"}) as lives:
        make = f"folder = {'Maker' if 'Maker' in ENDINGS[how] else 'Folder'}()\nheld = [folder]"
        cells = [f"%%durable\n{ENDINGS[how]}", f"%%durable\n{make}", "%%durable\nn = len(os.listdir(held[0].path))"]
        lives.run(*cells)
        lives.kill()
        lives.run(cells[0], make)
        lives.run(cells[2])
        assert lives.value("[os.path.isdir('work'), n]") == [True, 0]


HARMS = """
import os, tempfile
class Cuts:
    def __init__(self, path): self.path = path
    def __setstate__(self, state):
        self.__dict__.update(state)
        with open(self.path, 'r+') as f: f.truncate(0)
class Begins:
    def __init__(self, path): self.path = path
    def __setstate__(self, state):
        self.__dict__.update(state)
        open(self.path, 'w').close()
class Links:
    def __init__(self, path): self.path = os.path.abspath(path)
    def __setstate__(self, state):
        self.__dict__.update(state)
        folder = tempfile.mkdtemp()
        os.symlink(self.path, folder + '/in.txt')
        with open(folder + '/in.txt', 'w') as f: f.write('fresh')
class Sometimes:
    def __init__(self, path): self.path = path
    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.path is not None: open(self.path, 'w').close()
harmless = Sometimes(None)
""".strip()


def test_neither_saving_nor_restoring_changes_files(tmp_path: Path) -> None:
    """What would change a file when it is loaded is reported; what did not when it was tried, does not load later."""
    for name in ("cut.txt", "link.txt", "some.txt"):
        (tmp_path / name).write_text("precious")
    with Lives(tmp_path) as lives:
        lives.run(HARMS, "cuts, begins, links = Cuts('cut.txt'), Begins('new.txt'), Links('link.txt')")
        lives.run("some = Sometimes('some.txt')\nopen('new.txt', 'w').write('precious')", "last = 1")
        assert {n for n in lives.value("[u.name for u in __import__('durable_nb').unsaved()]")} == {
            "cuts", "begins", "links",
        }  # fmt: skip
        lives.kill()
        lives.run("x = harmless.path")
        assert lives.kernel.run("some").status == "error"
        told = lives.value("{u.name: u.reason for u in __import__('durable_nb').unsaved()}")
        assert "some.txt, which is there" in told["some"]
    for name in ("cut.txt", "link.txt", "some.txt", "new.txt"):
        assert (tmp_path / name).read_text() == "precious"
