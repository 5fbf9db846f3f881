"""A group of values to bytes and out-of-band buffers, and back: C pickle 5, with dill as a second tier for a few types.

Called by `namespace` and `proof`. `dump` changes nothing live and keeps what the user's pickling hooks print or warn
to itself. `load` gives objects bound to the live namespace; nothing in the namespace has changed when it returns.
"""

from __future__ import annotations

import builtins
import copyreg
import enum
import importlib
import io
import pickle
import struct
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import xxhash

from durable_nb.capture import rebuild
from durable_nb.capture.definitions import (
    TYPING,
    ByValue,
    Definitions,
    LruCache,
    constants,
    importable,
    shared_nans,
)
from durable_nb.capture.groups import Grouping
from durable_nb.capture.reducers import SHARING, Plugin, Sharing, Unstorable
from durable_nb.capture.reducers.builtins import _make_attribute

__all__ = ["Codec", "Dumped", "Failed", "explain", "quiet"]

IN_BAND_BYTES = 1024
Action = Callable[["_Pickler", Any], Any]

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
    "IPython.core.interactiveshell.InteractiveShell": "the shell itself",
}


def _digest(data: bytes, buffers: Sequence[memoryview]) -> str:
    if not buffers:
        return str(xxhash.xxh3_128_hexdigest(data))
    state = xxhash.xxh3_128(data)
    for buffer in buffers:
        state.update(buffer.nbytes.to_bytes(8, "little"))
        state.update(buffer)
    return str(state.hexdigest())


class Failed(Exception):
    """A group could not be pickled or loaded; `args[0]` is the reason in plain words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dumped:
    """One group as bytes: a pickle of {name: value}, its buffers, what it needs and what it is made of.

    `types` are the types seen that are not built in; `marks` name the functions and classes it rebuilds by value.
    """

    pickle: bytes
    buffers: list[memoryview]
    codec: str
    deps: tuple[str, ...]
    types: frozenset[type]
    marks: frozenset[str] = frozenset()
    digest: str  # fingerprint: equal only if all bytes are

    @property
    def size_bytes(self) -> int:
        return len(self.pickle) + sum(b.nbytes for b in self.buffers)


def explain(error: BaseException, obj: object = None) -> str:
    """Return the message of an error as one line that names its kind."""
    text = " ".join(str(error).split())
    if isinstance(error, Unstorable | Failed):
        return text
    if isinstance(error, RecursionError):
        return f"RecursionError: nested too deeply to be stored ({text})"
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


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


def _native(pickler: _Pickler, obj: Any) -> Any:
    return NotImplemented


def _module(pickler: _Pickler, module: types.ModuleType) -> Any:
    name = module.__name__
    if name == "__main__" or sys.modules.get(name) is module:
        return rebuild._make_module, (name,)
    raise Unstorable(f"module {name!r} was made at run time and cannot be imported again")


def _definition(pickler: _Pickler, obj: Any) -> Any:
    path = pickler.definitions.path(obj)
    if path is not None and path[0] not in pickler.own:
        pickler.deps.add(path[0])
        return rebuild._main, (path,)
    if isinstance(obj, type):
        if importable(obj):
            return NotImplemented
        if obj.__module__ != "__main__" and (found := _native_type(obj)) is not None:
            return found
        if obj.__module__ == "builtins":
            return NotImplemented
        return pickler.by_value.cls(obj)
    if importable(obj):
        return NotImplemented
    if type(obj) is types.FunctionType:
        return pickler.by_value.function(obj)
    if type(obj) is LruCache:
        return pickler.by_value.lru_cache(obj)
    return pickler.by_value.typing_object(obj)


def _native_type(cls: type) -> Any:
    # `type(f)` says builtins.function and a lock's _thread.lock, which nobody can look up; another name leads there.
    for module in ("types", cls.__module__):
        for name, value in list(vars(sys.modules[module]).items()) if module in sys.modules else ():
            if value is cls:
                return _make_attribute, (module, name)
    return None


def _with_dict(obj: Any, dicts: frozenset[int]) -> Any:
    """Keep `__dict__` one object with the variable (or the other object's `__dict__`) that it is shared with."""
    try:
        held = object.__getattribute__(obj, "__dict__")
    except (AttributeError, TypeError):
        return NotImplemented
    if id(held) not in dicts:
        return NotImplemented
    reduced = obj.__reduce_ex__(5)
    if not isinstance(reduced, tuple):
        return NotImplemented
    func, args, state, items, pairs = (*reduced, None, None, None)[:5]
    # An empty __dict__ is no state to pickle; a class with a state of its own keeps that.
    if state is not held and not (state is None and not held):
        return NotImplemented
    return func, args, held, items, pairs, rebuild._share_dict


def _enum_member(pickler: _Pickler, obj: Any) -> Any:
    return pickler.by_value.member(obj)


def _code(pickler: _Pickler, obj: Any) -> Any:
    return pickler.by_value.code(obj)


def _cell(pickler: _Pickler, obj: Any) -> Any:
    return pickler.by_value.cell(obj)


def _hooked(pickler: _Pickler, obj: Any) -> Any:
    # The class brings Python code that runs now; pickle would run it just the same, only audibly.
    with quiet():
        reduced = obj.__reduce_ex__(5)
    return _global_of_main(pickler, obj, reduced) if isinstance(reduced, str) else reduced


def _global_of_main(pickler: _Pickler, obj: Any, name: str) -> Any:
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
    types.CodeType: _code,
    types.CellType: _cell,
}


def _reducing(reducer: Callable[[Any], Any]) -> Action:
    def action(pickler: _Pickler, obj: Any) -> Any:
        return reducer(obj)

    return action


def _classify(cls: type, plugin: Plugin) -> Action:
    """Choose, once per type, how its objects are pickled."""
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
    for base, reducer in plugin.subclasses:
        if issubclass(cls, base):
            return _reducing(reducer)
    if issubclass(cls, enum.Enum) and not importable(cls):
        return _enum_member
    found = constants(cls)
    if found:
        return _reducing(_constant(found))
    return _hooked if _has_hooks(cls) else _native


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
        if isinstance(hook, types.FunctionType) and hook.__module__ == "__main__":
            return True
    return False


def _constant(found: dict[int, tuple[str, str]]) -> Callable[[Any], Any]:
    def reduce(obj: Any) -> Any:
        where = found.get(id(obj))
        return NotImplemented if where is None else (_make_attribute, where)

    return reduce


class _Pickler(pickle.Pickler):
    """The C pickler, asked for every object that is not a built-in value or container."""

    def __init__(self, codec: Codec, file: io.BytesIO, own: frozenset[str], buffers: list[memoryview] | None) -> None:
        super().__init__(file, 5, buffer_callback=None if buffers is None else self._buffer)
        self.codec, self.own, self.buffers = codec, own, buffers
        self.definitions = codec.definitions
        self._by_value: ByValue | None = None
        self.dicts = codec.sharing.dicts if codec.sharing is not None else frozenset()
        self.deps: set[str] = set()
        self.seen: dict[type, Action] = {}

    @property
    def by_value(self) -> ByValue:
        """What describes definitions by value; most groups hold none."""
        if self._by_value is None:
            self._by_value = ByValue(self.codec.namespace)
        return self._by_value

    @property
    def marks(self) -> frozenset[str]:
        """The definitions that this pickle rebuilds by value."""
        return frozenset() if self._by_value is None else frozenset(self._by_value.marks)

    def _buffer(self, buffer: pickle.PickleBuffer) -> bool:
        assert self.buffers is not None
        raw = buffer.raw()
        if raw.nbytes < IN_BAND_BYTES:
            return True
        self.buffers.append(raw)
        return False

    def reducer_override(self, obj: Any) -> Any:
        """Return how this object is stored, or NotImplemented for pickle's own way."""
        cls = type(obj)
        action = self.seen.get(cls)
        if action is None:
            action = self.seen[cls] = self.codec.action(cls)
        if action is _native:
            return _with_dict(obj, self.dicts) if self.dicts else NotImplemented
        return action(self, obj)


class _SpecialPickler(_Pickler):
    """The same, asked for every single object: twice as slow, and the only way to keep what the walk calls special."""

    def persistent_id(self, obj: Any) -> Any:
        """Return a word for the namespace, the builtins and each NaN object; None for all else."""
        cls = type(obj)
        if cls is float and obj != obj:
            return self._nan(obj)
        if cls is dict:
            if obj is self.codec.namespace:
                return "namespace"
            if obj is builtins.__dict__:
                return "builtins"
        return None

    def _nan(self, obj: float) -> str:
        for module, shared in self.codec.nans.items():
            if obj is shared:
                return f"nan:{module}"
        number, _ = self.by_value.nans.setdefault(id(obj), (len(self.by_value.nans), obj))
        return f"nan:{number}:{struct.pack('<d', obj).hex()}"


class Codec:
    """Dumps and loads groups of one namespace with the reducers of the libraries that are loaded."""

    def __init__(self, namespace: dict[str, Any], plugin: Plugin) -> None:
        self.namespace = namespace
        self.plugin = plugin
        self.definitions = Definitions({})
        self.sharing: Sharing | None = None
        self.special: frozenset[str] = frozenset()
        self.nans = shared_nans()
        self._actions: dict[type, Action] = {}

    def bind(self, definitions: Definitions, grouping: Grouping) -> None:
        """Take note of where the namespace's definitions are bound now, and of what the walk saw."""
        self.definitions, self.sharing, self.special = definitions, grouping.sharing, grouping.special
        self.nans = shared_nans()

    def action(self, cls: type) -> Action:
        """Return how objects of a type are pickled."""
        found = self._actions.get(cls)
        if found is None:
            found = self._actions[cls] = _classify(cls, self.plugin)
        return found

    def refusal(self, obj: object) -> str | None:
        """Return why a reducer refuses this very object, whatever is inside it."""
        cls = type(obj)
        reducer = self.plugin.exact.get(cls) or next((r for b, r in self.plugin.subclasses if isinstance(obj, b)), None)
        denied = denial(cls)
        if denied is not None:
            return denied
        try:
            if reducer is not None:
                reducer(obj)
        except Unstorable as refused:
            return str(refused.args[0])
        return None

    def dump(self, names: Iterable[str], values: Mapping[str, Any], *, own: Iterable[str] | None = None) -> Dumped:
        """Pickle {name: value} of one group jointly; definitions bound to names in `own` (default `names`) by value.

        Raises `Failed` with the native message. `KeyboardInterrupt` passes; every other exception is a reason.
        """
        chosen = {name: values[name] for name in names}
        file = io.BytesIO()
        buffers: list[memoryview] = []
        kind = _SpecialPickler if self.special.intersection(chosen) else _Pickler
        pickler = kind(self, file, frozenset(chosen if own is None else own), buffers)
        token = SHARING.set(self.sharing)
        try:
            pickler.dump(chosen)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a hook may raise anything; it costs this group and no other
            raise Failed(explain(error)) from error
        finally:
            SHARING.reset(token)
        data = file.getvalue()
        return Dumped(
            pickle=data,
            buffers=buffers,
            digest=_digest(data, buffers),
            codec="pickle5",
            deps=tuple(sorted(pickler.deps)),
            types=frozenset(cls for cls in pickler.seen if cls.__module__ != "builtins"),
            marks=pickler.marks,
        )

    def dump_dill(self, name: str, value: object) -> Dumped:
        """Pickle one name by dill, for the types where dill is known to be right; raises `Failed`."""
        if not _dill_is_right(value):
            raise Failed("no second way to store it")
        import dill

        try:
            with quiet():
                data = dill.dumps({name: value}, protocol=5, byref=False, recurse=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise Failed(explain(error)) from error
        return Dumped(
            pickle=data, buffers=[], codec="dill", deps=(), types=frozenset({type(value)}), digest=_digest(data, [])
        )

    def load(
        self, data: bytes, buffers: Sequence[Any], resolve: Callable[[str], object], *, codec: str = "pickle5"
    ) -> dict[str, Any]:
        """Return {name: value} of a stored group; names of other groups come from `resolve`. Raises `Failed`."""
        try:
            with rebuild.loading(self.namespace, resolve):
                if codec == "dill":
                    import dill

                    loaded: dict[str, Any] = dill.loads(data)
                else:
                    loaded = _Unpickler(self.namespace, data, buffers).load()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise Failed(explain(error)) from error
        return loaded


class _Unpickler(pickle.Unpickler):
    """The C unpickler; what pickle calls `__main__` is the resolver's business."""

    def __init__(self, namespace: dict[str, Any], data: bytes, buffers: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._namespace = namespace
        self._nans: dict[str, float] = {}

    def persistent_load(self, word: Any) -> Any:
        """Return what `_SpecialPickler` gave a word to."""
        if word == "namespace":
            return self._namespace
        if word == "builtins":
            return builtins.__dict__
        _, which, *bits = word.split(":")
        if not bits:
            return importlib.import_module(which).nan
        return self._nans.setdefault(which, struct.unpack("<d", bytes.fromhex(bits[0]))[0])

    def find_class(self, module: str, name: str) -> Any:
        """Return a global; those of `__main__` through the resolver, because the live one may be another version."""
        if module != "__main__":
            return super().find_class(module, name)
        return rebuild._main(tuple(name.split(".")))


def _dill_is_right(value: object) -> bool:
    """Allow dill only where it is right and pickle knows nothing: not for files, locks, threads, generators."""
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return name in ("builtins.ellipsis", "types.GenericAlias", "types.UnionType", "builtins.getset_descriptor")
