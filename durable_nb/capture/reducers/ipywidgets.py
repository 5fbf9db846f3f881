"""Widgets come back with their values, callbacks and model ids, and connect to the front end once they are live.

Merged into the plug-in by `load` once ipywidgets is imported. While a widget is only loaded, to be compared or proved,
the front end hears nothing of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from durable_nb.capture import rebuild
from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named
from durable_nb.capture.reducers.traitlets import _fill_traits, _make_traits, describe, usual

LIBRARY = "ipywidgets"

# The connection itself; the model's number is kept beside, so that views in shown outputs find their model again.
_CONNECTION = ("comm", "_model_id")


def described(widget: Any) -> dict[str, Any]:
    """Return what a widget is without its connection to the front end."""
    comm = widget.comm
    state = describe(widget, without=_CONNECTION)
    return {
        **state,
        "model_id": vars(widget).get("_model_id") if comm is None else comm.comm_id,
        "open": comm is not None,
    }


def _fill_widget(widget: Any, state: Mapping[str, Any]) -> None:
    _fill_traits(widget, state)
    vars(widget)["_trait_values"]["comm"] = None
    vars(widget)["_model_id"] = state["model_id"]
    if state["open"]:
        # With the number it had: a view that the front end still shows, or shows again, is a view of this model.
        rebuild.when_live(lambda: _connect(widget))


def _connect(widget: Any) -> None:
    """Open the widget's comm, or take over that of the live widget whose place this one takes."""
    module = sys.modules["ipywidgets.widgets.widget"]
    live = module._instances if hasattr(module, "_instances") else sys.modules["ipywidgets"].Widget.widgets
    before = live.get(vars(widget)["_model_id"])
    if before is None or before is widget:
        widget.open()
        return
    comm = before.comm
    # Otherwise its end, whenever that is, would close the model in the front end under the new one.
    vars(before)["_trait_values"]["comm"] = None
    widget.comm = comm
    widget.send_state()


@promise("equal", "its connection to the front end is a new one, under the same model id")
def _widget(widget: Any) -> Any:
    kind = type(widget)
    if issubclass(kind, named("matplotlib.backend_bases.FigureCanvasBase")):
        raise Unstorable(f"a {kind.__name__} belongs to the window of a figure; keep the figure instead")
    if not usual(kind):
        raise Unstorable(
            f"the widget {kind.__name__} has a way of its own to be pickled, which would connect it to the front end "
            "while it is only looked at; show it again in a cell"
        )
    return _make_traits, (kind,), described(widget), None, None, _fill_widget


def _referents(widget: Any) -> Iterable[Any]:
    return described(widget).values()


def plugin() -> Plugin:
    """Return what ipywidgets needs."""
    base = sys.modules["ipywidgets"].Widget
    return Plugin(subclasses=((base, _widget),), referents={base: _referents})
