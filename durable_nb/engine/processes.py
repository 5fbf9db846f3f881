"""Process state between the capture and a manifest: which components there are, their digests, bringing them back.

A manifest entry is `{"digest", "value"}` with JSON, or `{"digest", "b64"}` with the bytes of a pickle. The shell's own
part (extensions, inline figures) is a component like the others, named `shell.gui`. Used by the engine alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from durable_nb.model import Json, Unsaved

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["EARLY", "GUI", "UNTOUCHED", "differing", "digests", "gui_entry", "live", "restore"]

GUI = "shell.gui"
# Where modules are found and which are imported has to be right before any value is loaded.
EARLY = frozenset({"os.environ", "sys.path", "cwd", "imports"})
UNTOUCHED = ""


def differing(engine: Engine) -> dict[str, Json]:
    """Return the entries that differ from the head (or, unset so far, from the load); None: untouched again."""
    known, captured = digests(engine), engine.process.capture()
    # An entry is made only of what is new: the stream of numpy alone is 2.5 kB that would be written out as text.
    changed: dict[str, Json] = {n: _entry(c.value, c.digest) for n, c in captured.items() if c.digest != known.get(n)}
    gui = gui_entry(engine)
    untouched = gui["digest"] == engine.gui_untouched
    if not untouched and gui["digest"] != known.get(GUI):
        changed[GUI] = gui
    for name in engine.head.process if engine.head else ():
        if name not in captured and (name != GUI or untouched):
            changed[name] = None
    return changed


def live(engine: Engine) -> dict[str, dict[str, Json]]:
    """Return the manifest entry of every component that differs from an untouched process."""
    entries: dict[str, dict[str, Json]] = {}
    for name, component in engine.process.capture().items():
        entries[name] = _entry(component.value, component.digest)
    gui = gui_entry(engine)
    if gui["digest"] != engine.gui_untouched:
        entries[GUI] = gui
    return entries


def gui_entry(engine: Engine) -> dict[str, Json]:
    """Return the manifest entry of the shell's own part as it is now."""
    gui = dict(engine.shell.gui_state())
    if gui == engine.gui_seen.get("value"):
        return dict(engine.gui_seen)
    text = json.dumps(gui, sort_keys=True)
    entry: dict[str, Json] = {"digest": hashlib.sha256(text.encode()).hexdigest(), "value": gui}
    # Of inline figures there may be values that others change in place; all else is made anew for each answer.
    engine.gui_seen = {} if "inline" in gui else dict(entry)
    return entry


def _entry(value: Any, digest: str) -> dict[str, Json]:
    if isinstance(value, bytes):
        return {"digest": digest, "b64": base64.b64encode(value).decode()}
    return {"digest": digest, "value": value}


def digests(engine: Engine) -> dict[str, str]:
    """Return the digest of every component as of the head; before the first commit, as of the load."""
    if engine.head is None:
        return dict(engine.attached_process)
    return {name: entry["digest"] for name, entry in engine.head.process.items()}


def restore(engine: Engine, entries: Mapping[str, Json], *, only: Collection[str] | None = None) -> list[Unsaved]:
    """Bring components back (those of `only`, else all; what is not among `entries` becomes untouched again)."""
    values: dict[str, Any] = {}
    for name, entry in entries.items():
        if name != GUI and (only is None or name in only):
            values[name] = base64.b64decode(entry["b64"]) if "b64" in entry else entry["value"]
    names = only if only is None else {n for n in only if n != GUI}
    lost = engine.process.restore(values, only=names)
    if GUI in entries and (only is None or GUI in only):
        for sentence in engine.shell.restore_gui_state(entries[GUI]["value"]):
            lost.append(Unsaved(name=GUI, path="", type="shell state", reason=sentence))
    return lost
