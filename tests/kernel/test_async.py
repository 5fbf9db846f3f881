"""Real kernels whose cells are saved by a process of its own: what a person sees, and what no kill takes away."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives, said, skipped

ASYNC = {"DURABLE_NB_DURABILITY": "async"}
BIG = "import numpy as np\nbig = np.random.default_rng({seed}).random(4_000_000)\ntotal = float(big.sum())"
CELLS = ["x = [1]", BIG.format(seed=1), "big[7] = 0.5\nx.append(float(big[7]))", "y = {'x': x}", "y['n'] = len(x)"]
# A cell in which the writer comes to a halt: what is handed over behind it stays in flight.
HALT = "import os, signal\nos.kill({writer}, signal.SIGSTOP)\n"
SUM = "[float(big.sum()), x, y['x'] is x, y['n']]"


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook with a writer that has the journal."""
    with Lives(tmp_path, environ=ASYNC) as made:
        wait_for_writer(made)
        yield made


def wait_for_writer(lives: Lives) -> int:
    """Run cells until the writer has the journal; return its process id."""
    while (pid := lives.verb("status")["writer_pid"]) is None:
        lives.run("pass")
    return int(pid)


def gone(pid: int) -> bool:
    """Tell whether a process has ended, be it that nobody has asked for its end yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def ends(pid: int) -> None:
    """Return when a process has ended."""
    while not gone(pid):
        os.sched_yield()


def event_types(lives: Lives) -> list[str]:
    """Return the types of all events, in order."""
    return [event["event_type"] for event in lives.verb("events")]


def test_a_killed_kernel_loses_nothing_that_it_answered(lives: Lives) -> None:
    """SIGKILL right behind the reply of the last cell; the next kernel has everything and skips every cell."""
    lives.run(*CELLS)
    before = lives.value(SUM)
    lives.run("x.append('last')")
    assert "was lost" in lives.kill()
    before[1].append("last")
    assert lives.value(SUM) == before
    assert lives.run_all([*CELLS, "x.append('last')"]) == [True] * 6
    assert lives.verb("verify")["problems"] == []


def test_kernel_and_writer_killed_together(lives: Lives) -> None:
    """When the system kills the whole group, the next kernel finishes what was handed over."""
    writer = wait_for_writer(lives)
    lives.run(*CELLS)
    before = lives.value(SUM)
    lives.run(HALT.format(writer=writer) + BIG.format(seed=2))
    before[0] = lives.value("float(big.sum())")
    os.kill(lives.kernel.pid, signal.SIGKILL)
    os.kill(writer, signal.SIGKILL)
    assert "of the last kernel finished now" in lives.kill()
    assert lives.value(SUM) == before
    assert skipped(lives.run(CELLS[0]))
    assert lives.verb("verify")["problems"] == []


def test_status_tells_what_is_being_saved(lives: Lives) -> None:
    """Until it is on disk a cell is «saving», then «completed»; what a verb shows of the history is all of it."""
    writer = wait_for_writer(lives)
    lives.run(HALT.format(writer=writer) + BIG.format(seed=3))
    status = lives.verb("status")
    assert status["saving"] != []
    assert [cell["status"] for cell in status["cells"]][-1] == "saving"
    os.kill(writer, signal.SIGCONT)
    assert lives.verb("checkpoints")[-1]["checkpoint"] == status["saving"][-1]
    status = lives.verb("status")
    assert (status["saving"], [cell["status"] for cell in status["cells"]][-1]) == ([], "completed")


def test_a_writer_that_is_killed(lives: Lives) -> None:
    """The next cell says so, is saved before its reply, and nothing is missing after a loss."""
    writer = wait_for_writer(lives)
    lives.run(*CELLS)
    lives.run(HALT.format(writer=writer) + "x.append('in flight')")
    os.kill(writer, signal.SIGKILL)
    told = said(lives.run("z = 3"))
    assert "Your variables are in memory" in told
    assert "from now on each cell is saved before its reply" in told
    status = lives.verb("status")
    assert (status["writer_pid"], status["saving"], status["trouble"]) == (None, [], "")
    assert "has failed" in status["no_writer"]
    assert event_types(lives).count("StorageDegraded") == 1
    expected = lives.value(SUM)
    assert expected[1][-1] == "in flight"
    lives.kill()
    assert [lives.value(SUM), lives.value("z")] == [expected, 3]
    assert lives.verb("verify")["problems"] == []


def test_the_next_cell_starts_before_the_last_one_is_saved(lives: Lives) -> None:
    """Their events stand in that order in the history, which every reading of it takes."""
    lives.run(*(f"a{n} = np.random.random(3_000_000)" if n else "import numpy as np" for n in range(4)), "done = 1")
    found = [kind for kind in event_types(lives) if kind in ("ActivityStarted", "ActivityCompleted")]
    assert found != ["ActivityStarted", "ActivityCompleted"] * (len(found) // 2)
    attempts = lives.verb("sql \"select count(*) as n from attempts where status = 'completed'\"")
    assert attempts[0]["n"] == found.count("ActivityCompleted")


def test_a_cell_may_wait_for_the_disk(lives: Lives) -> None:
    """`--durability sync` on a cell is on disk with its reply, and so is everything before it."""
    lives.run(BIG.format(seed=4))
    lives.run("%%durable --durability sync\nsure = 1")
    status = lives.verb("status")
    assert status["saving"] == []


def test_an_orderly_end_leaves_no_process_and_nothing_behind(lives: Lives) -> None:
    """Unloading and shutting down wait for what is in flight, and end the writer."""
    first = wait_for_writer(lives)
    lives.run(*CELLS, "%unload_ext durable_nb")
    assert gone(first)
    lives.run("%load_ext durable_nb", "%durable on", "after = 1")
    second = wait_for_writer(lives)
    assert second != first
    lives.run(BIG.format(seed=5))
    lives.kernel.stop()
    ends(second)
    assert list((lives.folder / ".durable").rglob("inflight/*")) == []


def test_a_restart_keeps_what_was_in_flight(lives: Lives) -> None:
    """A person's restart begins a fresh run, and `restore` brings back the last cell before it."""
    lives.run(*CELLS)
    before = lives.value(SUM)
    lives.restart()
    lives.run("%durable restore")
    assert lives.value(SUM) == before


def test_gc_and_verify_work_beside_the_writer(lives: Lives) -> None:
    """They take the journal back for as long as they run, and cells after them are handed over again."""
    for seed in range(6, 9):
        lives.run(BIG.format(seed=seed))
    assert lives.verb("gc")["dry_run"] is False
    assert lives.verb("verify")["problems"] == []
    wait_for_writer(lives)
    lives.run("after = total")
    expected = lives.value("[after, float(big.sum())]")
    lives.kill()
    assert lives.value("[after, float(big.sum())]") == expected


def test_forked_children_record_nothing(lives: Lives) -> None:
    """A child of the kernel that inherits the connection to the writer leaves the history alone."""
    lives.run(
        "import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\n_ = os.waitpid(pid, 0)",
        "import multiprocessing as mp\nwith mp.get_context('fork').Pool(2) as pool:\n    got = pool.map(abs, [-1, -2])",
    )
    assert lives.value("got") == [1, 2]
    lives.kill()
    assert lives.value("got") == [1, 2]


def test_what_is_in_flight_counts_as_done(lives: Lives) -> None:
    """A stream that a cell in flight has seeded is not one that nobody set, for the cell that draws from it next.

    Else a seed that is edited above would let the draw below stand, which is a wrong skip.
    """
    seed = "import random\nimport numpy as np\nrandom.seed({0})\nbig = np.random.default_rng({0}).random(20_000_000)"
    draw = "drawn = random.random()"
    lives.run(seed.format(1), draw)
    first = lives.value("drawn")
    lives.kill()
    lives.run(seed.format(2))
    assert not skipped(lives.run(draw))
    assert lives.value("drawn") != first


def test_a_file_that_a_cell_in_flight_wrote_is_not_as_an_earlier_one_left_it(lives: Lives) -> None:
    """After a loss a cell runs for real and is in flight when the next one is met, which must not stand for itself."""
    write = "with open('notes.txt', 'w') as file:\n    file.write({0})"
    lives.run(write.format("'one'"), write.format("'two'"))
    lives.kill()
    heavy = "import numpy as np\nbig = np.random.default_rng(5).random(20_000_000)\n"
    lives.run(heavy + write.format("'changed'"))
    assert not skipped(lives.run(write.format("'two'")))
    assert (lives.folder / "notes.txt").read_text() == "two"


def test_a_history_that_is_deleted_while_it_is_written(lives: Lives) -> None:
    """The cells after that run as they would without us, and are told what is wrong."""
    writer = wait_for_writer(lives)
    lives.run("x = []", HALT.format(writer=writer) + BIG.format(seed=6))
    shutil.rmtree(lives.folder / ".durable")
    os.kill(writer, signal.SIGCONT)
    assert lives.run("x.append(1)", "print(x)").text() == "[1]\n"
    assert "was removed or moved" in lives.verb("status")["trouble"]


def test_a_log_that_somebody_replaced(lives: Lives) -> None:
    """What is handed over in vain is found missing by the writer, told, and stored before the next reply."""
    lives.run("x = []")
    lives.verb("checkpoints")
    [log] = (lives.folder / ".durable").glob("workflows/*/inflight/*.log")
    log.unlink()
    log.touch()
    lives.run("x.append(1)")
    status = lives.status()
    assert ("is not in its log" in status["no_writer"], status["saving"]) == (True, [])
    lives.run("x.append(2)")
    lives.kill()
    assert lives.value("x") == [1, 2]


def test_descriptors_that_the_notebook_has_closed(lives: Lives) -> None:
    """What it opens under their numbers is not written to, and its cells are saved all the same."""
    close = """
for fd in map(int, os.listdir("/proc/self/fd")):
    path = f"/proc/self/fd/{fd}"
    if os.path.exists(path) and ".durable" in os.readlink(path):
        mine = os.open("mine.txt", os.O_RDWR | os.O_CREAT)
        os.dup2(mine, fd)
"""
    lives.run("import os", "x = []", close, "x.append(1)", BIG.format(seed=7), "x.append(total)")
    assert (lives.folder / "mine.txt").read_bytes() == b""
    expected = lives.value("x")
    lives.kill()
    assert lives.value("x") == expected


def test_a_working_folder_that_is_gone(lives: Lives) -> None:
    """Cells run and are saved although the folder that the kernel is in was removed, and one of them leaves it."""
    lives.run("import os, tempfile\ngone = tempfile.mkdtemp()\nos.chdir(gone)\nos.rmdir(gone)")
    lives.run("x = [1]", "import colorsys", f"os.chdir({str(lives.folder)!r})", "x.append(2)")
    lives.kill()
    assert lives.value("x") == [1, 2]


def test_a_writer_that_somebody_stopped_goes_on(lives: Lives) -> None:
    """A cell waits a moment for it, and then has it continue; nothing is lost and nobody has to know."""
    writer = wait_for_writer(lives)
    lives.run("x = [1]", HALT.format(writer=writer) + "x.append(2)", "x.append(3)")
    assert lives.status()["writer_pid"] == writer
    assert not [kind for kind in event_types(lives) if kind.startswith("Writer")]
    lives.kill()
    assert lives.value("x") == [1, 2, 3]
