"""Iterators that pickle turns into others: over dictionaries, ordered ones, sets, used-up ones, and pairwise.

Merged into the plug-in by `load`. An iterator over a dictionary goes on looking at that dictionary from where it was.
"""

from __future__ import annotations

import array
import gc
import itertools
import sys
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from durable_nb.capture.reducers import Plugin, Reducer, Unstorable, promise

LIBRARY = "itertools"

_WAYS: dict[str, Callable[[Any], Iterable[Any]]] = {
    "keys": lambda d: d.keys(),
    "values": lambda d: d.values(),
    "items": lambda d: d.items(),
}
_TURNS: tuple[Callable[[Any], Iterator[Any]], ...] = (iter, reversed)
_TYPES: dict[type, tuple[str, bool]] = {
    type(turn(way({}))): (name, turn is reversed) for name, way in _WAYS.items() for turn in _TURNS
}
_ORDERED: type = type(iter(OrderedDict[Any, Any]()))
_DEQUES: dict[type, bool] = {type(turn(deque[Any]())): turn is reversed for turn in _TURNS}
# Used up, these say of themselves that they are fresh ones over nothing, some even of another type.
_OVER: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([]),
    "reversed list": lambda: reversed([]),
    "tuple": lambda: iter(()),
    "text": lambda: iter("é"),
    "ASCII text": lambda: iter("e"),
    "bytes": lambda: iter(b""),
    "bytearray": lambda: iter(bytearray()),
    "array": lambda: iter(array.array("b")),
    "function": lambda: iter(int, 0),
}
_USED_UP: dict[type, str] = {type(fresh()): kind for kind, fresh in _OVER.items()}
# From Python 3.12 on it keeps a pair to give out again.
_SPARE = sum(held is not itertools.pairwise for held in gc.get_referents(itertools.pairwise([]))) - 1
# Pickle warns of these from Python 3.12 on and refuses them from 3.14 on.
_WARNED_OF: tuple[type, ...] = (
    itertools.accumulate, itertools.chain, itertools.combinations, itertools.combinations_with_replacement,
    itertools.compress, itertools.count, itertools.cycle, itertools.dropwhile, itertools.filterfalse,
    itertools.groupby, itertools.islice, itertools.permutations, itertools.product, itertools.repeat,
    itertools.starmap, itertools.takewhile, itertools.zip_longest, type(itertools.tee(())[0]),
    type(next(itertools.groupby((1,)))[1]), getattr(itertools, "_tee_dataobject"),  # noqa: B009
)  # fmt: skip


def _make_dict_iterator(mapping: Any, kind: str, backwards: bool, left: int, count: int = -1) -> Iterator[Any]:
    """Return an iterator that has `left` items still to give, of the `count` that the dictionary has in the end."""
    if len(mapping) < count and type(mapping) is not OrderedDict:
        # It leads back to the iterator and gets its items later: what an iterator knows are their number and its place.
        early = dict(mapping)
        dict.clear(mapping)
        dict.update(mapping, enumerate(range(count)))
        waiting = _make_dict_iterator(mapping, kind, backwards, left)
        dict.clear(mapping)
        dict.update(mapping, early)
        return waiting
    looked_at: Any = _WAYS[kind](mapping)
    made: Iterator[Any] = reversed(looked_at) if backwards else iter(looked_at)
    done = len(mapping) - left
    if done < 0:
        raise ValueError("an iterator over a dictionary that leads back to the iterator itself")
    for _ in range(done):
        next(made)
    return made


def _make_done(cls: type) -> Iterator[Any]:
    """Return an iterator over a dictionary that has come to its end and let go of it."""
    mapping: Any = OrderedDict() if cls is _ORDERED else {}
    kind, backwards = _TYPES.get(cls, ("keys", False))
    looked_at: Any = _WAYS[kind](mapping)
    made: Iterator[Any] = reversed(looked_at) if backwards else iter(looked_at)
    next(made, None)
    return made


def _make_finished(kind: str, backwards: bool, ordered: bool) -> Iterator[Any]:
    """The same, told in words: the types of these iterators have names under which nobody finds them."""
    looked_at: Any = _WAYS[kind](OrderedDict() if ordered else {})
    made: Iterator[Any] = reversed(looked_at) if backwards else iter(looked_at)
    next(made, None)
    return made


def _left(iterator: Any) -> list[Any]:
    try:
        left: list[Any] = iterator.__reduce__()[1][0]
    except RuntimeError:
        raise Unstorable("an iterator over a dictionary whose keys have changed since; it could only fail") from None
    return left


def _is_tail(left: list[Any], everything: list[Any]) -> bool:
    tail = everything[len(everything) - len(left) :]
    return len(tail) == len(left) and all(a is b or _same_pair(a, b) for a, b in zip(left, tail, strict=True))


def _same_pair(a: Any, b: Any) -> bool:
    return type(a) is type(b) is tuple and len(a) == len(b) == 2 and a[0] is b[0] and a[1] is b[1]


@promise("exact")
def _dict_iterator(iterator: Any) -> tuple[Any, ...]:
    cls = type(iterator)
    held = [obj for obj in gc.get_referents(iterator) if isinstance(obj, dict)]
    if not held:
        return _make_finished, (*_TYPES.get(cls, ("keys", False)), cls is _ORDERED)
    mapping, left = held[0], _left(iterator)
    # The type of one over an ordered dictionary does not say what it gives.
    for kind, backwards in [_TYPES[cls]] if cls in _TYPES else _TYPES.values():
        looked_at: Any = _WAYS[kind](mapping)
        if _is_tail(left, list(reversed(looked_at) if backwards else looked_at)):
            return _make_dict_iterator, (mapping, kind, backwards, len(left), len(mapping))
    raise Unstorable("an iterator over a dictionary whose keys have changed since")


def _make_set_iterator(left: list[Any], held: set[Any] | frozenset[Any] | None) -> Iterator[Any]:
    """Return an iterator over the elements that are left, of `held` itself if that still has them at its end."""
    if held is not None:
        done = len(held) - len(left)
        if [id(x) for x in itertools.islice(held, max(done, 0), None)] == [id(x) for x in left]:
            made = iter(held)
            for _ in range(done):
                next(made)
            return made
    return iter(set(left))


def _make_used_up(kind: str) -> Iterator[Any]:
    """Return an iterator that has come to its end, and stays there whatever is added to what it went over."""
    made = _OVER[kind]()
    for _ in made:
        pass
    return made


# Used up, these have let go of what they went over, and say of themselves that they are fresh ones over nothing.
_HOLDERS: dict[str, Callable[[], Any]] = {
    "islice": lambda: itertools.islice((), 0),
    "chain": lambda: itertools.chain(()),
}


def _make_let_go(kind: str) -> Any:
    """Return an iterator that has come to its end."""
    made = _HOLDERS[kind]()
    next(made, None)
    return made


@promise("exact")
def _holder(iterator: Any) -> Any:
    held = [obj for obj in gc.get_referents(iterator) if obj is not type(iterator)]
    return _quietly(iterator) if held else (_make_let_go, (type(iterator).__name__,))


@promise("exact")
def _sequence_iterator(iterator: Any) -> Any:
    reduced = iterator.__reduce__()
    used_up = reduced[0] is iter and len(reduced) == 2 and len(reduced[1]) == 1 and not len(reduced[1][0])
    return (_make_used_up, (_USED_UP[type(iterator)],)) if used_up else reduced


@promise("equal", "goes on over the elements that are left; where their order is another now, apart from its set")
def _set_iterator(iterator: Any) -> tuple[Any, ...]:
    held = next((obj for obj in gc.get_referents(iterator) if isinstance(obj, (set, frozenset))), None)
    try:
        return _make_set_iterator, (iterator.__reduce__()[1][0], held)
    except RuntimeError:
        raise Unstorable("an iterator over a set that has changed since; it could only fail") from None


def _make_pairwise(inner: Any, *before: Any) -> Any:
    """Return one that gives the same pairs; what it has taken from `inner` already is given to it again."""
    return itertools.pairwise(itertools.chain(before, inner) if before else inner)


@promise("equal", "what it has taken already is in front of the iterator it holds, in an itertools.chain")
def _pairwise(pairs: Any) -> tuple[Any, ...]:
    held = [obj for obj in gc.get_referents(pairs) if obj is not itertools.pairwise]
    held = held[: len(held) - _SPARE]
    return _make_pairwise, (*held[:2],) if held else (iter(()),)


def _make_deque_iterator(items: Any, backwards: bool, done: int) -> Any:
    made: Any = next(cls for cls, turned in _DEQUES.items() if turned == backwards)
    return made(items, done)


@promise("exact")
def _deque_iterator(iterator: Any) -> tuple[Any, ...]:
    items, done = iterator.__reduce__()[1]
    return _make_deque_iterator, (items, _DEQUES[type(iterator)], done)


def _make_left_group() -> Any:
    """Return a group that its groupby has left behind: there is nothing in it any more."""
    groups = itertools.groupby((1,))
    group = next(groups)[1]
    next(groups, None)
    return group


@promise("exact")
def _group(group: Any) -> Any:
    reduced = _quietly(group)
    # What a loop over a groupby leaves behind says of itself that it is an iterator over nothing.
    return (_make_left_group, ()) if reduced[0] is iter else reduced


def _fill_quietly(made: Any, state: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made.__setstate__(state)


@promise("exact")
def _quietly(iterator: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        func, args, *state = iterator.__reduce_ex__(5)
    return (func, args, *state, None, None, _fill_quietly) if state and state[0] is not None else (func, args)


def plugin() -> Plugin:
    """Return what iterators need."""
    exact: dict[type, Reducer] = dict.fromkeys([*_TYPES, _ORDERED], _dict_iterator)
    exact |= dict.fromkeys(_DEQUES, _deque_iterator)
    exact |= dict.fromkeys(_USED_UP, _sequence_iterator)
    if sys.version_info >= (3, 12):
        exact |= dict.fromkeys(_WARNED_OF, _quietly)
    exact |= dict.fromkeys((itertools.islice, itertools.chain), _holder)
    exact[type(next(itertools.groupby((1,)))[1])] = _group
    return Plugin(exact={**exact, type(iter(set())): _set_iterator, itertools.pairwise: _pairwise})
