"""The notebooks are killed at many points and continued: nothing that anybody could look at tells that it happened."""

from __future__ import annotations

import configparser
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
import pytest

from durable_nb.kernel.demo_cells import Cell, comparable, read_cells, skipped
from durable_nb.testing import snapshots
from durable_nb.testing.kernels import Kernel
from durable_nb.testing.snapshots import Snapshot, differences

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
NAMES = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
# No notebook seeds Python's own stream: no two runs have the same one at the end, and one that nobody has drawn from
# by the kill is as good as any other.
UNSEEDED = "<random stream>"
# The cell to die in, and what it prints first.
VICTIMS = {
    "quickstart.ipynb": ("validate", "nearest neighbours"),
    "recovery.ipynb": ("second", ">>> %%durable ledger"),
    "what-cannot-be-stored.ipynb": ("third", ">>> %load_ext durable_nb"),
}


@cache
def cells_of(name: str) -> list[Cell]:
    """Return the cells of a notebook; the first loads the extension."""
    return read_cells((NOTEBOOKS / name).read_text(encoding="utf-8"), where=name)


def sanitize(outputs: list[object]) -> list[object]:
    """Return outputs without what `notebooks/sanitize.cfg` says does not count; nbval reads the same file."""
    text = json.dumps(outputs, ensure_ascii=False)
    rules = configparser.RawConfigParser()
    rules.read(NOTEBOOKS / "sanitize.cfg", encoding="utf-8")
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    found: list[object] = json.loads(text)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A kernel at one moment, and its folder."""

    state: Snapshot
    files: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """A kernel with the numbers, inputs and results of cells, and without: Run All counts on and has them twice."""

    whole: Look
    bare: Look


class Life:
    """One notebook in one folder, in one kernel at a time; every life of it is at the same place."""

    def __init__(self, base: Path, name: str) -> None:
        self.base = base
        self.folder = base / "work"
        self.cells = cells_of(name)
        self.skipped: list[str] = []

    def fresh(self) -> None:
        """Begin with an empty folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def keep(self) -> None:
        """Remember the folder as it is."""
        shutil.rmtree(self.base / "kept", ignore_errors=True)
        shutil.copytree(self.folder, self.base / "kept", symlinks=True)

    def as_kept(self) -> None:
        """Put the folder back as it was remembered."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.base / "kept", self.folder, symlinks=True)

    def kernel(self) -> Kernel:
        """Start a kernel that knows the notebook's name and uses a key of this test."""
        told = {
            "JPY_SESSION_NAME": str(self.folder / "notebook.ipynb"),
            "DURABLE_NB_KEY_FILE": str(self.base / "key"),
        }
        return Kernel(self.folder, environ=told)

    def run(self, kernel: Kernel, cells: list[Cell]) -> dict[str, list[object]]:
        """Run cells; return what each showed, errors included, by name."""
        shown = {}
        for cell in cells:
            reply = kernel.run(cell.source, cell_id=cell.cell_id, timeout_s=120)
            assert cell.compared or reply.status == "ok", (cell.name, reply)
            if skipped(reply.outputs):
                self.skipped.append(cell.name)
            shown[cell.name] = [reply.status, *sanitize(comparable(reply.outputs))] if cell.compared else []
        return shown

    def look(self, kernel: Kernel, *, history: bool) -> Look:
        """Take a snapshot, with the numbers, inputs and results of cells or without; the kernel is as before."""
        path = self.base / "snapshot.json"
        reply = kernel.run(snapshots.CELL.format(str(path), history), store_history=False)
        assert (reply.status, reply.outputs) == ("ok", ()), reply
        files = {
            path.relative_to(self.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self.folder.rglob("*")
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(self.folder).parts)
        }
        return Look(state=snapshots.load(path), files=files)

    def looks(self, kernel: Kernel) -> Looks:
        """Take both snapshots."""
        return Looks(whole=self.look(kernel, history=True), bare=self.look(kernel, history=False))

    def die(self, kernel: Kernel) -> None:
        """Kill the kernel; kernels that it started notice within a second that their parent is gone."""
        children = psutil.Process(kernel.pid).children(recursive=True)
        kernel.sigkill()
        kernel.settle()
        _, alive = psutil.wait_procs(children, timeout=15)
        assert alive == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """An uninterrupted run: what each cell showed, and the end."""

    shown: dict[str, list[object]]
    end: Looks


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Life, Whole]]:
    """Give for a notebook its life and what an uninterrupted run of it is like, which is run once."""

    @cache
    def uninterrupted(name: str) -> tuple[Life, Whole]:
        life = Life(tmp_path_factory.mktemp(Path(name).stem), name)
        life.fresh()
        with life.kernel() as kernel:
            shown = life.run(kernel, life.cells)
            found = Whole(shown=shown, end=life.looks(kernel))
        assert life.skipped == []
        return life, found

    return uninterrupted


def points() -> list[object]:
    """Return the points to kill at, notebook and number of cells: behind every durable one, one in the short form."""
    found = []
    for name in NAMES:
        cells = cells_of(name)
        # What a plain cell did to the shell's history is lost with the kernel, which is what plain cells are.
        durable = [done for done in range(2, len(cells) + 1) if cells[done - 1].durable]
        for done in durable:
            marks = [] if done == durable[len(durable) // 2] else [pytest.mark.nightly]
            found.append(pytest.param(name, done, id=f"{Path(name).stem}-{cells[done - 1].name}", marks=marks))
    return found


def killed(life: Life, at: int, victim: str = "") -> Looks:
    """Run the first cells in a fresh folder, and begin the next one if there is something to wait for; kill the kernel.

    Return what the kernel was like behind the first cells.
    """
    life.fresh()
    with life.kernel() as kernel:
        life.run(kernel, life.cells[:1])
        first = life.look(kernel, history=False).state
        life.run(kernel, life.cells[1:at])
        before = life.looks(kernel)
        if first[UNSEEDED] == before.bare.state[UNSEEDED]:
            for look in (before.whole, before.bare):
                look.state[UNSEEDED] = "nobody has drawn from it"
        if victim:
            request = kernel.begin(life.cells[at].source, cell_id=life.cells[at].cell_id)
            kernel.wait_for_text(request, victim)
        life.die(kernel)
    return before


def check(before: Look, restored: Look, expected: Look, end: Look) -> None:
    """Compare what was restored with what was killed, and the end with that of the uninterrupted run."""
    drawn = before.state[UNSEEDED] != "nobody has drawn from it"
    assert differences(before.state, restored.state, but=[] if drawn else [UNSEEDED]) == []
    assert before.files == restored.files
    assert differences(expected.state, end.state, but=[UNSEEDED]) == []
    assert expected.files == end.files


def continued(life: Life, whole: Whole, before: Looks, done: int) -> None:
    """Restore and go on behind the first `done` cells, then the same with Run All: all is as without the kill."""
    life.keep()
    with life.kernel() as kernel:
        life.run(kernel, life.cells[:1])
        restored = life.look(kernel, history=True)
        shown = life.run(kernel, life.cells[done:])
        end = life.look(kernel, history=True)
    check(before.whole, restored, whole.end.whole, end)
    assert {name: whole.shown[name] for name in shown} == shown

    life.as_kept()
    life.skipped.clear()
    with life.kernel() as kernel:
        shown = life.run(kernel, life.cells[:done])
        restored = life.look(kernel, history=False)
        shown |= life.run(kernel, life.cells[done:])
        end = life.look(kernel, history=False)
    check(before.bare, restored, whole.end.bare, end)
    assert whole.shown == shown
    assert [cell.name for cell in life.cells[:done] if cell.durable] == life.skipped


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("name", "done"), points())
def test_a_notebook_killed_between_cells_cannot_tell(
    name: str, done: int, whole: Callable[[str], tuple[Life, Whole]]
) -> None:
    """After SIGKILL behind a cell variables, identity, state, outputs and files are as they would have been without."""
    life, uninterrupted = whole(name)
    continued(life, uninterrupted, killed(life, done), done)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_killed_half_way_cannot_tell(name: str, whole: Callable[[str], tuple[Life, Whole]]) -> None:
    """After SIGKILL in the middle of a cell, restored or run from the top, everything is as if it had not been."""
    victim, printed = VICTIMS[name]
    life, uninterrupted = whole(name)
    done = next(i for i, cell in enumerate(life.cells) if cell.name == victim)
    continued(life, uninterrupted, killed(life, done, printed), done)


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Life, Kernel]]:
    """A kernel with a few things in it that can be shared or not."""
    life = Life(tmp_path_factory.mktemp("lively"), NAMES[0])
    life.fresh()
    with life.kernel() as kernel:
        kernel.run("import numpy\na = numpy.arange(4)\nb = a[1:]")
        kernel.run("xs = [1]\nys = xs\ndef f(): return xs\nclass C: pass\nc = C()")
        yield life, kernel


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("ys = list(ys)", "ys"),
        ("f = type(f)(f.__code__, {'xs': xs})", "f ="),
        ("class C: pass", "c ="),
        ("b = b.copy()", "b <memory>"),
        ("import sys; sys.path.append('there')", "<search path>"),
        ("a[0] = 5", "a ="),
    ],
)
def test_a_look_changes_nothing_and_sees_what_changed(lively: tuple[Life, Kernel], change: str, place: str) -> None:
    """Two looks at one kernel agree; after a change that keeps all values equal, or one outside, they do not."""
    life, kernel = lively
    before = life.look(kernel, history=True)
    assert differences(before.state, life.look(kernel, history=True).state) == []
    kernel.run(change, store_history=False)
    found = differences(before.state, life.look(kernel, history=True).state)
    assert place in [difference.splitlines()[0] for difference in found]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", NAMES)
def test_no_output_names_a_place_on_a_machine(name: str) -> None:
    """The committed outputs hold no path, no host and no user of the machine that made them."""
    notebook = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    text = json.dumps([cell.get("outputs", []) for cell in notebook["cells"]], ensure_ascii=False)
    assert re.findall(r"/(?:home|root|tmp|work|Users|var)/\w*", text) == []
    assert len(text) > 1000
