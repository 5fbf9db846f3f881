"""Locks and what is built of them: free ones come back free, held ones are reported.

Merged into the plug-in by `load`. Looking at a lock does not take it.
"""

from __future__ import annotations

import threading
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = None

_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())


def _make_lock() -> Any:
    return threading.Lock()


def _make_rlock() -> Any:
    return threading.RLock()


@promise("exact")
def _lock(lock: Any) -> tuple[Any, ...]:
    if lock.locked():
        raise Unstorable("a lock that was held when the checkpoint was made, perhaps by another thread")
    return _make_lock, ()


@promise("exact")
def _rlock(lock: Any) -> tuple[Any, ...]:
    # Before Python 3.14 it has no `locked`; taking it to find out could make another thread fail.
    if repr(lock).startswith("<locked"):
        raise Unstorable("a lock that was held when the checkpoint was made, perhaps by another thread")
    return _make_rlock, ()


@promise("reported", "the data belongs to threads of the lost kernel")
def _local(obj: Any) -> tuple[Any, ...]:
    raise Unstorable("thread-local data (threading.local) belongs to its threads")


def plugin() -> Plugin:
    """Return what locks need; events, conditions, semaphores and queues are made of locks and come by themselves."""
    return Plugin(exact={_LOCK: _lock, _RLOCK: _rlock}, subclasses=((threading.local, _local),))
