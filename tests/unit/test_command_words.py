"""What the command says of folders: one that is not there, one's own, another's; and that Python's `-m` finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import durable_nb
from durable_nb import cli
from durable_nb.clock import SystemClock
from durable_nb.config import Settings
from durable_nb.model import EventDraft
from durable_nb.store.process_identity import this_process
from durable_nb.verbs.opening import open_repository


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


def test_trusting_ones_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the user's own key has signed needs no trust, and the answer says so; another key's is counted, once."""
    told = []
    for key in ("mine", "mine", "other", "other"):
        monkeypatch.setenv("DURABLE_NB_KEY_FILE", str(tmp_path / key / "key"))
        clock = SystemClock()
        if not (tmp_path / ".durable").exists():
            settings = Settings.from_environment({"DURABLE_NB_KEY_FILE": str(tmp_path / key / "key")})
            repository = open_repository(settings, tmp_path / ".durable", clock=clock, create=True)
            workflow = repository.workflow("n", kernel_id="k", owner=this_process("k", clock))
            workflow.append([EventDraft(event_type="RunStarted", run_id="r", payload={})])
            workflow.close()
        assert cli.main(["trust", str(tmp_path)]) == cli.OK
        told.append(capsys.readouterr().out.strip())
    folder = tmp_path / ".durable"
    own = f"{folder} is all signed with your key already; there is nothing to trust."
    expected = [own, own, f"1 object in {folder} is trusted from now on.", f"{folder} was trusted already."]
    assert told == expected
    assert (tmp_path / "mine" / "trusted.json").exists() is False
