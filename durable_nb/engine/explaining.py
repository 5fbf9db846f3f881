"""Why a cell would be skipped or run, told from a live kernel or from the history alone. Used by the verb `why`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_nb.engine.decisions import decide
from durable_nb.engine.effects import CellOptions, CellRequest, Decision
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
    if not engine.writable:
        reason = "this kernel is read-only: nothing is recorded here, and nothing is skipped"
        return Explanation(would="run", headline="would run", reasons=(reason,))
    transformed = engine.shell.transform(attempt.source)
    request = CellRequest(
        source=attempt.source,
        transformed=transformed,
        tree=ast.parse(transformed),
        name=attempt.name,
        options=CellOptions.from_json(attempt.options),
        cell_id=attempt.cell_id,
    )
    engine.commit_outside(request)
    decision = decide(engine, request, explain=True)
    if decision.skip:
        reasons = (*decision.reasons, *_unseen(decision))
        return Explanation(would="skip", headline="would be skipped", reasons=reasons)
    return Explanation(would="run", headline="would run", reasons=decision.reasons)


def _unseen(decision: Decision) -> tuple[str, ...]:
    """Return what a skip does not know: inputs that nobody can see were not compared."""
    unknown = decision.record.inputs.unknown if decision.record is not None else ()
    if not unknown:
        return ()
    return (
        f"but it has inputs that cannot be seen ({', '.join(unknown)}): whether they changed is not known. "
        "`--depends PATH`, `--key EXPR` or `--skip-if EXPR` names them; `--rerun` runs it",
    )


def _history_headline(attempt: Attempt) -> str:
    if attempt.status == "completed":
        return (
            f"finished in {attempt.checkpoint_id}; a live kernel tells whether its inputs are unchanged. "
            "Last time it ran because"
        )
    return f"{attempt.status}{': ' + attempt.error if attempt.error else ''}; it would run. Last time it ran because"
