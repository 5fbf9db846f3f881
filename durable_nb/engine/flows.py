"""The flows of a cell as generators of effects: what happens in which order, and nothing of how.

Driven by `Engine.run_cell`; a test feeds outcomes by hand and compares the list of effects. When `activity` ends
after `Complete`, the cell is durable.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from durable_nb.engine.effects import (
    BodyOutcome,
    CellRequest,
    Complete,
    Decide,
    Decision,
    Effect,
    Execute,
    Fail,
    Notice,
    Outside,
    Reuse,
    Settle,
    Start,
    Started,
)

__all__ = ["activity", "plain"]


def activity(request: CellRequest) -> Generator[Effect, Any, None]:
    """Run one durable cell, or let a finished attempt stand for it."""
    yield Outside(request=request)
    decision: Decision = yield Decide(request=request)
    if decision.skip:
        yield Reuse(request=request, decision=decision)
        return
    yield Settle(request=request)
    started: Started = yield Start(request=request, decision=decision)
    outcome: BodyOutcome = yield Execute()
    if outcome.error is not None:
        yield Fail(request=request, started=started, outcome=outcome)
    else:
        yield Complete(request=request, decision=decision, started=started, outcome=outcome)


def plain(request: CellRequest) -> Generator[Effect, Any, None]:
    """Let a cell run that is no activity; what it changes is committed before the next durable one."""
    yield Settle(request=request)
    yield Execute()
    yield Notice(request=request)
