"""The tutorials are killed half-way and continued: what they show and hold at the end is as without the kill."""

from __future__ import annotations

import configparser
import json
import re
from pathlib import Path

import psutil
import pytest

from durable_nb.kernel.demo_cells import Cell, comparable, read_cells, skipped
from durable_nb.kernel.fingerprint import CELL
from durable_nb.testing.kernels import Kernel

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def sanitize(outputs: list[object]) -> list[object]:
    """Return outputs without what `notebooks/sanitize.cfg` says does not count; nbval reads the same file."""
    text = json.dumps(outputs, ensure_ascii=False)
    rules = configparser.RawConfigParser()
    rules.read(NOTEBOOKS / "sanitize.cfg", encoding="utf-8")
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    found: list[object] = json.loads(text)
    return found


class Life:
    """One notebook in one folder, in one kernel at a time."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.cells = read_cells((NOTEBOOKS / name).read_text(encoding="utf-8"), where=name)
        self.skipped: list[str] = []

    def kernel(self) -> Kernel:
        """Start a kernel that knows the notebook's name and uses a key of this test."""
        told = {
            "JPY_SESSION_NAME": str(self.folder / "notebook.ipynb"),
            "DURABLE_NB_KEY_FILE": str(self.folder / "key"),
        }
        return Kernel(self.folder, environ=told)

    def run(self, kernel: Kernel, cells: list[Cell]) -> dict[str, list[object]]:
        """Run cells; return what each showed, by name."""
        shown = {}
        for cell in cells:
            reply = kernel.run(cell.source, cell_id=cell.cell_id, timeout_s=120)
            assert reply.status == "ok", (cell.name, reply.evalue, reply.traceback)
            if skipped(reply.outputs):
                self.skipped.append(cell.name)
            shown[cell.name] = sanitize(comparable(reply.outputs)) if cell.compared else []
        return shown

    def to_the_end(self) -> tuple[dict[str, list[object]], dict[str, str]]:
        """Run All in a new kernel; return what was shown and what the variables are."""
        with self.kernel() as kernel:
            shown = self.run(kernel, self.cells)
            reply = kernel.run(CELL, store_history=False)
            assert reply.status == "ok", reply
            return shown, json.loads(reply.text())

    def killed_in(self, name: str, after: str) -> None:
        """Run the cells before one, begin that one and kill the kernel when it has printed something."""
        at = next(i for i, cell in enumerate(self.cells) if cell.name == name)
        with self.kernel() as kernel:
            self.run(kernel, self.cells[:at])
            request = kernel.begin(self.cells[at].source, cell_id=self.cells[at].cell_id)
            kernel.wait_for_text(request, after)
            children = psutil.Process(kernel.pid).children(recursive=True)
            kernel.sigkill()
            # The tutorial's own kernels notice within a second that their parent is gone.
            _, alive = psutil.wait_procs(children, timeout=15)
            assert alive == []


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("name", "victim", "after"),
    [
        ("quickstart.ipynb", "validate", "nearest neighbours"),
        ("recovery.ipynb", "second", ">>> %%durable ledger"),
    ],
)
def test_a_notebook_killed_half_way_ends_as_if_it_had_not_been(
    tmp_path: Path, name: str, victim: str, after: str
) -> None:
    """After SIGKILL in the middle of a cell Run All skips what was finished; outputs and variables are equal."""
    whole = Life(tmp_path / "whole", name)
    shown, variables = whole.to_the_end()
    killed = Life(tmp_path / "killed", name)
    killed.killed_in(victim, after)
    shown_again, variables_again = killed.to_the_end()

    names = [cell.name for cell in killed.cells if cell.durable]
    assert killed.skipped == names[: names.index(victim)]
    assert shown_again == shown
    assert variables_again == variables
    assert len(variables) > 5


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["quickstart.ipynb", "recovery.ipynb"])
def test_no_output_names_a_place_on_a_machine(name: str) -> None:
    """The committed outputs hold no path, no host and no user of the machine that made them."""
    notebook = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    text = json.dumps([cell.get("outputs", []) for cell in notebook["cells"]], ensure_ascii=False)
    assert re.findall(r"/(?:home|root|tmp|work|Users|var)/\w*", text) == []
    assert len(text) > 1000
