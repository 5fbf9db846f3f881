"""Modules as state: which ones the user's cells imported, and which attributes of local modules were changed.

Used by `process`. Imports come back as imports. Plain scalars of a local module are set again if its file still says
what it said; everything else that was changed at run time is reported as `module.attribute`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from durable_nb.model import Json, Unsaved

__all__ = ["Imports", "LocalModules", "is_local_module"]

_MAX_NODES = 2000  # of a module global that is compared by value; a larger one is compared by identity
_SCALARS = (type(None), bool, int, float, str)


# What a library imports by itself, late, with an effect on values: this fills sympy's cache of symbols, and a symbol
# that was made before is another object than its namesake made after.
_LATE = ("sympy.physics.units",)


class Imports:
    """Full names of the modules that cells imported, so that `package.module` works after a restore."""

    name = "imports"
    needs = ""

    def __init__(self) -> None:
        self._noted: dict[str, None] = {}
        self._bound: dict[str, tuple[str, str]] = {}
        self._starred: dict[str, None] = {}
        self._files: dict[str, str] = {}
        self._stored: dict[str, str] = {}
        self._foreign = _foreign_folders()

    def note(self, nodes: Iterable[ast.AST]) -> None:
        """Collect what a cell imports, wherever in it."""
        for node in nodes:
            self._noted.update(dict.fromkeys(_imported(node)))
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self._bound.update({a.asname or a.name: (node.module, a.name) for a in node.names if a.name != "*"})
                self._starred.update(dict.fromkeys(node.module for a in node.names if a.name == "*"))

    def references(self, namespace: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """Return {variable: (module, attribute)} of what `from module import attribute` bound and is still the same."""
        found = {}
        for module in self._starred:
            theirs = getattr(sys.modules.get(module), "__dict__", {})
            for name in list(theirs.get("__all__") or theirs):
                if name in namespace and not name.startswith("_") and theirs.get(name, _ABSENT) is namespace[name]:
                    found[name] = (module, name)
        for name, (module, attribute) in self._bound.items():
            value = namespace.get(name, _ABSENT)
            if value is not _ABSENT and getattr(sys.modules.get(module), attribute, None) is value:
                found[name] = (module, attribute)
        return found

    def mark(self) -> dict[str, str]:
        for name in (*self._noted, *_LATE):
            if name not in self._files and isinstance(module := sys.modules.get(name), ModuleType):
                file = getattr(module, "__file__", None)
                self._files[name] = os.path.abspath(str(file)) if _is_local(file, self._foreign) else ""
        return {**self._stored, **{name: file for name, file in self._files.items() if name in sys.modules}}

    def base(self, mark: dict[str, str]) -> Any:
        return {}

    def dump(self, mark: dict[str, str]) -> Json:
        return [[name, file] for name, file in mark.items()]

    def lost(self, mark: dict[str, str]) -> list[Unsaved]:
        return []

    def load(self, value: Any) -> list[Unsaved]:
        problems = []
        for name, file in value:
            self._stored[name] = file
            try:
                _import(name, file)
            except (Exception, SystemExit) as error:  # importing runs foreign code; it must not cost the others
                reason = f"it could not be imported: {type(error).__name__}: {error}"
                problems.append(Unsaved(name=f"import {name}", path="", type="module", reason=reason))
        return problems


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        # `from a import b` may mean the module a.b; whether it does is seen in sys.modules.
        for alias in node.names:
            yield f"{node.module}.{alias.name}"
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in {"import_module", "__import__"} and isinstance(node.args[0].value, str):
            yield node.args[0].value


def _import(name: str, file: str) -> None:
    if name in sys.modules:
        return
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        root = _root(name, file)
        if not root or not os.path.exists(file):
            raise
        # It was imported through a relative search path, before the current folder was changed.
        sys.path.insert(0, root)
        try:
            importlib.invalidate_caches()
            importlib.import_module(name)
        finally:
            sys.path.remove(root)


def _root(name: str, file: str) -> str:
    """Return the folder from which `name` is importable, given its file."""
    if not file:
        return ""
    depth = name.count(".") + (os.path.splitext(os.path.basename(file))[0] == "__init__")
    folder = os.path.dirname(file)
    for _ in range(depth):
        folder = os.path.dirname(folder)
    return folder


def _is_local(file: Any, foreign: tuple[str, ...]) -> bool:
    """Tell whether a module's file is one that its user edits: not of Python, of an installed package, or of ours."""
    if not isinstance(file, str) or not file.endswith(".py"):
        return False
    path = os.path.abspath(file)
    if path.startswith(foreign) or not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep)):
        return False
    # A module that is made by code may carry the bare name of the file that makes it (torch.ops).
    return os.path.isabs(file) or os.path.exists(path)


def is_local_module(name: str) -> bool:
    """Tell whether an imported module is a file that its user edits."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return isinstance(file, str) and _is_local_file(file)


@functools.lru_cache(maxsize=4096)
def _is_local_file(file: str) -> bool:
    return _is_local(file, _foreign_folders())


@functools.cache
def _foreign_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    folders.add(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # our own package is nobody's state
    return tuple(os.path.join(os.path.abspath(folder), "") for folder in sorted(folders))


@dataclass(frozen=True, slots=True)
class _Baseline:
    """What a local module looked like after its import; a reload gives the module a new spec, and so a new baseline."""

    spec: Any
    values: dict[str, Any]


class LocalModules:
    """Attributes of local modules that were changed after the import."""

    name = "modules"
    needs = ""

    def __init__(self) -> None:
        self._foreign = _foreign_folders()
        self._count = -1
        self._local: list[str] = []
        self._baselines: dict[str, _Baseline] = {}
        self._changed: dict[str, dict[str, tuple[Any, Any]]] = {}

    def mark(self) -> dict[str, dict[str, tuple[Any, Any]]]:
        """Return {module: {attribute: (value after import, value now)}}."""
        if len(sys.modules) != self._count:
            self._count = len(sys.modules)
            loaded = list(sys.modules.items())
            self._local = [
                n for n, m in loaded if n != "__main__" and _is_local(getattr(m, "__file__", None), self._foreign)
            ]
        self._changed = {name: diff for name in self._local if (diff := self._diff(name))}
        return self._changed

    def base(self, mark: Any) -> Any:
        return {}

    def dump(self, mark: dict[str, dict[str, tuple[Any, Any]]]) -> Json:
        kept = {m: {a: list(pair) for a, pair in d.items() if _settable(pair)} for m, d in mark.items()}
        return {module: attributes for module, attributes in kept.items() if attributes}

    def lost(self, mark: Any) -> list[Unsaved]:
        return []

    def load(self, value: Any) -> list[Unsaved]:
        problems = []
        for name in value:
            # It may have been imported by another module only; why it cannot be is told below or by its importer.
            with contextlib.suppress(Exception, SystemExit):
                importlib.import_module(name)
        current = self.mark()
        for name in {*value, *current}:
            module, wanted = sys.modules.get(name), value.get(name, {})
            for attribute, (before, after) in wanted.items():
                live = getattr(module, attribute, None)
                found = current.get(name, {}).get(attribute, (live, live))[0]
                if module is not None and type(found) is type(before) and found == before:
                    setattr(module, attribute, after)
                else:
                    reason = f"it was set at run time, but module {name} is not what it was then"
                    problems.append(
                        Unsaved(name=f"{name}.{attribute}", path="", type=type(after).__name__, reason=reason)
                    )
            for attribute, pair in current.get(name, {}).items():
                if attribute not in wanted and _settable(pair):
                    setattr(module, attribute, pair[0])
        return problems

    def reported(self) -> list[Unsaved]:
        """Return the changed attributes that `dump` leaves out."""
        reason = "set or changed at run time in an imported module; a new kernel imports the module as its file says"
        return [
            Unsaved(
                name=f"{module}.{attribute}", path="", type=_type_name(sys.modules[module], attribute), reason=reason
            )
            for module, attributes in self._changed.items()
            for attribute, pair in attributes.items()
            if not _settable(pair) and module in sys.modules
        ]

    def _diff(self, name: str) -> dict[str, tuple[Any, Any]]:
        module = sys.modules.get(name)
        if not isinstance(module, ModuleType) or getattr(getattr(module, "__spec__", None), "_initializing", False):
            return {}
        baseline = self._baselines.get(name)
        spec = getattr(module, "__spec__", None)
        if baseline is None or baseline.spec is not spec:
            values = _values(module)
            values.update(_written(module, values))
            baseline = self._baselines[name] = _Baseline(spec, values)
        before, now = baseline.values, _values(module)
        if before == now:
            return {}
        changed = {}
        for attribute in {*before, *now}:
            pair = (before.get(attribute, _ABSENT), now.get(attribute, _ABSENT))
            submodule = isinstance(getattr(module, attribute, None), ModuleType)  # importing one binds it
            if not submodule and (pair[0] != pair[1] or type(pair[0]) is not type(pair[1])):
                changed[attribute] = pair
        return changed


_ABSENT = ("absent",)


def _values(module: ModuleType) -> dict[str, Any]:
    return {n: _frozen(v) for n, v in list(vars(module).items()) if not (n.startswith("__") and n.endswith("__"))}


def _frozen(value: Any) -> Any:
    """Return what a later value is compared with: scalars as they are, plain containers by content, else identity."""
    if type(value) in _SCALARS:
        return value
    budget = [_MAX_NODES]
    frozen = _content(value, budget, 8)
    return ("is", id(value)) if frozen is None or budget[0] < 0 else frozen


def _content(value: Any, budget: list[int], depth: int) -> Any:
    budget[0] -= 1
    kind = type(value)
    if kind in _SCALARS or kind in (bytes, complex):
        return (kind.__name__, value)
    if budget[0] < 0 or depth == 0 or (kind in (list, tuple, dict, set, frozenset) and len(value) > _MAX_NODES):
        return None
    if kind in (list, tuple):
        return (kind.__name__, id(value), *(_content(v, budget, depth - 1) for v in value))
    if kind is dict:
        items = (_content(v, budget, depth - 1) for pair in value.items() for v in pair)
        return (kind.__name__, id(value), *items)
    if kind in (set, frozenset):
        return (kind.__name__, id(value), len(value), hash(frozenset(value)))
    return ("is", id(value))


def _written(module: ModuleType, values: dict[str, Any]) -> dict[str, Any]:
    """Return the scalars that the module's file assigns once and for all, for a cell that imports and sets at once."""
    try:
        with open(str(module.__file__), encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    assigned: dict[str, list[ast.expr]] = {}
    for statement in tree.body:
        if (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        ):
            assigned.setdefault(statement.targets[0].id, []).append(statement.value)
    names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)]
    shared = {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
    return {
        name: exprs[0].value
        for name, exprs in assigned.items()
        if len(exprs) == 1 and names.count(name) == 1 and name not in shared and name in values
        if isinstance(exprs[0], ast.Constant) and type(exprs[0].value) in _SCALARS
    }


def _settable(pair: tuple[Any, Any]) -> bool:
    return all(type(v) in _SCALARS and not (type(v) is int and abs(v) > 2**53) for v in pair)


def _type_name(module: ModuleType, attribute: str) -> str:
    return type(getattr(module, attribute, None)).__name__
