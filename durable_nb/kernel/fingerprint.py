"""Fingerprints of variables that are equal when the values are, also across processes and restores.

Used by `demo` (and by tests) to compare the end of an interrupted run with that of an uninterrupted one: a cell of one
line prints what `fingerprints` returns. Compares content and which names share an object, never bytes of a pickle.
"""

from __future__ import annotations

import hashlib
import io
import struct
import types
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["CELL", "fingerprints"]

# The cell that prints the fingerprints of the namespace it runs in, and leaves no name behind.
CELL = (
    "print(__import__('json').dumps(__import__('durable_nb.kernel.fingerprint', fromlist=['fingerprints'])"
    ".fingerprints(globals())))"
)
_SHELL = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_CLASS_NOISE = frozenset({"__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "_abc_impl"})


def fingerprints(namespace: Mapping[str, Any]) -> dict[str, str]:
    """Return name → «type digest» for the user's variables.

    A name that is the same mutable object as an earlier one (in alphabetical order) says so instead.
    """
    found: dict[str, str] = {}
    first: dict[int, str] = {}
    for name in sorted(namespace):
        value = namespace[name]
        if name.startswith("_") or name in _SHELL:
            continue
        earlier = first.setdefault(id(value), name)
        if earlier != name and not isinstance(value, (*_ATOMS, tuple, types.ModuleType)):
            found[name] = f"is {earlier}"
        else:
            found[name] = f"{type(value).__name__} {_digest(value)}"
    return found


def _digest(value: Any) -> str:
    describer = _Describer()
    describer.feed(value)
    return describer.hash.hexdigest()[:16]


class _Describer:
    """Walks one value and hashes what it is made of; what was met before counts by its place, so cycles end."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._met: dict[int, int] = {}
        self._keep: list[Any] = []  # an id stays that of one object only while the object lives

    def _tag(self, *words: object) -> None:
        self.hash.update("\0".join(map(str, words)).encode("utf-8", "backslashreplace") + b"\1")

    def feed(self, value: Any) -> None:
        """Take one value with everything in it."""
        if isinstance(value, _ATOMS):
            self._tag(type(value).__name__, repr(value))
            return
        if not isinstance(value, tuple | frozenset | types.ModuleType) and not _unchangeable(value):
            place = self._met.setdefault(id(value), len(self._met))
            if place != len(self._met) - 1 or len(self._keep) > place:
                self._tag("met", place)
                return
            self._keep.append(value)
        self._feed_new(value)

    def _feed_new(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, types.ModuleType):
            self._tag("module", value.__name__)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, _FUNCTIONS):
            self._function(value)
        elif isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, types.MethodType):
            self._all("method", (value.__func__, value.__self__))
        elif kind in (list, tuple, deque):
            self._all(kind.__name__, value)
        elif kind in (set, frozenset):
            self._all(kind.__name__, sorted(_digest(one) for one in value))
        elif kind is dict:
            self._all("dict", (part for pair in value.items() for part in pair))
        elif not self._library(value):
            self._instance(value)

    def _all(self, kind: str, parts: Iterable[Any]) -> None:
        self._tag(kind)
        for part in parts:
            self.feed(part)
        self._tag("end")

    def _class(self, cls: type) -> None:
        self._tag("class", cls.__module__, cls.__qualname__)
        if cls.__module__ == "__main__":
            plain = {k: v for k, v in vars(cls).items() if k not in _CLASS_NOISE}
            plain = {k: v for k, v in plain.items() if not isinstance(v, types.GetSetDescriptorType)}
            self._all("bases", cls.__bases__)
            self._all("body", (part for key in sorted(plain) for part in (key, plain[key])))

    def _function(self, function: Any) -> None:
        self._tag("function", function.__module__, function.__qualname__)
        if isinstance(function, types.FunctionType) and function.__module__ == "__main__":
            self._code(function.__code__)
            cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
            self._all("with", (function.__defaults__, function.__kwdefaults__, cells))

    def _code(self, code: types.CodeType) -> None:
        self._tag("code", code.co_name, code.co_code.hex(), code.co_names, code.co_varnames)
        self._all("constants", code.co_consts)

    def _library(self, value: Any) -> bool:
        """Take a value of a library whose pickles say more than the value is; tell whether it was one."""
        module = type(value).__module__.partition(".")[0]
        if module == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
            self._array(value)
        elif module == "pandas" and hasattr(value, "dtypes") and hasattr(value, "columns"):
            columns = [_digest(value.iloc[:, i].to_numpy()) for i in range(len(value.columns))]
            self._all("frame", (list(value.columns), value.index, [str(d) for d in value.dtypes], columns))
        elif module == "pandas" and hasattr(value, "to_numpy"):
            index = value.index if hasattr(value, "index") and hasattr(value.index, "to_numpy") else None
            self._all("series", (str(value.dtype), value.name, _digest(value.to_numpy()), index))
        elif module == "matplotlib":
            self._figure(value)
        else:
            return False
        return True

    def _array(self, array: Any) -> None:
        self._tag("array", type(array).__name__, array.dtype.str, getattr(array, "shape", ()))
        if array.dtype.names:
            # Between the fields of a record there may be bytes that mean nothing.
            self._all("fields", (array[name] for name in array.dtype.names))
        elif array.dtype.hasobject:
            self._all("objects", array.ravel().tolist())
        else:
            self.hash.update(array.tobytes())

    def _figure(self, value: Any) -> None:
        self._tag(type(value).__qualname__)
        if hasattr(value, "savefig"):
            pixels = io.BytesIO()
            value.savefig(pixels, format="rgba")
            self.hash.update(pixels.getvalue())

    def _instance(self, value: Any) -> None:
        self._tag("instance", type(value).__module__, type(value).__qualname__)
        try:
            reduced = value.__reduce_ex__(4)
        except (TypeError, AttributeError, ValueError, NotImplementedError, struct.error):
            return  # a connection, a lock, a generator: there is nothing to compare but its type
        if isinstance(reduced, str):
            self._tag(reduced)
            return
        for part in reduced:
            self.feed(list(part) if hasattr(part, "__next__") else part)


def _unchangeable(value: Any) -> bool:
    """Tell whether a library's value cannot change, so that nobody can tell one from its copy."""
    module = type(value).__module__.partition(".")[0]
    if module == "pandas":
        return hasattr(value, "to_numpy") and not hasattr(value, "iloc")  # an index
    return module == "numpy" and not hasattr(value, "tobytes") and hasattr(value, "itemsize")  # a dtype


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 an empty cell raises
    except ValueError:
        return False
    return True
