"""Capture of a namespace, its versions, what cannot be stored, and its restore into another one."""

from __future__ import annotations

import pytest

from durable_nb.testing.notebook import Notebook

ROUND_TRIPS = {
    "shared __dict__": (
        ["class Borg:\n    _s = {}\n    def __init__(self):\n        self.__dict__ = self._s\na = Borg()\nb = Borg()"],
        "b.w = 2\nassert a.w == 2 and Borg().w == 2",
    ),
    "__dict__ in a variable": (
        ["class A:\n    pass\na = A()\na.x = 1", "d = a.__dict__"],
        "d['y'] = 2\nassert a.y == 2",
    ),
    "weak proxy": (
        ["import weakref\nclass A:\n    pass\na = A()\nq = [weakref.proxy(a)]"],
        "a.y = 3\nassert q[0].y == 3",
    ),
    "exception with cause": (
        [
            "class E(Exception):\n    def __init__(self, a, *, b):\n        super().__init__(a)\n        self.b = b\n"
            "try:\n    raise E('m', b=9) from ValueError('c')\nexcept E as e:\n    err = e"
        ],
        "assert (err.args, err.b, type(err)) == (('m',), 9, E) and err.__cause__.args == ('c',)",
    ),
    "loading calls a function": (
        [
            "class A:\n    def __init__(self, v):\n        self.v = v\n    def __reduce__(self):\n"
            "        return make, (self.v,)\ndef make(v):\n    return A(v)\na = A([1])\nb = a.v"
        ],
        "assert a.v is b and type(a) is A",
    ),
    "loading reads a variable": (
        [
            "class A:\n    def __setstate__(self, s):\n        self.x = G['q']\na = A()\na.x = 5\nG = {'q': 5}",
        ],
        "assert a.x == 5",
    ),
    "singleton that is a global": (
        ["class S:\n    def __reduce__(self):\n        return 'ONE'\nONE = S()\nuse = [ONE]"],
        "assert use[0] is ONE",
    ),
    "function in a copy of the globals": (
        [
            "big = [1]\nscope = {**globals(), '_ih': []}\nexec('def f():\\n    return len(big)', scope)\n"
            "f = scope['f']\n"
            "del scope",
        ],
        "assert f() == 1 and 'scope' not in f.__globals__",
    ),
    "functions of a script": (
        [
            "scope = {'__name__': '__main__'}\nexec('n = [0]\\ndef inc():\\n    n[0] += 1\\ndef get():\\n"
            "    return n', scope)"
            "\ninc, get, n = scope['inc'], scope['get'], scope['n']\ndel scope",
        ],
        "inc()\nassert get() is n and n == [1] and inc.__globals__ is get.__globals__ is not globals()",
    ),
    "singledispatch": (
        [
            "import functools\n@functools.singledispatch\ndef f(x):\n    return 'o'\n@f.register\ndef _i(x: int):\n"
            "    return 'i'"
        ],
        "assert f(1) == 'i' and f('') == 'o'",
    ),
    "alias": (["a = [1]\nb = a\npair = (a, {'inner': a})"], "assert a is b and pair[0] is a and pair[1]['inner'] is a"),
    "cycle": (["loop = [1]\nloop.append(loop)\nd = {}\nd['self'] = d"], "assert loop[1] is loop and d['self'] is d"),
    "nan": (["x = float('nan')\nxs = [1.0, x]\nz = -0.0", "big = {x: 1}"], "assert xs.index(x) == 1 and big[x] == 1"),
    "shared nan": (
        ["import math\nn = math.nan\nl = [math.nan, math.nan]"],
        "import math\nassert n is math.nan and l[0] is l[1] is math.nan",
    ),
    "namespace itself": (["g = globals()\nx = [1]"], "assert g is globals() and g['x'] is x"),
    "function on live globals": (
        ["counter = 0\ndef inc():\n    global counter\n    counter += 1", "inc()"],
        "inc()\nassert counter == 2 and inc.__globals__ is globals()",
    ),
    "shared cell": (
        [
            "def make():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n    def get():\n"
            "        return n\n"
            "    return inc, get",
            "inc, get = make()\ninc()",
        ],
        "inc()\nassert get() == 2 and inc.__closure__[0] is get.__closure__[0]",
    ),
    "self-referring function": (
        [
            "def make():\n    def inner():\n        inner.n += 1\n        return inner.n\n    inner.n = 0\n"
            "    return inner",
            "f = make()\nf()",
        ],
        "assert f() == 2 and f.n == 2",
    ),
    "lambdas": (["fs = [lambda x, i=i: x + i for i in range(3)]"], "assert [f(10) for f in fs] == [10, 11, 12]"),
    "lru_cache": (
        [
            "from functools import lru_cache\n@lru_cache(maxsize=32)\ndef sq(x):\n    return x * x",
            "def total(n):\n    return sum(sq(i) for i in range(n))\nholder = [sq]",
        ],
        "assert total(4) == 14 and sq.cache_info().maxsize == 32 and holder[0] is sq",
    ),
    "decorated": (
        [
            "import functools\nregistry = {}\ndef task(fn):\n    @functools.wraps(fn)\n    def wrapper(*a):\n"
            "        wrapper.calls += 1\n        return fn(*a)\n    wrapper.calls = 0\n"
            "    registry[fn.__name__] = wrapper\n"
            "    return wrapper",
            "@task\ndef job(x):\n    return x + 1\njob(1)",
        ],
        "assert registry['job'] is job and job(2) == 3 and job.calls == 2 and job.__wrapped__(5) == 6",
    ),
    "class and instances": (
        [
            "class Animal:\n    def speak(self):\n        return 'a'\nclass Dog(Animal):\n    def speak(self):\n"
            "        return 'w' + super().speak()",
            "rex = Dog()",
            "pack = [rex, Dog()]",
        ],
        "assert type(rex) is Dog and pack[0] is rex and rex.speak() == 'wa' and type(pack[1]) is Dog",
    ),
    "class state": (
        [
            "class Hits:\n    total = 0\n    seen = []\n    def hit(self):\n        type(self).total += 1\n"
            "        self.seen.append(1)\nh = Hits()",
            "h.hit()",
        ],
        "h.hit()\nassert Hits.total == 2 and Hits.seen == [1, 1]",
    ),
    "registering metaclass": (
        [
            "class Meta(type):\n    registry = {}\n    created = []\n    def __init__(cls, n, b, ns):\n"
            "        super().__init__(n, b, ns)\n        Meta.registry[n] = cls\n        Meta.created.append(n)",
            "class P(metaclass=Meta):\n    pass\nclass Q(P):\n    pass",
            "q = Q()",
        ],
        "assert Meta.registry == {'P': P, 'Q': Q} and Meta.created == ['P', 'Q'] and type(q) is Q and type(Q) is Meta",
    ),
    "init_subclass with keyword": (
        [
            "class Base:\n    subs = []\n    def __init_subclass__(cls, tag, **kw):\n"
            "        super().__init_subclass__(**kw)\n"
            "        Base.subs.append((tag, cls))",
            "class A(Base, tag='a'):\n    pass",
        ],
        "assert Base.subs == [('a', A)]\nclass B(Base, tag='b'):\n    pass\nassert len(Base.subs) == 2",
    ),
    "slots": (
        [
            "class A:\n    __slots__ = ('a', '__b')\nclass B(A):\n    __slots__ = ('c', '__dict__')\no = B()\n"
            "o.c = 1\no.z = 2"
        ],
        "assert o.c == 1 and o.z == 2 and not hasattr(o, 'a')\no.a = 3\nassert o.a == 3",
    ),
    "dataclass": (
        [
            "import dataclasses\n@dataclasses.dataclass(frozen=True, slots=True)\nclass P:\n    x: int\n"
            "    y: list = dataclasses.field(default_factory=list)",
            "p = P(1)\nby = {P(1, ()): 'a'}",
        ],
        "assert p == P(1, []) and by[P(1, ())] == 'a' and [f.name for f in dataclasses.fields(P)] == ['x', 'y']\n"
        "assert P(5).y == [] and dataclasses.replace(p, x=2).x == 2",
    ),
    "enum": (
        [
            "import enum\nclass L(enum.IntEnum):\n    LOW = 1\n    HIGH = 10\n    TOP = 10\n"
            "class F(enum.Flag):\n    A = 1\n"
            "    B = 2\nclass S(str, enum.Enum):\n    X = 'x'\n    def up(self):\n        return self.value.upper()",
            "t = L.HIGH\nfl = F.A | F.B\ntable = {S.X: 1, L.LOW: 2}",
        ],
        "assert t is L.HIGH is L(10) is L['TOP'] and list(L) == [L.LOW, L.HIGH] and t > 5 and table[S.X] == 1\n"
        "assert fl is F.A | F.B and S('x').up() == 'X' and S.X is S('x')",
    ),
    "namedtuples": (
        [
            "import collections, typing\nclass Outer:\n    class Inner:\n        k = 1\n"
            "    Pair = collections.namedtuple('Pair', 'p q')\nclass E(typing.NamedTuple):\n    a: str\n"
            "    n: int = 3\n"
            "    def tag(self):\n        return f'{self.a}{self.n}'",
            "t = Outer.Pair(1, 2)\ni = Outer.Inner()\ne = E('x')",
        ],
        "assert type(t) is Outer.Pair and t._replace(q=7) == (1, 7) and type(i) is Outer.Inner and e.tag() == 'x3'",
    ),
    "generic": (
        [
            "from typing import Generic, TypeVar, NewType\nT = TypeVar('T')\nclass G(Generic[T]):\n    pass\n"
            "class I(G[int]):\n"
            "    pass\nU = NewType('U', int)"
        ],
        "assert I.__orig_bases__ == (G[int],) and G.__parameters__ == (T,) and U(3) == 3 and U.__name__ == 'U'",
    ),
    "abstract class": (
        [
            "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def f(self): ...\nA.register(int)\n"
            "class C(A):\n"
            "    def f(self):\n        return 1",
            "c = C()",
        ],
        "assert isinstance(3, A) and isinstance(c, A) and c.f() == 1\ntry:\n    A()\nexcept TypeError:\n    pass\n"
        "else:\n    raise AssertionError",
    ),
    "redefined class": (
        [
            "class M:\n    def v(self):\n        return 1\nold = M()",
            "class M:\n    def v(self):\n        return 2\nnew = M()",
        ],
        "assert old.v() == 1 and new.v() == 2 and type(new) is M and type(old) is not M",
    ),
    "descriptors": (
        [
            "from functools import cached_property\nclass A:\n    @property\n    def p(self):\n        return 1\n"
            "    @staticmethod\n    def s():\n        return 2\n    @classmethod\n    def c(cls):\n        return cls\n"
            "    @cached_property\n    def k(self):\n        return [3]",
            "a = A()\na.k",
        ],
        "assert (a.p, a.s(), a.c()) == (1, 2, A) and a.__dict__['k'] == [3] and A().k == [3]",
    ),
    "views and weak references": (
        [
            "import weakref, types\nclass I:\n    pass\nbase = {'a': 1}\nkeys = base.keys()\n"
            "ro = types.MappingProxyType(base)",
            "it = I()\nref = weakref.ref(it)\ncache = weakref.WeakValueDictionary(k=it)",
        ],
        "base['b'] = 2\nassert 'b' in keys and ro['b'] == 2 and ref() is it and cache['k'] is it",
    ),
    "bound method": (
        ["class A:\n    n = 1\n    def f(self):\n        return self.n\na = A()", "call = a.f"],
        "a.n = 7\nassert call() == 7 and call.__self__ is a",
    ),
    "method by name": (["class A:\n    def f(self):\n        return 1\nfs = [A.f]"], "assert fs[0] is A.f"),
    "exec'd function": (
        ["ns = {}\nexec('n = 0\\ndef f():\\n    global n\\n    n += 1', ns)\nf = ns['f']\nf()"],
        "f()\nassert ns['n'] == 2 and f.__globals__ is ns",
    ),
    "iterators": (
        ["it = iter([1, 2, 3])\nz = zip([1, 2], 'xy')\nnext(it)", "next(z)"],
        "assert next(it) == 2 and list(z) == [(2, 'y')]",
    ),
    "modules": (
        ["import math as m, os.path as osp\nfrom math import sqrt"],
        "assert m.sqrt is sqrt and osp.join('a', 'b')",
    ),
    "arrays that share memory": (
        [
            "import numpy as np\nbase = np.arange(10000)\nview = base[2:500:3]\nrev = base[::-1]\n"
            "lone = np.ones(5000)[2:]"
        ],
        "base[2] = -1\nassert view[0] == -1 and rev[-3] == -1 and lone.sum() == 4998\nlone[0] = 3",
    ),
    "array on a bytearray": (
        ["import numpy as np\nbuf = bytearray(5000)\narr = np.frombuffer(buf, dtype='u1')"],
        "buf[7] = 9\nassert arr[7] == 9",
    ),
    "Out": (["a = [1]"], "assert a == [1]"),
}


@pytest.mark.parametrize("case", sorted(ROUND_TRIPS))
def test_what_a_cell_made_comes_back_and_is_then_known(case: str) -> None:
    """A restored namespace satisfies the same check, and looking at it again finds nothing new."""
    cells, check = ROUND_TRIPS[case]
    first = Notebook()
    for cell in cells:
        first.run(cell)
    assert first.unsaved == {}
    second = first.restored()
    again = second.look()
    assert (again.changed, tuple(again.groups)) == ((), ())
    second.check(check)


def test_an_untouched_namespace_gives_an_empty_delta() -> None:
    """A second look at the same values stores nothing and changes no version."""
    notebook = Notebook()
    notebook.run("import collections\na = [1]\nclass A:\n    pass\ni = A()\nd = {'x': a}\nf = lambda: 1\nn = 3")
    again = notebook.look()
    assert (again.names, list(again.groups), again.changed, again.regrouped) == ({}, [], (), ())


def test_sharing_an_object_moves_a_name_but_does_not_change_its_version() -> None:
    """`d = {'k': a}` stores `a` in a new group and leaves its version as it was."""
    notebook = Notebook()
    notebook.run("a = [1]")
    captured = notebook.run("d = {'k': a}")
    assert (captured.changed, captured.regrouped) == (("d",), ("a",))
    assert notebook.head is not None
    assert (notebook.head.names["a"].version, notebook.head.names["d"].version) == ("c1", "c2")
    assert notebook.head.names["a"].group_id == notebook.head.names["d"].group_id


def test_a_deleted_name_is_part_of_the_delta() -> None:
    """`del x` makes x None in the delta, and a restore of that checkpoint has no x."""
    notebook = Notebook()
    notebook.run("x = [1]\ny = 2")
    captured = notebook.run("del x")
    assert captured.names == {"x": None}
    assert "x" not in notebook.restored().ns


def test_a_commit_that_failed_needs_no_undo() -> None:
    """A delta that never became the head is found again, completely, by the next look."""
    notebook = Notebook()
    notebook.run("a = [1]")
    notebook.ns["a"].append(2)
    lost = notebook.capture.delta(notebook.head, "never", made_by="x")
    found = notebook.look()
    assert ("a",) == lost.changed == found.changed


def test_one_bad_name_costs_no_other() -> None:
    """A generator beside and inside other values is reported with its path, everything else is stored."""
    notebook = Notebook()
    notebook.run("g = (i for i in range(3))\nshared = [1]\nholder = {'k': [shared, g]}\nfine = [shared]")
    assert {"g", "holder"} == set(notebook.unsaved)
    assert (notebook.unsaved["holder"].path, notebook.unsaved["holder"].type) == ("['k'][1]", "generator")
    assert "generator" in notebook.unsaved["g"].reason
    assert notebook.restored()["fine"] == [[1]]


@pytest.mark.parametrize(
    "bad",
    [
        "(i for i in range(3))",
        "type('A', (), {'__reduce__': lambda s: (int, ('no number',))})()",
    ],
)
def test_a_bad_name_does_not_make_the_others_new_after_every_cell(bad: str) -> None:
    """What shares objects with something that cannot be stored is stored once, and the report stays."""
    notebook = Notebook()
    notebook.run(f"shared = [1]\nfine = [shared]\nbad = [shared, {bad}]")
    again = notebook.look()
    assert (again.names, list(again.groups), again.changed) == ({}, [], ())
    assert [u.name for u in again.unsaved] == ["bad"]


def test_what_pickles_but_does_not_load_is_reported() -> None:
    """A class whose __setstate__ does not take what __getstate__ gave is found out by loading it."""
    notebook = Notebook()
    notebook.run(
        "class A:\n    def __getstate__(self):\n        return 1\n    def __setstate__(self, state):\n"
        "        self.__dict__.update(state)\n"
        "bad = A()\nkept = [1]"
    )
    assert {"bad"} == set(notebook.unsaved)
    assert "does not load" in notebook.unsaved["bad"].reason
    assert {"A", "kept"} == set(notebook.restored().ns) - {"__name__", "__builtins__"}


def test_objects_that_answer_for_any_attribute_come_back() -> None:
    """An attribute dictionary whose __getattr__ needs its attributes comes back, its __dict__ shared as it was."""
    notebook = Notebook()
    notebook.run(
        "class A:\n    def __init__(self):\n        self._d = {'a': 1}\n    def __getattr__(self, n):\n"
        "        return self._d[n]\n"
        "one, two = A(), A()\nheld = vars(two)"
    )
    notebook.restored().check(
        "assert one.a == 1 and type(one) is A\nheld['b'] = 2\nassert two.b == 2 and vars(two) is held"
    )


def test_a_value_that_crashes_the_loading_process_is_reported() -> None:
    """A class whose __setstate__ kills its process costs its own name, not the kernel."""
    notebook = Notebook()
    notebook.run(
        "import os, signal\nclass A:\n    def __setstate__(self, s):\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        "bad = A()\nbad.x = 1\nkept = [1]"
    )
    assert {"bad"} == set(notebook.unsaved)
    assert "SIGKILL" in notebook.unsaved["bad"].reason


def test_pickling_hooks_are_not_heard(capsys: pytest.CaptureFixture[str]) -> None:
    """What __getstate__ prints or warns during a capture reaches nobody."""
    notebook = Notebook()
    notebook.run(
        "import warnings\nclass A:\n    def __getstate__(self):\n        print('now')\n        warnings.warn('w')\n"
        "        return {'v': 3}\na = A()"
    )
    assert capsys.readouterr() == ("", "")
    assert notebook.restored()["a"].v == 3


def test_hooks_that_raise_are_reported_in_their_own_words() -> None:
    """The message of a __reduce_ex__ that raises is the reason, MemoryError and the like included."""
    notebook = Notebook()
    notebook.run(
        "class A:\n    def __init__(self, e):\n        self.e = e\n    def __reduce_ex__(self, p):\n"
        "        raise self.e\n"
        "a = A(TypeError('mine-1742'))\nb = A(MemoryError('mine-2'))"
    )
    assert "mine-1742" in notebook.unsaved["a"].reason
    assert "mine-2" in notebook.unsaved["b"].reason


def test_what_needs_a_class_that_cannot_be_stored_is_reported() -> None:
    """An instance is worthless without its class, and says so."""
    notebook = Notebook()
    notebook.run("class A:\n    g = (i for i in range(3))\na = A()\nkept = 1")
    assert {"A", "a"} == set(notebook.unsaved)
    assert "needs A" in notebook.unsaved["a"].reason


def test_names_of_the_shell_are_not_the_users() -> None:
    """History names are left out, names with underscores and rebound ones are captured."""
    notebook = Notebook()
    notebook.run("_ = ''\n_i = 'x'\n_i3 = 'y'\n_3 = [1]\n_x = 1\n__y = 2\nexit = 5\n__package__ = 'p'")
    assert notebook.head is not None
    assert {"_x", "__y", "exit"} == set(notebook.head.names)


def test_entries_of_out_keep_their_aliases() -> None:
    """`Out[3]` and the variable it shows are one object again."""
    notebook = Notebook()
    notebook.run("a = [1]")
    notebook.out["Out[3]"] = notebook["a"]
    notebook.look()
    second = notebook.restored()
    assert second.out["Out[3]"] is second["a"]


def test_included_and_excluded_names() -> None:
    """What was left out on request is not stored and is in the report."""
    notebook = Notebook()
    notebook.ns.update(a=1, b=[2], tmp_c=3)
    notebook.look(exclude=["tmp_*"])
    assert notebook.head is not None
    assert ({"a", "b"}, {"tmp_c"}) == (set(notebook.head.names), set(notebook.unsaved))


def test_restoring_single_names_brings_what_they_share_and_need() -> None:
    """Names are loaded with their group and their definitions; a live definition at that version is kept."""
    first = Notebook()
    first.run("class A:\n    pass\na = A()\nb = [a]\nother = [1]")
    second = Notebook()
    second.head, second.stored = first.head, first.stored
    staged = second.restore(["b"], delete_others=False)
    assert {"A", "a", "b"} == set(staged.values)
    assert second["b"][0] is second["a"]
    kept = first["A"]
    first.ns["a"].x = 5
    first.restore(["a"], delete_others=False)
    assert (kept, kept) == (first["A"], type(first["a"]))
    assert not hasattr(first["a"], "x")


def test_a_group_that_is_damaged_costs_its_names_and_those_that_need_them() -> None:
    """Bytes that do not load are reported by name; the rest is staged."""
    notebook = Notebook()
    notebook.run("class A:\n    pass\na = A()\nkept = [1]")
    assert notebook.head is not None
    notebook.stored[notebook.head.names["A"].group_id] = (b"damaged", [])
    staged = notebook.capture.stage(notebook.head, notebook.read)
    assert {"kept"} == set(staged.values)
    assert {"A", "a"} == {u.name for u in staged.unsaved}


def test_same_sees_content_and_aliases() -> None:
    """Live values equal the stored ones until their content or what they share changes."""
    notebook = Notebook()
    notebook.run("a = [1]\nb = a\nc = [2]")
    assert notebook.head is not None
    assert notebook.capture.same(notebook.head, notebook.read, ["a", "b", "c"]) is None
    notebook.ns["b"] = [1]
    assert notebook.capture.same(notebook.head, notebook.read, ["a", "b"]) is not None
    assert notebook.capture.same(notebook.head, notebook.read, ["c"]) is None
    notebook.ns["c"].append(3)
    assert notebook.capture.same(notebook.head, notebook.read, ["c"]) is not None


def test_shared_with_names_the_others_of_a_group() -> None:
    """After a look it is known which names a name shares objects with."""
    notebook = Notebook()
    notebook.run("a = [1]\nb = {'k': a}\nc = [1]")
    assert {"b"} == notebook.capture.shared_with(["a"])
    assert set() == notebook.capture.shared_with(["c"])


def test_what_is_stored_only_with_its_neighbours_costs_no_more_than_its_names() -> None:
    """Names whose group does not load, and that cannot be stored one by one, are reported; the others are saved."""
    notebook = Notebook()
    notebook.run(
        "count = []\n"
        "class Once:\n"
        "    def __reduce__(self):\n"
        "        globals()['count'].append(1)\n"
        "        if len(count) > 1:\n"
        "            raise ValueError('not again')\n"
        "        return int, ('no number',)\n"
        "x = Once()\ny = [x]\nz = [1]\ndel count\ncount = []"
    )
    assert notebook.head is not None
    assert {"x", "y"} == set(notebook.unsaved)
    assert "z" in notebook.head.names


def test_every_name_of_a_group_that_reaches_the_builtins_is_stored_alike() -> None:
    """A second name of what holds the dictionary of the built-ins has a fingerprint of its own, as the first has."""
    notebook = Notebook()
    notebook.run("import builtins\nheld = {'b': vars(builtins)}\nother = held")
    assert notebook.head is not None
    found = {name: notebook.head.names[name] for name in ("held", "other")}
    assert [(True, True)] * 2 == [(one.size_bytes < 1000, bool(one.digest)) for one in found.values()]
