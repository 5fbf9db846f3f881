"""What code that ran since the last look may have reached, and so what the next look has to look at.

Used by the engine around every body and at every look.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_nb.capture.access import Access
from durable_nb.capture.running import runs_elsewhere
from durable_nb.capture.settled import Touched
from durable_nb.engine import inputs, processes, restoring

if TYPE_CHECKING:
    from durable_nb.engine.effects import CellRequest
    from durable_nb.engine.session import Engine

__all__ = ["Reached", "beside", "note", "nothing_ran", "reaches", "taken"]


@dataclass(slots=True)
class Reached:
    """What may have been reached since the last look."""

    touched: Touched | None = None  # None: anything
    # Code ran beside the cells and nobody analysed it. Any thread may say so, before it runs and when it has run.
    beside: bool = False


def reaches(engine: Engine, request: CellRequest) -> Access:
    """Take note of what a cell leads to; before it runs and after, because it may bind names on its way."""
    access = inputs.access_of(request, engine.shell.namespace)
    note(engine, access)
    return access


def note(engine: Engine, access: Access) -> None:
    """Take note of what an analysed cell leads to."""
    if access.may_change is None:
        engine.reached.touched = None
    elif engine.reached.touched is not None:
        engine.reached.touched |= Touched(names=access.may_change - access.only_read, read=access.only_read)


@contextmanager
def beside(engine: Engine, request: CellRequest | None) -> Iterator[None]:
    """Let code run that is no cell, in any thread; None: nobody can analyse it beforehand."""
    if request is not None:
        restoring.before_beside(engine, request)
    try:
        # Before it runs as well: a look may come while it does.
        _ran_beside(engine, request)
        yield
    finally:
        _ran_beside(engine, request)


def _ran_beside(engine: Engine, request: CellRequest | None) -> None:
    if request is None:
        engine.reached.beside = True
    else:
        reaches(engine, request)


def nothing_ran(engine: Engine) -> bool:
    """Tell whether there is nothing to look at: what the last look saw is stored, and no code has run since.

    What a timer or a library has done to the process meanwhile shows in the process alone.
    """
    found = engine.reached
    if found.touched != Touched() or found.beside or engine.trouble or runs_elsewhere(engine.shell.namespace):
        return False
    return engine.capture.is_quiet(engine.head) and not processes.differing(engine)


@contextmanager
def taken(engine: Engine) -> Iterator[Touched | None]:
    """Give what the look in this block has to look at (None: everything); when it has looked, begin anew."""
    found = engine.reached
    # Code in another thread, or in a task, may go on to change anything until the look after this one.
    elsewhere = runs_elsewhere(engine.shell.namespace)
    beside, found.beside = found.beside, False
    touched, found.touched = None if elsewhere or beside else found.touched, None
    yield touched
    if not elsewhere:
        found.touched = Touched()
