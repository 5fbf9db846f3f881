"""`--on-unserializable fail`: a cell that leaves what cannot be stored has not finished its work.

Called by the engine when such a cell is about to be committed. When `refuse` returns, the attempt has failed in the
history, and what it changed is saved as what a failed attempt leaves behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from durable_nb.engine.file_places import left_by
from durable_nb.errors import CaptureError
from durable_nb.model import Delta, Event, Unsaved
from durable_nb.reuse import HARMLESS

if TYPE_CHECKING:
    from durable_nb.engine.effects import Started
    from durable_nb.engine.session import Engine

__all__ = ["made_by", "refuse"]


def made_by(engine: Engine, started: Started, delta: Delta) -> list[Unsaved]:
    """Return what this attempt made that cannot be stored; what was there before it, and closed files, do not count."""
    live = engine.capture.names()
    return [
        entry
        for entry in delta.unsaved
        if entry.made_by == started.activity_id and entry.name in live and not entry.reason.startswith(HARMLESS)
    ]


def refuse(engine: Engine, started: Started, event: Event, made: Sequence[Unsaved]) -> CaptureError:
    """Record that the attempt failed for these values, save what else it changed, and return the error to show."""
    told = "; ".join(f"`{u.name}`{u.path} ({u.type}): {u.reason.rstrip('.')}" for u in made)
    names = " ".join(dict.fromkeys(u.name for u in made if u.name.isidentifier()))
    error = CaptureError(
        f"this cell failed at its end, because it left what cannot be stored: {told}. The variables are in memory as "
        "the cell left them, and all others are saved.",
        hint=(
            f"Close and delete it in the cell (`del {names or 'NAME'}`), leave it out with --exclude, or let the cell "
            "run again on restore with --on-unserializable recompute."
        ),
        unsaved=[{"name": u.name, "path": u.path, "type": u.type, "reason": u.reason} for u in made],
    )
    engine.guarded("record the failure", lambda: engine.record_error(started, event, error, left_by(engine)))
    # No finished cell made them: nobody may run this one again in the belief that it does.
    engine.capture.note_made({u.name: "outside" for u in made})
    engine.guarded("save what the cell changed", engine.commit_outside)
    return error
