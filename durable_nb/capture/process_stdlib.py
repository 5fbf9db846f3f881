"""Process state of the standard library: random stream, folder, search path, warnings, decimal, limits, environment.

Used by `process`. Each class describes one component and changes the process only in `load`.
"""

from __future__ import annotations

import ast
import decimal
import importlib
import json
import os
import pickle
import random
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from durable_nb.capture.process_held import Held
from durable_nb.capture.process_hooks import hook_trackers
from durable_nb.capture.process_logging import Logging
from durable_nb.capture.process_switches import Switches
from durable_nb.model import Json, Unsaved

__all__ = ["Environ", "stdlib_trackers"]


_CONTEXT_FIELDS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


def stdlib_trackers(held: Held) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the components that must be back before anything is imported, and those that come after."""
    start = _folder()
    return (SysPath(start), WorkingFolder(start)), (
        Limits(),
        Switches(),
        Warnings(),
        *hook_trackers(held),
        Logging(held),
        DecimalContext(),
        Random(),
    )


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # the folder was deleted under the running kernel
        return ""


class _Plain:
    """What most components share: no library needed, the first mark seen is the untouched one, nothing is lost."""

    name = ""
    needs = ""

    def base(self, mark: Any) -> Any:
        return mark

    def lost(self, mark: Any) -> list[Unsaved]:
        return []


class Random(_Plain):
    """The global stream of `random`."""

    name = "random"

    def mark(self) -> Any:
        return random.getstate()

    def dump(self, mark: Any) -> bytes:
        return pickle.dumps(mark, protocol=5)

    def load(self, value: bytes) -> list[Unsaved]:
        random.setstate(pickle.loads(value))
        return []


class WorkingFolder(_Plain):
    """The current folder, relative to the one of the start where it lies inside, so that a moved project works."""

    name = "cwd"

    def __init__(self, start: str) -> None:
        self._start = start

    def mark(self) -> str:
        return os.getcwd()

    def dump(self, mark: str) -> Json:
        return {"path": mark, "inside": _inside(mark, self._start)}

    def load(self, value: Any) -> list[Unsaved]:
        inside = value["inside"]
        for path in ([] if inside is None else [os.path.join(self._start, inside)]) + [value["path"]]:
            if os.path.isdir(path):
                os.chdir(path)
                return []
        reason = f"the folder {value['path']} is not there any more; the current folder stays {_folder()}"
        return [Unsaved(name="cwd", path="", type="str", reason=reason)]


class SysPath(_Plain):
    """`sys.path`, stored with the list it started from, so that another environment keeps its own entries."""

    name = "sys.path"

    def __init__(self, start: str) -> None:
        self._start = start
        self._base = [str(p) for p in sys.path]

    def mark(self) -> list[str]:
        return [str(p) for p in sys.path]

    def dump(self, mark: list[str]) -> Json:
        inside = {p: rel for p in mark if p not in self._base and (rel := _inside(p, self._start)) is not None}
        return {"path": mark, "base": self._base, "inside": inside}

    def load(self, value: Any) -> list[Unsaved]:
        base, mine = value["base"], set(self._base)
        entries = [self._here(p, value["inside"]) for p in value["path"] if p not in base or p in mine]
        removed = set(base) - set(value["path"])
        known = set(base) | set(entries)
        sys.path[:] = entries + [p for p in self._base if p not in known and p not in removed]
        importlib.invalidate_caches()
        return []

    def _here(self, path: str, inside: dict[str, str]) -> str:
        moved = os.path.join(self._start, inside[path]) if path in inside else path
        return os.path.normpath(moved) if moved != path and os.path.exists(moved) else path


def _inside(path: str, start: str) -> str | None:
    if not start or not os.path.isabs(path):
        return None
    try:
        relative = os.path.relpath(path, start)
    except ValueError:  # another drive
        return None
    return None if relative.startswith(os.pardir) else relative


class Limits(_Plain):
    """Limits of the interpreter."""

    name = "sys.limits"

    def mark(self) -> dict[str, Any]:
        return {
            "recursionlimit": sys.getrecursionlimit(),
            "switchinterval": sys.getswitchinterval(),
            "int_max_str_digits": sys.get_int_max_str_digits(),
        }

    def dump(self, mark: Any) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        sys.setrecursionlimit(value["recursionlimit"])
        sys.setswitchinterval(value["switchinterval"])
        sys.set_int_max_str_digits(value["int_max_str_digits"])
        return []


class Warnings(_Plain):
    """The list of warning filters."""

    name = "warnings.filters"

    def mark(self) -> tuple[Any, ...]:
        filters = tuple(warnings.filters)
        # The name of a class of the notebook may lead to another class by now.
        own = tuple(_portable(entry[2]) for entry in filters if entry[2].__module__ == "__main__")
        return (*filters, own) if own else filters

    def dump(self, mark: tuple[Any, ...]) -> Json:
        return [_filter_to_json(entry) for entry in mark if _is_filter(entry) and _portable(entry[2])]

    def lost(self, mark: tuple[Any, ...]) -> list[Unsaved]:
        reason = (
            "its category is a class of the notebook that is not there under its name any more; set the filter again"
        )
        return [
            Unsaved(name=self.name, path=f"[{i}]", type=entry[2].__name__, reason=reason)
            for i, entry in enumerate(mark)
            if _is_filter(entry) and not _portable(entry[2])
        ]

    def load(self, value: Any) -> list[Unsaved]:
        filters, problems = [], []
        for i, entry in enumerate(value):
            try:
                filters.append(_filter_from_json(entry))
            except (ImportError, AttributeError) as error:
                reason = f"its category could not be found: {error}"
                problems.append(Unsaved(name=self.name, path=f"[{i}]", type=entry["category"], reason=reason))
        # Resetting first tells the warnings machinery that what it remembers of earlier warnings is void.
        warnings.resetwarnings()
        warnings.filters[:] = filters  # type: ignore[index]
        return problems


def _is_filter(entry: tuple[Any, ...]) -> bool:
    return len(entry) == 5 and isinstance(entry[2], type)


def _portable(category: Any) -> bool:
    if category.__module__ != "__main__":
        return True
    found: Any = sys.modules["__main__"]
    for part in category.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is category


def _filter_to_json(entry: Any) -> Json:
    action, message, category, module, line = entry
    name = f"{category.__module__}:{category.__qualname__}"
    return {
        "action": action,
        "message": _pattern_to_json(message),
        "category": name,
        "module": _pattern_to_json(module),
        "line": line,
    }


def _filter_from_json(entry: Any) -> tuple[Any, ...]:
    module, _, qualname = entry["category"].partition(":")
    category: Any = importlib.import_module(module)
    for part in qualname.split("."):
        category = getattr(category, part)
    patterns = _pattern_from_json(entry["message"]), _pattern_from_json(entry["module"])
    return (entry["action"], patterns[0], category, patterns[1], entry["line"])


def _pattern_to_json(pattern: Any) -> Json:
    return pattern if pattern is None or isinstance(pattern, str) else [pattern.pattern, pattern.flags]


def _pattern_from_json(pattern: Json) -> Any:
    # `re.compile` refuses the UNICODE flag for none and sets it by itself for all str patterns.
    return re.compile(pattern[0], pattern[1]) if isinstance(pattern, list) else pattern


class DecimalContext(_Plain):
    """The current decimal context and the template of new ones."""

    name = "decimal.context"

    def __init__(self) -> None:
        self._seen: tuple[list[str], list[dict[str, Any]]] = ([], [])

    def mark(self) -> Any:
        contexts = (decimal.getcontext(), decimal.DefaultContext)
        # What a context says of itself holds all of it, and C says it.
        if (said := list(map(decimal.Context.__repr__, contexts))) != self._seen[0]:
            self._seen = (said, list(map(_context, contexts)))
        return self._seen[1]

    def dump(self, mark: Any) -> Json:
        return mark

    def load(self, value: Any) -> list[Unsaved]:
        for stored, context in zip(value, (decimal.getcontext(), decimal.DefaultContext), strict=True):
            for key in _CONTEXT_FIELDS:
                setattr(context, key, stored[key] if key == "rounding" else int(stored[key]))
            for signal in context.traps:
                context.traps[signal] = signal.__name__ in stored["traps"]
        return []


def _context(context: decimal.Context) -> dict[str, Any]:
    # Flags are left out: they note what once happened in a calculation, and looking changes nothing by them.
    # Exponent limits may be beyond 2**53, where JSON readers round; all numbers are text.
    plain = {key: str(getattr(context, key)) for key in _CONTEXT_FIELDS}
    return {**plain, "traps": sorted(signal.__name__ for signal, on in context.traps.items() if on)}


class Environ:
    """Names of environment variables that changed; values may be secrets, so they are neither stored nor shown."""

    def __init__(self, stored: Collection[str] = ()) -> None:
        self.stored = frozenset(stored)
        self._base = dict(os.environ)
        self._seen = dict(self._base)
        self._modules = len(sys.modules)
        self._ignored: set[str] = set()
        self._text = ""
        self._broad = False
        self._told: tuple[Mapping[Any, Any], list[Unsaved]] | None = None

    def note(self, nodes: Iterable[ast.AST]) -> None:
        """Remember the strings of a cell: a variable it sets is usually spelt there; if not, all it sets counts."""
        nodes = list(nodes)
        strings = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        keywords = [n.arg for n in nodes if isinstance(n, ast.keyword) and n.arg]
        self._text = "\n".join([self._text, *strings, *keywords])
        names = [
            n.attr if isinstance(n, ast.Attribute) else n.id for n in nodes if isinstance(n, ast.Attribute | ast.Name)
        ]
        spelt = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)]
        mentions = names.count("environ") - sum(_last_name(n.value) == "environ" for n in spelt)
        self._broad = self._broad or mentions > 0 or not _ENVIRON_WRITERS.isdisjoint(names)

    def inputs(self, names: Collection[str], at: Mapping[str, str]) -> dict[str, str]:
        """Return what stands for the values of these variables (`*`: all) in `at`, by `os.environ[NAME]`.

        Those that are stored are compared as a component; those that imports or every new kernel set count in no `*`.
        """
        found = {}
        for name in names:
            if name == "*":
                left_out = self._ignored | self.stored
                kept = {n: v for n, v in at.items() if n not in left_out and not n.startswith(_OF_THE_KERNEL)}
                found["os.environ[*]"] = json.dumps(kept, sort_keys=True)
            elif name not in self.stored:
                found[f"os.environ[{name}]"] = json.dumps(at.get(name))
        return found

    def reported(self) -> list[Unsaved]:
        """Return the variables that were set, changed or deleted, except those that an import sets by itself."""
        # Undecoded, and compared before anything else: nearly always nothing has changed since the last look.
        raw = environment_bytes()
        if self._told is not None and raw == self._told[0]:
            self._modules, self._text, self._broad = len(sys.modules), "", False
            return self._told[1]
        now = dict(os.environ)
        if now != self._seen:
            if len(sys.modules) > self._modules and not self._broad:
                # Libraries set variables when they are imported, and will again when they are imported again.
                fresh = {n for n in {*now, *self._seen} if now.get(n) != self._seen.get(n)}
                self._ignored |= {n for n in fresh if n not in self._text}
            self._seen = now
        self._modules, self._text, self._broad = len(sys.modules), "", False
        ignored = self._ignored | self.stored | _polars_options(now)
        changed = (n for n in {*now, *self._base} if now.get(n) != self._base.get(n))
        found = [
            Unsaved(
                name=f"os.environ[{name}]",
                path="",
                type="str",
                reason="environment variables are not stored, they may be secrets; run the cell that sets it again"
                if name in now
                else "deleted by a cell; a new kernel has it again",
            )
            for name in sorted(changed)
            if name not in ignored
        ]
        # Which of polars' variables count depends on more than the variables.
        told = raw is not None and not any(name.startswith("POLARS_") for name in now)
        self._told = (dict(raw), found) if told and raw is not None else None
        return found


def environment_bytes() -> Mapping[Any, Any] | None:
    """Return the live table behind `os.environ`, not yet decoded; None where this Python has none."""
    found = getattr(os.environ, "_data", None)
    return found if type(found) is dict else None


_OF_THE_KERNEL = ("JPY_", "KERNEL_", "SHLVL", "OLDPWD", "_", "COLUMNS", "LINES", "PYDEVD_")
_ENVIRON_WRITERS = frozenset({"environb", "putenv", "unsetenv", "load_dotenv"})


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _polars_options(environment: dict[str, str]) -> set[str]:
    """Return the variables that hold options of polars: those are a component of their own."""
    if "polars" not in sys.modules or not any(name.startswith("POLARS_") for name in environment):
        return set()
    return set(json.loads(sys.modules["polars"].Config.save(if_set=True))["environment"])
