"""Objects of local modules that variables hold, and cells that change them: the module's stays the one in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives

ENG = """
class Cfg:
    def __init__(self):
        self.rate = 1
        self.tags = []
    def bump(self):
        self.rate += 1
cfg = Cfg()
cfg.child = Cfg()
T = {"a": 1}
def get():
    return (cfg.rate, cfg.child.rate)
"""
UNSAVED = "sorted(u.name for u in __import__('durable_nb').unsaved())"


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook beside a module `eng`."""
    (tmp_path / "eng.py").write_text(ENG)
    with Lives(tmp_path) as started:
        yield started


EDITS = {
    "an attribute": ("import eng", "eng.cfg.rate = 5", "z = 1", "x = eng.cfg.rate", 1),
    "what it is set to": ("import eng\nv = 5", "eng.cfg.rate = v", None, "x = eng.get()[0]", 6),
    "through a variable": ("import eng\nfrom eng import cfg", "cfg.rate = 5", "cfg.rate = 6", "x = eng.get()[0]", 6),
    "a dictionary": ("import eng\nfrom eng import T", "T['a'] = 5", "T['a'] = 6", "x = eng.T['a']", 6),
}


@pytest.mark.parametrize("what", EDITS)
def test_who_reads_a_module_runs_again_when_what_was_set_is_another(lives: Lives, what: str) -> None:
    """Whatever leads to another change: an edited cell, one that is gone, or a value that it read."""
    first, change, edited, reader, expected = EDITS[what]
    lives.run(first, change, reader)
    lives.kill()
    lives.run(first.replace("v = 5", "v = 6"), edited or change, reader)
    assert lives.value("x") == expected


def test_a_cell_that_is_gone_is_missed(lives: Lives) -> None:
    """Run All without the cell that had changed the module."""
    lives.run("import eng", "eng.cfg.rate = 5", "x = eng.cfg.rate")
    lives.kill()
    lives.run("import eng", "x = eng.cfg.rate")
    assert lives.value("x") == 1


HOLDERS = {
    "c = eng.cfg": "c",
    "d = {'c': eng.cfg}": "d['c']",
    "import types\nn = types.SimpleNamespace(c=[eng.cfg])": "n.c[0]",
    "bump = eng.cfg.bump": "bump.__self__",
    "def hold(c):\n    return lambda: c\nf = hold(eng.cfg)": "f()",
    "ts = [eng.T]": "(ts[0] is eng.T and eng.cfg)",
}


@pytest.mark.parametrize("run_all", [False, True])
def test_who_holds_an_object_of_a_module_goes_on_holding_it(lives: Lives, run_all: bool) -> None:
    """It is stored as the module's, wherever it is held, as long as it is as the import makes it."""
    cells = ["import eng", *HOLDERS]
    lives.run(*cells)
    lives.kill()
    lives.run(*cells * run_all, "c.rate = 5", "y = eng.get()[0]")
    assert lives.value(f"[{', '.join(f'{path} is eng.cfg' for path in HOLDERS.values())}]") == [True] * len(HOLDERS)
    assert lives.value("y") == 5


def test_changes_deep_inside_are_seen(lives: Lives) -> None:
    """The variable comes back as it was, and the module's part is reported; a finished cell above stays finished."""
    cells = ["import eng\nfrom eng import cfg", "cfg.child.rate = 9\ncfg.child.tags.append(1)"]
    lives.run(*cells)
    lives.kill()
    assert lives.value(f"[cfg.child.rate, cfg.child.tags, {UNSAVED}]") == [9, [1], ["eng.cfg"]]
    lives.run(*cells, "cfg.rate = 5", "y = (cfg.rate, cfg.child.rate)")
    assert lives.value("y") == [5, 9]
    lives.kill()
    skipped = lives.run_all([*cells, "cfg.rate = 5", "y = (cfg.rate, cfg.child.rate)"])
    assert lives.value("[y, cfg.rate, cfg.child.rate]") == [[5, 9], 5, 9]
    assert all(skipped)
