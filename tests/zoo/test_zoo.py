"""One value of each class of many libraries comes back as its row promises, and the table of them is true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from durable_nb.testing.zoo import STANDARD, TABLE, Enclosure, enclosures, problems, table

ALL = enclosures()
# The other half is that of `test_zoo_more.py`: a file of tests stays in one worker.
HALF = ALL[: len(ALL) // 2]
NONE: list[str] = []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("enclosure", HALF, ids=lambda e: e.name)
def test_every_value_comes_back_as_promised(enclosure: Enclosure, tmp_path: Path) -> None:
    """After SIGKILL each value is exact, equal or reported, as its row says, and its reducer says the same."""
    if not enclosure.installed:
        pytest.skip(f"{enclosure.library} is not installed: {len(enclosure.values)} values of the zoo are not tested")
    assert NONE == problems(enclosure, tmp_path)


def test_the_zoo_is_large() -> None:
    """It has at least 180 classes of at least 25 data and web libraries, besides the standard library."""
    libraries = {e.library for e in ALL} - {STANDARD}
    classes = {v.cls for e in ALL if e.library != STANDARD for v in e.values}
    assert (True, True) == (len(libraries) >= 25, len(classes) >= 180), (len(libraries), len(classes))


def test_no_row_is_there_twice() -> None:
    """Rows of one class differ in what they promise or say."""
    rows = [(e.library, v.cls, v.keeps, v.note) for e in ALL for v in e.values]
    assert NONE == sorted(f"{library}: {cls}" for library, cls, *rest in rows if rows.count((library, cls, *rest)) > 1)


def test_the_table_is_that_of_the_rows() -> None:
    """The committed table is the one that the rows give; DURABLE_NB_ZOO=write writes it."""
    expected = table(ALL)
    if os.environ.get("DURABLE_NB_ZOO") == "write":
        TABLE.write_text(expected, encoding="utf-8")
    assert expected == TABLE.read_text(encoding="utf-8"), "python -m durable_nb.testing.zoo writes it"


SILENT = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
from durable_nb.capture import reducers
for name in reducers._available():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
plugin = reducers.load(sys.modules)
said = [*plugin.exact.values(), *(reducer for _, reducer in plugin.subclasses)]
print(json.dumps(sorted({f"{r.__module__}.{r.__qualname__}" for r in said if "promise" not in vars(r)})))
"""


def test_every_reducer_makes_a_promise() -> None:
    """No reducer of a library that is installed here is without one."""
    run = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True, check=True, timeout=100)
    assert NONE == json.loads(run.stdout.splitlines()[-1])
