"""Does code of the notebook run elsewhere right now: in another thread, or in a task that waits for something?

Called by the engine at a look. Such code may change anything it likes between two looks, whatever cells run.
"""

from __future__ import annotations

import asyncio
import sys
from threading import get_ident
from types import FrameType
from typing import Any

__all__ = ["runs_elsewhere"]


def runs_elsewhere(namespace: dict[str, Any]) -> bool:
    """Tell whether a frame with these globals is on the stack of another thread or of a task that is not done."""
    tops = sys._current_frames()
    # A variable that held the frame of this function would keep it, and the namespace with it, until a collection.
    tops.pop(get_ident(), None)
    frame: FrameType | None
    for frame in tops.values():
        while frame is not None:
            if frame.f_globals is namespace:
                return True
            frame = frame.f_back
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop runs in this thread, and so no task can be waiting in it
        return False
    return any(_awaits(task.get_coro(), namespace) for task in tasks if task is not asyncio.current_task())


def _awaits(waiting: Any, namespace: dict[str, Any]) -> bool:
    while waiting is not None:
        for frame, held in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await")):
            if hasattr(waiting, frame):
                at = getattr(waiting, frame)
                if at is not None and at.f_globals is namespace:
                    return True
                waiting = getattr(waiting, held)
                break
        else:
            return False  # a future, or what a library in C waits with
    return False
