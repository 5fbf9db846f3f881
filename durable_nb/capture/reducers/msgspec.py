"""Encoders, decoders and constraints are made again from their settings.

Merged into the plug-in by `load` once msgspec is imported. Struct classes of the notebook are made by a metaclass that
takes no class apart: they are reported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "msgspec"

_ENCODER = ("enc_hook", "decimal_format", "uuid_format", "order")
_DECODER = ("type", "strict", "dec_hook")
_META = (
    "gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz", "title", "description",
    "examples", "extra_json_schema", "extra",
)  # fmt: skip


def _make_by_name(cls: Any, settings: dict[str, Any]) -> Any:
    return cls(**settings)


def _by(names: tuple[str, ...]) -> Callable[[Any], Any]:
    @promise("exact")
    def reduce(obj: Any) -> tuple[Any, ...]:
        settings = {name: value for name in names if (value := getattr(obj, name, None)) is not None}
        return _make_by_name, (type(obj), settings)

    return reduce


def plugin() -> Plugin:
    """Return what msgspec needs."""
    msgspec = sys.modules["msgspec"]
    exact: dict[type, Any] = {msgspec.Meta: _by(_META)}
    if "msgspec.json" in sys.modules:
        exact |= {msgspec.json.Encoder: _by(_ENCODER), msgspec.json.Decoder: _by((*_DECODER, "float_hook"))}
    if "msgspec.msgpack" in sys.modules:
        exact |= {msgspec.msgpack.Encoder: _by(_ENCODER), msgspec.msgpack.Decoder: _by((*_DECODER, "ext_hook"))}
    return Plugin(exact=exact)
