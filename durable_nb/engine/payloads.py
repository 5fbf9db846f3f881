"""What events say of cells, outcomes and losses, as JSON. Pure; used by the engine alone."""

from __future__ import annotations

import json
import re

from durable_nb.capture.access import code_hash
from durable_nb.engine.effects import BodyOutcome, CellRequest
from durable_nb.model import Unsaved

__all__ = ["activity_id_of", "outputs_json", "traceback_text", "unsaved_json"]

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def activity_id_of(request: CellRequest) -> str:
    """Return the name, else the front end's cell id, else a hash of the source (for display and history only)."""
    return request.name or request.cell_id or f"code-{code_hash(request.transformed)[:12]}"


def traceback_text(outcome: BodyOutcome) -> str:
    """Return the traceback as it was shown, without colours, cut to what a history needs."""
    lines = [line for o in outcome.outputs if o.kind == "error" for line in o.content.get("traceback", ())]
    return _COLOURS.sub("", "\n".join(lines))[-8000:]


def outputs_json(outcome: BodyOutcome) -> bytes:
    return json.dumps([{"kind": o.kind, "content": dict(o.content)} for o in outcome.outputs]).encode()


def unsaved_json(entry: Unsaved) -> dict[str, str]:
    return {"name": entry.name, "path": entry.path, "type": entry.type, "reason": entry.reason}
