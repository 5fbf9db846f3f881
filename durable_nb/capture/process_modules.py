"""Modules as state: which ones the user's cells imported, and which attributes of local modules were changed.

Used by `process`. Imports come back as imports. Plain scalars of a local module are set again if its file still says
what it said; everything else that was changed at run time is reported as `module.attribute`, and so are attributes of
its classes: a cell that changes a module runs again, and must find it as the import makes it.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from durable_nb.capture import module_values, plainly
from durable_nb.capture.local_imports import watch_imports
from durable_nb.capture.module_outline import Outline
from durable_nb.capture.module_values import ABSENT as _ABSENT
from durable_nb.model import Json, Unsaved
from durable_nb.resources import uncollected

__all__ = ["Imports", "LocalModules", "is_local_module"]

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

    def noted(self, module: str) -> bool:
        """Tell whether a cell imports a module by its name, so that a restore imports it, too."""
        return module in self._noted

    def references(self, namespace: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """Return {variable: (module, attribute)} of what `from module import attribute` bound and is still the same."""
        found = {}
        for module in self._starred:
            theirs = plainly.own_dict(sys.modules.get(module)) or {}
            for name in list(theirs.get("__all__") or theirs):
                if name in namespace and not name.startswith("_") and theirs.get(name, _ABSENT) is namespace[name]:
                    found[name] = (module, name)
        for name, (module, attribute) in self._bound.items():
            value = namespace.get(name, _ABSENT)
            if value is not _ABSENT and _gives(sys.modules.get(module), attribute, value):
                found[name] = (module, attribute)
        return found

    def mark(self) -> dict[str, str]:
        for name in (*self._noted, *_LATE):
            if name not in self._files and plainly.is_a(module := sys.modules.get(name), ModuleType):
                file = _file_of(module)
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
            # The collector would go through all that a large library makes, again and again; the person's own modules
            # may have a use for it.
            held = contextlib.nullcontext() if file else uncollected()
            try:
                with held:
                    _import(name, file)
            except (Exception, SystemExit) as error:  # importing runs foreign code; it must not cost the others
                reason = f"it could not be imported: {type(error).__name__}: {error}"
                problems.append(Unsaved(name=f"import {name}", path="", type="module", reason=reason))
        return problems


def _gives(module: Any, attribute: str, value: object) -> bool:
    """Tell whether a module still gives a value under a name; its own `__getattr__` is asked if it has to be."""
    try:
        return getattr(module, attribute, None) is value
    except Exception:  # what it does is the user's
        return False


def _file_of(module: Any) -> Any:
    """Return the `__file__` of what is in `sys.modules`; a module is not asked: a lazy one would be loaded."""
    held = vars(module) if type(module) is ModuleType else plainly.own_dict(module) or {}
    if "__file__" in held or module is None or plainly.is_a(module, ModuleType):
        return held.get("__file__")
    try:
        return getattr(module, "__file__", None)
    except Exception:  # anything may be registered as a module
        return None


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
    if file.startswith(foreign) and ".." not in file:
        return False  # as nearly all are, and to make a thousand paths absolute takes ten milliseconds
    path = os.path.abspath(file)
    if path.startswith(foreign) or not {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep)):
        return False
    # A module that is made by code may carry the bare name of the file that makes it (torch.ops).
    return os.path.isabs(file) or os.path.exists(path)


def is_local_module(name: str) -> bool:
    """Tell whether an imported module is a file that its user edits."""
    file = _file_of(sys.modules.get(name))
    return type(file) is str and _is_local_file(file)


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
    owned: tuple[str, ...]  # what every import makes alike, as far as can be told


class LocalModules:
    """Attributes of local modules and of their classes that were changed after the import."""

    name = "modules"
    needs = ""

    def __init__(self, noted: Callable[[str], bool] = lambda module: False) -> None:
        """`noted` tells whether a restore imports a module because a cell did."""
        self._noted = noted
        self._foreign = _foreign_folders()
        self._count = -1
        self._local: list[str] = []
        self._baselines: dict[str, _Baseline] = {}
        self._changed: dict[str, dict[str, tuple[Any, Any]]] = {}
        # By module, of the last look at it: its baseline, all there is to compare, and what was found.
        self._outlines: dict[str, tuple[_Baseline, Outline, dict[str, tuple[Any, Any]]]] = {}
        self._unknown: dict[str, str] = {}  # modules that could not be looked at, with the reason
        watch_imports(self)

    # --- imports, told by `local_imports` -----------------------------------------------------------------------------

    def is_local(self, file: str) -> bool:
        return _is_local(file, self._foreign)

    def import_begins(self) -> dict[str, dict[str, tuple[Any, Any]]]:
        return {name: self._diff(name) for name in list(self._baselines) if name in sys.modules}

    def import_ends(self, before: dict[str, dict[str, tuple[Any, Any]]], modules: Sequence[ModuleType]) -> None:
        ran = set()
        for module in modules:
            name = vars(module).get("__name__")
            if type(name) is not str or sys.modules.get(name) is not module:
                continue
            ran.add(name)
            # Where that fails the next look says so; the import is the user's, and goes on.
            self._baselines.pop(name, None)
            with contextlib.suppress(Exception):
                self._baselines[name] = _baseline(module, {})
        # What a module registers in another one while it is imported is there after the import of a restore.
        if not any(self._noted(name) for name in ran):
            return
        for name, changed in before.items():
            if name not in ran and (fresh := self._diff(name).keys() - changed.keys()):
                now = module_values.values(sys.modules[name])
                values = self._baselines[name].values
                values.update({n: now[n] for n in fresh if n in now})
                self._outlines.pop(name, None)

    def mark(self) -> dict[str, dict[str, tuple[Any, Any]]]:
        """Return {module: {attribute: (value after import, value now)}}."""
        self._changed = {name: diff for name in self._locals() if (diff := self._diff(name))}
        return self._changed

    def changed(self, module: str) -> Mapping[str, tuple[Any, Any]]:
        """Return {attribute: (value after import, value now)} of a module; nothing of one that is not local."""
        return self._diff(module) if module in self._baselines or is_local_module(module) else {}

    def _locals(self) -> list[str]:
        if len(sys.modules) != self._count:
            self._count = len(sys.modules)
            loaded = list(sys.modules.items())
            self._local = [
                n for n, m in loaded if n != "__main__" and type(file := _file_of(m)) is str and _is_local_file(file)
            ]
        return self._local

    def objects(self) -> list[tuple[object, str, str, str]]:
        """Return what belongs to a module and is as its import made it: the object, module, attribute, and no variable.

        These are containers that an import makes alike, and instances of the package's own classes of which a look
        sees every change. Whoever holds one of them goes on holding the module's: a copy would not be in use.
        """
        found = []
        for name in self._locals():
            if name in sys.modules and (baseline := self._baselines.get(name)) is not None:
                space = vars(sys.modules[name])
                for attribute in baseline.owned:
                    value = space.get(attribute)
                    if module_values.frozen(value, name) == baseline.values[attribute]:
                        found.append((value, name, attribute, ""))
        return found

    def base(self, mark: Any) -> Any:
        return {}

    def dump(self, mark: dict[str, dict[str, tuple[Any, Any]]]) -> Json:
        kept = {m: {a: list(pair) for a, pair in d.items() if module_values.settable(pair)} for m, d in mark.items()}
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
                if attribute not in wanted and module_values.settable(pair):
                    setattr(module, attribute, pair[0])
        return problems

    def reported(self) -> list[Unsaved]:
        """Return the changed attributes that `dump` leaves out."""
        reason = (
            "set or changed at run time in an imported module; a new kernel imports the module as its file says, and "
            "variables that were the same object come back as copies"
        )
        return [
            Unsaved(
                name=f"{module}.{attribute}",
                path="",
                type=type(module_values.find(sys.modules[module], attribute)).__name__,
                reason=reason,
            )
            for module, attributes in self._changed.items()
            for attribute, pair in attributes.items()
            if module in sys.modules and not module_values.settable(pair)
        ] + [
            Unsaved(
                name=name,
                path="",
                type="module",
                reason=f"it cannot be looked at ({why}): what cells change in it is not kept, and not known",
            )
            for name, why in self._unknown.items()
            if name in sys.modules
        ]

    def _diff(self, name: str) -> dict[str, tuple[Any, Any]]:
        module = sys.modules.get(name)
        if not issubclass(type(module), ModuleType):
            return {}
        try:
            changed = self._look(name, module)  # type: ignore[arg-type]
        except Exception as error:  # what is in a module is the user's, down to the names of its attributes
            self._unknown[name] = type(error).__name__
            return {}
        self._unknown.pop(name, None)
        return changed

    def _look(self, name: str, module: ModuleType) -> dict[str, tuple[Any, Any]]:
        spec = vars(module).get("__spec__")
        if getattr(spec, "_initializing", False):
            return {}
        baseline = self._baselines.get(name)
        if baseline is None or baseline.spec is not spec:
            # It was imported unseen, before or by other means: what its file says is the best that is known.
            baseline = self._baselines[name] = _baseline(module, module_values.written(module))
        baseline_seen, outline, changed = self._outlines.get(name, (None, None, {}))
        if outline is not None and baseline_seen is baseline and outline.is_still():
            return changed
        outline = Outline(module)  # before the look: what changes meanwhile is a reason for another
        changed = _differing(module, baseline.values)
        self._outlines[name] = (baseline, outline, changed)
        return changed


def _differing(module: ModuleType, before: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    now = module_values.values(module)
    if before == now:
        return {}
    changed = {}
    for attribute in {*before, *now}:
        pair = (before.get(attribute, _ABSENT), now.get(attribute, _ABSENT))
        submodule = plainly.is_a(module_values.find(module, attribute), ModuleType)  # importing one binds it
        if not submodule and (pair[0] != pair[1] or type(pair[0]) is not type(pair[1])):
            changed[attribute] = pair
    return changed


def _baseline(module: ModuleType, written: Mapping[str, Any]) -> _Baseline:
    values = {**module_values.values(module), **written}
    space = list(vars(module).items())
    whole = (n for n, v in space if n in values and module_values.is_seen_whole(v, module.__name__))
    return _Baseline(vars(module).get("__spec__"), values, (*module_values.alike(module), *whole))
