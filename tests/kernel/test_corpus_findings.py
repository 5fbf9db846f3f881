"""What real notebooks, killed and carried on, have shown: each test is one finding, reduced to its cells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook of its own, with a first kernel."""
    with Lives(tmp_path) as made:
        yield made


def test_names_that_a_later_cell_joined_stay_joined_when_the_next_cell_runs(lives: Lives) -> None:
    """Run All over cells of which a later one puts the objects of earlier ones together keeps them together."""
    cells = ["x = ['x']", "s, t = ['s'], ['t']", "Y = [s, x]\nU = [t, x]"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True, True, True]
    lives.run("x.append(1)")
    assert lives.value("[Y[0] is s, Y[1] is x, U[0] is t, U[1] is x]") == [True] * 4
