"""What the command says to a folder that is not there, and that Python's `-m` finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import durable_nb
from durable_nb import cli


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """A word too many may have been meant as the folder: the error says that there is none of that name."""
    assert cli.main(["doctor", "nosuchdir"]) == cli.USAGE
    told = capsys.readouterr().err
    assert "`doctor` takes no 'nosuchdir', and there is no folder of that name; nothing was done." in told


def test_python_m(tmp_path: Path) -> None:
    """`python -m durable_nb` is the command."""
    line = [sys.executable, "-m", "durable_nb", "--version"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == durable_nb.__version__
