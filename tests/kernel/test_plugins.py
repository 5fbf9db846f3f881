"""Plug-ins of other packages: the documented example is one, and a broken one costs a line."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from durable_nb.testing.kernels import Kernel
from durable_nb.testing.lives import Lives

README = (resources.files("durable_nb.capture.reducers") / "README.md").read_text(encoding="utf-8")
_BLOCK = r"\n\n```\w+\n(.*?)```"


def _file(name: str) -> str:
    """Return the block of the document that shows a file."""
    found = re.search(rf"`{re.escape(name)}`:{_BLOCK}", README, re.DOTALL)
    assert found is not None, name
    return found[1]


def _install(site: Path, name: str, entry_points: dict[str, str]) -> None:
    """Write what an installer writes about a distribution."""
    info = site / f"{name}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n", encoding="utf-8")
    lines = "".join(f"{key} = {value}\n" for key, value in entry_points.items())
    (info / "entry_points.txt").write_text(f"[durable_nb.reducers]\n{lines}", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages, with the example in it."""
    folder = tmp_path / "site"
    for name in ("gauges/__init__.py", "gauges/_durable.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_file(name), encoding="utf-8")
    project = tomllib.loads(_file("pyproject.toml"))["project"]
    _install(folder, project["name"], project["entry-points"]["durable_nb.reducers"])
    return folder


def _lives(tmp_path: Path, site: Path) -> Lives:
    package = str(Path(__file__).resolve().parents[2])
    folder = tmp_path / "notebook"
    folder.mkdir()
    return Lives(folder, environ={"PYTHONPATH": f"{package}:{site}"})


def test_the_documented_plug_in_keeps_its_promises(tmp_path: Path, site: Path) -> None:
    """The document's example, as an installed package, brings its value back after SIGKILL and reports the other."""
    cell = re.search(rf"In a notebook:{_BLOCK}", README, re.DOTALL)
    assert cell is not None
    with _lives(tmp_path, site) as lives:
        lives.run("1 + 1")
        assert lives.value("'gauges._durable' in __import__('sys').modules") is False
        lives.run(cell[1])
        assert lives.value("'gauges._durable' in __import__('sys').modules") is True
        reported = "{u.name: u.reason for u in __import__('durable_nb').unsaved()}"
        why = "gauges.Port: the port 'inside' is open only in the process that opened it"
        assert {"line": why} == lives.value(reported)
        lives.kill()
        assert {"line": why} == lives.value(reported)
        found = lives.value(
            "[outside.name, history, history is outside.readings, outside.port, outside.read(), history]"
        )
        assert ["outside", [1], True, None, 1, [1, 1]] == [found[0], found[1][:1], *found[2:]]
        reply = lives.kernel.run("line")
        assert (reply.ename, "the port 'inside'" in "\n".join(reply.traceback)) == ("NameError", True)


def test_values_of_a_package_that_is_gone_are_reported_and_nothing_else(tmp_path: Path, site: Path) -> None:
    """Without the package the next kernel says so of its values, and the others are back."""
    with _lives(tmp_path, site) as lives:
        lives.run("import gauges\noutside = gauges.Gauge('o')\nkept = [1]")
        (site / "gauges").rename(tmp_path / "elsewhere")
        lives.kill()
        assert [1] == lives.value("kept")
        reason = lives.value("{u.name: u.reason for u in __import__('durable_nb').unsaved()}")["outside"]
        assert "No module named 'gauges'" in reason


BROKEN = {
    "wave": ("no_such_module:plugin", "No module named 'no_such_module'"),
    "colorsys": ("broken_ones:silent", "makes no promise"),
    "netrc": ("broken_ones:raising", "RuntimeError: on purpose"),
    "stringprep": ("broken_ones:MODULE", "'str' object is not callable"),
    "never_imported": ("no_such_module:plugin", ""),
}
MODULE = """
from durable_nb.reducers import Plugin

def silent():
    return Plugin(exact={complex: lambda obj: (complex, (0, 0))})

def raising():
    raise RuntimeError("on purpose")

MODULE = "none"
"""


def test_a_broken_plug_in_costs_a_line_and_nothing_else(tmp_path: Path, site: Path) -> None:
    """What cannot be imported, raises, or makes no promise is named in the report; captures and restores go on."""
    (site / "broken_ones.py").write_text(MODULE, encoding="utf-8")
    _install(site, "broken", {library: value for library, (value, _) in BROKEN.items()})
    expected = {f"durable_nb.reducers[{library}]": said for library, (_, said) in BROKEN.items() if said}
    with _lives(tmp_path, site) as lives:
        lives.run("import colorsys, netrc, stringprep, wave\nkept = [complex(1, 2)]")
        unsaved = lives.value("{u.name: u.reason for u in __import__('durable_nb').unsaved()}")
        assert {name: True for name in expected} == {name: expected[name] in unsaved[name] for name in unsaved}
        status = lives.kernel.run("%durable status")
        shown = str([o["data"] for o in status.of("display_data")])
        assert all(name in shown for name in expected), shown
        lives.kill()
        assert [True] == lives.value("[kept == [complex(1, 2)]]")


def test_loading_the_extension_reads_no_entry_points(tmp_path: Path) -> None:
    """`%load_ext durable_nb` leaves the search for plug-ins to the first capture."""
    asked = "__import__('sys').modules['durable_nb.capture.reducers._others'].offers.cache_info().currsize"
    with Kernel(tmp_path, environ={"DURABLE_NB_KEY_FILE": str(tmp_path / "key")}) as kernel:
        assert kernel.run("%load_ext durable_nb").status == "ok"
        assert "0\n" == kernel.run(f"print({asked})").text()
        assert kernel.run("%%durable\nx = [1]").status == "ok"
        assert "1\n" == kernel.run(f"print({asked})").text()


def test_the_public_module_is_cheap() -> None:
    """Authors import `durable_nb.reducers`, which loads no library that is not there already."""
    code = "import sys, durable_nb.reducers; print(sorted({'numpy', 'IPython', 'dill', 'duckdb'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]\n" == run.stdout
