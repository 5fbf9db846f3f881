"""Every I/O call of a kernel's cells fails once: the live state is untouched, a line says what is safe, the next
checkpoint succeeds, and a later life finds everything."""

from __future__ import annotations

import errno

import pytest

from durable_nb.testing.simfiles import SimFiles
from durable_nb.testing.workbench import Workbench

CELLS = [
    "xs = [1]",
    "big = bytes(range(256)) * 800\nalias = xs",
    "def f():\n    return len(xs)\nxs.append(f())",
    "del big\nys = {'xs': xs}",
]
FINAL = {"xs": [1, 1], "alias": [1, 1], "ys": {"xs": [1, 1]}}


def values(bench: Workbench) -> dict[str, object]:
    """Return the variables that the scenario makes."""
    return {n: v for n, v in bench.namespace.items() if n in (*FINAL, "big")}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("code", "step"),
    [
        pytest.param(errno.EIO, 3, id="some"),
        pytest.param(errno.EIO, 1, id="all", marks=pytest.mark.nightly),
        pytest.param(errno.ENOSPC, 1, id="full", marks=pytest.mark.nightly),
    ],
)
def test_every_io_call_failing_once_costs_nothing(code: int, step: int) -> None:
    """Whichever operation fails, no cell is lost or half applied, and one line says what is safe."""
    failures = 0
    for n in range(1, 10_000, step):
        files = SimFiles()
        bench = Workbench(files)
        begun = len(files.operations)
        files.fail_at(n, OSError(code, "refused"))
        for cell in CELLS:
            assert bench.run(cell) is True, f"operation {n}"
        assert values(bench) == FINAL, f"operation {n}"
        assert bench.namespace["ys"]["xs"] is bench.namespace["xs"]
        told = [line for line in bench.shell.said if "in memory" in line]
        if len(files.operations) < begun + n:
            break
        failures += bool(told)
        assert all("intact" in line or "nothing was saved before" in line for line in told), f"operation {n}"
        assert bench.run("last = 1") is True
        assert bench.engine.trouble == "", f"operation {n}: the next checkpoint failed as well"
        bench.workflow.close()
        later = Workbench(files, life="two")
        assert values(later) == FINAL, f"operation {n}"
        assert later.namespace["ys"]["xs"] is later.namespace["xs"] is later.namespace["alias"]
        assert later.repository.verify().problems == (), f"operation {n}"
        later.workflow.close()
    assert failures * step >= 8
