"""The speed benchmark works from end to end on a tiny workload, and a restore that is wrong is told as wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"

# Three kernels and their restores, on a machine that may be busy.
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the benchmark asks /proc"),
]


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that measures; the benchmark is a program, so its folder is no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import speed_measuring

    return speed_measuring


def tiny_workload(measuring: ModuleType) -> object:
    """Return two cells and what they leave."""
    cell = measuring.Cell
    return measuring.Workload(
        key="tiny",
        title="two cells",
        cells=[
            cell(text="import numpy as np\na = np.arange(1000)", kind="setup"),
            cell(text="a[3] = 7", kind="changes"),
        ],
        checks={"array": "a", "value": "int(a[3])"},
        names=("a",),
        first="print(a[3])",
        yardsticks={"a sum": "a.sum()"},
        cat=True,
    )


def test_the_harness_measures_and_checks_every_system(measuring: ModuleType, tmp_path: Path) -> None:
    """Plain, durable_nb and cloudpickle run the same cells, and what the last two bring back is what plain had."""
    import speed_goals
    import speed_systems
    import speed_tables

    workload = tiny_workload(measuring)
    found = {}
    for name in ("plain", "durable_nb", "cloudpickle"):
        expected = found["plain"].answers if found else None
        system = speed_systems.SYSTEMS[name]
        found[name] = measuring.measured(workload, system, folder=tmp_path / name, shared=tmp_path, expected=expected)
    plain = found.pop("plain")
    assert ["a sum"] == list(plain.yardsticks)
    for measured in (plain, *found.values()):
        assert ["setup", "changes"] == [took.kind for took in measured.took]
        assert all(took.wall_s > 0 and took.cpu_s > 0 for took in measured.took)
        assert plain.answers == measured.answers
        assert measured.peak_bytes > 2**20
    assert [] == plain.restored
    for measured in found.values():
        assert [("warm", []), ("cold", [])] == [(back.cache, back.wrong) for back in measured.restored]
        assert all(0 < back.first_s <= back.all_s <= back.read_s for back in measured.restored)
        assert measured.stored_bytes > 8000
        assert [] == measured.failures
    compared = speed_tables.Compared(
        workload="tiny", title="two cells", plain=[plain, plain], found=list(found.values())
    )
    text = speed_tables.tables([compared], speed_goals.goals([compared]), {})
    for line in ("| tiny     | durable_nb ", "| tiny     | cloudpickle "):
        assert line in text
    assert "about this run" in speed_tables.document(text, "about this run")
    json.dumps(compared.to_json())


def test_a_wrong_restore_is_told(measuring: ModuleType, tmp_path: Path) -> None:
    """A system that brings back one element changed, or nothing, has that in its result, by the name of the check."""
    import speed_systems

    workload = replace(tiny_workload(measuring), cat=False)
    works = speed_systems.SYSTEMS["cloudpickle"]
    wrong = replace(works, restore=[*works.restore, "a[999] = 0"])
    found = measuring.measured(workload, wrong, folder=tmp_path / "wrong", shared=tmp_path)
    assert [["array"]] == [back.wrong for back in found.restored]
    nothing = replace(works, restore=["pass"])
    found = measuring.measured(workload, nothing, folder=tmp_path / "nothing", shared=tmp_path)
    assert 1 == len(found.restored)
    assert "NameError" in found.restored[0].wrong[0]


def test_a_save_that_fails_is_told(measuring: ModuleType, tmp_path: Path) -> None:
    """A peer that cannot pickle a namespace fails in a callback, which IPython only prints; the result names it."""
    import speed_systems

    cells = [measuring.Cell(text="import threading; a = threading.Lock()", kind="setup")]
    workload = replace(tiny_workload(measuring), cells=cells, checks={"there": "a is not None"}, cat=False)
    system = speed_systems.SYSTEMS["cloudpickle"]
    found = measuring.measured(workload, system, folder=tmp_path / "fails", shared=tmp_path)
    assert found.failures
    assert "pickle" in found.failures[0]
    assert found.restored[0].wrong


def test_processes_beside_the_kernel_are_counted_and_ended(measuring: ModuleType, tmp_path: Path) -> None:
    """A child that leaves the session and the environment is measured while it lives, and gone at the end."""
    import speed_processes
    import speed_systems

    burn = "import os, time; print(os.getpid(), flush=True); sum(range(20_000_000)); time.sleep(600)"
    start = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {burn!r}], env={{}}, start_new_session=True,"
        " stdout=subprocess.PIPE)\n"
        f"open('pid', 'wb').write(child.stdout.readline())"
    )
    cells = [measuring.Cell(text=start, kind="starts")]
    workload = replace(tiny_workload(measuring), cells=cells, checks={"there": "child.pid > 0"}, yardsticks={})
    folder, limits = tmp_path / "beside", measuring.Limits(end_s=0)
    found = measuring.measured(workload, speed_systems.SYSTEMS["plain"], folder=folder, shared=tmp_path, limits=limits)
    assert found.cpu_beside_s > 0.1
    assert found.peak_beside_bytes > 2**20
    assert not speed_processes.lives(int((folder / "pid").read_text()))


def test_the_digest_tells_values_apart(measuring: ModuleType) -> None:
    """Equal values have equal digests; another value, type, order or dtype has another one."""
    import numpy as np
    import pandas as pd
    import speed_inside

    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    values = [
        1, 1.0, True, "1", b"1", None, [1, 2], (1, 2), [2, 1], {"a": 1, "b": 2}, {"b": 2, "a": 1}, [[1], [2, 3]],
        [[1, 2], [3]], np.arange(3), np.arange(3.0), np.arange(4).reshape(2, 2), np.arange(4), frame,
        frame.rename(columns={"a": "c"}), frame.assign(a=[1, 3]), frame.set_index("a"), frame["a"],
        np.array(["x", None], dtype=object), np.array(["x", "y"], dtype=object),
    ]  # fmt: skip
    digests = [speed_inside.digest(value) for value in values]
    assert len(values) == len(set(digests))
    assert digests[-7] == speed_inside.digest(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    with pytest.raises(TypeError, match="cannot tell"):
        speed_inside.digest([object()])


def test_every_workload_is_well_formed(measuring: ModuleType) -> None:
    """Both forms of every workload have cells to measure, checks, and names for their restore."""
    import speed_workloads

    for form in ("small", "full"):
        made = speed_workloads.workloads(form)
        assert {"a", "b", "c", "d", "e", "f", "g", "h", "i"} <= set(made)
        for workload in made.values():
            assert any(cell.kind != "setup" for cell in workload.cells), workload.key
            assert workload.checks
            assert workload.names
            for text in (*workload.checks.values(), *workload.yardsticks.values()):
                compile(text, workload.key, "eval")


def test_the_program_says_what_it_takes() -> None:
    """`speed.py --help` names the workloads and the systems."""
    ran = subprocess.run(
        [sys.executable, str(FOLDER / "speed.py"), "--help"], capture_output=True, text=True, check=True
    )
    for word in ("--small", "--workloads", "h-2", "durable_nb", "kishu"):
        assert word in ran.stdout
