"""The rules of reuse, change and recovery, each against the small program that breaks the naive version.

Every test runs real kernels: a life, a SIGKILL, the next life. Rule numbers are those of `durable_nb/reuse.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from durable_nb.testing.kernels import Kernel
from durable_nb.testing.lives import Lives, said, skipped


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook whose every cell is durable."""
    with Lives(tmp_path) as started:
        yield started


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Lives]]:
    """Start lives with settings; all are stopped in the end."""
    started: list[Lives] = []

    def start(**how: object) -> Lives:
        started.append(Lives(tmp_path, **how))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for one in started:
        one.kernel.stop()


def not_back(told: str) -> list[str]:
    """Return the variables of the table that says what is not back."""
    table = told.partition("not back:\n")[2]
    return [line.split()[0] for line in table.splitlines()[1:]]


# Rule 1: only across kernels.


def test_rule_1_the_same_kernel_runs_a_cell_again(lives: Lives) -> None:
    """Pressing Shift-Enter twice runs a cell twice: the person asked."""
    lives.run("n = [0]", "n[0] += 1")
    assert not skipped(lives.run("n[0] += 1"))
    assert lives.value("n") == [2]


def test_rule_1_a_later_life_skips_what_finished(lives: Lives) -> None:
    """After a loss Run All skips the finished cells and ends in the state of the last one."""
    cells = ["xs = []", "xs.append(1)", "total = sum(xs)"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True, True, True]
    assert lives.value("[xs, total]") == [[1], 1]


def test_rule_1_skip_never_runs_everything(make: Callable[..., Lives]) -> None:
    """With skip set to never a later life runs every cell."""
    lives = make(environ={"DURABLE_NB_SKIP": "never"})
    lives.run("x = 1")
    lives.kill()
    assert not skipped(lives.run("x = 1"))


def test_rule_1_skip_always_skips_in_the_same_life(make: Callable[..., Lives]) -> None:
    """With skip set to always an unchanged cell is skipped in the life that ran it, too."""
    lives = make(environ={"DURABLE_NB_SKIP": "always"})
    lives.run("x = 1")
    assert skipped(lives.run("x = 1"))


def test_rule_1_after_an_explicit_restore_finished_cells_are_skipped(lives: Lives) -> None:
    """`%durable restore CHECKPOINT` begins a new reckoning: what finished before it may stand for a cell."""
    lives.run("x = 1", "y = x + 1")
    head = lives.verb("status")["head"]
    lives.run("x = 10", f"%durable restore {head}")
    assert lives.value("[x, y]") == [1, 2]
    assert skipped(lives.run("y = x + 1"))


# Rule 2: which run.


def test_rule_2_a_lost_kernel_continues_its_run(lives: Lives) -> None:
    """After SIGKILL loading says that the kernel was lost and the namespace is back in the same run."""
    lives.run("x = 41")
    run = lives.verb("status")["run_id"]
    line = lives.kill()
    assert "was lost" in line
    assert "c1" in line
    assert lives.value("x") == 41
    assert lives.verb("status")["run_id"] == run


def test_rule_2_a_shutdown_continues_the_run(lives: Lives, tmp_path: Path) -> None:
    """A kernel that was culled or shut down is continued as well: only a person's restart is a new beginning."""
    lives.run("x = 41")
    run = lives.verb("status")["run_id"]
    lives.kernel.stop()
    with Lives(tmp_path) as later:
        assert "was shut down" in later.loaded
        assert later.value("x") == 41
        assert later.verb("status")["run_id"] == run


def test_rule_2_a_persons_restart_is_a_fresh_run(lives: Lives) -> None:
    """Restart & Run All stays the reproducibility check: everything runs, nothing is back, restore is offered."""
    cells = ["x = 41", "y = x + 1"]
    lives.run(*cells)
    run = lives.verb("status")["run_id"]
    line = lives.restart()
    assert "%durable restore" in line
    assert lives.value("'x' in globals()") is False
    assert lives.run_all(cells) == [False, False]
    assert lives.verb("status")["run_id"] != run


def test_rule_2_restore_after_a_restart_continues_the_previous_run(lives: Lives) -> None:
    """`%durable restore` after a person's restart brings the previous run back and skips its cells."""
    cells = ["x = 41", "y = x + 1"]
    lives.run(*cells)
    run = lives.verb("status")["run_id"]
    lives.restart()
    lives.run("%durable restore")
    assert lives.value("[x, y]") == [41, 42]
    assert lives.verb("status")["run_id"] == run
    assert lives.run_all(cells) == [True, True]


def test_rule_2_a_restart_that_had_to_kill_a_stubborn_cell_is_a_restart(lives: Lives) -> None:
    """A cell that swallows the interrupt makes the front end kill the kernel; it is a person's restart all the same."""
    lives.run("x = 41")
    stubborn = (
        "import time\nprint('in it', flush=True)\nend = time.time() + 60\n"
        "while time.time() < end:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        pass"
    )
    request = lives.kernel.begin(stubborn)
    lives.kernel.wait_for_text(request, "in it")
    line = lives.restart()
    assert "%durable restore" in line
    assert lives.value("'x' in globals()") is False


def test_rule_2_on_restart_continue(make: Callable[..., Lives]) -> None:
    """With on_restart set to continue a restart is treated like a loss."""
    lives = make(environ={"DURABLE_NB_ON_RESTART": "continue"})
    lives.run("x = 41")
    lives.restart()
    assert lives.value("x") == 41
    assert skipped(lives.run("x = 41"))


def test_restore_when_everything_is_back_says_so(lives: Lives) -> None:
    """`%durable restore` after an automatic restore succeeds and says that nothing was to be done."""
    lives.run("x = 1")
    lives.kill()
    assert "back already" in "".join(lives.kernel.run("%durable restore").of("display_data")[0]["data"]["text/plain"])


# Rule 3: same cell = same code and same input versions.


def test_rule_3_comments_and_layout_are_not_code(lives: Lives) -> None:
    """A comment or other spacing does not make a finished cell run again; another constant does."""
    lives.run("x = 1 + 1")
    lives.kill()
    assert skipped(lives.run("x = 1+1  # two"))
    assert not skipped(lives.run("x = 1 + 2"))


def test_rule_3_the_cell_id_does_not_matter(lives: Lives) -> None:
    """A cell with another id, or none, is the same cell if code and inputs are the same."""
    lives.run("x = 5", cell_id="first")
    lives.kill()
    assert skipped(lives.run("x = 5", cell_id="other"))


def test_rule_3_changed_input_runs_the_cell_and_only_what_depends(lives: Lives) -> None:
    """Editing a cell reruns it and the cells that read what it made, and no other."""
    cells = ["a = 1", "b = 10", "c = a + 1", "d = b + 1"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(["a = 2", "b = 10", "c = a + 1", "d = b + 1"]) == [False, True, False, True]
    assert lives.value("[a, b, c, d]") == [2, 10, 3, 11]


def test_rule_3_two_cells_with_the_same_code(lives: Lives) -> None:
    """Two equal cells are told apart by their inputs: each is skipped with its own result."""
    cells = ["xs = []", "xs.append(len(xs))", "xs.append(len(xs))", "n = len(xs)"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True] * 4
    assert lives.value("[xs, n]") == [[0, 1], 2]


def test_rule_3_equal_cells_without_inputs_are_told_apart_by_their_place(lives: Lives) -> None:
    """Two cells `i = []` without ids stand for their own places, so that what reads `i` between them is skipped too."""
    cells = ["i = []", "i.append(1)\nfirst = list(i)", "i = []", "i.append(2)\nsecond = list(i)"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True] * 4
    assert lives.value("[first, second, i]") == [[1], [2], [2]]


@pytest.mark.parametrize("ids", [("a", "b", "c", "d"), (None, None, None, None)])
def test_rule_3_a_finished_cell_does_not_stand_for_two(lives: Lives, ids: tuple[str | None, ...]) -> None:
    """A cell that has not finished runs, although one above it with the same code has: each writes its line."""
    line = "with open('log', 'a') as log:\n    _ = log.write('x')"
    cells = ["x = 0", line, "y = 1"]
    for cell, cell_id in zip(cells, ids, strict=False):
        lives.run(cell, cell_id=cell_id)
    lives.kill()
    for _ in range(2):  # all again, because something further down had failed, skips the same
        again = [skipped(lives.run(cell, cell_id=cell_id)) for cell, cell_id in zip(cells, ids, strict=False)]
        assert again == [True, True, True]
    assert not skipped(lives.run(line, cell_id=ids[3]))
    assert lives.value("open('log').read()") == "xx"


def test_rule_3_new_ids_when_the_notebook_is_opened_again(lives: Lives) -> None:
    """All again under ids that are new ones each time, in one life of the kernel: everything is skipped each time."""
    cells = ["x = 0", "y = 1"]
    for opened in ("a", "b", "c"):
        shown = [skipped(lives.run(cell, cell_id=f"{opened}{n}")) for n, cell in enumerate(cells)]
        assert shown == [opened != "a"] * 2
        if opened == "a":
            lives.kill()


@pytest.mark.parametrize("from_top", [False, True])
def test_rule_3_a_cell_that_goes_on_makes_an_object_of_its_own(lives: Lives, from_top: bool) -> None:
    """The next cell, with the code of a finished one, does not get what was joined to that one's object since."""
    cells = ["z = 0", "b = [1, 2]", "c = b"]
    for number, cell in enumerate(cells):
        lives.run(cell, cell_id=f"c{number}")
    lives.kill()
    if from_top:
        assert [skipped(lives.run(cell, cell_id=f"c{n}")) for n, cell in enumerate(cells)] == [True] * 3
        assert lives.value("c is b")
    lives.run("b = [1, 2]", cell_id="new")
    lives.run("c.append(3)", cell_id="last")
    assert lives.value("[b, c, c is b]") == [[1, 2], [1, 2, 3], False]


def test_rule_3_an_edited_cell_in_the_middle_sees_the_state_before_it(lives: Lives) -> None:
    """A changed cell runs on the state that the cells above it left, not on what came after it in the last life."""
    lives.run("xs = [1]", "xs.append(2)", "xs.append(3)")
    lives.kill()
    assert lives.run_all(["xs = [1]", "xs.append(20)"]) == [True, False]
    assert lives.value("xs") == [1, 20]


# Rule 4: what a cell reads.


def test_rule_4_functions_are_read_through(lives: Lives) -> None:
    """A changed global that only a called function reads makes the calling cell run."""
    lives.run("k = 2", "def f():\n    return k * 10", "y = f()")
    lives.kill()
    assert lives.run_all(["k = 3", "def f():\n    return k * 10", "y = f()"]) == [False, True, False]
    assert lives.value("y") == 30


def test_rule_4_an_edited_function_reruns_its_callers(lives: Lives) -> None:
    """A cell that calls a function runs again when the function's code changed."""
    lives.run("def f():\n    return 1", "y = f()")
    lives.kill()
    assert lives.run_all(["def f():\n    return 2", "y = f()"]) == [False, False]
    assert lives.value("y") == 2


def test_rule_4_names_in_strings_are_read(lives: Lives) -> None:
    """`df.query("a > @t")` reads `t`."""
    lives.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3]})", "t = 1", "n = len(df.query('a > @t'))")
    lives.kill()
    again = ["import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3]})", "t = 2", "n = len(df.query('a > @t'))"]
    assert lives.run_all(again) == [True, False, False]
    assert lives.value("n") == 1


def test_rule_4_eval_reads_everything(lives: Lives) -> None:
    """A cell with `eval` runs again when any variable changed, and is skipped when none did."""
    lives.run("a = 1", "b = 2", "y = eval('a')")
    lives.kill()
    assert lives.run_all(["a = 1", "b = 2", "y = eval('a')"]) == [True, True, True]
    lives.kill()
    assert lives.run_all(["a = 1", "b = 3", "y = eval('a')"]) == [True, False, False]


def test_rule_4_a_local_module_is_read(lives: Lives) -> None:
    """Editing a local module makes the cells that use it run again."""
    (lives.folder / "helper_mod.py").write_text("def f():\n    return 1\n")
    cells = ["import helper_mod", "y = helper_mod.f()", "z = 1"]
    lives.run(*cells)
    (lives.folder / "helper_mod.py").write_text("def f():\n    return 22\n")
    lives.kill()
    assert lives.run_all(cells)[1:] == [False, True]
    assert lives.value("y") == 22


# Rule 5: process state is input too.


def test_rule_5_editing_a_seed_reruns_what_draws(lives: Lives) -> None:
    """`seed(0)` edited to `seed(1)` above reruns the draw below, and not the cell that draws nothing."""
    lives.run("import random\nrandom.seed(0)", "x = random.random()", "w = 5")
    lives.kill()
    assert lives.run_all(["import random\nrandom.seed(1)", "x = random.random()", "w = 5"]) == [False, False, True]
    import random

    assert lives.value("x") == random.Random(1).random()


def test_rule_5_an_unseeded_draw_is_skipped_and_the_stream_goes_on(lives: Lives) -> None:
    """Nothing set the stream, so a finished draw stands; the stream continues behind it as if nothing had happened."""
    cells = ["import random", "x = random.random()"]
    lives.run(*cells)
    before = lives.value("[x, sum(random.getstate()[1])]")
    lives.kill()
    assert lives.run_all(cells) == [True, True]
    assert lives.value("[x, sum(random.getstate()[1])]") == before


def test_rule_5_numpy_stream_comes_back(lives: Lives) -> None:
    """The legacy numpy stream goes on where the last finished cell left it."""
    lives.run("import numpy as np\nnp.random.seed(3)", "a = np.random.rand(2).tolist()")
    lives.kill()
    lives.run("b = np.random.rand(2).tolist()")
    import numpy as np

    stream = np.random.RandomState(3)
    assert lives.value("[a, b]") == [stream.rand(2).tolist(), stream.rand(2).tolist()]


def test_rule_5_an_effect_on_a_library_class_is_run_again(lives: Lives) -> None:
    """`pd.DataFrame.f = …` cannot be in a delta: the cell is never skipped, and `why` says so."""
    cells = ["import pandas as pd", "%%durable patch\npd.DataFrame.count_all = lambda self: self.size", "x = 1"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True, False, True]
    assert lives.value("pd.DataFrame({'a': [1, 2]}).count_all()") == 2
    lives.kill()
    assert "outside the namespace" in " ".join(lives.verb("why patch")["reasons"])


def test_rule_5_the_working_folder_is_input(lives: Lives) -> None:
    """A cell that ran in another folder is not reused in this one."""
    cells = ["import os\nos.makedirs('sub', exist_ok=True)", "os.chdir('sub')", "here = os.path.basename(os.getcwd())"]
    lives.run(*cells)
    lives.kill()
    assert lives.value("here") == "sub"
    assert lives.value("os.path.basename(os.getcwd())") == "sub"
    assert lives.run_all(cells) == [True, True, True]
    assert lives.run_all(["os.chdir('..')", cells[2]]) == [False, False]
    assert lives.value("here") != "sub"


# Rule 6: files read are input.


def test_rule_6_a_changed_file_reruns_its_reader(lives: Lives) -> None:
    """A cell that read a file runs again when its content changed, and not when only its time did."""
    data = lives.folder / "data.txt"
    data.write_text("1")
    cells = ["with open('data.txt') as f:\n    x = int(f.read())", "y = x + 1"]
    lives.run(*cells)
    data.write_text("1")
    lives.kill()
    assert lives.run_all(cells) == [True, True]
    data.write_text("2")
    lives.kill()
    assert lives.run_all(cells) == [False, False]
    assert lives.value("[x, y]") == [2, 3]


WRITE = "from pathlib import Path\nPath('d.txt').write_text('1')"
READ = "v = Path('d.txt').read_text()"


@pytest.mark.parametrize(
    "later",
    [
        ["Path('d.txt').write_text('2')"],
        ["Path('d.txt').unlink()"],
        ["Path('d.txt').rename('e.txt')"],
        ["Path('tmp').write_text('3')\nPath('tmp').replace('d.txt')"],
        ["with open('d.txt', 'a') as f:\n    f.write('2')", "with open('d.txt', 'a') as f:\n    f.write('3')"],
        ["old = Path('d.txt').read_text()\nPath('d.txt').write_text(old + '2')", "again = Path('d.txt').read_text()"],
        ["Path('d.txt').write_text('2')", "w = Path('d.txt').read_text()", "Path('d.txt').unlink()"],
        ["import os\nos.truncate('d.txt', 0)"],
    ],
    ids=["rewritten", "removed", "renamed", "replaced", "appended", "read and written", "twice", "truncated"],
)
def test_rule_6_a_file_that_later_cells_left_so_is_no_reason(lives: Lives, later: list[str]) -> None:
    """Killed behind each cell that changes a file, Run All skips its reader, and all is as without the kill."""
    cells = [WRITE, READ]
    lives.run(*cells)
    for cell in later:
        lives.run(cell)
        cells.append(cell)
        files = lives.value("sorted((p.name, p.read_text()) for p in Path().glob('*.txt'))")
        for _ in range(2):
            lives.kill()
            assert [True] * len(cells) == lives.run_all(cells)
        assert ["1", files] == lives.value("[v, sorted((p.name, p.read_text()) for p in Path().glob('*.txt'))]")


def test_rule_6_a_folder_that_later_cells_filled_or_removed_is_no_reason(lives: Lives) -> None:
    """Listing a folder and reading in it stands, when later cells put files into the folder and remove it whole."""
    cells = [
        "import shutil\nfrom pathlib import Path\nPath('out').mkdir()\nPath('out/a').write_text('1')",
        "names = sorted(p.name for p in Path('out').iterdir())\nv = Path('out/a').read_text()",
        "Path('out/b').write_text('2')",
        "shutil.rmtree('out')",
    ]
    lives.run(*cells[:3])
    lives.kill()
    assert [True] * 3 == lives.run_all(cells[:3])
    lives.run(cells[3])
    lives.kill()
    assert [True] * 4 == lives.run_all(cells)
    assert [["a"], "1"] == lives.value("[names, v]")


def test_rule_6_a_file_that_a_failed_cell_left_is_no_reason(lives: Lives) -> None:
    """A cell that changed the file and failed runs again; what was read before it stands."""
    fails = "Path('d.txt').write_text('2')\nraise ValueError('no')"
    lives.run(WRITE, READ)
    assert "error" == lives.kernel.run(fails).status
    lives.kill()
    assert [True, True] == lives.run_all([WRITE, READ])
    assert "error" == lives.kernel.run(fails).status
    assert "1" == lives.value("v")


def test_rule_6_a_file_changed_from_outside_since_reruns_its_reader(lives: Lives) -> None:
    """What somebody else made of a file after the last cell, or before a cell added to it, is read."""
    add = "with open('d.txt', 'a') as f:\n    f.write('2')"
    cells = [WRITE, READ, add]
    lives.run(*cells)
    (lives.folder / "d.txt").write_text("outside")
    lives.kill()
    assert [True, False, True] == lives.run_all(cells)
    assert "outside" == lives.value("v")
    (lives.folder / "d.txt").write_text("edited")
    lives.run("%%durable --rerun\n" + add)
    lives.kill()
    assert [True, False, True] == lives.run_all(cells)
    assert "edited2" == lives.value("v")


@pytest.mark.parametrize(
    ("last", "end"),
    [
        ("Path('d.txt').write_text('2')", "2"),
        ("with open('d.txt', 'a') as f:\n    f.write('2')", "52"),
        ("Path('d.txt').unlink()", None),
    ],
    ids=["rewritten", "appended", "removed"],
)
def test_rule_6_an_edited_writer_reruns_readers_and_later_writers(lives: Lives, last: str, end: str | None) -> None:
    """When the cell above writes something else, its reader runs, and so do those that change the file after it."""
    lives.run(WRITE, READ, last)
    edited = [WRITE.replace("'1'", "'5'"), READ, last]
    lives.kill()
    assert [False, False] == lives.run_all(edited[:2])
    lives.kill()
    assert [True, True, False] == lives.run_all(edited)
    lives.kill()
    assert [True, True, True] == lives.run_all(edited)
    found = lives.value("[v, Path('d.txt').read_text() if Path('d.txt').exists() else None]")
    assert ["5", end] == found


def test_rule_6_an_edited_reader_reads_what_is_there(lives: Lives) -> None:
    """A reader whose code changed runs, and reads what the last cell left, as a cell that nobody can move back does."""
    lives.run(WRITE, READ, "Path('d.txt').write_text('2')")
    lives.kill()
    assert [True, False, True] == lives.run_all(
        [WRITE, "v = Path('d.txt').read_text() + '!'", "Path('d.txt').write_text('2')"]
    )
    assert "2!" == lives.value("v")


def test_rule_6_a_reader_that_left_its_place_reads_what_is_there(lives: Lives) -> None:
    """Without the cell that had written the file before it, or behind a later one, a reader runs."""
    lives.run(WRITE, READ, "Path('d.txt').write_text('2')")
    lives.kill()
    assert not skipped(lives.run(READ))
    lives.kill()
    assert [True, True] == lives.run_all([WRITE, "Path('d.txt').write_text('2')"])
    assert "2" == lives.value("v")


def test_rule_6_adding_to_a_file_again_costs_no_later_cell_its_skip(lives: Lives) -> None:
    """A cell that runs in every kernel and adds to a log, or only opens it, is no reason for those below it."""
    always = "import pandas as pd\npd.DataFrame.f = None\nwith open('log', 'a') as f:\n    n = f.write({!r})"
    for text in ("x", ""):
        cells = [always.format(text), f"with open('log', 'a') as f:\n    n = f.write('{text}y')", "z = 1"]
        lives.run(*cells)
        lives.kill()
        assert [False, True, True] == lives.run_all(cells)


def test_rule_6_unknown_inputs_are_told(lives: Lives) -> None:
    """A shell command's inputs cannot be seen: the skip line says so."""
    lives.run("out = !echo hi")
    lives.kill()
    reply = lives.run("out = !echo hi")
    assert skipped(reply)
    assert "inputs it cannot see" in said(reply)


def test_rule_6_unknown_inputs_run(make: Callable[..., Lives]) -> None:
    """With unknown_inputs set to run such a cell runs again."""
    lives = make(environ={"DURABLE_NB_UNKNOWN_INPUTS": "run"})
    lives.run("out = !echo hi")
    lives.kill()
    assert not skipped(lives.run("out = !echo hi"))


def test_rule_6_depends_settles_it(lives: Lives) -> None:
    """`--depends` compares a file by content, `--key` a value, `--skip-if` a goal."""
    (lives.folder / "in.txt").write_text("a")
    cells = [
        "version = 'v1'",
        "%%durable shell --depends in.txt\nout = !cat in.txt",
        "%%durable keyed --key version\nkeyed = 1",
        "%%durable goal --skip-if \"__import__('os').path.exists('done')\"\nopen('done', 'w').close()",
    ]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True, True, True, True]
    (lives.folder / "in.txt").write_text("b")
    lives.kill()
    reply = [skipped(lives.run(c)) for c in ["version = 'v2'", *cells[1:3]]]
    assert reply == [False, False, False]
    assert "skipped" in said(lives.run(cells[3]))


# Rule 7: changes between cells.


def test_rule_7_what_changes_between_cells_is_committed(make: Callable[..., Lives]) -> None:
    """Plain cells and threads change names too: before the next durable cell that is a commit of its own."""
    lives = make(durable=False)
    lives.run(
        "%%durable start\nxs = []",
        "xs.append('plain')",
        "import threading, time\ndef grow():\n    for i in range(3):\n        xs.append(i)\n"
        "t = threading.Thread(target=grow); t.start(); t.join(); del t",
        "%%durable after\nn = len(xs)",
    )
    reasons = [c["made_by"] for c in lives.verb("checkpoints")]
    assert reasons == ["start", "between cells", "after"]
    lives.kill()
    assert lives.value("[xs, n]") == [["plain", 0, 1, 2], 4]


# Rule 8: versions come from commits.


def test_rule_8_a_plain_cell_with_equal_content_keeps_the_version(make: Callable[..., Lives]) -> None:
    """A plain cell that runs again and makes equal content does not make the durable cells below it run again."""
    lives = make(durable=False)
    cells = [
        "rows = [{'k': i, 's': {i, -i}} for i in range(100)]\ndef double(x):\n    return 2 * x",
        "%%durable total\ntotal = sum(double(r['k']) for r in rows)",
    ]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [False, True]
    assert lives.run_all([cells[0].replace("100", "101"), cells[1]]) == [False, False]
    assert lives.value("total") == 10100


# Rule 9: a skip must not break aliases.


def test_rule_9_a_skip_leaves_live_objects_alone(lives: Lives) -> None:
    """`a=[1]` · `b=a` · `d={'k':a}`: skipping any of them leaves `d['k'] is a`."""
    cells = ["a = [1]", "b = a", "d = {'k': a}"]
    lives.run(*cells)
    lives.kill()
    assert skipped(lives.run("b = a"))
    assert lives.value("[d['k'] is a, b is a]") == [True, True]
    assert lives.run_all(cells) == [True, True, True]
    assert lives.value("[d['k'] is a, b is a]") == [True, True]
    lives.run("a.append(2)")
    assert lives.value("[d, b]") == [{"k": [1, 2]}, [1, 2]]


def test_rule_9_a_mutating_cell_whose_object_is_shared_runs(make: Callable[..., Lives]) -> None:
    """If a skip would have to replace an object that another live name holds, the cell runs."""
    lives = make(durable=False)
    lives.run("xs = [1]", "%%durable grow\nxs.append(2)")
    lives.kill()
    lives.run("xs = [1]\nholder = {'xs': xs}")
    assert not skipped(lives.run("%%durable grow\nxs.append(2)"))
    assert lives.value("[xs, holder['xs'] is xs]") == [[1, 2], True]


def test_rule_9_aliases_survive_a_change_in_the_middle(lives: Lives) -> None:
    """When an edited cell makes the namespace go back to the middle, names that shared an object share it again."""
    lives.run("a = [1]", "b = a", "a.append(2)", "c = list(a)")
    lives.kill()
    assert lives.run_all(["a = [1]", "b = a", "b.append(9)"]) == [True, True, False]
    assert lives.value("[a, b, a is b]") == [[1, 9], [1, 9], True]


# Rule 10: other library versions.


def test_rule_10_another_library_version_warns_and_keeps_the_work(lives: Lives) -> None:
    """Work of hours is not discarded for a new library version; one line says which differ."""
    lives.run("import numpy as np\nx = np.arange(3)")
    lives.kernel.sigkill()
    site = lives.folder / "sitecustomize.py"
    site.write_text("import numpy\nnumpy.__version__ = '0.0.1'\n")
    environ = {"PYTHONPATH": str(lives.folder)}
    with Lives(lives.folder, environ=environ) as later:
        assert "other versions" in later.loaded
        assert "numpy" in later.loaded
        assert skipped(later.run("import numpy as np\nx = np.arange(3)"))


# Rule 11: failed, canceled and lost attempts.


def test_rule_11_a_failed_attempt_is_never_a_hit(lives: Lives) -> None:
    """A failed cell runs again; what it changed before it failed is committed and named by status."""
    lives.run("xs = []")
    assert lives.kernel.run("xs.append(1)\nraise ValueError('no')").status == "error"
    lives.run("done = True")
    assert [c["status"] for c in lives.status()["cells"]] == ["completed", "failed", "completed"]
    lives.kill()
    assert lives.value("xs") == [1]
    assert lives.kernel.run("xs.append(1)\nraise ValueError('no')").status == "error"


def test_rule_11_a_lost_attempt_is_never_a_hit(lives: Lives) -> None:
    """A cell that the kernel did not survive is recorded as lost, named at the next load, and runs again."""
    lives.run("x = 1")
    request = lives.kernel.begin("%%durable deadly\nprint('in it', flush=True)\nimport time\ntime.sleep(60)")
    lives.kernel.wait_for_text(request, "in it")
    line = lives.kill()
    assert "«deadly»" in line
    assert [c["status"] for c in lives.status()["cells"]] == ["completed", "lost"]
    assert not skipped(lives.run("%%durable deadly\nprint('in it', flush=True)"))


# Rules 14 and 16 are about what this load needs, and rule 25 about figures.


def test_rule_14_a_value_that_does_not_load_costs_no_other(lives: Lives) -> None:
    """A damaged group is reported by name; everything else is back."""
    lives.run("import os\nbig = os.urandom(3_000_000)", "other = os.urandom(2_000_000)\nn = len(other)")
    lives.kernel.sigkill()
    packs = sorted((lives.folder / ".durable" / "packs").rglob("*.pack"), key=lambda p: p.stat().st_mtime)
    raw = bytearray(packs[0].read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    packs[0].chmod(0o600)
    packs[0].write_bytes(bytes(raw))
    with Lives(lives.folder) as later:
        assert "big" in not_back(later.loaded)
        assert later.value("[n, len(other), 'big' in globals()]") == [2_000_000, 2_000_000, False]


def test_rule_25_inline_figures_are_recorded(lives: Lives) -> None:
    """A figure drawn by a finished cell is shown again when the cell is skipped."""
    cells = ["%matplotlib inline\nimport matplotlib.pyplot as plt", "plt.plot([1, 2, 3]);"]
    lives.run(cells[0])
    first = [o["data"]["image/png"] for o in lives.run(cells[1]).of("display_data") if "image/png" in o["data"]]
    lives.kill()
    lives.run(cells[0])
    reply = lives.run(cells[1])
    again = [o["data"]["image/png"] for o in reply.of("display_data") if "image/png" in o["data"]]
    assert skipped(reply)
    assert len(first) == 1
    assert again == first


def test_setup_cells_run_again_by_themselves_on_restore(lives: Lives) -> None:
    """A `--setup` cell runs when the namespace comes back, so that connections are there, and is never skipped."""
    cell = "%%durable connect --setup\nimport sqlite3\ncon = sqlite3.connect(':memory:')"
    lives.run("path = ':memory:'", cell, "n = con.execute('select 7').fetchone()[0]")
    line = lives.kill()
    assert "«connect»" in line
    assert "`con`" not in line
    assert lives.value("[con.execute('select 1').fetchone()[0], n]") == [1, 7]
    assert not skipped(lives.run(cell))


def test_a_failing_setup_cell_is_told_and_costs_nothing_else(lives: Lives) -> None:
    """When a `--setup` cell fails on restore one line says so, and the variables are back."""
    (lives.folder / "flag").write_text("")
    lives.run("x = 1", "%%durable open --setup\nhandle = open('flag').name")
    (lives.folder / "flag").unlink()
    line = lives.kill()
    assert "«open»: FileNotFoundError" in line
    assert lives.value("x") == 1


def test_a_cell_that_made_an_unsavable_name_runs_again(lives: Lives) -> None:
    """What a checkpoint cannot hold is made again by Run All instead of being missing."""
    cells = ["import sqlite3\ncon = sqlite3.connect(':memory:')", "x = 1"]
    lives.run(*cells)
    assert ["con"] == not_back(lives.kill())
    assert lives.run_all(cells) == [False, True]


def test_a_file_handle_left_over_does_not_cost_the_skip(lives: Lives) -> None:
    """`with open(…) as f` leaves a closed file named `f` behind; its cell and the next one are skipped all the same."""
    cells = [
        "with open('a.txt', 'w') as f:\n    n = f.write('x')",
        "with open('b.txt', 'w') as f:\n    n = f.write('y')",
    ]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True, True]


def test_rerun_runs_a_finished_cell(lives: Lives) -> None:
    """`--rerun` runs whatever would be skipped."""
    lives.run("%%durable a\nx = 1")
    lives.kill()
    assert not skipped(lives.run("%%durable a --rerun\nx = 1"))


def test_results_and_outputs_of_skipped_cells(lives: Lives) -> None:
    """A skipped cell shows all its outputs again in order and its value is `Out[n]` and `_`."""
    cell = "print('one')\nimport sys; print('two', file=sys.stderr)\n6 * 7"
    first = lives.run(cell)
    lives.kill()
    again = lives.run(cell)
    kinds = [(o["output_type"], o.get("text")) for o in again.outputs if o["output_type"] != "display_data"]
    assert [(o["output_type"], o.get("text")) for o in first.outputs] == kinds
    assert again.result == "42"
    assert lives.value("_") == 42
    assert lives.value(f"Out[{again.execution_count}]") == 42


def test_cells_that_ran_before_the_extension_was_loaded_win(make: Callable[..., Lives]) -> None:
    """An edited parameter cell above `%load_ext` is not overwritten by the restore, and what depends on it runs."""
    lives = make(durable=False)
    lives.run("extra = 1", "xs = []\nrate = 2", "%%durable grow\nxs.append(rate)", "%%durable other\ny = 1")
    lives.kernel.sigkill()
    lives.kernel = Kernel(lives.folder, environ={"DURABLE_NB_KEY_FILE": str(lives.folder / "key")})
    lives.run("mine = 7", "xs = []\nrate = 3")
    loaded = said(lives.run("%load_ext durable_nb"))
    assert "`rate`" in loaded
    assert lives.value("[mine, rate, xs, y, extra]") == [7, 3, [], 1, 1]
    assert not skipped(lives.run("%%durable grow\nxs.append(rate)"))
    assert skipped(lives.run("%%durable other\ny = 1"))
    assert lives.value("xs") == [3]


def test_rule_9_cells_skipped_after_one_that_ran_count_when_that_kernel_is_lost_too(lives: Lives) -> None:
    """After a cell ran in the middle of Run All, the next loss goes back to the last skipped cell, not to that one."""
    cells = ["e = [1]", "seen = 1", "e = [2]", "e = [3]"]
    lives.run(*cells)
    lives.kill()
    assert [True, False, True] == lives.run_all([cells[0], "seen = 5", cells[2]])
    lives.kill()
    assert [[2], 5] == lives.value("[e, seen]")
    lives.kill()
    assert [[2], 5] == lives.value("[e, seen]")


def test_rule_9_a_loss_while_run_all_only_skips_goes_back_to_the_last_checkpoint(lives: Lives) -> None:
    """As long as nothing has run, the variables are those of the last finished cell, however far the skips came."""
    cells = ["n = 1", "n = 2", "n = 3"]
    lives.run(*cells)
    lives.kill()
    assert [True] == lives.run_all(cells[:1])
    lives.kill()
    assert 3 == lives.value("n")


def test_rule_9_what_is_skipped_refers_to_a_function_that_ran_again_in_this_kernel(lives: Lives) -> None:
    """A function made again has its code in another kernel's file, and is the one that skipped objects hold."""
    cells = [
        "import functools\nclass A: pass",
        "b = A()\n1 / 0",
        "def f(x=0):\n    return x, b\na = functools.partial(f, key=b)",
        "g = iter({1: a})",
    ]
    for cell in cells:
        lives.kernel.run(cell)
    lives.kill()
    for cell in cells:
        lives.kernel.run(cell)
    assert [True, True, True] == lives.value("[a.func is f, a.keywords['key'] is b, next(iter([a])) is a]")


@pytest.mark.parametrize("tag", ["{'k': A}", "{'k': A, 'at': os.getpid()}"])
@pytest.mark.parametrize("change", ["A.x = 1", "a = A.get"])
def test_rule_9_what_holds_a_class_that_a_skipped_cell_changed_holds_it_afterwards(
    lives: Lives, tag: str, change: str
) -> None:
    """A class made again is not replaced by the changed one alone: others, equal to what they were or not, hold it."""
    cells = [
        f"import os\nclass A:\n    def get(self): return 1\nclass B: pass\nB.tag = {tag}\nlost = (i for i in [1])",
        change,
    ]
    lives.run(*cells)
    lives.kill()
    lives.run_all(cells)
    assert [True, True] == lives.value("[B.tag['k'] is A, getattr(A, 'x', 1) == 1 == A().get()]")
    assert lives.value("A.get is globals().get('a', A.get)") is True
