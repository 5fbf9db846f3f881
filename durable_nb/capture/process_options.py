"""What the components of libraries share: options as a mapping, of which only what differs from the defaults is stored.

Used by `process_libs`, `process_plots` and `process_torch`. Nothing here imports a library.
"""

from __future__ import annotations

import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.process_held import HELD, Held, Lost
from durable_nb.model import Json, Unsaved

__all__ = ["Library", "Options"]


class Library:
    """What most components of libraries share: all of the first mark counts, nothing is lost."""

    name = ""
    needs = ""

    def base(self, mark: Any) -> Any:
        return None

    def lost(self, mark: Any) -> list[Unsaved]:
        return []


class Options(Library, ABC):
    """Options of a library as a mapping; plain values are pickled, functions and classes of the notebook described."""

    def __init__(self, held: Held) -> None:
        self.held = held

    def current(self) -> Mapping[str, Any]:
        """Return all options."""
        return {}

    def defaults(self) -> Mapping[str, Any]:
        """Return the values that are not the user's doing."""
        return {}

    @abstractmethod
    def apply(self, changed: Mapping[str, Any]) -> None:
        """Set the options of `changed` and put every other changed one back to its default."""

    def mark(self) -> dict[str, Any]:
        defaults = self.defaults()
        return {k: list(v) if type(v) is list else v for k, v in self.current().items() if defaults.get(k, _NONE) != v}

    def base(self, mark: Any) -> Any:
        return {}

    def dump(self, mark: dict[str, Any]) -> bytes:
        # By key, so that one value that cannot be stored does not cost the others.
        plain: dict[str, Any] = {}
        held: dict[str, Json] = {}
        for key, value in sorted(mark.items()):
            if (data := _pickled(value)) is not None:
                plain[key] = data
            elif (code := self._code(value)) is not None:
                held[key] = code
        return pickle.dumps({**plain, HELD: held} if held else plain, protocol=5)

    def _code(self, value: Any) -> Json:
        """Return a description of what holds functions or classes of the notebook, None if there is none."""
        try:
            if type(value) is dict and all(type(k) is str for k in value):
                return {k: self.held.describe(v) for k, v in value.items()}
            return self.held.describe(value)
        except Lost:
            return None

    def lost(self, mark: dict[str, Any]) -> list[Unsaved]:
        reason = "its value cannot be stored; run the cell that sets it again"
        return [
            Unsaved(name=self.name, path=f"[{k!r}]", type=type(v).__name__, reason=reason)
            for k, v in sorted(mark.items())
            if _pickled(v) is None and self._code(v) is None
        ]

    def load(self, value: bytes) -> list[Unsaved]:
        stored = pickle.loads(value)
        problems = []
        found = {k: pickle.loads(data) for k, data in stored.items() if k != HELD}
        for key, code in stored.get(HELD, {}).items():
            try:
                made = self.held.make
                found[key] = {k: made(c) for k, c in code.items()} if isinstance(code, dict) else made(code)
            except Lost as lost:
                path = f"[{key!r}]"
                problems.append(Unsaved(name=self.name, path=path, type="object", reason=str(lost.args[0])))
        self.apply(found)
        return problems


_NONE = object()


class _OptionPickler(pickle.Pickler):
    """Refuses what lives in the notebook, which is described instead."""

    def reducer_override(self, obj: Any) -> Any:
        if plainly.is_a(obj, type | FunctionType) and plainly.home(obj) == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__} is defined in the notebook")
        return NotImplemented


def _pickled(value: Any) -> bytes | None:
    stream = io.BytesIO()
    try:
        _OptionPickler(stream, protocol=5).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    return stream.getvalue()
