"""Make again what a checkpoint could not hold: after a restore, as marks allow, and on request.

Called when a kernel has restored, for the cells whose mark allows it (`--setup`, `--on-unserializable recompute`), and
by the verb `recompute`, which is the permission for the names it is given. When a function here returns, the names that
could be made again are live, everything else is as it was, and the history says what ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from durable_nb.engine import missing
from durable_nb.engine.missing import Maker, Remade
from durable_nb.engine.rerunning import Session
from durable_nb.engine.restoring import Restored, settle
from durable_nb.errors import LeaseHeld, UsageError
from durable_nb.history import Record
from durable_nb.model import Unsaved

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["recompute", "run_allowed"]


def run_allowed(engine: Engine, restored: Restored) -> Restored:
    """Run the cells again that are marked for it and that the checkpoint needs, in the order in which they ran."""
    run = engine.state.run
    if run is None or engine.run_beside is None:
        return restored
    was_absent = frozenset(engine.absent)
    limit = engine.state.checkpoints[restored.checkpoint_id].seq
    session = Session(engine, asked_by="mark")
    setups = [r for r in run.records if r.setup and r.seq <= limit]
    latest = {r.code_hash: r for r in setups}
    # Each in the place where it first ran: run again at an earlier restore, it is recorded behind cells that need it.
    first = {r.code_hash: r.seq for r in reversed(setups)}
    jobs: dict[int, Maker | Record] = {first[code_hash]: r for code_hash, r in latest.items()}
    for entry in engine.absent.values():
        maker = missing.maker_of(engine.state, entry, session.ancestors)
        if isinstance(maker, Maker) and maker.marked and maker.record.seq not in jobs and engine.writable:
            jobs[maker.record.seq] = maker
    if not jobs:
        return restored
    done: list[str] = []
    failed: list[str] = []
    for _, job in sorted(jobs.items()):
        if isinstance(job, Maker):
            session.attempt(job)
        else:
            _run_setup(engine, job, done, failed)
    _forget_what_is_back(engine, restored.missing, was_absent)
    return replace(
        restored,
        missing=engine.missing,
        setups=tuple(done),
        failed_setups=tuple(failed),
        remade=tuple(session.done),
    )


def _run_setup(engine: Engine, record: Record, done: list[str], failed: list[str]) -> None:
    attempt = next(a for a in engine.state.attempts if a.checkpoint_id == record.checkpoint_id)
    assert engine.run_beside is not None
    try:
        engine.run_beside(f"{attempt.name} --setup", attempt.source)
        done.append(missing.label(attempt))
    except Exception as error:  # the user's own error: told in one line, and the restore goes on
        failed.append(f"{missing.label(attempt)}: {type(error).__name__}: {error}")


def _forget_what_is_back(engine: Engine, before: Sequence[Unsaved], was_absent: frozenset[str]) -> None:
    """Leave out of the list what was not back and is now, and keep in it what no later commit of ours knows of."""
    missing.carried(engine, ())
    now = {u.name for u in engine.missing}
    listed = (*engine.missing, *(u for u in before if u.name not in now))
    engine.missing = tuple(u for u in listed if u.name not in was_absent or u.name in engine.absent)


def recompute(engine: Engine, names: Sequence[str], *, force: bool) -> list[Remade]:
    """Make these names again; `force` also lets cells run that write files, and cells of inputs that are not named.

    Raises where nothing can be done at all; what happened to each cell is in the result.
    """
    if not engine.writable:
        raise LeaseHeld("Another kernel holds this workflow, so nothing is made again here; nothing ran.")
    if engine.watch is not None:
        raise UsageError("`recompute` is typed in a cell of its own, not inside a durable cell; nothing ran.")
    if engine.run_aside is None:
        raise UsageError("`recompute` needs a live kernel; nothing ran.")
    settle(engine)
    engine.commit_outside()
    before, was_absent = engine.missing, frozenset(engine.absent)
    session = Session(engine, asked_by="verb", named=frozenset(names), force=force)
    makers: dict[int, Maker] = {}
    for name in names:
        maker = missing.maker_of(engine.state, engine.absent[name], session.ancestors)
        if isinstance(maker, str):
            session.done.append(Remade(label="", wanted=(name,), problem=f"{maker}. Run the cell that makes it."))
        else:
            makers.setdefault(maker.record.seq, maker)
    for _, maker in sorted(makers.items()):
        session.attempt(maker)
    _forget_what_is_back(engine, before, was_absent)
    return session.done
