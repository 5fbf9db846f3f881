"""Turn what the speed benchmark measured into Markdown tables, and say where durable_nb is not ahead.

Called by `speed.py`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from speed_measuring import Measured, Restored, Took

__all__ = ["Compared", "document", "profiles", "tables"]

OURS = "durable_nb"
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One workload under several systems; `plain` was run before and after them."""

    workload: str
    title: str
    plain: Sequence[Measured]
    found: Sequence[Measured]

    def to_json(self) -> dict[str, Any]:
        """Return everything, each single time included, and the figures of the tables."""
        rows = {m.system: asdict(m) | {"figures": figures(self, m) if m.took else {}} for m in self.found}
        plain = [asdict(m) for m in self.plain]
        return {"workload": self.workload, "title": self.title, "plain": plain, "systems": rows}


# -- figures


def added(compared: Compared, measured: Measured, what: str, choose: Callable[[str], bool]) -> list[float]:
    """Return what each chosen cell took more than the same one in the plain kernels, on their average."""
    plains = [[getattr(took, what) for took in plain.took] for plain in compared.plain]
    return [
        getattr(took, what) - statistics.fmean(plain[at] for plain in plains)
        for at, took in enumerate(measured.took)
        if choose(took.kind)
    ]


def figures(compared: Compared, measured: Measured) -> dict[str, float]:
    """Return the figures of one row, in seconds and bytes."""
    wall = added(compared, measured, "wall_s", _is_measured)
    cpu = added(compared, measured, "cpu_s", _is_measured)
    plain = [took.wall_s for took in compared.plain[0].took[: len(measured.took)]]
    cells = max(1, len(wall))
    beside = statistics.fmean(p.cpu_beside_s for p in compared.plain)
    return {
        "added_median_s": statistics.median(wall or [math.nan]),
        "added_p95_s": _p95(wall),
        "added_total_s": sum(added(compared, measured, "wall_s", lambda kind: True)),
        "setup_added_s": sum(added(compared, measured, "wall_s", lambda kind: kind == "setup")),
        "plain_total_s": sum(plain),
        "of_plain": sum(took.wall_s for took in measured.took) / max(1e-9, _plain_total(compared, measured)),
        "main_mean_s": statistics.fmean(added(compared, measured, "main_s", _is_measured) or [math.nan]),
        "cpu_median_s": statistics.median(cpu or [math.nan]),
        "cpu_mean_s": statistics.fmean(cpu or [math.nan]),
        "cpu_beside_s": (measured.cpu_beside_s - beside) / cells,
        "stored_bytes": measured.stored_bytes,
        "stored_per_cell_bytes": (measured.stored_bytes - measured.stored_setup_bytes) / cells,
        "written_bytes": measured.written_bytes,
        "peak_bytes": measured.peak_bytes,
        "peak_of_plain": measured.peak_bytes / max(1, max(p.peak_bytes for p in compared.plain)),
    }


def noise(compared: Compared) -> float:
    """Return by how much the two plain kernels differ, per cell in the median, in seconds."""
    if len(compared.plain) < 2:
        return math.nan
    pairs = zip(*(_measured_cells(plain) for plain in compared.plain), strict=True)
    return statistics.median(abs(a.wall_s - b.wall_s) for a, b in pairs)


def _plain_total(compared: Compared, measured: Measured) -> float:
    return statistics.fmean(sum(took.wall_s for took in p.took[: len(measured.took)]) for p in compared.plain)


def _measured_cells(measured: Measured) -> list[Took]:
    return [took for took in measured.took if _is_measured(took.kind)]


def _is_measured(kind: str) -> bool:
    return kind != "setup"


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))] if values else math.nan


# -- tables


def tables(compared: Sequence[Compared], goals: list[list[str]], speeds: Mapping[str, str]) -> str:
    """Return all tables as Markdown."""
    parts = [
        ("What was promised, for the full form", goals),
        ("Cells", _cells(compared)),
        ("Disk, memory, restore after SIGKILL", _rest(compared)),
        ("Added by kind of cell", _kinds(compared)),
        ("Restores from a cold cache, and reading the same files by `cat`", _cats(compared)),
        ("Yardsticks", _yardsticks(compared)),
        ("This machine", [["what", "speed"], *([what, speed] for what, speed in speeds.items())]),
    ]
    shown = [f"## {title}\n\n{_table(rows)}" for title, rows in parts if len(rows) > 1]
    return "\n\n".join([*shown, f"## Where {OURS} is not ahead\n\n{_behind(compared)}"]) + "\n"


def _cells(compared: Sequence[Compared]) -> list[list[str]]:
    rows = [["workload", "system", "cells", "added ms, median", "p95", "added s, all", "× plain",
             "kernel CPU added ms per cell, mean", "median",
             "main thread, mean", "CPU beside ms per cell"]]  # fmt: skip
    for one in compared:
        cells = len(_measured_cells(one.plain[0]))
        rows.append([f"**{one.workload}** {one.title}", "plain", str(cells), f"± {noise(one) * 1000:.1f}", "",
                     f"{figures(one, one.plain[0])['plain_total_s']:.1f} in all", "", "", "", "", ""])  # fmt: skip
        for measured in one.found:
            f = figures(one, measured) if measured.took else {}
            rows.append([one.workload, measured.system, str(len(_measured_cells(measured))),
                         *(_ms(f.get(k)) for k in ("added_median_s", "added_p95_s")),
                         _number(f.get("added_total_s"), 1, 2), _number(f.get("of_plain"), 1, 3),
                         *(_ms(f.get(k)) for k in ("cpu_mean_s", "cpu_median_s", "main_mean_s", "cpu_beside_s")),
                         ])  # fmt: skip
    return rows


def _rest(compared: Sequence[Compared]) -> list[list[str]]:
    rows = [["workload", "system", "on disk MiB", "per cell KiB", "written MiB", "peak MiB", "first cell s",
             "all names s", "all read s", "peak MiB then", "restored", "notes"]]  # fmt: skip
    for one in compared:
        peak = f"{one.plain[0].peak_bytes / MIB:.0f}"
        rows.append([one.workload, "plain", "", "", "", peak, "", "", "", "", "", ""])
        for measured in one.found:
            f = figures(one, measured) if measured.took else {}
            back = measured.restored[0] if measured.restored else None
            rows.append([one.workload, measured.system, _number(f.get("stored_bytes"), 1 / MIB, 1),
                         _number(f.get("stored_per_cell_bytes"), 1 / 1024, 1),
                         _number(f.get("written_bytes"), 1 / MIB, 1), _number(f.get("peak_bytes"), 1 / MIB, 0),
                         *(_number(getattr(back, k, None), 1, 2) for k in ("first_s", "all_s", "read_s")),
                         _number(getattr(back, "peak_bytes", None), 1 / MIB, 0),
                         _verdict(measured, back), _notes(one, measured)])  # fmt: skip
    return rows


def _verdict(measured: Measured, back: Restored | None) -> str:
    if back is None:
        return "not tried"
    return f"**wrong**: {', '.join(back.wrong)}" if back.wrong else "right"


def _notes(compared: Compared, measured: Measured) -> str:
    notes = [f"stopped {measured.stopped}"] if measured.stopped else []
    if measured.failures:
        notes.append(f"save failed in {len(measured.failures)} cells: {measured.failures[-1]}")
    plain = compared.plain[0].answers
    differs = [k for k, v in measured.answers.items() if plain.get(k) != v]
    if differs and not measured.stopped:
        notes.append(f"differs from plain before the kill: {', '.join(differs)}")
    if measured.drain_s > 0.1:
        notes.append(f"busy {measured.drain_s:.1f} s behind the last cell")
    if measured.peak_beside_bytes:
        notes.append(f"{measured.peak_beside_bytes / MIB:.0f} MiB beside")
    return "; ".join(notes).replace("|", "\\|").replace("\n", " ")


def _kinds(compared: Sequence[Compared]) -> list[list[str]]:
    rows = [["workload", "kind of cell", "system", "cells", "added ms, median", "p95", "kernel CPU added ms, median",
             "mean"]]  # fmt: skip
    for one in compared:
        kinds = list(dict.fromkeys(took.kind for took in one.plain[0].took))
        for kind in kinds:
            for measured in one.found:
                wall = added(one, measured, "wall_s", kind.__eq__)
                cpu = added(one, measured, "cpu_s", kind.__eq__)
                if wall:
                    rows.append([one.workload, kind, measured.system, str(len(wall)), _ms(statistics.median(wall)),
                                 _ms(_p95(wall)), _ms(statistics.median(cpu)), _ms(statistics.fmean(cpu))])  # fmt: skip
    return rows


def _cats(compared: Sequence[Compared]) -> list[list[str]]:
    rows = [["workload", "system", "cache", "new kernel s", "first cell s", "all names s", "all read s", "cat s",
             "all names × cat", "restored"]]  # fmt: skip
    for one in compared:
        for measured in one.found:
            for back in measured.restored:
                if back.cat_s is not None:
                    times = (back.start_s, back.first_s, back.all_s, back.read_s, back.cat_s, back.all_s / back.cat_s)
                    rows.append([one.workload, measured.system, back.cache, *(_number(t, 1, 2) for t in times),
                                 _verdict(measured, back)])  # fmt: skip
    return rows


def _yardsticks(compared: Sequence[Compared]) -> list[list[str]]:
    rows = [["workload", "what", "ms", "KiB"]]
    return rows + [
        [one.workload, what, _ms(took["seconds"]), _number(took["bytes"], 1 / 1024, 1)]
        for one in compared
        for what, took in one.plain[0].yardsticks.items()
    ]


def _behind(compared: Sequence[Compared]) -> str:
    """Tell where another system is better in processor time, written bytes or restore time, right or wrong."""
    lines = []
    for one in compared:
        ours = next((m for m in one.found if m.system == OURS and m.took), None)
        for peer in one.found if ours else ():
            if peer is ours or not peer.took or peer.stopped:
                continue
            for what, get, unit, digits in _CONTESTS:
                mine, theirs = get(one, ours), get(one, peer)
                if mine > theirs:
                    wrong = " (and restored wrong)" if peer.restored and peer.restored[0].wrong else ""
                    figure = f"{mine:.{digits}f} {unit}, {peer.system} {theirs:.{digits}f} {unit}{wrong}"
                    lines.append(f"- {one.workload}: {what}: {figure}")
    return "\n".join(lines) or "Nowhere."


def _back(measured: Measured, what: str) -> float:
    return float(getattr(measured.restored[0], what)) if measured.restored else math.nan


_CONTESTS: Sequence[tuple[str, Callable[[Compared, Any], float], str, int]] = (
    ("kernel CPU added per cell", lambda c, m: figures(c, m)["cpu_mean_s"] * 1000, "ms", 2),
    ("written", lambda c, m: figures(c, m)["written_bytes"] / MIB, "MiB", 1),
    ("restore to the first cell", lambda c, m: _back(m, "first_s"), "s", 2),
    ("restore of everything", lambda c, m: _back(m, "all_s"), "s", 2),
)


def _ms(seconds: float | None) -> str:
    return _number(seconds, 1000, 2)


def _number(value: float | None, factor: float, digits: int) -> str:
    return "–" if value is None or math.isnan(value) else f"{value * factor:.{digits}f}"


def _table(rows: Iterable[Sequence[str]]) -> str:
    lines = [list(row) for row in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    widths = [min(width, 60) for width in widths]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    text = [f"| {' | '.join(line)} |" for line in padded]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


# -- the document, and where the time goes


def document(text: str, about: str) -> str:
    """Return the file that is committed."""
    return f"""# What keeping a notebook costs

Made by `python tests/benchmarks/speed.py --write`. {about}

Every system runs the same cells in a real kernel of its own, one after the other. Plain runs first and last; \
«added» is the difference to its average for the same cell, ± the difference of the two plain runs. CPU is that of \
the whole kernel process, background threads included; «beside» that of its children. «Written» counts bytes given \
to the disk, overwritten ones included. Then SIGKILL, straight after a reply; times of the restore begin when the \
new kernel answers, «all read» includes one pass over all large values. «Restored» compares digests of all values \
with those of the plain kernel. dill is `dill.dump_session` after every cell, cloudpickle a pickle of all of the \
user's names after every cell. Kishu 0.3.4 runs in its own environment and does not wait for a notebook to be \
saved. All libraries run in one thread.

{text}"""


def profiles(compared: Sequence[Compared]) -> str:
    """Return, for each workload, the functions of durable_nb that took most of the kernel's main thread."""
    parts = []
    for one in compared:
        for measured in one.found:
            cells = len(_measured_cells(measured))
            parts += _profile(f"{one.workload}, per cell of {cells}", measured.profile, cells)
            for back in measured.restored:
                parts += _profile(f"{one.workload}, restore", back.profile, 1)
    return "\n\n".join(parts)


def _profile(title: str, found: Mapping[str, Any], times: int) -> list[str]:
    """Return tables: time in a function and outside durable_nb below it, with all below it, and single lines."""
    if not found:
        return []
    total = found["total_s"]
    parts = [f"## {title}: {_ms(total / times)} ms of the main thread"]
    for what, most in (("own", 15), ("below", 30), ("leaves", 15)):
        rows = [[what, "ms", "%"]]
        rows += [[name, _ms(took / times), f"{took / total:.0%}"] for name, took in found[what][:most]]
        parts.append(_table(rows))
    return parts
