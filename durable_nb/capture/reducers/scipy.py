"""Special functions of scipy are the ones that the module offers.

Merged into the plug-in by `load` once scipy is imported. Matrices, fits and distributions pickle by themselves, and a
frozen distribution keeps drawing from the global stream of numpy (see `numpy`).
"""

from __future__ import annotations

import copyreg
import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named
from durable_nb.capture.reducers.builtins import _make_attribute

LIBRARY = "scipy"


@promise("exact")
def _special(function: Any) -> Any:
    name = function.__name__
    offered = getattr(sys.modules.get("scipy.special"), name, None)
    return (_make_attribute, ("scipy.special", name)) if offered is function else NotImplemented


@promise("exact")
def _distribution(distribution: Any) -> Any:
    # Everybody's `stats.norm` is one object; frozen ones hold a copy, which pickles by itself.
    name = getattr(distribution, "name", None)
    if isinstance(name, str) and getattr(sys.modules["scipy.stats"], name, None) is distribution:
        return _make_attribute, ("scipy.stats", name)
    return NotImplemented


def _make_normal(cls: Any) -> Any:
    return object.__new__(cls)


@promise("exact")
def _normal(distribution: Any) -> Any:
    # Without arguments, as pickle calls it, its `__new__` makes a standard one, of another class.
    function, args, *rest = distribution.__reduce_ex__(5)
    return (_make_normal, (type(distribution),), *rest) if function is copyreg.__newobj__ else (function, args, *rest)  # type: ignore[attr-defined]


def plugin() -> Plugin:
    """Return what scipy needs."""
    return Plugin(
        subclasses=(
            (named("scipy.special._multiufuncs.MultiUFunc"), _special),
            (named("scipy.stats._distn_infrastructure.rv_generic"), _distribution),
            (named("scipy.stats._new_distributions.Normal"), _normal),
        )
    )
