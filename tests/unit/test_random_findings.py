"""What random notebooks found, each as the shortest program that shows it."""

from __future__ import annotations

import pytest

from durable_nb.testing.simfiles import SimFiles
from durable_nb.testing.workbench import Workbench


def two_lives(*cells: str) -> Workbench:
    """Run cells in one life, and again from the top in the next; return the second, in which nothing is pending."""
    files = SimFiles()
    first = Workbench(files, life="one")
    for cell in cells:
        first.run(cell)
    first.workflow.close(release=True)
    second = Workbench(files, life="two")
    for cell in cells:
        second.run(cell)
    second.run("'settled'")
    return second


@pytest.mark.parametrize(
    ("made", "right"),
    [
        ("a = C()", "type(a) is C"),
        ("a = [C()]", "type(a[0]) is C"),
        ("class D(C): pass", "D.__base__ is C"),
        ("def a(x=C): return x", "a() is C"),
        ("a = [C]", "a[0] is C"),
    ],
)
def test_skipped_cell_uses_the_class_that_ran_again(made: str, right: str) -> None:
    """A class cell that is not skipped defines the class anew; what a skipped cell made is of that class."""
    life = two_lives("x = 1", "class C:\n    def get(self): return 1\nraise ValueError('never skipped')", made)
    assert eval(right, life.namespace), made
