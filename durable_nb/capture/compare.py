"""Say whether two values are the same by type, content and aliases, and if not, where they first differ.

Called when a cell ran again, to keep versions whose content is the same, and by tests as the oracle of a restore;
changes nothing. Not a comparison of pickles: those differ for equal values and agree for different ones.
"""

from __future__ import annotations

import hashlib
import sys
import types
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from durable_nb.capture.compare_memory import Span, overlaps
from durable_nb.capture.compare_parts import ATOMS, Incomparable, Parts, atom_key, is_pandas, parts

__all__ = ["difference"]

_SHOWN: Final = 60
_BLOCK_BYTES: Final = 1 << 20
_LINKS: Final = 24
_SHAPE_LIMIT: Final = 200
_TIES: Final = 50  # of more elements that look alike all are paired at once
_TURNS: Final = 1  # how often elements wait for others to be paired first
# Atoms for which Python's own `==` says it all once the types are the same.
_EXACT: Final = frozenset({int, str, bytes, bool, type(None)})

# A path is a chain of links to the value above; spelt out only when it is shown.
_Path = tuple[Any, Any] | None


def _spell(path: _Path) -> str:
    links: list[str] = []
    while path is not None:
        path, label = path
        if not isinstance(label, tuple):
            links.append(f".<{label}>")
        elif label[0] in ("attribute", "variable"):
            links.append(f".{label[1]}")
        elif label[0] in ("item", "base"):
            links.append(f"[{label[1]}]")
        elif label[0] == "key":
            links.append(f".<key {label[1]}>")
        else:
            links.append(f"[{_show(label[1])}]")
    links.reverse()
    if len(links) > _LINKS:
        links[_LINKS // 2 : -_LINKS // 2] = ["…"]
    return "value" + "".join(links)


def _show(value: Any) -> str:
    """Show an atom; of anything else only the type, since its repr is the user's code."""
    if type(value) in ATOMS:
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a large number"
        return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return f"<{type(value).__name__}>"


def _shape(value: Any, known: Callable[[int], int | None]) -> str:
    """Return a digest of the first levels of a value, the same for equal values, to pair elements of sets.

    `known` gives what stands on both sides for an object that is paired already, by its id.
    """
    digest, seen = hashlib.sha256(), dict[int, tuple[int, Any]]()
    todo: list[Any] = [value]
    while todo and len(seen) < _SHAPE_LIMIT:
        item = todo.pop()
        if (pair := known(id(item))) is not None:
            digest.update(f"paired {pair}".encode())
            continue
        digest.update(f"{type(item).__module__}.{type(item).__qualname__}".encode())
        if type(item) in ATOMS:
            digest.update(repr(atom_key(item)).encode("utf-8", "surrogatepass"))
            continue
        if id(item) in seen:
            digest.update(f"again {seen[id(item)][0]}".encode())
            continue
        seen[id(item)] = (len(seen), item)
        if issubclass(type(item), type):
            digest.update(item.__qualname__.encode())
            continue
        try:
            taken = parts(item)
        except Incomparable:
            continue
        digest.update(repr(taken.head).encode("utf-8", "surrogatepass"))
        if not taken.unordered:
            todo.extend(child for _, child in reversed(taken.children))
        elif all(type(child) in ATOMS for _, child in taken.children):
            digest.update(repr(sorted(map(repr, (atom_key(c) for _, c in taken.children)))).encode("utf-8", "replace"))
    return digest.hexdigest()


def _unpaired(identity: int) -> None:
    return None


def _keyed(taken: Parts) -> list[tuple[str, Any, Any]]:
    """Return key, label and value of the elements of a set, in the order of keys that depend on the contents only."""
    keyed = []
    for label, child in taken.children:
        key = f"{type(child).__name__}:{atom_key(child)!r}" if type(child) in ATOMS else "~" + _shape(child, _unpaired)
        keyed.append((key, label, child))
    return sorted(keyed, key=lambda k: k[0])


class _Walk:
    """One comparison: what has been paired so far, and what is still to be looked at."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._todo: list[tuple[Any, Any, _Path, bool]] = []
        # Which object of the one side stands for which of the other; the objects are kept so that ids stay theirs.
        self._there: dict[int, int] = {}
        self._back: dict[int, int] = {}
        self._pairs: set[tuple[int, int]] = set()
        self._kept: list[Any] = []
        self._places: list[tuple[Span, Span, _Path]] = []
        # Elements of sets of which several look alike, to be paired when it is known what they are elsewhere.
        self._alike: deque[tuple[list[tuple[Any, Any]], list[Any], _Path, bool, int]] = deque()

    def run(self, a: Any, b: Any) -> str | None:
        self._todo.append((a, b, None, False))
        while self._todo or self._alike:
            if not self._todo:
                self._pair_alike()
                continue
            x, y, path, inside = self._todo.pop()
            self._count += 1
            if self._count > self._limit:
                return f"there are more than {self._limit} objects, too many to compare"
            if (found := self._compare(x, y, path, inside)) is not None:
                return found
        return self._memory()

    def _compare(self, x: Any, y: Any, path: _Path, inside: bool) -> str | None:
        kind = type(x)
        if kind in ATOMS:
            if kind is not type(y):
                return (
                    f"{_spell(path)} is of type {kind.__qualname__} on one side and {type(y).__qualname__} on the other"
                )
            if x is not y and atom_key(x) != atom_key(y):
                return f"{_spell(path)} is {_show(x)} on one side and {_show(y)} on the other"
            return None
        if (found := self._types(x, y, path)) is not None:
            return found
        pair = (id(x), id(y))
        if pair in self._pairs:
            return None
        if kind is list or kind is tuple:
            return self._sequence(x, y, path, inside)
        if kind is dict:
            return self._dict(x, y, path, inside)
        if x is y and self._is_landmark(x):
            return None
        try:
            one, two = parts(x), parts(y)
        except Incomparable as error:
            if x is y:
                return self._pair(x, y, path)
            return f"{_spell(path)} ({kind.__name__}) cannot be compared: {error}"
        if one.shared and not inside and (found := self._pair(x, y, path)) is not None:
            return found
        self._pairs.add(pair)
        self._kept.append((x, y, one, two))
        return self._parts(x, one, two, path, inside)

    # Lists, tuples and dicts are what there is most of: compared in place, atoms without being queued.

    def _sequence(self, x: Any, y: Any, path: _Path, inside: bool) -> str | None:
        if type(x) is list and not inside and (found := self._pair(x, y, path)) is not None:
            return found
        self._pairs.add((id(x), id(y)))
        self._kept.append((x, y))
        if len(x) != len(y):
            return f"{_spell(path)} ({type(x).__name__}) has {len(x)} items on one side and {len(y)} on the other"
        self._count += len(x)
        queued = []
        for position, (child, other) in enumerate(zip(x, y, strict=True)):
            kind = type(child)
            if child is other and kind in ATOMS:
                continue
            if kind is type(other) and kind in _EXACT and child == other:
                continue
            queued.append((child, other, (path, ("item", position)), inside))
        queued.reverse()
        self._todo += queued
        return None

    def _dict(self, x: Any, y: Any, path: _Path, inside: bool) -> str | None:
        if not inside and (found := self._pair(x, y, path)) is not None:
            return found
        self._pairs.add((id(x), id(y)))
        self._kept.append((x, y))
        if len(x) != len(y):
            return f"{_spell(path)} (dict) has {len(x)} entries on one side and {len(y)} on the other"
        self._count += len(x)
        queued = []
        for position, ((key, child), (other_key, other)) in enumerate(zip(x.items(), y.items(), strict=True)):
            if not (type(key) is type(other_key) and type(key) in _EXACT and key == other_key):
                queued.append((key, other_key, (path, ("key", position)), inside))
            kind = type(child)
            if (child is other and kind in ATOMS) or (kind is type(other) and kind in _EXACT and child == other):
                continue
            queued.append((child, other, (path, ("value", key)), inside))
        queued.reverse()
        self._todo += queued
        return None

    def _types(self, x: Any, y: Any, path: _Path) -> str | None:
        one, two = type(x), type(y)
        if one is two:
            return None
        same_name = (one.__module__, one.__qualname__) == (two.__module__, two.__qualname__)
        if not same_name or type(y) in ATOMS:
            return f"{_spell(path)} is of type {one.__qualname__} on one side and {two.__qualname__} on the other"
        # After a load, a class of the notebook may be another object with the same definition.
        self._todo.append((one, two, (path, "type"), False))
        return None

    @staticmethod
    def _is_landmark(x: Any) -> bool:
        """Tell whether an object that both sides have in common need not be entered."""
        return issubclass(type(x), (type, types.ModuleType, types.BuiltinFunctionType))

    def _pair(self, x: Any, y: Any, path: _Path) -> str | None:
        there, back = self._there.setdefault(id(x), id(y)), self._back.setdefault(id(y), id(x))
        self._kept.append((x, y))
        if there != id(y) or back != id(x):
            return f"{_spell(path)} ({type(x).__name__}) is shared with another place on one side only"
        return None

    def _parts(self, x: Any, one: Parts, two: Parts, path: _Path, inside: bool) -> str | None:
        name = type(x).__name__
        if one.head != two.head:
            return f"{_spell(path)} ({name}) is not the same on both sides"
        if len(one.children) != len(two.children):
            counts = f"{len(one.children)} parts on one side and {len(two.children)} on the other"
            return f"{_spell(path)} ({name}) has {counts}"
        for array, other in zip(one.arrays, two.arrays, strict=True):
            if not array.dtype.hasobject and not _same_bytes(array, other):
                return f"{_spell(path)} (array) holds other numbers"
        if not inside:
            self._places += [(a, b, path) for a, b in zip(one.spans, two.spans, strict=False)]
        # Tables share and copy their insides as they like; only objects held in their cells may be shared on purpose.
        within = (inside or is_pandas(x)) and not one.arrays
        left, right = self._elements(one, two, path, within) if one.unordered else (one.children, two.children)
        todo = self._todo
        for (label, child), (other_label, other) in zip(reversed(left), reversed(right), strict=True):
            # Only names of attributes are compared here: a key of a dictionary may be anything, a tensor for one.
            if isinstance(label, tuple) and label[0] == "attribute" and label != other_label:
                return f"{_spell(path)} ({name}) has the attribute {label[1]} on one side only"
            todo.append((child, other, (path, label), within))
        return None

    def _elements(self, one: Parts, two: Parts, path: _Path, inside: bool) -> tuple[list[Any], list[Any]]:
        """Return the elements of two sets in the order of their contents, without those of which several look alike."""
        left, right = _keyed(one), _keyed(two)
        times = Counter(key for key, _, _ in left)
        for wanted in [key for key, count in times.items() if count > 1]:
            mine = [(label, child) for key, label, child in left if key == wanted]
            theirs = [child for key, _, child in right if key == wanted]
            if len(mine) == len(theirs):
                self._alike.append((mine, theirs, path, inside, 0))
                left, right = ([e for e in side if e[0] != wanted] for side in (left, right))
        return [e[1:] for e in left], [e[1:] for e in right]

    def _pair_alike(self) -> None:
        """Pair elements that look alike by what they are, or lead to, elsewhere; what is nowhere else in turn."""
        mine, theirs, path, inside, turns = self._alike.popleft()
        left = sorted(((_shape(e[1], self._there.get), e) for e in mine), key=lambda k: k[0])
        right = sorted(((_shape(e, lambda y: y if y in self._back else None), e) for e in theirs), key=lambda k: k[0])
        ties = len(left) - len({key for key, _ in left})
        if ties and turns < _TURNS and self._alike:
            self._alike.append((mine, theirs, path, inside, turns + 1))
            return
        # To pair two may say who the others are.
        taken = 1 if 0 < ties < _TIES else len(left)
        for (_, (label, child)), (_, other) in list(zip(left, right, strict=True))[:taken]:
            self._todo.append((child, other, (path, label), inside))
        if taken < len(left):
            rest = [e for _, e in left[taken:]], [e for _, e in right[taken:]]
            self._alike.append((*rest, path, inside, turns))

    def _memory(self) -> str | None:
        if len(self._places) < 2:
            return None
        one, two = overlaps([a for a, _, _ in self._places]), overlaps([b for _, b, _ in self._places])
        for (_, _, path), left, right in zip(self._places, one, two, strict=True):
            if left != right:
                return f"{_spell(path)} shares memory with another value on one side only"
        return None


def _same_bytes(a: Any, b: Any) -> bool:
    if a.size == 0:
        return True
    numpy = sys.modules["numpy"]
    one, two = (numpy.ascontiguousarray(v).reshape(-1).view(numpy.uint8) for v in (a, b))
    # In blocks, so that comparing large arrays needs no memory of their size.
    blocks = range(0, one.size, _BLOCK_BYTES)
    return all(numpy.array_equal(one[i : i + _BLOCK_BYTES], two[i : i + _BLOCK_BYTES]) for i in blocks)


def difference(a: Any, b: Any, *, limit: int = 5_000_000) -> str | None:
    """Return None if two values are the same, else where they first differ, in one sentence.

    The same means: same types (classes of the notebook: same name and definition), same content, same order in
    dicts, and the same objects shared at the same places. More than `limit` objects count as different.
    """
    try:
        return _Walk(limit).run(a, b)
    except Exception as error:  # the user's own code runs here, in `__eq__` and `__reduce__`; it costs no cell
        return f"value cannot be compared: {type(error).__name__}: {error}"
