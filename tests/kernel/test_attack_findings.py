"""Programs that once came back wrong without a word, each reduced to the cells that show it.

Every test runs real kernels: a life, a SIGKILL, the next life.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives, skipped


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook whose every cell is durable."""
    with Lives(tmp_path) as started:
        yield started


def test_a_cell_run_twice_still_writes_its_name(lives: Lives) -> None:
    """The second run of `x = 2` changes nothing, and yet a skip of the cell leaves x at 2."""
    lives.run("x = 1", "x = 2", "x = 2")
    lives.kill()
    assert lives.run_all(["x = 1", "x = 2", "y = x + 10"]) == [True, True, False]
    assert lives.value("[x, y]") == [2, 12]


def test_a_seed_set_twice_is_still_set(lives: Lives) -> None:
    """A seed that found its stream at the seed already is not taken for a cell without effect."""
    cells = ["import random", "random.seed(7)", "a = random.random()", "b = random.random()"]
    lives.run(cells[0], cells[1], cells[1], cells[2], cells[3])
    plain = lives.value("[a, b]")
    lives.kill()
    lives.run_all([*cells[:3], "c = random.random()"])
    assert lives.value("[a, c]") == plain


def test_a_branch_that_wrote_nothing_new_is_looked_at_again(lives: Lives) -> None:
    """A cell that may have written a name and left it as it was runs when the name is another one now."""
    cell = "if ready:\n    x = 2"
    lives.run("ready = True", "x = 2", cell)
    lives.kill()
    assert lives.run_all(["ready = True", "x = 1", cell]) == [True, False, False]
    assert lives.value("x") == 2


def test_a_function_that_wrote_a_global_with_equal_content(lives: Lives) -> None:
    """A global that a called function binds counts, although it had that content before."""
    cells = ["def init():\n    global x\n    x = 2", "x = 2", "init()"]
    lives.run(*cells)
    lives.kill()
    lives.run_all([cells[0], "x = 1", "init()"])
    assert lives.value("x") == 2


def test_a_deletion_of_a_name_that_the_cell_made_itself(lives: Lives) -> None:
    """A helper name that a cell makes and deletes is gone after a skip, whoever had made it before."""
    cell = "tmp = 5\ny = tmp + 1\ndel tmp"
    lives.run(cell)
    lives.kill()
    lives.run("tmp = 1")
    assert skipped(lives.run(cell))
    lives.run("z = 0")
    assert lives.value("'tmp' in globals()") is False


def test_what_cannot_be_saved_is_made_again_although_it_was_made_twice(lives: Lives) -> None:
    """A cell that made an open file twice is not skipped for its second run."""
    cell = "handle = open('log.txt', 'w')"
    lives.run(cell, cell)
    lives.kill()
    assert not skipped(lives.run(cell))
    assert lives.value("handle.closed") is False


def test_instances_follow_their_class_back(lives: Lives) -> None:
    """After an edit and its undoing, an instance that stayed equal belongs to the class that the name stands for."""
    first = ["k = 0", "class C:\n    shared = k", "a = C()"]
    lives.run(*first)
    lives.kill()
    lives.run_all(["k = 1", *first[1:]])
    lives.kill()
    assert lives.run_all(first) == [True, True, True]
    lives.run("found = [isinstance(a, C), a.shared]")
    assert lives.value("found") == [True, 0]


def test_rebinding_takes_an_alias_apart_again(lives: Lives) -> None:
    """A copied cell that binds a name anew is skipped without leaving the name joined to its old alias."""
    lives.run("f = [1]", "d = f")
    lives.kill()
    lives.run_all(["f = [1]", "d = f", "f = [1]", "f.append(2)"])
    assert lives.value("[f, d]") == [[1, 2], [1]]


def test_rebinding_to_equal_content_takes_an_alias_apart(lives: Lives) -> None:
    """A cell that bound equal content to a name, and thereby parted it from an alias, does so when it is skipped."""
    cells = ["a = [1]", "b = a", "a = [1] * 1"]
    lives.run(*cells)
    lives.kill()
    lives.run("b = a")  # joined once more in this life, before the cells are run from the top
    lives.run_all([*cells, "a.append(2)"])
    assert lives.value("[a, b]") == [[1, 2], [1]]


def test_a_group_that_is_loaded_leaves_other_names_alone(lives: Lives) -> None:
    """Loading a name with what it shared objects with does not touch a name that has been bound anew since."""
    cells = ["d = {'k': 1}", "a = d", "d = []"]
    lives.run(*cells, "a = d")
    lives.kill()
    assert lives.run_all(cells) == [True, True, True]
    lives.run("x = 0")
    assert lives.value("[a, d]") == [{"k": 1}, []]


def test_a_loss_right_after_a_settlement(lives: Lives) -> None:
    """Killed in the first cell that really runs after skips, each name is what its own cell had made it."""
    lives.run("a = [1]\nd = a", "a = [2]", "d = [5]")
    lives.kill()
    assert lives.run_all(["a = [1]\nd = a", "d = [5]"]) == [True, True]
    request = lives.kernel.begin("import time\nprint('begun', flush=True)\ntime.sleep(60)")
    lives.kernel.wait_for_text(request, "begun")
    lives.kill()
    assert lives.value("[a, d]") == [[1], [5]]


def test_a_name_that_joins_its_old_companion_again(lives: Lives) -> None:
    """A name deleted by a skipped cell may share an object again with what it had shared one with before."""
    lives.run("a = [1]\nd = a", "a = [2]", "del d")
    lives.kill()
    assert lives.run_all(["a = [1]\nd = a", "del d", "d = a"]) == [True, True, False]
    lives.kill()
    lives.run("d.append(2)")
    assert lives.value("a") == [1, 2]


def test_what_holds_an_older_definition_survives_a_loss_after_a_settlement(lives: Lives) -> None:
    """A table of functions keeps the function it holds when the name goes back and the kernel dies right then."""
    table = "table = {'f': f}"
    lives.run("def f():\n    return 1", "def f():\n    return 2", table)
    lives.kill()
    assert lives.run_all(["def f():\n    return 1"]) == [True]
    request = lives.kernel.begin("import time\nprint('begun', flush=True)\ntime.sleep(60)")
    lives.kernel.wait_for_text(request, "begun")
    lives.kill()
    assert lives.value("[f(), table['f']()]") == [1, 2]


def test_a_change_through_an_alias_needs_the_alias(lives: Lives) -> None:
    """A cell that changed a name through an alias runs when the two are not joined any more."""
    lives.run("a = [1]", "b = a", "b.append(2)")
    lives.kill()
    assert lives.run_all(["a = [1]", "b = [1]", "b.append(2)"]) == [True, False, False]
    assert lives.value("[a, b]") == [[1], [1, 2]]


def test_an_alias_through_which_a_cell_changes_something_is_skipped(lives: Lives) -> None:
    """Run All after a loss skips a cell that makes an alias and changes the object through it."""
    cells = ["m = {}", "m['k'] = [0]", "m2 = m\nm2['k'][0] = 5"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True, True, True]
    assert lives.value("[m, m2 is m]") == [{"k": [5]}, True]
