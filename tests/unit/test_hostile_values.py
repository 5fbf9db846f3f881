"""Values whose class, equality or truth cannot be asked for cost nothing but themselves."""

from __future__ import annotations

from typing import Any

import pytest

from durable_nb.capture.compare import difference
from durable_nb.testing.simfiles import SimFiles
from durable_nb.testing.workbench import Workbench


@pytest.mark.parametrize(
    "hostile",
    [
        "import weakref\nclass K: pass\nk = K(); p = weakref.proxy(k); q = [weakref.proxy(k)]\ndel k",
        "class P:\n    @property\n    def __class__(self):\n        raise RuntimeError('no')\np = P(); q = [P()]",
        "class P:\n    def __getattribute__(self, name):\n        raise RuntimeError(name)\np = P(); q = [P()]",
        "class P:\n    def __eq__(self, other):\n        raise RuntimeError('no')\n    __hash__ = object.__hash__\n"
        "    def __bool__(self):\n        raise RuntimeError('no')\np = P(); q = {P(): P()}",
    ],
    ids=["dead proxy", "class", "attributes", "equality"],
)
def test_other_names_are_saved_beside_it(hostile: str) -> None:
    """A later cell is saved, and its variable comes back."""
    files = SimFiles()
    first = Workbench(files, life="one")
    for cell in (hostile, "x = 5", "x += 1"):
        first.run(cell)
    first.workflow.close(release=True)
    second = Workbench(files, life="two")
    second.run("'settled'")
    assert 6 == second.namespace["x"]


@pytest.mark.parametrize(
    "hook", ["__eq__ = lambda cls, other: NotImplemented", "def __hash__(cls): raise RuntimeError"]
)
def test_instances_of_a_class_without_a_hash_cost_their_own_names_only(hook: str, caplog: Any) -> None:
    """The names that lead to one are reported at the class, every other name is saved and comes back."""
    files = SimFiles()
    first = Workbench(files, life="one")
    cells = (
        f"class Meta(type):\n    {hook}\nclass C(metaclass=Meta): pass\nx = [5]",
        "c = C()\nc.x = x\nd = {'k': [C()]}\ndef f(held=c): return held\nx.append(6)",
        "x.append(type(c).__name__)\ny = len(d), f().x is x",
        "pass",
    )
    for cell in cells:
        first.run(cell)
        assert "" == first.engine.trouble
    assert first.engine.head is not None
    unsaved = {u.name: (u.type, u.reason) for u in first.engine.head.unsaved}
    assert {"c", "d", "f"} == unsaved.keys()
    assert all("cannot be asked for its hash" in reason for _, reason in unsaved.values()), unsaved
    first.workflow.close(release=True)
    second = Workbench(files, life="two")
    for cell in cells:
        second.run(cell)
    assert [5, 6, "C"] == second.namespace["x"]
    assert (1, True) == second.namespace["y"]
    assert "Meta" == type(second.namespace["C"]).__name__
    assert "RuntimeError" in hook or not caplog.records


class _NoTruth:
    """Like an array of several numbers: comparing gives something that is neither true nor false."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    def __hash__(self) -> int:
        return 1


NO_TRUTH = """
import functools, weakref
class Column:
    def __bool__(self): raise TypeError("no truth value")
class Meta(type):
    def __eq__(cls, other): return Column()
    __hash__ = type.__hash__
class K(metaclass=Meta):
    def same(self): return K
k = K()
held = [k, {k: K}, functools.partial(K), (K, k), {K}, weakref.ref(k)]
"""


def test_classes_whose_comparison_has_no_truth_come_back() -> None:
    """A class is never asked whether it equals another one, as one that makes columns or conditions of it shows."""
    files = SimFiles()
    first = Workbench(files, life="one")
    for cell in (NO_TRUTH, "x = 5", "k.y = x"):
        first.run(cell)
    assert not first.engine.trouble
    assert [] == [u.name for u in first.engine.head.unsaved]
    first.workflow.close(release=True)
    second = Workbench(files, life="two").namespace
    assert (5, True, True) == (second["k"].y, second["held"][0] is second["k"], second["held"][3][0] is second["K"])


def test_keys_without_a_truth_are_compared_by_their_parts() -> None:
    """A key of a dictionary is not asked whether it equals another one."""
    assert difference({_NoTruth(): [1]}, {_NoTruth(): [1]}) is None
    assert difference({_NoTruth(): [1]}, {_NoTruth(): [2]}) is not None
