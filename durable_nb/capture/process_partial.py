"""What a value leaves behind when it comes back: callbacks of figures, graphs of tensors.

Used by `process`. The values themselves are stored and restored; these losses are named so that none is silent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from durable_nb.model import Unsaved

__all__ = ["open_figures", "partial_losses"]


def partial_losses(namespace: Mapping[str, Any]) -> list[Unsaved]:
    """Return what the variables of `namespace` lose although they are stored; does not look inside them."""
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    found = []
    for name, value in list(namespace.items()):
        if figure is not None and isinstance(value, figure) and any(_user_callbacks(value)):
            reason = "functions connected to the figure's events are not stored; connect them again in a cell"
            found.append(Unsaved(name=name, path=".canvas.callbacks", type="CallbackRegistry", reason=reason))
        elif tensor is not None and isinstance(value, tensor) and value.grad_fn is not None:
            reason = "the value is stored without the graph that computed it; backward() on it needs a new computation"
            found.append(Unsaved(name=name, path=".grad_fn", type=type(value.grad_fn).__name__, reason=reason))
    return found


def _user_callbacks(figure: Any) -> Iterator[Any]:
    for connected in figure.canvas.callbacks.callbacks.values():
        for reference in connected.values():
            callback = reference()
            owner = getattr(callback, "__self__", None)
            module = (type(owner) if owner is not None else callback).__module__ or ""
            if callback is not None and module.partition(".")[0] not in {
                "matplotlib",
                "matplotlib_inline",
                "mpl_toolkits",
            }:
                yield callback


def open_figures() -> list[Unsaved]:
    """Return the figures that pyplot holds open; the inline backend closes its own at the end of every cell."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    figures = helpers.Gcf.figs if helpers is not None else {}
    backend = dict.get(sys.modules["matplotlib"].rcParams, "backend") if figures else ""
    if isinstance(backend, str) and backend.lower().endswith("inline"):
        return []
    reason = (
        "pyplot's list of open figures is not stored; a figure in a variable comes back, plt.gcf() starts a new one"
    )
    return [
        Unsaved(name="matplotlib.pyplot", path=f"figure {number}", type="Figure", reason=reason) for number in figures
    ]
