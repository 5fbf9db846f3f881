"""A note that a kernel's end was asked for, left while its main thread may be busy and the journal not be free.

Written from the control thread when a person restarts or shuts down; read by the next kernel, which cannot otherwise
tell a restart that had to kill a stubborn cell from a loss. Durable when `leave` returns.
"""

from __future__ import annotations

import json

from durable_nb.ports import Files
from durable_nb.store.temporary import write_durably

__all__ = ["leave", "take"]

_SIGNALS = "signals"


def leave(files: Files, folder: str, kernel_id: str, reason: str) -> None:
    """Note that this kernel is about to end for `reason` (restart or shutdown)."""
    files.make_folder(f"{folder}/{_SIGNALS}")
    write_durably(files, f"{folder}/{_SIGNALS}/{kernel_id}.ending", json.dumps({"reason": reason}).encode() + b"\n")


def take(files: Files, folder: str, kernel_id: str) -> str:
    """Return the reason that a kernel left, empty if none, and remove the note."""
    path = f"{folder}/{_SIGNALS}/{kernel_id}.ending"
    try:
        reason = str(json.loads(files.read(path))["reason"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""  # no note, or one that its writer did not finish: then the end counts as a loss
    files.remove(path)
    return reason
