"""The canonical form of a namespace: every object that it reaches, in order of first visit, aliases and cycles kept.

Used by tests that compare a restored namespace with one of a process that never died. `canonical` may use up iterators
and materialise what is lazy: call it in a process that ends afterwards. Two forms are equal if no program could tell
the namespaces apart by values, types, `is`, shared memory, closures or positions; identity of immutable values without
mutable parts, the order of sets and tracebacks are left out.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import gc
import hashlib
import pathlib
import random
import re
import sys
import types
import typing
import uuid
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from durable_nb.testing.canon_arrays import Memory, array, array_like, frame, generator

__all__ = ["Line", "canonical", "first_difference", "streams"]

Line = tuple[str, str]  # the path at which an object was met first, and what it is

_REPR = (
    type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range, decimal.Decimal,
    fractions.Fraction, datetime.date, datetime.time, datetime.datetime, datetime.timedelta, pathlib.PosixPath,
    pathlib.PurePosixPath, uuid.UUID, re.Pattern,
)  # fmt: skip
# Made by the interpreter for every class, or a cache that using the class leaves behind.
_NOT_MEMBERS = frozenset({"__dict__", "__weakref__", "__module__", "_abc_impl", "__slotnames__", "__annotations__"}) | {
    "_hashable_values_", "_unhashable_values_map_", "_inverted_",
}  # fmt: skip
# What `type` itself puts among the attributes of a class, and where, is no one's doing; `functools.wraps` copies it.
_BY_TYPE = ("__module__", "__doc__", "__weakref__", "__dict__")


def canonical(namespace: Mapping[str, Any], exclude: Collection[str] = ()) -> list[Line]:
    """Return one line per object that the names of the namespace reach, `exclude` and dunder names left out."""
    gc.collect()
    form = Canon(namespace)
    names = sorted(n for n in namespace if not (n.startswith("__") and n.endswith("__")) and n not in exclude)
    lines = [(name, form.ref(namespace[name], name)) for name in names]
    lines += form.drain()
    lines += form.memory.lines()
    return lines


def streams() -> list[Line]:
    """Return the state of the global random streams; Python seeds its own anew in a forked child."""
    lines = [("<random stream>", _digest(repr(random.getstate())))]
    if (numpy := sys.modules.get("numpy")) is not None:
        lines.append(("<numpy's random stream>", _digest(repr(numpy.random.get_state()))))
    return lines


def first_difference(expected: Iterable[Line], got: Iterable[Line]) -> str | None:
    """Return in words where two forms differ first; None: they do not."""
    wanted, found = dict(expected), dict(got)
    for path in [*wanted, *(p for p in found if p not in wanted)]:
        here, there = wanted.get(path, "nothing"), found.get(path, "nothing")
        if here != there:
            return f"{path}\n    expected {here}\n    got      {there}"
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Canon:
    """One traversal: `ref` gives the words for a reference and notes the object, `drain` describes what is noted."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.namespace = namespace
        self.memory = Memory()
        self._first: dict[int, str] = {id(namespace): "globals()"}
        self._queue: collections.deque[tuple[str, Any]] = collections.deque()
        self._iterators: collections.deque[tuple[str, Any]] = collections.deque()
        self._alike: collections.deque[tuple[str, Any]] = collections.deque()
        self._alive: list[Any] = []  # what was made on the way keeps its id to itself

    # ---- references ----------------------------------------------------------------------------------------------

    def ref(self, obj: Any, path: str) -> str:
        """Return how a holder shows this object: an immutable value by itself, any other by where it was met first."""
        word = self._word(obj)
        if word is not None:
            return word
        if type(obj) is tuple and self._frozen(obj):
            return "(" + "".join(f"{self.ref(item, f'{path}[{i}]')}, " for i, item in enumerate(obj)) + ")"
        if type(obj) in (types.GenericAlias, types.UnionType) and self._frozen(obj.__args__):
            held = (getattr(obj, "__origin__", None), *obj.__args__)
            return f"{type(obj).__name__}[{', '.join(self.ref(p, f'{path}[{i}]') for i, p in enumerate(held))}]"
        first = self._first.get(id(obj))
        if first is not None:
            return f"→ {first}"
        self._first[id(obj)] = path
        self._alive.append(obj)
        waiting = self._iterators if isinstance(obj, Iterator) and type(obj).__module__ == "builtins" else self._queue
        waiting.append((path, obj))
        return "new"

    def drain(self) -> list[Line]:
        """Describe what has been noted, and what that leads to."""
        lines = []
        while waiting := self._queue or self._alike or self._iterators:
            # Iterators last: by then it is known whether somebody else holds what they iterate over. Before them the
            # sets of which members look alike, whose order means nothing: somebody else may hold one of them.
            path, obj = waiting.popleft()
            if waiting is not self._alike and isinstance(obj, (set, frozenset)) and self._looks_alike(obj):
                self._alike.append((path, obj))
                continue
            lines.append((f"{path} =", self._describe(obj, path)))
        return lines

    def _word(self, obj: Any) -> str | None:
        cls = type(obj)
        if cls in _REPR:
            return repr(obj)
        if cls is types.ModuleType:
            return f"module {obj.__name__}"
        if cls is types.BuiltinFunctionType and (obj.__self__ is None or type(obj.__self__) is types.ModuleType):
            return f"builtin {obj.__name__}"
        # Of the functions that a library makes for a class of the notebook some call themselves the library's.
        theirs = isinstance(obj, type) or (cls is types.FunctionType and obj.__globals__ is not self.namespace)
        if theirs and obj.__module__ != "__main__" and "<locals>" not in obj.__qualname__:
            return f"{obj.__module__}.{obj.__qualname__}"
        if cls in (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType):
            return f"{cls.__name__} {obj.__qualname__}"
        if cls in (types.MemberDescriptorType, types.ClassMethodDescriptorType):
            return f"{cls.__name__} {obj.__name__}"
        if cls is frozenset and all(self._word(item) is not None for item in obj):
            return f"frozenset({sorted(map(str, map(self._word, obj)))})"
        if cls is slice:
            return repr(obj)
        return array_like(obj)

    def _frozen(self, obj: Any) -> bool:
        return all(
            self._word(item) is not None
            or isinstance(item, type | types.FunctionType | typing.TypeVar)
            or (type(item) is tuple and self._frozen(item))
            for item in obj
        )

    # ---- descriptions --------------------------------------------------------------------------------------------

    def _describe(self, obj: Any, path: str) -> str:
        describe = _EXACT.get(type(obj)) or next((d for base, d in _BASES if isinstance(obj, base)), None)
        if describe is not None:
            return str(describe(self, obj, path))
        special = array(self, obj, path) or frame(self, obj, path) or generator(self, obj, path)
        return special or self._instance(obj, path)

    def parts(self, path: str, parts: Iterable[tuple[str, Any]]) -> str:
        """Return references to named parts."""
        return ", ".join(f"{label}: {self.ref(part, path + label)}" for label, part in parts)

    def _instance(self, obj: Any, path: str) -> str:
        cls = type(obj)
        found = [f"{self.ref(cls, f'type({path})')}"]
        found += self._content(obj, path)
        state = False
        try:
            held = object.__getattribute__(obj, "__dict__")
        except (AttributeError, TypeError):
            pass
        else:
            state = True
            found.append("__dict__ " + self.ref(held, f"{path}.__dict__"))
        for base in cls.__mro__:
            for name, member in vars(base).items():
                if type(member) is types.MemberDescriptorType and name not in ("__dict__", "__weakref__"):
                    state = True
                    try:
                        value = member.__get__(obj, cls)
                    except AttributeError:
                        found.append(f"{name} unset")
                    else:
                        found.append(f".{name} {self.ref(value, f'{path}.{name}')}")
        if not state and len(found) == 1:
            found.append(self._reduced(obj, path))
        return " ".join(found)

    def _content(self, obj: Any, path: str) -> list[str]:
        """Describe what an object holds as a container, whatever its class overrides."""
        if isinstance(obj, dict):
            items = [(k, v) for k, v in dict.items(obj)]
            if isinstance(obj, collections.OrderedDict):
                items = [(k, dict.__getitem__(obj, k)) for k in collections.OrderedDict.__iter__(obj)]
            elif type(dict.get(obj, "__weakref__")) is types.GetSetDescriptorType:
                items.sort(key=lambda item: _BY_TYPE.index(item[0]) if item[0] in _BY_TYPE else len(_BY_TYPE))
            if isinstance(obj, collections.defaultdict):
                return [self.ref(obj.default_factory, f"{path}.default_factory"), self._items(items, path)]
            return [self._items(items, path)]
        if isinstance(obj, list | tuple):
            kind: Any = list if isinstance(obj, list) else tuple
            return ["[" + ", ".join(self.ref(v, f"{path}[{i}]") for i, v in enumerate(kind.__iter__(obj))) + "]"]
        if isinstance(obj, collections.deque):
            items_of = enumerate(list(obj))
            return [f"maxlen {obj.maxlen} [" + ", ".join(self.ref(v, f"{path}[{i}]") for i, v in items_of) + "]"]
        if isinstance(obj, set | frozenset):
            return [self._members(obj, path)]
        if isinstance(obj, BaseException):
            args = self.ref(obj.args, f"{path}.args")
            hidden = "" if not obj.__suppress_context__ else " context hidden"
            chain = {"__cause__": obj.__cause__, "__context__": obj.__context__}
            linked = self.parts(f"{path}.", [(k, v) for k, v in chain.items() if v is not None])
            return [f"args {args} {linked}{hidden}"]
        if isinstance(obj, int | str | float | bytes):
            plain: Any = next(t for t in (int, str, float, bytes) if isinstance(obj, t))
            return [str(plain.__repr__(obj))]
        return []

    def _items(self, items: Iterable[tuple[Any, Any]], path: str) -> str:
        found: list[str] = []
        for key, value in items:
            word = self.ref(key, f"{path}.keys()[{len(found)}]")
            label = repr(key)[:30] if self._word(key) is not None else f"#{len(found)}"
            found.append(f"{word}: {self.ref(value, f'{path}[{label}]')}")
        return "{" + ", ".join(found) + "}"

    def _members(self, obj: Any, path: str) -> str:
        """Describe a set; members that are no plain values are put in order by what they are and hold."""
        words, others = [], []
        for member in obj:
            word = self._word(member)
            if word is not None:
                words.append(word)
            else:
                others.append((self._rank(member), member))
        others.sort(key=lambda pair: pair[0])
        described = [self.ref(member, f"{path}{{{i}}}") for i, (_, member) in enumerate(others)]
        return "{" + ", ".join([*sorted(words), *described]) + "}"

    def _rank(self, member: Any) -> tuple[str, str]:
        """Return what puts a member of a set in order: what it is and holds, then where it was met before."""
        held = member if type(member) in (tuple, frozenset) else (member,)
        met = [self._first[id(part)] for part in held if id(part) in self._first]
        return _shallow(member), " ".join([*met, "\uffff"])

    def _looks_alike(self, members: Collection[Any]) -> bool:
        ranks = [self._rank(member) for member in members if self._word(member) is None]
        return len(ranks) > len(set(ranks))

    def _reduced(self, obj: Any, path: str) -> str:
        """Describe an object of a compiled type as pickle sees it: iterators say what is left and where they are."""
        try:
            reduced = obj.__reduce_ex__(4)
        except Exception as error:  # whatever a type says: it has no parts that can be compared
            return f"opaque ({type(error).__name__})"
        if isinstance(reduced, str):
            return f"global {reduced}"
        made = getattr(reduced[0], "__name__", "?")
        over = reduced[1][0] if len(reduced[1]) == 1 else None
        if made == "iter" and type(over) in (list, tuple, str) and not over and id(over) not in self._first:
            return "exhausted"
        found = [f"{made}({self.parts(path, [(f'<arg{i}>', a) for i, a in enumerate(reduced[1])])})"]
        if len(reduced) > 2 and reduced[2] is not None:
            found.append(f"state {self.ref(reduced[2], f'{path}<state>')}")
        for label, items in zip(("<items>", "<pairs>"), reduced[3:5], strict=False):
            if items is not None:
                found.append(self.parts(path, [(f"{label}{i}", item) for i, item in enumerate(items)]))
        return " ".join(found)


def _shallow(obj: Any) -> str:
    held = getattr(obj, "__dict__", {})
    return f"{type(obj).__qualname__} { {k: v for k, v in held.items() if type(v) in _REPR} } {_plain(obj)}"


def _plain(obj: Any) -> str:
    return repr([v for v in obj if type(v) in _REPR]) if type(obj) in (tuple, frozenset) else ""


# ---- exact types -----------------------------------------------------------------------------------------------------


def _function(canon: Canon, f: Any, path: str) -> str:
    scope = "the namespace" if f.__globals__ is canon.namespace else str(f.__globals__.get("__name__"))
    found = [f"function {f.__module__}.{f.__qualname__} {f.__name__} in {scope}", f"code {_code(f.__code__)}"]
    for name in ("__defaults__", "__kwdefaults__", "__annotations__", "__dict__", "__doc__"):
        value = getattr(f, name)
        if value:
            found.append(f"{name} {canon.ref(value, f'{path}.{name}')}")
    free = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
    found.append(canon.parts(path, [(f".<{name}>", cell) for name, cell in free]))
    return " ".join(found)


def _code(code: types.CodeType) -> str:
    consts = [
        _code(c) if isinstance(c, types.CodeType) else sorted(map(repr, c)) if isinstance(c, frozenset) else repr(c)
        for c in code.co_consts
    ]
    spec = (
        code.co_code.hex(), consts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_flags, code.co_firstlineno, code.co_qualname, code.co_argcount, code.co_exceptiontable.hex(),
    )  # fmt: skip
    return _digest(repr(spec))


def _cell(canon: Canon, cell: types.CellType, path: str) -> str:
    try:
        return f"cell {canon.ref(cell.cell_contents, f'{path}.cell_contents')}"
    except ValueError:
        return "cell, empty"


def _class(canon: Canon, cls: type, path: str) -> str:
    bases = ", ".join(canon.ref(base, f"{path}.__bases__[{i}]") for i, base in enumerate(cls.__bases__))
    found = [f"class {cls.__module__}.{cls.__qualname__} {cls.__name__}({bases}) of {canon.ref(type(cls), path)}"]
    members = {k: v for k, v in vars(cls).items() if k not in _NOT_MEMBERS}
    if vars(cls).get("__annotations__"):
        members["__annotations__"] = vars(cls)["__annotations__"]
    found.append(canon.parts(path, [(f".{name}", members[name]) for name in sorted(members)]))
    if "__abstractmethods__" in vars(cls):
        found.append(f"abstract {sorted(cls.__abstractmethods__)}")  # type: ignore[attr-defined]
    return " ".join(found)


def _partial(canon: Canon, obj: functools.partial[Any], path: str) -> str:
    func: Any = obj.func
    args, keywords = obj.args, obj.keywords
    while type(func) is functools.partial and not vars(func):
        # Python itself merges a partial into the next, unless somebody had looked at its empty `__dict__`.
        func, args, keywords = func.func, (*func.args, *args), {**func.keywords, **keywords}
    parts = [(".func", func), (".args", args), (".keywords", keywords), (".__dict__", vars(obj) or None)]
    return f"{type(obj).__name__} {canon.parts(path, parts)}"


def _bound(canon: Canon, obj: Any, path: str) -> str:
    if isinstance(obj, types.MethodType):
        return f"method {canon.parts(path, [('.__func__', obj.__func__), ('.__self__', obj.__self__)])}"
    return f"builtin method {obj.__name__} of {canon.ref(obj.__self__, f'{path}.__self__')}"


def _held(canon: Canon, obj: Any, path: str) -> str:
    """Describe what shows something else and hides it: dict views, mapping proxies."""
    held = gc.get_referents(obj)
    return f"{type(obj).__name__} of {canon.parts(path, [(f'<of{i}>', part) for i, part in enumerate(held)])}"


def _wrapper(*names: str) -> Any:
    def describe(canon: Canon, obj: Any, path: str) -> str:
        return f"{type(obj).__name__} {canon.parts(path, [(f'.{n}', getattr(obj, n)) for n in names])}"

    return describe


def _reference(canon: Canon, obj: weakref.ref[Any], path: str) -> str:
    target = obj()
    return f"{type(obj).__name__} {'dead' if target is None else canon.ref(target, f'{path}()')}"


def _weak_container(canon: Canon, obj: Any, path: str) -> str:
    if isinstance(obj, weakref.WeakSet):
        return "WeakSet " + canon._members(list(obj), path)
    return f"{type(obj).__name__} {canon._items(list(obj.items()), path)}"


def _cache(canon: Canon, obj: Any, path: str) -> str:
    # What a cache holds is not part of the promise; what it wraps and what hangs on it is.
    attributes = {k: v for k, v in vars(obj).items() if k != "cache_parameters"}
    return f"cache {obj.cache_parameters()} {canon.parts(path, [(f'.{k}', v) for k, v in attributes.items()])}"


def _bytes(canon: Canon, obj: bytearray, path: str) -> str:
    canon.memory.array(path, sys.modules["numpy"].frombuffer(obj, "u1"), obj)
    return repr(obj)


def _view(canon: Canon, obj: memoryview, path: str) -> str:
    shape = (obj.format, obj.shape, obj.strides, obj.readonly)
    # Of an array or a view in another order than C's, too.
    start, base = (
        sys.modules["numpy"].asarray(memoryview(seen)).__array_interface__["data"][0] for seen in (obj, obj.obj)
    )
    if "O" in obj.format:  # its bytes are addresses
        cells = enumerate(sys.modules["numpy"].asarray(obj).ravel())
        content = canon.parts(path, [(f"[{number}]", cell) for number, cell in cells])
    else:
        content = repr(obj.tobytes())
    return f"memoryview {shape} {content} at {start - base} of {canon.ref(obj.obj, f'{path}.obj')}"


def _random(canon: Canon, obj: random.Random, path: str) -> str:
    return f"Random {_digest(repr(obj.getstate()))} {canon.ref(vars(obj) or None, f'{path}.__dict__')}"


def _iterator_over(canon: Canon, obj: Iterator[Any], path: str) -> str:
    """Describe an iterator over a dict: what is left, and the dict that it would notice the growth of."""
    held = [part for part in gc.get_referents(obj) if isinstance(part, dict)]
    return f"{canon._reduced(obj, path)} over {canon.parts(path, [('<dict>', part) for part in held])}"


_SAMPLE: dict[str, int] = {}
_VIEWS: tuple[Any, ...] = (_SAMPLE.keys(), _SAMPLE.values(), _SAMPLE.items())
_EXACT: Mapping[type, Any] = {
    types.FunctionType: _function,
    types.CellType: _cell,
    types.MethodType: _bound,
    types.BuiltinMethodType: _bound,
    types.CodeType: lambda canon, obj, path: f"code {_code(obj)}",
    types.MappingProxyType: _held,
    **{type(view): _held for view in _VIEWS},
    **{type(iter(view)): _iterator_over for view in _VIEWS},
    property: _wrapper("fget", "fset", "fdel", "__doc__"),
    staticmethod: _wrapper("__func__"),
    classmethod: _wrapper("__func__"),
    functools.cached_property: _wrapper("func", "attrname"),
    type(functools.lru_cache(abs)): _cache,
    typing.TypeVar: lambda canon, obj, path: f"TypeVar {obj.__name__}",
    bytearray: _bytes,
    memoryview: _view,
    random.Random: _random,
    weakref.WeakSet: _weak_container,
    weakref.WeakValueDictionary: _weak_container,
    weakref.WeakKeyDictionary: _weak_container,
    getattr(dataclasses, "_DataclassParams"): lambda canon, obj, path: repr(obj),  # noqa: B009
    dataclasses.Field: _wrapper("name", "type", "default", "default_factory", "init", "hash"),
}
_BASES: tuple[tuple[Any, Any], ...] = (
    (type, _class),
    (functools.partial, _partial),
    (weakref.ref, _reference),
    (enum.property, _wrapper("fget")),
)
