"""Numbers of mpmath stay those of their context, and the contexts that the module offers stay the ones of the process.

Merged into the plug-in by `load` once mpmath is imported; sympy imports it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mpmath

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers.builtins import _make_attribute

LIBRARY = "mpmath"

_GLOBAL = ("mp", "fp", "iv")
numbers: Any = mpmath.ctx_mp_python


def _global_name(context: Any) -> str | None:
    return next((name for name in _GLOBAL if getattr(mpmath, name, None) is context), None)


def _make_context(prec: int, pretty: bool, trap_complex: bool) -> Any:
    made = mpmath.ctx_mp.MPContext()
    made.prec, made.pretty, made.trap_complex = prec, pretty, trap_complex
    return made


@promise("exact")
def _context(context: Any) -> Any:
    name = _global_name(context)
    if name is not None:
        return _make_attribute, ("mpmath", name)
    if type(context) is not mpmath.ctx_mp.MPContext:
        return NotImplemented
    return _make_context, (context.prec, context.pretty, context.trap_complex)


def _context_referents(context: Any) -> Iterable[Any] | None:
    return None if _global_name(context) is not None else ()


def _make_number(context: Any, maker: str, value: Any) -> Any:
    return getattr(context, maker)(value)


@promise("exact")
def _number(number: Any) -> Any:
    if isinstance(number, numbers._constant):
        return _make_constant, (number.context, number.name)
    if isinstance(number, numbers._mpc):
        return _make_number, (number.context, "make_mpc", number._mpc_)
    return _make_number, (number.context, "make_mpf", number._mpf_)


def _make_constant(context: Any, name: str) -> Any:
    known = (value for value in vars(context).values() if isinstance(value, numbers._constant))
    return next(value for value in known if value.name == name)


@promise("exact")
def _interval(number: Any) -> Any:
    if isinstance(number, mpmath.ctx_iv.ivmpc):
        return _make_number, (number.ctx, "make_mpc", number._mpci_)
    return _make_number, (number.ctx, "make_mpf", number._mpi_)


def _make_matrix(context: Any) -> Any:
    return context.matrix.__new__(context.matrix)


@promise("exact")
def _matrix(matrix: Any) -> Any:
    return _make_matrix, (matrix.ctx,), dict(vars(matrix))


def _make_rational(p: Any, q: Any) -> Any:
    return mpmath.rational.mpq(p, q)


@promise("exact")
def _rational(number: Any) -> Any:
    return _make_rational, number._mpq_


def plugin() -> Plugin:
    """Return what mpmath needs."""
    contexts = {type(getattr(mpmath, name)) for name in _GLOBAL}
    return Plugin(
        exact={mpmath.rational.mpq: _rational, **dict.fromkeys(contexts, _context)},
        subclasses=(
            (numbers._mpf, _number),
            (numbers._mpc, _number),
            (mpmath.matrices.matrices._matrix, _matrix),
            (mpmath.ctx_iv.ivmpf, _interval),
            (mpmath.ctx_iv.ivmpc, _interval),
        ),
        referents=dict.fromkeys(contexts, _context_referents),
    )
