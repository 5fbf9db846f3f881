"""Random notebooks whose kernels are killed and restored end as in one process that ran them through.

The cells come from a grammar (`durable_nb.testing.grammar`); a failure prints the notebook, where its kernels die, and
the first difference of the canonical forms (`durable_nb.testing.canon`), in which aliases, cycles, shared memory and
positions of iterators count.
"""

from __future__ import annotations

import itertools
import json
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from durable_nb.testing.canon import canonical, first_difference
from durable_nb.testing.equivalence import difference
from durable_nb.testing.grammar import Book, Cell, Death, books
from durable_nb.testing.lives import Lives
from durable_nb.testing.nursery import Nursery, leads_to_lost_hash

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.fixture(scope="module")
def nurseries() -> Iterator[Sequence[Nursery]]:
    """Two servers of lives whose hashes differ, so that no life finds the hashes of the one before."""
    with Nursery(hash_seed=1) as one, Nursery(hash_seed=2) as two:
        yield one, two


def check(book: Book, nurseries: Sequence[Nursery]) -> None:
    """Fail with the notebook and the first difference."""
    found = difference(book, nurseries)
    assert found is None, f"\n{book}\n\n{found}"


# The same examples every time, and no search for a smaller one: that is for the night.
@pytest.mark.timeout(900)
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=SLOW,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)
@given(book=books())
def test_killed_and_restored_equals_never_killed(nurseries: Sequence[Nursery], book: Book) -> None:
    """After each restore, and at the end, the namespace is the one of a process that was never killed."""
    check(book, nurseries)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@settings(max_examples=2000, deadline=None, suppress_health_check=SLOW)
@given(book=books(cells=12, statements=5, deaths=4))
def test_long_notebooks_killed_often(nurseries: Sequence[Nursery], book: Book) -> None:
    """The same holds for longer notebooks whose kernels die up to four times."""
    check(book, nurseries)


# ---- the check can fail ----------------------------------------------------------------------------------------------

# Each takes one promise away from the codec of the lives.
DEFECTS = {
    "aliases": """
from durable_nb.capture import namespace
from durable_nb.capture.groups import Grouping
whole = namespace.partition
def apart(*args, **kwargs):
    grouping = whole(*args, **kwargs)
    apart = tuple((name,) for group in grouping.groups for name in group)
    return type(grouping)(**{**{f: getattr(grouping, f) for f in grouping.__dataclass_fields__}, "groups": apart})
namespace.partition = apart
""",
    "closures": """
from durable_nb.capture import rebuild
fill = rebuild._fill_function
def lose(f, state):
    fill(f, {k: v for k, v in state.items() if k != "cells"})
rebuild._fill_function = lose
""",
    "random stream": """
from durable_nb.capture import process_stdlib
assert process_stdlib.Random.load
process_stdlib.Random.load = lambda self, value: []
""",
}


def find_planted(planted: str, phases: Sequence[Phase]) -> Book:
    """Return a notebook that shows the planted defect."""
    limits = settings(max_examples=200, database=None, deadline=None, phases=phases, suppress_health_check=SLOW)
    with Nursery(hash_seed=1, prepare=DEFECTS[planted]) as one, Nursery(hash_seed=2, prepare=DEFECTS[planted]) as two:
        try:
            return find(books(deaths=1), lambda book: difference(book, (one, two)) is not None, settings=limits)
        except NoSuchExample:
            pytest.fail(f"nothing found without {planted}")


@pytest.mark.parametrize("planted", DEFECTS)
@pytest.mark.timeout(300)
def test_a_planted_defect_is_found(planted: str) -> None:
    """With a defect in the codec the property fails."""
    assert find_planted(planted, [Phase.generate]).deaths


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_failure_shrinks_to_a_short_notebook() -> None:
    """What is left of a notebook that shows a planted defect are a few cells and one death."""
    book = find_planted("random stream", [Phase.generate, Phase.shrink])
    assert len(book.cells) <= 4, book
    assert len(book.deaths) == 1, book


def test_forms_tell_an_alias_from_a_copy(nurseries: Sequence[Nursery]) -> None:
    """Two names of one list have another form than two equal lists; equal namespaces have the same form."""

    def form(source: str) -> list[tuple[str, str]]:
        cell = {"do": "cell", "number": 0, "source": source, "durable": False}
        return [(p, t) for p, t in nurseries[0].live([cell, {"do": "look", "exclude": []}])[1]["form"][:-2]]

    assert first_difference(form("a = b = [1]"), form("a, b = [1], [1]")) is not None
    assert first_difference(form("a = b = [1]"), form("b = a = [1]")) is None


def test_forms_do_not_depend_on_the_order_of_members_that_look_alike() -> None:
    """Where a set has the member that a name is bound to is decided by addresses, which mean nothing."""

    class Alike:
        pass

    forms = []
    for order in itertools.permutations(range(4)):
        made = {number: Alike() for number in order}
        a, b, c, d = (made[number] for number in range(4))
        forms.append(canonical({"a": {a, b, c}, "b": [{(1, a), (1, c)}, {b, d}], "x": [c], "y": a}))
    assert [None] * len(forms) == [first_difference(forms[0], form) for form in forms]


def test_only_a_member_without_a_hash_is_a_reason_for_a_group_that_does_not_load() -> None:
    """It is looked for in what a name leads to: in sets, keys and weak sets, through instances and weak references."""

    class Hashed:
        def __init__(self) -> None:
            self.v: object = 1

        def __hash__(self) -> int:
            return hash(self.v)

    right, wrong = Hashed(), Hashed()
    held = [[{right}, {"k": {wrong}}], {wrong: 1}, weakref.WeakSet([wrong]), lambda: wrong]
    assert [False] * 4 == [leads_to_lost_hash(value) for value in held]
    wrong.v = held
    assert [True] * 4 == [leads_to_lost_hash(value) for value in held]
    assert not leads_to_lost_hash([right, {right}, {"k": []}])


# ---- through the real kernel -----------------------------------------------------------------------------------------

LOOK = """\
def _dnb_look():
    import json, os, random, sys
    from durable_nb.testing.canon import canonical, streams
    read, write = os.pipe()
    mine = {"_dnb_look", "In", "Out", "get_ipython", "exit", "quit", "open", "r0", "r1"}
    exclude = {n for n in globals() if n.startswith("_") or n in mine}
    said = streams()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, b"")
            with os.fdopen(write, "w") as report:
                json.dump([*canonical(globals(), exclude), *said], report)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as report:
        text = report.read()
    os.waitpid(child, 0)
    print(text)
_dnb_look()
del _dnb_look"""


def run_in_kernels(folder: Path, cells: Sequence[Cell], at: int, *, run_all: bool) -> tuple[str, str]:
    """Run the cells in a real kernel that is killed after one of them, and return the forms after it and at the end."""
    with Lives(folder) as lives:
        for cell in cells[: at + 1]:
            lives.kernel.run(cell.source)
        lives.kill()
        restored = lives.kernel.run(LOOK, store_history=False).text()
        for cell in cells if run_all else cells[at + 1 :]:
            lives.kernel.run(cell.source)
        return restored, lives.kernel.run(LOOK, store_history=False).text()


def check_in_kernels(folder: Path, book: Book) -> None:
    """Compare a notebook in real kernels, one of them killed, with the same in a kernel without durable_nb."""
    cells = [Cell(source=cell.source) for cell in book.cells]
    death = book.deaths[0]
    (folder / "durable").mkdir(parents=True)
    (folder / "plain").mkdir()
    run_all = death.run_all
    with Lives(folder / "plain", durable=False) as plain:
        expected = []
        for number, cell in enumerate(cells):
            wanting = plain.kernel.run(cell.source).ename == "NameError" and number <= death.at
            # A cell that failed for want of a name finds it when all runs again and a later cell has made it.
            run_all = run_all and not wanting
            if number == death.at:
                expected.append(plain.kernel.run(LOOK, store_history=False).text())
        expected.append(plain.kernel.run(LOOK, store_history=False).text())
    got = run_in_kernels(folder / "durable", cells, death.at, run_all=run_all)
    for when, wanted, found in zip(("restored", "at the end"), expected, got, strict=True):
        words = first_difference(*([(p, t) for p, t in json.loads(form)] for form in (wanted, found)))
        assert words is None, f"\n{book}\n\n{when}: {words}"


def in_kernels(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Draw a notebook without deaths in the middle of cells and check it."""
    book = data.draw(books(cells=6, deaths=1))
    whole = Book(cells=book.cells, deaths=tuple(Death(at=d.at, run_all=d.run_all) for d in book.deaths))
    check_in_kernels(tmp_path_factory.mktemp("random"), whole)


@pytest.mark.timeout(600)
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=SLOW,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)
@given(data=st.data())
def test_real_kernels(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """What holds in the fast lives holds in real kernels, killed once."""
    in_kernels(tmp_path_factory, data)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_many_real_kernels(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """The same for more notebooks."""
    in_kernels(tmp_path_factory, data)
