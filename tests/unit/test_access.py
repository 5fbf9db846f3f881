"""What a cell reads, binds and touches: reuse.md, rules 4 to 6, each trap a named test."""

# The expected value stands on the left in every test.

from __future__ import annotations

import ast
import functools
import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from durable_nb.capture.access import Access, analyse, code_hash, module_digest
from durable_nb.capture.access_bytecode import code_facts
from durable_nb.capture.access_cell import Cell


def notebook(*cells: str, **values: Any) -> dict[str, Any]:
    """Run cells as a notebook would, in a namespace of their own, and return that namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__", **values}
    for cell in cells:
        exec(compile(textwrap.dedent(cell), "<cell>", "exec"), namespace)
    return namespace


def access(source: str, namespace: dict[str, Any] | None = None) -> Access:
    """Analyse one cell."""
    source = textwrap.dedent(source)
    return analyse(ast.parse(source), source, {} if namespace is None else namespace)


def reads(source: str, namespace: dict[str, Any] | None = None) -> set[str]:
    """Return the reads of a cell as a plain set."""
    return set(access(source, namespace).reads)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on `sys.path` whose modules are forgotten again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


# -- names in the order of evaluation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y = x + 1", {"x"}),
        ("x = 1\nprint(x)", set()),
        ("x += 1", {"x"}),
        ("x: int = 3\nx", set()),
        ("x: int\nx", {"x"}),
        ("for i in xs:\n    y = i\n    print(y)", {"xs"}),
        ("for i in xs:\n    y = i\nprint(y)", {"xs", "y"}),
        ("if a:\n    b = 1\nelse:\n    b = 2\nb", {"a"}),
        ("if a:\n    b = 1\nb", {"a", "b"}),
        ("while a:\n    b = 1\nb", {"a", "b"}),
        ("try:\n    b = f()\nexcept ValueError:\n    raise\nb", {"f"}),
        ("try:\n    b = f()\nexcept ValueError:\n    pass\nb", {"b", "f"}),
        ("with open('p') as s:\n    b = s.read()\nb", set()),
        ("with guard():\n    b = 1\nb", {"b", "guard"}),
        ("import contextlib\nwith contextlib.suppress(E):\n    b = 1\nb", {"E", "b"}),
        ("if (n := f()) > 1:\n    print(n)", {"f"}),
        ("a and (n := 1)\nn", {"a", "n"}),
        ("[i + k for i in xs]", {"k", "xs"}),
        ("[j for i in xs for j in i if j > t]", {"t", "xs"}),
        ("f'{a:{w}}'", {"a", "w"}),
        ("d.k[0] = v", {"d", "v"}),
        ("del x\nx = 1", set()),
        ("a, (b, *c) = q\na, b, c", {"q"}),
        ("match v:\n    case {'k': w, **r}:\n        print(w, r)\n    case [p, *q]:\n        p, q", {"v"}),
        ("print(len([1]))", set()),
        ("async def f():\n    return z\nawait f()", {"z"}),
    ],
)
def test_a_name_bound_before_its_load_is_no_input(source: str, expected: set[str]) -> None:
    """Loads count as reads unless the cell has certainly bound the name before."""
    assert expected == reads(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f():\n    return t", set()),
        ("def f():\n    return t\nf()", {"t"}),
        ("f = lambda: t", set()),
        ("sorted(xs, key=lambda r: t[r])", {"t", "xs"}),
        ("t = 1\ndef f():\n    return t\nf()", set()),
        ("def f():\n    return t\nt = f()", {"t"}),
        ("def main():\n    return helper()\ndef helper():\n    return 1\nmain()", set()),
        ("def f(a, b=d, *c, **e):\n    a, b, c, e\n    loc = 1\n    return loc\nf(1)", {"d"}),
        ("def f(n):\n    return n and f(n - 1)\nf(3)", set()),
        ("class A(B):\n    k = v\n    def m(self):\n        return A, k, w", {"B", "k", "v", "w"}),
        ("class A:\n    k = v\n    j = k", {"v"}),
        ("@deco\ndef f():\n    return t", {"deco", "t"}),
        ("def f():\n    n = 1\n    def g():\n        nonlocal n\n        n += m\n    g()\nf()", {"m"}),
    ],
)
def test_a_function_of_the_cell_counts_when_the_cell_could_call_it(source: str, expected: set[str]) -> None:
    """The body of a function that the cell defines is input only when a later statement could run it."""
    assert expected == reads(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = 1\nfor b in c: pass\nwith d as e: pass\nimport f.g\nfrom h import i as j", {"a", "b", "e", "f", "j"}),
        ("def f():\n    global g\n    g = 1\n    h = 2", {"f", "g"}),
        ("del a", {"a"}),
        ("try:\n    pass\nexcept E as err:\n    pass", {"err"}),
        ("[w := i for i in x]", {"w"}),
        ("class A:\n    k = 1", {"A"}),
        ("from string import *", {"Formatter", "Template"}),
    ],
)
def test_stores_are_what_the_top_level_binds_or_deletes(source: str, expected: set[str]) -> None:
    """Every form of binding and deletion at the top level is in `stores`, and nothing local is."""
    stores = set(access(source).stores)
    assert expected == (stores & expected if "*" in source else stores)


def test_builtins_are_reads_only_when_shadowed() -> None:
    """A name of the builtins is an input when the namespace has its own."""
    assert set() == reads("sum([1])", {})
    assert {"sum"} == reads("sum([1])", notebook("sum = max"))


# -- closure over what can be reached ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "source", "expected"),
    [
        (["t = 1\ndef f():\n    return t"], "f()", {"f", "t"}),
        (["t = 1\ndef g():\n    return t\ndef f():\n    return [g() for _ in '1']"], "f()", {"f", "g", "t"}),
        (["t = 1\ndef f():\n    def h():\n        return t\n    return h"], "f()()", {"f", "t"}),
        (["t = 1\nclass A:\n    def m(self):\n        return t\na = A()"], "a.m()", {"a", "t"}),
        (["t = 1\nclass B:\n    @property\n    def p(self):\n        return t\nclass A(B): pass"], "A().p", {"A", "t"}),
        (["t = 1\nclass M(type):\n    def __call__(c):\n        return t\nclass A(metaclass=M): 0"], "A()", {"A", "t"}),
        (["t = 1\ndef mk(g):\n    return lambda: g()\nf = mk(lambda: t)"], "f()", {"f", "t"}),
        (["t = 1\ndef f(g=lambda: t):\n    return g()"], "f()", {"f", "t"}),
        (["t = 1\ndef f(*, g=lambda: t):\n    return g()"], "f()", {"f", "t"}),
        (["import functools\nt = 1\nf = functools.partial(lambda k: t, 1)"], "f()", {"f", "t"}),
        (["import functools\nt = 1\n@functools.lru_cache\ndef f():\n    return t"], "f()", {"f", "t"}),
        (["import contextlib\nt = 1\n@contextlib.contextmanager\ndef f():\n    yield t"], "f()", {"f", "t"}),
        (["t = 1\nfs = {'a': [lambda: t]}"], "fs['a'][0]()", {"fs", "t"}),
        (["t = 1\nclass A:\n    def m(self):\n        return t\nf = A().m"], "f()", {"f", "t"}),
        (["t = 1\nclass A:\n    @staticmethod\n    def m():\n        return t"], "A.m()", {"A", "t"}),
        (["t = 1\ndef gen():\n    yield t\ng = gen()"], "next(g)", {"g", "t"}),
        (["t = 1\nclass A:\n    __slots__ = ('f',)\na = A()\na.f = lambda: t"], "a.f()", {"a", "t"}),
        (["import functools as fs\nt = 1\nclass A:\n    m = fs.cached_property(lambda s: t)"], "A().m", {"A", "t"}),
    ],
)  # fmt: skip
def test_reads_are_closed_over_notebook_code(cells: list[str], source: str, expected: set[str]) -> None:
    """Functions, methods, closures, defaults, wrappers and containers of them lead to the globals they load."""
    namespace = notebook(*cells)
    assert expected == reads(source, namespace) - {"mk", "functools", "contextlib", "gen"}


def test_rebinding_a_global_of_a_reached_function_is_seen_by_name() -> None:
    """An attribute of the same name is no read of the global."""
    namespace = notebook("mean = 1\ndef f(xs):\n    return xs.mean()")
    assert {"f"} == reads("f", namespace)


def test_too_many_objects_read_everything() -> None:
    """When the walk meets its bound, the cell reads everything and says why."""
    found = access("xs", {"xs": [{} for _ in range(20_000)]})
    assert (True, "more than 10000 objects can be reached, too many to look at") == (
        found.everything,
        found.why_everything,
    )


def test_large_lists_of_plain_numbers_are_no_reason_to_read_everything() -> None:
    """Data without code in it does not count against the bound."""
    assert not access("sum(xs)", {"xs": list(range(200_000))}).everything


# -- names in strings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("df.query('a > @t')", {"df", "t"}),
        ("duckdb.sql('from df')", {"df", "duckdb"}),
        ("f'from df where a > {t}'", {"df", "t"}),
        ("get_ipython().run_line_magic('sql', 'select * from df')", {"df"}),
        ("get_ipython().run_cell_magic('sql', '', 'select *\\nfrom df')", {"df"}),
        ("df = 1\nprint('df is ready')", set()),
        ("run()", {"run", "t"}),
        ("ask()", {"ask", "text", "df"}),
        ("print('In total: Out of _')", set()),
    ],
)
def test_a_name_in_a_string_counts_as_read(source: str, expected: set[str]) -> None:
    """Identifiers in constants of the cell, of reached functions and of reached texts are reads."""
    namespace = notebook(
        "import types\nduckdb = types.ModuleType('fakedb')\ndf = 1",
        "t = 2\ntext = 'from df'\nIn = ['']\nOut = {}\n_ = 1",
        "def run():\n    return '@t'",
        "def ask():\n    return text",
    )
    assert expected == reads(source, namespace)


@pytest.mark.parametrize(
    ("source", "everything"),
    [
        ("df.query('a > @t')", False),
        ("df.query(q)", False),
        ("df.query('a > @' + q)", True),
        ("df.query(f'a > {n}')", False),
        ("df.query(f'a > @v{q}')", True),
        ("df.query(f'a > {f()}')", True),
        ("s = 'a > @t'\ndf.query(s)", False),
        ("s = 'a > @' + q\ndf.query(s)", True),
        ("df.query(expr=make())", True),
        ("model.eval()", False),
        ("db.execute('insert ?', [make()])", False),
        ("for s in rows:\n    db.execute(s)", True),
        ("good(df)", False),
        ("bad(df, 't')", True),
    ],
)
def test_queries_built_at_run_time_read_everything(source: str, everything: bool) -> None:
    """A text that no constant holds may name anything."""
    namespace = notebook(
        "q = 'a > @t'\nn = 3\nt = 1\ndf = model = db = rows = make = f = 0",
        "def good(d):\n    return d.query('a > @t')\ndef bad(d, name):\n    return d.query('a > @' + name)",
    )
    assert everything is access(source, namespace).everything


@pytest.mark.parametrize(
    "source",
    [
        "eval('x')", "exec('y = x')", "globals()['x']", "locals()", "vars()", "dir()", "get_ipython().user_ns['x']",
        "get_ipython().run_line_magic('run', 'other.py')", "get_ipython().run_line_magic('whos', '')",
        "get_ipython().run_line_magic('unheard_of', '')", "get_ipython().run_cell_magic('cython', '', 'x')",
        "import sys\nsys.modules['__main__'].x", "import builtins\nbuiltins.eval('x')", "f = eval",
        "import sys\nsys._getframe(0).f_globals", "import importlib\nimportlib.import_module('__main__')",
        "hidden()", "deep()", "frame()", "main()",
    ],
)  # fmt: skip
def test_what_may_read_any_name_reads_everything(source: str) -> None:
    """eval, exec, globals, the shell, frames and unknown magics make the whole namespace an input, with a reason."""
    namespace = notebook(
        "import sys",
        "def hidden():\n    return eval('x')",
        "def deep():\n    return (lambda: globals())()",
        "def frame():\n    return sys._getframe(0)",
        "def main():\n    import __main__\n    return __main__.x",
    )
    found = access(source, namespace)
    assert found.everything
    assert found.why_everything


@pytest.mark.parametrize(
    "source", ["vars(obj)", "dir(obj)", "def f():\n    return locals()\nf()", "__name__ == '__main__'"]
)
def test_looking_at_one_object_does_not_read_everything(source: str) -> None:
    """`vars` and `dir` of an object, and locals of a function, say nothing about the namespace."""
    assert not access(source, {"obj": 1}).everything


@pytest.mark.parametrize(
    ("source", "absence"),
    [
        ("try:\n    x\nexcept NameError:\n    x = 0", True),
        ("try:\n    x\nexcept:\n    x = 0", True),
        ("try:\n    x\nexcept (KeyError, Exception):\n    x = 0", True),
        ("try:\n    x\nexcept KeyError:\n    x = 0", False),
        ("if 'x' not in globals():\n    x = 0", True),
        ("if 'x' in dir():\n    x = 0", True),
        ("probe()", True),
    ],
)
def test_code_that_copes_with_an_absent_name_is_told(source: str, absence: bool) -> None:
    """A cell whose result depends on a name being absent says so and names it, without reading everything."""
    found = access(
        source, notebook("def probe():\n    try:\n        return x\n    except NameError:\n        return 0")
    )
    assert (absence, True, False) == (found.handles_absence, "x" in found.reads, found.everything)


# -- the shell's own names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("_3 + 1", {"Out[3]"}),
        ("Out[3]", {"Out[3]"}),
        ("_ + __ + ___", {"Out[*]"}),
        ("Out[n]", {"Out[*]", "n"}),
        ("_i3, In[-1]", {"In[3]", "In[*]"}),
        ("for _ in range(3): print(_)", set()),
        ("open('p')", set()),
    ],
)
def test_earlier_outputs_are_inputs_under_their_own_names(source: str, expected: set[str]) -> None:
    """`_3` and `Out[3]` are the same input; the moving names stand for any output."""
    namespace = notebook("_3 = 1\n_ = __ = ___ = 2\nIn = []\nOut = {3: 1}\nn = 3\nimport io\nopen = io.open")
    assert expected == reads(source, namespace)


# -- magics and shells ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected_reads", "expected_stores"),
    [
        ("get_ipython().run_cell_magic('time', '', 'y = x\\n')", {"x"}, {"y"}),
        ("get_ipython().run_line_magic('time', 'y = x')", {"x"}, {"y"}),
        ("get_ipython().run_line_magic('timeit', '-n 3 -r1 x + 1')", {"x"}, set()),
        (
            "get_ipython().run_cell_magic('capture', 'out --no-stderr', '%matplotlib inline\\ny = x')",
            {"x"},
            {"y", "out"},
        ),
        ("get_ipython().run_line_magic('matplotlib', 'inline')", set(), set()),
        ("get_ipython().run_line_magic('cd', '$x')", {"x"}, set()),
        ("files = get_ipython().getoutput('ls {x}')", {"x"}, {"files"}),
        ("get_ipython().run_cell_magic('bash', '--out res', 'echo $x')", {"x"}, {"res"}),
        ("get_ipython().run_cell_magic('time', '', '%%time\\n!ls {x}')", {"x"}, set()),
    ],
)
def test_magics_that_hold_code_are_analysed(source: str, expected_reads: set[str], expected_stores: set[str]) -> None:
    """Bodies of timing magics are code; the shell's `{name}` and `$name` are reads."""
    found = access(source, {"x": 1})
    assert (expected_reads, expected_stores) == (set(found.reads), set(found.stores))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("get_ipython().system('ls')", {"shell command"}),
        ("get_ipython().run_cell_magic('bash', '', 'ls')", {"%%bash"}),
        ("import os\nos.system('ls')", {"shell command"}),
        ("import requests", set()),
        ("import requests\nrequests.get(u)", {"network: requests"}),
        ("from urllib.request import urlopen\nurlopen(u)", {"network: urllib"}),
        ("subprocess.run(['ls'])", {"other program: subprocess"}),
        ("call()", {"other program: subprocess"}),
        ("input()", {"input()"}),
        ("pd.read_parquet('p')", {"read_parquet may read files unseen"}),
        ("pd.read_csv('p')", set()),
        ("load('p')", {"read_parquet may read files unseen"}),
    ],
)
def test_inputs_that_no_audit_event_shows_are_named(source: str, expected: set[str]) -> None:
    """Shells, other programs, the network and readers in C make the inputs unknown, with the reason."""
    namespace = notebook(
        "import subprocess, types\npd = types.ModuleType('pd')",
        "def call():\n    return subprocess.run(['ls'])\ndef load(p):\n    return pd.read_parquet(p)",
    )
    assert expected == set(access(source, namespace).unknown_inputs)


def test_a_database_connection_makes_inputs_unknown() -> None:
    """An object of a database library counts as its library."""
    sqlite3 = pytest.importorskip("sqlite3")
    connection = sqlite3.connect(":memory:")
    try:
        assert ("sqlite3",) == access("con.execute('select 1')", {"con": connection}).unknown_inputs
    finally:
        connection.close()


# -- effects that no delta holds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "has_effect"),
    [
        ("Decoder.f = 1", True),
        ("json.x = 1", True),
        ("json.items['k'] = 1", True),
        ("del json.items['k']", True),
        ("json.items += [1]", True),
        ("for json.x in 'ab': pass", True),
        ("setattr(json, 'x', 1)", True),
        ("json.items.append(1)", True),
        ("json.decoder.items.update(a=1)", True),
        ("json.append([1], 2)", False),
        ("decimal.getcontext().prec = 50", False),
        ("from decimal import getcontext as g\ng().prec = 50", False),
        ("decimal.shared().prec = 50", True),
        ("import atexit\natexit.register(print)", True),
        ("from unheard_of import registry\nregistry['k'] = 1", True),
        ("from unheard_of import registry\nregistry.add(1)", True),
        ("import json\njson.loads('1')", False),
        ("sys.path.append('lib')", False),
        ("sys.modules['x'] = json", False),
        ("os.environ['A'] = 'b'", False),
        ("import sys as s\ns.path.insert(0, 'lib')", False),
        ("Mine.f = 1", False),
        ("mine.items.append(1)", False),
        ("xs = []\nxs.append(1)", False),
        ("patch()", True),
        ("grow()", True),
        ("fine()", False),
    ],
)
def test_changes_of_modules_and_imported_classes_are_effects(source: str, has_effect: bool) -> None:
    """What hangs on a module or an imported class is in no delta; process state and notebook objects are."""
    namespace = notebook(
        "import decimal, json, os, sys\nfrom json import JSONDecoder as Decoder",
        "class Mine:\n    items = []\nmine = Mine()",
        "def patch():\n    Decoder.f = 1\ndef grow():\n    json.items.append(1)",
        "def fine():\n    mine.items.append(1)\n    sys.path.append('x')",
    )
    assert has_effect is bool(access(source, namespace).outside_effects)


# -- local modules -------------------------------------------------------------------------------------------------


def test_contents_of_local_modules_are_input(project: Path) -> None:
    """A local module and the local modules it imports are inputs; installed ones and the standard library are not."""
    (project / "inner_zz.py").write_text("K = 1\n")
    (project / "outer_zz.py").write_text("import inner_zz, json\n\ndef f():\n    return inner_zz.K\n")
    expected = ("inner_zz", "outer_zz")
    assert expected == access("import outer_zz, json, pytest").modules
    assert expected == access("from outer_zz import f").modules
    namespace = notebook("import outer_zz\nfrom outer_zz import f\ndef g():\n    return f()")
    assert [expected] * 3 == [access(s, namespace).modules for s in ("outer_zz.f()", "f()", "g()")]


def test_functions_of_local_modules_that_keep_state_are_effects(project: Path) -> None:
    """`helpers.register(x)` leaves `x` in the module, where no delta sees it."""
    (project / "helpers_zz.py").write_text(
        "ITEMS = []\nN = 0\n\ndef register(x):\n    _put(x)\n\ndef _put(x):\n    ITEMS.append(x)\n\n"
        "def count():\n    global N\n    N += 1\n\ndef pure(x):\n    return [x]\n"
    )
    namespace = notebook("import helpers_zz\nfrom helpers_zz import register\ndef f():\n    helpers_zz.count()")
    cells = ("register(1)", "helpers_zz.register(1)", "f()", "helpers_zz.count()", "helpers_zz.pure(1)")
    assert [True, True, True, True, False] == [bool(access(c, namespace).outside_effects) for c in cells]


def test_module_digest_follows_the_source(project: Path) -> None:
    """The digest of a package changes with any of its files and is None for what is not local."""
    (project / "pkg_zz").mkdir()
    (project / "pkg_zz" / "__init__.py").write_text("")
    (project / "pkg_zz" / "part.py").write_text("A = 1\n")
    first = module_digest("pkg_zz")
    (project / "pkg_zz" / "part.py").write_text("A = 2\n")
    assert first is not None
    assert first != module_digest("pkg_zz")
    assert [None] * 4 == [module_digest(n) for n in ("json", "pytest", "sys", "not_there_zz")]


# -- the code itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = 1", "x  =  1  # one\n\n", True),
        ("f(a,\n  b)", "f(a, b)", True),
        ("x = 1", "x = 1.0", False),
        ("x = 1", "x = True", False),
        ("x = 'a'", 'x = "a"', True),
        ("x = 'a'", "x = u'a'", True),
        ("x", "x;", False),
        ("x; ", "x;  # quiet", True),
        ("x = 1;", "x = ';'", False),
        ("global a, b", "global ab", False),
        ("a - b", "b - a", False),
        ("for", "for  ", False),
        ("x = 0.0", "x = -0.0", False),
    ],
)
def test_code_hash_is_of_the_code_not_of_its_looks(one: str, other: str, same: bool) -> None:
    """Comments and formatting do not matter; values, order and a trailing `;` do."""
    assert same is (code_hash(one) == code_hash(other))


def test_code_hash_has_no_depth_limit_of_its_own() -> None:
    """A sum of thousands of terms, or text that is no Python, still has a hash."""
    assert 64 == len(code_hash("+".join(["1"] * 900)))
    assert 64 == len(code_hash("this is not python \ud800"))


def test_analysing_runs_no_code_of_the_namespace() -> None:
    """Properties, `__getattr__`, `__eq__` and iteration of user objects are never called."""
    namespace = notebook(
        """
        class Trap:
            def __getattribute__(self, name): raise AssertionError(name)
            def __iter__(self): raise AssertionError
            def __eq__(self, other): raise AssertionError
            def __hash__(self): raise AssertionError
            def __len__(self): raise AssertionError
            def __bool__(self): raise AssertionError
        trap = Trap()
        traps = [trap, {'a': trap}]
        """
    )
    assert {"trap", "traps", "Trap"} >= reads("trap.x, traps", namespace) >= {"trap", "traps"}


def test_objects_of_other_libraries_lead_to_the_functions_they_hold() -> None:
    """A library object that keeps a notebook function in an attribute leads to that function's globals."""
    module = ModuleType("library_zz")
    exec("class Step:\n    def __init__(self, func): self.func = func", vars(module))
    namespace = notebook("t = 1\nstep = Step(lambda: t)", Step=module.Step)
    assert {"step", "t"} == reads("step", namespace)


def test_real_library_values_are_walked_without_harm() -> None:
    """Values of common types neither raise nor read everything."""
    namespace = {
        "a": json, "b": functools, "c": Path("x"), "d": {1, 2}, "e": iter([1]), "f": sys.stdout, "g": Exception("df"),
    }  # fmt: skip
    found = access("a, b, c, d, e, f, g", namespace)
    assert (frozenset(namespace), False) == (found.reads, found.everything)


# -- what is read past the names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import __main__\ny = __main__.v", {"v"}),
        ("import __main__ as m\ny = m.v.w", {"v"}),
        ("from __main__ import v as w\ny = w", {"v"}),
        ("v = 1\nimport __main__\ny = __main__.v", set()),
        ("def f():\n    import __main__ as m\n    v = 0\n    return m.v\ny = f()", {"v"}),
        ("y = me.v", {"v"}),
        ("import sys\ny = sys.modules['json'].loads", set()),
        ("import sys\ny = 'json' in sys.modules or sys.modules.get('json')", set()),
        ("import sys\nsys.modules[name] = 1", {"name"}),
    ],
)
def test_attributes_of_the_notebook_as_a_module_are_names(source: str, expected: set[str]) -> None:
    """`__main__.v` reads v, and a module looked up by its written name reads nothing of the notebook."""
    found = access(source, {"v": 1, "other": 2, "me": ModuleType("__main__")})
    assert (expected, False) == (set(found.reads), found.everything)


@pytest.mark.parametrize(
    "source",
    [
        "import __main__\ny = getattr(__main__, name)",
        "import __main__\ny = __main__.__dict__[name]",
        "import __main__ as m\nn = m\ny = n.v",
        "from __main__ import *",
        "import sys\ny = sys.modules[__name__].v",
        "import sys\ny = sys.modules.get(__name__)",
        "import sys\nms = sys.modules\ny = ms[name]",
        "from sys import modules as ms\ny = ms[__name__].v",
        "y = by_name()",
        "y = by_object()",
        "y = held[0].v",
    ],
)
def test_the_notebook_as_a_module_may_give_any_name(source: str) -> None:
    """What is asked of `__main__` by a name that is not in the code reads everything."""
    namespace = notebook(
        "import sys\ndef by_name():\n    return sys.modules[__name__].v\ndef by_object():\n    return me.v",
        me=ModuleType("__main__"),
        held=[ModuleType("__main__")],
    )
    assert access(source, namespace).everything


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n    import __main__\n    return __main__.v", True),
        ("from __main__ import v\nf = lambda: v", True),
        ("import sys\nclass C:\n    def f(self):\n        return sys.modules['__main__'].v\nf = C().f", True),
        ("import sys\ndef f():\n    return sys._getframe(1).f_globals['v']", True),
        ("def f(): pass\nif __name__ == '__main__':\n    f()", False),
    ],
)
def test_local_modules_that_ask_the_notebook_read_everything(project: Path, text: str, expected: bool) -> None:
    """A module of the user's that imports `__main__` or looks at frames may read any name; a main guard reads none."""
    (project / "asking.py").write_text(text)
    assert expected == access("import asking\ny = asking.f()").everything


@pytest.mark.parametrize(
    ("setup", "source", "expected"),
    [
        ("import pyarrow.parquet as pq", "pq.read_table('p')", "read_table"),
        ("import pyarrow.dataset as ds", "ds.dataset('p')", "dataset"),
        ("import pyarrow as pa", "pa.memory_map('p')", "memory_map"),
        ("import pyarrow as pa", "pa.OSFile('p')", "OSFile"),
        ("from pyarrow.feather import read_table as rt", "rt('p')", "read_table"),
        ("from pyarrow import fs", "fs.LocalFileSystem()", "LocalFileSystem"),
        ("import pyarrow.csv as c", "c.read_csv('p')", "read_csv"),
        ("import pyarrow.json as j", "j.read_json('p')", "read_json"),
        ("import pyarrow.orc as o", "o.ORCFile('p')", "ORCFile"),
        ("from lxml import etree", "etree.parse('p')", "parse"),
        ("from polars import read_parquet as rp", "rp('p')", "read_parquet"),
        ("import polars as pl\nread = {'csv': pl.read_csv}", "read['csv']('p')", "read_csv"),
        ("import pyarrow.parquet as pq\ndef f(p):\n    return pq.read_table(p)", "f('p')", "read_table"),
        ("import pyarrow as pa\ndef f(p):\n    return pa.memory_map(p)", "f('p')", "memory_map"),
        ("import pyarrow\ndef f(p):\n    from pyarrow import OSFile as o\n    return o(p)", "f('p')", "OSFile"),
        ("import pyarrow", "def f(p):\n    import pyarrow as pa\n    return pa.OSFile(p)\nf('p')", "OSFile"),
        ("import lxml.etree", "from lxml.etree import *\nparse('p')", "parse"),
    ],
)
def test_readers_are_known_by_the_object_and_not_by_the_name(setup: str, source: str, expected: str) -> None:
    """A reader in C or Rust makes the inputs unknown under whatever name it is called."""
    pytest.importorskip(setup.split()[1].partition(".")[0])
    namespace = notebook(setup)
    assert (f"{expected} may read files unseen",) == access(source, namespace).unknown_inputs


def test_functions_that_only_share_a_readers_name_are_none() -> None:
    """`parse` and `read_table` of other modules read as usual."""
    namespace = notebook("import ast, pandas as pd\ndef parse(p):\n    return p")
    assert () == access("ast.parse('1'), pd.read_csv, parse(1)", namespace).unknown_inputs


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import os\ny = os.environ['A']", {"A"}),
        ("import os\ny = os.environ.get('A', 'd')", {"A"}),
        ("import os\ny = os.getenv('A')", {"A"}),
        ("import os\ny = 'A' in os.environ", {"A"}),
        ("from os import environ as e, getenv\ny = e['A'] + getenv('B')", {"A", "B"}),
        ("import os\ny = dict(os.environ)", {"*"}),
        ("import os\ny = [k for k in os.environ]", {"*"}),
        ("import os\ny = os.environ[z]", {"*"}),
        ("import os\ny = os.environ[key]", {"K"}),
        ("import os\nos.environ['A'] = '1'", set()),
        ("import os\nos.environ['A'] += '1'", {"A"}),
        ("import os\ny = os.path.join('a', 'b')", set()),
        ("def f():\n    import os\n    return os.environ['A']\ny = f()", {"A"}),
        ("def f():\n    import os as o\n    return o.environ['A']\ny = f()", {"A"}),
        ("from os import *\ny = environ['A']", {"A"}),
        ("y = env['A']", {"A"}),
        ("y = sub()", {"A"}),
        ("y = get()", {"B"}),
        ("y = old()", {"C"}),
        ("y = has()", {"D"}),
        ("y = everything()", {"*"}),
        ("y = handed()", {"*"}),
        ("sets()", set()),
    ],
)
def test_environment_variables_are_read_by_name(source: str, expected: set[str]) -> None:
    """Every way to ask for an environment variable gives its name, `*` where the name is not in the code."""
    namespace = notebook(
        """
        import os
        env, key = os.environ, 'K'
        def sub():
            return os.environ['A']
        def get():
            return os.environ.get('B', 'd')
        def old():
            return os.getenv('C')
        def has():
            return 'D' in os.environ
        def everything():
            return {**os.environ}
        def handed():
            return print(os.environ, 'A')
        def sets():
            os.environ['A'] = '1'
        """
    )
    assert expected == set(access(source, namespace).environ)


@pytest.mark.parametrize(
    ("source", "present", "unknown"),
    [
        ("import os\nif not os.path.exists('c'): pass", {"c"}, False),
        ("from os.path import isfile as there\nthere('c')", {"c"}, False),
        ("import os\nos.path.isdir(os.path.join('a', 'c'))", {"a/c"}, False),
        ("from pathlib import Path\nPath('c').exists()", {"c"}, False),
        ("from pathlib import Path\np = Path('a') / 'c'\np.is_file()", {"a/c"}, False),
        ("(folder / 'c').is_dir()", {"data/c"}, False),
        ("import os\nos.path.exists(name)", {"text"}, False),
        ("import os\nos.path.exists(f())", set(), True),
        ("import os\nos.path.getmtime('c')", set(), True),
        ("import os\nos.stat('c').st_size", set(), True),
        ("import os\nos.access('c', os.R_OK)", set(), True),
        ("import os\nlist(filter(os.path.exists, 'ab'))", set(), True),
        ("from pathlib import Path\n[p.exists() for p in map(Path, 'ab')]", set(), True),
        ("folder.stat()", set(), True),
        ("in_function()", set(), True),
        ("by_method()", set(), True),
        ("of_global()", set(), True),
        ("checks[0]('c')", set(), True),
        ("import os.path\nos.path.basename('c')", set(), False),
        ("def f():\n    import os as o\n    return o.path.isfile('c')\nf()", {"c"}, False),
        ("local_import()", set(), True),
        ("query.exists()", set(), False),
        ("import os", set(), False),
    ],
)
def test_questions_about_files_are_inputs(source: str, present: set[str], unknown: bool) -> None:
    """Whether a known path is there is an input; every other question about files makes the inputs unknown."""
    namespace = notebook(
        """
        import os
        from pathlib import Path
        class Query:
            stat = 1
            def exists(self):
                return self.stat
        folder, name, query, checks = Path('data'), 'text', Query(), [os.path.exists]
        def f():
            return 'c'
        def in_function():
            return os.path.exists('c')
        def by_method():
            return Path('c').exists()
        def of_global():
            return folder.exists()
        def local_import():
            import os as o
            return o.path.isfile('c')
        """
    )
    found = access(source, namespace)
    assert (present, ("file metadata",) if unknown else ()) == (set(found.present), found.unknown_inputs)


def test_functions_that_differ_in_one_constant_are_told_apart() -> None:
    """What is remembered of code is of that code: the same function with another text reads another variable."""
    facts = [
        code_facts(compile(f"lambda: os.environ[{name!r}]", "<cell>", "eval").co_consts[0]) for name in ("ONE", "TWO")
    ]
    assert [{"ONE"}, {"TWO"}] == [set(f.environ) for f in facts]
    same = [code_facts(compile(f"lambda: g({value})", "<cell>", "eval").co_consts[0]) for value in ("1", "True", "1.0")]
    assert [{"g"}] * 3 == [set(f.loads) for f in same]


def test_the_environment_is_seen_in_whatever_form_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that holds the environment reads all of it, also where somebody put a plain dict in its place."""
    monkeypatch.setattr(os, "environ", {"HOME": "/"})
    namespace = {"held": [os.environ], "other": [{"HOME": "/"}]}
    found = [analyse(ast.parse(source), source, namespace).environ for source in ("x = held", "x = other")]
    assert [{"*"}, set()] == [set(f) for f in found]


def test_objects_of_one_kind_are_each_looked_at() -> None:
    """What is known of a class is not taken for what is known of its objects: each may lead somewhere else."""

    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("class Holder: pass\ndef leads(): return elsewhere\none, many = Holder(), [Holder(), Holder()]", namespace)
    namespace["elsewhere"] = 2
    namespace["one"].held, namespace["many"][1].held = 1, namespace.pop("leads")
    assert "elsewhere" not in analyse(ast.parse("one"), "one", namespace).reads
    assert "elsewhere" in analyse(ast.parse("many"), "many", namespace).reads


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_pieces_of_code_are_shown_as_they_are_written(end: str) -> None:
    """A piece is what the source has there: over several lines, behind letters of several bytes, with a form feed."""
    lines = ["x = 'ü' + f(a,", "      b)[0]; ж = g('é', (1,", "", "\t2))", "\x0cy = x.real if x else [i for i in z]"]
    source = end.join(lines)
    tree = ast.parse(source)
    cell = Cell({}, tree, source)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    assert [ast.get_source_segment(source, n) for n in nodes] == [cell._shown(n) for n in nodes]
    made = ast.parse("f(1)").body[0].value  # type: ignore[attr-defined]
    made.end_lineno = None
    assert "f(1)" == cell._shown(made)
