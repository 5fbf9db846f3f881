"""Quantities and units of pint stay those of their own registry; pint's own way moves them to the application's.

Merged into the plug-in by `load` once pint is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "pint"


def _make_application_registry() -> Any:
    return sys.modules["pint"].application_registry


def _make_default_registry() -> Any:
    return sys.modules["pint"].application_registry.get()


def _make_quantity(registry: Any, magnitude: Any, units: Any) -> Any:
    return registry.Quantity(magnitude, units)


def _make_unit(registry: Any, units: Any) -> Any:
    return registry.Unit(units)


def _make_of_class(cls: Any, *args: Any) -> Any:
    return cls(*args)


@promise("exact")
def _quantity(quantity: Any) -> Any:
    if type(quantity) is sys.modules["pint"].Quantity:
        return _make_of_class, (type(quantity), quantity.magnitude, quantity._units)
    return _make_quantity, (quantity._REGISTRY, quantity.magnitude, quantity._units)


@promise("exact")
def _unit(unit: Any) -> Any:
    if type(unit) is sys.modules["pint"].Unit:
        return _make_of_class, (type(unit), unit._units)
    return _make_unit, (unit._REGISTRY, unit._units)


def _is_default(registry: Any) -> bool:
    return sys.modules["pint"].application_registry.get() is registry


@promise("exact")
def _registry(registry: Any) -> Any:
    return (_make_default_registry, ()) if _is_default(registry) else NotImplemented


def _registry_referents(registry: Any) -> Iterable[Any] | None:
    return None if _is_default(registry) else vars(registry).values()


@promise("exact")
def _application_registry(registry: Any) -> Any:
    return _make_application_registry, ()


def _nothing(registry: Any) -> Iterable[Any] | None:
    return None


def plugin() -> Plugin:
    """Return what pint needs."""
    pint = sys.modules["pint"]
    application = type(pint.application_registry)
    return Plugin(
        exact={application: _application_registry},
        subclasses=(
            (named("pint.facets.plain.quantity.PlainQuantity"), _quantity),
            (named("pint.facets.plain.unit.PlainUnit"), _unit),
            (named("pint.facets.plain.registry.GenericPlainRegistry"), _registry),
        ),
        referents={application: _nothing, pint.UnitRegistry: _registry_referents},
    )
