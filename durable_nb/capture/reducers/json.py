"""A decoder of json holds a scanner that pickle refuses: it is made again from what the scanner says of itself.

Merged into the plug-in by `load` once json is imported.
"""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "json"

_OPTIONS = ("strict", "object_hook", "object_pairs_hook", "parse_float", "parse_int", "parse_constant")


def _make_scanner(options: dict[str, Any]) -> Any:
    # On another Python, where there may be no such scanner written in C, the one in Python does the same work.
    decoder: Any = importlib.import_module("json.decoder")
    rest = {
        "parse_object": decoder.JSONObject,
        "parse_array": decoder.JSONArray,
        "parse_string": decoder.scanstring,
        "memo": {},
    }
    return decoder.scanner.make_scanner(SimpleNamespace(**rest, **options))


@promise("exact")
def _scanner(scanner: Any) -> tuple[Any, ...]:
    return _make_scanner, ({name: getattr(scanner, name) for name in _OPTIONS},)


def plugin() -> Plugin:
    """Return what json needs."""
    made = type(sys.modules["json"].JSONDecoder().scan_once)
    # The scanner written in Python is a plain function.
    return Plugin(exact={made: _scanner} if made.__module__ == "_json" else {})
