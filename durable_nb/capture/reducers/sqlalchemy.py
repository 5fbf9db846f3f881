"""The library's named constants are those of the process: pickle would give them the numbers of the lost one.

Listeners of events come back with what they listen to, those of relationships too.
Merged into the plug-in by `load` once sqlalchemy is imported. Engines, connections and sessions are reported.
"""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
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


_ONCE = ("_exec_once", "_exec_w_sync_once", "_is_asyncio")


def _fill_dispatch(dispatch: Any, state: dict[str, Any]) -> None:
    known = sys.modules["sqlalchemy.event.registry"]
    for name, value in state["plain"].items():
        setattr(dispatch, name, value)
    for name, (listeners, inherited, once) in state["listeners"].items():
        held = getattr(dispatch, name).for_modify(dispatch)
        held.listeners.extend(listeners)
        held.propagate.update(one for one, also in zip(listeners, inherited, strict=True) if also)
        for flag, value in zip(_ONCE, once, strict=True):
            setattr(held, flag, value)
    for name, listener, target, event, function in state["keys"]:
        # What `event.contains` and `event.remove` go by, and `event.listen` so that nothing listens twice.
        key = known._EventKey(target, event, function, target, _fn_wrap=listener)
        known._stored_in_collection(key, getattr(dispatch, name))


@promise("exact")
def _dispatch(dispatch: Any) -> Any:
    # Its own way leaves all listeners out, those that keep both sides of a relationship alike too.
    make, args = dispatch.__reduce__()
    held = _collections(dispatch)
    state = {
        "plain": dict(vars(dispatch)),
        "listeners": {
            one.name: (
                list(one.listeners),
                [listener in one.propagate for listener in one.listeners],
                [getattr(one, flag) for flag in _ONCE],
            )
            for one in held
        },
        "keys": [(one.name, *key) for one in held for listener in one.listeners for key in _key(one, listener)],
    }
    return make, args, state, None, None, _fill_dispatch


def _collections(dispatch: Any) -> list[Any]:
    """Return what a dispatch holds of listeners of its own; asking it would make empty ones."""
    kind = sys.modules["sqlalchemy.event.attr"]._ListenerCollection
    found = []
    for name in dispatch._event_names:
        try:
            held = object.__getattribute__(dispatch, name)
        except AttributeError:  # nobody has asked for this event yet
            continue
        if type(held) is kind and held.listeners:
            found.append(held)
    return found


def _key(held: Any, listener: Any) -> Iterator[tuple[Any, Any, str, Any]]:
    """Find the call of `event.listen` behind a listener of the notebook: it is on record by numbers of objects."""
    functions = {_number(one): one for one in wrapped(listener)}
    if not any(getattr(one, "__module__", None) == "__main__" for one in functions.values()):
        return
    known = sys.modules["sqlalchemy.event.registry"]._collection_to_key.get(held.ref, {})
    target, event, function = known.get(weakref.ref(listener), (0, "", 0))
    for one in _targets():
        if id(one) == target and function in functions:
            yield listener, one, event, functions[function]
            return


def _number(function: Any) -> Any:
    return (id(function.__func__), id(function.__self__)) if isinstance(function, types.MethodType) else id(function)


def wrapped(listener: Any) -> Iterable[Any]:
    """Return a listener and the functions that it was made around."""
    found, left = {id(listener): listener}, [listener]
    while left:
        # Asked this way, cells that are still empty do not matter.
        for one in gc.get_referents(*(getattr(left.pop(), "__closure__", None) or ())):
            if isinstance(one, types.FunctionType | types.MethodType) and id(one) not in found:
                found[id(one)] = one
                left.append(one)
    return found.values()


def _targets() -> Iterator[Any]:
    """Yield what of the mapped classes can be listened to."""
    for registry in list(getattr(sys.modules.get("sqlalchemy.orm.mapper"), "_all_registries", set)()):
        for mapper in registry.mappers:
            manager = mapper.class_manager
            yield from (mapper.class_, mapper, manager, *manager.values(), mapper.local_table)


def _listening(dispatch: Any) -> Iterable[Any]:
    return [one for held in _collections(dispatch) for one in held.listeners]


def _one_of_process(obj: Any) -> Iterable[Any] | None:
    return None


def plugin() -> Plugin:
    """Return what SQLAlchemy needs."""
    symbol = sys.modules["sqlalchemy.util.langhelpers"].symbol
    dispatch = sys.modules["sqlalchemy.event.base"]._Dispatch
    return Plugin(
        subclasses=(
            (symbol, _symbol),
            (named(*_OPEN), _open),
            (named(_ADAPTER), _adapter),
            (named(_ATTRIBUTE), _attribute),
            (dispatch, _dispatch),
        ),
        referents={symbol: _one_of_process, dispatch: _listening},
    )
