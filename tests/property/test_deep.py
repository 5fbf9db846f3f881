"""Values nested a hundred thousand levels deep come back with every alias, and shallow ones stay cheap."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from durable_nb.capture import codec as codecs
from durable_nb.capture import compare
from durable_nb.testing.notebook import Notebook

LEVELS = 100_000
FEWER = 20_000  # twice what any C pickler recurses, where the kind and not the number is in question
NODE = "class Node:\n    def __init__(self, v, n=None): self.v, self.next = v, n\n"
KINDS = {
    "lists": "x = []\nfor _ in range(N): x = [x]",
    "dicts": "x = {}\nfor _ in range(N): x = {'k': x}",
    "tuples": "x = ()\nfor _ in range(N): x = (x,)",
    "lists, tuples and dicts": "x = ()\nfor i in range(N): x = [(x,), {'a': x}, ([x], i)][i % 3]",
    "sets of tuples in lists": "x = []\nfor i in range(N): x = [{i}, frozenset([i]), x]",
    "a linked list": NODE + "x = None\nfor i in range(N): x = Node(i, x)",
    "a linked list of slots": (
        "class Node:\n    __slots__ = ('v', 'next')\nx = None\n"
        "for i in range(N):\n    y = Node(); y.v, y.next = i, x; x = y"
    ),
    "a linked list of frozen dataclasses": (
        "import dataclasses\n@dataclasses.dataclass(slots=True, frozen=True)\nclass Node:\n"
        "    v: int\n    next: object\n"
        "x = None\nfor i in range(N): x = Node(i, x)"
    ),
    "a doubly linked list": (
        NODE + "x = y = Node(0)\nfor i in range(1, N):\n    z = Node(i); y.next, z.prev = z, y; y = z\ndel z"
    ),
    "a chain whose nodes are in a list": (
        NODE + "y = [Node(i) for i in range(N)]\nfor a, b in zip(y, y[1:]): a.next = b\nx = y[-1]\ndel a, b"
    ),
    "a tree": (
        "class T:\n    def __init__(self, up): self.kids, self.up = [], up\nx = y = T(None)\nfor i in range(N):\n"
        "    z = T(y); y.kids.append(z)\n    if i % 2: y = z\ndel z"
    ),
    "closures": (
        "def make(before):\n    def f(): return before\n    return f\nx = None\nfor _ in range(N // 4): x = make(x)"
    ),
    "deques": "from collections import deque\nx = deque()\nfor _ in range(N): x = deque([x])",
    "ordered dicts": "from collections import OrderedDict\nx = {}\nfor _ in range(N): x = OrderedDict(k=x)",
    "tuples of a class": "class P(tuple): pass\nx = None\nfor i in range(N): x = P((i, x))",
    "partials": "import functools\nx = None\nfor _ in range(N): x = functools.partial(print, x)",
    "exceptions": "x = None\nfor i in range(N):\n    y = ValueError(i); y.__cause__ = x; x = y",
    "objects with hooks": (
        "class G:\n    def __init__(self, n): self.n = n\n    def __reduce__(self): return G, (self.n,)\n"
        "class H:\n    def __init__(self, n): self.n = n\n    def __getstate__(self): return {'m': self.n}\n"
        "    def __setstate__(self, state): self.n = state['m']\n"
        "x = None\nfor i in range(N): x = (G if i % 2 else H)(x)"
    ),
    "arrays of objects": (
        "import numpy as np\nx = np.array([None], dtype=object)\nfor i in range(N // 10):\n"
        "    y = np.empty(2, dtype=object); y[0], y[1] = x, np.arange(i % 300); x = y"
    ),
    "NaN objects, kept one": "y = float('nan')\nx = [y]\nfor _ in range(N): x = [x]\nx.append(y)",
}


def made(cell: str, levels: int = LEVELS) -> Notebook:
    """Return a notebook in which a cell has run and been captured with nothing left out."""
    notebook = Notebook({"N": levels})
    notebook.run(cell)
    assert {} == notebook.unsaved
    return notebook


@pytest.mark.parametrize("kind", KINDS)
def test_deep_values_come_back(kind: str) -> None:
    """The restored value differs in nothing, aliases included, and looks unchanged to the next capture."""
    first = made(KINDS[kind], LEVELS if kind in ("lists", "a linked list") else FEWER)
    second = first.restored()
    names = list(first.head.names) if first.head is not None else []
    assert "x" in names
    assert compare.difference({n: first[n] for n in names}, {n: second[n] for n in names}) is None
    again = second.look()
    assert (again.changed, list(again.groups)) == ((), [])


def test_a_deep_value_is_compared_and_changed() -> None:
    """`same` enters all levels, and a change at the far end is a new version that every holder sees after a restore."""
    first = made(NODE + "last = x = Node(-1)\nfor i in range(N): x = Node(i, x)\nbeside = {'of': last}", FEWER)
    assert first.head is not None
    assert first.capture.same(first.head, first.read, ["x", "beside"]) is None
    before = first.head
    first.ns["last"].v = "changed"
    assert first.capture.same(before, first.read, ["x"]) is not None
    assert {"x", "last", "beside"} == set(first.look().changed)
    second = first.restored()
    node: Any = second["x"]
    while node.next is not None:
        node = node.next
    assert (node.v, node is second["last"], node is second["beside"]["of"]) == ("changed", True, True)


def test_what_cannot_be_stored_is_found_at_any_depth() -> None:
    """The report has both ends of the path, the type and the reason; the deep name alone is missing."""
    notebook = Notebook({"N": LEVELS})
    notebook.run(NODE + "x = Node((i for i in ()))\nfor i in range(N): x = Node(i, x)\nfine = [1]")
    found = notebook.unsaved
    assert ["x"] == list(found)
    assert ".next" * 10 + "…" + ".next" * 9 + ".v" == found["x"].path
    assert ("generator", "TypeError: cannot pickle 'generator' object") == (found["x"].type, found["x"].reason)


def test_a_raised_recursion_limit_does_not_crash() -> None:
    """After `sys.setrecursionlimit` with a number that no stack holds, a capture is as it was, and so is the limit."""
    limit = sys.getrecursionlimit()
    try:
        notebook = made("import sys\nsys.setrecursionlimit(10**6)\n" + KINDS["a linked list"])
        assert 10**6 == sys.getrecursionlimit()
        assert LEVELS - 1 == notebook.restored()["x"].v
    finally:
        sys.setrecursionlimit(limit)


def test_a_hook_that_never_ends_is_reported() -> None:
    """A `__reduce__` that calls itself is the user's recursion: reported by path, and the capture goes on."""
    notebook = Notebook()
    notebook.run("class R:\n    def __reduce__(self): return self.__reduce__()\nx = {'k': R()}\nfine = [1]")
    assert ["x"] == list(notebook.unsaved)
    assert "['k']" == notebook.unsaved["x"].path
    assert notebook.unsaved["x"].reason.startswith("RecursionError")


def test_shallow_values_never_meet_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the C pickler can do, it does: a group of ordinary depth costs nothing extra."""

    def refuse(rules: object) -> None:
        raise AssertionError("the loop was asked")

    monkeypatch.setattr(codecs, "DeepPickler", refuse)
    notebook = made(NODE + "x = [Node(i, [Node(j) for j in range(3)]) for i in range(1000)]")
    assert 999 == notebook.restored()["x"][-1].v


@pytest.mark.parametrize(
    "value",
    [
        [
            None,
            True,
            False,
            0,
            255,
            256,
            -1,
            2**31 - 1,
            -(2**31),
            2**31,
            -(2**31) - 1,
            10**400,
            -(10**700),
            1.5,
            -0.0,
            1j,
        ],
        [
            "",
            "é",
            "x" * 300,
            "\ud800",
            b"",
            b"a" * 255,
            b"a" * 256,
            bytearray(b"abc"),
            (),
            (1,),
            (1, 2, 3),
            tuple(range(9)),
        ],
        [range(3), slice(1, 2), ..., NotImplemented, int, type(None), type(...), list, len, [].append, frozenset({1})],
        [
            list(range(5000)),
            dict.fromkeys(range(2500)),
            {"s": set("abcdef")},
            memoryview.tobytes,
            str.join,
        ],
    ],
)
def test_the_loop_writes_what_pickle_reads(value: list[Any]) -> None:
    """Every kind of built-in value written by the loop is read by Python's unpickler as the C pickler's would be."""
    from durable_nb.capture.deep import DeepPickler

    notebook = Notebook({"x": value})
    notebook.look()
    written = DeepPickler(notebook.capture._codec._pickler(frozenset(), codecs.Sharing())).dump(value)
    assert compare.difference(pickle.loads(pickle.dumps(value, 5)), pickle.loads(written)) is None
