"""Notebooks that random search found to differ after kernels had died, each as short as it gets; they no longer do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from durable_nb.testing.equivalence import difference
from durable_nb.testing.grammar import Book, Cell, Death
from durable_nb.testing.nursery import Nursery
from durable_nb.testing.templates import PREAMBLE


@pytest.fixture(scope="module")
def nurseries() -> Iterator[Sequence[Nursery]]:
    """Two servers of lives with different hashes."""
    with Nursery(hash_seed=1) as one, Nursery(hash_seed=2) as two:
        yield one, two


def again(at: int) -> Death:
    """Return the death of a kernel after a cell, whose successor runs all again."""
    return Death(at=at, run_all=True)


PLAIN = "# plain\n"

# What was wrong → cells after the one that imports, plain ones marked, and the deaths.
FOUND: dict[str, tuple[list[str], list[Death]]] = {
    "a skip loaded a function anew beside one whose default it is": (
        ["h = []", f"{PLAIN}b = dict(a=h)\ndef f(x=b): return x\ndef make(s=f): pass", "a = f"],
        [again(3)],
    ),
    "a skip replaced what changed with a class that lost its name, beside an enum that held it": (
        [
            "class B: pass\ndef k(x=0): return x\nk.__defaults__ = (B,)",
            "b = B\nclass B(enum.Enum):\n    X = 1\nB.X.tag = k\nr0 = {'file': open('/dev/null'), 'other': B}",
            "b = 1",
        ],
        [again(3)],
    ),
    "a restored array let the bytes that it looks at be resized": (
        ["a = bytearray(b'abcdef')\nc = np.frombuffer(a, dtype='u1')\ne = c[::-1]", "c = 1", "del a[:1]", "a = 1"],
        [again(2)],
    ),
    "a cell whose view looks at a buffer was skipped when the buffer had been made anew": (
        [
            """r1 = threading.Thread()
d = bytearray(b'abcdef')""",
            """b = np.frombuffer(d, dtype='u1')""",
            """x = 1""",
        ],
        [again(2)],
    ),
    "variables that share memory were loaded from checkpoints of two lives": (
        [
            """c = []
def f(x=0):
    global c
r1 = threading.Thread()
d = bytearray(b'abcdef')
a = np.frombuffer(d, dtype='u1')""",
            """b = np.frombuffer(d, dtype='u1')
c = b[2:]; b = b[:4]""",
            """e = []""",
            """class C(typing.NamedTuple):
    v: object = 0
    w: list = None
b = C(a, [1])
for i in range(3):
    e.append(i)""",
            """pass""",
        ],
        [again(2), again(5)],
    ),
    "a skip loaded a list anew that a cell had just made again and shared": (
        [
            """b = np.arange(2000.0)""",
            """def make(s=b):
    return n
class A:
    def __init__(self, v=0):
        self.v = v""",
            f"""{PLAIN}g = A(A)
a = []""",
            """raise ValueError""",
            """d, b = g, a
class C:
    def __init__(self, v=0):
        return self.v""",
            """a = a""",
        ],
        [again(6)],
    ),
    "a traceback that came back kept everything alive that was restored with it": (
        [
            """class C:
    def put(self, x):
        return self.w
g = C()
b = g.put""",
            """class E(Exception):
    pass
try:
    raise E(1)
except E as e:
    d = e""",
            f"""{PLAIN}a = weakref.WeakValueDictionary()
a['k'] = b""",
            """b = {}.copy""",
        ],
        [Death(at=3, middle=True, run_all=False)],
    ),
    "a function was loaded twice because another variable was loaded that shares its default": (
        [
            """class A:
    def __init__(self, v=0):
        return self._v
c = {'k': A}
b = bytearray(b'abcdef')
a = memoryview(b)
b = []""",
            """def k(x=None, *, k=b):
    b.append(x)""",
            """raise ValueError""",
            """class A(A):
    def get(self):
        return (1, super().get())
h = [b, float('nan')]""",
            """class A:
    def __init__(self, v=0):
        return self.v
b = [c, k, a]
a = [lambda: i for i in range(3)][0]""",
            """class C:
    def __init__(self, v=0):
        self.v = v""",
            """def g(x=[]):
    x.append(len(x))
f = C(g)
f.v = b
class D:
    def __init__(self, v='key'):
        self.v, self.peers = str(type(v)), {}
    def __hash__(self):
        return hash(self.v)
b = D()
c[b] = A
a = h""",
            """x = 1""",
        ],
        [again(7)],
    ),
}


@pytest.mark.parametrize("wrong", FOUND)
def test_killed_and_restored_equals_never_killed(nurseries: Sequence[Nursery], wrong: str) -> None:
    """After each restore, and at the end, the namespace is the one of a process that was never killed."""
    sources, deaths = FOUND[wrong]
    cells = [Cell(source=s.removeprefix(PLAIN), durable=not s.startswith(PLAIN)) for s in (PREAMBLE, *sources)]
    found = difference(Book(cells=tuple(cells), deaths=tuple(deaths)), nurseries)
    assert found is None, found
