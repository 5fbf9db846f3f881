"""Measure one workload under one system: real kernels, a SIGKILL, a restore, and whether what came back is right.

Called by `speed.py`. Times are taken outside the kernel, from the messages; processor time, memory and written bytes
from the operating system, so that nothing runs in the kernel but the cells and the system. When `measured` returns, all
its processes are gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from speed_processes import Family, beside, cpu_beside_s, cpu_main_s, cpu_s, end_all, peak_bytes, written_bytes
from speed_systems import System
from speed_workloads import Cell, Workload

from durable_nb.testing.kernels import Kernel, Reply

__all__ = ["Limits", "Measured", "Restored", "Took", "compared", "measured", "removed"]

_HERE = str(Path(__file__).parent)
_INSIDE = "__import__('speed_inside')"
_TICK_S = 0.01
_QUIET_S = 0.25
_FAILED = re.compile(r"Error in callback.*|.*(?:could not be saved|is not saved).*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to give up on a system: seconds for all cells, for one, bytes on disk, seconds to become quiet, to end."""

    cells_s: float = 1800
    cell_s: float = 600
    disk_bytes: float = 25e9
    quiet_s: float = 120
    end_s: float = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What one cell took: seconds until its reply, processor seconds of the kernel until the next request.

    `main_s` is the part of the main thread, which runs the cells.
    """

    kind: str
    wall_s: float
    cpu_s: float
    main_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Seconds since the new kernel was ready: the first cell ran, all names are there, all values were read once.

    `start_s` is from the kill until the new kernel answered. `cat_s` is the reading of the stored files by `cat`, in
    the same state of the page cache. `wrong` names the checks whose values differ, or how it failed.
    """

    cache: str
    start_s: float
    first_s: float
    all_s: float
    read_s: float
    peak_bytes: int
    wrong: Sequence[str]
    cat_s: float | None = None
    profile: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Measured:
    """All that was found about one workload under one system."""

    workload: str
    system: str
    took: list[Took] = field(default_factory=list)
    cpu_beside_s: float = 0.0
    stored_setup_bytes: int = 0
    stored_bytes: int = 0
    written_setup_bytes: int = 0
    written_bytes: int = 0
    peak_bytes: int = 0
    peak_beside_bytes: int = 0
    drain_s: float = 0.0
    failures: list[str] = field(default_factory=list)
    stopped: str = ""
    answers: dict[str, str] = field(default_factory=dict)
    yardsticks: dict[str, dict[str, float]] = field(default_factory=dict)
    restored: list[Restored] = field(default_factory=list)
    profile: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Place:
    """A system's folder and what its kernels are started with."""

    system: System
    folder: Path
    shared: Path
    family: Family
    python: Path | None

    def kernel(self) -> Kernel:
        told = {name: "" for name in os.environ if name.startswith("DURABLE_NB_")}
        told |= {
            "HOME": str(self.folder / "home"),
            "DURABLE_NB_KEY_FILE": str(self.folder / "home" / "key"),
            "MPLCONFIGDIR": str(self.shared),
            "SPEED_BENCHMARK": self.family.token,
            "PYTHONPATH": os.pathsep.join(filter(None, [_package(), _HERE, os.environ.get("PYTHONPATH", "")])),
            # One thread, so that sums are the same in every kernel, and times steadier.
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        }
        told |= {name: text.format(folder=self.folder) for name, text in self.system.environ.items()}
        return Kernel(self.folder, environ=told, start_timeout_s=180, python=self.python)

    def texts(self, cells: Sequence[str]) -> list[str]:
        return [cell.format(folder=str(self.folder)) for cell in cells]

    def stored(self) -> list[Path]:
        return [path for pattern in self.system.stores for path in self.folder.glob(pattern) if path.is_file()]

    def stored_bytes(self) -> int:
        # A file may be replaced while it is looked at.
        total = 0
        for path in self.stored():
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size
        return total


def _package() -> str:
    return str(Path(__file__).resolve().parents[2])


def measured(
    workload: Workload,
    system: System,
    *,
    folder: Path,
    shared: Path,
    python: Path | None = None,
    expected: Mapping[str, str] | None = None,
    limits: Limits = Limits(),
    profile: bool = False,
) -> Measured:
    """Run the workload, kill the kernel, restore, check; `expected` are the answers of the plain kernel."""
    place = _Place(system=system, folder=folder, shared=shared, family=Family(), python=python)
    (folder / "home").mkdir(parents=True)
    for name, text in system.files.items():
        (folder / name).write_text(text)
    found = Measured(workload=workload.key, system=system.name)
    kernel = place.kernel()
    try:
        with kernel:
            _run_cells(found, workload, kernel, place, limits, profile)
            found.answers = _asked(kernel, folder, "answer", workload.checks, limits)
            if system.restores and not found.stopped:
                _note_failure(found, kernel.run(workload.last, timeout_s=limits.cell_s))
            killed = time.perf_counter()
            kernel.sigkill()
        if system.restores and not found.stopped:
            wanted = found.answers if expected is None else expected
            found.restored.append(_restored(workload, place, killed, wanted, limits, cache="warm", profile=profile))
            if workload.cat:
                found.restored.append(_cold(workload, place, wanted, limits))
    finally:
        end_all(place.family, limits.end_s)
    return found


def _run_cells(
    found: Measured, workload: Workload, kernel: Kernel, place: _Place, limits: Limits, profile: bool
) -> None:
    for cell in place.texts(place.system.install):
        _checked(kernel.run(cell, silent=place.system.silent, timeout_s=limits.cell_s))
    setup = [cell for cell in workload.cells if cell.kind == "setup"]
    series = [cell for cell in workload.cells if cell.kind != "setup"]
    _series(found, setup, kernel, place, limits)
    _quiet(kernel, place, limits)
    found.stored_setup_bytes = place.stored_bytes()
    found.written_setup_bytes = written_bytes(place.family, kernel.pid)
    _sample(kernel, profile)
    before = cpu_beside_s(place.family, kernel.pid)
    _series(found, series, kernel, place, limits)
    found.drain_s = _quiet(kernel, place, limits)
    found.cpu_beside_s = cpu_beside_s(place.family, kernel.pid) - before
    found.profile = _sampled(kernel, place.folder, profile)
    found.stored_bytes = place.stored_bytes()
    found.written_bytes = written_bytes(place.family, kernel.pid)
    found.peak_bytes = peak_bytes(kernel.pid)
    found.peak_beside_bytes = sum(map(peak_bytes, beside(place.family, kernel.pid)))
    if not place.system.restores and workload.yardsticks:
        found.yardsticks = _asked(kernel, place.folder, "time_yardsticks", workload.yardsticks, limits)


def _series(found: Measured, cells: Sequence[Cell], kernel: Kernel, place: _Place, limits: Limits) -> None:
    began, cpu, main = time.perf_counter(), cpu_s(kernel.pid), cpu_main_s(kernel.pid)
    for at, cell in enumerate(cells):
        if found.stopped:
            return
        asked = time.perf_counter()
        reply = kernel.run(cell.text, timeout_s=limits.cell_s)
        wall = time.perf_counter() - asked
        if reply.status != "ok":
            raise RuntimeError(f"{found.system} {found.workload}: {cell.text[:80]}: {reply.ename}: {reply.evalue}")
        _note_failure(found, reply)
        before, cpu = (cpu, main), cpu_s(kernel.pid)
        main = cpu_main_s(kernel.pid)
        found.took.append(Took(kind=cell.kind, wall_s=wall, cpu_s=cpu - before[0], main_s=main - before[1]))
        if time.perf_counter() - began > limits.cells_s:
            found.stopped = f"after {at + 1} of {len(cells)} cells: {limits.cells_s:g} s were over"
        elif at % 5 == 4 and place.stored_bytes() > limits.disk_bytes:
            found.stopped = f"after {at + 1} of {len(cells)} cells: {limits.disk_bytes / 1e9:g} GB were stored"


def _sample(kernel: Kernel, profile: bool) -> None:
    if profile:
        _checked(kernel.run(f"{_INSIDE}.sample('/durable_nb/')", silent=True))


def _sampled(kernel: Kernel, folder: Path, profile: bool) -> Mapping[str, Any]:
    if not profile:
        return {}
    path = folder / "profile.json"
    _checked(kernel.run(f"{_INSIDE}.stop_sampling({str(path)!r})", silent=True))
    found: Mapping[str, Any] = json.loads(path.read_text())
    return found


def _checked(reply: Reply) -> Reply:
    if reply.status != "ok":
        raise RuntimeError(f"a cell failed: {reply.ename}: {reply.evalue}")
    return reply


def _note_failure(found: Measured, reply: Reply) -> None:
    # What a callback of IPython raises is printed, and the cell is ok.
    said = reply.text() + reply.text("stderr")
    if failed := _FAILED.search(said):
        errors = [f"{o['ename']}: {o['evalue']}" for o in reply.of("error")]
        lines = [line for line in said.splitlines() if re.match(r"\w+(Error|Exception)\b", line)]
        found.failures.append((errors or lines or [failed[0]])[-1][:200])


def _asked(kernel: Kernel, folder: Path, what: str, about: Mapping[str, str], limits: Limits) -> dict[str, Any]:
    path = folder / f"{what}.json"
    path.unlink(missing_ok=True)
    call = f"{_INSIDE}.{what}(get_ipython().user_ns, {dict(about)!r}, {str(path)!r})"
    _checked(kernel.run(call, silent=True, timeout_s=limits.cell_s))
    answers: dict[str, Any] = json.loads(path.read_text())
    return answers


# -- restoring


def _restored(
    workload: Workload,
    place: _Place,
    killed: float,
    expected: Mapping[str, str],
    limits: Limits,
    *,
    cache: str,
    profile: bool = False,
) -> Restored:
    with place.kernel() as kernel:
        ready = time.perf_counter()
        # Naming them all has a lazy system bring them all.
        named = f"({', '.join(workload.names)},) and None"
        first = last = read = float("nan")
        sampled: Mapping[str, Any] = {}
        try:
            _sample(kernel, profile)
            for cell in place.texts(place.system.restore):
                _checked(kernel.run(cell, silent=place.system.silent, timeout_s=limits.cell_s))
            _checked(kernel.run(f"{workload.first}  # after the restore", timeout_s=limits.cell_s))
            first = time.perf_counter() - ready
            _checked(kernel.run(named, timeout_s=limits.cell_s))
            last = time.perf_counter() - ready
            _checked(kernel.run(f"{workload.read};", timeout_s=limits.cell_s))
            read = time.perf_counter() - ready
            sampled = _sampled(kernel, place.folder, profile)
            wrong = compared(expected, _asked(kernel, place.folder, "answer", workload.checks, limits))
        except (RuntimeError, ChildProcessError, TimeoutError) as error:
            wrong = [f"failed: {error}"[:200]]
        peak = peak_bytes(kernel.pid)
        kernel.sigkill()
    return Restored(
        cache=cache,
        start_s=ready - killed,
        first_s=first,
        all_s=last,
        read_s=read,
        peak_bytes=peak,
        wrong=wrong,
        cat_s=_cat(place.stored()) if workload.cat and cache == "warm" else None,
        profile=sampled,
    )


def compared(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return the labels of the checks whose answers differ, with the error where there was one."""
    return [
        f"{label} ({found[label]})" if ": " in found.get(label, "") else label
        for label, answer in expected.items()
        if found.get(label) != answer
    ]


def _cold(workload: Workload, place: _Place, expected: Mapping[str, str], limits: Limits) -> Restored:
    """Restore once more with the stored files out of the page cache, and read them by `cat` in the same state."""
    _evict(place.stored())
    took = _cat(place.stored())
    _evict(place.stored())
    restored = _restored(workload, place, time.perf_counter(), expected, limits, cache="cold")
    return replace(restored, cat_s=took)


def _cat(paths: Sequence[Path]) -> float:
    began = time.perf_counter()
    if paths:
        with open(os.devnull, "wb") as nowhere:
            subprocess.run(["cat", *map(str, paths)], stdout=nowhere, check=True)
    return time.perf_counter() - began


def _evict(paths: Sequence[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _quiet(kernel: Kernel, place: _Place, limits: Limits) -> float:
    """Wait until the kernel and its children have nothing more to do; return how long they had."""
    began, since = time.perf_counter(), time.perf_counter()
    used, stored = cpu_s(kernel.pid) + cpu_beside_s(place.family, kernel.pid), place.stored_bytes()
    while (now := time.perf_counter()) - since < _QUIET_S and now - began < limits.quiet_s:
        time.sleep(_QUIET_S / 5)
        used_now = cpu_s(kernel.pid) + cpu_beside_s(place.family, kernel.pid)
        if used_now - used > _TICK_S or place.stored_bytes() != stored:
            since = time.perf_counter()
        used, stored = used_now, place.stored_bytes()
    return max(0.0, since - began)


def removed(folder: Path) -> None:
    """Remove a folder with all that the systems stored in it."""
    shutil.rmtree(folder, ignore_errors=True)
