"""A daemon thread that hands gathered events on, so that the kernel never waits for the projection.

Started by `Projection.update_in_background` with the first events; when `close` has returned in time, everything that
was handed over has been passed on.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Sequence

from durable_nb.model import Event

__all__ = ["Background"]

# More than this waiting in memory is read from the journal instead.
QUEUE_EVENTS = 5000
ROUNDS_AT_MOST = 30


class Background:
    """Calls `deliver(events)` (None: read the journal) once things have been quiet for `quiet_s`; it must not raise."""

    def __init__(self, deliver: Callable[[Sequence[Event] | None], None], *, quiet_s: float) -> None:
        self._deliver = deliver
        self._quiet_s = quiet_s
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._queue: deque[Event] = deque()
        self._everything = False
        self._thread: threading.Thread | None = None

    def hand_over(self, events: Sequence[Event] | None) -> None:
        """Take events for delivery and return at once; after `close` they are left to the next query."""
        if self._closing.is_set():
            return
        if events is None or len(self._queue) + len(events) > QUEUE_EVENTS:
            self._everything = True
        else:
            self._queue.extend(events)
        self._wake.set()
        if self._thread is None or not self._thread.is_alive():
            # A daemon thread that is inside DuckDB while the interpreter is taken down would abort the process, so it
            # is stopped at exit, before that.
            atexit.register(self.close)
            self._thread = threading.Thread(target=self._work, name="durable-nb-projection", daemon=True)
            self._thread.start()

    def drop(self) -> None:
        """Leave what was handed over and not delivered yet to the next query."""
        self._queue.clear()
        self._everything = False

    def close(self, timeout_s: float = 5.0) -> None:
        """Deliver what is left and end the thread; waits at most `timeout_s`."""
        self._closing.set()
        self._wake.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout_s)
            atexit.unregister(self.close)

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._gather()
            self._wake.clear()
            everything, self._everything = self._everything, False
            events = [self._queue.popleft() for _ in range(len(self._queue))]
            if everything or events:
                self._deliver(None if everything else events)
            if self._closing.is_set() and not self._queue and not self._everything:
                return

    def _gather(self) -> None:
        """Let a burst of cells pass: loading DuckDB takes half a second, and opening and closing the file 40 ms.

        That is the kernel's own time, taken from the cells that run. A steady stream is cut all the same.
        """
        for _ in range(ROUNDS_AT_MOST):
            self._wake.clear()
            if self._closing.wait(self._quiet_s) or not self._wake.is_set():
                return
