"""What code that ran since the last look may have reached, and so what the next look has to look at.

Used by the engine around every body and at every look.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from durable_nb.capture.access import Access
from durable_nb.capture.running import runs_elsewhere
from durable_nb.capture.settled import Touched
from durable_nb.engine import inputs

if TYPE_CHECKING:
    from durable_nb.engine.effects import CellRequest
    from durable_nb.engine.session import Engine

__all__ = ["note", "reaches", "taken"]


def reaches(engine: Engine, request: CellRequest) -> Access:
    """Take note of what a cell leads to; before it runs and after, because it may bind names on its way."""
    access = inputs.access_of(request, engine.shell.namespace)
    note(engine, access)
    return access


def note(engine: Engine, access: Access) -> None:
    """Take note of what an analysed cell leads to."""
    if access.may_change is None:
        engine.reached = None
    elif engine.reached is not None:
        engine.reached |= Touched(names=access.may_change - access.only_read, read=access.only_read)


@contextmanager
def taken(engine: Engine) -> Iterator[Touched | None]:
    """Give what the look in this block has to look at (None: everything); when it has looked, begin anew."""
    # Code in another thread, or in a task, may go on to change anything until the look after this one.
    elsewhere = runs_elsewhere(engine.shell.namespace)
    touched, engine.reached = None if elsewhere else engine.reached, None
    yield touched
    if not elsewhere:
        engine.reached = Touched()
