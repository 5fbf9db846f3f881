"""Save or restore one notebook with definitions of every kind: `python other_python.py save|restore FOLDER`.

Run by `test_other_python.py` under different interpreters; prints what is missing afterwards as JSON.
"""

from __future__ import annotations

import json
import linecache
import sys
from pathlib import Path

from durable_nb.store.files import LocalFiles
from durable_nb.testing.workbench import Workbench

CELLS = [
    "import asyncio, collections, contextlib, copy, dataclasses, enum, functools, typing, abc\n"
    "from dataclasses import dataclass, field\nrate = 2",
    "@dataclass\nclass Plain:\n    x: int\n    y: list = field(default_factory=list)\n"
    "    def norm(self): return self.x * rate\n"
    "@dataclass(frozen=True, order=True)\nclass Frozen:\n    x: int\n    z: str = field(default='z', compare=False)\n"
    "@dataclass(slots=True, frozen=True, kw_only=True, order=True)\nclass Slots:\n    a: int\n    b: tuple = ()\n"
    "@dataclass(slots=True, weakref_slot=True, match_args=False, unsafe_hash=True)\nclass Weak:\n    a: int = 3\n"
    "@dataclass\nclass Child(Plain):\n    z: int = 9\n    def norm(self): return super().norm() + self.z\n"
    "@dataclass\nclass Init:\n    seen: typing.ClassVar[list] = [1]\n    k: dataclasses.InitVar[int] = 5\n"
    "    _: dataclasses.KW_ONLY\n    w: int = field(init=False, metadata={'u': 1})\n"
    "    def __post_init__(self, k): self.w = k + 1",
    "plain, frozen, slots = Plain(3, [4]), Frozen(1), Slots(a=1)\nweak, child, init = Weak(), Child(1, [], 2), Init(7)",
    "P = collections.namedtuple('P', 'a b', defaults=[5])\n"
    "class Q(typing.NamedTuple):\n    x: int\n    y: str = 'k'\n    def both(self): return self.y * self.x\n"
    "p, q = P(1), Q(2)",
    "class Color(enum.Enum):\n    RED = 1\n    BLUE = 'b'\n    @property\n    def low(self): return self.name.lower()\n"
    "class Perm(enum.IntFlag):\n    R = 4\n    W = 2\nclass Word(enum.StrEnum):\n    YES = enum.auto()\n"
    "class Size(int, enum.Enum):\n    S = 1\ncolor, perm, word, size = Color.RED, Perm.R | Perm.W, Word.YES, Size.S",
    "add, sub, funcs = (lambda a, b: a + b), (lambda a, b: a - b), [lambda a, b: a * b, lambda a, b: b]\n"
    "comp = [lambda x, i=i: x + i for i in range(3)]; closed = {n: (lambda: n) for n in 'ab'}\n"
    "def maker(n):\n    return [lambda k=k: k * n for k in range(n)], {j: (lambda: (j, n)) for j in range(n)}\n"
    "made, others = maker(3)",
    "def account():\n    total = 0\n    def put(x):\n        nonlocal total\n        total += x\n        return total\n"
    "    def get(): return total\n    return put, get\nput, get = account()\nput(3)",
    "def loud(f):\n    @functools.wraps(f)\n    def wrapper(*a, **k):\n        return f(*a, **k) + '!'\n"
    "    return wrapper\n"
    "class Base(abc.ABC):\n    @abc.abstractmethod\n    def who(self): ...\n"
    "class B(Base):\n    def __init__(self): self._v = 1\n    @loud\n    def who(self): return __class__.__name__\n"
    "    @property\n    def v(self): return self._v\n    @v.setter\n    def v(self, new): self._v = new\n"
    "    @functools.cached_property\n    def cp(self): return [x for x in (self._v,)]\n"
    "    @staticmethod\n    def s(x): return x + 1\n    @classmethod\n    def c(cls): return cls\nb = B()",
    "@functools.singledispatch\ndef kind(x): return 'any'\n@kind.register\ndef _(x: int): return 'int'\n"
    "@contextlib.contextmanager\ndef scope(log):\n    log.append(1)\n    yield 2\n    log.append(3)\n"
    "@functools.total_ordering\nclass V:\n    def __init__(s, n): s.n = n\n    def __eq__(s, o): return s.n == o.n\n"
    "    def __lt__(s, o): return s.n < o.n\n@functools.lru_cache(maxsize=3)\ndef cached(x): return [x]\n"
    "kept = [cached(x=7), cached(8)]; cached((9,)); kept.append(cached(x=7))\n"
    "part = functools.partial(add, 5)",
    "def gen(n): yield from (x * x for x in range(n))\nasync def co(n): return n + 1\n"
    "async def main(): return [await co(i) for i in gen(3)]\n"
    "T = typing.TypeVar('T', bound=int)\nclass Box(typing.Generic[T]):\n    def __init__(self, x: T): self.x = x\n"
    "@typing.runtime_checkable\nclass Proto(typing.Protocol):\n    def go(self) -> int: ...\n"
    "class Wide(Proto, typing.Protocol):\n    name: str\nclass Goes:\n    name = 'g'\n    def go(self): return 1\n"
    "class TD(typing.TypedDict):\n    k: int\nbox, goes = Box(4), Goes()",
    "import attr\n@attr.define\nclass Attr:\n    x: int\n    y: list = attr.Factory(list)\n"
    "    def up(self): return self.x + 1\n"
    "@attr.s(auto_attribs=True, frozen=True, order=True)\nclass Old:\n    x: int = 3\nattr_, old = Attr(1), Old()",
    "exec('def hidden(x): return x')\nfine = [1]",
    "uses_hidden = [hidden]",
]
CHECK = """
assert repr(plain) == "Plain(x=3, y=[4])" and plain == Plain(3, [4]) and plain.norm() == 6 and Plain(1).y == []
assert frozen < Frozen(2) and hash(frozen) == hash(Frozen(1)) and Plain.__init__.__qualname__ == "Plain.__init__"
assert dataclasses.replace(slots, a=4) == Slots(a=4) > slots and copy.copy(slots) == slots
assert str(Slots.__dataclass_params__)
assert weak == Weak(3) and hash(weak) == hash(Weak()) and child.norm() == 4 and repr(child) == "Child(x=1, y=[], z=2)"
assert init.w == 8 and Init.seen == [1] and Init(1).w == 2 and str(dataclasses.fields(Init))
for thing in (frozen, slots):
    try:
        setattr(thing, dataclasses.fields(thing)[0].name, 1)
    except dataclasses.FrozenInstanceError:
        continue
    raise AssertionError("a frozen object was changed")
assert p == (1, 5) and P(2).b == 5 and p._replace(a=2) == (2, 5) and repr(p) == "P(a=1, b=5)" and P._make((3, 4)).a == 3
assert q.both() == "kk" and Q(x=1) == (1, "k") and q._asdict() == {"x": 2, "y": "k"} and Q.__annotations__["x"] is int
if hasattr(copy, "replace"):
    assert copy.replace(plain, x=1).x == 1 and copy.replace(p, a=7).a == 7
assert color is Color(1) is Color["RED"] and color.low == "red" and perm == 6 and Perm(4) is Perm.R
assert f"{word}" == "yes"
assert perm & Perm.R is Perm.R and ~Perm.R == Perm.W and size == 1 and list(Perm) == [Perm.R, Perm.W] or sorted(Perm)
for wrong in (99, []):
    try:
        Color(wrong)
    except ValueError:
        continue
    raise AssertionError("a value that is not there was found")
assert [add(7, 2), sub(7, 2)] + [f(7, 2) for f in funcs] == [9, 5, 14, 2]
assert [f(1) for f in comp] == [1, 2, 3] and [f() for f in closed.values()] == ["b", "b"]
assert [f() for f in made] == [0, 3, 6] and others[0]() == (2, 3)
assert put(4) == 7 and get() == 7
b.v += 1
assert (b.who(), b.v, b.s(1), b.c(), b.cp) == ("B!", 2, 2, B, [2]) and isinstance(b, Base) and B.who.__wrapped__
log = []
with scope(log) as two:
    log.append(two)
assert log == [1, 2, 3] and kind(1) == "int" and kind("") == "any" and V(2) >= V(1)
assert cached(x=7) is kept[0] is kept[2]
assert list(cached.cache_info()) == [2, 3, 3, 3] and cached(8) is kept[1] and cached((9,)) == [(9,)]
assert list(cached.cache_info())[:2] == [4, 3] and cached(1) is cached(1)
assert part(1) == 6 and list(gen(3)) == [0, 1, 4] and asyncio.run(main()) == [1, 2, 5]
assert box.x == 4 and Box[int] and TD(k=1) == {"k": 1} and TD.__required_keys__ == {"k"} and T.__bound__ is int
assert repr(attr_) == "Attr(x=1, y=[])" and attr_.up() == 2 and attr_ == Attr(1) and Old(4) > old
assert isinstance(goes, Proto) and not isinstance(box, Proto) and issubclass(Goes, Proto) and not issubclass(Box, Proto)
assert isinstance(goes, typing.runtime_checkable(Wide)) and not isinstance(box, Wide)
rate = 5
assert plain.norm() == 15 and fine == [1]
del log, two, thing, wrong
"""


def main(verb: str, folder: Path) -> None:
    """Do one of the two, and print what is missing."""
    globals()["_ih"] = []  # what libraries take for the notebook's globals are these
    bench = Workbench(LocalFiles(folder), life=verb)
    if verb == "save":
        for number, cell in enumerate(CELLS, 1):
            name = f"<cell {number}>"
            linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
            bench.run(cell)
        missing = {u.name: u.reason for u in bench.engine.head.unsaved}
    else:
        missing = {u.name: u.reason for u in bench.engine.missing if u.name.isidentifier()}
        sys.stderr.write(json.dumps(missing, indent=1))
        exec(CHECK, bench.namespace)
    bench.engine.detach("shutdown")
    sys.stdout.write(json.dumps(missing) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
