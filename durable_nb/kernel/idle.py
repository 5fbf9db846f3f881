"""Loads what a restore left for later while the kernel has nothing to do.

Made by `extension`. A thread of its own reads and verifies one group at a time; the kernel's event loop, between cells,
then makes it live, which is short. While a cell runs nothing is begun. Ends by itself when everything is loaded.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from durable_nb.engine.pending import Idle
from durable_nb.errors import RestoreError

__all__ = ["IdleLoader"]

_log = logging.getLogger(__name__)

WAIT_S = 0.25  # a cell that follows at once, as with Run All, is not to find the disk busy


class IdleLoader:
    """Drives `Idle` from the kernel's event loop; `busy` tells whether a cell runs."""

    def __init__(self, shell: Any, idle: Idle, busy: Callable[[], bool]) -> None:
        self._shell, self._idle, self._busy = shell, idle, busy
        self._thread: threading.Thread | None = None
        self._go_on = threading.Event()
        self._stopped = False
        self._timer: object = None

    def install(self) -> None:
        """Begin to look for idle moments, of which the end of a cell is the first."""
        self._shell.events.register("post_run_cell", self._after_cell)
        self._shell.events.register("pre_run_cell", self._before_cell)
        self._after_cell()

    def remove(self) -> None:
        """Load nothing more."""
        self._stopped = True
        self._wait_no_more()
        for event, callback in (("post_run_cell", self._after_cell), ("pre_run_cell", self._before_cell)):
            if callback in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, callback)
        self._go_on.set()

    def _before_cell(self, info: Any = None) -> None:
        if _is_cell(info):
            self._go_on.clear()
            self._wait_no_more()

    def _wait_no_more(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            self._shell.kernel.io_loop.remove_timeout(timer)

    def _after_cell(self, *_: object) -> None:
        loop = getattr(self._shell.kernel, "io_loop", None)
        waits = self._timer is not None or self._go_on.is_set()
        if loop is not None and self._idle.more() and not waits:
            self._timer = loop.call_later(WAIT_S, self._begin)

    def _begin(self) -> None:
        """Let the thread go on, in the event loop."""
        self._timer = None
        if self._stopped or self._busy() or not self._idle.more():
            return
        self._go_on.set()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._read, name="durable_nb-idle", daemon=True)
            self._thread.start()

    def _read(self) -> None:
        """Read group after group, in the thread, and have each taken by the event loop before the next."""
        taken = threading.Event()
        while self._idle.more():
            self._go_on.wait()
            if self._stopped:
                return
            self._idle.fetch()
            taken.clear()
            self._shell.kernel.io_loop.add_callback(self._take, taken)
            taken.wait()
        self._go_on.clear()

    def _take(self, taken: threading.Event) -> None:
        """Make what was read live, in the event loop; while a cell runs it waits for who needs it."""
        try:
            if not self._stopped and not self._busy():
                self._idle.take()
            else:
                self._go_on.clear()
        except RestoreError:  # it cannot be read now: after the next cell it is tried again
            self._go_on.clear()
        except Exception:  # what is pending is loaded by who needs it all the same, and then told
            _log.warning("What is not loaded yet is loaded when it is needed only.", exc_info=True)
            self._stopped = True
        finally:
            taken.set()


def _is_cell(info: Any) -> bool:
    """Tell a person's cell from what a front end runs for itself, again and again perhaps."""
    return bool(getattr(info, "store_history", True))
