"""Where the skipped cells say the namespace is, as long as nothing has really run.

After a loss the namespace is back at its last checkpoint. Run All then skips the cells from the top; taken one by one
each skip would move variables back to what they were after that cell, only for a later skip to move them forward
again. Instead a skip notes the *place* of each name it wrote (version, checkpoint) and leaves the live object alone.
When the places have come full circle nothing is left to do; when a cell really has to run before that, `Engine.settle`
loads what the places say. Used by the engine alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from durable_nb.history import Record
from durable_nb.model import CheckpointId, Json, Manifest

__all__ = ["OF_MODULES", "Place", "Replay"]

OF_MODULES = frozenset({"modules", "patches"})  # what cells set in modules and classes, where it can be set again


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A name's (or process component's) wanted version, None for deleted, as the checkpoint of that sequence has it."""

    version: str | None
    checkpoint_id: CheckpointId
    seq: int
    turn: int = 0


@dataclass(slots=True, kw_only=True)
class Replay:
    """The overlay of places over the live namespace and process."""

    names: dict[str, Place] = field(default_factory=dict)
    process: dict[str, Place] = field(default_factory=dict)
    turn: int = 0
    # Name → when a cell of this life made it, run or skipped, and the checkpoint that says what it shared then.
    met: dict[str, tuple[int, CheckpointId]] = field(default_factory=dict)
    last_seq: int = 0  # the attempt that was reused last: Run All meets what came after it next
    last_checkpoint: CheckpointId | None = None  # what that one had left
    # Path → how many changes of files were met before it in this life, which attempt made it, and whether it took the
    # file (or the folder with everything in it) away.
    files: dict[str, tuple[int, int, bool]] = field(default_factory=dict)
    _files_met: int = 0
    # End of an attempt → the cell of this life that it stood for; one attempt does not stand for two cells.
    _stands_for: dict[int, str | None] = field(default_factory=dict)
    _first: str = ""  # the code of the first cell of this life
    _same_ids: bool = False  # a cell had the id in this life that it had when it finished
    effects: str = ""  # digest of the cells of this life, in order, that did what no checkpoint holds
    from_top: bool = False  # the first cell of the run was met: what follows is Run All
    # What a cell made that merely has the code of a finished one: nothing that came later has joined it to anything.
    apart: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.names or self.process)

    def clear(self) -> None:
        self.names.clear()
        self.process.clear()
        self.apart.clear()

    def begin(self) -> None:
        """Forget everything: what was met so far does not count any more, Run All begins at the top."""
        self.clear()
        self.met.clear()
        self.files.clear()
        self.last_seq, self.last_checkpoint = 0, None
        self._stands_for.clear()
        self._first, self._same_ids, self.from_top, self.effects = "", False, False, ""

    def asked(self, code_hash: str, cell_id: str | None, first: Record | None) -> None:
        """Note that a cell is about to be skipped or run; `first` is the cell of the run that had finished first.

        Without ids two equal cells look like one that is run twice; but who runs all cells again begins at the first.
        So it is with ids that are new ones each time a notebook is opened.
        """
        if code_hash == self._first and not self._same_ids:
            self._stands_for.clear()
        self._first = self._first or code_hash
        if first is not None and (code_hash == first.code_hash or (cell_id is not None and cell_id == first.cell_id)):
            self.from_top = True

    def did(self, code_hash: str, read: Mapping[str, Any], outside_effects: Collection[str], changed: Set[str]) -> None:
        """Note that a cell of this life, run or skipped, did what it did to modules or beside the namespace, if so.

        `read` are the versions of the names that it read, `changed` the components of process state. Who reads what
        such cells did finds the same ones before it, or others.
        """
        if outside_effects or not OF_MODULES.isdisjoint(changed):
            told = json.dumps([self.effects, code_hash, sorted(read.items())])
            self.effects = hashlib.sha256(told.encode()).hexdigest()

    def stands_for_another(self, seq: int, who: str | None) -> bool:
        """Tell whether the attempt that ended there stood for another cell in this life; `who` is its name or id."""
        return seq in self._stands_for and (who is None or self._stands_for[seq] != who)

    def meet(self, names: Iterable[str], checkpoint_id: CheckpointId) -> None:
        """Note that a cell of this life has made these names."""
        self.turn += 1
        self.met.update(dict.fromkeys(names, (self.turn, checkpoint_id)))

    def meet_files(self, marks: Iterable[Json], seq: int) -> None:
        """Note that a cell of this life, run or skipped, has left files so; `seq` is the end of its attempt."""
        for mark in marks:
            self._files_met += 1
            self.files[mark["path"]] = (self._files_met, seq, mark["kind"] == "missing")

    def last_change(self, path: str) -> int | None:
        """Return the end of the attempt that was met last of those that changed a file, or took a folder above away."""
        own = [self.files[path]] if path in self.files else []
        above = (self.files.get(str(folder)) for folder in PurePath(path).parents)
        met = [*own, *(entry for entry in above if entry and entry[2])]
        return max(met)[1] if met else None

    def take(self, record: Record, after: Manifest, cell_id: str | None = None, name: str = "") -> None:
        """Note what the record's attempt left behind, and for which cell it stands."""
        self._stands_for[record.seq] = name or cell_id
        self.did(record.code_hash, record.inputs.names, record.inputs.outside_effects, set(record.process_changed))
        self._same_ids = self._same_ids or (cell_id is not None and cell_id == record.cell_id)
        self.apart.difference_update(record.changed)
        if not self.from_top and None not in (cell_id, record.cell_id) and cell_id != record.cell_id:
            self.apart.update(record.changed)
        self.last_seq, self.last_checkpoint = record.seq, record.checkpoint_id
        self.meet_files(record.files_left, record.seq)
        self.meet(record.changed, record.checkpoint_id)
        for name in record.changed:
            if (variable := after.names.get(name)) is not None:
                self.names[name] = Place(
                    version=variable.version, checkpoint_id=record.checkpoint_id, seq=record.seq, turn=self.turn
                )
        for name in record.deleted:
            self.names[name] = Place(version=None, checkpoint_id=record.checkpoint_id, seq=record.seq)
        for component in record.process_changed:
            entry = after.process.get(component)
            digest = entry.get("digest") if entry else None
            self.process[component] = Place(version=digest, checkpoint_id=record.checkpoint_id, seq=record.seq)

    def checkpoints(self) -> list[CheckpointId]:
        """Return the checkpoints that hold what places refer to, newest first.

        The one of the last skip is among them: with what it left in place, the others are loaded as they were by then.
        """
        places = [*self.names.values(), *self.process.values()]
        found = {(p.seq, p.checkpoint_id) for p in places}
        if places and self.last_checkpoint is not None:
            found.add((self.last_seq, self.last_checkpoint))
        return [checkpoint_id for _, checkpoint_id in sorted(found, reverse=True)]
