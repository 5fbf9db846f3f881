"""What cells change in modules, classes and functions that are not theirs: attributes, dispatch, accessors.

Used by `process`. A cell that does such a thing spells the place; what is there after the cell is compared with what
was there before. Additions and plain values come back, replaced and deleted attributes are reported by name: put back
by themselves, a wrapper would wrap itself when its cell runs again.
"""

from __future__ import annotations

import abc
import ast
import functools
import inspect
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.module_values import plain_type
from durable_nb.capture.process_held import Held, HeldTracker, Lost, mine
from durable_nb.capture.process_modules import is_local_module
from durable_nb.model import Json, Unsaved

__all__ = ["Accessors", "Patches", "Registrations"]

_ABSENT: Any = type("_Absent", (), {"__slots__": ()})()
_PLAIN = frozenset({bool, int, float, str, type(None)})
# Other components know what these modules have by themselves; what a cell adds to them, they do not.
_ELSEWHERE = frozenset({"sys", "os", "warnings", "threading", "logging", "matplotlib"})
_FUNCTIONS = (types.FunctionType, functools._lru_cache_wrapper)
_OF_FUNCTION = frozenset({"__code__", "__defaults__", "__kwdefaults__"})  # no function's own dictionary has them


@dataclass(slots=True)
class _Place:
    """One attribute of a module, class or function that a cell talks about, and what it was before."""

    owner: Any
    attribute: str
    before: Any = _ABSENT
    known: bool = False  # whether `before` was looked at before the cell ran
    looked_up: bool = False
    defined: bool | None = None  # whether the source of the owner binds it, once that was looked up


def _targets(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, str]]:
    """Yield (expression of the owner, attribute) of every attribute that a cell assigns or deletes."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.value, node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2:
            named = node.args[1]
            if node.func.id in ("setattr", "delattr") and isinstance(named, ast.Constant) and type(named.value) is str:
                yield node.args[0], named.value


def _imported(nodes: Iterable[ast.AST]) -> dict[str, Any]:
    """Return what the imports of a cell are going to bind, as far as it is loaded already."""
    found: dict[str, Any] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                if name in sys.modules:
                    found[alias.asname or name] = sys.modules[name]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module in sys.modules:
            inside = vars(sys.modules[node.module])
            found.update({a.asname or a.name: inside[a.name] for a in node.names if a.name in inside})
    return found


def _resolve(node: ast.expr, namespace: Mapping[str, Any]) -> Any:
    """Return what names lead to through attributes of modules and classes; nothing of the user's runs."""
    if isinstance(node, ast.Name):
        return namespace.get(node.id, _ABSENT)
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, namespace)
        if plainly.is_a(owner, type | types.ModuleType):
            found = inspect.getattr_static(owner, node.attr, _ABSENT)
            return found.__func__ if plainly.is_a(found, staticmethod | classmethod) else found
    return _ABSENT


def _path(owner: Any) -> str:
    if plainly.is_a(owner, types.ModuleType):
        return str(owner.__name__)
    if plainly.is_a(owner, type):
        return f"{plainly.module(owner)}.{plainly.qualname(owner)}"
    return f"{owner.__module__}.{owner.__qualname__}"


def _foreign(owner: Any) -> bool:
    """Tell whether an owner is a module, class or function that neither the notebook nor a local file makes."""
    if plainly.is_a(owner, types.ModuleType):
        name = owner.__name__
    elif plainly.is_a(owner, type):
        name = plainly.module(owner)
        if plainly.has(owner, "class_traits"):
            return False  # options of IPython and its like
    elif plainly.is_a(owner, _FUNCTIONS):
        if not isinstance(name := owner.__module__, str) or not _is_at_its_path(owner, name):
            return False
    else:
        return False
    inside = sys.modules.get(name)
    if name in ("builtins", "__main__") or inside is None or is_local_module(name):
        return False
    return not name.startswith("torch.backends") and (not plainly.is_a(owner, types.ModuleType) or inside is owner)


def _is_at_its_path(function: Any, module: str) -> bool:
    """Tell whether a new kernel finds this function where it says that it is."""
    found: Any = sys.modules.get(module)
    for part in function.__qualname__.split("."):
        held = plainly.members(found) if plainly.is_a(found, type) else plainly.own_dict(found) or {}
        found = held.get(part)
    return function is (found.__func__ if plainly.is_a(found, staticmethod | classmethod) else found)


def _now(owner: Any, attribute: str) -> Any:
    if attribute in _OF_FUNCTION and type(owner) is types.FunctionType:
        return getattr(owner, attribute)
    held = plainly.members(owner) if plainly.is_a(owner, type) else vars(owner)
    return held.get(attribute, _ABSENT)


class Patches(HeldTracker):
    """Attributes of foreign modules and classes that cells have set."""

    name = "patches"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._places: dict[str, _Place] = {}
        self._pending: list[tuple[ast.expr, str]] = []

    def note(self, nodes: Iterable[ast.AST], *, ran: bool) -> None:
        """Learn from a cell which attributes it sets, and what they are now unless it has run already."""
        nodes = list(nodes)
        targets = list(_targets(nodes))
        # What the cell itself imports, and another has imported before, can be looked at now.
        known = {**self.held.namespace, **_imported(nodes)} if targets else {}
        for node, attribute in targets:
            owner = _resolve(node, known)
            if owner is _ABSENT:
                self._pending.append((node, attribute))
            else:
                self._add(owner, attribute, known=not ran)

    def _add(self, owner: Any, attribute: str, *, known: bool) -> None:
        if not _foreign(owner):
            return
        key = f"{_path(owner)}.{attribute}"
        if key not in self._places:
            now = _now(owner, attribute)
            self._places[key] = _Place(owner, attribute, before=now if known else _ABSENT, known=known)

    def entries(self) -> Mapping[str, Any]:
        pending, self._pending = self._pending, []
        for node, attribute in pending:
            self._add(_resolve(node, self.held.namespace), attribute, known=False)
        if not self._places:
            return {}
        return {key: place for key, place in self._places.items() if self._changed(place)}

    def _changed(self, place: _Place) -> bool:
        now = _now(place.owner, place.attribute)
        if plainly.is_a(now, types.ModuleType):
            return False
        if isinstance(place.owner, types.ModuleType) and place.owner.__name__ in _ELSEWHERE and not _added(place):
            return False
        if place.known:
            return now is not place.before and not (plain_type(now) in _PLAIN and now == place.before)
        if place.attribute in _OF_FUNCTION and isinstance(place.owner, types.FunctionType):
            return True  # the cell that set it imported it, too
        # The module was imported by the same cell: what is its own is as its file says.
        return _defined(place) is not False if now is _ABSENT else not _at_home(now, place.owner)

    def describe(self, value: _Place) -> Json:
        now = _now(value.owner, value.attribute)
        if now is _ABSENT:
            raise Lost("a cell deleted it; a new kernel has it again")
        if value.attribute in _OF_FUNCTION or (plain_type(now) not in _PLAIN and not _added(value)):
            raise Lost("a cell replaced it at run time; a new kernel has the library's own again")
        if plainly.is_a(now, staticmethod | classmethod):
            return [type(now).__name__, self.held.describe(now.__func__)]
        if type(now) is property:
            return ["property", *(self.held.describe(f) for f in (now.fget, now.fset, now.fdel, now.__doc__))]
        return self.held.describe(now)

    def make(self, code: Json) -> Any:
        kind, *rest = code
        wrappers: dict[str, Any] = {"staticmethod": staticmethod, "classmethod": classmethod, "property": property}
        if kind in wrappers:
            return wrappers[kind](*(self.held.make(part) for part in rest))
        return self.held.make(code)

    def put(self, key: str, value: Any) -> None:
        owner, attribute = _owner(key)
        self._add(owner, attribute, known=True)
        if _now(owner, attribute) is not value:
            setattr(owner, attribute, value)

    def drop(self, key: str) -> None:
        place = self._places[key]
        if not place.known:
            return
        if place.before is not _ABSENT:
            setattr(place.owner, place.attribute, place.before)
        elif place.attribute in vars(place.owner):
            delattr(place.owner, place.attribute)

    def unsaved(self, key: str, kind: str, reason: str) -> Unsaved:
        if kind == "_Place":
            place = self._places[key]
            now = _now(place.owner, place.attribute)
            kind = type(None if now is _ABSENT else now).__name__
        return Unsaved(name=key, path="", type=kind, reason=f"{reason}; {self.advice}")


def _owner(key: str) -> tuple[Any, str]:
    """Return the module, class or function of a key, imported if need be, and the attribute."""
    *parts, attribute = key.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        try:
            __import__(name)
        except ImportError:
            continue
        owner: Any = sys.modules[name]
        for part in parts[count:]:
            owner = vars(owner)[part]
            owner = owner.__func__ if isinstance(owner, staticmethod | classmethod) else owner
        return owner, attribute
    raise Lost(f"{'.'.join(parts)} is not there any more")


def _added(place: _Place) -> bool:
    """Tell whether the attribute was not there before the cell."""
    if place.known:
        return place.before is _ABSENT
    return _defined(place) is False


def _defined(place: _Place) -> bool | None:
    """Tell whether the source of the module or class binds the attribute; None if there is no source to read."""
    if not place.looked_up:
        place.looked_up = True
        try:
            function = isinstance(place.owner, _FUNCTIONS)  # what a module sets on its function stands below it
            source = inspect.getsource(sys.modules[place.owner.__module__] if function else place.owner)
        except (OSError, TypeError):
            source = _source_around(place.owner)
        place.defined = _binds(source, place.attribute) if source else None
    return place.defined


def _binds(source: str, name: str) -> bool:
    """Tell whether code binds a name or sets an attribute of that name; code that cannot be read may."""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound = node.name
        elif isinstance(node, ast.Name):
            bound = node.id
        elif isinstance(node, ast.Attribute):
            bound = node.attr
        elif isinstance(node, ast.alias):
            bound = node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.Constant) and type(node.value) is str:
            bound = node.value  # setattr(owner, "name", …)
        else:
            continue
        if bound == name or bound == "*":
            return True
    return False


def _source_around(owner: Any) -> str:
    """Return the source of the module that a class was written in when the class names another as its own."""
    for value in vars(owner).values():
        if isinstance(value, types.FunctionType) and value.__qualname__.startswith(f"{owner.__qualname__}."):
            try:
                return inspect.getsource(sys.modules[value.__module__])
            except (OSError, TypeError, KeyError):
                continue
    return ""


def _at_home(value: Any, owner: Any) -> bool:
    """Tell whether a value is of the package that its owner is of."""
    wrapped: Any = value.__func__ if plainly.is_a(value, staticmethod | classmethod) else value
    wrapped = wrapped.fget if type(wrapped) is property else wrapped
    if mine(value) or mine(wrapped) or plain_type(value) in _PLAIN:
        return False
    module = plainly.home(wrapped)
    theirs = owner.__name__ if isinstance(owner, types.ModuleType) else plainly.home(owner)
    return module == "" or module.partition(".")[0] == theirs.partition(".")[0]


class Registrations(HeldTracker):
    """What the notebook registered with abstract classes and `singledispatch` functions of libraries."""

    name = "registrations"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._owners: dict[int, Any] = {}
        self._pending: list[ast.expr] = []

    def note(self, nodes: Iterable[ast.AST]) -> None:
        """Learn whose `register` a cell mentions."""
        self._pending += [n.value for n in nodes if isinstance(n, ast.Attribute) and n.attr == "register"]

    def entries(self) -> Mapping[str, Any]:
        pending, self._pending = self._pending, []
        for node in pending:
            owner = _resolve(node, self.held.namespace)
            # Not asked: it may be anything with a `register`, a proxy that works out what it stands for among others.
            dispatches = type(owner) is types.FunctionType and "dispatch" in vars(owner)
            if (plainly.is_a(owner, abc.ABCMeta) or dispatches) and not mine(owner):
                self._owners[id(owner)] = owner
        found: dict[str, Any] = {}
        for owner in self._owners.values():
            if isinstance(owner, abc.ABCMeta):
                references = abc._get_dump(owner)[0]  # type: ignore[attr-defined]
                entries: list[tuple[Any, ...]] = [
                    (owner, kind) for reference in references if mine(kind := reference())
                ]
            else:
                entries = [(owner, kind, f) for kind, f in owner.registry.items() if mine(kind) or mine(f)]
            for entry in entries:
                kind = entry[1]
                found[f"{owner.__module__}.{owner.__qualname__} of {kind.__module__}.{kind.__qualname__}"] = entry
        return dict(sorted(found.items()))

    def put(self, key: str, value: Any) -> None:
        owner, *entry = value
        self._owners[id(owner)] = owner
        owner.register(*entry)

    def drop(self, key: str) -> None:
        # Neither can be unregistered. One that stays does no harm: nothing else uses the notebook's classes.
        return


_ACCESSORS = (
    *(("pandas", name) for name in ("DataFrame", "Series", "Index")),
    *(("polars", name) for name in ("DataFrame", "LazyFrame", "Series", "Expr")),
    *(("xarray", name) for name in ("Dataset", "DataArray", "DataTree")),
)
_KINDS = {"Accessor": "_accessor", "CachedAccessor": "_accessor", "_CachedAccessor": "_accessor", "NameSpace": "_ns"}


class Accessors(HeldTracker):
    """Accessors and namespaces that the notebook registered with pandas, polars and xarray."""

    name = "accessors"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._seen: dict[tuple[str, str], int] = {}
        self._names: dict[tuple[str, str], list[str]] = {}

    def entries(self) -> Mapping[str, Any]:
        found = {}
        for at in _ACCESSORS:
            module = sys.modules.get(at[0])
            cls = getattr(module, at[1], None) if module is not None else None
            if cls is None:
                continue
            attributes = vars(cls)
            if len(attributes) != self._seen.get(at):
                self._seen[at] = len(attributes)
                # All of them, the library's own too: a name may be registered anew.
                self._names[at] = [n for n, v in list(attributes.items()) if type(v).__name__ in _KINDS]
            for name in self._names[at]:
                value = attributes.get(name)
                held = getattr(value, _KINDS.get(type(value).__name__, ""), None)
                if held is not None and mine(held):
                    found[f"{at[0]}.{at[1]}.{name}"] = (type(value), held)
        return found

    def put(self, key: str, value: Any) -> None:
        module, kind, name = key.split(".")
        cls = getattr(__import__(module), kind)
        setattr(cls, name, value[0](name, value[1]))
        if hasattr(cls, "_accessors"):
            cls._accessors.add(name)

    def drop(self, key: str) -> None:
        module, kind, name = key.split(".")
        cls = getattr(sys.modules[module], kind)
        delattr(cls, name)
        getattr(cls, "_accessors", set()).discard(name)

    def unsaved(self, key: str, kind: str, reason: str) -> Unsaved:
        return Unsaved(name=key, path="", type="accessor", reason=f"{reason}; {self.advice}")
