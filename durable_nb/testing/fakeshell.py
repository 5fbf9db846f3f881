"""A `Shell` without IPython: a dict, lists of what was said and shown, and history that a test fills by hand.

Used by tests of the engine and the verbs. It keeps the promises of `ports.Shell`; what was asked of it can be read from
its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from durable_nb.model import Json, Output

__all__ = ["FakeShell"]


class FakeShell:
    """The shell of a person who exists only in a test."""

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        self.said: list[str] = []
        self.shown: list[Output] = []
        self.execution_count = 1
        self.inputs: dict[int, tuple[str, str]] = {}
        self.sources: dict[str, tuple[int, str]] = {}
        self.results: dict[int, object] = {}
        self.latest: object = None
        self.gui: dict[str, Json] = {}
        self.detach_reason = ""
        self._namespace = {} if namespace is None else namespace
        self._hidden = dict(self._namespace)
        self._told_inputs: dict[int, tuple[str, str]] = {}
        self._told_sources: dict[str, tuple[int, str]] = {}
        self._on_exit: list[Callable[[], None]] = []
        self._on_shutdown: list[Callable[[bool], None]] = []

    @property
    def namespace(self) -> dict[str, Any]:
        """The namespace given at the start."""
        return self._namespace

    def hidden(self) -> Mapping[str, Any]:
        """Return what was in the namespace at the start."""
        return {name: value for name, value in self._hidden.items() if name in self._namespace}

    def typed(self, raw: str, parsed: str | None = None) -> int:
        """Note a cell as typed and return its number."""
        number = self.execution_count
        self.inputs[number] = (raw, raw if parsed is None else parsed)
        self.execution_count += 1
        return number

    def state(self) -> dict[str, Json]:
        """Return the execution count and the inputs that are new since the last call."""
        new = {n: pair for n, pair in self.inputs.items() if self._told_inputs.get(n) != pair}
        self._told_inputs.update(new)
        return {"execution_count": self.execution_count, "inputs": {str(n): list(pair) for n, pair in new.items()}}

    def restore_state(self, state: Mapping[str, Json]) -> None:
        """Go on numbering behind the restored cells."""
        self.execution_count = max(self.execution_count, int(state.get("execution_count", 0)))
        restored = {int(n): (pair[0], pair[1]) for n, pair in state.get("inputs", {}).items()}
        self.inputs.update(restored)
        self._told_inputs.update(restored)

    def outs(self) -> dict[int, object]:
        """Return a copy of the results."""
        return dict(self.results)

    def set_out(self, n: int, value: object, *, latest: bool = False) -> None:
        """Keep the result of cell `n`."""
        self.results[n] = value
        if latest:
            self.latest = value

    def cell_sources(self) -> dict[str, Json]:
        """Return the sources that are new since the last call."""
        new = {name: source for name, source in self.sources.items() if self._told_sources.get(name) != source}
        self._told_sources.update(new)
        return {name: list(source) for name, source in new.items()}

    def restore_sources(self, sources: Mapping[str, Json]) -> None:
        """Keep the sources of restored cells."""
        restored = {name: (int(number), str(text)) for name, (number, text) in sources.items()}
        self.sources.update(restored)
        self._told_sources.update(restored)

    def gui_state(self) -> dict[str, Json]:
        """Return what a test put into `gui`."""
        return dict(self.gui)

    def restore_gui_state(self, state: Mapping[str, Json]) -> list[str]:
        """Take the state over; nothing can fail."""
        self.gui = dict(state)
        return []

    def transform(self, source: str) -> str:
        """Return the source: nobody types magics here."""
        return source

    def emit(self, outputs: Sequence[Output]) -> None:
        """Keep what would be shown."""
        self.shown.extend(outputs)

    def say(self, line: str) -> None:
        """Keep the line."""
        self.said.append(line)

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Keep the callback for `exit`."""
        self._on_exit.append(callback)

    def on_shutdown(self, callback: Callable[[bool], None]) -> None:
        """Keep the callback for `exit`."""
        self._on_shutdown.append(callback)

    def exit(self, *, restart: bool | None = None) -> None:
        """End the kernel in an orderly way: asked for by a person (restart or shutdown), or by itself (None)."""
        if restart is not None:
            self.detach_reason = "restart" if restart else "shutdown"
            for asked in self._on_shutdown:
                asked(restart)
        while self._on_exit:
            self._on_exit.pop()()
