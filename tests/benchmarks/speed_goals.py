"""Hold durable_nb's figures against what was promised for the full form of each workload.

Called by `speed.py`; it prints and never fails.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from speed_measuring import Measured
from speed_tables import MIB, OURS, Compared, added, figures

__all__ = ["goals"]

Row = tuple[str, str, float, float, str]
FLIGHT = 512 * MIB


def goals(compared: Sequence[Compared]) -> list[list[str]]:
    """Return rows of a table: workload, goal, limit, figure, and whether it is met."""
    rows = [["workload", "goal", "limit", "figure", "met"]]
    for one in compared:
        ours = next((m for m in one.found if m.system == OURS and m.took), None)
        for workload, what, limit, figure, unit in _of(one, ours) if ours else ():
            met = "–" if math.isnan(limit) or math.isnan(figure) else "yes" if figure <= limit else "**no**"
            rows.append([workload, what, f"{limit:.2f} {unit}", f"{figure:.2f} {unit}", met])
    return rows


def _of(one: Compared, ours: Measured) -> Iterator[Row]:
    found, key = figures(one, ours), one.workload
    yield from _processor(one, found["cpu_mean_s"])
    allowed = one.plain[0].peak_bytes * 1.2 + FLIGHT
    yield key, "peak memory, plain × 1.2 + in flight", allowed / MIB, found["peak_bytes"] / MIB, "MiB"
    for back in ours.restored[:1]:
        yield key, "peak memory of the restore, the same", allowed / MIB, back.peak_bytes / MIB, "MiB"
    if key.startswith("e"):
        yield key, "added per tiny cell, median", 3, found["added_median_s"] * 1000, "ms"
    if key in ("a", "b"):
        yield key, "total, × plain", 1.05, found["of_plain"], "×"
    if key == "a":
        yield key, "added to a cell that reads the frame", 15, _kind(one, ours, "reads the frame"), "ms"
    if key == "c":
        yield from _objects(one, ours)
    if key == "d":
        yield key, "stored per row change", 256, found["stored_per_cell_bytes"] / 1024, "KiB"
        yield key, "added per row change", 60, found["added_median_s"] * 1000, "ms"
    if key == "i":
        new = one.plain[0].yardsticks["C pickle of 1 000 new items"]["bytes"]
        yield key, "stored per cell, 2 × the new items", 2 * new / 1024, found["stored_per_cell_bytes"] / 1024, "KiB"
        yield key, "added per cell", 40, found["added_median_s"] * 1000, "ms"
    for back in ours.restored if key.startswith("h") else ():
        yield key, f"first cell after a restore, {back.cache} cache", 1.5, back.first_s, "s"
        if back.cat_s is not None:
            yield key, f"everything restored, {back.cache} cache, 1.7 × cat", 1.7 * back.cat_s, back.all_s, "s"
            yield key, f"everything restored and read, {back.cache} cache", 1.7 * back.cat_s, back.read_s, "s"


def _processor(one: Compared, ours: float) -> Iterator[Row]:
    peers = {m.system: figures(one, m)["cpu_mean_s"] * 1000 for m in one.found if m.took}
    if "cloudpickle" in peers:
        limit = max(1.5, peers["cloudpickle"])
        yield one.workload, "kernel CPU per cell, cloudpickle's or 1.5 ms", limit, ours * 1000, "ms"
    if "kishu" in peers:
        yield one.workload, "kernel CPU per cell, a tenth of Kishu's", peers["kishu"] / 10, ours * 1000, "ms"


def _objects(one: Compared, ours: Measured) -> Iterator[Row]:
    pickled = one.plain[0].yardsticks["C pickle of the list"]["seconds"] * 1000
    systems = {m.system: m for m in one.found if m.took}
    yield "c", "added to a cell that leaves the list alone", 5, _kind(one, ours, "leaves the list alone"), "ms"
    for kind in ("appends one element", "changes one element", "reads the list"):
        figure = _kind(one, ours, kind)
        yield "c", f"{kind}, 3 × its C pickle", 3 * pickled, figure, "ms"
        for name, share in (("kishu", 5), ("dill", 10)):
            if name in systems:
                yield "c", f"{kind}, 1/{share} of {name}'s", _kind(one, systems[name], kind) / share, figure, "ms"


def _kind(one: Compared, measured: Measured, kind: str) -> float:
    found = added(one, measured, "wall_s", kind.__eq__)
    return statistics.median(found) * 1000 if found else math.nan
