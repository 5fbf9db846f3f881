"""Why a cell would be skipped or run, told from a live kernel or from the history alone. Used by the verb `why`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_nb.engine.decisions import decide
from durable_nb.engine.effects import CellOptions, CellRequest
from durable_nb.history import Attempt, State

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`would`: skip, run, or unknown where there is no live kernel to compare with."""

    would: str
    headline: str
    reasons: tuple[str, ...] = ()


def explain(engine: Engine | None, state: State, attempt: Attempt) -> Explanation:
    """Explain the decision about the cell of this attempt, as it would fall now."""
    if engine is None:
        return Explanation(would="unknown", headline=_history_headline(attempt), reasons=tuple(attempt.decision))
    transformed = engine.shell.transform(attempt.source)
    request = CellRequest(
        source=attempt.source,
        transformed=transformed,
        tree=ast.parse(transformed),
        name=attempt.name,
        options=CellOptions.from_json(attempt.options),
        cell_id=attempt.cell_id,
    )
    if engine.writable:
        engine.commit_outside(request)
    decision = decide(engine, request, explain=True)
    if decision.skip:
        return Explanation(would="skip", headline="would be skipped", reasons=decision.reasons)
    return Explanation(would="run", headline="would run", reasons=decision.reasons)


def _history_headline(attempt: Attempt) -> str:
    if attempt.status == "completed":
        return (
            f"finished in {attempt.checkpoint_id}; a live kernel tells whether its inputs are unchanged. "
            "Last time it ran because"
        )
    return f"{attempt.status}{': ' + attempt.error if attempt.error else ''}; it would run. Last time it ran because"
