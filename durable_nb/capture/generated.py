"""Methods that dataclasses, namedtuple and enum wrote for a class, written anew when another Python minor loads it.

Called by `rebuild` when a class has got its members. The library does it itself, on a class of its own made from the
recorded fields; nothing of the user's runs, and members that came back are left as they are.
"""

from __future__ import annotations

import collections
import dataclasses
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.foreign import Lost

__all__ = ["complete", "complete_enum", "fill_record", "lost_in"]

_REPLACE = "__replace__"  # what copy.replace() calls, since Python 3.13
_PROTOCOL_TABLES = ("__protocol_attrs__", "__callable_proto_members_only__", "__non_callable_proto_members__")
# What later versions of Python record of a dataclass beside what earlier ones do.
_SLOT_DEFAULTS: Mapping[str, Any] = {
    "match_args": True,
    "kw_only": False,
    "slots": False,
    "weakref_slot": False,
    "doc": None,
}


def fill_record(record: Any, state: Mapping[str, Any]) -> None:
    """Set what this Python's version of a dataclass's own record has room for, and its defaults for what is missing."""
    for name in type(record).__slots__:
        if name in state:
            object.__setattr__(record, name, state[name])
        elif name in _SLOT_DEFAULTS and not hasattr(record, name):
            object.__setattr__(record, name, _SLOT_DEFAULTS[name])


def lost_in(value: Any, depth: int = 0) -> Iterator[Lost]:
    """Yield what is lost in a member: itself, what it wraps, what its closure holds."""
    if type(value) is Lost:
        yield value
    if depth > 6:
        return
    if plainly.is_a(value, Lost | staticmethod | classmethod | FunctionType | property):
        for inner in _inside(value):
            yield from lost_in(inner, depth + 1)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Lost):
        cells = [cell for cell, _ in value.state.get("cells", ())]
        return [value.state.get("dict", {}).get("__wrapped__"), *_contents(cells)]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    return [vars(value).get("__wrapped__"), *_contents(value.__closure__ or ())]


def _contents(cells: Any) -> list[Any]:
    found = []
    for cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not set yet
            continue
    return found


def complete(made: type) -> None:
    """Write the generated methods of a class that were lost; what else is lost stays so, and is reported."""
    held = vars(made)
    if "__dataclass_params__" in held:
        for record in (held["__dataclass_params__"], *held.get("__dataclass_fields__", {}).values()):
            fill_record(record, {})
    if held.get("_is_protocol"):
        _complete_protocol(made)
    lost = {name: found for name, value in held.items() if (found := list(lost_in(value)))}
    if not lost:
        return
    scratch = _scratch(made)
    if scratch is None:
        return
    for name, found in lost.items():
        anew = vars(scratch).get(name)
        if anew is None and name == _REPLACE:
            type.__delattr__(made, name)
            found[0].settle()
        if anew is None:
            continue
        function = getattr(anew, "__func__", anew)
        annotations = next((x.state["__annotations__"] for x in found if "__annotations__" in x.state), None)
        if isinstance(function, FunctionType):
            _move(function, scratch, made)
            if annotations is not None:
                function.__annotations__ = annotations
        type.__setattr__(made, name, anew)
        for each in found:
            each.settle()
    if _REPLACE in vars(scratch) and _REPLACE not in held:
        type.__setattr__(made, _REPLACE, vars(scratch)[_REPLACE])


def _scratch(made: Any) -> type | None:
    """Return a class whose methods the library has written from the recorded fields of another."""
    if "__dataclass_params__" in vars(made) and "__dataclass_fields__" in vars(made):
        return _dataclass(made)
    if issubclass(made, tuple) and "_fields" in vars(made) and "_field_defaults" in vars(made):
        defaults = tuple(made._field_defaults.values())
        # Renamed fields (_0, _1) have the names that renaming gives them.
        return collections.namedtuple(
            made.__name__, made._fields, defaults=defaults, rename=True, module=made.__module__
        )
    if "_is_protocol" in vars(made):  # also of a class that derives from a protocol and is none
        return _protocol(made)
    return None


def _complete_protocol(made: Any) -> None:
    """Give a protocol the tables that this version of Python checks instances by; those of others count as members."""
    here = vars(typing.runtime_checkable(_protocol(made)))
    later = ("__firstlineno__", "__static_attributes__") if sys.version_info < (3, 13) else ()
    for name in (*_PROTOCOL_TABLES, *later):
        if name in vars(made) and name not in here:
            type.__delattr__(made, name)
    collect = getattr(typing, "_get_protocol_attrs", None)
    names = vars(made).get("__protocol_attrs__") or (collect(made) if collect is not None else set())
    data = {name for name in names if not callable(getattr(made, name, None))}
    for name, table in zip(_PROTOCOL_TABLES, (names, not data, data), strict=True):
        if name in here and name not in vars(made):
            type.__setattr__(made, name, table)


def _protocol(made: type) -> type:
    return types.new_class(made.__name__, (typing.Protocol,))


def _dataclass(made: Any) -> type:
    scratch: Any = type(made.__name__, (), {"__module__": made.__module__, "__qualname__": made.__qualname__})
    annotations: dict[str, Any] = {}
    # Attributes are set once the class exists: no default learns a new owner by __set_name__.
    for name, old in made.__dataclass_fields__.items():
        kind = old._field_type.name
        if kind == "_FIELD_CLASSVAR":
            continue
        annotations[name] = dataclasses.InitVar[object] if kind == "_FIELD_INITVAR" else object
        options = {k: getattr(old, k) for k in ("init", "repr", "hash", "compare", "kw_only")}
        if kind == "_FIELD_INITVAR":
            options = {"init": old.init, "kw_only": old.kw_only}
        if old.default_factory is not dataclasses.MISSING:
            options["default_factory"] = old.default_factory
        elif old.default is not dataclasses.MISSING:
            options["default"] = old.default
        setattr(scratch, name, dataclasses.field(**options))
    scratch.__annotations__ = annotations
    if hasattr(made, "__post_init__"):
        scratch.__post_init__ = made.__post_init__
    params = made.__dataclass_params__
    options = {k: getattr(params, k) for k in ("init", "repr", "eq", "order", "unsafe_hash", "frozen")}
    return typing.cast(type, dataclasses.dataclass(**options)(scratch))


def _move(function: FunctionType, scratch: type, made: type) -> None:
    """Let a method mean the class that it moves to."""
    for cell in function.__closure__ or ():
        try:
            if cell.cell_contents is scratch:
                cell.cell_contents = made
        except ValueError:  # a cell that is not set
            continue


def complete_enum(made: Any) -> None:
    """Give an enum class the tables that this version of Python looks values up in."""
    held = vars(made)
    for name, empty in (("_unhashable_values_", list), ("_unhashable_values_map_", dict)):
        if name not in held:
            type.__setattr__(made, name, empty())
    if "_hashable_values_" not in held:
        type.__setattr__(made, "_hashable_values_", list(held.get("_value2member_map_", {})))
