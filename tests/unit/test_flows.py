"""The flows by hand: outcomes are fed in, the list of effects is compared; no disk, no shell."""

from __future__ import annotations

import ast
from collections.abc import Generator
from typing import Any

from durable_nb.engine.effects import BodyOutcome, CellRequest, Decision, Effect, Started
from durable_nb.engine.flows import activity, plain

REQUEST = CellRequest(source="x = 1", transformed="x = 1", tree=ast.parse("x = 1"), name="one")
STARTED = Started(event=None, activity_id="one", attempt=1, began_s=0.0, cpu_s=0.0)


def drive(flow: Generator[Effect, Any, None], answers: dict[str, Any]) -> list[str]:
    """Return the names of the effects that a flow asks for when each gets its answer."""
    asked = []
    answer = None
    try:
        while True:
            effect = flow.send(answer)
            asked.append(type(effect).__name__)
            answer = answers.get(asked[-1])
    except StopIteration:
        return asked


def test_a_finished_body_is_completed() -> None:
    """A body that ends well is started before it runs and completed after it."""
    answers = {"Decide": Decision(skip=False), "Start": STARTED, "Execute": BodyOutcome()}
    expected = ["Outside", "Decide", "Settle", "Start", "Execute", "Complete"]
    assert expected == drive(activity(REQUEST), answers)


def test_a_failed_body_is_never_completed() -> None:
    """A body that raises is recorded as failed and no checkpoint of it is made."""
    outcome = BodyOutcome(error=ValueError("no"))
    answers = {"Decide": Decision(skip=False), "Start": STARTED, "Execute": outcome}
    assert drive(activity(REQUEST), answers) == ["Outside", "Decide", "Settle", "Start", "Execute", "Fail"]


def test_a_skipped_cell_neither_starts_nor_executes() -> None:
    """A reused cell asks for nothing but the reuse: the namespace is not even settled."""
    assert drive(activity(REQUEST), {"Decide": Decision(skip=True)}) == ["Outside", "Decide", "Reuse"]


def test_a_plain_cell_sees_the_settled_namespace() -> None:
    """Before a plain cell runs, the live namespace is where the skipped cells say it is."""
    assert drive(plain(REQUEST), {}) == ["Settle", "Execute", "Notice"]
