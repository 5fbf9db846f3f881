"""A group of values to bytes and out-of-band buffers, and back: C pickle 5, with dill as a second tier for a few types.

What is nested too deeply for the C pickler is written by `deep`, as a pickle of the same kind.

Called by `namespace` and `proof`. `dump` changes nothing live and keeps what the user's pickling hooks print or warn
to itself. `load` gives objects bound to the live namespace; nothing in the namespace has changed when it returns.
"""

from __future__ import annotations

import builtins
import gc
import importlib
import io
import pickle
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from durable_nb.capture import plainly, rebuild
from durable_nb.capture.borrowing import ARRAY_FROM_BYTES, address_of
from durable_nb.capture.caches import Entries
from durable_nb.capture.deep import DeepPickler
from durable_nb.capture.definitions import Definitions
from durable_nb.capture.groups import Grouping
from durable_nb.capture.kinds import shared_nans
from durable_nb.capture.left_alone import original
from durable_nb.capture.pickler import Binding, GroupPickler, SpecialPickler, denial, quiet
from durable_nb.capture.reducers import SHARING, Plugin, Sharing, Unstorable
from durable_nb.capture.whole import missing_in
from durable_nb.chunking import CHUNK_BYTES, PICKLE_CHUNK_BYTES, Marked, digest_of_marks, marks_of

__all__ = ["CHANGING", "Codec", "Dumped", "Failed", "Lost", "MarkedAt", "Partly", "explain", "fingerprint", "is_plain"]

# What pickle says when another thread of the user's changes a container meanwhile.
CHANGING = "changed size during iteration"
_C_LIMIT = 10_000  # levels of C recursion that fit the stack of a main thread
_SHORT = 1000
_DEEP = 100  # from so many levels on a group is written by the loop, once it was too deep

MarkedAt: TypeAlias = Mapping[int, tuple[int, tuple[bytes, ...]]]  # of memory by its address: its size, its marks


def _marks(
    data: bytes, buffers: Sequence[memoryview], marked: MarkedAt | None = None
) -> tuple[str, tuple[tuple[bytes, ...], ...]]:
    """Return a fingerprint of a pickle and its buffers, and the marks of their chunks, in one pass over the bytes.

    `marked` are marks that memory has already, which is not gone through again then.
    """
    of_buffers = (_marks_of(buffer, marked) for buffer in buffers)
    marks = (marks_of(memoryview(data), PICKLE_CHUNK_BYTES), *of_buffers)
    if not buffers and len(data) <= PICKLE_CHUNK_BYTES:
        return marks[0][0].hex(), marks
    return digest_of_marks([len(data), *(b.nbytes for b in buffers)], marks), marks


def _marks_of(buffer: memoryview, marked: MarkedAt | None) -> tuple[bytes, ...]:
    whole = buffer.cast("B")
    if marked and whole.nbytes >= ARRAY_FROM_BYTES:
        size_bytes, marks = marked.get(address_of(sys.modules["numpy"].frombuffer(whole, "u1")), (0, ()))
        if size_bytes == whole.nbytes:
            return marks
    return marks_of(whole, CHUNK_BYTES)


def fingerprint(data: bytes, buffers: Marked) -> str:
    """Return the digest of a group's bytes, which the manifest keeps of a name that is alone in its group."""
    marks = (marks_of(memoryview(data), PICKLE_CHUNK_BYTES), *buffers.marks)
    return digest_of_marks([len(data), *(len(buffer) for buffer in buffers)], marks)


class Failed(Exception):
    """A group could not be pickled or loaded; `args[0]` is the reason in plain words, `deep` tells of deep nesting."""

    def __init__(self, reason: str, *, deep: bool = False) -> None:
        super().__init__(reason)
        self.deep = deep


class Lost(Failed):
    """What is stored cannot be made again in this process, however often it is tried."""


class Partly(Failed):
    """Some names of a group hold what could not be made again, with the reason; the others, `loaded`, are whole."""

    def __init__(self, reason: str, loaded: Mapping[str, Any], lost: Mapping[str, str]) -> None:
        super().__init__(reason)
        self.loaded, self.lost = loaded, lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Dumped:
    """One group as bytes: a pickle of {name: value}, its buffers, what it needs and what it is made of.

    `types` are the types seen that are not built in; `marks` name the functions and classes it rebuilds by value;
    `deep` says that its nesting was too much for the C pickler. `caches` says that it holds caches, whose memory is no
    part of the content of a name; `warm` that some of them have a memory, and it is in here.
    """

    pickle: bytes
    buffers: list[memoryview]
    codec: str
    deps: tuple[str, ...]
    types: frozenset[type]
    marks: frozenset[str] = frozenset()
    digest: str  # fingerprint: equal only if all bytes are
    chunk_marks: tuple[tuple[bytes, ...], ...] = ()
    size_bytes: int
    deep: bool = False
    caches: bool = False
    warm: bool = False

    def slim(self) -> Dumped:
        """Return the same without its bytes, for a group that is stored already."""
        return replace(self, pickle=b"", buffers=[], chunk_marks=())


def explain(error: BaseException, obj: object = None) -> str:
    """Return the message of an error as one line that names its kind."""
    text = " ".join(str(error).split())
    if isinstance(error, Unstorable | Failed):
        return text
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


class Codec:
    """Dumps and loads groups of one namespace with the reducers of the libraries that are loaded."""

    def __init__(self, namespace: dict[str, Any], plugin: Plugin) -> None:
        self.namespace, self.plugin = namespace, plugin
        self._known = Binding(namespace=namespace, plugin=plugin, definitions=Definitions({}))
        self._special: frozenset[str] = frozenset()
        self._alone: Mapping[str, Sharing] = {}
        # Groups that were too deep last time: the C pickler need not find out again.
        self._deep: set[frozenset[str]] = set()
        # Of memory that was just read and nobody can have changed: another one would cost a look too many at most,
        # because what is compared with these later are the marks of what is there then.
        self.marked: MarkedAt = {}

    @property
    def definitions(self) -> Definitions:
        """Where the namespace's definitions are bound, as of the last `bind`."""
        return self._known.definitions

    def bind(
        self, definitions: Definitions, grouping: Grouping, owned: Mapping[int, tuple[str, str]] | None = None
    ) -> None:
        """Take note of where definitions are bound now, of what the walk saw, and of what modules own."""
        known = self._known
        known.owned = owned or {}
        known.definitions, known.sharing, known.nans = definitions, grouping.sharing, shared_nans()
        known.modules = grouping.modules
        self._special, self._alone = grouping.special, grouping.alone

    def release(self) -> None:
        """Let go of every value: what the user deletes next must go at once, its memory and weak references too."""
        known = self._known
        known.definitions, known.sharing, known.owned = Definitions({}), Sharing(), {}
        self._alone = {}

    def refusal(self, obj: object) -> str | None:
        """Return why a reducer refuses this very object, whatever is inside it."""
        cls = type(obj)
        if (reason := plainly.refusal(cls)) is not None:
            return reason
        if (reason := plainly.closed(obj)) is not None:
            return reason
        reducer = self.plugin.exact.get(cls) or self.plugin.of_subclass(cls)
        denied = denial(cls)
        if denied is not None:
            return denied
        try:
            if reducer is not None:
                reducer(obj)
        except Exception as refused:  # the library's own way may raise anything
            return explain(refused)
        return None

    def dump(self, names: Iterable[str], values: Mapping[str, Any]) -> Dumped:
        """Pickle {name: value} of one group jointly, definitions bound to its names by value.

        Raises `Failed` with the native message. `KeyboardInterrupt` passes; every other exception is a reason. What a
        cache remembers and cannot be stored is left out: it is computed again.
        """
        names = tuple(names)
        if len(names) == 1 and is_plain(value := values[names[0]]):
            return _dump_plain(names[0], value)
        sharing, entries = self._known.sharing, Entries(quiet)
        try:
            return self._dump(names, values, sharing, entries)
        except Failed as failure:
            if not entries.any or CHANGING in str(failure.args[0]):
                raise
        cold = self._dump(names, values, sharing)  # raises if it is not for what caches remember
        while entries.leave_out(lambda part: self._can_store(names, part)):
            try:
                return self._dump(names, values, sharing, entries)
            except Failed:
                continue  # caches that are only reached by now may remember something of that kind, too
        return cold

    def dump_cold(self, names: Iterable[str], values: Mapping[str, Any]) -> Dumped:
        """Do the same without anything that caches remember."""
        return self._dump(names, values, self._known.sharing)

    def _can_store(self, names: Iterable[str], part: object) -> bool:
        try:
            self._dump(names, dict.fromkeys(names, part), self._known.sharing)
        except Failed:
            return False
        return True

    def dump_alone(self, name: str, values: Mapping[str, Any]) -> Dumped:
        """Pickle one name of a group for its own content, whatever it shares with others; raises `Failed`.

        What caches remember is not part of it: who calls a function does not change it.
        """
        return self._dump((name,), values, self._alone.get(name, Sharing()))

    def _dump(
        self, names: Iterable[str], values: Mapping[str, Any], sharing: Sharing, entries: Entries | None = None
    ) -> Dumped:
        # The very string that code has for the name: a class that holds its own name pickles to the same bytes
        # whether the namespace's key came from a cell or from a checkpoint.
        chosen = {sys.intern(name): values[name] for name in names}
        key = frozenset(chosen)
        pickler = self._pickler(key, sharing, entries)
        token = SHARING.set(replace(sharing, own=key))
        deep: DeepPickler | None = None
        try:
            data = None if key in self._deep else _shallow(pickler, chosen)
            if data is None:
                pickler = self._pickler(key, sharing, entries)
                deep = DeepPickler(pickler)
                with _uncollected():
                    data = deep.dump(chosen)
                (self._deep.add if deep.depth > _DEEP else self._deep.discard)(key)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a hook may raise anything; it costs this group and no other
            raise Failed(explain(error), deep=deep is not None) from error
        finally:
            SHARING.reset(token)
        buffers = pickler.buffers
        digest, chunk_marks = _marks(data, buffers, self.marked)
        return Dumped(
            pickle=data,
            buffers=buffers,
            digest=digest,
            chunk_marks=chunk_marks,
            size_bytes=len(data) + sum(b.nbytes for b in buffers),
            codec="pickle5",
            deps=tuple(sorted(pickler.deps)),
            types=frozenset(cls for cls in pickler.seen if cls.__module__ != "builtins"),
            marks=pickler.marks,
            deep=deep is not None,
            caches=pickler.caches,
            warm=entries is not None and entries.any,
        )

    def trail(self, name: str, value: object) -> Sequence[Any]:
        """Return the objects on the way to the part of a value that cannot be pickled, from the value on."""
        deep = DeepPickler(self._pickler(frozenset({name}), self._known.sharing))
        token = SHARING.set(self._known.sharing)
        try:
            with _uncollected():
                deep.dump({name: value})
        except KeyboardInterrupt:
            raise
        except BaseException:  # which is what we came for
            return deep.trail[1:]
        finally:
            SHARING.reset(token)
        return ()

    def _pickler(self, own: frozenset[str], sharing: Sharing, entries: Entries | None = None) -> GroupPickler:
        kind = SpecialPickler if self._special.intersection(own) else GroupPickler
        return kind(self._known, sharing, io.BytesIO(), [], own=own, entries=entries)

    def dump_dill(self, name: str, value: object) -> Dumped:
        """Pickle one name by dill, for the types where dill is known to be right; raises `Failed`."""
        if not _dill_is_right(value):
            raise Failed("no second way to store it")
        import dill

        try:
            with quiet():
                data = dill.dumps({name: value}, protocol=5, byref=False, recurse=False)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise Failed(explain(error)) from error
        return Dumped(
            pickle=data,
            buffers=[],
            codec="dill",
            deps=(),
            types=frozenset({type(value)}),
            digest=_marks(data, [])[0],
            size_bytes=len(data),
        )

    def load(
        self,
        data: bytes,
        buffers: Iterable[Any],
        resolve: Callable[[str], object],
        *,
        codec: str = "pickle5",
        afterwards: list[Callable[[], None]] | None = None,
    ) -> dict[str, Any]:
        """Return {name: value} of a stored group; names of other groups come from `resolve`. Raises `Failed`.

        What has to be done once the values are live is added to `afterwards`; without that list it never is.
        """
        current: rebuild.Loading | None = None
        try:
            with rebuild.loading(self.namespace, _standing_in(resolve)) as current:
                if codec == "dill":
                    import dill

                    loaded: dict[str, Any] = dill.loads(data)
                else:
                    loaded = _Unpickler(self.namespace, data, buffers).load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # What failed may have stumbled over what could not be made again: that is the reason then.
            gone = next((x.reason for x in current.lost if not x.settled), None) if current is not None else None
            raise (Lost(gone) if gone else Failed(explain(error))) from error
        current.let_go(loaded)
        reason = current.reason()
        lost = {n: why for n, v in loaded.items() if (why := missing_in(v, self.namespace))} if reason else {}
        if reason is not None and (not lost or len(lost) == len(loaded)):
            raise Lost(reason)
        if afterwards is not None:
            afterwards.extend(current.afterwards)
        if reason is not None:
            raise Partly(reason, {n: v for n, v in loaded.items() if n not in lost}, lost)
        return loaded


def is_plain(value: object) -> bool:
    """Tell whether a value pickles to the same bytes whatever else there is: C writes it without asking anybody."""
    cls = type(value)
    if cls is float:
        return value == value
    return cls is int or cls is bool or value is None or (cls is str and len(value) < _SHORT)  # type: ignore[arg-type]


def _dump_plain(name: str, value: object) -> Dumped:
    data = pickle.dumps({sys.intern(name): value}, 5)
    digest, chunk_marks = _marks(data, [])
    return Dumped(
        pickle=data,
        buffers=[],
        digest=digest,
        chunk_marks=chunk_marks,
        size_bytes=len(data),
        codec="pickle5",
        deps=(),
        types=frozenset(),
    )


def _standing_in(resolve: Callable[[str], object]) -> Callable[[str], object]:
    """Return a resolver that gives a stand-in for a name that did not load, so that its neighbours can."""

    def found(name: str) -> object:
        try:
            return resolve(name)
        except Failed as failure:
            return rebuild.stand_in(str(failure.args[0]))

    return found


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector from looking at millions of new objects again and again, which takes longer than they do."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _shallow(pickler: GroupPickler, obj: object) -> bytes | None:
    """Return what the C pickler makes of an object, None if it is nested too deeply for that."""
    limit = sys.getrecursionlimit()
    # Up to Python 3.11 a limit that the user has raised for a function of theirs lets C code overrun the stack, too.
    lower = sys.version_info < (3, 12) and limit > _C_LIMIT
    try:
        if lower:
            sys.setrecursionlimit(_C_LIMIT)
        pickler.dump(obj)
    except RecursionError:
        return None
    finally:
        if lower:
            sys.setrecursionlimit(limit)
    return pickler.file.getvalue()


class _Unpickler(pickle.Unpickler):
    """The C unpickler; what pickle calls `__main__` is the resolver's business."""

    def __init__(self, namespace: dict[str, Any], data: bytes, buffers: Iterable[Any]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._namespace = namespace
        self._nans: dict[str, float] = {}

    def persistent_load(self, word: Any) -> Any:
        """Return what `SpecialPickler` gave a word to."""
        if type(word) is tuple:
            _, module, attribute = word
            return getattr(importlib.import_module(module), attribute)
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
            try:
                return original(super().find_class(module, name))
            except AttributeError:
                # A method that a library gives its classes under other Pythons only.
                if module.partition(".")[0] not in sys.stdlib_module_names:
                    raise
                return rebuild.missing_of_library(module, name)
        return rebuild._main(tuple(name.split(".")))


def _dill_is_right(value: object) -> bool:
    """Allow dill only where it is right and pickle knows nothing; for files, locks and threads it is wrong."""
    return (plainly.module(type(value)), plainly.qualname(type(value))) == ("builtins", "PyCapsule")
