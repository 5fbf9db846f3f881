"""Cached functions in a real kernel: what they remember is there after a loss, and calling them makes nothing stale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives

CELLS = (
    "import functools\nruns = []",
    "@functools.lru_cache\ndef get_config():\n    return {'names': ['a']}\n"
    "@functools.cache\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
    "class A:\n    @functools.lru_cache(maxsize=4)\n    def twice(self, n):\n        return [n, n]\n",
    "cfg = get_config()\na = A()",
    "fib(20)\ntwo = a.twice(2)",
    "total = fib(25)",
    "last = [total, len(cfg)]",
)


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook in a folder of its own."""
    with Lives(tmp_path) as found:
        yield found


def test_entries_and_identity_survive_losses(lives: Lives) -> None:
    """The singleton is the same object, entries and counters are what they were, after one loss and after two."""
    lives.run(*CELLS)
    state = "[get_config() is cfg, a.twice(2) is two, list(fib.cache_info()), A.twice.cache_info().currsize]"
    for _ in range(2):
        info = lives.value("list(fib.cache_info())")
        lives.kill()
        assert lives.value(state) == [True, True, info, 1]
        assert info == [24, 26, None, 26]
        assert lives.value("[u.name for u in __import__('durable_nb').unsaved()]") == []
        lives.run("cfg['seen'] = get_config()['names'] is cfg['names']")
        assert lives.value("[cfg['seen'], get_config() is cfg]") == [True, True]


def test_calls_since_the_definition_are_stored(lives: Lives) -> None:
    """A cell that does nothing but call adds to what is stored, after a loss as well."""
    lives.run(*CELLS[:2])
    for n in (10, 20, 30):
        lives.run(f"fib({n});")
        lives.kill()
        assert lives.value("fib.cache_info().currsize") == n + 1


def test_run_all_skips_every_cell_that_calls(lives: Lives) -> None:
    """After a loss all cells are skipped, and what the caches remember is there when a new cell runs."""
    lives.run(*CELLS)
    lives.kill()
    assert lives.run_all(CELLS) == [True] * len(CELLS)
    lives.run("new = 1")
    assert lives.value("[get_config() is cfg, a.twice(2) is two, fib.cache_info().currsize]") == [True, True, 26]


def test_a_cell_that_only_calls_makes_no_reader_stale(lives: Lives) -> None:
    """When a cell that calls a cached function is edited, it runs, and the readers of that function are skipped."""
    lives.run(*CELLS)
    lives.kill()
    edited = [*CELLS[:3], "fib(21)\ntwo = a.twice(2)\na.twice(3)", *CELLS[4:]]
    assert lives.run_all(edited) == [True, True, True, False, True, True]
    assert lives.value("[get_config() is cfg, a.twice(2) is two, total]") == [True, True, 75025]


def test_who_reads_a_result_that_was_changed_runs(lives: Lives) -> None:
    """A cell that gets a cached object through the function runs again when another cell has changed the object."""
    cells = [*CELLS[:3], "cfg['x'] = 1", "seen = get_config().get('x')", "other = fib(3)"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True] * 6
    lives.kill()
    cells[3] = "cfg['x'] = 2"
    assert lives.run_all(cells) == [True, True, True, False, False, True]
    assert lives.value("seen") == 2
