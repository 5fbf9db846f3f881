"""Notebooks that random search found to differ after kernels had died, each as short as it gets; they no longer do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from durable_nb.testing.equivalence import difference
from durable_nb.testing.grammar import Book, Cell, Death
from durable_nb.testing.nursery import Nursery
from durable_nb.testing.templates import PREAMBLE


@pytest.fixture(scope="module")
def nurseries() -> Iterator[Sequence[Nursery]]:
    """Two servers of lives with different hashes."""
    with Nursery(hash_seed=1) as one, Nursery(hash_seed=2) as two:
        yield one, two


def again(at: int) -> Death:
    """Return the death of a kernel after a cell, whose successor runs all again."""
    return Death(at=at, run_all=True)


PLAIN = "# plain\n"

# What was wrong → cells after the one that imports, plain ones marked, and the deaths.
FOUND: dict[str, tuple[list[str], list[Death]]] = {
    "a skip loaded a function anew beside one whose default it is": (
        ["h = []", f"{PLAIN}b = dict(a=h)\ndef f(x=b): return x\ndef make(s=f): pass", "a = f"],
        [again(3)],
    ),
    "a skip replaced what changed with a class that lost its name, beside an enum that held it": (
        [
            "class B: pass\ndef k(x=0): return x\nk.__defaults__ = (B,)",
            "b = B\nclass B(enum.Enum):\n    X = 1\nB.X.tag = k\nr0 = {'file': open('/dev/null'), 'other': B}",
            "b = 1",
        ],
        [again(3)],
    ),
    "a restored array let the bytes that it looks at be resized": (
        ["a = bytearray(b'abcdef')\nc = np.frombuffer(a, dtype='u1')\ne = c[::-1]", "c = 1", "del a[:1]", "a = 1"],
        [again(2)],
    ),
}


@pytest.mark.parametrize("wrong", FOUND)
def test_killed_and_restored_equals_never_killed(nurseries: Sequence[Nursery], wrong: str) -> None:
    """After each restore, and at the end, the namespace is the one of a process that was never killed."""
    sources, deaths = FOUND[wrong]
    cells = [Cell(source=s.removeprefix(PLAIN), durable=not s.startswith(PLAIN)) for s in (PREAMBLE, *sources)]
    found = difference(Book(cells=tuple(cells), deaths=tuple(deaths)), nurseries)
    assert found is None, found
