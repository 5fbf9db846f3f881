"""The flows: a cell runs, a finished one is reused, a kernel attaches and restores.

`flows` holds the generators of effects and is pure; `session` carries the effects out against the store, the capture
and the shell. The kernel layer drives `Engine.run_cell`, which yields `Execute` and nothing else.
"""

from durable_nb.engine.effects import NO_RESULT, BodyOutcome, CellOptions, CellRequest, Execute
from durable_nb.engine.session import Engine

__all__ = ["NO_RESULT", "BodyOutcome", "CellOptions", "CellRequest", "Engine", "Execute"]
