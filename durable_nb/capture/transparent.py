"""Types whose objects can only be changed through references that the garbage collector shows.

Called by `closed`. Of such an object a count of its references proves that nobody else can change it; of any other
(a handle into a C library, a tensor on shared storage) it proves nothing, and it is looked at after every cell.
"""

from __future__ import annotations

import array
import functools
import itertools
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from typing import Any

from durable_nb.capture import plainly

__all__ = ["Transparent"]

_FRESH: tuple[Any, ...] = ([], (), {}, set(), "", "é", b"", bytearray(), range(0), {}.items(), {}.values())
_BUILT_IN: frozenset[type] = frozenset(
    {
        object, list, dict, set, frozenset, tuple, bytearray, array.array, deque, OrderedDict, defaultdict, type(None),
        slice, property, staticmethod, classmethod, enumerate, zip, map, filter, reversed, super, functools.partial,
        types.SimpleNamespace, types.MethodType, types.BuiltinMethodType, types.MappingProxyType, types.CellType,
        types.GenericAlias, types.UnionType, types.MethodWrapperType, types.GeneratorType, itertools.count,
        itertools.cycle, itertools.chain, itertools.islice, itertools.repeat, int, float, complex, str, bytes, bool,
        range, types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType,
        types.WrapperDescriptorType, types.ClassMethodDescriptorType, weakref.ref, weakref.ProxyType,
        weakref.CallableProxyType, weakref.WeakMethod, weakref.KeyedRef,
    }
    | {type(iter(made)) for made in _FRESH}
    | {type(reversed([])), type(reversed({}))}
)  # fmt: skip
# Extension types of these own what they hold, or hold it by references that show.
_LIBRARIES = (
    "numpy",
    "pandas",
    "pyarrow.lib",
    "sklearn.tree._tree",
    "scipy.sparse",
    "datetime",
    "decimal",
    "re",
    "pathlib",
    "uuid",
)
_UNLIKE = {"numpy": ("random", "_core._multiarray_umath.flatiter", "memmap")}
_FOREIGN_METHODS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.BuiltinFunctionType,
)


class Transparent(dict[type, bool]):
    """Type to whether its references tell all, found out once per type."""

    def __missing__(self, cls: type) -> bool:
        known = self[cls] = all(_is_transparent(base) for base in cls.__mro__)
        return known


def _is_transparent(cls: type) -> bool:
    if cls in _BUILT_IN or (cls.__module__ == "builtins" and issubclass(cls, BaseException)):
        return True
    return _of_library(str(cls.__module__)) or _is_python(cls)


def _of_library(module: str) -> bool:
    for library in _LIBRARIES:
        if module == library or module.startswith(library + "."):
            rest = module[len(library) + 1 :]
            return not any(rest.startswith(part) for part in _UNLIKE.get(library, ()))
    return False


def _is_python(cls: type) -> bool:
    """Tell whether a class was made by a `class` statement: whatever C brings along shows as methods of its own."""
    for name, value in vars(cls).items():
        if plainly.is_a(value, _FOREIGN_METHODS) and _owner(value) is cls:
            return False
        if type(value) is types.GetSetDescriptorType and name not in ("__dict__", "__weakref__"):
            return False
    return "__module__" in vars(cls)


def _owner(value: Any) -> object:
    if isinstance(value, types.BuiltinFunctionType):  # `__new__` of an extension type
        return value.__self__
    return value.__objclass__
