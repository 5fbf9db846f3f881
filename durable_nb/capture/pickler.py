"""How every kind of object is described to the C pickler: by name, by value, by a library's reducer, or not at all.

Called by `codec`. Changes nothing live, and keeps what the user's pickling hooks print or warn to itself.
"""

from __future__ import annotations

import builtins
import copyreg
import dataclasses
import enum
import io
import pickle
import struct
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Any

from durable_nb.capture import caches, plain_bases, plainly, rebuild, runtime_modules, unstated
from durable_nb.capture.caches import Entries, LruCache
from durable_nb.capture.definitions import (
    HEAP_TYPE,
    TYPING,
    ByValue,
    Definitions,
    constants,
    importable,
    is_definition,
)
from durable_nb.capture.kinds import shared_nans
from durable_nb.capture.own_dicts import describe_left_out, keep_shared, leaves_out, shared_dict
from durable_nb.capture.reducers import Plugin, Sharing, Unstorable
from durable_nb.capture.reducers.builtins import _make_attribute

__all__ = ["Binding", "GroupPickler", "SpecialPickler", "denial", "quiet"]

IN_BAND_BYTES = 1024
Action = Callable[["GroupPickler", Any], Any]

# What pickles without complaint and comes back as something that only looks alive; spelt out so that nothing is
# imported for the check. Subclasses too.
DENIED: Mapping[str, str] = {
    "threading.Thread": "a thread runs in the process that started it",
    "threading._localimpl": "thread-local data belongs to its threads",
    "subprocess.Popen": "a child process belongs to the process that started it",
    "concurrent.futures._base.Executor": "an executor's workers belong to the process that started them",
    "concurrent.futures._base.Future": "a future belongs to the executor that made it; keep its result instead",
    "multiprocessing.process.BaseProcess": "a child process belongs to the process that started it",
    "tempfile.TemporaryDirectory": "a second owner would delete the folder when it goes; keep its name instead",
    "tempfile._TemporaryFileWrapper": "a second owner would delete the file when it goes; keep its name instead",
    "tempfile._TemporaryFileCloser": "a second owner would delete the file when it goes",
}


@dataclass(slots=True, kw_only=True)
class Binding:
    """What picklers of one namespace know of it: reducers, where definitions are bound, what the walk saw."""

    namespace: dict[str, Any]
    plugin: Plugin
    definitions: Definitions
    sharing: Sharing = field(default_factory=Sharing)
    nans: Mapping[str, float] = field(default_factory=shared_nans)
    owned: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    modules: Mapping[int, types.ModuleType] = field(default_factory=dict)
    actions: dict[type, Action] = field(default_factory=dict)

    def action(self, cls: type) -> Action:
        """Return how objects of a type are pickled, found out once per type."""
        found = self.actions.get(cls)
        if found is None:
            found = self.actions[cls] = _classify(cls, self.plugin)
        return found


# --- keeping the user's pickling hooks quiet --------------------------------------------------------------------------


class _Muted:
    """A stream that drops what one thread writes and passes on everything else."""

    def __init__(self, stream: Any, thread: int) -> None:
        self._stream, self._thread = stream, thread

    def write(self, text: str) -> int:
        if get_ident() == self._thread:
            return len(text)
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def quiet() -> Iterator[None]:
    """Drop what this thread prints or warns."""
    out, err, me = sys.stdout, sys.stderr, get_ident()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.stdout, sys.stderr = _Muted(out, me), _Muted(err, me)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = out, err


# --- pickling ---------------------------------------------------------------------------------------------------------


def _native(pickler: GroupPickler, obj: Any) -> Any:
    return NotImplemented


def _module(pickler: GroupPickler, module: types.ModuleType) -> Any:
    name = module.__name__
    if runtime_modules.by_value(module):
        return pickler.by_value.module(module)
    if name == "__main__" or sys.modules.get(name) is module:
        return rebuild._make_module, (name,)
    raise Unstorable(f"module {name!r} was made at run time and cannot be imported again")


def _definition(pickler: GroupPickler, obj: Any) -> Any:
    path = pickler.definitions.path(obj)
    if path is not None and path[0] not in pickler.own:
        pickler.deps.add(path[0])
        return rebuild._main, (path,)
    if (reason := plainly.closed(obj)) is not None:
        raise Unstorable(reason)
    if plainly.is_a(obj, type):
        if importable(obj):
            return NotImplemented
        if obj.__module__ != "__main__" and (found := _native_type(obj)) is not None:
            return found
        # Code that ran without a `__name__` makes classes that say they are built in.
        if obj.__module__ == "builtins" and not obj.__flags__ & HEAP_TYPE:
            return NotImplemented
        return pickler.by_value.cls(obj)
    if importable(obj):
        return _imported(obj)
    if type(obj) is types.FunctionType:
        return pickler.by_value.function(obj)
    if type(obj) is LruCache:
        return pickler.by_value.lru_cache(obj)
    return pickler.by_value.typing_object(obj)


def _imported(obj: Any) -> Any:
    # pickle looks a function up as a program would, and finds a bound method where a class method wraps it.
    found: Any = sys.modules[obj.__module__]
    name: str = getattr(obj, "__qualname__", None) or obj.__name__
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is obj or type(obj) is not types.FunctionType:
        return NotImplemented
    return rebuild._make_unwrapped, (obj.__module__, name)


def _native_type(cls: type) -> Any:
    # `type(f)` says builtins.function and a lock's _thread.lock, which nobody can look up; another name leads there.
    for module in ("types", cls.__module__):
        found = sys.modules.get(module)
        if found is None or runtime_modules.is_made(found):
            continue
        for name, value in list(vars(found).items()):
            if value is cls:
                return _make_attribute, (module, name)
    return None


def _with_dict(obj: Any, dicts: frozenset[int]) -> Any:
    """Keep `__dict__` one object with the variable (or the other object's `__dict__`) that it is shared with."""
    held = shared_dict(obj, dicts)
    if held is None:
        return NotImplemented
    with quiet():
        reduced = obj.__reduce_ex__(5)
    if not isinstance(reduced, tuple):
        return NotImplemented
    func, args, state, items, pairs, setter = (*reduced, None, None, None, None)[:6]
    # An empty __dict__ is no state to pickle.
    if setter is None and (state is held or (state is None and not held)):
        return func, args, held, items, pairs, rebuild._share_dict
    return keep_shared(obj, reduced, dicts)


def _enum_member(pickler: GroupPickler, obj: Any) -> Any:
    return pickler.by_value.member(obj)


def _code(pickler: GroupPickler, obj: Any) -> Any:
    return pickler.by_value.code(obj)


def _record(pickler: GroupPickler, obj: Any) -> Any:
    # Versions of Python keep more or less in it: by name, so that each takes what it knows.
    state = {name: getattr(obj, name) for name in type(obj).__slots__ if hasattr(obj, name)}
    return rebuild._make_record, (type(obj).__name__,), state, None, None, rebuild._fill_record


def _sentinel(pickler: GroupPickler, obj: Any) -> Any:
    return (caches._make_mark, ()) if obj is caches.MARK else NotImplemented


def _cell(pickler: GroupPickler, obj: Any) -> Any:
    return pickler.by_value.cell(obj)


def _hooked(pickler: GroupPickler, obj: Any) -> Any:
    # The class brings Python code that runs now; pickle would run it just the same, only audibly.
    with quiet():
        reduced = obj.__reduce_ex__(5)
    if isinstance(reduced, str):
        return _global_of_main(pickler, obj, reduced)
    reduced, mark = unstated.guarded(obj, reduced)
    if mark is not None:
        pickler.by_value.marks.add(mark)
    return reduced


def _with_attributes(pickler: GroupPickler, obj: Any) -> Any:
    if not object.__getattribute__(obj, "__dict__"):
        return NotImplemented
    with quiet():
        return describe_left_out(obj, obj.__reduce_ex__(5))


def _global_of_main(pickler: GroupPickler, obj: Any, name: str) -> Any:
    """Store an object that calls itself a global variable of the notebook: by that name, and once by value."""
    if pickler.definitions.names.get(name) is not obj:
        raise Unstorable(f"a {type(obj).__qualname__} says that it is the variable {name}, which is another object")
    if name not in pickler.own:
        pickler.deps.add(name)
        return rebuild._main, ((name,),)
    return copyreg.__newobj__, (type(obj),), getattr(obj, "__dict__", None) or None  # type: ignore[attr-defined]


_FIXED: Mapping[type, Action] = {
    types.ModuleType: _module,
    types.FunctionType: _definition,
    type: _definition,
    LruCache: _definition,
    **dict.fromkeys(TYPING, _definition),
    object: _sentinel,
    types.CodeType: _code,
    types.CellType: _cell,
    dataclasses.Field: _record,
    getattr(dataclasses, "_DataclassParams"): _record,  # noqa: B009  # nothing public has this type
}


def _reducing(reducer: Callable[[Any], Any]) -> Action:
    def action(pickler: GroupPickler, obj: Any) -> Any:
        return reducer(obj)

    return action


def _classify(cls: type, plugin: Plugin) -> Action:
    """Choose, once per type, how its objects are pickled."""
    if (reason := plainly.refusal(cls)) is not None:
        return _reducing(_refusing(reason))
    if cls in _FIXED:
        return _FIXED[cls]
    if cls in plugin.exact:
        return _reducing(plugin.exact[cls])
    denied = denial(cls)
    if denied is not None:
        return _reducing(_refusing(denied))
    if issubclass(cls, type):
        return _definition
    if issubclass(cls, types.ModuleType):
        return _module
    if (reducer := plugin.of_subclass(cls)) is not None:
        return _reducing(reducer)
    if issubclass(cls, enum.Enum) and not importable(cls):
        return _enum_member
    if plain_bases.of_notebook(cls):
        return _reducing(plain_bases.describe)
    found = constants(cls)
    if found:
        return _reducing(_constant(found))
    if _has_hooks(cls):
        return _hooked
    return _with_attributes if leaves_out(cls) else _native


def denial(cls: type) -> str | None:
    """Return why no object of this type is stored, if that is known by the type alone."""
    for base in cls.__mro__:
        reason = DENIED.get(f"{base.__module__}.{base.__qualname__}")
        if reason is not None:
            return f"cannot store a {cls.__qualname__}: {reason}"
    return None


def _refusing(reason: str) -> Callable[[Any], Any]:
    def reduce(obj: Any) -> Any:
        raise Unstorable(reason)

    return reduce


def _has_hooks(cls: type) -> bool:
    for name in ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__"):
        hook = getattr(cls, name, None)
        if type(hook) is types.FunctionType and hook.__module__ == "__main__":
            return True
    return False


def _constant(found: dict[int, tuple[str, str]]) -> Callable[[Any], Any]:
    def reduce(obj: Any) -> Any:
        where = found.get(id(obj))
        return NotImplemented if where is None else (_make_attribute, where)

    return reduce


def _named_anyway(obj: Any) -> bool:
    """Tell whether pickle names an object by itself: so it is written then, whoever has imported it by now."""
    return (is_definition(obj) or type(obj) is types.BuiltinFunctionType) and importable(obj)


def _take(buffers: list[memoryview], buffer: pickle.PickleBuffer) -> bool:
    raw = buffer.raw()
    if raw.nbytes < IN_BAND_BYTES:
        return True
    buffers.append(raw)
    return False


class GroupPickler(pickle.Pickler):
    """The C pickler, asked for every object that is not a built-in value or container."""

    def __init__(
        self,
        known: Binding,
        sharing: Sharing,
        file: io.BytesIO,
        buffers: list[memoryview],
        *,
        own: frozenset[str],
        entries: Entries | None = None,
    ) -> None:
        """`entries` is what caches take along of what they remember; without it they are stored as if new."""
        # Not a method of its own: with everything that it has seen it would wait for the garbage collector.
        super().__init__(file, 5, buffer_callback=partial(_take, buffers))
        self.known, self.own, self.file, self.buffers, self.entries = known, own, file, buffers, entries
        self.definitions = known.definitions
        self._by_value: ByValue | None = None
        self.dicts = sharing.dicts
        self.deps: set[str] = set()
        self.seen: dict[type, Action] = {}

    @property
    def by_value(self) -> ByValue:
        """What describes definitions by value; most groups hold none."""
        if self._by_value is None:
            self._by_value = ByValue(self.known.namespace, self.known.modules, self.entries)
        return self._by_value

    @property
    def marks(self) -> frozenset[str]:
        """The definitions that this pickle rebuilds by value."""
        return frozenset() if self._by_value is None else frozenset(self._by_value.marks)

    @property
    def caches(self) -> bool:
        """Tell whether this pickle holds a cache by value."""
        return self._by_value is not None and self._by_value.caches

    def take_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Take a buffer out of band; True: it is too small for that."""
        return _take(self.buffers, buffer)

    def reducer_override(self, obj: Any) -> Any:
        """Return how this object is stored, or NotImplemented for pickle's own way."""
        cls = type(obj)
        try:
            action = self.seen.get(cls)
        except Exception:
            raise Unstorable(plainly.refusal(cls)) from None
        if action is None:
            action = self.seen[cls] = self.known.action(cls)
        if action is _native:
            return _with_dict(obj, self.dicts) if self.dicts else NotImplemented
        made = action(self, obj)
        if not self.dicts:
            return made
        if made is NotImplemented:
            return _with_dict(obj, self.dicts)
        return keep_shared(obj, made, self.dicts, chosen=action is _hooked)


class SpecialPickler(GroupPickler):
    """The same, asked for every single object: twice as slow, and the only way to keep what the walk calls special."""

    def persistent_id(self, obj: Any) -> Any:
        """Return a word for the namespace, the builtins, a module's own object and each NaN; None for all else."""
        cls = type(obj)
        if id(obj) in self.known.owned and not _named_anyway(obj):
            return ("attribute", *self.known.owned[id(obj)])
        if cls is float and obj != obj:
            return self._nan(obj)
        if cls is dict:
            if obj is self.known.namespace:
                return "namespace"
            if obj is builtins.__dict__:
                return "builtins"
        return None

    def _nan(self, obj: float) -> str:
        for module, shared in self.known.nans.items():
            if obj is shared:
                return f"nan:{module}"
        number, _ = self.by_value.nans.setdefault(id(obj), (len(self.by_value.nans), obj))
        return f"nan:{number}:{struct.pack('<d', obj).hex()}"
