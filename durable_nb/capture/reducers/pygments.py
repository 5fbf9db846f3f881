"""A lexer's class gets its tables when the first one is made, which pickle leaves out: they are made first.

Merged into the plug-in by `load` once pygments is imported.
"""

from __future__ import annotations

from typing import Any

from durable_nb.capture.reducers import Plugin
from durable_nb.capture.reducers._named import named

LIBRARY = "pygments"


def _make_lexer(cls: Any) -> Any:
    if "_tokens" not in vars(cls):
        cls()
    return cls.__new__(cls)


def _lexer(lexer: Any) -> Any:
    return _make_lexer, (type(lexer),), dict(vars(lexer)) or None


def plugin() -> Plugin:
    """Return what pygments needs."""
    return Plugin(subclasses=((named("pygments.lexer.RegexLexer"), _lexer),))
