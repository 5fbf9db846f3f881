"""Who keeps a stretch of memory that arrays and tensors look at together: one of them is stored, the others look at it.

Used by the files beside it while a group is dumped. Nothing live changes.
"""

from __future__ import annotations

import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from durable_nb.capture.borrowing import BORROWED
from durable_nb.capture.reducers import Sharing, Unstorable

__all__ = ["BUFFERS", "chain", "in_order", "keeper", "span", "unprotected"]

BUFFERS = (bytes, bytearray, array.array)


def chain(a: Any) -> tuple[Any, Any]:
    """Return the last array of the chain of bases, and the object below it that holds the memory (None: the array)."""
    import numpy as np

    below = a.base
    while True:
        if isinstance(below, np.ndarray):
            a = below
        elif type(below).__name__ == "DummyArray" and isinstance(getattr(below, "base", None), np.ndarray):
            a = below.base  # `as_strided` and `sliding_window_view` put this between a view and its array
        elif isinstance(below, memoryview) and isinstance(below.obj, np.ndarray):
            a = below.obj
        else:
            break
        below = a.base
    while isinstance(below, memoryview):
        below = below.obj
    return a, below


def in_order(root: Any) -> Any:
    """Return the memory of an array as a C-contiguous one, None if it has gaps or overlaps itself."""
    import numpy as np

    plain: Any = np.ndarray.view(root, np.ndarray)
    axes = sorted(range(plain.ndim), key=lambda axis: -plain.strides[axis])
    made = plain if plain.flags.c_contiguous else plain.transpose(axes)
    return made if made.flags.c_contiguous else None


@contextmanager
def unprotected(a: Any) -> Iterator[None]:
    """Let what looks at a protected array be made: it may still write where it was made before the protection."""
    if a.flags.writeable:
        yield
        return
    try:
        a.flags.writeable = True
    except ValueError:
        if not BORROWED.get():  # what is only compared may lie on memory that is itself protected
            raise
        yield
        return
    try:
        yield
    finally:
        a.flags.writeable = False


def span(buffer: Any) -> tuple[int, int] | None:
    """Return where the bytes of a bytearray or the like are."""
    import numpy as np

    if not len(buffer):
        return None
    start = int(np.frombuffer(buffer, dtype=np.uint8).__array_interface__["data"][0])
    return start, start + memoryview(buffer).nbytes


def keeper(sharing: Sharing, where: Any) -> Any:
    """Return the array, tensor or buffer that all others in a stretch of memory look at, None if each may pickle.

    Raises `Unstorable` when what they look at belongs to none of them as a whole.
    """
    import numpy as np

    members = sharing.members.get(where, ())
    users = [(start, stop, obj) for start, stop, ref in members if (obj := ref()) is not None]
    owner = next((obj for start, stop, obj in users if isinstance(obj, BUFFERS)), None)
    if owner is not None:
        return owner if len(users) > 1 else None
    arrays = [(start, stop, *chain(obj)) for start, stop, obj in users if isinstance(obj, np.ndarray)]
    tensors = [user for user in users if hasattr(user[2], "untyped_storage")]
    # Columns of polars and buffers of Arrow do not write themselves: it matters only that they see what others write.
    # A frame makes its columns when it is asked for them, so that these are gone by now.
    columns = len(members) - len(arrays) - len(tensors)
    if not tensors:
        written = any(isinstance(obj, np.ndarray) and obj.flags.writeable for _, _, obj in users)
        # Pickle and the views that are told apart by their root do for one array, one storage does for its tensors.
        if not written or (not columns and len({id(root) for _, _, root, _ in arrays}) < 2):
            return None
    elif not arrays and not columns and len({tensor.untyped_storage()._cdata for _, _, tensor in tensors}) < 2:
        return None
    whole = min(start for start, *_ in users), max(stop for _, stop, _ in users)
    below = next((below for *_, below in arrays if isinstance(below, BUFFERS)), None)
    if below is not None:
        return below
    for start, stop, root, below in arrays:
        owns = below is None or isinstance(root, np.memmap)
        if owns and (start, stop) == whole and in_order(root) is not None and not root.dtype.hasobject:
            return root
    for start, stop, tensor in tensors:
        if (start, stop) == whole:
            return tensor
    raise Unstorable("it shares memory with other objects, none of which holds all of it; make it from them in a cell")
