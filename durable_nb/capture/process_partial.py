"""What a value leaves behind when it comes back: callbacks of figures, graphs of tensors.

Used by `process`. The values themselves are stored and restored; these losses are named so that none is silent.
"""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from durable_nb.model import Unsaved

__all__ = ["DefaultConnection", "partial_losses"]


def partial_losses(namespace: Mapping[str, Any], kinds: Iterable[type]) -> list[Unsaved]:
    """Return what the variables of `namespace` lose although they are stored; does not look inside them.

    `kinds` are the types that they are of: for most there is nothing to lose, however many there are.
    """
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    found: list[Unsaved] = []
    lossy = tuple(kind for kind in (figure, tensor, memoryview) if kind is not None)
    if not any(issubclass(kind, lossy) for kind in kinds):
        return found
    for name, value in list(namespace.items()):
        if figure is not None and issubclass(type(value), figure) and any(_user_callbacks(value)):
            reason = "functions connected to the figure's events are not stored; connect them again in a cell"
            found.append(Unsaved(name=name, path=".canvas.callbacks", type="CallbackRegistry", reason=reason))
        elif tensor is not None and issubclass(type(value), tensor) and value.grad_fn is not None:
            reason = "the value is stored without the graph that computed it; backward() on it needs a new computation"
            found.append(Unsaved(name=name, path=".grad_fn", type=type(value.grad_fn).__name__, reason=reason))
        elif type(value) is memoryview:
            # Whoever has handed the address of a view to C code has to know; nobody else misses anything.
            reason = (
                "a view made again: it sees the same memory, but an address in it that C code holds is not followed"
            )
            found.append(Unsaved(name=name, path=".address", type="memoryview", reason=reason))
    return found


def _user_callbacks(figure: Any) -> Iterator[Any]:
    for connected in figure.canvas.callbacks.callbacks.values():
        for reference in connected.values():
            callback = reference()
            owner = getattr(callback, "__self__", None)
            module = (type(owner) if owner is not None else callback).__module__ or ""
            if callback is not None and module.partition(".")[0] not in {
                "matplotlib",
                "matplotlib_inline",
                "mpl_toolkits",
            }:
                yield callback


_MAKES = re.compile(r"\b(create|insert|attach|use|set|pragma|install|load|update|delete|import)\b", re.IGNORECASE)


class DefaultConnection:
    """What cells put into duckdb's default connection, which lives in memory and is nobody's variable. Named only."""

    def __init__(self) -> None:
        self._used = False

    def note(self, nodes: Iterable[ast.AST]) -> None:
        """Learn whether a cell changes anything there, by the words of its SQL and the functions it calls."""
        module = sys.modules.get("duckdb")
        for node in nodes:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            called, owner = node.func.attr, node.func.value
            if not (isinstance(owner, ast.Name) and _leads_to(owner.id, "duckdb", module)):
                continue
            texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            wrote = called in ("sql", "execute", "query") and any(_MAKES.search(text) for text in texts)
            self._used = self._used or wrote or called in ("register", "create_function", "load_extension")

    def reported(self) -> list[Unsaved]:
        """Return the report, if there is something to lose."""
        if not self._used:
            return []
        reason = "duckdb's default connection is in memory; keep the data in a file, or run the cell again"
        return [
            Unsaved(name="duckdb.default_connection", path="", type="DuckDBPyConnection", reason=reason),
        ]


def _leads_to(name: str, usual: str, module: types.ModuleType | None) -> bool:
    live = vars(sys.modules["__main__"]).get(name)
    return name == usual if live is None else live is module
