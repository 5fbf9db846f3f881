"""What earlier versions stored of functions, classes and values comes back, under every supported Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from durable_nb.store.files import LocalFiles
from durable_nb.testing.workbench import Workbench

HERE = Path(__file__).parent
CHECK = """
assert area(2) == 25.133 and area(1, scale=1) == 3.142 and area.__globals__ is globals()
assert level is Level.HIGH and level == 10 and Level(1) is Level.LOW
assert type(p) is Point and p == Point(1, 2) and p.norm() == 7
assert type(child) is Child and isinstance(child, Base) and Base.seen == [40] and child.add(1).seen == [40, 10]
assert shared[0] is p and shared[1]["p"] is p and shared[2] is shared
assert inc() == 2 and inc() == 3
assert len(data) == 153_600 and list(queue) == [1, 2] and queue.maxlen == 5 and str(money) == "1.10"
assert double(4) == 12 and "gone" not in globals()
rate = 5
assert double(4) == 20 and p.norm() == 11
"""


@pytest.mark.parametrize("version", sorted(p.name for p in HERE.glob("notebook-v*")))
def test_an_old_notebook_comes_back(version: str, tmp_path: Path) -> None:
    """Every variable of the committed notebook is restored, with its links, and its history is whole."""
    shutil.copytree(HERE / version, tmp_path / "durable")
    bench = Workbench(LocalFiles(tmp_path / "durable"), life="later")
    assert [u for u in bench.engine.missing if u.name.isidentifier()] == []
    exec(CHECK, bench.namespace)
    assert bench.repository.verify().problems == ()
    assert bench.run("after = double(2)") is True
    bench.workflow.close()
