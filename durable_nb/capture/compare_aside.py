"""Where a live value is compared with the copy that was stored: here, or in a child if the copy may do something.

Called by `namespace`. A copy runs code of the notebook when it is loaded, when it says what it consists of, and when it
goes: it could take a file with it that the live one uses.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from durable_nb.capture.aside import CAN_FORK, aside
from durable_nb.capture.process_modules import is_local_module

__all__ = ["compared"]

TIMEOUT_S: Final = 15.0
COMPARED_BYTES_PER_S: Final = 10e6  # what even a busy machine loads and compares in a second
_IN_C: Final = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType)


def compared(work: Callable[[list[Any]], Iterator[str | None]], kinds: Iterable[str], size_bytes: int) -> str | None:
    """Return the one answer of `work`: how the copy differs, None for not at all. `kinds` are what it is made of.

    What `work` puts into the list that it is given goes when the answer is there, or in a child never.
    """
    kind = next((kind for kind in sorted(kinds) if _may_act(kind)), None)
    if kind is None:
        return next(work([]))
    if not CAN_FORK:
        if _ends_with_effect(_named(kind)):
            return f"a {kind} cannot be compared, because a copy does something when it goes"
        return next(work([]))
    answers, end = aside(work, TIMEOUT_S + size_bytes / COMPARED_BYTES_PER_S)
    if answers:
        return None if answers[0] is None else str(answers[0])
    return f"a {kind} cannot be compared: comparing in a child process {end}"


def _may_act(kind: str) -> bool:
    """Tell whether a type, by its full name, has code of the notebook's or a finalizer, or is not to be found."""
    cls = _named(kind)
    return cls is None or kind.startswith("__main__.") or is_local_module(cls.__module__) or _ends_with_effect(cls)


def _ends_with_effect(cls: type | None) -> bool:
    return cls is None or any(not isinstance(vars(base).get("__del__", len), _IN_C) for base in cls.__mro__)


def _named(kind: str) -> type | None:
    """Return the type of a full name, None where there is none of that name."""
    parts = kind.split(".")
    for count in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:count]))
        for part in parts[count:]:
            found = vars(found).get(part) if isinstance(found, type | types.ModuleType) else None
        if isinstance(found, type):
            return found
    return None
