"""A lexer's class gets its tables when the first one is made, which pickle leaves out: they are made first.

Merged into the plug-in by `load` once pygments is imported. There is one object of each kind of token.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "pygments"


def _make_lexer(cls: Any) -> Any:
    if "_tokens" not in vars(cls):
        cls()
    return cls.__new__(cls)


@promise("exact")
def _lexer(lexer: Any) -> Any:
    return _make_lexer, (type(lexer),), dict(vars(lexer)) or None


def _make_token(names: tuple[str, ...]) -> Any:
    # Asking the parent for a kind that is not there makes it.
    return functools.reduce(getattr, names, importlib.import_module("pygments.token").Token)


@promise("exact")
def _token(token: Any) -> tuple[Any, ...]:
    return _make_token, (tuple(token),)


def _referents(token: Any) -> Iterable[Any] | None:
    return None


def plugin() -> Plugin:
    """Return what pygments needs."""
    tokens = sys.modules.get("pygments.token")
    return Plugin(
        subclasses=(
            (named("pygments.lexer.RegexLexer"), _lexer),
            (named("pygments.token._TokenType"), _token),
        ),
        referents={tokens._TokenType: _referents} if tokens is not None else {},
    )
