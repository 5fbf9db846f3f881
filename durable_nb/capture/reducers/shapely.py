"""A prepared geometry comes back prepared from its geometry; geometries and trees pickle by themselves.

Merged into the plug-in by `load` once shapely is imported.
"""

from __future__ import annotations

import importlib
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "shapely"


def _make_prepared(geometry: Any) -> Any:
    return importlib.import_module("shapely.prepared").prep(geometry)


@promise("exact")
def _prepared(prepared: Any) -> Any:
    return _make_prepared, (prepared.context,)


def plugin() -> Plugin:
    """Return what shapely needs."""
    return Plugin(subclasses=((named("shapely.prepared.PreparedGeometry"), _prepared),))
