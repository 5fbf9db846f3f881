"""What the notebook registered in libraries that do not give it back: named, so that no loss is silent.

Used by `process_libs`. Nothing here imports a library.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from durable_nb.capture.process_options import Library
from durable_nb.capture.reducers.sqlalchemy import wrapped
from durable_nb.model import Json, Unsaved

__all__ = ["ArrowFunctions", "SqlalchemyEvents"]

_REASON = "it is registered in the process only; run the cell that registers it again"


class _Registered(Library, ABC):
    """Names of registrations: stored to be reported, while they are there and after a restore that lacks them."""

    kind = ""

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Return what the notebook registered."""

    def mark(self) -> list[str]:
        return sorted(set(self.names()))

    def base(self, mark: Any) -> Any:
        return []

    def dump(self, mark: list[str]) -> Json:
        return list(mark)

    def lost(self, mark: list[str]) -> list[Unsaved]:
        return [Unsaved(name=self.name, path=name, type=self.kind, reason=_REASON) for name in mark]

    def load(self, value: Any) -> list[Unsaved]:
        there = set(self.mark())
        return self.lost([name for name in value if name not in there])


class ArrowFunctions(_Registered):
    """Functions registered for `pyarrow.compute`: Arrow does not tell which Python function is behind a name."""

    name = "pyarrow.functions"
    needs = "pyarrow.compute"
    kind = "compute function"

    def names(self) -> Iterable[str]:
        compute = sys.modules[self.needs]
        # Those that Arrow brings along have a Python function of their name, but for the ones that only groupings use.
        nameless = set(compute.function_registry().list_functions()).difference(vars(compute))
        return [n for n in nameless if not hasattr(compute, n) and not _own(n)]


def _own(name: str) -> bool:
    return name == "count_all" or name.startswith("hash_")


class SqlalchemyEvents(_Registered):
    """Listeners to classes of SQLAlchemy itself, such as all sessions, and to what is mapped later."""

    name = "sqlalchemy.events"
    needs = "sqlalchemy.event.registry"
    kind = "listener"

    def names(self) -> Iterator[str]:
        level = sys.modules["sqlalchemy.event.attr"]._ClsLevelDispatch
        for reference, listeners in list(sys.modules[self.needs]._collection_to_key.items()):
            collection = reference()
            if type(collection) is level:
                for listener in list(listeners):
                    if any(getattr(one, "__module__", None) == "__main__" for one in wrapped(listener())):
                        yield f"{collection.clsname}.{collection.name}"
        orm = sys.modules.get("sqlalchemy.orm.events")
        for kind in ("_InstanceEventsHold", "_MapperEventsHold"):
            for cls, held in list(getattr(getattr(orm, kind, None), "all_holds", {}).items()):
                if cls.__module__ == "__main__":
                    yield from (f"{cls.__qualname__}.{key[1]}" for key in held)
