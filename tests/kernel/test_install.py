"""The two ways of README to begin: `make demo` on a fresh copy, and `pip install .`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import durable_nb

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".make", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "dist"
)


def run(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command as on a machine that has Python and nothing of ours."""
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "PYTEST", "MAKE", "MFLAGS"))
    }
    return subprocess.run(
        words, cwd=folder, env={**kept, **environ}, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.mark.timeout(1100)
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")
def test_a_fresh_copy_demonstrates_and_installs(tmp_path: Path) -> None:
    """`make demo` sets itself up, survives its crash with everything equal, and `pip install .` gives the command."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    base = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")
    made = run(copy, "make", "demo", PYTHON=base if Path(base).exists() else sys.executable)
    if "No matching distribution" in made.stderr or "Could not find a version" in made.stderr:
        pytest.skip("the package registry cannot be reached, so nothing can be installed")
    assert (made.returncode, "all equal" in made.stdout) == (0, True), made.stderr[-3000:]
    pip = run(copy, ".venv/bin/python", "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", ".")
    assert pip.returncode == 0, pip.stderr[-3000:]
    version = run(tmp_path, str(copy / ".venv/bin/durable-nb"), "--version")
    assert (version.returncode, version.stdout.strip()) == (0, durable_nb.__version__)
    help_text = run(tmp_path, str(copy / ".venv/bin/jupyter"), "durable", "--help")
    assert "usage: durable-nb VERB" in help_text.stdout
