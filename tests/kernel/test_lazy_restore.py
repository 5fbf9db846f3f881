"""Large variables in real kernels: the first cell does not wait for them, and they come when they are asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from durable_nb.store.mapping import is_local
from durable_nb.testing.lives import Lives, said, skipped

CELLS = (
    "import numpy as np\nrng = np.random.default_rng(1)",
    "big = rng.random(12_000_000)\nother = rng.random(12_000_000)\nboth = {'other': other}",
    "small = {'n': 1}\ndef mean():\n    return float(big.mean())",
    "first = float(big[0]), float(other[-1]), float(big.mean())",
)
LARGE = {"big", "other", "both"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """A notebook with some 200 MB in two groups, killed."""
    with Lives(tmp_path_factory.mktemp("lazy")) as lives:
        lives.run(*CELLS)
        yield lives


@pytest.fixture
def lives(shared: Lives) -> Lives:
    """The next kernel of that notebook, right after its restore."""
    shared.kill()
    return shared


def waiting(lives: Lives) -> set[str]:
    """The names that are still to be loaded."""
    return {entry["name"] for entry in lives.verb("status")["pending"]}


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Ask again until it holds; a minute is far more than it takes."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what


def test_the_first_cell_does_not_wait(lives: Lives) -> None:
    """A cell that needs nothing large runs while everything large is still to be loaded, and says so."""
    assert "3 loaded when needed (183.1 MiB)" in lives.loaded
    assert "{'n': 1}" in lives.run("print(small)").text()
    assert waiting(lives) == LARGE


def test_a_cell_loads_what_it_reaches(lives: Lives) -> None:
    """A function's variable is there when a cell calls it; what shares nothing with it waits."""
    assert lives.run("print(mean() == first[2])").text() == "True\n"
    assert "big" not in waiting(lives)


def test_sharing_and_changes_survive(lives: Lives) -> None:
    """What comes later shares its memory as before, and a change of it is there after the next loss."""
    assert lives.run("other[-1] = 7.0\nprint(both['other'] is other, both['other'][-1])").text() == "True 7.0\n"
    lives.kill()
    assert lives.run("print(other[-1], both['other'] is other)").text() == "7.0 True\n"
    lives.run("other[-1] = first[1]")


def test_a_loss_while_everything_is_pending(lives: Lives) -> None:
    """Killed again before anything was loaded, the next kernel has it all."""
    lives.run("small['n'] += 1")
    assert waiting(lives) == LARGE
    lives.kill()
    assert lives.run("print(small['n'], mean() == first[2], float(other[-1]) == first[1])").text() == "2 True True\n"
    lives.run("small['n'] = 1")


def test_run_all_loads_nothing_until_a_cell_runs(lives: Lives) -> None:
    """Skipped cells load nothing; a new cell below them loads what it needs."""
    assert [skipped(lives.run(cell)) for cell in CELLS] == [True] * 4
    assert waiting(lives) == LARGE
    reply = lives.run("print(float(big[0]) == first[0])")
    assert (reply.text(), waiting(lives) >= {"other", "both"}) == ("True\n", True)


def test_an_edited_cell_loads_what_it_needs(lives: Lives) -> None:
    """A cell in the middle that really runs sees what the cells above had made; the large rest still waits."""
    assert [skipped(lives.run(cell)) for cell in CELLS[:2]] == [True, True]
    assert not skipped(lives.run("edited = sorted(['small', 'n'])"))
    assert waiting(lives) == LARGE


def test_idle_moments_load_the_rest(lives: Lives) -> None:
    """With nothing to do the kernel loads everything, and then its builtins are the plain ones."""
    wait_until(lambda: not waiting(lives), "the rest is loaded in idle moments")
    assert lives.value("[type(__builtins__).__name__, both['other'] is other]") == ["module", True]


def test_pages_of_packs_become_the_kernels_own(lives: Lives) -> None:
    """What is loaded consists of the pages of packs, and of copies of them once the kernel has been idle."""
    if not is_local(str(lives.folder)):
        pytest.skip("nothing is mapped here")
    assert "True True" in lives.run("print(big.base is None, big.flags.owndata, big[0] == first[0])").text()
    assert len(pages(lives)) > 0
    wait_until(lambda: all(own == size for size, own in pages(lives)), "the pages are copied in idle moments")
    assert lives.run("print(mean() == first[2], float(other[-1]) == first[1])").text() == "True True\n"


def pages(lives: Lives) -> list[tuple[int, int]]:
    """The size of each mapping of a pack in the kernel, and how much of it is a copy."""
    text = Path(f"/proc/{lives.kernel.pid}/smaps").read_text()
    parts = [part for part in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", text) if ".pack" in part.partition("\n")[0]]
    return [(int(re.search(r"Size: +(\d+)", p)[1]), int(re.search(r"Anonymous: +(\d+)", p)[1])) for p in parts]


def test_threads_and_tasks_ask(lives: Lives) -> None:
    """What a thread reads in a way that nobody foresees is there, as is what a task reads."""
    code = (
        "import threading, asyncio\n"
        "hidden = {}\n"
        "deep = [[[[[[[lambda: float(big[0])]]]]]]]\n"
        "def call(x):\n"
        "    while isinstance(x, list): x = x[0]\n"
        "    hidden['thread'] = x()\n"
        "t = threading.Thread(target=call, args=(deep,)); t.start(); t.join()\n"
        "async def task(): return float(other[-1])\n"
        "hidden['task'] = await asyncio.create_task(task())"
    )
    lives.run(code)
    assert lives.run("print(hidden['thread'] == first[0], hidden['task'] == first[1])").text() == "True True\n"


def test_eager_loads_all_now(lives: Lives) -> None:
    """`%durable restore --eager` leaves nothing for later."""
    assert "more loaded; everything is back." in str(lives.run("%durable restore --eager"))
    assert waiting(lives) == set()


def test_unloading_the_extension_loads_the_rest(lives: Lives) -> None:
    """Nobody could load it afterwards."""
    lives.run("%unload_ext durable_nb")
    assert lives.run("print(float(big[0]) == first[0], type(__builtins__).__name__)").text() == "True module\n"


def test_what_cannot_be_loaded_fails_by_name(tmp_path: Path) -> None:
    """A damaged variable is told when it is needed, in the words of every missing variable; the others are there."""
    with Lives(tmp_path) as lives:
        lives.run(CELLS[0], "big = rng.random(12_000_000)", "other = rng.random(12_000_000)")
        lives.run("%durable checkpoints")  # which waits until all that was handed over is in its pack
        for pack in sorted((tmp_path / ".durable" / "packs").iterdir(), key=lambda p: p.stat().st_mtime_ns)[-2:-1]:
            with pack.open("r+b") as file:
                file.seek(pack.stat().st_size // 2)
                file.write(b"\0" * 64)
        assert "2 loaded when needed" in lives.kill()
        reply = lives.kernel.run("print(float(big[0]))")
        assert reply.ename == "NameError"
        assert "`big` could not be" in said(reply)
        assert lives.run("print(len(other))").text() == "12000000\n"
        assert [u["name"] for u in lives.verb("status")["unsaved"]] == ["big"]


@pytest.mark.parametrize("shown", ["", "big[:3]"], ids=["as the cell left it", "stored again with a view of it"])
def test_the_cell_that_makes_what_is_damaged_runs(tmp_path: Path, shown: str) -> None:
    """Once a value could not be loaded, the cell that makes it is not skipped: what it made would not come either."""
    cell = "import numpy as np\nbig = np.arange(12_000_000.0) ** 0.5"
    with Lives(tmp_path) as lives:
        lives.run(cell, shown or "pass")
        lives.run("%durable checkpoints")
        pack = max((tmp_path / ".durable" / "packs").iterdir(), key=lambda p: p.stat().st_size)
        with pack.open("r+b") as file:
            file.seek(pack.stat().st_size // 2)
            file.write(b"\0" * 64)
        lives.kill()
        reply = lives.kernel.run("big[0]")
        assert ("NameError", True) == (reply.ename, "cannot be loaded" in said(reply) + str(reply))
        assert "cannot be loaded" in str(lives.run("%durable why 3"))
        assert [False] == lives.run_all([cell])
        assert lives.run("print(len(big))").text() == "12000000\n"


def test_tab_and_shift_tab_know_what_is_pending(lives: Lives) -> None:
    """The name is offered without being loaded; what is in it, and what it is, by loading it."""
    client = lives.kernel._client
    matches = client.complete("oth", 3, reply=True, timeout=30)["content"]["matches"]
    assert ("other" in matches, waiting(lives)) == (True, LARGE)
    matches = client.complete("big.mea", 7, reply=True, timeout=30)["content"]["matches"]
    assert any(match.endswith("mean") for match in matches)
    assert "big" not in waiting(lives)
    assert client.inspect("both", 4, reply=True, timeout=30)["content"]["found"]
    assert "both" not in waiting(lives)


def test_an_earlier_checkpoint_in_a_kernel_that_lives(tmp_path: Path) -> None:
    """`%durable restore c2` leaves the large variables of then for later, and they are those of then."""
    with Lives(tmp_path) as lives:
        lives.run(CELLS[0], "big = rng.random(12_000_000)\nbig[0] = 1.0", "big[0] = 2.0\nn = 3")
        back = lives.run("%durable restore c2")
        assert "loaded when needed" in str(back)
        assert "of 2 finished cells" in str(back)
        assert lives.run("print(float(big[0]), 'n' in dir())").text() == "1.0 False\n"


def test_what_the_process_holds_is_made_of_what_is_still_to_be_loaded(tmp_path: Path) -> None:
    """A transformer that IPython holds comes back as an instance of a class that waits, and is loaded for it."""
    with Lives(tmp_path, environ={"DURABLE_NB_EAGER_BYTES": "0"}) as lives:
        lives.run(
            "import ast\nclass Ten(ast.NodeTransformer):\n    def visit_Constant(self, node):\n        return node\n"
            "get_ipython().ast_transformers.append(Ten())"
        )
        assert "not back" not in lives.kill()
        assert lives.run("print([type(t) is Ten for t in get_ipython().ast_transformers])").text() == "[True]\n"


def test_a_folder_that_was_moved_and_is_put_back(lives: Lives) -> None:
    """What is not loaded yet waits for it, in cells and in idle moments, through saves and the next loss as well."""
    away = lives.folder / "away"
    (lives.folder / ".durable").rename(away)
    reply = lives.kernel.run("first_of_big = float(big[0])")
    assert (reply.status, "cannot be loaded now" in reply.evalue) == ("error", True)
    away.rename(lives.folder / ".durable")
    lives.run("small['moved'] = 1")
    assert lives.run("print(mean() == first[2], float(other[-1]) == first[1])").text() == "True True\n"
    lives.kill()
    assert lives.run("print(mean() == first[2], small)").text() == "True {'n': 1, 'moved': 1}\n"
    lives.run("del small['moved']")


def test_too_many_open_files(lives: Lives) -> None:
    """A variable that cannot be read for want of descriptors is read when there are some."""
    lives.run(
        "import resource\nlimits = resource.getrlimit(resource.RLIMIT_NOFILE)",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (5, limits[1]))",
    )
    assert lives.kernel.run("mean()").status == "error"
    lives.run("resource.setrlimit(resource.RLIMIT_NOFILE, limits)")
    assert lives.run("print(mean() == first[2])").text() == "True\n"
    lives.run("del resource, limits")
