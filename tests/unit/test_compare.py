"""Two values are the same by type, content and aliases: reuse.md, rules 8 and 9, and known traps of pickling."""

# The expected value stands on the left in every test.

from __future__ import annotations

import array
import collections
import copy
import datetime
import decimal
import enum
import functools
import itertools
import pickle
import threading
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_nb.capture.compare import difference


def run(source: str, **names: Any) -> dict[str, Any]:
    """Run a cell in a namespace of its own."""
    namespace: dict[str, Any] = {"__name__": "__main__", **names}
    exec(compile(source, "<cell>", "exec"), namespace)
    return namespace


def same(a: Any, b: Any) -> bool:
    """Tell whether two values are the same, asked both ways."""
    found = difference(a, b) is None
    assert found is (difference(b, a) is None)
    return found


def shared(*, twice: bool) -> dict[str, list[int]]:
    """Return a dict with one list at two places, or with two equal ones."""
    x = [1]
    return {"p": x, "q": x if twice else [1]}


# -- atoms and containers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (1, 1, True), (1, 2, False), (1, 1.0, False), (1, True, False), (0.0, -0.0, False),
        (float("nan"), float("nan"), True), (complex(0, -0.0), complex(0, 0.0), False), ("a", b"a", False),
        (None, None, True), ("ä", "ä", True), ([1, 2], [1, 2], True), ([1, 2], (1, 2), False), ([1], [1, 2], False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({1: "a"}, {True: "a"}, False), ({1, 2, 3}, {3, 2, 1}, True), ({1}, {1.0}, False), ({1}, {2}, False),
        (frozenset({"a", (1, "b")}), frozenset({(1, "b"), "a"}), True), (set(), frozenset(), False),
        ({float("nan")}, {float("nan")}, True), (range(3), range(3), True), (slice(1, 2), slice(1, 3), False),
        (bytearray(b"a"), bytearray(b"a"), True), (bytearray(b"a"), bytearray(b"b"), False),
        (collections.OrderedDict(a=1), collections.OrderedDict(a=1), True),
        (collections.defaultdict(list, a=[1]), collections.defaultdict(list, a=[1]), True),
        (collections.defaultdict(list, a=[1]), collections.defaultdict(set, a=[1]), False),
        (collections.Counter("ab"), collections.Counter("abb"), False),
        (collections.deque([1], maxlen=2), collections.deque([1], maxlen=3), False),
        (datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1), True),
        (datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), False),
        (decimal.Decimal("1.0"), decimal.Decimal("1.00"), False), (Path("a"), Path("a"), True),
        (ValueError("a"), ValueError("a"), True), (ValueError("a"), ValueError("b"), False),
        (ValueError("a"), TypeError("a"), False), (iter([1, 2]), iter([1, 2]), True),
        (len, len, True), (len, max, False), ([].append, [].append, True), ([1].append, [2].append, False),
        (collections, collections, True), (collections, copy, False), (int, int, True), (int, float, False),
        (functools.partial(max, 1), functools.partial(max, 1), True),
        (functools.partial(max, 1), functools.partial(max, 2), False),
    ],
)  # fmt: skip
def test_values_are_compared_by_type_and_content(a: Any, b: Any, expected: bool) -> None:
    """Equal in Python's sense is not enough, and NaN is the same as NaN."""
    assert expected is same(a, b)


def test_aliases_are_part_of_a_value() -> None:
    """One list at two places differs from two equal lists."""
    found = difference(shared(twice=True), shared(twice=False))
    assert "value['q'] (list) is shared with another place on one side only" == found
    assert same(shared(twice=True), shared(twice=True))
    assert same(shared(twice=False), shared(twice=False))
    assert not same(shared(twice=False), shared(twice=True))


class Alike:
    """An object of which several look alike; with `other` it leads to another one."""

    other: Any = None


def alike(order: Sequence[int], kind: str) -> Any:
    """Return sets of objects that look alike, and where else they are; in memory they lie in the given order."""
    made = {number: Alike() for number in order}
    a, b, c, d = (made[n] for n in range(4))
    if kind == "elsewhere":
        return [{a, b, c, d}, a, [b, c], d]
    if kind == "in tuples":
        return [{(1, a), (1, b)}, {(a, c), (b, d)}, b, c]
    if kind == "pairs":
        a.other, b.other, c.other, d.other = b, a, d, c
        return {a, b, c, d}
    return [{a, b, c}, {b, c, d}, {c}, frozenset({a})]


@pytest.mark.parametrize("kind", ["elsewhere", "in tuples", "pairs", "nowhere"])
def test_elements_of_sets_that_look_alike_are_paired_by_where_else_they_are(kind: str) -> None:
    """The order of a set is that of places in memory, which says nothing."""
    orders = list(itertools.permutations(range(4)))
    kept = [alike(order, kind) for order in orders]
    assert [None] * len(orders) == [difference(kept[0], other) for other in kept]


def test_elements_of_sets_that_look_alike_are_no_others() -> None:
    """A name for an element differs from a name for an object that looks like it."""
    a, b, c, d = Alike(), Alike(), Alike(), Alike()
    assert not same([{a, b}, a], [{c, d}, Alike()])
    assert not same([{a, b}, a, b], [{c, d}, c, c])
    assert not same([{a, b}, {a}], [{c, d}, {Alike()}])
    assert same({Alike() for _ in range(300)}, {Alike() for _ in range(300)})


@pytest.mark.parametrize("way", ["keys", "values", "items"])
@pytest.mark.parametrize("cls", [dict, collections.OrderedDict])
@pytest.mark.parametrize("turn", [iter, reversed, lambda view: view])
def test_views_and_iterators_of_dictionaries_are_of_the_very_dictionary(
    way: str, cls: type[dict[Any, Any]], turn: Callable[[Any], Any]
) -> None:
    """What is left of an iterator over keys does not tell that its dictionary leads to a list at another place."""
    shared = [1]

    def made(held: list[int], *, own: bool) -> list[Any]:
        looked_at = cls({1: held, 2: "x"})
        return [turn(getattr(looked_at, way)()), shared, cls(looked_at) if own else looked_at]

    assert same(made(shared, own=False), made(shared, own=False))
    assert same(made(shared, own=True), made(shared, own=True))
    assert not same(made(shared, own=False), made([1], own=False))
    assert not same(made(shared, own=False), made(shared, own=True))


def test_proxies_are_of_the_very_dictionary() -> None:
    """A proxy shows what is written to its dictionary later."""
    one, other = {1: 2}, {1: 2}
    assert same([types.MappingProxyType(one), one], [types.MappingProxyType(other), other])
    assert not same([types.MappingProxyType(one), one], [types.MappingProxyType(other), {1: 2}])
    assert same(vars(Alike), vars(Alike))


def test_aliases_between_a_value_and_itself_count() -> None:
    """The same object on both sides still has to be shared at the same places."""
    inner = [1]
    outer = [inner]
    assert not same([outer, inner], [outer, [1]])
    assert same([outer, inner], [outer, inner])


def test_shared_values_that_cannot_change_are_no_aliases() -> None:
    """Whether two places share a tuple, a string or a date makes no difference."""
    t, day = (1, "a"), datetime.date(2020, 1, 1)
    assert same([t, t, day, day], [(1, "a"), tuple([1, "a"]), datetime.date(2020, 1, 1), datetime.date(2020, 1, 1)])


def test_cycles_are_compared() -> None:
    """A value that contains itself is the same as its copy and differs from one more turn."""
    a: list[Any] = [1]
    a.append(a)
    b: list[Any] = [1]
    b.append([1, b])
    assert same(a, copy.deepcopy(a))
    assert not same(a, b)


def test_deep_values_need_no_recursion() -> None:
    """A chain of 100 000 lists is compared, and its end told apart."""

    def chain(end: int) -> list[Any]:
        value: list[Any] = [end]
        for _ in range(100_000):
            value = [value]
        return value

    one, two, three = chain(1), chain(1), chain(2)
    found = difference(one, two), len(difference(one, three) or "") in range(50, 300)
    for value in (one, two, three):
        while value and isinstance(value[0], list):  # taken apart, or freeing them would need the C stack
            value[:] = value[0]
    assert (None, True) == found


def test_the_first_difference_is_named() -> None:
    """The sentence has the path and both sides."""
    assert "value['a'][1] is 2 on one side and 3 on the other" == difference({"a": [1, 2]}, {"a": [1, 3]})
    assert "value is of type int on one side and str on the other" == difference(1, "1")


def test_the_limit_counts_as_different() -> None:
    """What is too large to compare is not called the same."""
    assert "too many to compare" in (difference([[]] * 5, [[]] * 5, limit=3) or "")


# -- code and classes ----------------------------------------------------------------------------------------------

DEFINITION = "class A:\n    k = [1]\n    def m(self, x=1):\n        return x + {0}\na = A()\na.v = 1"


def test_instances_of_a_class_defined_again_are_the_same() -> None:
    """After a load a class may be another object; its definition decides, not file names or line numbers."""
    one, two, other = run(DEFINITION.format(1)), run("\n\n" + DEFINITION.format(1)), run(DEFINITION.format(2))
    assert one["A"] is not two["A"]
    assert (True, True, False, False) == (
        same(one["A"], two["A"]), same(one["a"], two["a"]), same(one["A"], other["A"]), same(one["a"], other["a"]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("def v(a, b=1): return a", ("b=1", "b=2")),
        ("def v(*, b=1): return b", ("b=1", "b=2")),
        ("def v(): return 1", ("return 1", "return 2")),
        ("def v(): return 0.0", ("0.0", "-0.0")),
        ("def v(): return 1", ("1", "True")),
        ("def v(): return len", ("len", "max")),
        ("def v():\n    def w(): return 1\n    return w", ("return 1", "return 2")),
        ("def mk(n): return lambda: n\nv = mk(1)", ("mk(1)", "mk(2)")),
        ("def v(): pass\nv.x = 1", ("v.x = 1", "v.x = 2")),
        ("import functools\n@functools.lru_cache(maxsize=2)\ndef v(): return 1", ("return 1", "return 2")),
        ("class v:\n    @property\n    def p(self): return 1", ("return 1", "return 2")),
        ("class v:\n    @staticmethod\n    def p(): return 1", ("return 1", "return 2")),
        ("from functools import cached_property as c\nclass v:\n    @c\n    def p(s): return 1", ("rn 1", "rn 2")),
        ("class v:\n    __slots__ = ('a',)\nx = v\nv = x()\nv.a = 1", ("v.a = 1", "v.a = 2")),
        ("import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: int = 1\nv = D()", ("= 1", "= 2")),
        ("import enum\nclass E(enum.Enum):\n    A = 1\nv = E.A", ("A = 1", "A = 2")),
        ("import abc\nclass v(abc.ABC):\n    @abc.abstractmethod\n    def m(self): return 1", ("return 1", "return 2")),
        ("class M(type): k = 1\nclass v(metaclass=M): pass", ("k = 1", "k = 2")),
        ("class B: k = 1\nclass v(B): pass", ("k = 1", "k = 2")),
        ("class A:\n    def m(self): return self\na = A()\na.k = 1\nv = a.m", ("a.k = 1", "a.k = 2")),
        ("class T(tuple): pass\nv = T((1,))", ("(1,)", "(2,)")),
        ("class S(set): pass\nv = S([1, 'a', (2,)])", ("'a'", "'b'")),
        ("class L(list): pass\nv = L([1])\nv.x = 1", ("v.x = 1", "v.x = 2")),
        ("v = ValueError(1)\nv.__cause__ = KeyError(1)", ("KeyError(1)", "KeyError(2)")),
        ("import types\nv = types.ModuleType('made_here_zz')\nv.x = 1", ("v.x = 1", "v.x = 2")),
    ],
)  # fmt: skip
def test_definitions_are_compared_by_code_and_content(source: str, change: tuple[str, str]) -> None:
    """Running the same definition again gives the same value; a changed part of it does not."""
    assert source.count(change[0]) == 1 or change[0] == "1"
    assert difference(run(source)["v"], run(source)["v"]) is None
    assert difference(run(source)["v"], run(source.replace(*change))["v"]) is not None


def test_functions_that_share_a_variable_differ_from_those_that_do_not() -> None:
    """A closure's variable is an object of its own."""
    both = "def mk():\n    n = [0]\n    return (lambda: n), (lambda: n)\nv = mk()"
    apart = "def mk():\n    n = [0]\n    m = [0]\n    return (lambda: n), (lambda: m)\nv = mk()"
    assert same(run(both)["v"], run(both)["v"])
    assert not same(run(both)["v"], run(apart)["v"])


def test_enum_members_survive_a_pickle() -> None:
    """A member of the standard library's enums is itself."""
    assert same(enum.FlagBoundary.KEEP, pickle.loads(pickle.dumps(enum.FlagBoundary.KEEP)))


# -- what cannot be compared ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock, lambda: (i for i in [1])])
def test_what_does_not_say_what_it_holds_is_different(make: Callable[[], Any]) -> None:
    """A lock or a generator is only the same as itself."""
    one, two = make(), make()
    assert "cannot be compared" in (difference([one], [two]) or "")
    assert difference([one], [one]) is None


def test_comparing_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints and warnings of the user's own hooks are not shown."""
    source = """
import warnings
class A:
    def __getstate__(self):
        print("side effect")
        warnings.warn("noise")
        return {"a": 1}
    def __eq__(self, other): raise AssertionError
    def __repr__(self): raise AssertionError
    __hash__ = None
v = [A()]
"""
    namespace = run(source)
    assert same(namespace["v"], copy.copy(namespace["v"]))
    assert ("", "") == tuple(capsys.readouterr())


# -- libraries -----------------------------------------------------------------------------------------------------


def test_arrays_are_compared_by_kind_shape_and_bytes() -> None:
    """Strides do not matter; kind, shape, bytes and object elements do."""
    np = pytest.importorskip("numpy")
    a = np.arange(6.0).reshape(2, 3)
    assert same(a, np.asfortranarray(a))
    assert same(np.array([np.nan]), np.array([np.nan]))
    assert same(a[:, ::-1], a[:, ::-1].copy())
    for other in (a.astype("f4"), a.reshape(3, 2), a + 1, a.astype(">f8")):
        assert not same(a, other)
    one, two = np.array([[1], "x"], dtype=object), np.array([[2], "x"], dtype=object)
    assert (True, False) == (same(one, copy.deepcopy(one)), same(one, two))
    assert (True, False, False) == (
        same(np.float64(1), np.float64(1)),
        same(np.float64(1), 1.0),
        same(np.int8(1), np.int16(1)),
    )


def test_arrays_that_share_memory_differ_from_copies() -> None:
    """A view is an alias of its base although no object is shared; where it begins matters."""
    np = pytest.importorskip("numpy")
    a, b = np.zeros(10), np.zeros(10)
    assert same([a, a[2:]], [b, b[2:]])
    assert not same([a, a[2:]], [b, b[2:].copy()])
    assert not same([a, a[2:5]], [b, b[3:6]])
    assert same([a[:5], a[5:]], [b[:5].copy(), b[5:].copy()])
    assert same([a, a], [b, b])
    assert not same([a, a], [b, b.copy()])


def test_random_generators_are_compared_by_state() -> None:
    """A generator that was drawn from is another one."""
    np = pytest.importorskip("numpy")
    for make in (np.random.default_rng, np.random.RandomState):
        one, two = make(1), make(1)
        assert same(one, two)
        assert same(one, pickle.loads(pickle.dumps(one)))
        two.random()
        assert not same(one, two)


def test_tables_are_compared_by_their_parts() -> None:
    """Copies and loaded tables are the same; values, labels, kinds and names are told apart."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.Categorical(["u", "v"])}, index=["i", "j"])
    frame["d"] = pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("UTC")
    assert same(frame, frame.copy())
    assert same(frame, pickle.loads(pickle.dumps(frame, protocol=5)))
    assert same(frame["a"], frame["a"].copy())
    assert same([frame, frame.copy(deep=False)], [frame.copy(), frame.copy()])
    for other in (
        frame.assign(a=[1, 3]), frame.rename(columns={"a": "z"}), frame.astype({"a": "int32"}), frame.iloc[::-1],
        frame.set_axis(["i", "k"]), frame.rename_axis("n"), frame[["b", "a", "c", "d"]], frame.assign(b=["x", "y"]),
    ):  # fmt: skip
        assert not same(frame, other)
    assert not same(pd.Series([1], name="a"), pd.Series([1], name="b"))


def test_objects_of_a_library_are_compared_by_what_they_reduce_to() -> None:
    """Without rules of its own, a type is compared by its reduced form."""
    module = ModuleType("library_zz")
    exec(
        "class P:\n    def __init__(self, x): self.x = x\n    def __reduce__(self): return (P, (self.x,))", vars(module)
    )
    assert (True, False) == (same(module.P([1]), module.P([1])), same(module.P([1]), module.P([2])))


# -- properties ----------------------------------------------------------------------------------------------------

ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
KEYS = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.tuples(st.integers(), st.text(max_size=2))
VALUES = st.recursive(
    ATOMS | st.frozensets(KEYS, max_size=4) | st.sets(KEYS, max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=15,
)


def mutable(value: Any, found: list[Any]) -> list[Any]:
    """Collect the lists and dicts of a value."""
    if isinstance(value, (list, dict)):
        found.append(value)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        mutable(item, found)
    return found


@given(VALUES)
def test_a_copy_is_the_same(value: Any) -> None:
    """Deep copies and pickled copies, aliases included, are the same as the original."""
    doubled = [value, value]
    assert difference(doubled, copy.deepcopy(doubled)) is None
    assert difference(value, pickle.loads(pickle.dumps(value))) is None


@given(st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_a_changed_copy_is_different(value: list[Any], data: st.DataObject) -> None:
    """Adding, removing or replacing anything anywhere in a copy is found."""
    other = copy.deepcopy(value)
    place = data.draw(st.sampled_from(mutable(other, [])))
    if isinstance(place, dict):
        key = data.draw(st.sampled_from([*place, "a new key"]))
        place[key] = object
    elif place and data.draw(st.booleans()):
        place[data.draw(st.integers(0, len(place) - 1))] = object
    else:
        place.append(None)
    assert not same(value, other)


@given(st.lists(st.lists(st.integers(), max_size=2), min_size=2, max_size=6), st.data())
def test_a_changed_alias_is_different(parts: list[list[int]], data: st.DataObject) -> None:
    """Putting a shared list where an equal list of its own was is found, and the other way round."""
    i = data.draw(st.integers(0, len(parts) - 1))
    apart = [*parts, list(parts[i])]
    joined = [*parts, parts[i]]
    assert same(joined, copy.deepcopy(joined))
    assert not same(apart, joined)


# -- shared memory ---------------------------------------------------------------------------------------------------


class Missing:
    """A library that is not installed."""

    def __getattr__(self, name: str) -> Any:
        raise ModuleNotFoundError("torch is not installed")


try:
    import torch
except ModuleNotFoundError:
    torch = Missing()


def looking(*, at_it: bool, kind: Callable[[], Any], look: Callable[[Any], Any]) -> list[Any]:
    """Return a buffer, and what looks at its memory or at that of an equal one."""
    buffer = kind()
    return [buffer, look(buffer if at_it else kind())]


@pytest.mark.parametrize(
    ("kind", "look"),
    [
        (lambda: bytearray(b"abcdef"), lambda b: np.frombuffer(b, "u1")),
        (lambda: bytearray(b"abcdef"), lambda b: np.frombuffer(b, "u1")[2:4]),
        (lambda: array.array("i", [1, 2, 3]), lambda a: np.frombuffer(a, "i4")),
        (lambda: bytearray(b"abcdef"), memoryview),
        (lambda: np.arange(6), lambda a: a[1:]),
        (lambda: np.arange(6).reshape(2, 3), lambda a: a.T),
        (lambda: np.arange(6), lambda a: a.view(np.ma.MaskedArray)),
        (lambda: np.arange(6), lambda a: [np.empty((0,)), a[3:]]),
        (lambda: np.arange(6.0), lambda a: polars.Series("x", a)),
        (lambda: np.arange(6.0), lambda a: polars.DataFrame({"x": polars.Series(a)})),
        (lambda: bytearray(b"abcdef"), lambda b: pyarrow.py_buffer(b)),
        (lambda: torch.arange(6.0).reshape(2, 3), lambda t: t.t()),
        (lambda: torch.arange(6.0), lambda t: t.numpy()[1:]),
        (lambda: torch.zeros(6), lambda t: t[3:]),
    ],
)
def test_who_looks_at_whose_memory_counts(kind: Callable[[], Any], look: Callable[[Any], Any]) -> None:
    """Equal values whose memory is shared on one side only are not the same."""
    one, other = (lambda at_it=at_it: looking(at_it=at_it, kind=kind, look=look) for at_it in (True, False))
    try:
        one()
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    assert same(one(), one())
    assert same(other(), other())
    assert not same(one(), other())
