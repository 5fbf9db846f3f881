"""Modules that finders of the notebook make inside packages: back after a loss as an import had left them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives

FINDER = """
import importlib.util, os, sys, types
class TextLoader:
    def __init__(self, path):
        self.path = path
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        module.__file__ = self.path
        exec(open(self.path).read(), vars(module))
class TextFinder:
    def find_spec(self, fullname, path=None, target=None):
        for folder in path or [os.getcwd()]:
            file = os.path.join(folder, fullname.rpartition('.')[2] + '.txt')
            if os.path.isfile(file):
                return importlib.util.spec_from_loader(fullname, TextLoader(file), origin=file)
sys.meta_path.append(TextFinder())
"""
SOURCE = "count = [0]\nclass Box:\n    held = count\ndef up():\n    count[0] += 1\n    return count[0]\n"


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook of its own, beside a package without and one with a file that makes it one."""
    for folder in ("loose", "loose/deeper", "firm"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.txt").write_text(SOURCE)
    (tmp_path / "firm" / "__init__.py").write_text("print('loaded')\n")
    with Lives(tmp_path) as made:
        yield made


@pytest.mark.parametrize("package", ["loose", "loose.deeper", "firm", "json"])
def test_a_module_that_the_notebooks_finder_made_inside_a_package_comes_back(lives: Lives, package: str) -> None:
    """It is the module of `sys.modules`, an attribute of its package, and holds what it held, its loader included."""
    if package == "json":
        lives.run("import json\njson.__path__.append(" + repr(str(lives.folder / "firm")) + ")")
    lives.run(FINDER, f"from {package} import mine", "box = mine.Box()\nmine.up()", "up = mine.up")
    assert "not back" not in lives.kill()
    assert lives.value("[mine.count[0], up(), mine.count[0]]") == [1, 2, 2]
    assert lives.value("[box.held is mine.count, type(box) is mine.Box, mine.up is up]") == [True] * 3
    full = f"{package}.mine"
    assert lives.value(f"[sys.modules[{full!r}] is mine, mine.__name__ == {full!r}]") == [True, True]
    assert lives.value("[type(mine.__spec__.loader) is TextLoader, mine.__loader__ is mine.__spec__.loader]")
    assert lives.value("mine.__file__ == mine.__spec__.origin == mine.__loader__.path")
    lives.run(f"import {full}")
    assert lives.value(f"{full} is mine")


def test_run_all_skips_the_import_of_a_module_that_the_notebooks_finder_makes(lives: Lives) -> None:
    """After a loss the cells are skipped that add the finder, import such a module and use it."""
    cells = [FINDER, "from loose.deeper import mine", "seen = mine.up()"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True] * 3
    assert lives.value("[seen, mine.count, [type(f) for f in sys.meta_path].count(TextFinder)]") == [1, [1], 1]


def test_cells_that_register_finders_are_skipped_only_if_the_finders_came_back(lives: Lives) -> None:
    """A finder that cannot be stored is registered again by its cell, which is not skipped; the others are there."""
    cells = [
        "import sys\nclass Finder:\n    def __init__(self, held=None): self.held = held\n"
        "    def find_spec(self, fullname, path=None, target=None): return None",
        "sys.meta_path.insert(0, Finder('first'))",
        "sys.meta_path.append(Finder(n for n in 'ab'))",
        "sys.meta_path.append(Finder('last'))",
    ]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells)[:3] == [True, True, False]
    held = lives.value("[[i == 0, str(f.held)[:5]] for i, f in enumerate(sys.meta_path) if type(f) is Finder]")
    assert held[0] == [True, "first"]
    assert {text for _, text in held} == {"<gene", "first", "last"}


def test_a_cell_that_registers_a_finder_of_a_library_runs_again(lives: Lives) -> None:
    """No checkpoint holds an object of a library in the lists of the import system."""
    cells = ["import sys, importlib.machinery", "sys.meta_path.append(importlib.machinery.BuiltinImporter())"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True, False]


def test_a_package_that_the_notebooks_finder_makes_is_stored_with_what_it_holds(lives: Lives) -> None:
    """A made module may be a package, with places to look for its parts; both are back, one inside the other."""
    file, folder = str(lives.folder / "firm/mine.txt"), str(lives.folder / "firm")
    lives.run(
        FINDER,
        "class Packages(TextFinder):\n"
        "    def find_spec(self, fullname, path=None, target=None):\n"
        "        if fullname == 'made':\n"
        f"            spec = importlib.util.spec_from_loader(fullname, TextLoader({file!r}))\n"
        f"            spec.submodule_search_locations = [{folder!r}]\n"
        "            return spec\n"
        "sys.meta_path.insert(0, Packages())",
        "import made.mine\nmade.up()",
    )
    assert "not back" not in lives.kill()
    assert lives.value("[made.count, made.mine.count, sys.modules['made.mine'] is made.mine]") == [[1], [0], True]


def test_a_loader_of_the_notebook_around_all_imports_stores_no_library(lives: Lives) -> None:
    """A hook that only watches imports makes no module: libraries stay what an import brings."""
    lives.run(
        "import sys, importlib.machinery\n"
        "class Watching(importlib.machinery.SourceFileLoader): pass\n"
        "class Watcher:\n"
        "    def find_spec(self, fullname, path=None, target=None):\n"
        "        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)\n"
        "        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:\n"
        "            spec.loader = Watching(spec.loader.name, spec.loader.path)\n"
        "        return spec\n"
        "sys.meta_path.insert(0, Watcher())",
        "import hypothesis.strategies, wave",
    )
    assert lives.value("[type(wave.__loader__).__name__, type(hypothesis.__loader__).__name__]") == ["Watching"] * 2
    assert "not back" not in lives.kill()
    assert lives.value("type(wave.__loader__).__name__") == "SourceFileLoader"
    assert lives.value("hypothesis.strategies is sys.modules['hypothesis.strategies']")
