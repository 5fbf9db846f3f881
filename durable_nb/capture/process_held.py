"""Objects of the notebook that something outside the namespace holds: a hook, a handler, an option, a magic.

Used by the trackers of `process`. An object is described by the variable that holds it, by where it can be imported, or
by value, bound to the live namespace when it is made again; describing changes nothing. Descriptions are JSON.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib
import json
import pickle
import re
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from durable_nb.capture import files_read, plainly
from durable_nb.capture.codec import Codec, Failed
from durable_nb.capture.definitions import Definitions, importable
from durable_nb.capture.foreign import codes
from durable_nb.capture.groups import partition
from durable_nb.capture.lazy_builtins import LazyBuiltins
from durable_nb.capture.module_values import plain_type
from durable_nb.capture.process_modules import is_local_module
from durable_nb.capture.reducers import load
from durable_nb.model import Json, Unsaved

__all__ = ["HELD", "Held", "HeldTracker", "Lost", "canonical", "live_shell", "make_way", "mine", "wraps"]

HELD = "durable_nb.held"  # the key beside plainly pickled options under which descriptions stand
_SHELLS = re.compile(r"_+|_i+|_i?\d+|In|Out|_ih|_oh|_dh|exit|quit|open|get_ipython|__\w+__")
_PLAIN = frozenset({bool, int, float, str, type(None)})
_MAX_BYTES = 1 << 22  # a manifest holds these bytes
_EXACT = 2**53  # whole numbers beyond it do not survive every JSON reader


class Lost(Exception):
    """An object cannot be described or made again; `args[0]` is the reason in plain words."""


def live_shell() -> Any:
    """Return the shell that `IPython.get_ipython()` gives, None if there is none; IPython must be imported."""
    # That one is found again by IPython each time it is asked for, which takes longer than what is asked of the shell.
    core = sys.modules.get("IPython.core.interactiveshell")
    try:
        return core.InteractiveShell._instance  # type: ignore[union-attr]
    except AttributeError:
        return sys.modules["IPython"].get_ipython()


def mine(obj: Any) -> bool:
    """Tell whether an object is of the notebook or of a local module: what libraries register they register again."""
    cls = type(obj)
    if cls is types.MethodType:
        return mine(obj.__self__) or mine(obj.__func__)
    if cls is functools.partial:
        return mine(obj.func)
    named = cls is types.FunctionType or issubclass(cls, type)
    module = plainly.home(obj) if named else plainly.module(cls)
    return module == "__main__" or (module != "" and is_local_module(module))


class Held:
    """Describes objects and makes them again, by the live namespace."""

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        self._namespace = namespace
        self._known: dict[int, tuple[Any, Json]] = {}

    @property
    def namespace(self) -> dict[str, Any]:
        """The live namespace; without a notebook that of `__main__`."""
        return vars(sys.modules["__main__"]) if self._namespace is None else self._namespace

    def describe(self, obj: Any) -> Json:
        """Return how to find or make the object again; raises `Lost`."""
        if plain_type(obj) in _PLAIN and not (type(obj) is int and abs(obj) > _EXACT):
            return ["plain", obj]
        if type(obj) is tuple:
            return ["tuple", *(self.describe(item) for item in obj)]
        if plainly.is_a(obj, type | types.FunctionType | types.BuiltinFunctionType) and importable(obj):
            return ["import", obj.__module__, obj.__qualname__]
        name = self.variable(obj)
        if name:
            return ["name", name]
        if type(obj) is types.MethodType and getattr(obj.__self__, obj.__name__, None) == obj:
            return ["method", self.describe(obj.__self__), obj.__name__]
        return self.by_value(obj)

    def variable(self, obj: Any) -> str:
        """Return the name of a variable that holds this very object, or ""."""
        namespace = self.namespace
        own = str(getattr(obj, "__name__", ""))
        if own and namespace.get(own) is obj:
            return own
        return next((n for n, value in list(namespace.items()) if value is obj and not _SHELLS.fullmatch(n)), "")

    def _codec(self) -> Codec:
        names = {n: value for n, value in list(self.namespace.items()) if not _SHELLS.fullmatch(n)}
        definitions, plugin = Definitions(names), load(sys.modules)
        codec = Codec(self.namespace, plugin)
        codec.bind(definitions, partition({}, definitions, plugin, never=[self.namespace]))
        return codec

    def by_value(self, obj: Any) -> Json:
        """Return what an object can be made of again, bound to the namespace; raises `Lost`."""
        fixed = type(obj) is types.FunctionType
        if fixed and id(obj) in self._known:
            return self._known[id(obj)][1]
        codec = self._codec()
        try:
            dumped = codec.dump(("",), {"": obj})
        except Failed as failed:
            raise Lost(str(failed.args[0])) from None
        if dumped.size_bytes > _MAX_BYTES:
            raise Lost(f"it is large ({dumped.size_bytes} bytes) and no variable holds it")
        parts = [base64.b64encode(bytes(part)).decode() for part in (dumped.pickle, *dumped.buffers)]
        code = ["pickle", _fingerprint(obj, codec) if fixed else dumped.digest, *parts]
        if fixed:  # its code never changes, and keeping it keeps its id
            self._known[id(obj)] = (obj, code)
        return code

    def make(self, code: Json) -> Any:
        """Return the object of a description; raises `Lost`."""
        kind, *rest = code
        if kind == "plain":
            return rest[0]
        if kind == "tuple":
            return tuple(self.make(item) for item in rest)
        if kind == "name":
            return self._resolve(rest[0])
        if kind == "method":
            return getattr(self.make(rest[0]), rest[1])
        if kind == "import":
            return _imported(rest[0], rest[1])
        data, *buffers = (base64.b64decode(part) for part in rest[1:])
        try:
            with files_read.loading():
                return self._codec().load(data, [bytearray(b) for b in buffers], self._resolve)[""]
        except Failed as failed:
            raise Lost(str(failed.args[0])) from None

    def _resolve(self, name: str) -> object:
        if name in self.namespace:
            return self.namespace[name]
        asked = self.namespace.get("__builtins__")
        found = asked.find(name) if isinstance(asked, LazyBuiltins) else None  # it may only not be loaded yet
        if found is None:
            raise Lost(f"the variable {name} that it was made of is not there")
        return found[0]


def _imported(module: str, path: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise Lost(f"{module}.{path} could not be found: {error}") from None
    return found


def _fingerprint(function: types.FunctionType, codec: Codec) -> str:
    """Return a digest of what a function does, the same in every kernel: file names of cells hold process ids."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *cells]
    contents = []
    for value in held:
        if type(value) is types.FunctionType:
            contents.append(_fingerprint(value, codec) if value is not function else "itself")
            continue
        try:
            contents.append(codec.dump(("",), {"": value}).digest)
        except Failed:
            contents.append(plainly.qualname(type(value)))
    text = repr((function.__qualname__, _code(function.__code__), contents))
    return hashlib.sha256(text.encode()).hexdigest()


def _code(code: types.CodeType) -> Any:
    consts = [
        _code(c) if isinstance(c, types.CodeType) else sorted(map(repr, c)) if isinstance(c, frozenset) else repr(c)
        for c in code.co_consts
    ]
    return (code.co_code.hex(), consts, code.co_names, code.co_varnames, code.co_freevars, code.co_flags)


def wraps(obj: Any, before: Any) -> bool:
    """Tell whether a function or object of the notebook passes on to what was in its place before.

    Put back by itself it would pass on to itself as soon as the cell runs again that takes what is there and wraps it.
    """
    function: Any = obj.__func__ if type(obj) is types.MethodType else obj
    if type(function) is types.FunctionType:
        names = {n for code in (function.__code__, *codes(function.__code__)) for n in code.co_names}
        held = [function.__globals__.get(name) for name in names]
        held += [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
        held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    else:
        held = list((plainly.own_dict(obj) or {}).values())
    return any(one is before for one in held)


def make_way(there: list[Any], restored: list[Any]) -> None:
    """Take away from a list what a restore put there if a cell that ran again has put the same there anew."""
    for old in list(restored):
        place = next((i for i, one in enumerate(there) if one is old), None)
        again = any(one is not old and mine(one) and _likeness(one) == _likeness(old) for one in there)
        if place is None or again:
            restored[:] = [one for one in restored if one is not old]
        if place is not None and again:
            del there[place]


def _likeness(obj: Any) -> Any:
    """Return what two objects have in common that the same cell made: the cell ran again, in another kernel."""
    if type(obj) is types.MethodType:
        return (_likeness(obj.__self__), obj.__name__)
    if type(obj) is types.FunctionType:
        nameless = obj.__name__ == "<lambda>"
        return (obj.__qualname__, repr(_code(obj.__code__)) if nameless else "")
    return plainly.qualname(type(obj))


def canonical(value: Json | bytes) -> bytes:
    """Return the bytes that a component's digest is of: objects by value count by what they do."""
    if isinstance(value, bytes):
        if HELD.encode() not in value:
            return value
        options = pickle.loads(value)
        held = options.pop(HELD)
        return pickle.dumps(options, protocol=5) + canonical(held)
    return json.dumps(_short(value), sort_keys=True, separators=(",", ":")).encode()


def _short(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if len(value) > 2 and value[0] == "pickle":
            return list(value[:2])
        return [_short(item) for item in value]
    return value


class HeldTracker(ABC):
    """A component of objects by key; what they are and where they hang is the subclass's business."""

    name = ""
    needs = ""
    advice = "run the cell that sets it again"
    fixed = False  # whether its objects never change once they are there, so that one description is enough

    def __init__(self, held: Held) -> None:
        self.held = held
        self._why: dict[str, tuple[str, str]] = {}
        self._last: dict[str, tuple[Any, Json]] = {}

    @abstractmethod
    def entries(self) -> Mapping[str, Any]:
        """Return the objects that are not as they were in an untouched process, by key."""

    @abstractmethod
    def put(self, key: str, value: Any) -> None:
        """Hang an object where the key says."""

    @abstractmethod
    def drop(self, key: str) -> None:
        """Make what the key says untouched again."""

    def refusal(self, key: str, value: Any) -> str | None:
        """Return why an entry is not to come back although it could, else None."""
        return None

    def describe(self, value: Any) -> Json:
        """Return a description of one entry."""
        return self.held.describe(value)

    def make(self, code: Json) -> Any:
        """Return the entry of a description."""
        return self.held.make(code)

    def mark(self) -> dict[str, Json]:
        """Return the description of each entry, None for one that has none."""
        mark: dict[str, Json] = {}
        self._why = {}
        for key, value in self.entries().items():
            last = self._last.get(key)
            if last is not None and last[0] is value:
                mark[key] = last[1]
                continue
            try:
                if (reason := self.refusal(key, value)) is not None:
                    raise Lost(reason)
                mark[key] = self.describe(value)
                if self.fixed and mark[key][0] == "pickle":
                    self._last[key] = (value, mark[key])
            except Lost as lost:
                mark[key] = None
                self._why[key] = (plainly.name(type(value)), str(lost.args[0]))
            except Exception as error:  # it is the user's, and was asked for its name; the others are described
                mark[key] = None
                self._why[key] = (plainly.name(type(value)), f"it cannot be looked at ({type(error).__name__})")
        return mark

    def base(self, mark: Any) -> Any:
        """Return the untouched state: no entry."""
        return {}

    def dump(self, mark: dict[str, Json]) -> Json:
        """Return what has a description, in order."""
        return [[key, code] for key, code in mark.items() if code is not None]

    def lost(self, mark: dict[str, Json]) -> list[Unsaved]:
        """Return what has none."""
        return [self.unsaved(key, *self._why[key]) for key, code in mark.items() if code is None]

    def load(self, value: Any) -> list[Unsaved]:
        """Hang up what is stored and take away all else; return what could not be made again."""
        problems = []
        kept = {key for key, _ in value}
        for key in [k for k in self.entries() if k not in kept]:
            self.drop(key)
        for key, code in value:
            try:
                self.put(key, self.make(code))
            except Exception as error:  # classes of the notebook and of libraries run here
                problems.append(self.unsaved(key, "object", str(error.args[0] if error.args else error)))
        return problems

    def unsaved(self, key: str, kind: str, reason: str) -> Unsaved:
        """Return the report of one entry."""
        return Unsaved(name=self.name, path=key, type=kind, reason=f"{reason}; {self.advice}")
