"""pyplot's list of open figures, where a backend keeps them open between cells, and which of them is the current one.

Used by `process_plots`, restored after the variables: a figure that a variable leads to is that figure again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from durable_nb.capture.process_held import HeldTracker, Lost
from durable_nb.model import Json, Unsaved

__all__ = ["Figures"]

_CURRENT = "current"


def _open() -> dict[int, Any]:
    """Return the managers of open figures by number; the inline backend closes its own at the end of every cell."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    figures: dict[int, Any] = helpers.Gcf.figs if helpers is not None else {}
    if not figures:
        return {}
    backend = dict.get(sys.modules["matplotlib"].rcParams, "backend")
    if isinstance(backend, str) and backend.lower().endswith("inline"):
        config = getattr(sys.modules.get("matplotlib_inline.config"), "InlineBackend", None)
        if config is None or not config.initialized() or config.instance().close_figures:
            return {}
    return figures


def _figure_of(value: Any, depth: int = 3) -> Any:
    """Return the figure that a value is, is drawn on or begins with; None if there is none."""
    kind = type(value)
    if kind in (list, tuple) or f"{kind.__module__}.{kind.__name__}" == "numpy.ndarray":
        if depth == 0 or not len(value) or str(getattr(value, "dtype", "object")) != "object":
            return None
        return _figure_of(value[0], depth - 1)
    if issubclass(type(value), sys.modules["matplotlib.figure"].Figure):
        return value
    if issubclass(type(value), sys.modules["matplotlib.artist"].Artist):
        figure = value.figure
        return getattr(figure, "figure", figure)  # of a subfigure, the whole one
    return None


class Figures(HeldTracker):
    """The open figures by number, in order, and the current one."""

    name = "matplotlib.pyplot"
    needs = "matplotlib.pyplot"
    advice = "a figure in a variable comes back, plt.gcf() starts a new one"

    def entries(self) -> Mapping[str, Any]:
        figures = _open()
        if not figures:
            return {}
        found: dict[str, Any] = {f"figure {n}": manager.canvas.figure for n, manager in figures.items()}
        return {**found, _CURRENT: next(reversed(figures))}

    def describe(self, value: Any) -> Json:
        if type(value) is int:
            return ["plain", value]
        for name, held in list(self.held.namespace.items()):
            if not name.startswith("_") and _figure_of(held) is value:
                return ["name", name]
        return self.held.by_value(value)

    def make(self, code: Json) -> Any:
        value = super().make(code)
        figure = value if type(value) is int else _figure_of(value)
        if figure is None:
            raise Lost("the variable that led to the figure leads to none")
        return figure

    def put(self, key: str, value: Any) -> None:
        helpers = sys.modules["matplotlib._pylab_helpers"].Gcf
        if key == _CURRENT:
            if value in helpers.figs:
                helpers.set_active(helpers.figs[value])
            return
        number = int(key.removeprefix("figure "))
        manager = helpers.figs.get(number)
        if manager is None or manager.canvas.figure is not value:
            if manager is not None:
                helpers.destroy(number)
            backend = sys.modules[self.needs]._get_backend_mod()
            helpers._set_new_active_manager(backend.new_figure_manager_given_figure(number, value))
            # A backend that shows new figures at the end of the cell would show this one below the load.
            show: Any = getattr(backend, "show", None)
            if hasattr(show, "_to_draw"):
                show._to_draw, show._draw_called = [], False

    def drop(self, key: str) -> None:
        if key != _CURRENT:
            sys.modules["matplotlib._pylab_helpers"].Gcf.destroy(int(key.removeprefix("figure ")))

    def unsaved(self, key: str, kind: str, reason: str) -> Unsaved:
        return Unsaved(name=self.name, path=key, type="Figure", reason=f"{reason}; {self.advice}")
