"""A history that another supported Python saved comes back here, and one saved here comes back there.

`DURABLE_NB_OTHER_PYTHONS` lists interpreters (separated like PATH) that have the packages durable_nb needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("other_python.py")
OTHERS = [p for p in os.environ.get("DURABLE_NB_OTHER_PYTHONS", "").split(os.pathsep) if p]
NONE = "no other Python: set DURABLE_NB_OTHER_PYTHONS to the paths of interpreters that have durable_nb's dependencies"


def act(python: str, verb: str, folder: Path) -> dict[str, str]:
    """Save or restore the notebook under an interpreter; return what is missing after that, with the reasons."""
    done = subprocess.run(
        [python, str(WORKER), verb, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    missing: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return missing


@pytest.mark.parametrize("other", OTHERS or [pytest.param("", marks=pytest.mark.skip(reason=NONE))])
@pytest.mark.parametrize("way", ["there to here", "here to there"])
def test_a_notebook_moves_to_another_python(other: str, way: str, tmp_path: Path) -> None:
    """All definitions and their instances work under the other version; only what had no source is missing."""
    saver, restorer = (other, sys.executable) if way == "there to here" else (sys.executable, other)
    assert {} == act(saver, "save", tmp_path / "durable")
    missing = act(restorer, "restore", tmp_path / "durable")
    assert ["hidden", "uses_hidden"] == sorted(missing)
    assert all("Run the cell that makes it again" in reason for reason in missing.values())


def test_a_notebook_stays_with_its_python(tmp_path: Path) -> None:
    """Under the version that saved it, nothing at all is missing."""
    assert {} == act(sys.executable, "save", tmp_path / "durable")
    assert {} == act(sys.executable, "restore", tmp_path / "durable")
