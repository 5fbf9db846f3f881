"""Objects of h5py are handles into an open file: reported, never opened again; a closed one comes back closed.

Merged into the plug-in by `load` once h5py is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = "h5py"


_PLAIN = (bool, int, str, tuple, type(None))


def _make_closed(cls: Any, handle: Any, state: dict[str, Any]) -> Any:
    made = cls.__new__(cls)
    sys.modules["h5py"].HLObject.__init__(made, handle(0))  # 0 is the number of no handle, as after close()
    made.__dict__.update(state)
    return made


@promise("exact", "a closed one; an open one is a handle into a file and reported")
def _object(obj: Any) -> tuple[Any, ...]:
    h5py = sys.modules["h5py"]
    if type(obj) not in (h5py.File, h5py.Group, h5py.Dataset) or obj:
        return _handle(obj)
    state = {n: _plain(v) if type(v) is dict else v for n, v in vars(obj).items() if type(v) in (*_PLAIN, dict)}
    return _make_closed, (type(obj), type(obj.id), state)


def _plain(held: dict[str, Any]) -> dict[str, Any]:
    # What else h5py keeps in a handle is a handle itself: only what it remembers of shape and type is a value.
    return {n: v for n, v in held.items() if type(v) in _PLAIN or isinstance(v, sys.modules["numpy"].dtype)}


@promise("reported", "a handle into a file")
def _handle(obj: Any) -> tuple[Any, ...]:
    raise Unstorable(f"an h5py {type(obj).__name__} is a handle into a file; open the file again in a cell")


def plugin() -> Plugin:
    """Return what h5py needs."""
    h5py = sys.modules["h5py"]
    # Types and spaces are values that h5py can pickle; they are not handles.
    ids = (h5py.h5f.FileID, h5py.h5g.GroupID, h5py.h5d.DatasetID, h5py.h5a.AttrID)
    kinds = (h5py.AttributeManager, h5py.Reference, *ids)
    return Plugin(subclasses=((h5py.HLObject, _object), *((kind, _handle) for kind in kinds)))
