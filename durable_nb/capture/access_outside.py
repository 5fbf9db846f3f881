"""What a cell reads past its own names: the notebook as a module, and files by functions that no audit event shows.

Called by `access.analyse` only; extends the walk over a cell. Nothing is executed and nothing is imported.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Mapping
from pathlib import PurePath
from types import ModuleType
from typing import Any

from durable_nb.capture import access_rules as rules
from durable_nb.capture import plainly
from durable_nb.capture.access_ast import Flow
from durable_nb.capture.access_cell import ABSENT, Cell
from durable_nb.capture.outside import (
    EVERY_VARIABLE,
    MAIN_REASON,
    METADATA,
    is_environment,
    is_main,
    is_metadata,
    unseen_reader,
)

__all__ = ["OutsideCell"]


def _main_names(tree: ast.AST) -> frozenset[str]:
    imports = (alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names)
    return frozenset(alias.asname or alias.name for alias in imports if alias.name == "__main__")


class OutsideCell(Cell):
    """The walk over one cell's own code, with what its calls and attributes reach outside the namespace."""

    def __init__(self, namespace: Mapping[str, object], tree: ast.Module, source: str = "") -> None:
        super().__init__(namespace, tree, source)
        # Wherever the import stands: in a function it binds a local name, which means the same module.
        self._mains = _main_names(tree)

    # -- the notebook as a module --------------------------------------------------------------------------------

    def _is_main(self, name: str) -> bool:
        if name in self._mains:
            return True
        return not self.is_local(name) and name not in self.stores and is_main(self.namespace.get(name))

    def _everything(self) -> None:
        self.use.everything.append(MAIN_REASON)

    def _main_attribute(self, name: str) -> None:
        """Note what `__main__.name` reads: the notebook's name, whatever a function calls its own variables."""
        if name.startswith("__"):
            self._everything()
        elif self.in_function or name not in self.known:
            self.use.loads.add(name)
            self.use.absence = True

    def load(self, name: str) -> None:
        if self._is_main(name):
            # As a whole it can be asked for any name.
            self._everything()
            return
        if self._is_environment(ast.Name(id=name, ctx=ast.Load())):
            # Handed on as a whole, it can be asked for any variable.
            self.use.environ.add(EVERY_VARIABLE)
            Flow.load(self, name)
            return
        if is_metadata(self._means(ast.Name(id=name, ctx=ast.Load()))):
            self.use.unknown.add(METADATA)
        super().load(name)
        if not self.is_local(name) or name in self.imported:
            self._note_object(ast.Name(id=name, ctx=ast.Load()))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802
        if node.module != "__main__" or node.level:
            super().visit_ImportFrom(node)
            if any(alias.name == "*" for alias in node.names):
                self._note_star(node.module or "")
            return
        for alias in node.names:
            if alias.name == "*":
                self._everything()
                continue
            self._main_attribute(alias.name)
            self.store(alias.asname or alias.name)

    def _note_star(self, module: str) -> None:
        loaded = sys.modules.get(module)
        for name in self.star_names(module) if plainly.is_a(loaded, ModuleType) else ():
            value = vars(loaded).get(name)
            if is_environment(value) or is_metadata(value) or unseen_reader(value):
                self.imported[name] = (module, name)

    def _means(self, node: ast.expr) -> Any:
        """Resolve like `value_of`, also a name that an import in a function of this cell binds there."""
        if isinstance(node, ast.Attribute):
            owner = self._means(node.value)
            return vars(owner).get(node.attr, ABSENT) if issubclass(type(owner), ModuleType) else ABSENT
        if isinstance(node, ast.Name) and node.id in self.imported:
            module, name = self.imported[node.id]
            loaded = sys.modules.get(module, ABSENT)
            if not name or not issubclass(type(loaded), ModuleType):
                return loaded
            return sys.modules.get(f"{module}.{name}", vars(loaded).get(name, ABSENT))
        return self.value_of(node)

    # -- attributes, subscripts and calls ------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802
        if isinstance(node.value, ast.Name) and self._is_main(node.value.id):
            if isinstance(node.ctx, ast.Load):
                self._main_attribute(node.attr)
            else:
                self.use.writes.add(node.attr)
            return
        if self._is_sys_modules(node):
            self._everything()
            self._owner(node)
            return
        if self._is_environment(node):
            self.use.environ.add(EVERY_VARIABLE)
            self._owner(node)
            return
        self._note_object(node)
        super().visit_Attribute(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:  # noqa: N802
        if self._is_sys_modules(node.value):
            if isinstance(node.ctx, ast.Load) and not self._names_a_module(node.slice):
                self._everything()
        elif self._is_environment(node.value):
            if isinstance(node.ctx, ast.Load):
                self._note_variable(node.slice)
            self._note_change(node)
        else:
            super().visit_Subscript(node)
            return
        self._owner(node.value)
        self.visit(node.slice)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        if isinstance(node.target, ast.Subscript) and self._is_environment(node.target.value):
            self._note_variable(node.target.slice)
        super().visit_AugAssign(node)

    def visit_Compare(self, node: ast.Compare) -> None:  # noqa: N802
        asked, is_in = node.comparators[0], isinstance(node.ops[0], (ast.In, ast.NotIn))
        if is_in and (self._is_sys_modules(asked) or self._is_environment(asked)):
            if self._is_environment(asked):
                self._note_variable(node.left)
            self._owner(asked)
            self._all([node.left, *node.comparators[1:]])
            return
        super().visit_Compare(node)

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802
        function = node.func
        owner = function.value if isinstance(function, ast.Attribute) else function
        if isinstance(function, ast.Attribute) and self._is_sys_modules(owner) and node.args:
            if function.attr not in rules.ENVIRONMENT_LOOKUPS or not self._names_a_module(node.args[0]):
                self._everything()
        elif self._is_environment(function):
            self._note_variable(node.args[0] if node.args else node)
            owner = function
        elif isinstance(function, ast.Attribute) and self._is_environment(owner):
            if function.attr in rules.ENVIRONMENT_LOOKUPS and node.args:
                self._note_variable(node.args[0])
            elif function.attr != "update":
                self.use.environ.add(EVERY_VARIABLE)
            self._note_effect_call(node)
        elif is_metadata(self._means(function)):
            self._note_presence(node.args[0] if len(node.args) == 1 else None, function)
            owner = function
        else:
            if isinstance(function, ast.Attribute) and function.attr in rules.METADATA_METHODS:
                self._note_path_method(function)
            super().visit_Call(node)
            return
        self._owner(owner)
        self._all([*node.args, *(k.value for k in node.keywords)])

    def _owner(self, node: ast.expr) -> None:
        """Note the name that `sys.modules` or `os.environ` is reached by, and nothing of what it can be asked."""
        if isinstance(node, ast.Attribute):
            self.visit(node.value)
        elif isinstance(node, ast.Name):
            Flow.load(self, node.id)

    def _is_sys_modules(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            owner = node.value
            if node.attr != "modules" or not isinstance(owner, ast.Name):
                return False
            return owner.id == "sys" or self.imported.get(owner.id) == ("sys", "") or self.value_of(owner) is sys
        return isinstance(node, ast.Name) and self.imported.get(node.id) == ("sys", "modules")

    @staticmethod
    def _names_a_module(node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and node.value != "__main__"

    # -- environment variables -----------------------------------------------------------------------------------

    def _is_environment(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            # By its name too: `os` may be a variable of the function.
            owner = node.value
            spelt = node.attr in rules.ENVIRONMENT and isinstance(owner, ast.Name) and owner.id == "os"
            return spelt or is_environment(self._means(node))
        if not isinstance(node, ast.Name):
            return False
        module, name = self.imported.get(node.id, ("", ""))
        return (module == "os" and name in rules.ENVIRONMENT) or is_environment(self._means(node))

    def _note_variable(self, node: ast.expr) -> None:
        value = node.value if isinstance(node, ast.Constant) else self.value_of(node)
        if type(value) is bytes:
            value = os.fsdecode(value)
        self.use.environ.add(value if type(value) is str else EVERY_VARIABLE)

    # -- questions about files -----------------------------------------------------------------------------------

    def _note_presence(self, path: ast.expr | None, function: ast.expr) -> None:
        """Note which path is asked for, as far as that is in the code or in the namespace."""
        name = function.attr if isinstance(function, ast.Attribute) else self._means(function).__name__
        text = self._path(path) if path is not None and name in rules.PRESENCE else None
        if text is None:
            self.use.unknown.add(METADATA)
        else:
            self.use.present.add(text)

    def _note_path_method(self, function: ast.Attribute) -> None:
        value = self.value_of(function.value)
        is_other = value is not ABSENT and not issubclass(type(value), PurePath)
        if not is_other or (plainly.is_a(value, type) and issubclass(value, PurePath)):
            self._note_presence(function.value, function)

    def _path(self, node: ast.expr, depth: int = 0) -> str | None:
        """Return the path that an expression of constants and of names with known values gives."""
        value = node.value if isinstance(node, ast.Constant) else self.value_of(node)
        if type(value) is str or issubclass(type(value), PurePath):
            return str(value)
        parts: list[ast.expr] = []
        if isinstance(node, ast.Name) and node.id in self.stores and not self.is_local(node.id) and depth < 3:
            parts = self._assigned().get(node.id, [])
            return self._path(parts[0], depth + 1) if len(parts) == 1 else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Call) and not node.keywords and node.args:
            made = self.value_of(node.func)
            if made is os.path.join or (plainly.is_a(made, type) and issubclass(made, PurePath)):
                parts = node.args
        texts = [self._path(part, depth + 1) for part in parts] if depth < 5 else []
        known = [text for text in texts if text is not None]
        return os.path.join(*known) if known and len(known) == len(texts) else None

    # -- files that are read unseen ------------------------------------------------------------------------------

    def _note_object(self, node: ast.expr) -> None:
        if name := unseen_reader(self._means(node)):
            self.use.unknown.add(f"{name} may read files unseen")
