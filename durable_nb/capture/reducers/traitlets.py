"""Objects with traits keep the handlers that observe and validate them; traitlets' own pickling drops those silently.

Merged into the plug-in by `load` once traitlets is imported, which is always in a kernel. `describe` and `_fill_traits`
serve `ipywidgets`, whose widgets are such objects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers.builtins import _make_attribute

LIBRARY = "traitlets"

# What `HasTraits` keeps in the instance, besides what the user puts there.
_OWN = frozenset({"_trait_values", "_trait_notifiers", "_trait_validators", "_cross_validation_lock"})


def _traitlets() -> Any:
    return sys.modules["traitlets"]


def usual(cls: type) -> bool:
    """Tell whether objects of a class are pickled the way traitlets does it, with no hook of the class's own."""
    base = _traitlets().HasTraits
    hooks = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")
    return all(getattr(cls, name, None) is getattr(base, name, None) for name in hooks)


def describe(obj: Any, *, without: Iterable[str] = ()) -> dict[str, Any]:
    """Return values, added handlers and attributes of an object, except the traits and attributes named."""
    left_out = frozenset(without) | _OWN
    own = vars(obj)
    handler = _traitlets().EventHandler
    observers = [
        (name, kind, [h for h in handlers if not isinstance(h, handler)])
        for name, kinds in own["_trait_notifiers"].items()
        for kind, handlers in kinds.items()
    ]
    return {
        "values": {name: value for name, value in own["_trait_values"].items() if name not in left_out},
        "observers": [found for found in observers if found[2]],
        "validators": {n: h for n, h in own["_trait_validators"].items() if not isinstance(h, handler)},
        "attributes": {name: value for name, value in own.items() if name not in left_out},
    }


def _make_traits(cls: Any) -> Any:
    # Without `__init__`; what the class itself observes and validates is wired up by `__new__`.
    return cls.__new__(cls)


def _fill_traits(obj: Any, state: Mapping[str, Any]) -> None:
    own = vars(obj)
    own["_trait_values"].clear()
    own["_trait_values"].update(state["values"])
    for name, kind, handlers in state["observers"]:
        own["_trait_notifiers"].setdefault(name, {}).setdefault(kind, []).extend(handlers)
    own["_trait_validators"].update(state["validators"])
    own.update(state["attributes"])


@promise("exact")
def _has_traits(obj: Any) -> Any:
    if not usual(type(obj)):
        return NotImplemented
    return _make_traits, (type(obj),), describe(obj), None, None, _fill_traits


@promise("exact")
def _sentinel(sentinel: Any) -> Any:
    # `Undefined` and `All` are compared by identity.
    where = (str(sentinel.module), str(sentinel.name))
    found = getattr(sys.modules.get(where[0]), where[1], None)
    return (_make_attribute, where) if found is sentinel else NotImplemented


def plugin() -> Plugin:
    """Return what traitlets needs."""
    traitlets = _traitlets()
    return Plugin(exact={type(traitlets.Undefined): _sentinel}, subclasses=((traitlets.HasTraits, _has_traits),))
