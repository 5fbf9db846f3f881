"""A fresh run in a live kernel: the verb `new`. When it returns, nothing finished before is skipped any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_nb.engine.restoring import settle
from durable_nb.errors import LeaseHeld

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["start_run"]


def start_run(engine: Engine, *, reason: str) -> str:
    """Begin a fresh run from the live namespace and return its id."""
    if not engine.writable:
        raise LeaseHeld("Another kernel holds this workflow, so a fresh run cannot begin here; nothing changed.")
    settle(engine)
    engine.commit_outside()
    previous, engine.run_id = engine.run_id, engine.new_run_id()
    engine.append(engine.draft("RunStarted", {"reason": reason, "previous_run": previous}))
    engine.life_seq = engine.state.last_seq
    # The live variables are where the fresh run begins; its first checkpoint holds all of them.
    engine.commit_outside(reason="fresh run")
    return engine.run_id
