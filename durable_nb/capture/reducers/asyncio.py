"""What belongs to a running event loop is reported; locks and queues of asyncio come back by themselves.

Merged into the plug-in by `load` once asyncio is imported.
"""

from __future__ import annotations

import asyncio
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = "asyncio"


@promise("reported", "it belongs to the event loop of the lost kernel")
def _future(future: Any) -> tuple[Any, ...]:
    kind = "Task" if isinstance(future, asyncio.Task) else type(future).__name__
    state = "finished" if future.done() else "pending"
    raise Unstorable(f"a {state} asyncio {kind} belongs to the event loop of the lost kernel; keep its result instead")


@promise("reported", "it belongs to the event loop of the lost kernel")
def _of_loop(obj: Any) -> tuple[Any, ...]:
    raise Unstorable(f"a {type(obj).__name__} belongs to the event loop of the lost kernel")


def plugin() -> Plugin:
    """Return what asyncio needs."""
    loops = (asyncio.AbstractEventLoop, asyncio.Handle, asyncio.BaseTransport, asyncio.AbstractServer)
    return Plugin(subclasses=((asyncio.Future, _future), *((kind, _of_loop) for kind in loops)))
