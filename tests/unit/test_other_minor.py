"""Definitions that another Python minor version stored: made again from source or by their library, or reported."""

from __future__ import annotations

import asyncio
import linecache
import marshal
from pathlib import Path
from types import CellType
from typing import Any

import pytest

from durable_nb.capture import foreign, rebuild
from durable_nb.testing.notebook import Notebook


def moved(monkeypatch: pytest.MonkeyPatch, *cells: str) -> Notebook:
    """Return a notebook whose cells ran under a version of Python whose bytecode is of no use here."""
    return stored(monkeypatch, *cells).restored()


def stored(monkeypatch: pytest.MonkeyPatch, *cells: str) -> Notebook:
    """Return the notebook that the other version has captured."""
    first = Notebook()
    with monkeypatch.context() as patch:
        patch.setattr(foreign, "minor", lambda: (3, 0))
        for cell in cells:
            first.run(cell)
    return first


def test_reading_code_says_what_the_code_says() -> None:
    """Arguments, free variables, names and positions are read from the bytes without the interpreter's help."""
    names: dict[str, Any] = {}
    exec(
        "def outer(k):\n    async def inner(a, /, b, *args, c=1, **kw):\n"
        "        yield [a, b, k, 'ä', 1.5, 2j, 10**30]\n"
        "    return inner\ninner = outer(1)\n",
        names,
    )
    for code in (names["outer"].__code__, names["inner"].__code__):
        assert foreign.Recorded.of(code) == foreign.read_code(marshal.dumps(code, 2))
    assert [None, None] == [foreign.read_code(b"c\0"), foreign.read_code(b"")]


def test_lambdas_on_one_line_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several functions with one name on one line each come back as themselves, by their columns."""
    other = moved(
        monkeypatch,
        "add, sub, both = (lambda a, b: a + b), (lambda a, b: a - b), [lambda a, b: a * b, lambda a, b: b]\n"
        "one = lambda x: x; two = lambda x: x",
        "def make(k):\n    return (lambda: k + 1), (lambda: k + 2)\nf, g = make(10)",
        "fs = [lambda x, i=i: x + i for i in range(3)]; gs = {n: (lambda: n) for n in 'ab'}",
    )
    got = [other[name](7, 2) for name in ("add", "sub")] + [h(7, 2) for h in other["both"]]
    assert [9, 5, 14, 2, 11, 12] == [*got, other["f"](), other["g"]()]
    assert ([10, 11, 12], ["b", "b"]) == ([h(10) for h in other["fs"]], [h() for h in other["gs"].values()])
    assert (1, 2) == (other["one"](1), other["two"](2))


def test_closures_share_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two closures over one variable still change the same one."""
    other = moved(
        monkeypatch,
        "def account():\n    total, log = 0, []\n    def put(x):\n        nonlocal total\n        total += x\n"
        "        log.append(x)\n    def get():\n        return total, log\n    return put, get\n"
        "put, get = account()\nput(3)",
    )
    other["put"](4)
    assert (7, [3, 4]) == other["get"]()


def test_methods_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero-argument super, properties with setters, static and class methods, cached ones and decorated ones."""
    other = moved(
        monkeypatch,
        "import functools\n"
        "def loud(f):\n    @functools.wraps(f)\n    def wrapper(*a, **k):\n        return f(*a, **k) + '!'\n"
        "    return wrapper",
        "class A:\n    def who(self): return 'A'\n"
        "class B(A):\n"
        "    def __init__(self): self._v = 1\n"
        "    @loud\n    def who(self):\n        return super().who() + __class__.__name__\n"
        "    @property\n    def v(self):\n        return self._v\n"
        "    @v.setter\n    def v(self, new):\n        self._v = new\n"
        "    @staticmethod\n    def s(x): return x + 1\n"
        "    @classmethod\n    def c(cls): return cls\n"
        "    @functools.cached_property\n    def cp(self): return [1]\n"
        "    @functools.lru_cache\n    def cached(self): return 5\n"
        "    class Inner:\n        def deep(self): return [x for x in (lambda: (1, 2))()]\n"
        "b = B(); b.v = 5",
    )
    b, cls = other["b"], other["B"]
    b.v += 1
    assert ("AB!", 6, 3, cls, [1], 5) == (b.who(), b.v, b.s(2), b.c(), b.cp, b.cached())
    assert [1, 2] == cls.Inner().deep()
    assert "who" == cls.who.__wrapped__.__name__


def test_generators_coroutines_and_futures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that generate or await are found among their neighbours; annotations stay strings where they were."""
    other = moved(
        monkeypatch,
        "from __future__ import annotations\nimport asyncio\n"
        "def gen(n: Unknown):\n    yield from (x * x for x in range(n))\n"
        "async def co(n): return n + 1\nasync def agen(n):\n    for i in range(n):\n        yield i\n"
        "async def main(): return [await co(i) async for i in agen(3)]",
    )
    assert ([0, 1, 4], [1, 2, 3]) == (list(other["gen"](3)), asyncio.run(other["main"]()))
    assert {"n": "Unknown"} == other["gen"].__annotations__


DATACLASS = """
import dataclasses, typing
from dataclasses import dataclass, field, InitVar, KW_ONLY
"""
VARIANTS = {
    "plain": ("@dataclass\nclass D:\n    x: int\n    y: list = field(default_factory=list)", "(1)"),
    "order": ("@dataclass(order=True)\nclass D:\n    x: int\n    y: int = 2", "(1)"),
    "frozen": ("@dataclass(frozen=True)\nclass D:\n    x: int\n    y: 'int' = 2", "(1, y=4)"),
    "slots": ("@dataclass(slots=True)\nclass D:\n    x: int\n    y: int = 2", "(1)"),
    "all": (
        "@dataclass(slots=True, frozen=True, order=True, kw_only=True, unsafe_hash=False, match_args=False)\n"
        "class D:\n    x: int\n    y: tuple = ()",
        "(x=1)",
    ),
    "weakref": ("@dataclass(slots=True, weakref_slot=True)\nclass D:\n    x: int", "(1)"),
    "hash": ("@dataclass(unsafe_hash=True)\nclass D:\n    x: int\n    y: int = field(default=3, hash=False)", "(1)"),
    "noeq": ("@dataclass(eq=False, repr=False)\nclass D:\n    x: int", "(1)"),
    "noinit": ("@dataclass(init=False)\nclass D:\n    x: int = 1\n    def __init__(self, a): self.x = a * 2", "(4)"),
    "own": (
        "@dataclass\nclass D:\n    x: int\n    def __repr__(self): return 'mine'\n    def __eq__(self, o): return 'eq'",
        "(4)",
    ),
    "vars": (
        "@dataclass\nclass D:\n    seen: typing.ClassVar[list] = []\n    x: int\n    k: InitVar[int] = 5\n"
        "    _: KW_ONLY\n"
        "    z: float = field(default=1.5, repr=False, compare=False, metadata={'unit': 'm'})\n"
        "    w: int = field(init=False)\n    def __post_init__(self, k): self.w = k + self.x",
        "(1, 2, z=3.0)",
    ),
    "child": (
        "@dataclass\nclass Base:\n    x: int\n    y: int = 0\n    def norm(self): return self.x + self.y\n"
        "@dataclass\nclass D(Base):\n    z: int = 9\n    def norm(self): return super().norm() + self.z",
        "(1, 2)",
    ),
    "frozen child": (
        "@dataclass(frozen=True)\nclass Base:\n    x: int\n@dataclass(frozen=True)\nclass D(Base):\n    z: int = 9",
        "(1)",
    ),
    "made": ("D = dataclasses.make_dataclass('D', [('x', int), ('y', int, field(default=7))])", "(1)"),
    "generic": (
        "T = typing.TypeVar('T')\n@dataclass\nclass D(typing.Generic[T]):\n    x: T\n"
        "    def get(self) -> T: return self.x",
        "(1)",
    ),
}
LOOK = """
def look(D, d):
    import copy
    said = [repr(d), d == copy.copy(d), dataclasses.fields(D), str(D.__dataclass_params__), sorted(vars(D))]
    said += [D.__init__.__qualname__, str(D.__init__.__annotations__), repr(dataclasses.replace(d))]
    for act in ("hash(d) == hash(copy.copy(d))", "d < copy.copy(d)", "d >= d", "setattr(d, 'x', 8)", "d.x", "D()",
                "delattr(d, 'x')", "dataclasses.asdict(d)", "d.norm()", "d.get()"):
        try:
            said.append((act, eval(act, globals(), dict(D=D, d=d, copy=copy))))
        except Exception as error:
            said.append((act, type(error), str(error)))
    return said
"""


@pytest.mark.parametrize("variant", VARIANTS)
def test_dataclasses_have_their_methods_written_again(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataclass of each kind says and does under another version what it did before."""
    again = {"noinit": "d", "vars": "dataclasses.replace(d, k=1)"}.get(variant, "dataclasses.replace(d)")
    look = LOOK.replace("dataclasses.replace(d)", again)
    cell, call = VARIANTS[variant]
    other = moved(monkeypatch, DATACLASS + cell, f"d = D{call}", look)
    fresh = Notebook()
    for source in (DATACLASS + cell, f"d = D{call}", look):
        fresh.check(source)
    want, got = (n["look"](n["D"], n["d"]) for n in (fresh, other))
    assert [str(x).partition(" at 0x")[0] for x in want] == [str(x).partition(" at 0x")[0] for x in got]
    assert type(other["d"]) is other["D"]


def test_named_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of named tuple come back with fields, defaults, annotations and methods of their own."""
    other = moved(
        monkeypatch,
        "import collections, typing\nP = collections.namedtuple('P', 'a b', defaults=[[5]])\n"
        "R = collections.namedtuple('R', ['x', 'x', 'def'], rename=True)\n"
        "class Q(typing.NamedTuple):\n    'doc'\n    x: int\n    y: str = 'k'\n"
        "    def both(self): return self.y * self.x\n"
        "class S(Q):\n    def __new__(cls, x=3, y='k'): return super().__new__(cls, x, y)\n"
        "p, r, q, s = P(1), R(1, 2, 3), Q(2), S(2)",
    )
    p, q, s = other["p"], other["q"], other["s"]
    assert ("P(a=1, b=[5])", {"a": 1, "b": [5]}, "kk", "S(x=2, y='k')") == (repr(p), p._asdict(), q.both(), repr(s))
    assert ((2, [5]), (1, 3), (4, "k")) == (p._replace(a=2), other["P"]._make((1, 3)), other["S"](4))
    assert ((1, 2, 3), ("x", "_1", "_2")) == (other["r"], other["R"]._fields)
    assert {"x": int, "y": str} == other["Q"].__new__.__annotations__ == other["Q"].__annotations__
    assert ("Q.__new__", "doc") == (other["Q"].__new__.__qualname__, other["Q"].__doc__)
    assert other["P"](1, 2) == other["P"](b=2, a=1)


def test_wrappers_that_libraries_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decorators of the standard library leave functions whose code is theirs; this Python's version of it is taken."""
    other = moved(
        monkeypatch,
        "import functools, contextlib, reprlib",
        "@functools.singledispatch\ndef kind(x): return 'any'\n@kind.register\ndef _(x: int): return 'int'",
        "@contextlib.contextmanager\ndef scope(log):\n    log.append(1)\n    yield 2\n    log.append(3)",
        "@functools.total_ordering\nclass V:\n    def __init__(s, n): s.n = n\n"
        "    def __eq__(s, o): return s.n == o.n\n"
        "    def __lt__(s, o): return s.n < o.n\n    @reprlib.recursive_repr()\n"
        "    def __repr__(s): return f'V({s.n!r})'\n"
        "v = V(1); v.n = v",
        "part = functools.partial(lambda a, b: a - b, 5)",
    )
    log: list[int] = []
    with other["scope"](log) as value:
        log.append(value)
    assert ([1, 2, 3], "any", "int", 3) == (log, other["kind"]("x"), other["kind"](1), other["part"](2))
    assert (True, "V(...)") == (other["V"](2) >= other["V"](1), repr(other["v"]))


def test_enums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members, methods, flags and look-ups by value work, also of values that are not there."""
    other = moved(
        monkeypatch,
        "import enum\nclass C(enum.Enum):\n    A = 1\n    B = 'b'\n    def low(self): return self.name.lower()\n"
        "class F(enum.Flag):\n    X = enum.auto()\n    Y = enum.auto()\nboth = F.X | F.Y",
    )
    kind = other["C"]
    assert (kind.A, "b", other["F"](3)) == (kind(1), kind.B.low(), other["both"])
    with pytest.raises(ValueError, match="is not a valid"):
        kind([])


def test_attrs_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of attrs, whose code it writes with its source on record, come back working."""
    pytest.importorskip("attr")
    other = moved(
        monkeypatch,
        "import attr\n@attr.define\nclass A:\n    x: int\n    y: list = attr.Factory(list)\n"
        "    def up(self): return self.x + 1\n"
        "@attr.s(auto_attribs=True, frozen=True, order=True)\nclass B:\n    x: int = 3\na, b = A(1), B()",
    )
    a, b = other["a"], other["b"]
    assert ("A(x=1, y=[])", 2, True, "B(x=3)") == (repr(a), a.up(), other["B"](4) > b, repr(b))
    assert a == other["A"](1)


def test_what_has_no_source_is_reported_and_costs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function made by exec is named with one reason and what to do; all others come back, also those beside it."""
    first = stored(
        monkeypatch,
        "exec('def hidden(x): return x')\nexec('class Odd:\\n    def m(self): return 1')",
        "def seen(x): return x + 1\nuser = [hidden]; odd = Odd(); half = [print, 2]",
    )
    other = Notebook()
    other.head, other.stored, other.cells = first.head, first.stored, 1000
    staged = other.restore()
    reasons = {u.name: u.reason for u in staged.unsaved}
    assert {"hidden", "user", "Odd", "odd"} == set(reasons)
    assert all("compiled by Python 3.0" in r and "Run the cell that makes it again" in r for r in reasons.values())
    assert (2, [print, 2]) == (other["seen"](1), other["half"])


def test_a_generated_method_that_somebody_else_holds_is_not_handed_out_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that holds the generated method of an unbound class is reported, not filled with what cannot be called."""
    first = stored(
        monkeypatch,
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n    x: int\nheld = [D(1), D.__init__]\ndel D\nfine = 3",
    )
    other = Notebook()
    other.head, other.stored, other.cells = first.head, first.stored, 1000
    assert ["held"] == [u.name for u in other.restore().unsaved]
    assert other["fine"] == 3


def test_protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a protocol asks of a class is asked again, although the library wrote that method, too."""
    other = moved(
        monkeypatch,
        "import typing\n@typing.runtime_checkable\nclass Goes(typing.Protocol):\n    def go(self) -> int: ...\n"
        "class Mine(Goes):\n    def go(self): return 1\nclass Has:\n    def go(self): return 2\n"
        "has, mine = Has(), Mine()",
    )
    goes = other["Goes"]
    assert [True, True, False] == [isinstance(x, goes) for x in (other["has"], other["mine"], 3)]
    assert [True, False] == [issubclass(x, goes) for x in (other["Has"], int)]
    with pytest.raises(TypeError, match="Protocols cannot be instantiated"):
        goes()


def test_functions_of_a_script_come_from_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A script that the notebook ran is read again; a function that it has no more is reported."""
    script = tmp_path / "script.py"
    script.write_text("def kept(x):\n    return abs(x) + 1\ndef changed(x):\n    return len(x)\n")
    first = stored(monkeypatch, f"exec(compile(open({str(script)!r}).read(), {str(script)!r}, 'exec'))")
    script.write_text("# longer\ndef kept(x):\n    return abs(x) + 1\ndef changed(x, y):\n    return len(x)\n")
    other = Notebook()
    other.head, other.stored, other.cells = first.head, first.stored, 1000
    assert ["changed"] == [u.name for u in other.restore().unsaved]
    assert 6 == other["kept"](-5)


def test_cells_of_a_closure_go_by_name() -> None:
    """When this Python keeps the free variables in another order, each still gets its own cell."""
    source = "def make(a, b):\n    def f():\n        return a, b\n    return f\n"
    names: dict[str, Any] = {}
    exec(compile(source, "<old>", "exec", dont_inherit=True), names)
    blob = marshal.dumps(names["make"](1, 2).__code__.replace(co_freevars=("b", "a")), 2)
    with rebuild.loading(names, names.__getitem__):
        code = rebuild._make_code(blob, (3, 0), "<old>", "make.<locals>.f", 2, source)
        made = rebuild._make_function(code, None, (CellType("b"), CellType("a")))
    del linecache.cache["<old>"]
    assert ("a", "b") == made()


@pytest.mark.parametrize(
    ("source", "said"), [("def f(:", "does not compile"), ("x = 1", "not found"), ("def f(a): pass", "not found")]
)
def test_source_that_does_not_have_the_function_says_so(source: str, said: str) -> None:
    """Syntax that this Python does not know, a function that is not there, and one that takes other arguments."""
    names: dict[str, Any] = {}
    exec("def f(): pass", names)
    with pytest.raises(ValueError, match=said):
        rebuild._make_code(marshal.dumps(names["f"].__code__, 2), (3, 0), "<gone>", "f", 1, source)
    del linecache.cache["<gone>"]


def test_numbers_texts_and_containers_in_code_are_read_over() -> None:
    """Every kind of constant leaves what follows it readable; what is cut off is no code."""
    names: dict[str, Any] = {}
    exec(
        "def f(x=1):\n    return [x in {1, 2.5, b'b', 3j, 10**40, 'ä', (1, ('n', None)), ..., True, -(2**70)}, x[1:2],"
        " (lambda y: y)]\n",
        names,
    )
    code = names["f"].__code__
    blob = marshal.dumps(code, 2)
    assert foreign.Recorded.of(code) == foreign.read_code(blob)
    assert {None} == {foreign.read_code(blob[:size]) for size in range(len(blob))}


def test_a_lost_definition_costs_the_names_that_hold_it_and_not_its_whole_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of names that share an object, those that do not lead to what is lost come back, and the restore ends."""
    first = stored(
        monkeypatch,
        "shared = [1]\nexec('def hidden(x): return x')\nholds = [shared, hidden]\nplain = {'k': shared}",
    )
    assert 1 == len({v.group_id for n, v in first.head.names.items() if n in ("holds", "plain", "shared")})
    other = Notebook()
    other.head, other.stored, other.cells = first.head, first.stored, 1000
    assert {"hidden", "holds"} == {u.name for u in other.restore().unsaved}
    assert other["plain"]["k"] is other["shared"]


def test_a_function_of_a_file_that_says_something_else_by_now_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One number that is another one in the file makes another function: it is not put in the place of the old one."""
    script = tmp_path / "script.py"
    script.write_text("def rate(x):\n    return x * 2\ndef same(x):\n    return x * 3\n")
    first = stored(monkeypatch, f"exec(compile(open({str(script)!r}).read(), {str(script)!r}, 'exec'))")
    script.write_text("def rate(x):\n    return x * 5\ndef same(x):\n    return x * 3\n")
    other = Notebook()
    other.head, other.stored, other.cells = first.head, first.stored, 1000
    assert ["rate"] == [u.name for u in other.restore().unsaved]
    assert 6 == other["same"](2)
