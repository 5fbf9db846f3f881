"""Groups read in the background before anybody asks for them, so that loading them takes the kernel a moment only.

Used by `lazy`, between its names and the store: in idle moments a thread of the kernel calls `fetch`; who loads a group
waits for the one that is being read, and reads itself what is not. Nothing live changes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from durable_nb.model import Group, GroupId

__all__ = ["ReadAhead"]

Content = tuple[bytes, Sequence[Any]]


@dataclass(slots=True)
class _Fetched:
    """One group on its way: `content` is None when it could not be read, which who needs it finds out again."""

    done: threading.Event = field(default_factory=threading.Event)
    pid: int = field(default_factory=os.getpid)
    content: Content | None = None


class ReadAhead:
    """Reads groups through `read`, and keeps what was fetched until it is asked for, once."""

    def __init__(self, read: Callable[[Group], Content]) -> None:
        self._read = read
        self._fetched: dict[GroupId, _Fetched] = {}

    def __call__(self, group: Group) -> Content:
        """Return pickle and buffers of a group, verified; raises what the store raises."""
        fetched = self._fetched.pop(group.group_id, None)
        # A forked child has not got the thread that reads.
        if fetched is not None and fetched.pid == os.getpid():
            fetched.done.wait()
            if fetched.content is not None:
                return fetched.content
        return self._read(group)

    def fetch(self, group: Group) -> None:
        """Read a group now, in this thread, for who asks for it later."""
        fetched = self._fetched[group.group_id] = _Fetched()
        try:
            fetched.content = self._read(group)
        except Exception:  # who needs the group reads it again, and tells what is wrong
            fetched.content = None
        finally:
            fetched.done.set()
