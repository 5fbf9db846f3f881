"""Variables that are the `__dict__` of an instance: from CPython 3.13 on the garbage collector does not show that link.

Called by `groups` at the end of its walk. There an instance keeps its attributes inside itself, also after somebody has
asked for its `__dict__`, and `gc.get_referents` names the values but not the dictionary.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from durable_nb.capture import plainly

__all__ = ["owners"]

_flags = vars(type)["__flags__"].__get__  # whatever a metaclass says
_INLINE_VALUES = 1 << 2  # Py_TPFLAGS_INLINE_VALUES
_MOST_KEYS = 30  # beyond, CPython keeps the attributes in an ordinary dictionary
_HIDDEN: bool = sys.version_info >= (3, 13)


def owners(names: Mapping[str, Any], walked: Iterable[Iterable[Any]]) -> Iterator[tuple[str, Any]]:
    """Yield (name, instance) for each name whose value is the `__dict__` of one of the instances in `walked`."""
    if not _HIDDEN:
        return
    wanted: dict[frozenset[int], list[str]] = {}
    for name, value in names.items():
        if type(value) is dict and _may_be_inline(value):
            wanted.setdefault(frozenset(map(id, value.values())), []).append(name)
    if not wanted:
        return
    for objects in walked:
        for obj in objects:
            if not _flags(type(obj)) & _INLINE_VALUES:
                continue
            held = frozenset(id(part) for part in gc.get_referents(obj) if part is not type(obj))
            for name in wanted.get(held, ()):
                # To ask any instance would make it a dictionary of its own; this one has one, or is very like it.
                if plainly.own_dict(obj) is names[name]:
                    yield name, obj


def _may_be_inline(value: dict[Any, Any]) -> bool:
    # A dictionary whose keys its class shares is larger than an ordinary copy of it.
    return (
        len(value) <= _MOST_KEYS
        and all(type(key) is str for key in value)
        and sys.getsizeof(value) > sys.getsizeof({**value})
    )
