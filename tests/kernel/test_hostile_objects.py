"""Objects that work out their class, and classes that hide what they are, in a real kernel: they cost nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives, said, skipped

# What it is asked for it notes in `sys.asked`, with the function that asks.
LAZY = """
import sys

sys.asked = []

class Lazy:
    @property
    def __class__(s):
        sys.asked.append(sys._getframe(1).f_code.co_qualname)
        raise RuntimeError('working outside of application context')

class Closed:
    def __getattribute__(s, name):
        sys.asked.append(sys._getframe(1).f_code.co_qualname)
        raise RuntimeError(name)

class Proxy:
    __slots__ = ('to',)

    @property
    def __dict__(s):
        sys.asked.append(sys._getframe(1).f_code.co_qualname)
        raise RuntimeError('no dict')

    def __getattr__(s, name):
        sys.asked.append(sys._getframe(1).f_code.co_qualname)
        raise RuntimeError(name)

class Meta(type):
    def __getattribute__(cls, name):
        sys.asked.append(sys._getframe(1).f_code.co_qualname)
        raise RuntimeError(name)

class Odd(metaclass=Meta):
    part = Lazy()

app = Lazy()
closed = Closed()
proxy = Proxy()
odd = type.__call__(Odd)
held = [Lazy(), {'closed': Closed(), 'odd': odd, 'proxy': Proxy()}]
pair = (app, Odd)

class Holder:
    a = Lazy()
    c = Closed()
    p = Proxy()
    o = odd
    s = staticmethod(app)

def f(x=app, *, y=closed, z=Odd):
    return n

f.attribute = app
n = 1
"""
REPORTED = "sorted(u.name for u in __import__('durable_nb').unsaved())"
META = "class M(type):\n    @property\n    def __module__(cls):\n        raise ValueError('mod')\n"
HIDDEN = (
    "class M(type):\n    def __getattribute__(cls, name):\n"
    "        if name.strip('_') in {'dict', 'mro', 'name', 'module', 'qualname', 'bases'}:\n"
    "            raise AttributeError(name)\n        return super().__getattribute__(name)\n"
)
BODY = "class B(metaclass=M):\n    def __init__(s):\n        s.y = 2\nb = B()\nother = [1]"


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook with a module of lazy objects beside it."""
    (tmp_path / "lz.py").write_text(LAZY)
    (tmp_path / "user.py").write_text("import lz\n\nlz.seen = True\nM = lz.n\n")
    with Lives(tmp_path) as found:
        yield found


def test_a_look_at_a_module_asks_none_of_its_objects(lives: Lives) -> None:
    """Importing a module of lazy objects, using it and changing it works, and durable_nb evaluates none of them."""
    cells = (
        "import lz",
        "x = lz.n + lz.f()",
        "lz.n = 5",
        "def g(a):\n    return lz.n + a\ny = g(2)",
        "lz.held.append(1)",
        "lz.Holder.extra = [1]\nsetattr(lz, 'q', 2)",
        "import user",
        "import importlib\nlz = importlib.reload(lz)\nw = 1",
        "from lz import f, n as m\nz = m, f()",
    )
    for cell in cells:
        assert "" == said(lives.run(cell)), cell
        # What a cell says of `sys.asked` is not asked by durable_nb.
        assert [] == lives.value("__import__('sys').asked"), cell
    lives.kill()
    assert skipped(lives.run(cells[0]))
    assert [2, 7, [1, 1], 1] == lives.value("[x, y, list(z), w]")
    assert [] == lives.value("__import__('sys').asked")


def test_an_import_that_fails_is_the_persons_own(lives: Lives) -> None:
    """The traceback of a module that raises shows that module and nothing of durable_nb."""
    (lives.folder / "broken.py").write_text("import lz\nraise KeyError('mine')\n")
    reply = lives.kernel.run("import broken")
    assert "error" == reply.status
    text = "".join(line for output in reply.outputs for line in output.get("traceback", ()))
    assert "broken.py" in text
    assert "durable_nb" not in text
    assert [] == lives.value("__import__('sys').asked")


def test_a_module_that_cannot_be_looked_at_is_imported_and_reported(lives: Lives) -> None:
    """What is no name among its names stops neither the import nor what else is saved; the module is reported."""
    (lives.folder / "strange.py").write_text("globals()[5] = 1\nn = 1\n")
    for cell in ("import strange", "x = [strange.n]", "strange.n = 2\nx.append(2)", "import lz"):
        reply = lives.run(cell)
        assert "could not" not in said(reply)
        assert not [o for o in reply.outputs if o["output_type"] in ("stream", "error")], reply
    assert ["strange"] == lives.value(REPORTED)
    assert "strange" in lives.kill()
    assert [1, 2] == lives.value("x")


@pytest.mark.parametrize("meta", [META, HIDDEN], ids=["property", "lookup"])
def test_a_class_that_hides_what_it_is_is_reported_and_all_else_saved(lives: Lives, meta: str) -> None:
    """No cell fails to be saved, nothing of ours is shown, and after a loss all but the class's own is back."""
    for cell in (
        meta + BODY,
        "b.y = 3\nother.append(2)",
        "held = [b]\ndef g():\n    return b.y, B\nother.append(g()[0])",
        "del held\nother.append(4)",
    ):
        reply = lives.run(cell)
        assert "could not" not in said(reply)
        assert not [o for o in reply.outputs if o["output_type"] in ("stream", "error")], reply
    reported = lives.value("{u.name: u.reason for u in __import__('durable_nb').unsaved()}")
    assert {"B", "b"} == reported.keys()
    assert all("class B cannot be asked for its `__" in reason for reason in reported.values())
    loaded = lives.kill()
    assert "B" in loaded
    assert [1, 2, 3, 4] == lives.value("other")
    assert ["B", "b"] == lives.value(REPORTED)
    assert "g" == lives.value("g.__name__")
