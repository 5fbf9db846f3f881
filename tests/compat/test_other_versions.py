"""Another version of a library: what it costs is reported by name with both versions, everything else comes back."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.store.files import LocalFiles
from durable_nb.testing.workbench import Workbench

ONE = {
    "__init__.py": "__version__ = '1.0'\nfrom dnblib.parts import Moved, Renamed, Stays\nclass Removed:\n    pass\n",
    "parts.py": "class Moved:\n    pass\nclass Stays:\n    x = 1\nclass Renamed:\n    def __init__(self):\n"
    "        self.width = 3\n",
}
TWO = {
    "__init__.py": "__version__ = '2.0'\nfrom dnblib.other import Moved, Renamed, Stays\n",
    "parts.py": "from dnblib.other import Stays\n",
    "other.py": "class Moved:\n    pass\nclass Stays:\n    x = 2\nclass Renamed:\n    def __init__(self):\n"
    "        self.size = 3\n    def __setstate__(self, state):\n        self.size = state['length']\n",
}


def install(folder: Path, files: dict[str, str]) -> None:
    """Put one version of the library in the place of another, and forget the one that was imported."""
    package = folder / "dnblib"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir()
    for name, text in files.items():
        (package / name).write_text(text)
    for name in [n for n in sys.modules if n.partition(".")[0] == "dnblib"]:
        del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of libraries like that of installed packages, on the search path."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    install(folder, ONE)
    yield folder
    for name in [n for n in sys.modules if n.partition(".")[0] == "dnblib"]:
        del sys.modules[name]


def test_what_another_version_of_a_library_costs_is_named_with_both_versions(library: Path, tmp_path: Path) -> None:
    """A class that is gone, one that moved and one with other attributes are reported; the rest is back."""
    bench = Workbench(LocalFiles(tmp_path / "durable"))
    bench.run(
        "import dnblib\ngone, moved = dnblib.Removed(), dnblib.Moved()\n"
        "renamed, stays = dnblib.Renamed(), dnblib.Stays()"
    )
    bench.run("held = [dnblib.Removed(), 1]\nplain = {'k': [1, 2]}")
    assert "1.0" == bench.engine.head.versions["dnblib"]
    bench.workflow.close()
    install(library, TWO)
    later = Workbench(LocalFiles(tmp_path / "durable"), life="two")
    reasons = {u.name: u.reason for u in later.engine.missing}
    assert ["gone", "held", "moved", "renamed"] == sorted(reasons)
    assert {True} == {"dnblib was 1.0 when it was saved and is 2.0 now" in reason for reason in reasons.values()}
    assert ({"k": [1, 2]}, 2) == (later.namespace["plain"], later.namespace["stays"].x)
    assert "renamed" not in later.namespace
    told = "\n".join(later.lines)
    assert 1 == told.count("dnblib was 1.0 when this was saved, and is 2.0 now")
    assert "`moved`" in told
    assert later.run("again = plain['k'] + [3]")


def test_a_patch_version_of_python_is_no_news(library: Path, tmp_path: Path) -> None:
    """What is the same says nothing: no line about versions when none has changed."""
    bench = Workbench(LocalFiles(tmp_path / "durable"))
    bench.run("import dnblib\nstays = dnblib.Stays()")
    bench.workflow.close()
    later = Workbench(LocalFiles(tmp_path / "durable"), life="two")
    assert "other versions" not in "\n".join(later.lines)
    assert 1 == later.namespace["stays"].x
