"""How the notebook's own functions show values: what it registered with IPython's display formatters; sympy's printing.

Used by `process`, restored after the variables because it refers to them. What libraries register is theirs to
register again.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.process_held import Held, HeldTracker, Lost, live_shell, mine
from durable_nb.model import Json, Unsaved

__all__ = ["Formatters", "SympyPrinting"]

# Where a formatter keeps its functions: by type, by module and name of a type not imported yet, by attribute.
_TABLES = ("singleton_printers", "type_printers", "deferred_printers")
_BREAK = "\t"


def _formatters() -> Mapping[str, Any]:
    shell = live_shell()
    return {} if shell is None else shell.display_formatter.formatters


def _names(table: str, key: Any) -> tuple[str, str] | None:
    """Return module and name of the type that a table's key stands for; None for a single object."""
    if table == "type_printers" and plainly.is_a(key, type):
        return (plainly.module(key), plainly.qualname(key))
    if table == "deferred_printers" and isinstance(key, tuple):
        return (str(key[0]), str(key[1]))
    return None


def _walk() -> Iterator[tuple[str, str, Any, Any]]:
    """Yield mime type, table, key and function of what the notebook's own functions are registered for."""
    for mime, formatter in _formatters().items():
        for table in _TABLES:
            for key, function in list(getattr(formatter, table, {}).items()):
                if plainly.home(function) == "__main__" or mine(function):
                    yield mime, table, key, function


class _Nameless:
    """A function registered for one object that no name leads to."""


class Formatters(HeldTracker):
    """The functions of the notebook in IPython's display formatters, by mime type and type of value."""

    name = "shell.formatters"
    needs = "IPython.core.formatters"
    advice = "run the cell that registers it again"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._seen: list[dict[Any, Any]] | None = None
        self._found: dict[str, Any] = {}

    def entries(self) -> Mapping[str, Any]:
        now: list[Mapping[Any, Any]] = []
        for formatter in _formatters().values():
            values = formatter._trait_values
            for table in _TABLES:
                # Without asking each trait where it stands.
                now.append(values[table] if table in values else getattr(formatter, table, {}))
        # Equal tables have equal functions for equal types: comparing them costs less than a look at each function.
        if now != self._seen:
            self._seen, self._found = [dict(held) for held in now], self._find()
        return self._found

    def _find(self) -> dict[str, Any]:
        # IPython moves an entry from one table to another when it first shows such a value.
        found: dict[str, Any] = {}
        for mime, table, key, function in _walk():
            names = _names(table, key)
            found[_BREAK.join((mime, *(names or ("", type(key).__name__))))] = function if names else _Nameless()
        return found

    def describe(self, value: Any) -> Json:
        if type(value) is _Nameless:
            raise Lost("it is registered for one object that no name leads to")
        return super().describe(value)

    def load(self, value: Any) -> list[Unsaved]:
        # Before functions without a name were stored, an entry was [mime type, module, name, variable].
        return super().load([[_BREAK.join(e[:3]), ["name", e[3]]] if len(e) == 4 else e for e in value])

    def put(self, key: str, value: Any) -> None:
        mime, module, name = key.split(_BREAK)
        known = module in sys.modules
        kind = _found(module, name) if known else (module, name)
        if kind is None or mime not in _formatters():
            raise Lost("the type or the formatter is not there any more")
        formatter = _formatters()[mime]
        (formatter.type_printers if known else formatter.deferred_printers)[kind] = value

    def drop(self, key: str) -> None:
        for mime, table, at, _ in list(_walk()):
            if _BREAK.join((mime, *(_names(table, at) or ("", type(at).__name__)))) == key:
                getattr(_formatters()[mime], table).pop(at, None)

    def unsaved(self, key: str, kind: str, reason: str) -> Unsaved:
        mime, module, name = key.split(_BREAK)
        path = f"[{mime!r}][{f'{module}.{name}'.strip('.')}]"
        return Unsaved(name=self.name, path=path, type="function", reason=f"{reason}; {self.advice}")


def _found(module: str, path: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


class SympyPrinting:
    """What `sympy.init_printing` set, read from the functions that it registered, as its arguments."""

    name = "sympy.printing"
    needs = "sympy.interactive.printing"

    def mark(self) -> dict[str, Any]:
        """Return the arguments; nothing if it was never called."""
        formatters = _formatters()
        if not formatters:
            return {}
        plain = formatters["text/plain"].type_printers.get(float)
        if getattr(plain, "__module__", None) != self.needs:
            return {}
        settings = sys.modules["sympy.printing.printer"].Printer._global_settings
        png, latex, svg = (
            _closure(formatters[mime].type_printers.get(list)) for mime in ("image/png", "text/latex", "image/svg+xml")
        )
        held, seen = {**png, **svg, **latex}, _closure(plain)
        kind = getattr(formatters["image/png"].type_printers.get(list), "__name__", "")
        use: Any = True if png and latex else "mathjax" if latex else "svg" if svg else bool(png) and "png"
        found = {
            "use_latex": "matplotlib" if kind.endswith("matplotlib") else use,
            "pretty_print": getattr(seen.get("stringify_func"), "__name__", "pretty") != "sstrrepr",
            "latex_mode": held.get("latex_mode", "plain"),
            "print_builtin": _closure(seen.get("_can_print")).get("print_builtin", True),
            **{k: settings.get(k) for k in ("order", "use_unicode", "wrap_line", "num_columns")},
        }
        preview = _closure(held.get("_preview_wrapper"))
        found.update({k: preview[k] for k in ("euler", "fontsize") if k in preview})
        if "dvioptions" in preview:
            _, _, _, size, _, back, _, fore, *_ = preview["dvioptions"]
            found.update(scale=int(size) / 150, backcolor=back, forecolor=fore)
        return {**found, **{k: v for k, v in held.get("settings", {}).items() if isinstance(v, str | int | float)}}

    def base(self, mark: Any) -> Any:
        """Return the untouched state: never called."""
        return {}

    def dump(self, mark: Any) -> Json:
        """Return the arguments."""
        return mark

    def lost(self, mark: Any) -> list[Unsaved]:
        """Return the functions of the notebook that print in sympy's stead."""
        if not mark:
            return []
        formatters = _formatters()
        held = _closure(formatters["text/latex"].type_printers.get(list)).get("latex")
        printers = (_closure(formatters["text/plain"].type_printers.get(float)).get("stringify_func"), held)
        reason = "a printer of the notebook's own is not stored; run the cell with init_printing again"
        return [Unsaved(name=self.name, path="", type="function", reason=reason) for p in printers if mine(p)]

    def load(self, value: Any) -> list[Unsaved]:
        """Call `init_printing` with the arguments."""
        if value:
            sys.modules["sympy"].init_printing(**value)
        return []


def _closure(function: Any) -> dict[str, Any]:
    """Return what a function of sympy's was made with."""
    code = getattr(function, "__code__", None)
    if code is None or not function.__closure__:
        return {}
    return {n: c.cell_contents for n, c in zip(code.co_freevars, function.__closure__, strict=True)}
