"""Definitions of every kind through save, SIGKILL and restore: each case of `definitions/*.yaml` is a test."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).with_name("definitions")
ROOT = Path(__file__).parents[2]
CASES: dict[str, dict[str, Any]] = {}
for _file in sorted(FOLDER.glob("*.yaml")):
    CASES.update(yaml.safe_load(_file.read_text("utf-8")))


def lacking(case: dict[str, Any]) -> str:
    """Return what this Python lacks for a case; empty: nothing."""
    wanted = str(case.get("python", "3.11"))
    if sys.version_info[:2] < tuple(int(part) for part in wanted.split(".")):
        return f"Python {wanted}"
    return ", ".join(m for m in case.get("needs", ()) if not importlib.util.find_spec(m))


CHOSEN = {name: case for name, case in CASES.items() if not lacking(case)}
NAMES = [
    name if name in CHOSEN else pytest.param(name, marks=pytest.mark.skip(reason=f"needs {lacking(case)}"))
    for name, case in CASES.items()
]
# All cases live in three processes, one after the other, before the first test says anything.
pytestmark = pytest.mark.timeout(600)


def live(verb: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Let all cases live one life in one process; return what each of them said."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "worker.py"), verb, str(folder)],
        input=json.dumps(CHOSEN),
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (-signal.SIGKILL if verb == "save" else 0), done.stderr[-4000:]
    said: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return said


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, Any]]]:
    """Live all cases once without durable_nb, once up to the loss, and once after it."""
    folder = tmp_path_factory.mktemp("definitions")
    plain = folder / "plain"
    plain.mkdir()
    return {"plain": live("plain", plain), "save": live("save", folder), "restore": live("restore", folder)}


@pytest.mark.parametrize("name", NAMES)
def test_definitions_survive(name: str, lives: dict[str, dict[str, dict[str, Any]]]) -> None:
    """What the case claims holds after the loss, or it is reported by name with the reason it gives."""
    case = CHOSEN[name]
    assert "" == lives["plain"][name]["error"]
    assert "" == lives["save"][name]["error"]
    allowed = case.get("reported", {})
    for life in ("save", "restore"):
        reported = lives[life][name]["unsaved"]
        assert {} == {n: why for n, why in reported.items() if n not in allowed or not re.search(allowed[n], why)}
    assert "" == lives["restore"][name]["error"], lives["restore"][name]["error"]
