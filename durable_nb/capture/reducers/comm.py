"""Comms are connections of one kernel to the front end: reported.

Merged into the plug-in by `load` once comm is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = "comm"


@promise("reported", "it connects the front end to the lost kernel")
def _comm(comm: Any) -> tuple[Any, ...]:
    raise Unstorable("a comm connects the front end to the lost kernel; open it again in a cell")


def plugin() -> Plugin:
    """Return what comm needs."""
    base = sys.modules["comm.base_comm"]
    return Plugin(subclasses=((base.BaseComm, _comm), (base.CommManager, _comm)))
