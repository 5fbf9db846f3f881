"""Measure what durability costs, in real kernels: plain, durable and dill's session dump side by side.

Run by `make bench`, or `python tests/benchmarks/run.py [--cells N] [--fresh N] [--megabytes N] [--json PATH]`. Prints
tables and never fails because of a time. The kernels take turns cell by cell, so that a busy machine is busy for all of
them; differences are what counts, not single times.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from durable_nb.testing.kernels import Kernel, Reply

KINDS = ("plain", "durable", "dill session")
LOAD = "%load_ext durable_nb"
LOADING = "get_ipython().run_line_magic('load_ext', 'durable_nb')"
ON = "%durable on"
# What a careful person does today: the whole session to disk after every cell.
DILL = """
def _install():
    import dill
    path = {path!r}
    get_ipython().events.register("post_run_cell", lambda *_: dill.dump_session(path))
_install()
"""
IMPORT_LIMIT_MS = 60
LOAD_LIMIT_MS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class PerCell:
    """Times of a series of cells over the same cells in a plain kernel, in milliseconds.

    `first` and `last` are medians over the first and the last fifty cells: they must not differ. `added` is the time
    that a front end waits longer; `cpu` the processor time of the thread that runs cells, which a busy machine does not
    blur; `cpu_all` the mean over all threads, with what goes on behind.
    """

    workload: str
    kind: str
    cells: int
    added_median_ms: float
    added_p95_ms: float
    added_first_ms: float
    added_last_ms: float
    cpu_median_ms: float
    cpu_first_ms: float
    cpu_last_ms: float
    cpu_all_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One single figure."""

    what: str
    value: float
    unit: str
    note: str = ""


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=200, help="cells per series (default 200)")
    parser.add_argument("--fresh", type=int, default=5, help="fresh kernels for import and load times (default 5)")
    parser.add_argument("--megabytes", type=int, default=100, help="size of the large array (default 100)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures here")
    args = parser.parse_args()
    print(f"Python {platform.python_version()} on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    starts = loading(args.fresh)
    show(Measure, starts)
    series = [row for workload in WORKLOADS for row in per_cell(workload, args.cells)]
    show(PerCell, series)
    large = large_array(args.megabytes)
    show(Measure, large)
    if args.json is not None:
        figures = {"starts": starts, "per_cell": series, "large": large}
        args.json.write_text(json.dumps({k: [asdict(row) for row in rows] for k, rows in figures.items()}, indent=1))


# -- starting


def loading(fresh: int) -> list[Measure]:
    """Time the import and the loading of the extension, each in fresh kernels and a fresh folder."""
    imports, loads, again = [], [], []
    for _ in range(fresh):
        with tempfile.TemporaryDirectory() as name:
            with quiet_kernel(Path(name), Path(name) / "key") as kernel:
                imports.append(timed_inside(kernel, "__import__('durable_nb')"))
                loads.append(timed_inside(kernel, LOADING))
                kernel.run("%durable on")
                kernel.run("x = 1")
            with quiet_kernel(Path(name), Path(name) / "key") as kernel:
                again.append(timed_inside(kernel, LOADING))
    return [
        Measure(what="import durable_nb", value=statistics.median(imports), unit="ms", note=f"limit {IMPORT_LIMIT_MS}"),
        Measure(what="load_ext, new folder", value=statistics.median(loads), unit="ms", note=f"limit {LOAD_LIMIT_MS}"),
        Measure(what="load_ext, one cell to bring back", value=statistics.median(again), unit="ms"),
    ]


def timed_inside(kernel: Kernel, expression: str) -> float:
    """Return the milliseconds that the expression takes inside the kernel."""
    # In one expression, because a restore may put other values under the names of the cell that asks for it.
    cell = f"print('took', __import__('timeit').timeit(lambda: {expression}, number=1))"
    return float(checked(kernel.run(cell)).text().rsplit("took", 1)[1]) * 1000


# -- many small cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A first cell and a series of small ones."""

    name: str
    first: str
    cell: Callable[[int], str]


WORKLOADS = (
    Workload(name="one name, empty namespace", first="pass", cell=lambda i: f"x = {i}"),
    Workload(name="a new name in every cell", first="pass", cell=lambda i: f"v{i} = {i}"),
    Workload(
        name="one name beside 200 others",
        first="\n".join(f"u{i} = list(range({i}, {i + 20}))" for i in range(200)),
        cell=lambda i: f"x = {i}",
    ),
)


def per_cell(workload: Workload, cells: int) -> list[PerCell]:
    """Run the series in three kernels that take turns, and compare each cell with the same one in the plain kernel."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        kernels = {}
        for kind in KINDS:
            folder = Path(name) / kind.replace(" ", "-")
            folder.mkdir()
            kernels[kind] = stack.enter_context(quiet_kernel(folder, Path(name) / "key"))
        checked(kernels["durable"].run(LOAD))
        checked(kernels["durable"].run(ON))
        checked(kernels["dill session"].run(DILL.format(path=str(Path(name) / "session.pkl"))))
        for kernel in kernels.values():
            checked(kernel.run(workload.first))
            for _ in range(3):
                checked(kernel.run("x = 0"))
        before = {kind: cpu_all_ms(kernel.pid) for kind, kernel in kernels.items()}
        times: dict[str, list[float]] = {kind: [] for kind in KINDS}
        used: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for i in range(cells):
            for kind, kernel in kernels.items():
                cpu, began = cpu_main_ms(kernel.pid), time.perf_counter()
                checked(kernel.run(workload.cell(i)))
                times[kind].append((time.perf_counter() - began) * 1000)
                used[kind].append(cpu_main_ms(kernel.pid) - cpu)
        behind = {kind: (cpu_all_ms(kernel.pid) - before[kind]) / cells for kind, kernel in kernels.items()}
    return [compared(workload, kind, times, used, behind) for kind in KINDS[1:]]


def compared(
    workload: Workload,
    kind: str,
    times: dict[str, list[float]],
    used: dict[str, list[float]],
    behind: dict[str, float],
) -> PerCell:
    """Return what the cells of a kind took more than the plain ones."""
    added = [a - b for a, b in zip(times[kind], times["plain"], strict=True)]
    cpu = [a - b for a, b in zip(used[kind], used["plain"], strict=True)]
    part = min(50, max(1, len(added) // 2))
    return PerCell(
        workload=workload.name,
        kind=kind,
        cells=len(added),
        added_median_ms=statistics.median(added),
        added_p95_ms=sorted(added)[min(len(added) - 1, int(len(added) * 0.95))],
        added_first_ms=statistics.median(added[:part]),
        added_last_ms=statistics.median(added[-part:]),
        cpu_median_ms=statistics.median(cpu),
        cpu_first_ms=statistics.median(cpu[:part]),
        cpu_last_ms=statistics.median(cpu[-part:]),
        cpu_all_ms=behind[kind] - behind["plain"],
    )


# -- one large array


def large_array(megabytes: int) -> list[Measure]:
    """Capture, commit and bring back one large array, and the same with dill's session dump."""
    make = f"import numpy as np; a = np.random.default_rng(0).random({megabytes} * 131072)"
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / kind for kind in ("plain", "durable", "dill")]
        for folder in folders:
            folder.mkdir()
        plain, durable, dill = folders
        session, key = str(Path(name) / "session.pkl"), Path(name) / "key"
        with (
            quiet_kernel(plain, key) as base,
            quiet_kernel(durable, key) as ours,
            quiet_kernel(dill, key) as theirs,
        ):
            checked(ours.run(LOAD))
            checked(ours.run(ON))
            checked(theirs.run(DILL.format(path=session)))
            for kernel in (base, ours, theirs):
                checked(kernel.run("import numpy as np"))
            rows = []
            for what, cell in (
                ("the cell that makes it", make),
                ("a cell that changes one row", "a[1000:2000] += 1"),
                ("a cell beside it", "x = 1"),
            ):
                took = {k: seconds(k, cell) for k in (base, ours, theirs)}
                rows.append(Measure(what=f"{what}: durable", value=(took[ours] - took[base]) * 1000, unit="ms added"))
                rows.append(Measure(what=f"{what}: dill", value=(took[theirs] - took[base]) * 1000, unit="ms added"))
            ours.sigkill()
        stored = sum(path.stat().st_size for path in (durable / ".durable").rglob("*") if path.is_file())
        rows.append(Measure(what="stored after the three cells: durable", value=stored / 2**20, unit="MiB"))
        with quiet_kernel(durable, key) as ours:
            rows.append(Measure(what="load_ext after a kill", value=seconds(ours, LOAD) * 1000, unit="ms"))
            rows.append(Measure(what="first use of the array", value=seconds(ours, "a.sum()") * 1000, unit="ms"))
        with quiet_kernel(dill, key) as theirs:
            cell = f"import dill; dill.load_session({session!r})"
            rows.append(Measure(what="dill.load_session", value=seconds(theirs, cell) * 1000, unit="ms"))
    return rows


# -- helpers


def quiet_kernel(folder: Path, key: Path) -> Kernel:
    """Start a kernel that logs nothing and keeps the signing key of whoever measures out of it."""
    profile = folder / ".ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
    return Kernel(folder, environ={"DURABLE_NB_KEY_FILE": str(key)})


def checked(reply: Reply) -> Reply:
    """Return the reply of a cell that has to work."""
    if reply.status != "ok":
        raise SystemExit(f"A cell failed: {reply.ename}: {reply.evalue}")
    return reply


def seconds(kernel: Kernel, cell: str) -> float:
    """Return the time from the request to the end of a cell, as a front end sees it."""
    began = time.perf_counter()
    checked(kernel.run(cell, timeout_s=300))
    return time.perf_counter() - began


def cpu_main_ms(pid: int) -> float:
    """Return the processor time of a process's main thread so far; NaN where /proc does not tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6
    except (FileNotFoundError, IndexError):
        return float("nan")


def cpu_all_ms(pid: int) -> float:
    """Return the processor time of all threads of a process so far; NaN where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def show(kind: type, rows: Sequence[Measure] | Sequence[PerCell]) -> None:
    """Print dataclasses as an aligned table."""
    lines = [list(kind.__dataclass_fields__), *([cell_text(v) for v in asdict(row).values()] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(padded(text, width) for text, width in zip(line, widths, strict=True)).rstrip())
    print(flush=True)


def padded(text: str, width: int) -> str:
    """Align numbers to the right and words to the left."""
    return text.rjust(width) if text.lstrip("-").replace(".", "").isdigit() else text.ljust(width)


def cell_text(value: object) -> str:
    """Return a figure with one decimal, anything else as it is."""
    return f"{value:.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
