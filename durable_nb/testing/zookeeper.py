"""The zoo's eyes inside a kernel: looks at every value and its other name, and tells what it found as JSON.

Called by `zoo` in both kernels. Checks may use up what they look at; nothing is saved after them.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from typing import Any

import durable_nb
from durable_nb.capture.reducers import load

__all__ = ["look"]


def look(namespace: dict[str, Any], rows: str) -> str:
    """Return what is there of the values `x0`, `x1`, … and which names are reported as not saved."""
    names = sorted(n for n in namespace if not n.startswith("_") and n not in ("In", "Out", "durable_nb"))
    unsaved = {u.name: u.reason for u in durable_nb.unsaved()}
    values = [_one(namespace, number, row) for number, row in enumerate(json.loads(rows))]
    return json.dumps({"names": names, "unsaved": unsaved, "values": values})


def _one(namespace: dict[str, Any], number: int, row: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"raises": "", "error": "", "alias": False, "is_a": False, "classes": [], "promise": None}
    try:
        # By running code, because a name that was not restored answers for itself.
        x, alias = eval(f"x{number}", namespace), eval(f"alias{number}", namespace)
    except Exception as error:
        return {**found, "raises": f"{type(error).__name__}: {error}"}
    found["classes"] = _names(type(x))
    # A row may put several values that share something into a plain container.
    inside = x.values() if type(x) is dict else x if type(x) in (list, tuple) else ()
    about = next((type(v) for v in (x, *inside) if _is_a(type(v), row["cls"])), None)
    found["is_a"] = about is not None
    found["promise"] = _promised(about) if about is not None else None
    found["alias"] = alias is x or (_is_value(type(x)) and bool(alias == x))
    try:
        if not eval(row["check"], {**namespace, "x": x}):
            found["error"] = f"not true: {row['check']}"
    except Exception as error:
        found["error"] = f"{row['check']} raises {type(error).__name__}: {error}"
    return found


def _names(cls: type) -> list[str]:
    return [f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__]


def _is_a(cls: type, name: str) -> bool:
    full = name if "." in name else f"builtins.{name}"
    return full in _names(cls) or _named(name) in cls.__mro__


def _is_value(cls: Any) -> bool:
    # What hashes by content cannot change, and two equal ones serve the same.
    return cls.__hash__ is not None and cls.__hash__ is not object.__hash__ and cls.__eq__ is not object.__eq__


def _named(path: str) -> Any:
    """Return the class of a public name that is not where the class says it is."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module or "builtins"), name, None)
    except ImportError:
        return None


def _promised(cls: type) -> str | None:
    plugin = load(sys.modules)
    reducer = plugin.exact.get(cls) or next((r for b, r in plugin.subclasses if issubclass(cls, b)), None)
    said = vars(reducer).get("promise") if reducer is not None else None
    return said.kept if said is not None else None
