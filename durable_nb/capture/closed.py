"""Is a group closed: do the references that the walk met account for all that there are to its objects?

Called by `settled` after a look. What is closed can only be changed by code that reaches it through its names; of
anything else (a list registered with a library, a tensor on shared storage) somebody unseen may hold a part.
"""

from __future__ import annotations

import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from sys import getrefcount
from typing import Any

from durable_nb.capture.kinds import COUNTED, is_atomic
from durable_nb.capture.trails import OURS, Trail
from durable_nb.capture.transparent import Transparent

# Definitions are counted one by one, modules and the numbers of their types tell nothing.
_JUDGED_APART = (type, types.FunctionType, types.ModuleType)

__all__ = ["References", "held_by", "is_closed", "mentions_in"]

# What `getrefcount` says of an object that one list holds and nothing else, asked in the way below.
_ALONE = next(iter(list(map(getrefcount, [object()]))))


class References:
    """References to values that are ours or the shell's: those by a few collections, all of them when they are needed.

    Few groups need more than `few`: those that something else of the namespace, or of the shell's, holds a part of.
    """

    __slots__ = ("_all", "_ask", "_few", "_whole")

    def __init__(self, few: Callable[[], Mapping[int, int]], whole: Callable[[], Mapping[int, int]]) -> None:
        """`few` counts a part of what `whole` counts, by id, and is never more than that."""
        self._ask, self._whole = few, whole
        self._few: Mapping[int, int] | None = None
        self._all: Mapping[int, int] | None = None

    def prove(self, closed: Callable[[Mapping[int, int]], bool]) -> bool:
        """Tell whether a group is closed by the counts that it is given; the more is known, the more are."""
        if self._all is None:
            if self._few is None:
                self._few = self._ask()
            if closed(self._few):
                return True
            self._all = self._whole()
        return closed(self._all)


def held_by(holders: Iterable[Iterable[Any]]) -> dict[int, int]:
    """Count, by id, the references in collections that are not the user's."""
    count: Counter[int] = Counter()
    for values in holders:
        count.update(map(id, values))
    return count


def mentions_in(trails: Iterable[Trail]) -> dict[int, int]:
    """Count the references to definitions in all of what was walked."""
    total: dict[int, int] = {}
    for trail in trails:
        for key, number in trail.mentions.items():
            total[key] = total.get(key, 0) + number
    return total


def is_closed(
    trails: Sequence[Trail], known: Mapping[int, int], mentioned: Mapping[int, int], transparent: Transparent
) -> bool:
    """Tell whether nobody but its names leads to a group; `known` counts references that are ours or the shell's.

    `mentioned` counts the references to definitions in the whole namespace.
    """
    kinds = set().union(*(trail.types for trail in trails))
    if not all(transparent[cls] for cls in kinds if not issubclass(cls, _JUDGED_APART)):
        return False
    libraries = {str(cls.__module__).partition(".")[0] for cls in kinds}
    if "pyarrow" in libraries and "pandas" not in libraries:
        return False  # it may lie on the memory of an array that somebody else holds; that of a table's text is its own
    bases = _bases(obj for trail in trails for obj in trail.own)
    if bases is None:
        return False
    counted, owners = bases
    more = [*(trail.repeats for trail in trails), known]
    mentions = [trail.mentions for trail in trails]
    return all(
        all(_accounted(frontier, None, more) for frontier in trail.frontiers)
        and _accounted(trail.own, mentions, [*more, counted])
        and _accounted(trail.functions, [mentioned], more)
        for trail in trails
    ) and (_accounted(owners, [counted], [*mentions, *more]) and not _weakly_held(trails, kinds))


def _accounted(
    objects: list[Any], times: Sequence[Mapping[int, int]] | None, more: Sequence[Mapping[int, int]]
) -> bool:
    """Have all objects of a list no more references than were met: `times` (None: once) and `more`?"""
    counts = list(map(getrefcount, objects))
    if times is None and counts.count(_ALONE + 1) == len(counts) and not any(map(_has_phantoms, more)):
        return True  # a tree, as most data is
    for at, count in enumerate(counts):
        key, kind = id(objects[at]), type(objects[at])
        met = 1 if times is None else sum(each.get(key, 0) for each in times)
        if count > _ALONE + met + sum(each.get(key, 0) for each in more) and not _is_anybodys(kind, objects, at):
            return False
    return True


def _has_phantoms(counted: Mapping[int, int]) -> bool:
    return bool(counted) and min(counted.values()) < 0


def _is_anybodys(kind: type, objects: Sequence[Any], at: int) -> bool:
    """May everybody hold this object, because it cannot change? (`at`: to name it would be another reference)"""
    if issubclass(kind, type):
        return True  # who holds a class is not counted: its own parts do, and each of its instances
    if kind in COUNTED:
        return all(map(is_atomic, objects[at]))  # a constant of some code
    return kind is types.BuiltinMethodType and type(objects[at].__self__) in (types.ModuleType, type(None))


def _bases(arrays: Iterable[Any]) -> tuple[dict[int, int], list[Any]] | None:
    """Count the references by which arrays keep the owners of their memory, and return these, each once.

    None: the memory may be anybody's.
    """
    count: dict[int, int] = {}
    owners: list[Any] = []
    for array in arrays:
        base = getattr(array, "base", None) if type(array).__module__ == "numpy" else None
        if base is None or type(base) is bytes:
            continue
        if type(base) is not type(array) or base.base is not None:
            return None
        if id(base) not in count:
            owners.append(base)
        count[id(base)] = count.get(id(base), 0) + 1
    return count, owners


def _weakly_held(trails: Sequence[Trail], kinds: Iterable[type]) -> bool:
    """Does anybody hold a weak reference to something that can be changed through it?

    Tables of pandas know each other by weak references; ours tell which arrays share memory.
    """
    if not any(getattr(cls, "__weakrefoffset__", 0) for cls in kinds):
        return False
    held = (group for trail in trails for group in (*trail.frontiers, trail.own, trail.functions))
    return any(_is_weakly_held(obj) for group in held if any(map(weakref.getweakrefcount, group)) for obj in group)


def _is_weakly_held(obj: Any) -> bool:
    count = weakref.getweakrefcount(obj)
    if not count or issubclass(type(obj), type) or str(type(obj).__module__).partition(".")[0] == "pandas":
        return False
    return count > sum(type(ref) in OURS for ref in weakref.getweakrefs(obj))
