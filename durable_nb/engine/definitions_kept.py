"""Which definitions of a cell that runs again stay the live ones instead of being made a second time.

Called by `recomputing`. An object that is made again has to be an instance of the class that the notebook has, not of
a twin; so a `class` or `def` whose live object is the one that this very cell had made is not run again.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_nb.engine.missing import Maker
    from durable_nb.engine.session import Engine

__all__ = ["definitions_to_keep"]

# Decorators of these modules make a definition and do nothing else; any other may register it somewhere.
_PURE = frozenset({"abc", "contextlib", "dataclasses", "enum", "functools", "typing"})


def definitions_to_keep(engine: Engine, maker: Maker) -> dict[str, Any]:
    """Return the live functions and classes that the attempt had made and that its cell need not make again."""
    record, head = maker.record, engine.head
    if head is None:
        return {}
    after = engine.workflow.manifest(record.checkpoint_id)
    tree = ast.parse(engine.shell.transform(maker.attempt.source))
    bound = Counter(_bound(tree))
    kept: dict[str, Any] = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        name = node.name
        if (
            bound[name] == 1
            and name in record.changed
            and name in after.names
            and name in head.names
            and head.names[name].version == after.names[name].version
            and engine.capture.is_at(name, head.names[name].version)
            and all(_is_pure(d, engine.shell.namespace) for d in node.decorator_list)
        ):
            kept[name] = engine.shell.namespace[name]
    return kept


def _bound(tree: ast.Module) -> list[str]:
    """Return every name that is bound or deleted anywhere in the cell, once for each time."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.append(node.id)
        elif isinstance(node, ast.alias):
            found.append(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Global):
            found.extend(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.append(node.name)
    return found


def _is_pure(decorator: ast.expr, namespace: dict[str, Any]) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    while isinstance(node, ast.Attribute):
        node = node.value
    root = namespace.get(node.id) if isinstance(node, ast.Name) else None
    module = getattr(root, "__module__", None) or getattr(root, "__name__", "")
    return module in _PURE
