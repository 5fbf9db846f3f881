"""Every kind of definition of `tests/kernel/definitions` moves to another Python: right, or reported by name.

Nightly: an environment is made for every other supported Python that pyenv or PATH has, or DURABLE_NB_OTHER_PYTHONS
names interpreters that have durable_nb's dependencies.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "kernel" / "definitions"
NAMED = [p for p in os.environ.get("DURABLE_NB_OTHER_PYTHONS", "").split(os.pathsep) if p]
MINORS = ("3.11", "3.12", "3.13")
PACKAGES = (
    "dill",
    "xxhash",
    "zstandard",
    "attrs",
    "pydantic",
    "pydantic-settings",
    "traitlets",
    "cloudpickle",
    "joblib",
)
# Code without a source on record, what this Python does not have, and what leads to either.
NO_SOURCE = re.compile(
    r"was compiled by Python 3\.\d+ and cannot be made again|it needs .* which did not load|is not there any more"
    r"|does not exist in Python 3|has no attribute"
)


def works(python: str, minor: str) -> bool:
    """Tell whether an interpreter starts and is of a minor version; pyenv's shims exist without one behind them."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == minor


def found(minor: str) -> str | None:
    """Return an interpreter of a minor version: of pyenv, or on PATH."""
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{minor}.*/bin/python"))
    on_path = shutil.which(f"python{minor}")
    return next((p for p in [*map(str, pyenv), *([on_path] if on_path else [])] if works(p, minor)), None)


@pytest.fixture(scope="session", params=NAMED or MINORS)
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter of another minor version with what durable_nb needs."""
    if NAMED:
        return str(request.param)
    if request.param == f"{sys.version_info[0]}.{sys.version_info[1]}":
        pytest.skip("this very Python")
    base = found(request.param)
    if base is None:
        pytest.skip(f"NO PYTHON {request.param} ON THIS MACHINE: nothing was moved to it")
    folder = tmp_path_factory.mktemp(f"python{request.param}")
    subprocess.run([base, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def cases(pythons: tuple[str, str]) -> dict[str, dict[str, Any]]:
    """Return the cases that both interpreters can run."""
    chosen: dict[str, dict[str, Any]] = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        chosen.update(yaml.safe_load(file.read_text("utf-8")))
    code = (
        "import importlib.util, json, sys\n"
        "have = [m for m in sys.argv[1:] if importlib.util.find_spec(m)]\n"
        "print(json.dumps([sys.version_info[:2], have]))"
    )
    needs = sorted({m for case in chosen.values() for m in case.get("needs", ())})
    for python in pythons:
        done = subprocess.run([python, "-c", code, *needs], capture_output=True, text=True, check=True)
        version, have = json.loads(done.stdout)
        chosen = {
            name: case
            for name, case in chosen.items()
            if [int(part) for part in str(case.get("python", "3.11")).split(".")] <= version
            and set(case.get("needs", ())) <= set(have)
            and not case.get("same_python")
        }
    return chosen


def live(python: str, verb: str, folder: Path, chosen: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Let all cases live one life under an interpreter."""
    done = subprocess.run(
        [python, str(FOLDER / "worker.py"), verb, str(folder)],
        input=json.dumps(chosen),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (-signal.SIGKILL if verb == "save" else 0), done.stderr[-4000:]
    said: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return said


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", ["there to here", "here to there"])
def test_every_kind_of_definition_moves_or_is_reported(other: str, way: str, tmp_path: Path) -> None:
    """Nothing is silently another thing under another Python: a case holds, or what it lacks is named with a reason."""
    saver, restorer = (other, sys.executable) if way == "there to here" else (sys.executable, other)
    chosen = cases((saver, restorer))
    assert 50 < len(chosen)
    saved, restored = live(saver, "save", tmp_path, chosen), live(restorer, "restore", tmp_path, chosen)
    wrong = {}
    for name, case in chosen.items():
        assert "" == saved[name]["error"]
        allowed = case.get("reported", {})
        reported = restored[name]["unsaved"]
        strange = {n: why for n, why in reported.items() if n not in allowed and not NO_SOURCE.search(why)}
        if strange or (restored[name]["error"] and not reported):
            wrong[name] = strange or restored[name]["error"]
    assert {} == wrong
