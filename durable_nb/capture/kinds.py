"""How the walk over a namespace treats objects of a type: skipped, linked, passed through, asked in a way of its own.

Called by `groups`; pure tables and one classification per type.
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.caches import LruCache
from durable_nb.capture.compare_parts import is_expression
from durable_nb.capture.definitions import TYPING, constants, importable
from durable_nb.capture.reducers import Plugin

__all__ = [
    "ATOMIC", "COUNTED", "DEFINITION", "FLOAT", "LARGE_BYTES", "LARGE_ITEMS", "LINK", "MEMBER", "MODULE", "OWN_WAY",
    "REFUSED", "SKIP", "TEXT", "THROUGH", "Kinds", "is_atomic", "shared_nans", "types_of",
]  # fmt: skip

LARGE_BYTES = 1 << 16  # from this size on a shared string is stored once
LARGE_ITEMS = 1000  # from this number of items on a shared tuple or frozen set is
ATOMIC = frozenset({int, bool, type(None), float, str, bytes, complex, type(...), type(NotImplemented), range})

# How the walk treats objects of a type.
SKIP, TEXT, FLOAT, LINK, THROUGH, DEFINITION, MEMBER, OWN_WAY, MODULE, REFUSED = range(10)

_SKIPPED: tuple[type, ...] = (
    types.CodeType,
    types.FrameType,
    types.TracebackType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
# Immutable by themselves: to share one means nothing, to share what it holds does.
_HOLLOW: frozenset[type] = frozenset(
    {
        tuple,
        frozenset,
        types.MethodType,
        types.BuiltinMethodType,
        types.GenericAlias,
        types.UnionType,
        types.MethodWrapperType,
        types.MappingProxyType,
        slice,
        staticmethod,
        classmethod,
        property,
    }
)
COUNTED = frozenset({tuple, frozenset})
# Values of these modules' own classes cannot change, and some are cached for the whole process.
_IMMUTABLE_MODULES = frozenset({"_abc", "datetime", "decimal", "fractions", "pathlib", "re", "uuid", "zoneinfo"})
_DTYPES = frozenset({"dtype", "ExtensionDtype"})
_SHELL_MODULES = ("ipykernel.", "IPython.core.interactiveshell", "IPython.terminal.", "zmq.", "tornado.")


def is_atomic(value: object) -> bool:
    """Tell whether a value is a small immutable one that no grouping can concern."""
    cls = type(value)
    try:
        if cls not in ATOMIC:
            return False
    except Exception:  # not even its class can be asked for its hash
        return False
    if cls is str or cls is bytes:
        return len(value) < LARGE_BYTES  # type: ignore[arg-type]
    return cls is not float or value == value


def shared_nans() -> dict[str, float]:
    """Return the NaN objects that everybody shares, by the module that has them as `nan`."""
    found = {name: getattr(sys.modules.get(name), "nan", None) for name in ("math", "numpy")}
    return {name: value for name, value in found.items() if type(value) is float}


def types_of(values: Collection[object]) -> Collection[type]:
    """Return the types of values, each once, if all of them can be keys."""
    try:
        return frozenset(map(type, values))
    except Exception:  # a class of the user's may refuse to be hashed
        return list(map(type, values))


class Kinds(dict[type, int]):
    """Type to kind, found out once per type."""

    def __init__(self, plugin: Plugin) -> None:
        super().__init__()
        self.plugin = plugin
        self.referents: dict[type, Callable[[Any], Iterable[Any] | None] | None] = {}

    def __missing__(self, cls: type) -> int:
        kind = self[cls] = self._classify(cls)
        return kind

    def _classify(self, cls: type) -> int:
        if plainly.refusal(cls) is not None:
            return REFUSED
        if cls is str or cls is bytes:
            return TEXT
        if cls is float:
            return FLOAT
        if issubclass(cls, types.ModuleType):
            return MODULE
        if cls in ATOMIC or issubclass(cls, _SKIPPED) or str(cls.__module__).startswith(_SHELL_MODULES):
            return SKIP
        if cls.__module__ in _IMMUTABLE_MODULES or any(b.__name__ in _DTYPES for b in cls.__mro__) or constants(cls):
            return SKIP
        if cls is types.FunctionType or issubclass(cls, type) or cls is LruCache or cls in TYPING:
            return DEFINITION
        if is_expression(cls):
            return SKIP
        if issubclass(cls, enum.Enum):
            return SKIP if importable(cls) else MEMBER
        self.referents[cls] = next((self.plugin.referents[b] for b in cls.__mro__ if b in self.plugin.referents), None)
        if self.referents[cls] is not None or any(b in self.plugin.memory for b in cls.__mro__):
            return OWN_WAY
        return THROUGH if cls in _HOLLOW or cls.__module__ == "typing" else LINK
