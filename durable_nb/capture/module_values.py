"""What the attributes of a local module and of its classes are, in a form that a later look is compared with.

Used by `process_modules` alone. Attributes of a class are named `Class.attribute`. Looking changes nothing.
"""

from __future__ import annotations

import ast
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.trails import OurRef

__all__ = [
    "ABSENT",
    "CONTAINERS",
    "alike",
    "can_change",
    "defines",
    "find",
    "frozen",
    "is_fixed",
    "is_seen_whole",
    "plain_type",
    "settable",
    "state_of",
    "values",
    "written",
]

ABSENT = ("absent",)
_MAX_NODES = 2000  # of a container that is compared by value; of a larger one, which object it is and how long
_SCALARS = frozenset({type(None), bool, int, float, str})
_LEAVES = _SCALARS | {bytes, complex}
_MAPPINGS = frozenset({dict, defaultdict, OrderedDict, Counter})
_HOLDERS = frozenset({"argparse", "types"})  # whose classes have attributes for their users alone
_FIXED = frozenset({tuple, frozenset})
_SEQUENCES = (list, deque)
_DEFINED = (FunctionType, type, ModuleType, BuiltinFunctionType)
_METHODS = frozenset({FunctionType, property, classmethod, staticmethod})
CONTAINERS = frozenset({*_MAPPINGS, *_SEQUENCES, set})


def plain_type(value: object) -> type:
    """Return the type of a value that may be plain; `object` for one that may refuse to be compared or hashed."""
    cls = type(value)
    return cls if type(cls) is type else object


def values(module: ModuleType) -> dict[str, Any]:
    """Return every attribute of a module and of the classes that it defines, frozen."""
    found: dict[str, Any] = {}
    for name, value in list(vars(module).items()):
        if not _is_special(name):
            if _is_own(value, module.__name__):
                found[name] = _function(value)
            else:
                found[name] = frozen(value, module.__name__)
            if defines(value, module.__name__, name):
                found.update(_of_class(value, name))
    return found


def defines(value: object, module: str, path: str) -> bool:
    """Tell whether a value is the class that a module defines under a path."""
    return plainly.is_a(value, type) and (plainly.module(value), plainly.qualname(value)) == (module, path)  # type: ignore[arg-type]


def _of_class(cls: type, path: str) -> Iterator[tuple[str, Any]]:
    module = plainly.module(cls)
    for name, value in list(plainly.members(cls).items()):
        # `_name_` and `_abc_...` are kept by Python itself, and change when an enum or a check is used.
        if _is_special(name) or (name.startswith("_") and name.endswith("_")) or name.startswith("_abc_"):
            continue
        # Libraries exchange their own descriptors when a class is first used (columns, relationships, fields).
        if plain_type(value) not in _METHODS and plainly.has(type(value), "__get__"):
            continue
        bare: Any = value.__func__ if plainly.is_a(value, staticmethod | classmethod) else value
        yield f"{path}.{name}", _function(bare) if _is_own(bare, module) else _counted(value, module)
        if defines(value, module, f"{path}.{name}"):
            yield from _of_class(value, f"{path}.{name}")


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def find(module: ModuleType | None, attribute: str) -> Any:
    """Return what is at an attribute or at the attribute of a class, None where nothing is."""
    found: Any = module
    for part in attribute.split("."):
        held = plainly.members(found) if plainly.is_a(found, type) else plainly.own_dict(found) or {}
        found = held.get(part)
    return found


# --- comparing --------------------------------------------------------------------------------------------------------


def frozen(value: Any, module: str = "") -> Any:
    """Return what a later value is compared with: scalars as they are, plain containers by content, else identity.

    Of instances of classes of the module's own package the attributes count, however deep they are.
    """
    return value if plain_type(value) in _SCALARS else _counted(value, module)


def state_of(value: object, module: str) -> dict[str, Any] | None:
    """Return the attributes of an instance whose class is of the module's own package, or nothing but a holder.

    Objects of libraries keep books of their own in their attributes.
    """
    cls = type(value)
    if issubclass(cls, type | ModuleType | FunctionType):
        return None
    home = plainly.module(cls)
    if home not in _HOLDERS and home.partition(".")[0] != module.partition(".")[0]:
        return None
    return plainly.own_dict(value)


def _is_own(value: Any, module: str) -> bool:
    return type(value) is FunctionType and value.__module__ == module


def _function(function: FunctionType) -> Any:
    """Return which function it is, its code, and its defaults and attributes by content: all can be set."""
    held = (function.__defaults__, function.__kwdefaults__, vars(function))
    content = tuple(map(_counted, held)) if any(held) else ()
    return (*_identity(function), id(function.__code__), content)


def is_fixed(value: object) -> bool:
    """Tell whether a value is plain and for ever what it is: to hold it keeps nothing of anybody's alive."""
    kind = plain_type(value)
    return kind in _LEAVES or (kind in _FIXED and not can_change(value))


def can_change(value: Any) -> bool:
    """Tell whether a value is one of those that are compared by content, and its content is not for ever the same."""
    kind = plain_type(value)
    if kind in CONTAINERS:
        return True
    return kind in _FIXED and not all(plain_type(v) in _LEAVES for v in value)


class _Alive:
    """Which object something is: another one at its address, when it is gone, is not the same."""

    __slots__ = ("_ref",)

    def __init__(self, value: object) -> None:
        self._ref = OurRef(value)

    def __eq__(self, other: object) -> bool:
        mine = self._ref()
        return mine is not None and isinstance(other, _Alive) and mine is other._ref()

    __hash__ = None  # type: ignore[assignment]


def _identity(value: object) -> Any:
    try:
        return ("is", id(value), _Alive(value))
    except TypeError:  # nobody can tell when it is gone
        return ("is", id(value))


def _counted(value: Any, module: str = "") -> Any:
    kind = plain_type(value)
    if kind in _LEAVES:
        return (kind.__name__, value)
    look = _Content(module)
    content = look.of(value, 8)
    if look.budget >= 0:
        return content
    return ("is", id(value), len(value)) if kind in CONTAINERS or kind in _FIXED else _identity(value)


def is_seen_whole(value: object, module: str) -> bool:
    """Tell whether a look sees whatever may change in an instance of the module's own package."""
    if state_of(value, module) is None:
        return False
    look = _Content(module)
    look.of(value, 8)
    return look.whole and look.budget >= 0


class _Content:
    """One look at what a value holds."""

    def __init__(self, module: str) -> None:
        self.budget = _MAX_NODES
        self.whole = True  # nothing was met of which it only counts which object it is
        self._module = module
        self._inside: set[int] = set()  # the instances that are being looked at

    def of(self, value: Any, depth: int) -> Any:
        self.budget -= 1
        kind = plain_type(value)
        if kind in _LEAVES:
            return (kind.__name__, value)
        if kind not in CONTAINERS and kind not in _FIXED:
            state = state_of(value, self._module) if self._module else None
            if state is None or depth == 0 or id(value) in self._inside:
                # What a module defines beside its values is looked at by itself.
                self.whole &= id(value) in self._inside or plainly.is_a(value, _DEFINED)
                return _identity(value)
            self._inside.add(id(value))
            content = self.of(state, depth - 1)
            self._inside.discard(id(value))
            return (*_identity(value), content)
        if self.budget < 0 or depth == 0 or len(value) > _MAX_NODES:
            self.whole = False
            return ("is", id(value), len(value))
        head = (kind.__name__, id(value))
        if kind in _MAPPINGS:
            return (*head, *(self.of(v, depth - 1) for pair in list(value.items()) for v in pair))
        if kind is set or kind is frozenset:
            plain = all(plain_type(v) in _LEAVES for v in value)
            return (*head, frozenset((type(v).__name__, v) for v in value) if plain else hash(frozenset(value)))
        return (*head, *(self.of(v, depth - 1) for v in list(value)))


def settable(pair: tuple[Any, Any]) -> bool:
    """Tell whether the change from one frozen value to the other is one of scalars, which can be made again."""
    return all(plain_type(v) in _SCALARS and not (type(v) is int and abs(v) > 2**53) for v in pair)


# --- what the file says -----------------------------------------------------------------------------------------------


def written(module: ModuleType) -> dict[str, Any]:
    """Return the scalars that the module's file assigns once and for all, for a cell that imports and sets at once."""
    return {
        name: expression.value
        for name, expression in _assigned(module).items()
        if isinstance(expression, ast.Constant) and type(expression.value) in _SCALARS
    }


def alike(module: ModuleType) -> frozenset[str]:
    """Return the containers that every import of the module makes alike: empty ones, and those of a literal."""
    held = {n: v for n, v in list(vars(module).items()) if plain_type(v) in CONTAINERS and not _is_special(n)}
    found = {n for n, v in held.items() if not v}
    if found == held.keys():
        return frozenset(found)
    for name, expression in _assigned(module).items():
        if name in held:
            try:
                content = ast.literal_eval(expression)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
            if type(content) is type(held[name]) and repr(content) == repr(held[name]):
                found.add(name)
    return frozenset(found)


def _assigned(module: ModuleType) -> Mapping[str, ast.expr]:
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
        name: expressions[0]
        for name, expressions in assigned.items()
        if len(expressions) == 1 and names.count(name) == 1 and name not in shared and name in vars(module)
    }
