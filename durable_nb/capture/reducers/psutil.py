"""A handle of the kernel's own process is that of the new kernel; others stay handles of the process they are about.

Merged into the plug-in by `load` once psutil is imported.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "psutil"


def _make_own() -> Any:
    return sys.modules["psutil"].Process()


@promise("exact")
def _process(process: Any) -> Any:
    # A handle knows when its process began, and does not take another one with the same number for it.
    return (_make_own, ()) if process.pid == os.getpid() else process.__reduce_ex__(5)


def plugin() -> Plugin:
    """Return what psutil needs."""
    return Plugin(subclasses=((named("psutil.Process"), _process),))
