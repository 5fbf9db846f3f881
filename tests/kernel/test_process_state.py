"""State outside the namespace: each row of the table of promises, set, killed and looked at in real kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import durable_nb
from durable_nb.testing.lives import Lives
from durable_nb.testing.process_kinds import REPORTED, RESTORED, Kind, document, libraries
from durable_nb.testing.process_kinds_libs import LIBRARIES
from durable_nb.testing.process_kinds_python import PYTHON
from durable_nb.testing.process_kinds_shell import SHELL

KINDS = (*PYTHON, *SHELL, *LIBRARIES)
GROUPS = tuple(dict.fromkeys(kind.group for kind in KINDS))
SAVED = "sorted({u.name for u in __import__('durable_nb').unsaved()})"


def _there(kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    absent = {name for name in libraries(kinds) if importlib.util.find_spec(name) is None}
    return tuple(kind for kind in kinds if absent.isdisjoint(kind.needs))


def _broken(lives: Lives, kinds: tuple[Kind, ...], *, made: bool) -> list[str]:
    broken = []
    for kind in kinds:
        if made or kind.promise == RESTORED:
            reply = lives.kernel.run(f"print(bool({kind.holds}))", store_history=False)
            if reply.status != "ok" or reply.text().splitlines()[-1:] != ["True"]:
                broken.append(f"{kind.what}: {reply.ename} {reply.evalue} {reply.text()}")
    return broken


def _lives() -> list[Any]:
    """All comes back at the load, or cell by cell while Run All skips: that of heavy libraries in the nightly tests."""
    heavy = {kind.group for kind in LIBRARIES}
    modes = {group: [(), pytest.mark.nightly] if group in heavy else [(), ()] for group in GROUPS}
    return [
        pytest.param(group, mode, marks=mark, id=f"{group}-{mode}")
        for group, marks in modes.items()
        for mode, mark in zip(("auto", "off"), marks, strict=True)
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("group", "restore"), _lives())
def test_every_kind_of_state_is_restored_or_reported(group: str, restore: str, tmp_path: Path) -> None:
    """After SIGKILL what is promised holds again, what is not is in `unsaved()` by name, and nothing else is."""
    environ = {"DURABLE_NB_ENV": "MY_FLAG,TZ", "DURABLE_NB_RESTORE": restore}
    kinds = _there(tuple(kind for kind in KINDS if kind.group == group))
    named = sorted({name for kind in kinds for name in kind.reported})
    with Lives(tmp_path, environ=environ) as lives:
        for kind in kinds:
            lives.run(kind.makes)
        assert [] == _broken(lives, kinds, made=True)
        assert named == lives.value(SAVED)
        lives.kill()
        if restore == "off":
            for kind in kinds:
                lives.run(kind.makes)
            lives.run("pass")
        assert [] == _broken(lives, kinds, made=False)
        assert named == lives.value(SAVED)


def test_the_table_says_what_is_tested() -> None:
    """`capture/PROCESS.md` holds the table that the rows above make."""
    text = (Path(durable_nb.__file__).parent / "capture" / "PROCESS.md").read_text()
    begin, end = "<!-- table of kinds: begin -->\n\n", "\n<!-- table of kinds: end -->"
    assert text.partition(begin)[2].partition(end)[0] == document(KINDS)
    assert {kind.promise for kind in KINDS} == {RESTORED, REPORTED}


_USUAL = (
    "import numpy as np\nimport pandas as pd",
    "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    "import os, sys, logging, warnings, random, json, time, asyncio, threading, signal\nnp.random.seed(1)",
    "import sklearn, scipy.stats\nfrom sklearn.linear_model import LinearRegression",
    "import torch\ntorch.manual_seed(1);",
    "import polars as pl, pyarrow as pa",
    "import seaborn as sns\nsns.set_theme()",
    "import sympy, xarray",
    "import plotly.express as px, plotly.io as pio",
    "import altair as alt",
    "import duckdb\nduckdb.sql('select 42 as a').fetchall()",
    "import requests, IPython\nfrom IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))",
    "pd.DataFrame({'a': [1.5]}).describe()",
    "class Point:\n    dimension = 2\nPoint.dimension = 3\np = Point()\np.x = 1\nfig, ax = plt.subplots()\nax.mine = 1",
)


@pytest.mark.timeout(300)
def test_a_usual_notebook_reports_nothing(tmp_path: Path) -> None:
    """Importing and using libraries is nothing that gets lost: nothing is reported, before and after a loss."""
    with Lives(tmp_path) as lives:
        assert [] == lives.value(SAVED)
        for cell in _USUAL:
            lives.kernel.run(cell)  # a library that is not installed makes its cell fail, and nothing more
            assert (cell, []) == (cell, lives.value(SAVED))
        assert "not back" not in lives.kill()
        assert [] == lives.value(SAVED)


def test_a_plain_notebook_has_no_state_outside_the_namespace(tmp_path: Path) -> None:
    """Nothing that the kernel does by itself counts, between cells and at an orderly end neither."""
    components = "sorted(get_ipython()._durable_nb_extension.engine.process.capture())"
    with Lives(tmp_path) as lives:
        lives.run("x = 41", "y = x + 1")
        assert [] == lives.value(components)
        lives.restart()
        lives.run("%durable restore")
        assert [] == lives.value(components)
        assert [True, True] == lives.run_all(["x = 41", "y = x + 1"])


def test_what_a_cell_registers_again_after_a_restore_is_there_once(tmp_path: Path) -> None:
    """Run All over cells that are not durable hangs up nothing twice beside what the restore has brought."""
    cells = (
        "import logging, gc, html\nlogger = logging.getLogger('app')\nlogger.addHandler(logging.StreamHandler())",
        "log = []\ndef on_cell(*_):\n    log.append(1)\nget_ipython().events.register('post_run_cell', on_cell)",
        "gc.callbacks.append(lambda phase, info: None)",
        "get_ipython().input_transformers_post.append(lambda lines: lines)",
    )
    counts = (
        "[len(logger.handlers), sum(f.__name__ == 'on_cell' for f in get_ipython().events.callbacks['post_run_cell']), "
        "len([f for f in gc.callbacks if f.__module__ == '__main__']), "
        "len([f for f in get_ipython().input_transformers_post if f.__module__ == '__main__'])]"
    )
    with Lives(tmp_path, durable=False) as lives:
        lives.run(*cells, "%%durable\nx = 1")
        assert [1, 1, 1, 1] == lives.value(counts)
        lives.kill()
        assert [1, 1, 1, 1] == lives.value(counts)
        lives.run(*cells)
        assert [1, 1, 1, 1] == lives.value(counts)


def test_a_hook_that_wraps_the_one_before_is_reported_and_not_put_back(tmp_path: Path) -> None:
    """Its cell takes what is there and wraps it: over a restored one that would wrap itself, without end."""
    cell = (
        "import logging\nprevious = logging.getLogRecordFactory()\ndef record(*args, **more):\n"
        "    made = previous(*args, **more)\n    made.extra = 1\n    return made\nlogging.setLogRecordFactory(record)"
    )
    with Lives(tmp_path, durable=False) as lives:
        lives.run(cell, "%%durable\nx = 1")
        assert ["logging.setLogRecordFactory"] == lives.value(SAVED)
        lives.kill()
        assert ["logging.setLogRecordFactory"] == lives.value(SAVED)
        lives.run(cell)
        assert 1 == lives.value("logging.getLogger('x').makeRecord('x', 10, 'p', 1, 'hi', (), None).extra")
