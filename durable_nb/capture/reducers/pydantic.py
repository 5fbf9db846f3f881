"""A generic model with its parameter, `Page[int]`, is the one that asking for it again gives.

Merged into the plug-in by `load` once pydantic is imported. The library remembers such classes in a table of its own,
which is told of those that came back once they are live.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from durable_nb.capture.rebuild import when_live
from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "pydantic"


def _make_validator(make: Any, schema: Any, *options: Any) -> Any:
    model = _model(schema)
    if model is not None:
        when_live(lambda: _remember(model))
    return make(schema, *options)


def _model(schema: Any) -> Any:
    """Return the class that a schema is about: decorators of the class put schemas around that of the model."""
    while isinstance(schema, Mapping):
        if schema.get("type") == "model":
            return schema.get("cls")
        schema = schema.get("schema")
    return None


def _remember(model: Any) -> None:
    said = getattr(model, "__pydantic_generic_metadata__", None) or {}
    origin, args = said.get("origin"), said.get("args")
    remember = getattr(importlib.import_module("pydantic._internal._generics"), "set_cached_generic_type", None)
    # A library whose table works in another way makes a class of its own when it is asked, as it does without us.
    if origin is not None and args and remember is not None:
        remember(origin, args, model, origin, args)


@promise("exact")
def _validator(validator: Any) -> Any:
    reduced = validator.__reduce__()
    return (_make_validator, (reduced[0], *reduced[1])) if isinstance(reduced, tuple) and len(reduced) == 2 else reduced


def plugin() -> Plugin:
    """Return what pydantic needs."""
    return Plugin(subclasses=((named("pydantic_core._pydantic_core.SchemaValidator"), _validator),))
