"""Snapshots of a process: they tell apart what differs, and nothing else."""

from __future__ import annotations

import decimal
import gc
import json
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from durable_nb.testing import snapshots
from durable_nb.testing.canon import canonical
from durable_nb.testing.snapshots import Snapshot, differences, outside

SETUP = """
import collections, datetime, decimal, enum, fractions, functools, itertools, pathlib, random, re, weakref
import numpy as np
import pandas as pd
def make(n):
    def inner(): return n
    return inner
def kept(f, **attributes): vars(f).update(attributes); return f
class Plain:
    def __init__(self, x): self.x = x
class Slots:
    __slots__ = ("x",)
    def __init__(self, x): self.x = x
class Named(list):
    def __init__(self, items, name=None): super().__init__(items); self.name = name
class Colour(enum.Enum):
    red = 1
    blue = 2
def ahead(it, n=1):
    for _ in range(n): next(it)
    return it
def drawn(r): r.random(); return r
def seeded(n): r = random.Random(n); return r
def ring(n): x = [n]; x.append(x); return x
def twin(x): return [x, x]
def view(a): return [a, a[1:]]
def attrs(f, **a): f.attrs.update(a); return f
"""
# Each line: values of one kind, every one of which differs from every other in the whole table.
VALUES = """
None | True | 1 | 1.0 | 1+0j | -0.0 | 0.0 | float('nan') | '1' | b'1' | bytearray(b'1') | ...
range(3) | range(0, 4, 2)
[1, 2] | [2, 1] | (1, 2) | {1, 2} | frozenset({1, 2}) | {1: 2} | {2: 1} | {'a': 1, 'b': 2} | {'b': 2, 'a': 1}
collections.OrderedDict(a=1, b=2) | collections.defaultdict(int, a=1, b=2) | collections.deque([1, 2], 5)
collections.deque([1, 2]) | collections.Counter('ab')
twin([1]) | [[1], [1]] | ring(1) | ring(2) | [ring(1)]
Plain(1) | Plain(2) | Plain([1]) | Slots(1) | Slots(2) | Named([1]) | Named([1], 'n') | Colour.red | Colour.blue
datetime.date(2020, 1, 1) | datetime.date(2020, 1, 2) | decimal.Decimal('1.0') | decimal.Decimal('1.00')
fractions.Fraction(1, 3) | pathlib.Path('a') | pathlib.PurePosixPath('a') | re.compile('a') | re.compile('a', 2)
lambda: 3 | lambda: 4 | lambda x=1: x | lambda x=2: x | lambda *, x=2: x | make(1) | make(2) | kept(make(1), note=1)
functools.partial(int, base=2) | functools.partial(int, base=3) | Plain(1).__init__ | [].append | [1].append
Plain | Slots | type('Plain', (), {}) | type('Plain', (), {'y': 1}) | int | len | print
iter([1, 2]) | ahead(iter([1, 2])) | iter((1, 2, 3)) | zip([1], [2]) | itertools.count(3) | ahead(itertools.count(3), 2)
random.Random(1) | random.Random(2) | drawn(random.Random(1))
np.random.default_rng(1) | drawn(np.random.default_rng(1))
np.arange(3) | np.arange(3.0) | np.arange(3, dtype='int32') | np.arange(4) | np.arange(4).reshape(2, 2) | np.int64(1)
np.array(['a']) | np.array(['a'], object) | np.array([None]) | np.ma.array([1, 2], mask=[0, 1])
np.ma.array([1, 2], mask=[1, 0]) | view(np.arange(4)) | [np.arange(4), np.arange(1, 4)] | np.dtype('int64')
pd.Series([1, 2]) | pd.Series([1.0, 2.0]) | pd.Series([1, 2], name='n') | pd.Series([1, 2], index=[1, 0])
pd.Series([1, 2], dtype='Int64') | pd.Series(['a', 'b']) | pd.Series(['a', 'b'], dtype='category')
pd.DataFrame({'a': [1], 'b': [2]}) | pd.DataFrame({'b': [2], 'a': [1]}) | pd.DataFrame({'a': [1], 'b': [3]})
attrs(pd.DataFrame({'a': [1], 'b': [2]}), unit='m')
pd.Timestamp('2020-01-01') | pd.Index([1, 2]) | pd.Index([1, 2], name='n')
"""
SOURCES = [source.strip() for line in VALUES.strip().splitlines() for source in line.split(" | ")]


def namespace(cell: str) -> Snapshot:
    """Return the canonical form of the names that a cell makes in a new namespace."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(SETUP, space)
    known = set(space)
    exec(cell, space)
    return dict(canonical(space, exclude=known))


@pytest.fixture(scope="module", autouse=True)
def little_to_collect() -> Iterator[None]:
    """Each form begins with a collection of garbage, which need not look at what pytest and pandas hold."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def forms() -> dict[str, Snapshot]:
    """The canonical form of every value of the table."""
    return {source: namespace(f"value = {source}") for source in SOURCES}


def test_what_differs_is_told_apart(forms: dict[str, Snapshot]) -> None:
    """No two of the values of the table have the same form."""
    assert [] == [(a, b) for a, b in combinations(SOURCES, 2) if forms[a] == forms[b]]
    assert len(SOURCES) > 100


def test_what_is_made_again_is_the_same(forms: dict[str, Snapshot]) -> None:
    """A value that is made a second time, by the same code in another namespace, has the same form."""
    again = {source: namespace(f"value = {source}") for source in SOURCES}
    assert [] == [differences(forms[source], again[source]) for source in SOURCES if forms[source] != again[source]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = [1]; b = a", "a = [1]; b = [1]"),
        ("a = [1]; b = {'k': a}", "a = [1]; b = {'k': [1]}"),
        ("a = np.arange(4); b = a[1:]", "a = np.arange(4); b = a[1:].copy()"),
        ("a = np.arange(4); b = a[1:]; c = b[1:]", "a = np.arange(4); b = a[1:]; c = a[2:].copy()"),
        ("a = bytearray(b'ab'); b = memoryview(a)", "a = bytearray(b'ab'); b = memoryview(bytearray(b'ab'))"),
        ("c = type('C', (), {}); v = c()", "C = type('C', (), {}); v = C(); c = type('C', (), {}); del C"),
        ("def f(): return 1", "import types; f = types.FunctionType((lambda: 1).__code__, {}, 'f')"),
        ("r = random.Random(1); s = r", "r = random.Random(1); s = random.Random(1)"),
        ("v = Plain(1); w = weakref.ref(v)", "v = Plain(1); w = weakref.ref(Plain(1))"),
        ("f, g = (lambda n: (lambda: n, lambda: n))(1)", "f, g = make(1), make(1)"),
        ("a = []; i = iter(a)", "a = []; i = iter([])"),
    ],
)  # fmt: skip
def test_structure_is_told_apart(one: str, other: str) -> None:
    """Namespaces whose names have equal values differ if objects, memory, classes or globals are shared otherwise."""
    assert namespace(one) == namespace(one)
    assert namespace(one) != namespace(other)


def changed(change: Callable[[], object]) -> set[str]:
    """Return the places of the state outside the namespace that a change is seen at."""
    before = dict(outside({}))
    change()
    after = dict(outside({}))
    return {place for place in {*before, *after} if before.get(place) != after.get(place)}


def test_state_outside_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each kind of state outside the namespace is seen at its own place, and looking changes none."""
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    matplotlib = pytest.importorskip("matplotlib")
    logger = logging.getLogger("durable.snapshots")
    options = pandas.get_option("display.precision")
    try:
        with decimal.localcontext(), numpy.printoptions(), warnings.catch_warnings(), matplotlib.rc_context():
            assert set() == changed(lambda: None)
            assert {"<random stream>"} == changed(random.random)
            assert {"<numpy's random stream>"} == changed(numpy.random.random)
            assert {"<working folder>"} == changed(lambda: monkeypatch.chdir(tmp_path))
            assert {"<search path>"} == changed(lambda: monkeypatch.setattr(sys, "path", ["there", *sys.path]))
            assert {"<warnings filters>"} == changed(lambda: warnings.filterwarnings("ignore", "such", UserWarning))
            assert {"<decimal context>"} == changed(lambda: setattr(decimal.getcontext(), "prec", 9))
            assert {"<environment>"} == changed(lambda: monkeypatch.setenv("SNAPSHOT", "1"))
            assert {"<logging levels>"} == changed(lambda: logger.setLevel(logging.ERROR))
            assert {"<numpy>"} == changed(lambda: numpy.set_printoptions(precision=3))
            assert {"<pandas>"} == changed(lambda: pandas.set_option("display.precision", options + 1))
            assert {"<matplotlib>"} == changed(lambda: matplotlib.rcParams.update({"lines.linewidth": 7.5}))
    finally:
        pandas.set_option("display.precision", options)
        logger.setLevel(logging.NOTSET)


def test_taking_a_snapshot_uses_nothing_up(tmp_path: Path) -> None:
    """Iterators, random streams and warnings filters are after a snapshot what they were before."""
    path = tmp_path / "snapshot.json"
    space = {"__name__": "__main__", "left": iter([1, 2, 3]), "zipped": zip("ab", [1, 2], strict=True)}
    stream, filters = random.getstate(), list(warnings.filters)
    snapshots.take(space, str(path))
    first = snapshots.load(path)
    snapshots.take(space, str(path))
    assert [] == differences(first, snapshots.load(path))
    assert (stream, filters) == (random.getstate(), list(warnings.filters))
    assert ([1, 2, 3], [("a", 1), ("b", 2)]) == (list(space["left"]), list(space["zipped"]))


def test_history_can_be_left_out(tmp_path: Path) -> None:
    """Without history the inputs and results of cells are not in the snapshot, and the user's names are."""
    path = tmp_path / "snapshot.json"
    space = {"In": ["", "x"], "_": 1, "_1": 1, "_i1": "x", "_ih": [], "_mine": 2, "x": [3]}
    snapshots.take(space, str(path), history=False)
    names = {place for place in json.loads(path.read_text()) if not place.startswith("<")}
    assert {"_mine", "x", "x ="} == names


def test_a_value_that_cannot_be_described_is_told(tmp_path: Path) -> None:
    """What goes wrong in the child is an error here, and the child is gone."""

    class Hostile(type):
        @property
        def __module__(cls) -> str:  # type: ignore[override]
            raise SystemError("no module of mine")

    with pytest.raises(RuntimeError, match="no module of mine"):
        snapshots.take({"x": Hostile("X", (), {})}, str(tmp_path / "snapshot.json"))
    try:
        ended = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        ended = (0, 0)
    # Other tests of this process may have children that live; one that has ended would be this one's.
    assert (0, 0) == ended


def test_differences_name_place_and_values() -> None:
    """A difference says where, what was expected and what is there; places can be left out."""
    one, other = {"a": "1", "b": "2", "c =": "x"}, {"a": "1", "b": "3", "d": "4"}
    assert ["b\n    expected 2\n    got      3", "c =\n    expected x\n    got      nothing"] == differences(
        one, other, but=["d"]
    )
