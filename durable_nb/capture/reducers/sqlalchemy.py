"""The library's named constants are those of the process: pickle would give them the numbers of the lost one.

Merged into the plug-in by `load` once sqlalchemy is imported. Engines, connections and sessions are reported.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import SHARING, Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "sqlalchemy"

_OPEN = (
    "sqlalchemy.engine.base.Connection",
    "sqlalchemy.engine.base.Engine",
    "sqlalchemy.engine.base.Transaction",
    "sqlalchemy.engine.cursor.CursorResult",
    "sqlalchemy.ext.asyncio.engine.AsyncConnection",
    "sqlalchemy.ext.asyncio.engine.AsyncEngine",
    "sqlalchemy.ext.asyncio.session.AsyncSession",
    "sqlalchemy.orm.session.Session",
    "sqlalchemy.pool.base.Pool",
)
_ATTRIBUTE = "sqlalchemy.orm.attributes.InstrumentedAttribute"
_ADAPTER = "sqlalchemy.orm.collections.CollectionAdapter"


def _make_symbol(name: str, value: int) -> Any:
    symbol = sys.modules["sqlalchemy.util.langhelpers"].symbol
    known = symbol.symbols.get(name)
    return symbol(name, canonical=value) if known is None else known


@promise("exact")
def _symbol(symbol: Any) -> tuple[Any, ...]:
    return _make_symbol, (symbol.name, int(symbol))


@promise("reported", "it is open only in the process that made it")
def _open(obj: Any) -> tuple[Any, ...]:
    kind = f"SQLAlchemy {type(obj).__name__}"
    raise Unstorable(f"a connection to a database ({kind}) is open only in the process that made it; make it in a cell")


def _make_adapter(cls: Any) -> Any:
    return cls.__new__(cls)


def _fill_adapter(adapter: Any, state: dict[str, Any]) -> None:
    adapter._key, adapter.attr, adapter.owner_state = state["key"], state["attr"], state["owner_state"]
    adapter.invalidated, adapter.empty = state["invalidated"], state["empty"]
    adapter._data = weakref.ref(state["data"])
    state["data"]._sa_adapter = adapter


@promise("exact")
def _adapter(adapter: Any) -> tuple[Any, ...]:
    # Its own way looks its attribute up in the class, which need not be whole yet.
    state = {**adapter.__getstate__(), "attr": adapter.attr}
    return _make_adapter, (type(adapter),), state, None, None, _fill_adapter


def _make_attribute_of(cls: Any) -> Any:
    return object.__new__(cls)


def _fill_attribute_of(attribute: Any, state: tuple[dict[str, Any] | None, dict[str, Any]]) -> None:
    if state[0]:
        vars(attribute).update(state[0])
    for name, value in state[1].items():
        object.__setattr__(attribute, name, value)


@promise("exact")
def _attribute(attribute: Any) -> Any:
    # Its own way looks it up in its class: right where the class is stored elsewhere, but not as a part of the class.
    cls, sharing = attribute.class_, SHARING.get()
    home = cls.__qualname__.partition(".")[0]
    inside = cls.__module__ == "__main__" and sharing is not None and home in sharing.own
    if not inside or vars(cls).get(attribute.key) is not attribute:
        return attribute.__reduce_ex__(5)
    state: Any = object.__getstate__(attribute)
    parts = state if isinstance(state, tuple) else (state, {})
    return _make_attribute_of, (type(attribute),), parts, None, None, _fill_attribute_of


def _one_of_process(obj: Any) -> Iterable[Any] | None:
    return None


def plugin() -> Plugin:
    """Return what SQLAlchemy needs."""
    symbol = sys.modules["sqlalchemy.util.langhelpers"].symbol
    return Plugin(
        subclasses=(
            (symbol, _symbol),
            (named(*_OPEN), _open),
            (named(_ADAPTER), _adapter),
            (named(_ATTRIBUTE), _attribute),
        ),
        referents={symbol: _one_of_process},
    )
