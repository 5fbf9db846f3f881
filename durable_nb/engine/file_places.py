"""Where files are in the story of the run: they cannot be moved back, but it is known which cell left them as they are.

Asked by `inputs.Present` when a finished cell is met whose files differ from what it read or left. Only what is
recorded of this run counts; a file that somebody else changed is as no cell left it, and decides nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from durable_nb.capture.file_marks import FileMark, changed
from durable_nb.engine.saving import files_read
from durable_nb.history import Record, Run
from durable_nb.model import Json

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["left_by", "left_so_by_later", "overwritten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLeft:
    """How an ended attempt left a file; `seq` is that of its end."""

    seq: int
    mark: Json


def left_by(engine: Engine) -> list[Json]:
    """Return how the cell that has just ended left the files that it changed; from now on they count as met so."""
    assert engine.watch is not None
    left = engine.watch.end().left(files_read(engine))
    # Also where it cannot be recorded: the event that is about to be written is the end of the attempt.
    engine.replay.meet_files(left, engine.state.last_seq + 1)
    return left


def left_so_by_later(engine: Engine, mark: Json, record: Record) -> bool:
    """Is a file that differs from what a cell read just as a cell that ended later left it, with nothing in between?

    The reader stands for itself only where it is in its old place: the cell met last in this life that changed the file
    is the one that had changed it last before the reader, and nothing but cells of the run has changed it since.
    """
    run = engine.state.run
    story = _story(run, mark["path"]) if run else []
    before = [left.seq for left in story if left.seq < record.seq]
    later = [left for left in story if left.seq > record.seq]
    if not later or engine.replay.last_change(mark["path"]) != (before[-1] if before else None):
        return False
    at = mark
    for left in later:
        # Where a writer kept what was there, it must have found what was left to it: that may be in the file still.
        if (found := left.mark.get("before")) and found != [at["size_bytes"], at["mtime_ns"]]:
            return False
        at = left.mark
    return changed(FileMark.from_json(at)) is None


def _story(run: Run, path: str) -> list[FileLeft]:
    """Return how attempts left the file, in order; who took a folder away took everything in it along."""
    gone = {"path": path, "kind": "missing", "size_bytes": 0, "mtime_ns": "0", "digest": ""}
    own = [FileLeft(seq=seq, mark=mark) for seq, mark in run.files.get(path, ())]
    above = (left for folder in PurePath(path).parents for left in run.files.get(str(folder), ()))
    taken = [FileLeft(seq=seq, mark=gone) for seq, mark in above if mark["kind"] == "missing"]
    return sorted([*own, *taken], key=lambda left: left.seq)


def overwritten(engine: Engine, mark: Json, record: Record) -> str | None:
    """Return in one sentence that a cell above changed a file after the attempt had left it so, else None.

    That cell ran again after this one had finished; without a crash this one would have come after it. Where it only
    added to the file, or left it as it was, what this one had written is there.
    """
    last, run = engine.replay.last_change(mark["path"]), engine.state.run
    if mark["kind"] == "folder" or last is None or last <= record.seq:
        return None
    text = changed(FileMark.from_json(mark))
    later = [left for left in _story(run, mark["path"]) if left.seq > record.seq] if run else []
    if text is None or any(left.seq < last and changed(FileMark.from_json(left.mark)) is None for left in later):
        return None
    at = mark
    for left in later:
        if not left.mark.get("appended") or left.mark.get("before") != [at["size_bytes"], at["mtime_ns"]]:
            break
        at = left.mark
    else:
        if later:
            return None
    return f"it changes a file that a cell above has changed since ({text.rstrip('.')})"
