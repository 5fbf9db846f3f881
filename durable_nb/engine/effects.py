"""What the flows ask for and get back: requests, effects, outcomes. Values only.

The kernel layer builds `CellRequest` and answers `Execute` with a `BodyOutcome`; everything else is carried out by
`Engine.perform`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from durable_nb.history import Record
from durable_nb.model import Event, Json, Output

__all__ = [
    "NO_RESULT",
    "BodyOutcome",
    "CellOptions",
    "CellRequest",
    "Complete",
    "Decide",
    "Decision",
    "Effect",
    "Execute",
    "Fail",
    "Notice",
    "Outside",
    "Reuse",
    "Settle",
    "Start",
    "Started",
]


class _NoResult:
    """The body ended without a value to display."""

    def __repr__(self) -> str:
        return "NO_RESULT"


NO_RESULT: Final = _NoResult()


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOptions:
    """The options of one `%%durable` line that work today."""

    rerun: bool = False
    setup: bool = False
    key: str = ""
    depends: tuple[str, ...] = ()
    skip_if: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    durability: str = ""  # empty: as it is set for all cells
    on_unserializable: str = "report"

    def to_json(self) -> dict[str, Json]:
        """Return what differs from the defaults."""
        shown: dict[str, Json] = {key: value for key in _SCALARS if (value := getattr(self, key))}
        shown.update({key: list(value) for key in _LISTS if (value := getattr(self, key))})
        if self.on_unserializable != "report":
            shown["on_unserializable"] = self.on_unserializable
        return shown

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> CellOptions:
        given: dict[str, Any] = {key: data[key] for key in _SCALARS if key in data}
        given.update({key: tuple(data[key]) for key in _LISTS if key in data})
        given["on_unserializable"] = data.get("on_unserializable", "report")
        return cls(**given)


_SCALARS = ("rerun", "setup", "key", "skip_if")
_LISTS = ("depends", "include", "exclude")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRequest:
    """A cell that IPython is about to run: `source` without the header, `transformed` as plain Python, its `tree`."""

    source: str
    transformed: str
    tree: ast.Module
    name: str = ""
    options: CellOptions = field(default_factory=CellOptions)
    cell_id: str | None = None
    execution_count: int = 0
    durable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyOutcome:
    """How the body ended: the user's exception as it is, what was shown, and the value of the last expression."""

    error: BaseException | None = None
    outputs: tuple[Output, ...] = ()
    result: object = NO_RESULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Run or skip, and why. `record` is the attempt that stands for this one when `skip`."""

    skip: bool
    record: Record | None = None
    reasons: tuple[str, ...] = ()
    reached: bool = False  # skipped because --skip-if found the goal reached, with or without a record


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An attempt under way: its event (None: it could not be written), number, and when it began."""

    event: Event | None
    activity_id: str
    attempt: int
    began_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Commit what changed since the last commit while no durable cell ran."""

    request: CellRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    """Answer with a Decision."""

    request: CellRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Let a finished attempt stand for this cell and show its outputs again."""

    request: CellRequest
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Bring the live namespace to where the skipped cells say it is, before anything really runs."""

    request: CellRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Make ActivityStarted durable; answer with Started."""

    request: CellRequest
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Run the body now; answer with BodyOutcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """Capture what the body changed and commit it as ActivityCompleted."""

    request: CellRequest
    decision: Decision
    started: Started
    outcome: BodyOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """Record that the attempt failed or was interrupted."""

    request: CellRequest
    started: Started
    outcome: BodyOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A plain cell ran: remember its imports, its input and where its source is."""

    request: CellRequest


Effect = Outside | Decide | Reuse | Settle | Start | Execute | Complete | Fail | Notice
