"""Domains and lazy functions of sympy are the ones that the module offers; polynomials keep their domain.

Merged into the plug-in by `load` once sympy is imported. Other expressions pickle by themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise
from durable_nb.capture.reducers._named import named
from durable_nb.capture.reducers.builtins import _make_attribute

LIBRARY = "sympy"

_OFFERED = (
    "sympy.core.cache.lazy_function.<locals>.LazyFunction",
    "sympy.core.singleton.SingletonRegistry",
    "sympy.assumptions.ask.AssumptionKeys",
)


def _make_field(cls: Any, prec: int) -> Any:
    return cls(prec=prec)


def _make_finite(mod: Any, symmetric: bool) -> Any:
    return sys.modules["sympy.polys.domains"].FiniteField(mod, symmetric)


@promise("exact")
def _domain(domain: Any) -> Any:
    for name, value in list(vars(sys.modules["sympy.polys.domains"]).items()):
        if value is domain:
            return _make_attribute, ("sympy.polys.domains", name)
    kind = type(domain).__name__
    if kind in ("RealField", "ComplexField"):
        # It holds a context of mpmath, whose number classes are made at run time.
        return _make_field, (type(domain), domain.precision)
    return (_make_finite, (int(domain.mod), domain.sym)) if kind == "FiniteField" else NotImplemented


def _make_modular(mod: Any, symmetric: bool, value: Any) -> Any:
    return _make_finite(mod, symmetric).dtype(value)


@promise("exact")
def _modular(number: Any) -> Any:
    # Every modulus has a class of its own, made at run time.
    return _make_modular, (int(number.mod), number.sym, int(number.val))


def _make_poly(cls: Any, rep: Any, gens: tuple[Any, ...]) -> Any:
    return cls.new(rep, *gens)


@promise("exact")
def _poly(poly: Any) -> Any:
    # Its own way makes it again from the expression, over a domain that may be another one.
    return _make_poly, (type(poly), poly.rep, poly.gens)


def _make_ring(cls: Any, symbols: Any, domain: Any, order: Any) -> Any:
    return cls(symbols, domain, order)


@promise("exact")
def _ring(ring: Any) -> Any:
    # Its own way stumbles over the caches that it wants to leave out.
    return _make_ring, (type(ring), ring.symbols, ring.domain, ring.order)


@promise("exact")
def _offered(obj: Any) -> Any:
    for name, value in list(vars(sys.modules["sympy"]).items()):
        if value is obj:
            return _make_attribute, ("sympy", name)
    raise Unstorable(f"a {type(obj).__name__} that sympy itself does not offer; import it again in a cell")


@promise("exact")
def _sieve(sieve: Any) -> Any:
    # It only remembers primes; what everybody shares is the object.
    return (_make_attribute, ("sympy", "sieve")) if _is_shared(sieve) else NotImplemented


def _is_shared(sieve: Any) -> bool:
    return getattr(sys.modules["sympy"], "sieve", None) is sieve


def _sieve_referents(sieve: Any) -> Iterable[Any] | None:
    return None if _is_shared(sieve) else vars(sieve).values()


def plugin() -> Plugin:
    """Return what sympy needs."""
    sieve = type(sys.modules["sympy"].sieve)
    return Plugin(
        exact={sieve: _sieve},
        referents={sieve: _sieve_referents},
        subclasses=(
            (named("sympy.polys.domains.domain.Domain"), _domain),
            (named("sympy.polys.domains.modularinteger.ModularInteger"), _modular),
            (named("sympy.polys.polytools.Poly"), _poly),
            (named("sympy.polys.rings.PolyRing", "sympy.polys.fields.FracField"), _ring),
            (named(*_OFFERED), _offered),
        ),
    )
