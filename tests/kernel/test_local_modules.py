"""Local modules in a real kernel: what cells change in them is there after a loss, or is said to be lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives

ENGINE = """
import collections

STATE = []
NESTED = {}
COUNTS = collections.Counter()
LEVEL = 1

class E:
    inst = []
    made = 0

def push(x):
    STATE.append(x)
    E.inst.append(x)
    E.made += 1
    COUNTS[x] += 1
    return len(STATE)
"""
PLUGINS = "import registry\n\n@registry.register\ndef upper(text):\n    return text.upper()\n"
REGISTRY = "FOUND = {}\n\ndef register(f):\n    FOUND[f.__name__] = f\n    return f\n"
LAZY = """
import abc
import enum
import functools

class Mode(enum.Flag):
    A = 1
    B = 2

class Base(abc.ABC):
    @functools.cached_property
    def size(self):
        return 3

class Column:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        setattr(owner, self.name, Column.__new__(Column))
        getattr(owner, "__dict__")[self.name].name = self.name
        return 1

class User(Base):
    column = Column()
"""
REPORTED = "sorted(u.name for u in __import__('durable_nb').unsaved())"


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook with local modules beside it."""
    (tmp_path / "eng.py").write_text(ENGINE)
    (tmp_path / "registry.py").write_text(REGISTRY)
    (tmp_path / "plugins.py").write_text(PLUGINS)
    with Lives(tmp_path) as found:
        yield found


CHANGED = ["eng.COUNTS", "eng.E.inst", "eng.E.made", "eng.STATE"]


def test_changes_in_the_cell_of_the_import_are_reported(lives: Lives) -> None:
    """Containers and class attributes that the importing cell changed are named at the save and after the loss."""
    lives.run("import eng; eng.push(1)")
    assert lives.value(REPORTED) == CHANGED
    lives.kill()
    assert lives.value(REPORTED) == CHANGED
    assert lives.value("[eng.STATE, eng.E.inst, eng.E.made]") == [[], [], 0]


def test_run_all_changes_modules_again(lives: Lives) -> None:
    """After a loss the cells that changed a module run again, and find it as the import makes it."""
    cells = ["import eng; eng.push(1)", "eng.push(2);", "n = len(eng.STATE)"]
    lives.run(*cells)
    for _ in range(2):
        lives.kill()
        assert lives.run_all(cells)[:2] == [False, False]
        assert lives.value("[n, eng.STATE, eng.E.inst, eng.E.made]") == [2, [1, 2], [1, 2], 2]


def test_run_all_counts_once(lives: Lives) -> None:
    """A cell that counts in a module and runs again finds the number as it was before it, in its own life and later."""
    cells = ["import eng, colorsys", "eng.LEVEL += 1", "a = eng.LEVEL", "eng.LEVEL += 1", "colorsys.ONE_THIRD += 1"]
    lives.run(*cells)
    for _ in range(2):
        lives.kill()
        lives.run_all(cells)
        assert lives.value("[a, eng.LEVEL, round(colorsys.ONE_THIRD, 1)]") == [2, 3, 1.3]
    lives.run(cells[1])
    assert lives.value("eng.LEVEL") == 4


def test_who_reads_a_module_runs_again_when_the_cell_that_changes_it_was_edited(lives: Lives) -> None:
    """What a cell does to a module is no input that could be compared; that the cell is another one is known."""
    cells = ["import eng", "eng.push(1)", "n = len(eng.STATE)", "x = 1"]
    lives.run(*cells)
    lives.kill()
    edited = [cells[0], "eng.push(1); eng.push(2)", *cells[2:]]
    assert lives.run_all(edited) == [True, False, False, True]
    assert lives.value("n") == 2
    lives.kill()
    assert lives.run_all(edited) == [True, False, True, True]
    assert lives.value("[n, eng.STATE]") == [2, [1, 2]]


def test_values_that_cannot_be_compared_cost_no_module(lives: Lives, tmp_path: Path) -> None:
    """A module with arrays, and with what raises when it is compared, is looked at like any other."""
    (tmp_path / "held.py").write_text(
        "import numpy as np\nclass Odd:\n    def __eq__(self, other): raise RuntimeError('asked')\n"
        "arr, odd, N, rows = np.arange(3), Odd(), 1, []\n"
    )
    lives.run("import held", "x = 1", "held.rows.append(1)\nheld.N = 2", "y = 2")
    assert lives.value(REPORTED) == ["held.rows"]
    lives.kill()
    assert lives.value("[held.N, held.rows, x, y]") == [2, [], 1, 2]
    assert lives.value(REPORTED) == ["held.rows"]


CONFIG = """
import argparse
class Config:
    def __init__(self):
        self.rate, self.steps = 1, [1]
cfg, args, table, log = Config(), argparse.Namespace(size=1), {"a": 1}, __import__("logging").getLogger("x")
def tune():
    cfg.rate += 1
"""


def test_what_was_imported_by_name_and_changed_in_place_comes_back(lives: Lives, tmp_path: Path) -> None:
    """The variable is as it was, and that its module makes another one is said; what nobody changed is the module's."""
    (tmp_path / "conf.py").write_text(CONFIG)
    lives.run("import conf\nfrom conf import args, cfg, log, table, tune\nlog.info('quiet')")
    assert lives.value(REPORTED) == []
    lives.kill()
    assert lives.value("[cfg is conf.cfg, args is conf.args, table is conf.table]") == [True] * 3
    lives.run("cfg.rate = 5\ncfg.steps.append(2)\nargs.size = 7\ntable['b'] = 2", "tune()\nrate = cfg.rate")
    changed = ["conf.args", "conf.cfg", "conf.table"]
    assert lives.value(REPORTED) == changed
    lives.kill()
    assert lives.value("[cfg.rate, cfg.steps, args.size, table, rate]") == [6, [1, 2], 7, {"a": 1, "b": 2}, 6]
    assert lives.value("[type(cfg) is conf.Config, cfg is conf.cfg]") == [True, False]
    assert lives.value(REPORTED) == changed


def test_an_alias_stays_the_object_of_the_module(lives: Lives) -> None:
    """A variable that is a module's unchanged container is that container after a loss, in other objects as well."""
    lives.run("import eng\nalias = eng.STATE\nholder = {'s': eng.STATE}\ncounts = eng.COUNTS")
    lives.kill()
    assert lives.value("[alias is eng.STATE, holder['s'] is alias, counts is eng.COUNTS]") == [True, True, True]
    assert lives.value(REPORTED) == []
    lives.run("alias.append(5)")
    assert lives.value(REPORTED) == ["eng.STATE"]
    lives.kill()
    assert lives.value("[alias, holder['s'] is alias, eng.STATE]") == [[5], True, []]


def test_what_cells_set_or_nest_is_reported(lives: Lives) -> None:
    """New attributes, nested containers and containers with variables in them are reported by name."""
    lives.run("import eng\nrow = [1]\neng.NESTED['row'] = row\neng.E.inst.append(row)\neng.extra = [1]\neng.E.new = 1")
    assert lives.value(REPORTED) == ["eng.E.inst", "eng.E.new", "eng.NESTED", "eng.extra"]


FUNCTIONS = """
import functools

def plain(x, *, scale=1):
    return x * scale

def counted(seen=[]):
    seen.append(1)
    return len(seen)

@functools.wraps(plain)
def wrapped(*args):
    wrapped.calls = getattr(wrapped, "calls", 0) + 1
    return plain(*args)

def coded():
    return 1

class Tool:
    @staticmethod
    def make(size=1):
        return size
"""


def test_what_cells_set_on_functions_is_reported(lives: Lives, tmp_path: Path) -> None:
    """Attributes, defaults and code of a module's functions are named, also those that the functions set themselves."""
    (tmp_path / "funs.py").write_text(FUNCTIONS)
    lives.run("import funs\nfrom funs import plain, counted\nplain(3)")
    assert lives.value(REPORTED) == []
    lives.run("plain.__kwdefaults__['scale'] = 2\ncounted()\nfuns.wrapped(2)\nfuns.Tool.make.__defaults__ = (5,)")
    lives.run("def coded():\n    return 2\nfuns.coded.__code__ = coded.__code__")
    changed = ["funs.Tool.make", "funs.coded", "funs.counted", "funs.plain", "funs.wrapped"]
    assert lives.value(REPORTED) == changed
    lives.kill()
    assert lives.value(REPORTED) == changed


def test_what_takes_the_address_of_what_it_replaces_is_seen(lives: Lives) -> None:
    """An object made where the one before it was is another one, whether it is a tuple or an instance."""
    lives.run("import eng\neng.BEST = (0, 0.0)\neng.MODEL = eng.E()")
    lives.kill()
    lives.run("import eng\neng.BEST = (0, 0.0)\neng.MODEL = eng.E()", "x = 1")
    assert lives.value(REPORTED) == ["eng.BEST", "eng.MODEL"]
    lives.run("class C: pass", "import eng\nfor n in range(2): eng.E.best = (n, float(n))")
    assert "eng.E.best" in lives.value(REPORTED)


def test_modules_that_nobody_changed_are_not_reported(lives: Lives) -> None:
    """What modules do to each other while they are imported is no change, in one cell or in several."""
    lives.run("import registry", "import plugins", "import eng", "names = sorted(registry.FOUND)")
    assert lives.value(REPORTED) == []
    lives.kill()
    assert lives.value(REPORTED) == []
    assert lives.value("[sorted(registry.FOUND), names]") == [["upper"], ["upper"]]


def test_use_of_a_module_is_no_change(lives: Lives) -> None:
    """What Python and libraries note in classes when they are used (flags, checks, descriptors) is not reported."""
    (lives.folder / "lazy.py").write_text(LAZY)
    lives.run("import lazy\nboth = lazy.Mode.A | lazy.Mode.B\nuser = lazy.User()")
    lives.run("seen = [isinstance(3, lazy.Base), user.size, user.column, lazy.User.column]")
    lives.run("lazy.Base.register(int)")
    assert lives.value(REPORTED) == []


def test_changed_methods_of_classes_are_reported(lives: Lives) -> None:
    """A function, a class or a property that a cell puts into a class of a local module is named."""
    lives.run("import eng\neng.E.method = lambda self: 1\neng.E.prop = property(lambda self: 1)\neng.E.one = eng.E()")
    assert lives.value(REPORTED) == ["eng.E.method", "eng.E.one", "eng.E.prop"]


def test_watching_imports_is_not_seen(lives: Lives) -> None:
    """A module has its usual loader, and the traceback of one that fails shows the user's files only."""
    (lives.folder / "broken.py").write_text("1 / 0\n")
    lives.run("import eng")
    assert (
        lives.value("[type(eng.__loader__).__name__, type(eng.__spec__.loader).__name__]") == ["SourceFileLoader"] * 2
    )
    code = (
        "import traceback\ntry:\n    import broken\nexcept ZeroDivisionError as e:\n"
        "    frames = [f.filename.rpartition('/')[2] for f in traceback.extract_tb(e.__traceback__)][1:]\n"
    )
    lives.run(code)
    assert lives.value("frames") == ["broken.py"]
