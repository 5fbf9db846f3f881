"""The pickle of values nested too deeply for the C pickler, which recurses: the same grammar, written by a loop.

Called by `codec` after the C pickler gave up; asks the same `GroupPickler` how every object is described, so both keep
the same promises. What it returns is an ordinary pickle of protocol 5, and to load one never recurses.
"""

from __future__ import annotations

import copyreg
import functools
import pickle
import struct
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from durable_nb.capture.pickler import GroupPickler, SpecialPickler

__all__ = ["DeepPickler"]

_BATCH: Final = 1000
_Steps = Iterator[Any]
_GET: Final = struct.Struct("<cI").pack
_INT: Final = struct.Struct("<ci").pack
_SINGLETONS: Final = frozenset({type(None), type(NotImplemented), type(...)})


class DeepPickler:
    """One dump; `trail` holds, after a failure, the objects on the way to the one that failed, outermost first."""

    def __init__(self, rules: GroupPickler) -> None:
        self.trail: list[Any] = []
        self.depth = 0
        self._rules = rules
        self._words = rules.persistent_id if isinstance(rules, SpecialPickler) else None
        self._out: list[bytes | bytearray | memoryview] = []
        self._write = self._out.append
        # Ids of what was written and its number; the objects are kept so that ids of temporaries stay theirs.
        self._memo: dict[int, int] = {}
        self._kept: list[Any] = []

    def dump(self, obj: Any) -> bytes:
        """Return the pickle of an object; raises what its reducers raise."""
        # Local, because methods of its own inside it would keep it, and all that it has seen, until a collection.
        kinds: dict[type, Callable[[Any], _Steps]] = {
            dict: self._dict,
            list: self._list,
            tuple: self._tuple,
            set: self._set,
            frozenset: self._frozenset,
        }
        leaves: dict[type, Callable[[Any], None]] = {
            str: self._str,
            int: self._int,
            float: self._float,
            bool: self._bool,
            type(None): lambda _: self._write(pickle.NONE),
            bytes: self._bytes,
            bytearray: self._bytearray,
            pickle.PickleBuffer: self._buffer,
        }
        steps = [iter((obj,))]
        trail = self.trail
        memo, write, words = self._memo, self._write, self._words
        get, again = _GET, pickle.LONG_BINGET
        while steps:
            for item in steps[-1]:
                if words is not None and (word := words(item)) is not None:
                    trail.append(word)
                    steps.append(self._persistent(word))
                    break
                cls = type(item)
                number = memo.get(id(item))
                if number is not None:
                    write(get(again, number))
                    continue
                leaf = leaves.get(cls)
                if leaf is not None:
                    leaf(item)
                    continue
                trail.append(item)
                if len(trail) > self.depth:
                    self.depth = len(trail)
                kind = kinds.get(cls)
                steps.append(self._other(item, cls) if kind is None else kind(item))
                break
            else:
                steps.pop()
                if trail:
                    trail.pop()
        body = b"".join(self._out)
        # One frame around everything, so that loading reads the file once.
        head = pickle.PROTO + b"\x05" + pickle.FRAME + struct.pack("<Q", len(body) + 1)
        return head + body + pickle.STOP

    def _memoize(self, obj: Any) -> None:
        self._write(pickle.MEMOIZE)
        self._memo[id(obj)] = len(self._kept)
        self._kept.append(obj)

    # --- values without parts -------------------------------------------------------------------------------------

    def _str(self, obj: str) -> None:
        data = obj.encode("utf-8", "surrogatepass")
        size = len(data)
        if size < 256:
            self._write(pickle.SHORT_BINUNICODE + size.to_bytes(1, "little") + data)
        else:
            self._write(pickle.BINUNICODE8 + size.to_bytes(8, "little"))
            self._write(data)
        self._memoize(obj)

    def _int(self, obj: int) -> None:
        if 0 <= obj < 256:
            self._write(pickle.BININT1 + obj.to_bytes(1, "little"))
        elif -0x80000000 <= obj <= 0x7FFFFFFF:
            self._write(_INT(pickle.BININT, obj))
        else:
            data = obj.to_bytes((obj.bit_length() >> 3) + 1, "little", signed=True)
            size = len(data)
            if size < 256:
                self._write(pickle.LONG1 + size.to_bytes(1, "little") + data)
            else:
                self._write(pickle.LONG4 + size.to_bytes(4, "little") + data)

    def _float(self, obj: float) -> None:
        self._write(pickle.BINFLOAT + struct.pack(">d", obj))

    def _bool(self, obj: bool) -> None:
        self._write(pickle.NEWTRUE if obj else pickle.NEWFALSE)

    def _bytes(self, obj: Any, owner: Any = None) -> None:
        size = len(obj)
        if size < 256:
            self._write(pickle.SHORT_BINBYTES + size.to_bytes(1, "little"))
        else:
            self._write(pickle.BINBYTES8 + size.to_bytes(8, "little"))
        self._write(obj)
        self._memoize(obj if owner is None else owner)

    def _bytearray(self, obj: Any, owner: Any = None) -> None:
        self._write(pickle.BYTEARRAY8 + len(obj).to_bytes(8, "little"))
        self._write(bytes(obj))
        self._memoize(obj if owner is None else owner)

    def _buffer(self, obj: pickle.PickleBuffer) -> None:
        raw = obj.raw()
        if self._rules.take_buffer(obj):
            (self._bytes if raw.readonly else self._bytearray)(bytes(raw), obj)
        else:
            self._write(pickle.NEXT_BUFFER)
            if raw.readonly:
                self._write(pickle.READONLY_BUFFER)

    # --- containers: each a generator of the parts still to be written ----------------------------------------------

    def _persistent(self, word: Any) -> _Steps:
        yield word
        self._write(pickle.BINPERSID)

    def _list(self, obj: list[Any]) -> _Steps:
        self._write(pickle.EMPTY_LIST)
        self._memoize(obj)
        return self._appends(obj)

    def _appends(self, items: Iterable[Any]) -> _Steps:
        return self._in_batches(((item,) for item in items), pickle.APPENDS)

    def _set_items(self, items: Iterable[tuple[Any, Any]]) -> _Steps:
        return self._in_batches(items, pickle.SETITEMS)

    def _in_batches(self, entries: Iterable[tuple[Any, ...]], end: bytes) -> _Steps:
        count = 0
        for entry in entries:
            if count == 0:
                self._write(pickle.MARK)
            yield from entry
            count += 1
            if count == _BATCH:
                self._write(end)
                count = 0
        if count:
            self._write(end)

    def _dict(self, obj: dict[Any, Any]) -> _Steps:
        self._write(pickle.EMPTY_DICT)
        self._memoize(obj)
        return self._set_items(obj.items())

    def _set(self, obj: set[Any]) -> _Steps:
        self._write(pickle.EMPTY_SET)
        self._memoize(obj)
        if obj:
            self._write(pickle.MARK)
            yield from obj
            self._write(pickle.ADDITEMS)

    def _frozenset(self, obj: frozenset[Any]) -> _Steps:
        self._write(pickle.MARK)
        yield from obj
        if (number := self._memo.get(id(obj))) is not None:  # an element led back to it
            self._write(pickle.POP_MARK + _get(number))
            return
        self._write(pickle.FROZENSET)
        self._memoize(obj)

    def _tuple(self, obj: tuple[Any, ...]) -> _Steps:
        size = len(obj)
        if not size:
            self._write(pickle.EMPTY_TUPLE)
            return
        if size > 3:
            self._write(pickle.MARK)
        yield from obj
        if (number := self._memo.get(id(obj))) is not None:  # an element led back to it
            self._write((pickle.POP_MARK if size > 3 else pickle.POP * size) + _get(number))
            return
        self._write((pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.TUPLE)[min(size, 4) - 1])
        self._memoize(obj)

    # --- everything else ------------------------------------------------------------------------------------------

    def _other(self, obj: Any, cls: type) -> _Steps:
        reduced = self._rules.reducer_override(obj)
        if reduced is NotImplemented:
            if cls is type and obj in _SINGLETONS:
                reduced = type, ({type(None): None, type(NotImplemented): NotImplemented, type(...): ...}[obj],)
            elif cls is types.FunctionType:
                return self._global(obj, None)
            else:
                reducer = copyreg.dispatch_table.get(cls)
                if reducer is not None:
                    reduced = reducer(obj)
                elif issubclass(cls, type):
                    return self._global(obj, None)
                else:
                    reduced = obj.__reduce_ex__(5)
        if isinstance(reduced, str):
            return self._global(obj, reduced)
        if not isinstance(reduced, tuple) or not 2 <= len(reduced) <= 6:
            raise pickle.PicklingError(f"__reduce__ of {cls.__qualname__} must return a string or a tuple of 2 to 6")
        return self._reduced(obj, *reduced)

    def _reduced(
        self,
        obj: Any,
        func: Any,
        args: Any,
        state: Any = None,
        items: Any = None,
        pairs: Any = None,
        setter: Any = None,
    ) -> _Steps:
        name = getattr(func, "__name__", "")
        if name == "__newobj__":
            yield args[0]
            if len(args) == 1:
                self._write(pickle.EMPTY_TUPLE)
            else:
                yield args[1:]
            self._write(pickle.NEWOBJ)
        elif name == "__newobj_ex__":
            yield from args
            self._write(pickle.NEWOBJ_EX)
        else:
            yield func
            yield args
            self._write(pickle.REDUCE)
        if (number := self._memo.get(id(obj))) is not None:  # the arguments led back to it
            self._write(pickle.POP + _get(number))
        else:
            self._memoize(obj)
        if items is not None:
            yield from self._appends(items)
        if pairs is not None:
            yield from self._set_items(pairs)
        if state is None:
            return
        if setter is None:
            yield state
            self._write(pickle.BUILD)
        else:
            yield setter
            self._write(_get(self._memo[id(obj)]))
            yield state
            self._write(pickle.TUPLE2 + pickle.REDUCE + pickle.POP)

    def _global(self, obj: Any, name: str | None) -> _Steps:
        name = name or getattr(obj, "__qualname__", None) or obj.__name__
        module: str = pickle.whichmodule(obj, name)  # type: ignore[attr-defined]
        if _looked_up(module, name) is not obj:
            raise pickle.PicklingError(f"Can't pickle {obj!r}: it's not found as {module}.{name}")
        yield module
        yield name
        self._write(pickle.STACK_GLOBAL)
        self._memoize(obj)


def _looked_up(module: str, name: str) -> Any:
    try:
        __import__(module)
        return functools.reduce(getattr, name.split("."), sys.modules[module])
    except (ImportError, KeyError, AttributeError) as error:
        raise pickle.PicklingError(f"Can't pickle {name}: it's not found as {module}.{name}") from error


def _get(number: int) -> bytes:
    return _GET(pickle.LONG_BINGET, number)
