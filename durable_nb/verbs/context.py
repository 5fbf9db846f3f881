"""What a verb acts on: the repository of a folder, one workflow of it, and the live engine if there is one.

Built by the kernel's extension and by the command line; the same verbs then work in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durable_nb.config import Settings
from durable_nb.engine import Engine
from durable_nb.errors import UsageError
from durable_nb.history import State
from durable_nb.ports import Clock
from durable_nb.projection.duckdb import Projection
from durable_nb.store.repository import Repository
from durable_nb.store.workflow import Workflow
from durable_nb.verbs.report import Report

__all__ = ["Context"]


@dataclass(slots=True, kw_only=True)
class Context:
    """`engine` is None outside a kernel; `prefix` is what the person types before a verb here.

    `opened` is None where the verb is about the whole folder and no single notebook is meant.
    """

    folder: Path
    repository: Repository
    opened: Workflow | None
    state: State
    clock: Clock
    settings: Settings
    projection: Projection
    engine: Engine | None
    prefix: str
    take_lease: Callable[[], Workflow]
    new_run_id: Callable[[], str]
    trust: Callable[[Path], int | None]
    checks: Callable[[], Mapping[str, Any]]
    demo: Callable[[Sequence[str]], Report]

    @property
    def workflow(self) -> Workflow:
        """The workflow that the verb is about."""
        if self.opened is None:
            raise UsageError("Which workflow? Name its notebook; `list` tells what there is.")
        return self.opened
