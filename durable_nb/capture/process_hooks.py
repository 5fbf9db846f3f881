"""Hooks of Python: functions and objects of the notebook that hang in `sys`, `signal`, `gc`, `copyreg` and the like.

Used by `process`. What a new kernel has by itself is no state; streams that lead into files are never opened again.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import copyreg
import gc
import logging
import operator
import signal
import sys
import threading
import types
import warnings
from collections.abc import Mapping, Set
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.process_held import Held, HeldTracker, Lost, make_way, mine, wraps
from durable_nb.model import Json, Unsaved

__all__ = ["AtExit", "hook_trackers"]

# Where hooks hang, spelt as a person knows them. Not sys.excepthook and sys.displayhook: IPython sets both anew around
# every cell. Not SIGINT, which the kernel sets anew around every cell.
_HOOKS: tuple[tuple[types.ModuleType, str, str], ...] = (
    (sys, "unraisablehook", "sys.unraisablehook"),
    (sys, "breakpointhook", "sys.breakpointhook"),
    (threading, "excepthook", "threading.excepthook"),
    (warnings, "showwarning", "warnings.showwarning"),
    (warnings, "formatwarning", "warnings.formatwarning"),
    (warnings, "_showwarnmsg_impl", "warnings.catch_warnings(record=True)"),
    (logging, "_loggerClass", "logging.setLoggerClass"),
    (logging, "_logRecordFactory", "logging.setLogRecordFactory"),
    (sys, "stdout", "sys.stdout"),
    (sys, "stderr", "sys.stderr"),
    (sys, "stdin", "sys.stdin"),
)


def hook_trackers(held: Held) -> tuple[HeldTracker, ...]:
    """Return the components of this module, in the order in which they are restored."""
    return Builtins(held), CopyReg(held), Policy(held), Hooks(held), Signals(held), GcCallbacks(held)


class Hooks(HeldTracker):
    """The hooks of `sys`, `threading`, `warnings` and `logging`, and where the standard streams lead."""

    name = "python.hooks"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._base = {key: getattr(module, attribute) for module, attribute, key in _HOOKS}

    def entries(self) -> Mapping[str, Any]:
        base, found = self._base, {}
        for module, attribute, key in _HOOKS:
            value = getattr(module, attribute, None)
            if value is not base[key]:
                found[key] = value
        # `logging.captureWarnings` is a switch of its own.
        if found.get("warnings.showwarning") is getattr(logging, "_showwarning", None):
            found.pop("warnings.showwarning", None)
        return found

    def refusal(self, key: str, value: Any) -> str | None:
        return _WRAPS if wraps(value, self._base[key]) else None

    def describe(self, value: Any) -> Json:
        # What a standard stream is by now would pass for the console, wherever it leads.
        if any(value is stream for stream in (sys.stdout, sys.stderr, sys.stdin)):
            if name := self.held.variable(value):
                return ["name", name]
            raise Lost(f"it leads into a {type(value).__name__} that no variable holds")
        if type(value) is types.BuiltinMethodType and type(value.__self__) is list:
            # A recording of warnings that was begun and not ended: a cell looks for them in this very list.
            if name := self.held.variable(value.__self__):
                return ["method", ["name", name], value.__name__]
            raise Lost("warnings are collected in a list that no variable holds")
        return super().describe(value)

    def put(self, key: str, value: Any) -> None:
        module, attribute = next((m, a) for m, a, k in _HOOKS if k == key)
        setattr(module, attribute, value)

    def drop(self, key: str) -> None:
        self.put(key, self._base[key])

    def unsaved(self, key: str, kind: str, reason: str) -> Unsaved:
        return Unsaved(name=key, path="", type=kind, reason=f"{reason}; {self.advice}")


_WRAPS = "it passes on to what was there before, and would pass on to itself if its cell ran again"


class Signals(HeldTracker):
    """Handlers of signals that are Python functions, the default, or «ignore»."""

    name = "signal"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        known = {s.value: s for s in signal.Signals}
        self._signals = tuple(known[s] for s in signal.valid_signals() if s in known and s != signal.SIGINT)
        self._base: dict[Any, Any] = {s: signal.getsignal(s) for s in self._signals}
        self._watched = False

    def note(self, names: Set[str]) -> None:
        """Learn whether cells set handlers; until one does, looking at all of them is not worth the time."""
        self._watched = self._watched or "signal" in names

    def entries(self) -> Mapping[str, Any]:
        if not self._watched:
            return {}
        get, base = signal.getsignal, self._base
        return {s.name: now for s in self._signals if (now := get(s)) is not base[s] and now is not None}

    def refusal(self, key: str, value: Any) -> str | None:
        before = self._base[signal.Signals[key]]
        return _WRAPS if callable(before) and not plainly.is_a(before, int) and wraps(value, before) else None

    def describe(self, value: Any) -> Json:
        return ["plain", int(value)] if plainly.is_a(value, int) else super().describe(value)

    def put(self, key: str, value: Any) -> None:
        self._watched = True
        signal.signal(signal.Signals[key], signal.Handlers(value) if plainly.is_a(value, int) else value)

    def drop(self, key: str) -> None:
        base = self._base[signal.Signals[key]]
        if base is not None:
            signal.signal(signal.Signals[key], base)


class GcCallbacks(HeldTracker):
    """Functions of the notebook that the garbage collector calls."""

    name = "gc.callbacks"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._restored: list[Any] = []

    def entries(self) -> Mapping[str, Any]:
        return {str(i): f for i, f in enumerate(f for f in gc.callbacks if mine(f))} if gc.callbacks else {}

    def make_way(self) -> None:
        """Take restored callbacks away that a cell has registered again."""
        make_way(gc.callbacks, self._restored)

    def put(self, key: str, value: Any) -> None:
        self._restored.append(value)
        if value not in gc.callbacks:
            gc.callbacks.append(value)

    def drop(self, key: str) -> None:
        found = self.entries().get(key)
        if found is not None:
            gc.callbacks.remove(found)


class CopyReg(HeldTracker):
    """Reducers of the notebook in `copyreg.dispatch_table`."""

    name = "copyreg"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._seen: dict[Any, Any] = {}
        self._mine: dict[str, Any] = {}

    def entries(self) -> Mapping[str, Any]:
        if copyreg.dispatch_table != self._seen:
            self._seen = dict(copyreg.dispatch_table)
            self._mine = {
                f"{kind.__module__}.{kind.__qualname__}": (kind, function)
                for kind, function in self._seen.items()
                if mine(function) or mine(kind)
            }
        return self._mine

    def put(self, key: str, value: Any) -> None:
        copyreg.pickle(*value)

    def drop(self, key: str) -> None:
        copyreg.dispatch_table.pop(self.entries()[key][0], None)


class Builtins(HeldTracker):
    """Names that were added to `builtins`, or replaced there."""

    name = "builtins"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._base = dict(vars(builtins))
        self._seen: tuple[list[str], list[Any]] = ([], [])
        self._found: dict[str, Any] = {}

    def entries(self) -> Mapping[str, Any]:
        now, base = dict(vars(builtins)), self._base
        names, values = list(now), list(now.values())
        if names == self._seen[0] and all(map(operator.is_, values, self._seen[1])):
            return self._found
        self._seen = (names, values)
        added = {n: v for n, v in now.items() if v is not base.get(n, self) and n not in _CELLS}
        # Compiled libraries of one kind (pybind11) find each other through a capsule here.
        self._found = {n: v for n, v in added.items() if type(v).__name__ != "PyCapsule"}
        return self._found

    def refusal(self, key: str, value: Any) -> str | None:
        return _WRAPS if key in self._base and wraps(value, self._base[key]) else None

    def put(self, key: str, value: Any) -> None:
        setattr(builtins, key, value)

    def drop(self, key: str) -> None:
        if key in self._base:
            setattr(builtins, key, self._base[key])
        else:
            delattr(builtins, key)

    def unsaved(self, key: str, kind: str, reason: str) -> Unsaved:
        return Unsaved(name=f"builtins.{key}", path="", type=kind, reason=f"{reason}; {self.advice}")


# What `gettext` sets there, and what the kernel and IPython put there or take away only while a cell runs.
_CELLS = frozenset({"_", "input", "exit", "quit", "display", "get_ipython", "__IPYTHON__"})


class Policy(HeldTracker):
    """The event loop policy of asyncio, by its class."""

    name = "asyncio.policy"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._base = _policy()

    def entries(self) -> Mapping[str, Any]:
        now = _policy()
        return {} if now is self._base or now is None else {"policy": now}

    def describe(self, value: Any) -> Json:
        return super().describe(type(value))

    def put(self, key: str, value: Any) -> None:
        if type(_policy()) is not value:
            self._set(value())

    def drop(self, key: str) -> None:
        self._set(self._base)

    def _set(self, policy: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.14 on
            asyncio.set_event_loop_policy(policy)


def _policy() -> Any:
    return getattr(asyncio.events, "_event_loop_policy", None)


class AtExit:
    """What nobody can list or make again: functions for the end of the process, timers, codecs. Named, not stored."""

    def __init__(self) -> None:
        self._count = _ncallbacks()
        self._timers = tuple(t for t in _TIMERS if not signal.getitimer(t)[0])  # one that runs now is not a cell's
        self._mentions: Set[str] = frozenset()
        self._found: dict[str, Unsaved] = {}

    def note(self, names: Set[str]) -> None:
        """Learn the names that a cell mentions: libraries register functions too, and will again."""
        self._mentions = self._mentions | names

    def reported(self) -> list[Unsaved]:
        """Return what cells have registered that a new kernel does not have."""
        count, mentions = _ncallbacks(), self._mentions
        if count > self._count and "atexit" in mentions:
            self._add("atexit.register", "a function for the end of the process was registered")
        self._count, self._mentions = count, frozenset()
        if "codecs" in mentions and mentions & {"register", "register_error"}:
            self._add("codecs.register", "a codec or an error handler was registered")
        if any(signal.getitimer(t)[0] for t in self._timers):
            self._add("signal.setitimer", "a timer is running")
        else:
            self._found.pop("signal.setitimer", None)
        return list(self._found.values())

    def _add(self, name: str, what: str) -> None:
        reason = f"{what}, which a new kernel does not have; run the cell that does it again"
        self._found[name] = Unsaved(name=name, path="", type="process state", reason=reason)


_TIMERS = tuple(getattr(signal, n) for n in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF") if hasattr(signal, n))


def _ncallbacks() -> int:
    count = getattr(atexit, "_ncallbacks", None)
    return int(count()) if count is not None else 0
