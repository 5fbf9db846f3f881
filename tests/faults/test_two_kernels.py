"""Two real kernels on one notebook, and damage that a person meets: each time a clear message, nothing else lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.kernels import Kernel
from durable_nb.testing.lives import Lives, said, skipped

NOTEBOOK = {"JPY_SESSION_NAME": "analysis.ipynb"}


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run durable-nb as a person does in the folder."""
    environ = {"DURABLE_NB_KEY_FILE": str(folder / "key"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, "-m", "durable_nb.cli", *words],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Lives]:
    """A kernel that holds the notebook's lease and has one finished cell."""
    with Lives(tmp_path, environ=NOTEBOOK) as lives:
        lives.run("x = [1]")
        yield lives


def flip(path: Path, at: float = 0.5) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    path.chmod(0o600)
    path.write_bytes(bytes(data))


def test_a_second_kernel_on_the_same_notebook_is_read_only(first: Lives, tmp_path: Path) -> None:
    """It is told pid and host of the first, its cells run without being durable, and the first one goes on."""
    with Lives(tmp_path, environ=NOTEBOOK) as second:
        assert str(first.kernel.pid) in second.loaded
        assert "read-only" in second.loaded
        second.run("y = 2")
        assert second.value("y") == 2
        assert second.verb("status")["writable"] is False
        first.run("x.append(2)")
    assert [c["checkpoint"] for c in first.verb("checkpoints")] == ["c1", "c2"]


def test_a_dead_kernels_lease_is_taken_over_at_once(first: Lives, tmp_path: Path) -> None:
    """After SIGKILL the next kernel owns the notebook without waiting, and everything is back."""
    assert "was lost" in first.kill()
    assert first.value("x") == [1]
    first.run("x.append(2)")
    assert first.verb("status")["writable"] is True


def test_an_unnamed_second_kernel_gets_a_workflow_of_its_own(tmp_path: Path) -> None:
    """Where the front end tells no name, the second kernel of a folder becomes default-2 and one line says so."""
    with Lives(tmp_path) as one, Lives(tmp_path) as two:
        assert "default-2" in two.loaded
        one.run("x = 1")
        two.run("x = 2")
        assert {w["workflow_id"] for w in one.verb("list")} == {"default", "default-2"}
        assert (one.value("x"), two.value("x")) == (1, 2)


def test_the_command_line_reads_while_a_kernel_writes(first: Lives, tmp_path: Path) -> None:
    """Commands read a live notebook's history, and what would write is refused with the owner's pid."""
    status = command(tmp_path, "status", "--json")
    assert json.loads(status.stdout)["workflow_id"] == "analysis"
    counted = command(tmp_path, "sql", "SELECT count(*) AS n FROM checkpoints", "--json")
    assert json.loads(counted.stdout) == [{"n": 1}]
    refused = command(tmp_path, "new")
    assert refused.returncode == 3
    assert str(first.kernel.pid) in refused.stderr


def test_commands_prepare_the_next_kernel(tmp_path: Path) -> None:
    """With no kernel alive, `restore c1` moves where the next one begins, and `new` begins a fresh run."""
    with Lives(tmp_path, environ=NOTEBOOK) as lives:
        lives.run("x = [1]", "x.append(2)")
        lives.kernel.sigkill()
        assert command(tmp_path, "restore", "analysis.ipynb", "c1").returncode == 0
        lives.kill()
        assert lives.value("x") == [1]
        lives.kernel.sigkill()
        assert command(tmp_path, "new").returncode == 0
        lives.kill()
        assert lives.value("'x' in globals()") is False


def test_a_damaged_pack_costs_only_what_is_in_it(first: Lives, tmp_path: Path) -> None:
    """`verify` names the damage, the rest is back, and the next cells are saved again."""
    first.run("import os\nbig = os.urandom(2_000_000)", "small = 'kept'")
    first.verb("checkpoints")  # waits for the writer
    first.kernel.sigkill()
    flip(next((tmp_path / ".durable" / "packs").rglob("*.pack")))
    found = command(tmp_path, "verify")
    assert found.returncode == 1
    assert "damaged" in found.stdout
    first.kill()
    assert first.value("[x, small, 'big' in globals()]") == [[1], "kept", False]
    first.run("again = 1")
    first.kill()
    assert first.value("[x, small, again]") == [[1], "kept", 1]


def test_repair_in_a_live_kernel_saves_the_live_values_again(first: Lives, tmp_path: Path) -> None:
    """After `%durable verify --repair` the next checkpoint holds what the damaged chunk held."""
    first.run("import os\nbig = os.urandom(2_000_000)\nsize = len(big)")
    first.verb("checkpoints")  # waits for the writer
    flip(next((tmp_path / ".durable" / "packs").rglob("*.pack")))
    assert any(problem["repaired"] for problem in first.verb("verify --repair")["problems"])
    first.run("after = 1")
    first.kill()
    assert first.value("[len(big), after]") == [2_000_000, 1]


def test_a_damaged_journal_line_is_reported_and_the_rest_is_back(first: Lives, tmp_path: Path) -> None:
    """A flipped bit in the middle of the journal is found; what does not rest on that line is restored."""
    first.run("y = 1", "z = 2")
    first.kernel.sigkill()
    journal = next((tmp_path / ".durable" / "workflows").rglob("*.ndjson"))
    flip(journal, at=0.3)
    found = command(tmp_path, "verify")
    assert found.returncode == 1
    line = first.kill()
    assert "durable_nb" in line
    assert first.kernel.run("w = 3").status == "ok"
    assert first.verb("status")["writable"] is True


def test_a_deleted_or_damaged_duckdb_file_is_rebuilt(first: Lives, tmp_path: Path) -> None:
    """The lens can go missing or rot: the next query has all rows."""
    query = "sql \"SELECT count(*) AS n FROM events WHERE event_type = 'ActivityCompleted'\""
    assert first.verb(query) == [{"n": 1}]
    lens = tmp_path / ".durable" / "events.duckdb"
    lens.unlink()
    assert first.verb(query) == [{"n": 1}]
    flip(lens, at=0.2)
    first.run("y = 1")
    assert first.verb(query) == [{"n": 2}]
    lens.write_bytes(b"garbage")
    assert first.verb(query) == [{"n": 2}]


def test_another_process_reads_the_duckdb_file_while_the_kernel_works(first: Lives, tmp_path: Path) -> None:
    """`duckdb` from another process finds the events of a living kernel."""
    first.verb('sql "SELECT 1 AS one"')
    code = (
        "import duckdb, time\n"
        "for _ in range(100):\n"
        "    try:\n"
        "        con = duckdb.connect('.durable/events.duckdb', read_only=True)\n"
        "    except duckdb.IOException:\n"
        "        time.sleep(0.1)\n"
        "        continue\n"
        "    print(con.execute('select count(*) from activities').fetchone()[0])\n"
        "    break\n"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "1"


def test_a_foreign_history_is_refused_until_trusted(tmp_path: Path) -> None:
    """What another key signed is not unpickled: one sentence says what to type, and after it everything is back."""
    with Lives(tmp_path, environ=NOTEBOOK) as lives:
        lives.run("x = 41")
        lives.kernel.sigkill()
        (tmp_path / "key").unlink()
        (tmp_path / "trusted.json").unlink(missing_ok=True)
        lives.kernel = Kernel(tmp_path, environ={**NOTEBOOK, "DURABLE_NB_KEY_FILE": str(tmp_path / "key")})
        reply = lives.kernel.run("%load_ext durable_nb")
        told = said(reply) + reply.text("stderr") + reply.evalue
        assert "durable-nb trust" in told
        assert lives.kernel.run("'x' in globals()").result == "False"
        assert command(tmp_path, "trust", ".").returncode == 0
        lives.kill()
        assert lives.value("x") == 41
        assert skipped(lives.run("x = 41"))


def test_the_folder_is_private(first: Lives, tmp_path: Path) -> None:
    """Nobody else may read what a notebook's variables hold."""
    folder = tmp_path / ".durable"
    modes = {p.name: p.stat().st_mode & 0o077 for p in [folder, *folder.rglob("*")]}
    assert {name: mode for name, mode in modes.items() if mode and not name.startswith("events.duckdb")} == {}
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
