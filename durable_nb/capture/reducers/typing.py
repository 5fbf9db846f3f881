"""Typing objects in which pickle copies what one version of Python keeps: forward references, parts of ParamSpecs.

Merged into the plug-in by `load` once typing is imported.
"""

from __future__ import annotations

import typing
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "typing"

# All but the compiled code, which Python makes again from the text.
_KEPT = ("module", "evaluated", "value", "is_argument", "is_class")


def _make_forward_ref(text: str) -> Any:
    return typing.ForwardRef(text)


def _fill_forward_ref(target: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        setattr(target, f"__forward_{name}__", value)


@promise("exact")
def _forward_ref(ref: Any) -> tuple[Any, ...]:
    state = {name: getattr(ref, f"__forward_{name}__") for name in _KEPT if hasattr(ref, f"__forward_{name}__")}
    return _make_forward_ref, (ref.__forward_arg__,), state, None, None, _fill_forward_ref


def _make_part(origin: Any, name: str) -> Any:
    return getattr(origin, name)


@promise("exact")
def _args(part: Any) -> tuple[Any, ...]:
    return _make_part, (part.__origin__, "args")


@promise("exact")
def _kwargs(part: Any) -> tuple[Any, ...]:
    return _make_part, (part.__origin__, "kwargs")


def plugin() -> Plugin:
    """Return what typing needs."""
    return Plugin(
        exact={
            typing.ForwardRef: _forward_ref,
            typing.ParamSpecArgs: _args,
            typing.ParamSpecKwargs: _kwargs,
        }
    )
