"""Figures come back without being registered with pyplot or shown; interactive widgets are reported.

Merged into the plug-in by `load` once matplotlib is imported.
"""

from __future__ import annotations

from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable
from durable_nb.capture.reducers._named import named

LIBRARY = "matplotlib"


def _figure(figure: Any) -> Any:
    function, args, state, *rest = figure.__reduce_ex__(5)
    if isinstance(state, dict):
        # Registering would show the figure below whatever cell loads it, and again when a checkpoint is proved.
        state = {k: v for k, v in state.items() if k != "_restore_to_pylab"}
        # The inline backend hangs a function of its own on the figure; the backend of the new kernel has its own too.
        if getattr(state.get("show"), "__module__", "").startswith("matplotlib_inline"):
            del state["show"]
    return (function, args, state, *rest)


def _widget(widget: Any) -> tuple[Any, ...]:
    kind = type(widget).__name__
    raise Unstorable(f"the matplotlib widget {kind} lives on the events of its figure; make it again in a cell")


def _manager(obj: Any) -> tuple[Any, ...]:
    raise Unstorable(f"a {type(obj).__name__} belongs to the window of a figure; keep the figure instead")


def plugin() -> Plugin:
    """Return what matplotlib needs."""
    return Plugin(
        subclasses=(
            (named("matplotlib.figure.Figure"), _figure),
            (named("matplotlib.widgets.Widget", "matplotlib.animation.Animation"), _widget),
            (
                named("matplotlib.backend_bases.FigureManagerBase", "matplotlib.backend_bases.FigureCanvasBase"),
                _manager,
            ),
        )
    )
