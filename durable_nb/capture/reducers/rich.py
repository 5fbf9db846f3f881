"""A console keeps its settings, its styles and what it has recorded; what each thread was about to print is gone.

Merged into the plug-in by `load` once rich is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "rich"


def _make_console(cls: Any) -> Any:
    return cls.__new__(cls)


def _fill_console(console: Any, state: tuple[dict[str, Any], Any]) -> None:
    attributes, themes = state
    vars(console).update(attributes)
    vars(console)["_thread_locals"] = sys.modules["rich.console"].ConsoleThreadLocals(theme_stack=themes)


@promise("exact")
def _console(console: Any) -> tuple[Any, ...]:
    held = {name: value for name, value in vars(console).items() if name != "_thread_locals"}
    return _make_console, (type(console),), (held, console._theme_stack), None, None, _fill_console


def plugin() -> Plugin:
    """Return what rich needs."""
    return Plugin(subclasses=((named("rich.console.Console"), _console),))
