"""sympy's counters: by them it tells dummy symbols apart, and the sources of the functions that lambdify writes.

Used by `process_libs`. Nothing here imports sympy: while it is not in `sys.modules` it has counted nothing.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.process_options import Library
from durable_nb.model import Json, Unsaved

__all__ = ["SympyNumbers"]


class SympyNumbers(Library):
    """The number of the next dummy symbol, with the base that makes it unique, and of the next lambdified source.

    The numbers are in names that a cell shows and that generated code uses, and two dummies of one number are equal.
    So they only ever grow: where a kernel has counted further than what it restores, it keeps its own count.
    """

    name = "sympy.numbers"
    needs = "sympy"
    grows = True

    def mark(self) -> tuple[int, int, int]:
        dummy, written = _dummy(), sys.modules.get("sympy.utilities.lambdify")
        sources = getattr(written, "_lambdify_generated_counter", 0)
        return int(dummy._base_dummy_index), int(dummy._count), int(sources)

    def dump(self, mark: tuple[int, int, int]) -> Json:
        base, count, sources = mark
        return {"base": base, "dummies": count, "sources": sources}

    def load(self, value: Any) -> list[Unsaved]:
        base, count, sources = self.mark()
        dummy = _dummy()
        if base == value["base"]:
            dummy._count = max(count, value["dummies"])
        else:
            dummy._base_dummy_index, dummy._count = value["base"], value["dummies"]
        written = sys.modules.get("sympy.utilities.lambdify")
        if hasattr(written, "_lambdify_generated_counter"):
            setattr(written, "_lambdify_generated_counter", max(sources, value["sources"]))  # noqa: B010
        return []


def _dummy() -> Any:
    return sys.modules["sympy.core.symbol"].Dummy
