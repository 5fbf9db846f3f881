"""What `functools.lru_cache` and `cache` remember comes back with them, and calling them changes no version."""

from __future__ import annotations

import functools
import gc
import sqlite3
import threading
import time
from typing import Any

import pytest

from durable_nb.capture import caches, foreign
from durable_nb.testing.notebook import Notebook

HEAD = "import functools\nruns = []\n"
SINGLETON = (
    "import functools\n@functools.lru_cache\ndef get_config():\n    return {'n': [1]}\n",
    "cfg = get_config()",
)


def restored(*cells: str) -> Notebook:
    """Return a notebook in which what the cells left has been restored."""
    first = Notebook()
    for cell in cells:
        first.run(cell)
    return first.restored()


ROUND_TRIPS: dict[str, tuple[tuple[str, ...], str]] = {
    "singleton": (SINGLETON, "assert get_config() is cfg and get_config() is not get_config.__wrapped__()"),
    "result inside another variable": (
        (SINGLETON[0], "xs = [get_config()['n']]"),
        "assert get_config()['n'] is xs[0]",
    ),
    "recursive": (
        (
            HEAD + "@functools.cache\ndef fib(n):\n    runs.append(n)\n"
            "    return n if n < 2 else fib(n - 1) + fib(n - 2)",
            "fib(30)",
            "before = len(runs), fib.cache_info()",
        ),
        "assert (len(runs), fib.cache_info()) == before == (31, before[1])\nassert fib(30) == 832040\n"
        "assert (len(runs), fib(31), len(runs), fib.cache_info().currsize) == (31, 1346269, 32, 32)",
    ),
    "order of use": (
        (
            HEAD + "@functools.lru_cache(maxsize=3)\ndef f(x):\n    runs.append(x)\n    return [x]",
            "for x in (1, 2, 3, 1, 4): f(x)\nbefore = f.cache_info()\nruns.clear()",
        ),
        "assert f.cache_info() == before == (1, 4, 3, 3)\nf(5)\nf(1); f(4)\nassert runs == [5]\nf(3)\n"
        "assert runs == [5, 3]",
    ),
    "arguments of every form": (
        (
            HEAD + "@functools.lru_cache(maxsize=50)\ndef f(*a, **k):\n    runs.append((a, k))\n    return [a, k]\n"
            "@functools.lru_cache(typed=True)\ndef g(*a, **k):\n    runs.append((a, k))\n    return [a, k]\n"
            "class Int(int):\n    pass\n"
            "calls = [((), {}), ((1,), {}), (('a',), {}), ((1.5,), {}), ((True, 2), {}), (((1, 2),), {}), "
            "((None,), {}),\n"
            "         ((1, 2), dict(z=3, a='x')), ((), dict(q=(1,))), ((Int(7),), {}), ((frozenset({1}), b'b'), {})]",
            "want = [h(*a, **k) for h in (f, g) for a, k in calls]\ninfos = f.cache_info(), g.cache_info()\n"
            "runs.clear()",
        ),
        "assert (f.cache_info(), g.cache_info()) == infos\n"
        "got = [h(*a, **k) for h in (f, g) for a, k in calls]\n"
        "assert all(a is b for a, b in zip(got, want, strict=True)) and runs == []\n"
        "g(1.0); assert len(runs) == 1\nf(1.0); assert runs[1:] == [((1.0,), {})] and f(1) is want[1]",
    ),
    "methods": (
        (
            HEAD + "class A:\n    @functools.lru_cache(maxsize=8)\n    def m(self, k):\n        runs.append(k)\n"
            "        return [k]\n    @staticmethod\n    @functools.cache\n    def s(k):\n"
            "        runs.append(k)\n        return [k]\n"
            "    @classmethod\n    @functools.cache\n    def c(cls, k):\n        runs.append(k)\n"
            "        return [cls, k]\n"
            "    @functools.cached_property\n    def p(self):\n        runs.append('p')\n        return [9]\n"
            "    @property\n    @functools.lru_cache\n    def q(self):\n        runs.append('q')\n        return [8]\n"
            "a, b = A(), A()",
            "kept = [a.m(1), b.m(1), A.s(2), A.c(3), a.p, a.q]\nruns.clear()",
        ),
        "now = [a.m(1), b.m(1), A.s(2), A.c(3), a.p, a.q]\n"
        "assert all(x is y for x, y in zip(now, kept, strict=True)) and runs == []\nassert A.c(3)[0] is A\n"
        "assert A.m.__wrapped__.__qualname__ == 'A.m' and A().m(1) == [1] and runs == [1]",
    ),
    "keys with a hash of their own": (
        (
            HEAD + "class K:\n    def __init__(self, n):\n        self.n = n\n    def __hash__(self):\n"
            "        return helper(self.n)\n"
            "    def __eq__(self, other):\n        return self.n == other.n\n"
            "@functools.lru_cache\ndef f(k):\n    runs.append(k.n)\n    return k\n",
            "def helper(n):\n    return hash(n) + 1",
            "k = f(K(3))\nruns.clear()",
        ),
        "assert f(K(3)) is k and runs == []",
    ),
    "a key that changed since": (
        (
            HEAD + "class K:\n    def __init__(self, n):\n        self.n = n\n    def __hash__(self):\n"
            "        return self.n\n"
            "    def __eq__(self, other):\n        return self.n == other.n\n"
            "@functools.lru_cache\ndef f(k):\n    return k.n\n",
            "k, other = K(3), K(5)\nf(k), f(other)\nk.n = 4",
        ),
        "assert f(K(5)) == 5 and f.cache_info().currsize == 1\nassert f(k) == 4",
    ),
    "exceptions": (
        (
            HEAD + "@functools.lru_cache(maxsize=4)\ndef f(n):\n    runs.append(n)\n    return 1 // n",
            "f(1)\nfor _ in range(3):\n    try:\n        f(0)\n    except ZeroDivisionError:\n        pass\n"
            "before = f.cache_info()\nruns.clear()",
        ),
        "assert f.cache_info() == before == (0, 4, 4, 1)\nassert f(1) == 1 and runs == []",
    ),
    "attributes and what is around it": (
        (
            "import functools, inspect\ndef f(x, y=2):\n    'doc'\n    return x + y\nf.tag = 'old'\n"
            "g = functools.lru_cache(maxsize=5, typed=True)(f)\ng.tag = ['new']\ntags = [g.tag]\nuser = lambda n: g(n)",
            "g(1)",
        ),
        "import inspect\nassert g.tag is tags[0] and f.tag == 'old' and g.__wrapped__ is f and user(1) == 3\n"
        "assert g.__doc__ == 'doc' and str(inspect.signature(g)) == '(x, y=2)' and g.__name__ == 'f'\n"
        "assert g.cache_parameters() == {'maxsize': 5, 'typed': True} and inspect.unwrap(g) is f\n"
        "assert g.cache_info() == (1, 1, 5, 1)",
    ),
    "what is not a plain function": (
        (
            "import functools, math, operator\n"
            "class P:\n    def __init__(self, n):\n        self.n = n\n    def __call__(self, x):\n"
            "        return [self.n, x]\n"
            "root = functools.cache(math.sqrt)\nmake = functools.cache(P)\n"
            "add = functools.cache(functools.partial(operator.add, 5))\n"
            "call = functools.cache(P(7))\nouter = functools.lru_cache(3)(functools.lru_cache(2)(operator.neg))",
            "kept = [root(2.0), make(1), add(2), call(3), outer(4)]",
        ),
        "assert make(1) is kept[1] and call(3) is kept[3] and [root(2.0), add(2), outer(4)] == [2.0**.5, 7, -4]\n"
        "infos = [w.cache_info()[:2] for w in (root, make, add, call, outer, outer.__wrapped__)]\n"
        "assert infos == [(1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (0, 1)], infos\n"
        "assert add(3) == 8 and add.__wrapped__.args == (5,) and root.__wrapped__ is math.sqrt and make(2).n == 2\n"
        "assert outer(5) == -5 and outer.__wrapped__.cache_info().misses == 2",
    ),
    "closures": (
        (
            HEAD + "def make(k):\n    @functools.cache\n    def f(n):\n        runs.append(n)\n"
            "        return [n * k]\n    return f\n"
            "table = {'a': make(2), 'b': make(3)}",
            "kept = [table['a'](5), table['b'](5)]\nruns.clear()",
        ),
        "assert table['a'](5) is kept[0] and table['b'](5) is kept[1] and runs == []\nassert table['b'](1) == [3]",
    ),
    "a cache that holds itself": (
        (
            "import functools\n@functools.cache\ndef f(n):\n    return [f, n]\n",
            "x = f(1)\nx.append(f)",
        ),
        "assert f(1) is x and x[0] is x[2] is f",
    ),
    "no room": (
        (HEAD + "@functools.lru_cache(maxsize=0)\ndef f(n):\n    runs.append(n)\n    return n", "f(1); f(1)"),
        "assert f.cache_info() == (0, 2, 0, 0) and runs == [1, 1]\nassert f(1) == 1 and runs == [1, 1, 1]",
    ),
    "cleared": (
        (HEAD + "@functools.cache\ndef f(n):\n    runs.append(n)\n    return n", "f(1); f.cache_clear()"),
        "assert f.cache_info() == (0, 0, None, 0)\nf(1)\nassert runs == [1, 1]",
    ),
}


@pytest.mark.parametrize("what", ROUND_TRIPS)
def test_what_a_cache_remembers_comes_back(what: str) -> None:
    """Entries, their order, their identity with other variables and the counters are what they were, twice in a row."""
    cells, check = ROUND_TRIPS[what]
    again = restored(*cells)
    again.look()
    again.restored().check(check)
    again.check(check)


def test_nothing_of_the_function_runs_while_the_cache_is_filled() -> None:
    """A restore calls no body, also of functions that take any arguments, and leaves no trace in what they use."""
    other = restored(
        HEAD + "@functools.cache\ndef f(*a, **k):\n    runs.append(a)\n    if len(runs) % 2:\n"
        "        raise ValueError\n    return a",
        "for n in range(6):\n    try:\n        f(n, k=n)\n    except ValueError:\n        pass\n"
        "before = list(runs), f.cache_info()",
    )
    assert other["before"] == (other["runs"], other["f"].cache_info())
    assert (0, 6, None, 3) == tuple(other["f"].cache_info())


def test_calls_change_no_version_and_are_stored_all_the_same() -> None:
    """A call makes the stored group another one, but neither the function nor what it returned a new version."""
    first = Notebook()
    first.run(SINGLETON[0] + "@functools.cache\ndef f(n):\n    return [n]")
    made = {n: v.version for n, v in first.head.names.items()} if first.head else {}
    quiet = first.run("f(1); get_config()")
    assert ((), {"f", "get_config"}) == (quiet.changed, set(quiet.regrouped))
    kept = first.run("cfg = get_config(); x = f(1)")
    assert {"cfg", "x"} == set(kept.changed)
    again = first.run("f(1); f(2)")
    assert ((), {"f", "x"}) == (again.changed, set(again.regrouped))
    assert ((), []) == (first.look().changed, first.look().groups)
    assert first.head is not None
    assert made == {n: first.head.names[n].version for n in made}
    other = first.restored()
    assert ((), ()) == (other.look().changed, other.look().regrouped)
    assert (2, 2) == tuple(other["f"].cache_info())[0:4:3]
    later = other.run("f(3)")
    assert ((), {"f", "x"}) == (later.changed, set(later.regrouped))
    assert 3 == other.restored()["f"].cache_info().currsize


def test_a_changed_function_is_a_new_version_whatever_it_remembers() -> None:
    """Another body, another bound or another attribute are changes of the function."""
    first = Notebook()
    source = "import functools\n@functools.lru_cache(maxsize=4)\ndef f(n):\n    return [n]\n"
    first.run(source)
    first.run("f(1)")
    for cell in (source.replace("[n]", "[n, n]"), source.replace("4", "5"), "f.tag = 1"):
        assert ("f",) == first.run(cell).changed
        assert () == first.run("f(1)").changed


def test_methods_that_remember_their_instances_change_no_version() -> None:
    """A call of a cached method makes neither the class nor the instance new."""
    first = Notebook()
    first.run("import functools\nclass A:\n    @functools.cache\n    def m(self, n):\n        return [n]\n")
    first.run("a = A()")
    called = first.run("a.m(1)")
    assert ((), {"A", "a"}) == (called.changed, set(called.regrouped))
    assert () == first.run("a.m(2)").changed
    assert ("a",) == first.run("a.x = 1").changed
    other = first.restored()
    kept = other.run("r = a.m(2)")
    assert ("r",) == kept.changed
    assert tuple(other["A"].m.cache_info()) == (1, 2, None, 2)


def test_entries_that_cannot_be_stored_cost_only_themselves() -> None:
    """A connection in a cache is reported as the variable it is; the function and its other entries come back."""
    first = Notebook()
    first.run(
        "import functools, sqlite3\nruns = []\n@functools.cache\ndef connect(name):\n    runs.append(name)\n"
        "    return sqlite3.connect(':memory:') if name == 'db' else [name]"
    )
    first.run("for n in 'abcdefg': connect(n)\nconn = connect('db'); kept = connect('c')")
    try:
        assert {"conn"} == set(first.unsaved)
        other = first.restored()
        assert other["connect"]("c") is other["kept"]
        assert [*"abcdefg", "db"] == other["runs"]
        made = other["connect"]("db")
        assert [*"abcdefg", "db", "db"] == other["runs"]
        made.close()
    finally:
        conn = first["conn"]
        assert isinstance(conn, sqlite3.Connection)
        conn.close()


def test_an_entry_that_does_not_load_costs_no_function() -> None:
    """What the proof finds out not to load is left out of the cache, and the function is stored."""
    first = Notebook()
    first.run(
        "import functools\ndef broken():\n    raise RuntimeError('no')\nclass B:\n    def __reduce__(self):\n"
        "        return broken, ()\n@functools.cache\ndef f(n):\n    return B() if n else [n]"
    )
    first.run("f(0); f(1)")
    assert {} == first.unsaved
    other = first.restored()
    assert [0] == other["f"](0)
    assert "B" == type(other["f"](1)).__name__


def test_an_entry_that_needs_what_is_not_stored_costs_no_function() -> None:
    """An instance of a class that cannot be stored is left out of the cache."""
    first = Notebook()
    first.run(
        "import functools, sqlite3\nconn = sqlite3.connect(':memory:')\nclass C:\n    held = conn\n"
        "def make():\n    return C()\n@functools.cache\ndef f(n):\n    return globals()['make']()"
    )
    first.run("f(0)")
    assert {"conn", "C"} <= set(first.unsaved)
    assert "f" not in first.unsaved
    first["conn"].close()


def test_what_another_version_of_python_cannot_make_again_costs_its_entry_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under another version the cache has the entries that can be made, and the function works."""
    first = Notebook()
    with monkeypatch.context() as patch:
        patch.setattr(foreign, "minor", lambda: (3, 0))
        first.run(
            "import functools\n@functools.cache\ndef f(n):\n    exec('def g(): return 7', scope := {})\n"
            "    return scope['g'] if n else [n]"
        )
        first.run("f(0); f(1)\nkept = f(0)")
    other = first.restored()
    assert other["f"](0) is other["kept"]
    assert 7 == other["f"](1)()
    assert (1, 3, 2) == (lambda i: (i.hits - 1, i.misses, i.currsize))(other["f"].cache_info())


def test_recursion_is_as_deep_as_it_was() -> None:
    """A cache that came back costs no level of recursion more than a new one."""
    cells = (
        "import functools\n@functools.lru_cache(maxsize=9)\ndef deep(n):\n    best[0] = n\n    return deep(n + 1)\n"
        "best = [0]\ndef how_deep():\n    best[0] = 0\n    try:\n        deep(1)\n    except RecursionError:\n"
        "        return best[0]",
        "@functools.lru_cache(maxsize=9)\ndef one(n):\n    return n\none(1)",
    )
    first = Notebook()
    for cell in cells:
        first.run(cell)
    want = first["how_deep"]()
    first.look()
    assert want == first.restored()["how_deep"]()


def test_other_threads_get_what_they_ask_for_while_a_cache_is_filled() -> None:
    """A call from elsewhere during the filling is answered by the function, not by an entry of another call."""
    calls = [(n,) for n in range(50_000)]
    wrapper = caches._make_cache(lambda n: n * 2, None, False)
    found = caches.Contents(
        wrapper=wrapper, keys=[n for (n,) in calls], results=[n * 2 for (n,) in calls], hits=0, misses=50_000
    )
    filling = caches.Filling(wrapper, caches._inside(wrapper)[3], found)
    wrong: list[Any] = []
    done = threading.Event()

    def ask() -> None:
        n = 0
        while not done.is_set():
            n += 1
            if wrapper(-n) != -2 * n:
                wrong.append(n)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        filling.run()
    finally:
        done.set()
        thread.join()
    assert [] == wrong
    assert [n * 2 for (n,) in calls] == [wrapper(n) for (n,) in calls]


def test_an_imported_function_keeps_its_cache_to_itself() -> None:
    """A cached function of a library is stored as its name; what it remembers stays in the process."""
    first = Notebook()
    first.run("from fnmatch import _compile_pattern as cached\ncached('a*')")
    assert first.head is not None
    group = first.head.groups[first.head.names["cached"].group_id]
    assert b"_make_cache" not in first.read(group)[0]
    assert first.restored()["cached"] is first["cached"]


def test_hashes_are_taken_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    """What the hash of a key prints while the notebook is looked at stays away."""
    first = Notebook()
    first.run(
        HEAD + "class K:\n    def __hash__(self):\n        print('loud')\n        return 1\n"
        "@functools.cache\ndef f(k):\n    return 2\n"
    )
    first.run("k = K()\nf(k)")
    capsys.readouterr()
    first.run("f(f)")
    assert "" == capsys.readouterr().out


def test_counters_beyond_the_limit_are_only_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of hits are not counted again; the entries are there."""
    monkeypatch.setattr(caches, "COUNTED_HITS", 10)
    other = restored(
        HEAD + "@functools.lru_cache\ndef f(n):\n    runs.append(n)\n    return n", "for _ in range(50): f(1)"
    )
    assert (10, 1, 1) == (lambda i: (i.hits, i.misses, i.currsize))(other["f"].cache_info())


def test_a_large_cache_slows_no_other_cell_by_much() -> None:
    """With 100 000 small entries a look costs about what a dictionary of that size costs."""

    def look_s(cell: str) -> float:
        first = Notebook()
        first.run(cell)
        first.look()
        took = []
        for n in range(5):
            started = time.perf_counter()
            first.run(f"other = [{n}]")
            took.append(time.perf_counter() - started)
        return min(took)

    cache = look_s("import functools\nf = functools.cache(abs)\nfor n in range(100_000): f(n)")
    plain = look_s("d = {n: n for n in range(100_000)}")
    assert cache < 3 * plain + 0.02, (cache, plain)


def test_nothing_is_kept_alive_by_a_fill() -> None:
    """When a restored cache is cleared its results go at once."""
    other = restored(
        "import functools, weakref\nclass R:\n    pass\n@functools.lru_cache\ndef f():\n    return R()", "f()"
    )
    other.run("w = weakref.ref(f())")
    other.run("f.cache_clear()")
    gc.collect()
    assert other["w"]() is None
    assert isinstance(other["f"], type(functools.lru_cache(abs)))
