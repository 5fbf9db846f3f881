"""Which names belong together: by shared mutable objects, by memory, by cycles of definitions, by nothing else."""

from __future__ import annotations

import math
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from durable_nb.capture.definitions import Definitions
from durable_nb.capture.groups import Grouping, partition
from durable_nb.capture.kinds import is_atomic
from durable_nb.capture.reducers import load


def group(names: dict[str, Any]) -> Grouping:
    """Partition a namespace with the reducers that are loaded."""
    shown = {name: value for name, value in names.items() if not name.startswith("__")}
    return partition(shown, Definitions(shown), load(sys.modules), never=[names])


def together(names: dict[str, Any]) -> set[frozenset[str]]:
    """Return the groups of more than one name."""
    return {frozenset(g) for g in group(names).groups if len(g) > 1}


def run(*cells: str) -> dict[str, Any]:
    """Return the namespace in which cells ran."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, "<cell>", "exec", dont_inherit=True), names)
    return names


SHARED: dict[str, Any] = {"list": [1], "dict": {}, "set": {1}, "bytearray": bytearray(b"x"), "long text": "x" * 70_000}


@pytest.mark.parametrize("kind", sorted(SHARED))
def test_a_shared_mutable_or_large_object_links(kind: str) -> None:
    """Two names that reach one list, dict, set, bytearray or long string belong together, however deep."""
    shared = SHARED[kind]
    assert together({"a": shared, "b": ({"k": [shared]},), "c": [1]}) == {frozenset({"a", "b"})}


def test_the_dictionary_of_an_instance_links() -> None:
    """`d = vars(a)` belongs to `a`, also where Python hides that link; a dictionary with equal content does not."""
    names = run("class A:\n    pass\na = A()\na.x = []\nb = A()\nb.x = 1", "d = vars(a)\ne = {'x': 1}\nf = dict(x=a.x)")
    assert together(names) == {frozenset({"a", "d", "f"})}
    assert id(names["d"]) in group(names).sharing.dicts


def test_what_cannot_change_links_nothing() -> None:
    """Small text, numbers, modules, imported classes, dtypes and NaN constants shared by names do not link them."""
    parts = ["text", 10**30, math, dict, np.dtype("f8"), math.nan, None, (1, 2)]
    assert together({"a": list(parts), "b": list(parts)}) == set()


def test_the_very_same_object_under_two_names_links() -> None:
    """`a = b = (1, 2)` and a NaN object reached twice stay one object; equal numbers need not."""
    pair, nan = (1, 2), float("nan")
    assert together({"a": pair, "b": pair, "c": nan, "d": [nan], "e": 7, "f": 7}) == {
        frozenset({"a", "b"}),
        frozenset({"c", "d"}),
    }


def test_instances_do_not_link_through_their_class() -> None:
    """Two instances of a notebook class are two groups that both need the class."""
    names = run("class A:\n    seen = []\na = A()\nb = A()")
    found = group(names)
    assert set(found.groups) == {("A",), ("a",), ("b",)}
    assert {"a": {"A"}, "b": {"A"}} == {k: set(v) for k, v in found.deps.items()}


def test_functions_link_by_cells_and_defaults_but_not_by_globals() -> None:
    """Closures over one cell, and a mutable default that is also a variable, link; a global list does not."""
    names = run(
        "def make():\n    n = []\n    return (lambda: n), (lambda: n)\nf, g = make()",
        "acc = []\ndef log(acc=acc): ...\nglob = []\ndef user():\n    return glob",
    )
    assert together(names) == {frozenset({"f", "g"}), frozenset({"acc", "log"})}


def test_definitions_that_need_each_other_are_one_group() -> None:
    """A metaclass whose registry holds its classes is stored with them; what only uses them is not."""
    names = run(
        "class M(type):\n    all = []\n    def __init__(cls, *a):\n        M.all.append(cls)\n"
        "class P(metaclass=M): ...",
        "p = P()",
    )
    assert together(names) == {frozenset({"M", "P"})}


def test_arrays_link_by_memory() -> None:
    """A view and its base, two views of a nameless base, and an array on a bytearray share memory; copies do not."""
    base, hidden, buffer = np.arange(9), np.arange(9), bytearray(8)
    names = {
        "base": base,
        "view": base[2:],
        "left": hidden[:3],
        "right": hidden[2:],
        "buffer": buffer,
        "on": np.frombuffer(buffer, "u1"),
        "copy": base.copy(),
        "boxed": np.array([buffer, None], dtype=object),
    }
    assert together(names) == {
        frozenset({"base", "view"}),
        frozenset({"left", "right"}),
        frozenset({"buffer", "on", "boxed"}),
    }


def test_a_weak_reference_links_to_its_target() -> None:
    """A weak reference is only worth something beside what it refers to."""
    target = {1, 2}
    assert together({"t": target, "r": weakref.ref(target)}) == {frozenset({"t", "r"})}


def test_the_namespace_itself_is_never_followed() -> None:
    """`g = globals()` does not make one group of everything."""
    names: dict[str, Any] = {"a": [1], "b": [2]}
    names["g"] = names
    found = group(names)
    assert len(found.groups) == 3
    assert found.special == {"g"}


def test_deep_structures_do_not_exhaust_the_stack() -> None:
    """The walk is iterative: a list nested 200 000 deep is walked to its end."""
    inner: list[Any] = []
    deep = inner
    for _ in range(200_000):
        deep = [deep]
    assert together({"deep": deep, "inner": inner}) == {frozenset({"deep", "inner"})}
    while deep:  # taken apart by hand, because freeing it recurses
        deep = deep.pop()


def test_atomic_values() -> None:
    """Numbers, short text and None need no walk; NaN, long text and containers do."""
    assert all(is_atomic(v) for v in (1, 1.5, "x", b"x", None, True, 2j))
    assert not any(is_atomic(v) for v in (float("nan"), "x" * 70_000, (), [], int))
