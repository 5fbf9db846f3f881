"""The templates and renderers of plotly are those of the process; figures pickle by themselves.

Merged into the plug-in by `load` once plotly is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named
from durable_nb.capture.reducers.builtins import _make_attribute

LIBRARY = "plotly"


@promise("exact")
def _settings(obj: Any) -> Any:
    offered = vars(sys.modules["plotly.io"])
    name = next((name for name in ("templates", "renderers") if offered.get(name) is obj), None)
    return NotImplemented if name is None else (_make_attribute, ("plotly.io", name))


def plugin() -> Plugin:
    """Return what plotly needs."""
    kinds = named("plotly.io._templates.TemplatesConfig", "plotly.io._renderers.RenderersConfig")
    return Plugin(subclasses=((kinds, _settings),))
