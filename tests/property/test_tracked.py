"""A look that leaves out what nothing can have changed finds what a look at everything finds."""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import sys
import types
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from durable_nb.capture import settled
from durable_nb.capture.access import analyse
from durable_nb.capture.running import runs_elsewhere
from durable_nb.capture.settled import Touched
from durable_nb.testing.grammar import Book, books
from durable_nb.testing.notebook import Notebook

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


class Tracked(Notebook):
    """A notebook whose looks know which names its cells lead to."""

    def cell(self, source: str) -> str | None:
        """Run a cell, look as a kernel does, then at everything; return what only the second look found."""
        tree = ast.parse(source)
        touched = self._reaches(tree, source)
        name = f"<cell {id(self)}-{self.cells}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, name, "exec", dont_inherit=True), self.ns)
        late = self._reaches(tree, source)
        everything = touched is None or late is None or runs_elsewhere(self.ns)
        self.look(touched=None if everything or touched is None or late is None else touched | late)
        assert self.head is not None
        unsaved = {(u.name, u.path) for u in self.head.unsaved}
        self.capture._memory.imported.clear()
        found = self.look()
        if found.names or found.groups:
            return f"changed {found.changed}, regrouped {found.regrouped}, names {dict(found.names)}"
        return None if unsaved == {(u.name, u.path) for u in found.unsaved} else f"unsaved {unsaved}, {found.unsaved}"

    def _reaches(self, tree: ast.Module, source: str) -> Touched | None:
        names = analyse(tree, source, self.ns).may_change
        return None if names is None else Touched(names=names)


@pytest.fixture(autouse=True)
def nothing_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out all that may be left out: what is looked at because it is cheap would hide mistakes."""
    monkeypatch.setattr(settled, "CHEAP_S", 0.0)


def check(book: Book) -> None:
    """Run the cells of a notebook and compare after each."""
    notebook = Tracked()
    for number, cell in enumerate(book.cells):
        found = notebook.cell(cell.source)
        assert found is None, f"\n{book}\n\ncell {number}: {found}"


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=SLOW,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)
@given(book=books())
def test_tracked_equals_full(book: Book) -> None:
    """After each cell of a random notebook a look at everything finds nothing that the tracked one had not found."""
    check(book)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@settings(max_examples=2000, deadline=None, suppress_health_check=SLOW)
@given(book=books(cells=12, statements=5, deaths=1))
def test_tracked_equals_full_at_length(book: Book) -> None:
    """The same for longer notebooks."""
    check(book)


# ---- by hand: each hides a change behind something ------------------------------------------------------------------

HIDDEN = {
    "a method that another name holds, replaced in its class": [
        "class B:\n    def get(self): return 1\nf = B.get",
        "B.get = lambda self: 2",
    ],
    "a function that becomes the method of a class": [
        "def get(self): return 1\nf = get\ndel get\nclass B: pass",
        "B.get = f",
    ],
    "a class that another name holds, replaced in its class": [
        "class B:\n    class In: n = 1\nf = [B.In]",
        "class In: n = 2\nB.In = In",
    ],
    "a global of a function": ["xs = [[1]]\ndef f(): xs[0].append(2)", "f()"],
    "a function in a list": ["xs = [1]\nfs = [[[lambda: xs.append(2)]]]", "fs[0][0][0]()"],
    "a function of a function": ["xs = [1]\ndef f(): xs.append(2)\ndef g(): return f()", "g()"],
    "a method": ["xs = [1]\nclass A:\n    def m(self): xs.append(2)\na = A()", "a.m()"],
    "a closure": [
        "def make():\n    xs = [1]\n    return (lambda: xs.append(2)), (lambda: xs)\nput, get = make()",
        "put()",
    ],
    "an alias": ["xs = [1]\nys = {'k': xs}", "ys['k'].append(2)"],
    "a view": ["import numpy as np\na = np.zeros(10)\nb = a[3:]", "b[0] = 1"],
    "a bound method": ["xs = [1]\nput = xs.append", "put(2)"],
    "a partial": ["import functools\nxs = [1]\nput = functools.partial(list.append, xs)", "put(2)"],
    "a generator": ["xs = [1]\ndef g():\n    while True:\n        yield xs.append(2)\nit = g()", "next(it)"],
    "what a library holds": ["import hidden\nxs = [1]\nhidden.held.append(xs)", "hidden.change()"],
    "a part that a library holds": ["import hidden\nxs = [[1]]\nhidden.held.append(xs[0])", "hidden.change()"],
    "a tuple that a library holds": [
        "import hidden\nxs = [([1],)]\nhidden.held.append(xs[0])",
        "hidden.change_inside()",
    ],
    "a view that a library holds": [
        "import hidden, numpy as np\na = np.zeros(4)\nhidden.held.append(a[1:])",
        "hidden.fill()",
    ],
    "a column that a library holds": [
        "import hidden, numpy as np\na = np.zeros((4, 2))\nb = [a]\nhidden.held.append(a.T[1])", "hidden.fill()"
    ],
    "a callback that a library holds": [
        "import hidden\nxs = [1]\ndef f(): xs.append(2)\nhidden.calls.append(f)",
        "hidden.call()",
    ],
    "a method that a library holds": [
        "import hidden\nxs = [1]\nclass A:\n    def m(self): xs.append(2)\na = A()\nhidden.calls.append(a.m)",
        "hidden.call()",
    ],
    "a class that a library holds": [
        "import hidden\nxs = [1]\nclass A:\n    def __init__(self): xs.append(2)\nhidden.calls.append(A)",
        "hidden.call()",
    ],
    "an array of which a library holds the owner": [
        "import hidden, numpy as np\nbase = np.zeros(4)\nhidden.held.append(base)\na = base[1:]\ndel base",
        "hidden.fill()",
    ],
    "an attribute of a class that a library holds": [
        "import hidden\nclass A:\n    shared = [1]\nhidden.held.append(A)",
        "hidden.held[0].shared.append(2)",
    ],
    "an attribute that a library gives a class": [
        "import hidden\nclass A: pass\nhidden.held.append(A)",
        "setattr(hidden.held[0], 'more', 1)",
    ],
    "a function that only a library holds": [
        "import hidden\nxs = [1]\nhidden.calls.append(lambda: xs.append(2))",
        "hidden.call()",
    ],
    "a function whose name is gone": [
        "import hidden\nxs = [1]\ndef f(): xs.append(2)\nhidden.calls.append(f)\ndel f", "hidden.call()"],
    "a function in place of another": [
        "import hidden\nxs, ys = [1], [1]\nhidden.calls.append(lambda: xs.append(2))",
        "hidden.calls[0] = lambda: ys.append(2)",
        "hidden.call()",
    ],
    "a function of a function that only a library holds": [
        "import hidden\nxs = [1]\ndef f(): xs.append(2)\nhidden.calls.append(lambda: f())", "hidden.call()"],
    "a method of a class that is gone": [
        "import hidden\nxs = [1]\nclass A:\n    def m(self): xs.append(2)\nhidden.calls.append(A().m)\ndel A",
        "hidden.call()",
    ],
    "a generator that only a library holds": [
        "import hidden\nxs = [1]\nhidden.calls.append((xs.append(i) for i in range(9)).__next__)", "hidden.call()"],
    "what is done at the end of an object": [
        "import hidden, weakref\nxs = [1]\nclass K: pass\nk = K()\nweakref.finalize(k, lambda: xs.append(2))",
        "del k",
    ],
    "a weak reference to a function": [
        "import hidden, weakref\nxs = [1]\ndef f(): xs.append(2)\nhidden.held.append(weakref.ref(f))",
        "hidden.held[0]()()",
    ],
    "a weak reference to a set": [
        "import hidden, weakref\nxs = {1}\nhidden.held.append(weakref.ref(xs))", "hidden.held[0]().add(2)"],
    "a weak reference to an array": [
        "import hidden, weakref, numpy as np\na = np.zeros(3)\nhidden.held.append(weakref.ref(a))",
        "hidden.held[0]()[0] = 1",
    ],
    "eval by another name": ["xs = [1]\ng = eval\nword = 'x' + 's.append(2)'", "g(word)"],
    "exec in a partial": [
        "import functools\nxs = [1]\ng = [functools.partial(exec)]\nword = 'x' + 's.append(2)'",
        "g[0](word, globals())",
    ],
    "globals of builtins": ["import builtins\nxs = [1]\nword = 'x' + 's'", "builtins.globals()[word].append(2)"],
    "what the collector knows": [
        "from gc import get_referents\nxs = [1]\ndef f(): pass",
        "get_referents(f.__code__, f)\nxs.append(2)",
    ],
    "builtins by a word made at run time": [
        "import builtins\nxs = [1]",
        "getattr(builtins, 'ev' + 'al')('x' + 's.append(2)')",
    ],
    "the memory of an Arrow array": [
        "import hidden, numpy as np, pyarrow as pa\na = np.arange(3)\nt = pa.array(a)\nhidden.held.append(a)\ndel a",
        "hidden.fill()",
    ],
    "the memory of a tree": [
        "import numpy as np\nfrom sklearn.neighbors import KDTree\nX = np.eye(3)\nt = KDTree(X)", "X[0, 0] = 9"],
    "a weak reference": [
        "import hidden, weakref\nclass A: pass\na = A()\na.x = [1]\nhidden.held.append(weakref.ref(a))",
        "hidden.held[0]().x.append(2)",
    ],
    "a finalizer": [
        "xs = [1]\nclass A:\n    def __del__(self): xs.append(2)\na = A()", "a = None",
    ],
    "the namespace": ["xs = [1]\nspace = globals()", "space['xs'].append(2)"],
    "the module": ["import sys\nxs = [1]\nm = [sys.modules['__main__']]", "getattr(m[0], 'xs', xs).append(2)"],
    "a member of an enum, by its class": [
        "import enum\nclass D: pass\nclass E(enum.Enum):\n    X, Y, Z = 1, 2, 1\n    def get(self): return self.value\n"
        "f = E.X",
        "E.X.tag = D",
    ],
    "a member of an enum, by another holder": [
        "import enum\nclass D: pass\nclass E(enum.Enum):\n    X, Y, Z = 1, 2, 1\n    def get(self): return self.value\n"
        "f = E.X\ng = [E.X]",
        "f.tag = D",
    ],
    "a rebound definition": ["def f(): pass\nd = [f]", "def f(): return 1"],
    "a removed definition": ["class A: pass\na = A()", "del A"],
    "a definition in a circle": [
        "class A: pass\ndef f(): pass\nA.f = staticmethod(f)\nb = [A]", "f.__defaults__ = (A,)",
    ],
    "a class that cannot be stored any more": ["class A: pass\na = A()", "A.x = (i for i in ())"],
    "a thread": [
        "import threading\nxs = [1]\ngo, done = threading.Event(), threading.Event()\n"
        "def f():\n    go.wait(10)\n    xs.append(2)\n    done.set()\nthreading.Thread(target=f).start()",
        "go.set()\ndone.wait(10)",
    ],
}  # fmt: skip


class _Hidden(types.ModuleType):
    """A library that keeps what it is given, and changes it when asked."""

    def __init__(self) -> None:
        super().__init__("hidden")
        self.held: list[object] = []
        self.calls: list[object] = []

    def change(self) -> None:
        self.held[0].append(2)  # type: ignore[attr-defined]

    def change_inside(self) -> None:
        self.held[0][0].append(2)  # type: ignore[index]

    def fill(self) -> None:
        self.held[0][...] = 1  # type: ignore[index]

    def call(self) -> None:
        self.calls[0]()  # type: ignore[operator]


@pytest.mark.parametrize("way", HIDDEN)
def test_hidden_changes_are_found(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that the code of a cell does not show is found by the tracked look."""
    monkeypatch.setitem(sys.modules, "hidden", _Hidden())
    notebook = Tracked()
    for source in HIDDEN[way]:
        assert notebook.cell(source) is None


def test_what_nothing_leads_to_is_left_out() -> None:
    """The tracked look does leave groups out: a change behind its back, by nobody, stays unseen."""
    notebook = Tracked()
    notebook.cell("xs = [[1]]\nys = [2]\nimport numpy as np\na = np.zeros(5)")
    notebook.ns["xs"].append(3)
    notebook.ns["a"][0] = 1
    assert notebook.look(touched=Touched(names=frozenset({"ys"}))).changed == ()
    assert set(notebook.look().changed) == {"xs", "a"}


def test_tables_are_left_out_too() -> None:
    """A table or one column, of which pandas itself keeps weak references, is closed like any other value."""
    notebook = Tracked()
    notebook.cell(
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 's': ['x', 'y']})\ns = pd.Series(range(3))\nys = 2"
    )
    notebook.ns["df"].loc[0, "a"] = 5
    notebook.ns["s"][0] = 5
    assert notebook.look(touched=Touched(names=frozenset({"ys"}))).changed == ()
    assert set(notebook.look().changed) == {"df", "s"}


def test_what_is_cheap_is_looked_at_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that nothing explains is found where looking is cheap, told, and makes the look one at everything."""
    monkeypatch.setattr(settled, "CHEAP_S", 10.0)
    notebook = Tracked()
    notebook.cell("xs = [[1]]\nys = [2]")
    notebook.ns["xs"].append(3)
    found = notebook.look(touched=Touched())
    assert (found.changed, found.missed) == (("xs",), ("xs",))


def test_a_function_of_a_local_module_that_is_loaded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reload a name that was imported before is bound to what the file said then, and is stored as that."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "reloaded_by_a_test.py"
    file.write_text("class K: n = 1\ndef f(): return 1\n")
    notebook = Tracked()
    first = "import importlib, reloaded_by_a_test as m\nfrom reloaded_by_a_test import f\nx = [f]\nk = m.K()"
    assert notebook.cell(first) is None
    file.write_text("class K: n = 22\ndef f(): return 22\n")
    assert notebook.cell("importlib.reload(m)") is None
    assert notebook.cell("m.f = print") is None
    monkeypatch.delitem(sys.modules, "reloaded_by_a_test")
    notebook.restored().check("assert f() == x[0]() == 1 and k.n == 1")


def test_functions_of_libraries_are_known_by_where_they_are() -> None:
    """Another function under the same name, or one that was changed, is found all the same."""
    notebook = Tracked()
    for cell in (
        "from json import dumps, JSONEncoder\nfrom functools import reduce\nx = [1]",
        "x.append(2)",
        "from pickle import dumps",
        "def reduce(*a): return 7",
        "JSONEncoder.ours = 1",
        "del dumps",
        "from json import dumps",
    ):
        assert notebook.cell(cell) is None, cell
    notebook.restored().check("import json\nassert dumps is json.dumps and reduce() == 7")
