"""Objects of h5py are handles into an open file: reported, never opened again.

Merged into the plug-in by `load` once h5py is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable

LIBRARY = "h5py"


def _handle(obj: Any) -> tuple[Any, ...]:
    raise Unstorable(f"an h5py {type(obj).__name__} is a handle into a file; open the file again in a cell")


def plugin() -> Plugin:
    """Return what h5py needs."""
    h5py = sys.modules["h5py"]
    # Types and spaces are values that h5py can pickle; they are not handles.
    ids = (h5py.h5f.FileID, h5py.h5g.GroupID, h5py.h5d.DatasetID, h5py.h5a.AttrID)
    kinds = (h5py.HLObject, h5py.AttributeManager, h5py.Reference, *ids)
    return Plugin(subclasses=tuple((kind, _handle) for kind in kinds))
