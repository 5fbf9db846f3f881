"""How the notebook's own functions show values: what it registered with IPython's display formatters.

Used by `process`, restored after the variables because it refers to them. What libraries register is theirs to
register again; a function of the notebook that no variable holds under its own name is reported.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from durable_nb.model import Json, Unsaved

__all__ = ["Formatters"]

# Where a formatter keeps its functions: by type, by module and name of a type not imported yet, by attribute.
_TABLES = ("singleton_printers", "type_printers", "deferred_printers")
_Key = tuple[str, str, str]  # mime type, module, name; IPython moves the entry when it first shows such a value


def _formatters() -> Mapping[str, Any]:
    shell = sys.modules["IPython"].get_ipython()
    return {} if shell is None else shell.display_formatter.formatters


def _names(table: str, key: Any) -> tuple[str, str] | None:
    """Return module and name of the type that a table's key stands for; None for a single object."""
    if table == "type_printers" and isinstance(key, type):
        return (key.__module__, key.__qualname__)
    if table == "deferred_printers" and isinstance(key, tuple):
        return (str(key[0]), str(key[1]))
    return None


def _walk() -> Iterator[tuple[str, str, Any, Any]]:
    """Yield mime type, table, key and function of what the notebook's own functions are registered for."""
    for mime, formatter in _formatters().items():
        for table in _TABLES:
            for key, function in list(getattr(formatter, table, {}).items()):
                if getattr(function, "__module__", None) == "__main__":
                    yield mime, table, key, function


def _path(function: Any) -> str:
    """Return under which name the notebook has the function, or ""."""
    path = str(getattr(function, "__qualname__", ""))
    return path if _found("__main__", path) is function else ""


def _found(module: str, path: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


class Formatters:
    """The functions of the notebook in IPython's display formatters, by the names of both."""

    name = "shell.formatters"
    needs = "IPython.core.formatters"

    def mark(self) -> dict[_Key, str]:
        """Return the name of each registered function, "" for one without."""
        found: dict[_Key, str] = {}
        for mime, table, key, function in _walk():
            names = _names(table, key)
            found[(mime, *(names or ("", type(key).__name__)))] = _path(function) if names else ""
        return found

    def base(self, mark: dict[_Key, str]) -> dict[_Key, str]:
        """Return the untouched state: nothing registered."""
        return {}

    def dump(self, mark: dict[_Key, str]) -> Json:
        """Return what can be named."""
        return [[*key, path] for key, path in sorted(mark.items()) if path]

    def load(self, value: Any) -> list[Unsaved]:
        """Register what is stored and nothing else of the notebook's; return what is not there any more."""
        for mime, table, key, _ in list(_walk()):
            getattr(_formatters()[mime], table).pop(key, None)
        lost = []
        for mime, module, name, path in value:
            function, known = _found("__main__", path), module in sys.modules
            kind = _found(module, name) if known else (module, name)
            if function is None or kind is None or mime not in _formatters():
                lost.append(self._unsaved((mime, module, name), "the function or type is not there any more"))
            else:
                formatter = _formatters()[mime]
                (formatter.type_printers if known else formatter.deferred_printers)[kind] = function
        return lost

    def lost(self, mark: dict[_Key, str]) -> list[Unsaved]:
        """Return what was registered without a name to find it by."""
        reason = "the registered function is no variable of the notebook; run the cell that registers it again"
        return [self._unsaved(key, reason) for key, path in sorted(mark.items()) if not path]

    def _unsaved(self, key: _Key, reason: str) -> Unsaved:
        mime, module, name = key
        return Unsaved(
            name=self.name, path=f"[{mime!r}][{f'{module}.{name}'.strip('.')}]", type="function", reason=reason
        )
