"""Objects whose class stores nothing of them, `return (Cp, ())`: what they hold is either made anew, or reported.

Called by `pickler` for classes of the notebook with hooks of their own, and by a load. Changes nothing.
"""

from __future__ import annotations

import copyreg
import types
from functools import cached_property
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.reducers import Unstorable

__all__ = ["guarded"]

_FREE = (type, types.FunctionType, types.BuiltinFunctionType)


def guarded(obj: Any, reduced: Any) -> tuple[Any, str | None]:
    """Return a reduction that does not load unless the object has its attributes again, and a mark to prove it by.

    Only of a class that hands on nothing at all: one that hands on arguments or a state, be it an empty one, has chosen
    what lasts, and what it leaves out (a lock, a cache) is meant to go. Of one that hands on nothing, what its
    constructor makes again is meant to be new (a lock, a connection, a time), so values are not compared; what is not
    made again would be lost without a word.
    """
    if not isinstance(reduced, tuple) or len(reduced) < 2 or not isinstance(reduced[1], tuple):
        return reduced, None  # pickle says best what is wrong with it
    function, arguments, *more = reduced
    bare = plainly.is_a(function, _FREE) and all(value is None or plainly.is_a(value, type) for value in arguments)
    if not bare or any(part is not None for part in more):
        return reduced, None
    names = tuple(sorted(_attributes(obj)))
    if not names:
        return reduced, None
    cls = type(obj)
    mark = f"unstated:{cls.__module__}.{cls.__qualname__}:{','.join(names)}"
    return (function, arguments, names, None, None, _expect), mark


def _expect(made: Any, names: tuple[str, ...]) -> None:
    """Raise if an object has been made without attributes that it had."""
    missing = [name for name in names if name not in _attributes(made)]
    if missing:
        raise Unstorable(
            f"class {type(made).__qualname__} stores nothing of its objects, and what it makes instead lacks "
            f"{', '.join(missing)}; return what is to be kept from its __reduce__ or __getstate__"
        )


def _attributes(obj: Any) -> set[str]:
    """Return the names of what an object itself holds, but for what is computed again when it is asked for."""
    cls = type(obj)
    try:
        found = set(object.__getattribute__(obj, "__dict__"))
    except AttributeError:
        found = set()
    for name in copyreg._slotnames(cls):  # type: ignore[attr-defined]
        try:
            object.__getattribute__(obj, name)
        except AttributeError:
            continue
        found.add(name)
    computed = {
        name for base in cls.__mro__ for name, value in vars(base).items() if plainly.is_a(value, cached_property)
    }
    return found - computed
