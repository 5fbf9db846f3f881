"""Figures come back without being registered with pyplot or shown; settings stay those of the process.

Merged into the plug-in by `load` once matplotlib is imported. Interactive widgets are reported.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "matplotlib"


@promise("exact")
def _figure(figure: Any) -> Any:
    function, args, state, *rest = figure.__reduce_ex__(5)
    if isinstance(state, dict):
        # Registering would show the figure below whatever cell loads it, and again when a checkpoint is proved.
        state = {k: v for k, v in state.items() if k != "_restore_to_pylab"}
        # The inline backend hangs a function of its own on the figure; the backend of the new kernel has its own too.
        if getattr(state.get("show"), "__module__", "").startswith("matplotlib_inline"):
            del state["show"]
    return (function, args, state, *rest)


@promise("exact")
def _callbacks(registry: Any) -> Any:
    # Pickling takes the next number from its counter: put it back, or an untouched figure is never the same again.
    reduced = registry.__reduce_ex__(5)
    registry._cid_gen = itertools.count(reduced[2]["_cid_gen"])
    return reduced


@promise("reported", "it lives on the events of its figure")
def _widget(widget: Any) -> tuple[Any, ...]:
    kind = type(widget).__name__
    raise Unstorable(f"the matplotlib widget {kind} lives on the events of its figure; make it again in a cell")


@promise("reported", "it belongs to the window of a figure")
def _manager(obj: Any) -> tuple[Any, ...]:
    raise Unstorable(f"a {type(obj).__name__} belongs to the window of a figure; keep the figure instead")


_GLOBALS = ("rcParams", "rcParamsDefault", "rcParamsOrig", "colormaps", "color_sequences")


def _make_global(name: str) -> Any:
    import matplotlib

    return getattr(matplotlib, name)


@promise("exact")
def _settings(obj: Any) -> Any:
    # `from matplotlib import rcParams` must go on to change the settings of the process, not a copy of them.
    name = _global_name(obj)
    return obj.__reduce_ex__(5) if name is None else (_make_global, (name,))


def _settings_referents(obj: Any) -> Iterable[Any] | None:
    return gc.get_referents(obj) if _global_name(obj) is None else None


def _global_name(obj: Any) -> str | None:
    module = sys.modules["matplotlib"]
    return next((name for name in _GLOBALS if getattr(module, name, None) is obj), None)


def plugin() -> Plugin:
    """Return what matplotlib needs."""
    module = sys.modules["matplotlib"]
    settings = {type(getattr(module, name)) for name in _GLOBALS if hasattr(module, name)}
    return Plugin(
        exact=dict.fromkeys(settings, _settings),
        referents=dict.fromkeys(settings, _settings_referents),
        subclasses=(
            (named("matplotlib.figure.Figure"), _figure),
            (named("matplotlib.cbook.CallbackRegistry"), _callbacks),
            (named("matplotlib.widgets.Widget", "matplotlib.animation.Animation"), _widget),
            (
                named("matplotlib.backend_bases.FigureManagerBase", "matplotlib.backend_bases.FigureCanvasBase"),
                _manager,
            ),
        ),
    )
