"""What events say of cells, outcomes and losses, as JSON. Pure; used by the engine alone."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from durable_nb.capture.access import code_hash
from durable_nb.engine.effects import BodyOutcome, CellRequest
from durable_nb.model import Delta, EventDraft, Json, Manifest, Unsaved

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = [
    "activity_id_of",
    "commit_payload",
    "outputs_json",
    "skipped_drafts",
    "traceback_text",
    "unsaved_differs",
    "unsaved_json",
]

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def activity_id_of(request: CellRequest) -> str:
    """Return the name, else the front end's cell id, else a hash of the source (for display and history only)."""
    return request.name or request.cell_id or f"code-{code_hash(request.transformed)[:12]}"


def commit_payload(
    engine: Engine, delta: Delta, process_changed: Sequence[str], *, absent: Collection[str] = ()
) -> dict[str, Json]:
    """Return what the event of a commit says of it; `absent` are variables that were not back before it began.

    Those of them that are live now were made since, although the checkpoint before knows that it could not hold them.
    """
    live = {n for n in absent if n not in engine.absent}
    known = {(u.name, u.path) for u in engine.head.unsaved if u.name not in live} if engine.head else set()
    changed = [
        {"name": name, "type": v.type, "size_bytes": v.size_bytes, "version": v.version}
        for name, v in delta.names.items()
        if v is not None and v.version == delta.checkpoint_id
    ]
    payload: dict[str, Json] = {
        "changed": changed,
        "deleted": sorted(name for name, v in delta.names.items() if v is None),
        "unsaved": [unsaved_json(u) for u in delta.unsaved],
        "unsaved_new": sorted({u.name for u in delta.unsaved if (u.name, u.path) not in known}),
        "process_changed": list(process_changed),
    }
    if engine.missed:
        payload["access_missed"] = list(engine.missed)
    if engine.cells:
        payload["cells"] = dict(engine.cells)
    if engine.sources:
        payload["sources"] = dict(engine.sources)
    return payload


def skipped_drafts(engine: Engine, draft: EventDraft, delta: Delta) -> list[EventDraft]:
    """Return an event for each thing that a commit is the first not to hold."""
    return [
        engine.draft(
            "ObjectSkipped",
            {"name": u.name, "path": u.path, "type": u.type, "reason": u.reason},
            activity_id=draft.activity_id,
        )
        for u in delta.unsaved
        if u.name in draft.payload.get("unsaved_new", ())
    ]


def traceback_text(outcome: BodyOutcome) -> str:
    """Return the traceback as it was shown, without colours, cut to what a history needs."""
    lines = [line for o in outcome.outputs if o.kind == "error" for line in o.content.get("traceback", ())]
    return _COLOURS.sub("", "\n".join(lines))[-8000:]


def outputs_json(outcome: BodyOutcome) -> bytes:
    return json.dumps([{"kind": o.kind, "content": dict(o.content)} for o in outcome.outputs]).encode()


def unsaved_json(entry: Unsaved) -> dict[str, str]:
    return {"name": entry.name, "path": entry.path, "type": entry.type, "reason": entry.reason}


def unsaved_differs(head: Manifest | None, unsaved: Sequence[Unsaved]) -> bool:
    """Tell whether other things cannot be stored now than the head says."""
    before = head.unsaved if head else ()
    return {(u.name, u.path, u.reason) for u in unsaved} != {(u.name, u.path, u.reason) for u in before}
