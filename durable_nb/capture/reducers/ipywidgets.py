"""Widgets live half in the front end: reported; their values are kept in variables of their own.

Merged into the plug-in by `load` once ipywidgets is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable

LIBRARY = "ipywidgets"


def _widget(widget: Any) -> tuple[Any, ...]:
    kind = type(widget).__name__
    raise Unstorable(
        f"the widget {kind} belongs to the front end's connection to the lost kernel; show it again in a cell"
    )


def plugin() -> Plugin:
    """Return what ipywidgets needs."""
    return Plugin(subclasses=((sys.modules["ipywidgets"].Widget, _widget),))
