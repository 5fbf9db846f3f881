"""A note that a kernel's end was asked for, left while its main thread may be busy and the journal not be free.

Written from the control thread when a person restarts or shuts down; read by the next kernel, which cannot otherwise
tell a restart that had to kill a stubborn cell from a loss. Durable when `leave` returns.
"""

from __future__ import annotations

import json

from durable_nb.model import Json
from durable_nb.ports import Files
from durable_nb.resources import oom_kills
from durable_nb.store.temporary import write_durably

__all__ = ["leave", "note_loss", "take", "take_loss"]

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


def note_loss(files: Files, folder: str, kernel_id: str, seen_us: int) -> None:
    """Note when the writer saw that its kernel was gone, and how often the system had run out of memory by then."""
    files.make_folder(f"{folder}/{_SIGNALS}")
    content = json.dumps({"seen_us": seen_us, "oom_kills": oom_kills()}).encode() + b"\n"
    write_durably(files, f"{folder}/{_SIGNALS}/{kernel_id}.lost", content)


def take_loss(files: Files, folder: str, kernel_id: str) -> dict[str, Json]:
    """Return what the writer noted of the end of a kernel, empty if nothing, and remove the note."""
    path = f"{folder}/{_SIGNALS}/{kernel_id}.lost"
    try:
        found: dict[str, Json] = dict(json.loads(files.read(path)))
    except (FileNotFoundError, ValueError, TypeError):
        return {}  # the writer went down with its kernel, or there was none
    files.remove(path)
    return found
