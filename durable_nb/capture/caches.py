"""What `functools.lru_cache` and `cache` remember: read out of the wrapper, stored with it, and filled in again.

Called by `definitions` to describe and to walk cache wrappers, and by the unpickler. Reading changes nothing. Filling
never runs the function that is cached; when it returns the wrapper gives the same objects for the same arguments, in
the same order of use, and its counters say what they said, as far as `COUNTED_HITS` and `COUNTED_MISSES` go.
"""

from __future__ import annotations

import functools
import gc
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import is_, ne
from threading import get_ident
from typing import Any

from durable_nb.capture import rebuild
from durable_nb.capture.foreign import Lost
from durable_nb.capture.whole import missing_in

__all__ = ["MARK", "Contents", "Entries", "LruCache", "contents", "held"]

LruCache: type = type(functools.lru_cache(abs))
# So many are counted again, for `cache_info()`: the ones take 0.05 s, the others 0.3 s.
COUNTED_HITS, COUNTED_MISSES = 1_000_000, 100_000
_ATTEMPTS = 3
_PLAIN = frozenset({int, bool, type(None), complex, range})
_LARGE_BYTES = 1 << 16
# Of these the hash of today is the hash of then, without asking the user's code.
_FIXED_HASH = frozenset({*_PLAIN, str, bytes, float, object, type})


def _mark() -> Any:
    """Return the object that stands between positional and keyword arguments in the keys of every cache."""
    probe = functools.lru_cache(maxsize=None)(lambda **_: None)
    probe(a=0)
    return next(iter(gc.get_referents(probe)[1]))[0]


MARK = _mark()


@dataclass(slots=True, kw_only=True)
class Contents:
    """What one wrapper remembers, least recently used first, in the keys that CPython makes."""

    wrapper: Any
    keys: list[Any]
    results: list[Any]
    hits: int
    misses: int

    def as_state(self) -> dict[str, Any]:
        """Return what is stored of it."""
        return {"keys": self.keys, "results": self.results, "hits": self.hits, "misses": self.misses}

    def without(self, keep: Callable[[int, int], bool]) -> bool:
        """Drop entries until `keep` holds for every stretch that is left; return whether any was dropped."""
        kept = list(_kept(0, len(self.keys), keep))
        dropped = len(kept) < len(self.keys)
        self.keys, self.results = [self.keys[i] for i in kept], [self.results[i] for i in kept]
        return dropped


def _kept(start: int, stop: int, keep: Callable[[int, int], bool]) -> Iterator[int]:
    if start == stop:
        return
    if keep(start, stop):
        yield from range(start, stop)
    elif stop - start > 1:
        middle = (start + stop) // 2
        yield from _kept(start, middle, keep)
        yield from _kept(middle, stop, keep)


class Entries:
    """The caches that one dump takes along with what they remember; the same in every attempt of that dump."""

    def __init__(self, hush: Callable[[], AbstractContextManager[None]]) -> None:
        """`hush` keeps to itself what the hashes of keys print; only keys of the user's classes are hashed."""
        self.hush = hush
        self.taken: dict[int, Contents | None] = {}

    def of(self, wrapper: Any) -> Contents | None:
        """Return what a wrapper remembers, None if it is as new."""
        key = id(wrapper)
        if key not in self.taken:
            found = contents(wrapper, self.hush)
            # The wrapper is kept in either case, so that its id stays its own.
            self.taken[key] = found if found.keys or found.misses else None
        return self.taken[key]

    @property
    def any(self) -> bool:
        """Tell whether any cache remembers anything."""
        return any(found is not None for found in self.taken.values())

    def leave_out(self, can_store: Callable[[object], bool]) -> bool:
        """Drop the entries that cannot be stored by themselves; return whether there were any."""
        dropped = False
        for found in self.taken.values():
            if found is not None:

                def keep(start: int, stop: int, found: Contents = found) -> bool:
                    return can_store([found.keys[start:stop], found.results[start:stop]])

                dropped |= found.without(keep)
        return dropped


# --- reading ----------------------------------------------------------------------------------------------------------


def _inside(wrapper: Any) -> tuple[list[Any], list[Any], dict[Any, Any], Any, Any]:
    """Return keys, results, the dictionary and the function that a wrapper holds, and its counters."""
    for _ in range(_ATTEMPTS):
        info = wrapper.cache_info()
        refs = gc.get_referents(wrapper)
        # Links come first, three referents each; a cache without a bound has its results in the dictionary.
        at = 1 if info.maxsize is None else 1 + 3 * info.currsize
        if len(refs) < at + 2 or type(refs[at]) is not dict or len(refs[at]) != info.currsize:
            continue  # another thread of the user's has called it meanwhile
        cache: dict[Any, Any] = refs[at]
        if info.maxsize is None:
            return list(cache), list(cache.values()), cache, refs[at + 1], info
        return refs[1:at:3], refs[2:at:3], cache, refs[at + 1], info
    return [], [], {}, None, type(wrapper.cache_info())(0, 0, 0, 0)


def contents(wrapper: Any, hush: Callable[[], AbstractContextManager[None]]) -> Contents:
    """Read what a wrapper remembers; entries whose key has another hash by now, which no call finds, are left out."""
    keys, results, cache, _, info = _inside(wrapper)
    found = Contents(wrapper=wrapper, keys=keys, results=results, hits=info.hits, misses=info.misses)
    kinds = set(map(type, keys))
    if not kinds <= {int, str} and not set(map(type, itertools.chain.from_iterable(_tuples(keys)))) <= _FIXED_HASH:
        with hush():
            found.without(lambda start, stop: all(_is_there(cache, key) for key in keys[start:stop]))
    return found


def _tuples(keys: list[Any]) -> Iterator[tuple[Any, ...]]:
    return (key for key in keys if type(key) is tuple)


def _is_there(cache: dict[Any, Any], key: Any) -> bool:
    try:
        return key in cache
    except Exception:  # it can no longer be hashed or compared: no call will ever find it
        return False


def held(wrapper: Any) -> list[Any]:
    """Return keys and results for a walk, without what is small and cannot change."""
    keys, results, *_ = _inside(wrapper)
    found = [*_notable(_parts(keys)), *_notable(results)]
    # In a list of its own, which goes with the walk: the wrapper has no object that holds its results.
    return [found] if found else []


def _parts(keys: list[Any]) -> list[Any]:
    """Return the arguments in keys: the tuples around them belong to nobody else, the mark to every cache."""
    plain = [key for key in keys if type(key) is not tuple]
    parts = list(itertools.chain.from_iterable(_tuples(keys)))
    if object in set(map(type, parts)):
        parts = [part for part in parts if part is not MARK]
    return [*plain, *parts]


def _notable(values: list[Any]) -> list[Any]:
    kinds = set(map(type, values)) - _PLAIN
    if not kinds:
        return []
    if kinds <= {str, bytes, float}:
        if float in kinds and any(map(ne, values, values)):
            return values
        sized = kinds - {float}
        return values if any(type(v) in sized and len(v) >= _LARGE_BYTES for v in values) else []
    return [value for value in values if type(value) not in _PLAIN]


# --- filling ----------------------------------------------------------------------------------------------------------


def _make_mark() -> object:
    return MARK


def _nothing() -> None:
    """Stand in a trampoline until it leads somewhere."""


def _lead(trampoline: Any, function: Any) -> None:
    trampoline.__setstate__((function, (), {}, None))


def _make_cache(function: Any, maxsize: int | None, typed: bool) -> Any:
    """Return a wrapper that is still empty.

    It calls the function through a `partial`, because that is the only callable whose target can be changed and that
    costs neither a frame nor a level of recursion: what fills the cache answers in the function's stead.
    """
    trampoline = functools.partial(_nothing)
    _lead(trampoline, function)
    wrapper: Any = functools.lru_cache(maxsize=maxsize, typed=typed)(trampoline)
    # Its attributes are those of the function, in the order in which they were set.
    held = vars(wrapper)
    parameters = held["cache_parameters"]
    held.clear()
    held["cache_parameters"] = parameters
    functools.update_wrapper(wrapper, function)
    return wrapper


def _fill_cache(wrapper: Any, state: dict[str, Any]) -> None:
    vars(wrapper).update(state["dict"])
    trampoline = _inside(wrapper)[3]
    if trampoline is None:
        return
    filling = Filling(wrapper, trampoline, Contents(wrapper=wrapper, **{n: v for n, v in state.items() if n != "dict"}))
    rebuild.when_lost(filling.without_lost)
    rebuild.when_live(filling.run)


class Filling:
    """Fills one cache, once everything that its keys are made of is live: only then can they be hashed."""

    def __init__(self, wrapper: Any, trampoline: Any, found: Contents) -> None:
        self.wrapper, self.trampoline, self.found = wrapper, trampoline, found
        self.thread, self.failing = 0, False
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.result: Any = None

    def without_lost(self, namespace: dict[str, Any]) -> None:
        """Drop the entries that hold what this process cannot make again: they are computed again."""
        found = self.found
        found.without(
            lambda start, stop: missing_in([found.keys[start:stop], found.results[start:stop]], namespace) is None
        )

    def run(self) -> None:
        """Call the wrapper once for every entry, while the results are what the function would have returned."""
        function = self.wrapper.__wrapped__
        if isinstance(function, Lost):
            return
        found, self.thread = self.found, get_ident()
        before = self.wrapper.cache_info()
        typed = self.wrapper.cache_parameters()["typed"]

        def answer(*args: Any, **kwargs: Any) -> Any:
            # The namespace is live already: other threads, and a hash that calls the function itself, get what they
            # ask for.
            if get_ident() != self.thread or not self._asked(args, kwargs):
                return function(*args, **kwargs)
            if self.failing:
                raise _Counted
            return self.result

        last = None
        _lead(self.trampoline, answer)
        try:
            self.failing = True
            for _ in range(min(found.misses - before.misses - len(found.keys), COUNTED_MISSES)):
                self._count()
            self.failing = False
            for key, self.result in zip(found.keys, found.results, strict=True):
                self.args, self.kwargs = _arguments(key, typed)
                try:
                    self.wrapper(*self.args, **self.kwargs)
                except Exception:  # a key that cannot be hashed here: the result is computed again
                    continue
                last = self.args, self.kwargs
            if last is not None:
                again = functools.partial(self.wrapper, *last[0], **last[1])
                hits = found.hits - self.wrapper.cache_info().hits
                deque(itertools.starmap(again, itertools.repeat((), max(0, min(hits, COUNTED_HITS)))), maxlen=0)
        finally:
            _lead(self.trampoline, function)
            found.keys, found.results = [], []
            self.args, self.kwargs, self.result = (), {}, None

    def _asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return (
            len(args) == len(self.args)
            and all(map(is_, args, self.args))
            and kwargs.keys() == self.kwargs.keys()
            and all(kwargs[name] is value for name, value in self.kwargs.items())
        )

    def _count(self) -> None:
        try:
            self.wrapper()
        except _Counted:
            return


class _Counted(Exception):
    """Raised in place of a call: counted as a miss, and not remembered."""


def _arguments(key: Any, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that a key of CPython's was made of."""
    if type(key) is not tuple:
        return (key,), {}
    count = next((i for i, part in enumerate(key) if part is MARK), None)
    if count is None:
        return key[: len(key) // 2] if typed else key, {}
    # Then the names and values; then, if typed, the types of all arguments.
    named = (len(key) - 1 - 2 * count) // 3 if typed else (len(key) - 1 - count) // 2
    pairs = key[count + 1 : count + 1 + 2 * named]
    return key[:count], dict(zip(pairs[::2], pairs[1::2], strict=True))
