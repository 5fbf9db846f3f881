"""An engine without a kernel: a namespace, a fake shell and any `Files`, for tests that need many lives quickly.

`Workbench.run` does what a kernel does with a durable cell: it asks the engine and executes the body when told to.
"""

from __future__ import annotations

import ast
import linecache
import sys
from types import ModuleType
from typing import Any

from durable_nb.capture.namespace import NamespaceCapture
from durable_nb.capture.process import ProcessState
from durable_nb.config import Settings
from durable_nb.engine import BodyOutcome, CellOptions, CellRequest, Engine
from durable_nb.engine.attaching import attach
from durable_nb.model import Owner
from durable_nb.ports import Files
from durable_nb.store.process_identity import this_process
from durable_nb.store.repository import Repository
from durable_nb.store.signing import SigningKey
from durable_nb.testing.clock import ManualClock
from durable_nb.testing.fakeshell import FakeShell

__all__ = ["Workbench"]

KEY = SigningKey(b"k" * 32)


class Workbench:
    """One kernel life over `files`; making the next one over the same files is the life after a loss."""

    def __init__(
        self,
        files: Files,
        *,
        clock: ManualClock | None = None,
        life: str = "one",
        main: ModuleType | None = None,
        settings: Settings | None = None,
    ) -> None:
        """`main` is the module whose names are the notebook's, as the kernel's `__main__` is; default: a bare dict."""
        self.clock = clock or ManualClock(tick_us=10)
        self.namespace: dict[str, Any] = {"__name__": "__main__"} if main is None else vars(main)
        self.shell = FakeShell(self.namespace)
        self.repository = Repository.open(files, key=KEY, clock=self.clock)
        owner = this_process(life, self.clock)
        self.workflow = self.repository.workflow("bench", kernel_id=life, owner=owner)
        self.count = 0
        process = ProcessState()
        self.engine = Engine(
            workflow=self.workflow,
            shell=self.shell,
            clock=self.clock,
            settings=settings or Settings(durability="sync"),  # the next life begins at once, over what is stored
            capture=NamespaceCapture(
                self.namespace,
                hidden=self.shell.hidden,
                out=dict,
                owned=lambda: process.owned(self.namespace),
            ),
            process=process,
            kernel_id=life,
            modules=sys.modules,
            new_run_id=lambda: f"run-{life}",
        )
        self.lines = attach(self.engine, _identity(owner))

    def run(self, source: str, *, filename: str = "", **options: Any) -> bool:
        """Run one durable cell and tell whether its body ran; of a cell with a file name the source is on record."""
        self.count += 1
        name = filename or f"<cell {self.count}>"
        if filename:
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        request = CellRequest(
            source=source,
            transformed=source,
            tree=ast.parse(source),
            options=CellOptions(**options),
            execution_count=self.count,
        )
        flow = self.engine.run_cell(request)
        try:
            next(flow)
        except StopIteration:
            return False
        error: Exception | None = None
        self.failed: Exception | None = None
        try:
            exec(compile(source, name, "exec", dont_inherit=True), self.namespace)
        except Exception as raised:
            self.failed = error = raised
        try:
            flow.send(BodyOutcome(error=error))
        except StopIteration:
            return True
        raise AssertionError("the engine asked for the body twice")


def _identity(owner: Owner) -> dict[str, Any]:
    return {"pid": owner.pid, "host": owner.host, "boot_id": owner.boot_id, "process_start": owner.process_start}
