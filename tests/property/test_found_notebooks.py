"""Random notebooks that had once failed, made as small as they go; what they are about is in their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from durable_nb.testing.equivalence import difference
from durable_nb.testing.grammar import Book
from durable_nb.testing.nursery import Nursery

HEAD = "# --- [0]\nimport dataclasses, random, threading, typing, weakref\nimport numpy as np\n"
HEAD += "random.seed(1); np.random.seed(1)\n"

FOUND = {
    "a view of a buffer that is made anew": """
# --- [1]
r1 = threading.Thread()
d = bytearray(b'abcdef')
# --- [2]
b = np.frombuffer(d, dtype='u1')
# === the kernel dies after it; the next one restores, then: Run All
# --- [3]
x = 1
""",
    "attempts of two lives stand for the cells": """
# --- [1]
c = []
def f(x=0):
    global c
r1 = threading.Thread()
d = bytearray(b'abcdef')
a = np.frombuffer(d, dtype='u1')
# --- [2]
b = np.frombuffer(d, dtype='u1')
c = b[2:]; b = b[:4]
# === the kernel dies after it; the next one restores, then: Run All
# --- [3]
e = []
# --- [4]
class C(typing.NamedTuple):
    v: object = 0
    w: list = None
b = C(a, [1])
for i in range(3):
    e.append(i)
# --- [5]
# === the kernel dies after it; the next one restores, then: Run All
""",
    "a cell that ran again made what an earlier life had made": """
# --- [1]
b = np.arange(2000.0)
# --- [2]
def make(s=b):
    return n
class A:
    def __init__(self, v=0):
        self.v = v
# --- [3] (plain)
g = A(A)
a = []
# --- [4]
raise ValueError
# --- [5]
d, b = g, a
class C:
    def __init__(self, v=0):
        return self.v
# --- [6]
a = a
# === the kernel dies after it; the next one restores, then: Run All
""",
    "a traceback keeps nothing alive": """
# --- [1]
class C:
    def put(self, x):
        return self.w
g = C()
b = g.put
# --- [2]
class E(Exception):
    pass
try:
    raise E(1)
except E as e:
    d = e
# --- [3] (plain)
a = weakref.WeakValueDictionary()
a['k'] = b
# === the kernel dies in the middle of it; the next one restores, then: going on
# --- [4]
b = {}.copy
""",
    "a function is loaded once, along with what shares its default": """
# --- [1]
class A:
    def __init__(self, v=0):
        return self._v
c = {'k': A}
b = bytearray(b'abcdef')
a = memoryview(b)
b = []
# --- [2]
def k(x=None, *, k=b):
    b.append(x)
# --- [3]
raise ValueError
# --- [4]
class A(A):
    def get(self):
        return (1, super().get())
h = [b, float('nan')]
# --- [5]
class A:
    def __init__(self, v=0):
        return self.v
b = [c, k, a]
a = [lambda: i for i in range(3)][0]
# --- [6]
class C:
    def __init__(self, v=0):
        self.v = v
# --- [7]
def g(x=[]):
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
a = h
# === the kernel dies after it; the next one restores, then: Run All
# --- [8]
x = 1
""",
}


@pytest.fixture(scope="module")
def nurseries() -> Iterator[Sequence[Nursery]]:
    """Two servers of lives with hashes of their own."""
    with Nursery(hash_seed=1) as one, Nursery(hash_seed=2) as two:
        yield one, two


@pytest.mark.parametrize("what", FOUND)
def test_it_equals_a_process_that_was_never_killed(nurseries: Sequence[Nursery], what: str) -> None:
    """After each restore, and at the end."""
    book = Book.read(HEAD + FOUND[what].lstrip())
    assert Book.read(str(book)) == book
    assert difference(book, nurseries) is None
