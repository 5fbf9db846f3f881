"""Handles of other processes: pickling them inside one process succeeds and gives dead or dangerous copies.

Merged into the plug-in by `load` once multiprocessing is imported. A copied connection would close whatever has its
number in the new process; a copied shared memory would have a second owner.
"""

from __future__ import annotations

from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "multiprocessing"

_HANDLES = (
    "multiprocessing.connection._ConnectionBase",
    "multiprocessing.connection.Listener",
    "multiprocessing.managers.BaseManager",
    "multiprocessing.managers.BaseProxy",
    "multiprocessing.pool.ApplyResult",
    "multiprocessing.pool.Pool",
    "multiprocessing.queues.Queue",
    "multiprocessing.queues.SimpleQueue",
    "multiprocessing.shared_memory.ShareableList",
    "multiprocessing.shared_memory.SharedMemory",
    "multiprocessing.synchronize.SemLock",
)


@promise("reported", "it belongs to the processes that share it")
def _handle(obj: Any) -> tuple[Any, ...]:
    raise Unstorable(f"a multiprocessing {type(obj).__name__} belongs to the processes that share it")


def plugin() -> Plugin:
    """Return what multiprocessing needs."""
    return Plugin(subclasses=((named(*_HANDLES), _handle),))
