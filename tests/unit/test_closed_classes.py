"""Classes whose metaclass hides what they are, and objects that work out their class: neither costs anything else."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from durable_nb.capture import plainly
from durable_nb.testing.simfiles import SimFiles
from durable_nb.testing.workbench import Workbench

WORDS = ("__module__", "__name__", "__qualname__", "__mro__", "__bases__", "__dict__", "__flags__", "__class__")
BY_PROPERTY = "class M(type):\n    @property\n    def {word}(cls):\n        raise ValueError('mod')\n"
BY_LOOKUP = (
    "class M(type):\n    def __getattribute__(cls, name):\n        if name == '{word}':\n"
    "            raise AttributeError(name)\n        return super().__getattribute__(name)\n"
)
ALL = "class M(type):\n    def __getattribute__(cls, name):\n        raise AttributeError(name)\n"
BODY = "class B(metaclass=M):\n    def __init__(s):\n        s.y = 2\n"
# Past the metaclass where it would be asked for its `__call__`.
MADE = "b = type.__call__(B)\nother = [1]"
METAS = {
    **{f"property {word}": BY_PROPERTY.format(word=word) for word in WORDS if word != "__qualname__"},
    **{f"lookup {word}": BY_LOOKUP.format(word=word) for word in (*WORDS, "__reduce_ex__", "__basicsize__")},
    "all": ALL,
}


@pytest.mark.parametrize("meta", METAS.values(), ids=METAS.keys())
def test_a_class_that_hides_what_it_is_costs_only_what_leads_to_it(meta: str, caplog: Any) -> None:
    """It and its instances come back or are reported with a reason; everything else is saved in every cell."""
    files = SimFiles()
    cells = (
        meta + BODY + MADE,
        "b.y = 3\nother.append(2)",
        "class Sub(B):\n    pass\nclass Has:\n    part = b\nheld = {'k': [b]}",
        "def f(x=B):\n    return x\nother.append(3)",
        "def g():\n    return b.y\nother.append(g())",
        "class D:\n    __slots__ = ('a',)\nd = D()\nd.a = other\nother.append(type(b) is B)",
        "other[0] = 7",
    )
    first = Workbench(files, life="one")
    for cell in cells:
        first.run(cell)
        assert first.failed is None, first.failed
        assert "" == first.engine.trouble
    assert not caplog.records
    assert first.engine.head is not None
    unsaved = {u.name: u.reason for u in first.engine.head.unsaved}
    first.workflow.close(release=True)
    second = Workbench(files, life="two")
    for cell in cells:
        second.run(cell)
        assert second.failed is None, second.failed
    second.run("seen = list(other), other is d.a")
    assert ([7, 2, 3, 3, True], True) == second.namespace["seen"]
    for name in ("B", "b", "Sub", "Has", "held", "f"):
        assert name in second.namespace or "class B cannot be asked for its `__" in unsaved[name], (name, unsaved)
    if "b" in second.namespace and "b" not in unsaved:
        assert 3 == second.namespace["b"].__dict__["y"]


def test_a_metaclass_that_only_says_what_is_so_costs_nothing() -> None:
    """One that passes questions on is no reason not to store its classes."""
    files = SimFiles()
    meta = "class M(type):\n    def __getattribute__(cls, name):\n        return super().__getattribute__(name)\n"
    first = Workbench(files, life="one")
    for cell in (meta + BODY + "b = B()\nother = [1]", "b.y = 3"):
        first.run(cell)
        assert "" == first.engine.trouble
    assert first.engine.head is not None
    assert {} == {u.name: u.reason for u in first.engine.head.unsaved}
    first.workflow.close(release=True)
    second = Workbench(files, life="two")
    second.run("found = b.y, type(b) is B")
    assert (3, True) == second.namespace["found"]


@pytest.mark.parametrize("meta", METAS.values(), ids=METAS.keys())
def test_looking_plainly_asks_no_metaclass(meta: str) -> None:
    """Name, module, bases and members of a class are those that Python knows."""
    space: dict[str, Any] = {"__name__": "there"}
    exec(meta + BODY, space)
    cls = space["B"]
    assert ("there", "B", "B") == (plainly.module(cls), plainly.name(cls), plainly.qualname(cls))
    assert (cls, object) == plainly.lineage(cls)
    assert (object,) == plainly.bases(cls)
    assert "__init__" in plainly.members(cls)
    assert plainly.has(cls, "__init__")
    assert not plainly.has(cls, "nothing")
    assert plainly.closed(cls) is not None
    assert plainly.refusal(cls) == plainly.closed(cls)
    assert plainly.closed(int) is plainly.closed(space["M"]) is plainly.closed(5) is None
    made = type.__call__(cls)
    assert {"y": 2} == plainly.own_dict(made)
    assert "there" == plainly.home(made)


def test_what_works_out_its_attributes_is_not_asked_for_them() -> None:
    """An object whose class has a `__dict__` of its own, as proxies have, has none as far as looking is concerned."""

    class Proxy:
        __dict__ = property(lambda self: 1 / 0)  # type: ignore[assignment]

    class Closed:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    assert plainly.own_dict(Proxy()) is None
    assert {} == plainly.own_dict(Closed())
    assert not plainly.is_a(Closed(), type)
    assert __name__ == plainly.home(Closed())
    assert __name__ == plainly.home(test_what_works_out_its_attributes_is_not_asked_for_them)
    assert "" == plainly.home([])
    assert "builtins" == plainly.home(list)
    assert "os" == plainly.home(os.getcwd).strip("_").replace("posix", "os").replace("nt", "os")
    assert vars(sys) is plainly.own_dict(sys)
