"""A stand-in for the engine, and an IPython extension that puts it behind the real interception.

Used by tests of the kernel side (`%load_ext durable_nb.testing.fakeengine`): nothing is stored. The engine in force is
`get_ipython().fake_engine`; with `skip` set, a cell whose source has finished before is not run but shown again.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from durable_nb.engine.effects import NO_RESULT, BodyOutcome, CellRequest, Execute
from durable_nb.kernel.intercept import Interceptor
from durable_nb.kernel.magics import DurableMagics
from durable_nb.kernel.shell import IPythonShell
from durable_nb.verbs import check

__all__ = ["FakeEngine", "FakeResult", "load_ipython_extension", "unload_ipython_extension"]


class FakeResult:
    """What a verb of the fake returns."""

    def __init__(self, verb: str, arguments: list[str]) -> None:
        self.verb, self.arguments = verb, arguments

    def __repr__(self) -> str:
        return f"fake {self.verb} {self.arguments}"

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {"verb": self.verb, "arguments": self.arguments}


class FakeEngine:
    """Records requests and outcomes; executes always, or skips what has finished; raises `failure` when told to."""

    def __init__(self, shell: IPythonShell) -> None:
        self.shell = shell
        self.requests: list[CellRequest] = []
        self.plain: list[CellRequest] = []
        self.outcomes: list[BodyOutcome] = []
        self.finished: dict[str, BodyOutcome] = {}
        self.skip = False
        self.failure: BaseException | None = None
        self.fail_after_body = False
        self.attempts = 1

    def run_cell(self, request: CellRequest) -> Generator[Any, Any, None]:
        """Play the engine's part for one cell."""
        if not request.durable:
            self.plain.append(request)
            yield Execute()
            return
        self.requests.append(request)
        if self.failure is not None and not self.fail_after_body:
            raise self.failure
        before = self.finished.get(request.source)
        if self.skip and before is not None:
            self.shell.say("skipped")
            self.shell.emit(before.outputs)
            if before.result is not NO_RESULT:
                self.shell.set_out(request.execution_count, before.result, latest=True)
            return
        outcome: BodyOutcome = yield Execute()
        self.outcomes.append(outcome)
        if self.failure is not None:
            raise self.failure
        if outcome.error is None:
            self.finished[request.source] = outcome

    def beside(self, request: CellRequest | None) -> AbstractContextManager[None]:
        """Have nothing to bring back."""
        return nullcontext()

    def run_verb(self, verb: str, arguments: list[str]) -> FakeResult:
        """Return what was asked."""
        if self.failure is not None:
            raise self.failure
        check(verb, arguments)
        return FakeResult(verb, arguments)

    def run_sql(self, query: str, save_as: str | None) -> FakeResult:
        """Return the query, and keep it under the name asked for."""
        if save_as is not None:
            self.shell.namespace[save_as] = query
        return FakeResult("sql", [query])


def load_ipython_extension(ip: Any) -> None:
    """Install the interception and the magics over a fake engine."""
    if hasattr(ip, "fake_engine"):
        return
    shell = IPythonShell(ip)
    engine = FakeEngine(shell)
    interceptor = Interceptor(ip, engine)
    magics = DurableMagics(
        ip, interceptor, verbs=("status", "why", "sql"), run_verb=engine.run_verb, run_sql=engine.run_sql
    )
    shell.attach()
    interceptor.install()
    magics.register()
    ip.fake_engine = engine
    ip.fake_parts = (magics, interceptor, shell)


def unload_ipython_extension(ip: Any) -> None:
    """Take everything away again."""
    magics, interceptor, shell = ip.fake_parts
    magics.unregister()
    interceptor.remove()
    shell.detach()
    del ip.fake_engine, ip.fake_parts
