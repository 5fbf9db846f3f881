"""Builtins that ask for the globals that a namespace misses: found by every kind of code, and gone without a trace."""

from __future__ import annotations

import builtins
import gc
import types
from typing import Any

import pytest

from durable_nb.capture import lazy_builtins


@pytest.fixture
def namespace() -> dict[str, Any]:
    """A namespace as a notebook has it."""
    return {"__name__": "__main__", "__builtins__": builtins}


def test_this_python_is_supported() -> None:
    """The layout of functions is what the patch of their builtins counts on."""
    assert lazy_builtins.supported()


CODE_THAT_READS = {
    "module level": "got = big",
    "a function made before": "got = early()",
    "a function made while pending": "def late(): return big\ngot = late()",
    "a class body": "class A:\n    held = big\ngot = A.held",
    "a comprehension": "got = [big for _ in 'x'][0]",
    "a lambda in a lambda": "got = (lambda: (lambda: big)())()",
    "a generator that is suspended": "it = gen(); next(it); got = next(it)",
    "a class in a function": "def f():\n    class B:\n        held = big\n    return B.held\ngot = f()",
    "eval": "got = eval('big')",
    "exec in a dictionary": "d = {}\nexec('got = big', d)\ngot = d['got']",
}


@pytest.mark.parametrize("code", CODE_THAT_READS.values(), ids=CODE_THAT_READS)
def test_a_missing_global_is_asked_for(namespace: dict[str, Any], code: str) -> None:
    """Whatever kind of code looks a pending global up gets it, and from then on the namespace has it."""
    asked: list[str] = []

    def find(name: str) -> tuple[object] | None:
        asked.append(name)
        if name != "big":
            return None
        namespace["big"] = 42
        return (42,)

    exec("def early(): return big\ndef gen():\n    yield 0\n    yield big", namespace)
    lazy = lazy_builtins.install(namespace, find)
    exec(compile(code, "<cell>", "exec", dont_inherit=True), namespace)
    assert (42, 42) == (namespace["got"], namespace["big"])
    assert ["big"] == asked
    lazy_builtins.remove(namespace, lazy)


def test_a_name_that_nobody_has_is_a_name_error(namespace: dict[str, Any]) -> None:
    """What is not pending is as undefined as ever, with its name in the error."""
    lazy = lazy_builtins.install(namespace, lambda name: None)
    with pytest.raises(NameError, match="name 'nothing' is not defined") as caught:
        exec("nothing", namespace)
    assert "nothing" == caught.value.name
    lazy_builtins.remove(namespace, lazy)


def test_imports_classes_and_the_module_of_builtins_work(namespace: dict[str, Any]) -> None:
    """`import`, `class` and `__builtins__.name` do what they do with the plain builtins."""
    lazy = lazy_builtins.install(namespace, lambda name: None)
    exec("import json\nclass A: pass\nsame = __builtins__.len is len\nfrom os import path", namespace)
    assert (True, "A") == (namespace["same"], namespace["A"].__name__)
    lazy_builtins.remove(namespace, lazy)


def test_removed_builtins_leave_nothing_behind(namespace: dict[str, Any]) -> None:
    """Functions of before and of meanwhile, and dictionaries of exec, have the plain builtins again."""
    exec("def early(): return len", namespace)
    lazy = lazy_builtins.install(namespace, lambda name: None)
    exec("def late(): return len\nd = {}\nexec('def inner(): return len', d)", namespace)
    assert namespace["early"].__builtins__ is lazy
    lazy_builtins.remove(namespace, lazy)
    plain = vars(builtins)
    assert namespace["__builtins__"] is builtins
    assert [True] * 4 == [
        namespace["early"].__builtins__ is plain,
        namespace["late"].__builtins__ is plain,
        namespace["d"]["inner"].__builtins__ is plain,
        namespace["d"]["__builtins__"] is plain,
    ]
    assert [] == [f for f in gc.get_referrers(lazy) if isinstance(f, types.FunctionType)]


def test_a_suspended_generator_survives_the_end(namespace: dict[str, Any]) -> None:
    """A frame that began with the lazy builtins goes on with them after they were removed."""
    lazy = lazy_builtins.install(namespace, lambda name: None)
    exec("def gen():\n    yield 1\n    yield max(2, 3)", namespace)
    iterator = namespace["gen"]()
    assert 1 == next(iterator)
    lazy_builtins.remove(namespace, lazy)
    del lazy
    gc.collect()
    assert 3 == next(iterator)


def test_replaced_builtins_are_taken_over(namespace: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What code adds to the builtins is found at once, what it replaces from the next cell on."""
    lazy = lazy_builtins.install(namespace, lambda name: None)
    monkeypatch.setattr(builtins, "_dnb_added", 1, raising=False)
    exec("first = _dnb_added", namespace)
    monkeypatch.setattr(builtins, "_dnb_added", 2)
    lazy.sync()
    exec("second = _dnb_added", namespace)
    monkeypatch.delattr(builtins, "_dnb_added")
    lazy.sync()
    with pytest.raises(NameError):
        exec("_dnb_added", namespace)
    assert (1, 2) == (namespace["first"], namespace["second"])
    lazy_builtins.remove(namespace, lazy)
