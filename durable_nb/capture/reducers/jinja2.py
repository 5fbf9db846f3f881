"""Templates come back compiled, with their environment; their class makes none without a source.

Merged into the plug-in by `load` once jinja2 is imported.
"""

from __future__ import annotations

from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "jinja2"


def _make_template(cls: Any) -> Any:
    return object.__new__(cls)


def _fill_template(template: Any, state: dict[str, Any]) -> None:
    vars(template).update(state)


@promise("exact")
def _template(template: Any) -> tuple[Any, ...]:
    return _make_template, (type(template),), dict(vars(template)), None, None, _fill_template


def plugin() -> Plugin:
    """Return what jinja2 needs."""
    return Plugin(subclasses=((named("jinja2.environment.Template"), _template),))
