"""A kernel's signs of life: while it holds the lease, others on other machines can tell that it is there.

Started and stopped by `extension`. A kernel on the same machine needs no sign: its process can be looked at.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

__all__ = ["Heartbeat"]

_log = logging.getLogger(__name__)


class Heartbeat:
    """Calls `beat` every `every_s` seconds in a thread of its own, until `stop`."""

    def __init__(self, beat: Callable[[], None], *, every_s: float = 20.0) -> None:
        self._beat = beat
        self._every_s = every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="durable_nb-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin; the first beat comes after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        told = False
        while not self._stopped.wait(self._every_s):
            try:
                self._beat()
            except OSError as error:
                # The cells themselves will tell that the disk refuses; a beat that fails is no news of its own.
                if not told:
                    _log.warning("No sign of life could be left for kernels on other machines: %s", error)
                told = True
