"""Requests and replies keep their extensions, which pickle drops; a reply that was not read is reported.

Merged into the plug-in by `load` once httpx is imported.
"""

from __future__ import annotations

from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "httpx"

# The socket itself.
_OPEN = "network_stream"


def _make_message(cls: Any) -> Any:
    return cls.__new__(cls)


def _fill_message(message: Any, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    message.__setstate__(state[0])
    message.extensions = state[1]


@promise("exact")
def _message(message: Any) -> Any:
    kind: Any = type(message)
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
        return NotImplemented
    if not hasattr(message, "_content"):
        raise Unstorable(f"an httpx.{kind.__name__} whose content was not read; call its read() first")
    held = {name: value for name, value in message.extensions.items() if name != _OPEN}
    return _make_message, (kind,), (message.__getstate__(), held), None, None, _fill_message


def plugin() -> Plugin:
    """Return what httpx needs."""
    return Plugin(
        subclasses=(
            (named("httpx.Request", "httpx.Response", "httpx._models.Request", "httpx._models.Response"), _message),
        )
    )
