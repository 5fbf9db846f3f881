"""Functions and classes by value: exact code, live globals, no side effects of rebuilding."""

from __future__ import annotations

import inspect
import linecache
import sys
from typing import Any

import pytest

from durable_nb.capture import rebuild
from durable_nb.capture.definitions import Definitions, importable
from durable_nb.testing.notebook import Notebook


def test_what_is_importable() -> None:
    """Definitions of modules are imports; those of a notebook, local ones and look-alikes are not."""

    def local() -> None: ...

    class Fake:
        __module__ = "inspect"
        __qualname__ = "Signature"

    assert all(importable(obj) for obj in (inspect.signature, inspect.Signature, inspect.Signature.bind, dict))
    assert not any(importable(obj) for obj in (local, Fake))


def test_where_definitions_are_bound() -> None:
    """The definition's own name wins over an alias; nested classes and methods have a path; imports have none."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("class A:\n    class B: ...\n    def m(self): ...\nalias = A\nother = len\ndef f(): ...\n", names)
    first = {"alias": names["alias"], **names}
    found = Definitions(first)
    a = names["A"]
    assert [found.path(x) for x in (a, a.B, vars(a)["m"], names["f"], len)] == [
        ("A",),
        ("A", "B"),
        ("A", "m"),
        ("f",),
        None,
    ]


def test_source_is_found_again() -> None:
    """inspect.getsource works on a restored function although nobody has its cell any more."""
    first = Notebook()
    first.run("import inspect\ndef double(x):\n    return x * 2  # twice\n")
    name = first["double"].__code__.co_filename
    del linecache.cache[name]
    second = first.restored()
    assert "# twice" in inspect.getsource(second["double"])
    assert second["double"].__code__ == first["double"].__code__


def test_code_of_another_minor_version_is_compiled_from_its_source() -> None:
    """Under another Python the code comes from the recorded cell, found by name and line; without source it says so."""
    source = "def make(k):\n    def add(x):\n        return x + k\n    return add\n"
    args = (b"not for us", (3, 0), "<old cell>", "make.<locals>.add", 2, source)
    code = rebuild._make_code(*args)
    assert (code.co_name, code.co_freevars) == ("add", ("k",))
    with pytest.raises(ValueError, match=r"compiled by Python 3\.0"):
        rebuild._make_code(*args[:-1], None)
    del linecache.cache["<old cell>"]


def test_rebuilding_a_class_tells_nobody() -> None:
    """No metaclass hook, no __init_subclass__, no __set_name__ and no decorator runs when a class comes back."""
    cell = (
        "log = []\n"
        "class Named:\n    def __set_name__(self, owner, name):\n        log.append('name')\n"
        "class Meta(type):\n"
        "    def __new__(m, *a, **k):\n        log.append('new')\n        return super().__new__(m, *a)\n"
        "    def __init__(cls, *a, **k):\n        log.append('init')\n"
        "class Base(metaclass=Meta):\n"
        "    def __init_subclass__(cls, **k):\n        log.append('sub')\n"
        "def deco(c):\n    log.append('deco')\n    return c\n"
        "@deco\nclass Child(Base, key=1):\n    field = Named()\n"
    )
    first = Notebook()
    first.run(cell)
    second = first.restored()
    assert first["log"] == second["log"]
    exec("class More(Base):\n    pass", second.ns)
    assert second["log"] == [*first["log"], "new", "sub", "init"]


def test_zero_argument_super_and_class_cell() -> None:
    """`__class__` inside methods is the class that came back, also for instances of a class that is not bound."""
    first = Notebook()
    first.run(
        "class A:\n    def who(self):\n        return __class__\nclass B(A):\n    def who(self):\n"
        "        return super().who(), __class__\n"
        "b = B()\ndel B"
    )
    second = first.restored()
    b = second["b"]
    assert b.who() == (second["A"], type(b))


def test_positional_and_keyword_defaults_annotations_and_attributes_stay() -> None:
    """Everything a function carries beside its code comes back."""
    first = Notebook()
    first.run("def f(a: int, b=[1], *, c={'k': 2}) -> 'str':\n    'doc'\nf.tag = [3]\nf.__name__ = 'renamed'")
    f = first.restored()["f"]
    assert (f.__defaults__, f.__kwdefaults__, f.__annotations__) == (
        ([1],),
        {"c": {"k": 2}},
        {"a": int, "return": "str"},
    )
    assert (f.tag, f.__doc__, f.__name__, f.__qualname__) == ([3], "doc", "renamed", "f")


def test_version_of_this_python_is_what_is_recorded() -> None:
    """A code object is stored with the minor version whose bytes it is."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def f(): ...", names)
    from durable_nb.capture.definitions import ByValue

    made = ByValue(names).code(names["f"].__code__)
    assert made[1][1] == sys.version_info[:2]


def test_a_class_is_importable_from_a_place_that_is_not_loaded_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library's class that says it is in a module nobody has imported so far is still that class afterwards."""
    np = pytest.importorskip("numpy")
    monkeypatch.delattr(np, "rec", raising=False)
    monkeypatch.delitem(sys.modules, "numpy.rec", raising=False)
    notebook = Notebook()
    notebook.run("import numpy as np; rec = np.zeros(3, dtype=[('x', 'i4')]).view(np.recarray); kind = np.recarray")
    restored = notebook.restored()
    assert (np.recarray, np.recarray) == (restored["kind"], type(restored["rec"]))
    restored.check("rec['x'][1] = 5; assert rec.x.tolist() == [0, 5, 0] and isinstance(rec, np.recarray)")


def test_a_module_that_was_removed_is_not_imported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the notebook has taken out of `sys.modules`, and what no library has, is left alone by looking."""
    import email.mime.text

    cls = email.mime.text.MIMEText
    monkeypatch.delitem(sys.modules, "email.mime.text")
    fake = type("Fake", (), {"__module__": "email.mime.nowhere"})
    assert not any(importable(obj) for obj in (cls, fake))
    assert "email.mime.text" not in sys.modules
