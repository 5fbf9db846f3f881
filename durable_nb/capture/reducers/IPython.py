"""The shell and what hangs on it are those of the kernel: `ip = get_ipython()` is the new kernel's shell again.

Merged into the plug-in by `load` once IPython is imported. Nothing of a shell is stored but the way to it.
"""  # noqa: N999  # a file here has the name of its library

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = "IPython"


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython()


def _make_part(*path: str) -> Any:
    """Return the shell of this process, or what the path leads to from there."""
    found = _shell()
    if found is None:
        raise RuntimeError("no IPython shell runs in this process")
    for part in path:
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return found


def _path(obj: Any) -> tuple[str, ...] | None:
    shell = _shell()
    if shell is None or obj is shell:
        return None if shell is None else ()
    display = shell.display_formatter
    if obj is display:
        return ("display_formatter",)
    return next((("display_formatter", "formatters", m) for m, one in display.formatters.items() if one is obj), None)


@promise("exact")
def _part(obj: Any) -> tuple[Any, ...]:
    path = _path(obj)
    if path is None:
        raise Unstorable(f"a {type(obj).__name__} that is not the one of the kernel's shell")
    return _make_part, path


def _referents(obj: Any) -> Iterable[Any] | None:
    return None


def plugin() -> Plugin:
    """Return what IPython needs."""
    shells = sys.modules["IPython.core.interactiveshell"].InteractiveShell
    formatters = sys.modules["IPython.core.formatters"]
    kinds = (shells, formatters.DisplayFormatter, formatters.BaseFormatter)
    return Plugin(
        subclasses=tuple((kind, _part) for kind in kinds),
        referents=dict.fromkeys(kinds, _referents),
    )
