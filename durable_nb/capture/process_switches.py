"""Switches of Python that are plain values: garbage collector, tracing, time-outs, locale, umask, arguments.

Used by `process`. Only what differs from the start is stored, so that another Python keeps its own defaults.
"""

from __future__ import annotations

import asyncio
import csv
import faulthandler
import gc
import locale
import logging
import os
import socket
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Collection, Set
from typing import Any

from durable_nb.model import Json, Unsaved

__all__ = ["StoredEnviron", "Switches"]


def _faults(on: bool) -> None:
    if not on:
        faulthandler.disable()
    elif not faulthandler.is_enabled():
        faulthandler.enable(file=sys.__stderr__)  # type: ignore[arg-type]


def _memory(depth: int) -> None:
    if tracemalloc.is_tracing() and tracemalloc.get_traceback_limit() != depth:
        tracemalloc.stop()
    if depth and not tracemalloc.is_tracing():
        tracemalloc.start(depth)


def _loop() -> Any:
    return asyncio.events._get_running_loop()


def _loop_debug(on: bool) -> None:
    if (loop := _loop()) is not None:
        loop.set_debug(on)


def _locale(text: str) -> None:
    locale.setlocale(locale.LC_ALL, text)


def _arguments(arguments: Any) -> None:
    sys.argv[:] = arguments


# Getter and setter of each; setters take what JSON gives back.
_SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "sys.argv": (lambda: [str(a) for a in sys.argv], _arguments),
    "sys.dont_write_bytecode": (
        lambda: sys.dont_write_bytecode,
        lambda on: setattr(sys, "dont_write_bytecode", on),
    ),
    "gc.enabled": (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    "gc.threshold": (lambda: list(gc.get_threshold()), lambda t: gc.set_threshold(*t)),
    "gc.debug": (gc.get_debug, gc.set_debug),
    "faulthandler": (faulthandler.is_enabled, _faults),
    "tracemalloc": (lambda: tracemalloc.get_traceback_limit() if tracemalloc.is_tracing() else 0, _memory),
    "socket.timeout": (socket.getdefaulttimeout, socket.setdefaulttimeout),
    "csv.field_size_limit": (csv.field_size_limit, lambda n: _drop(csv.field_size_limit(n))),
    "locale": (lambda: locale.setlocale(locale.LC_ALL), _locale),
    "logging.captureWarnings": (
        lambda: getattr(logging, "_warnings_showwarning", None) is not None,
        logging.captureWarnings,
    ),
    "asyncio.debug": (lambda: (loop := _loop()) is not None and loop.get_debug(), _loop_debug),
}


def _drop(_: object) -> None:
    return None


class Switches:
    """Switches of the interpreter and the standard library that differ from the start."""

    name = "python.switches"
    needs = ""

    def __init__(self) -> None:
        self._base = {key: get() for key, (get, _) in _SWITCHES.items()}
        self._masks = {key: get() for key, (get, _) in _TOUCHY.items()}
        self._watched: set[str] = set()

    def note(self, names: Set[str]) -> None:
        """Learn what a cell mentions: the only way to read some is to change them for a moment."""
        self._watched |= _TOUCHY.keys() & names

    def mark(self) -> dict[str, Any]:
        base = self._base
        found = {key: now for key, (get, _) in _SWITCHES.items() if (now := get()) != base[key]}
        for key in self._watched:
            now = _TOUCHY[key][0]()
            if now != self._masks[key]:
                found[key] = now
        return found

    def base(self, mark: Any) -> Any:
        return {}

    def dump(self, mark: dict[str, Any]) -> Json:
        return mark

    def lost(self, mark: Any) -> list[Unsaved]:
        return []

    def load(self, value: Any) -> list[Unsaved]:
        problems = []
        self._watched |= _TOUCHY.keys() & value.keys()
        current, base = self.mark(), {**self._base, **self._masks}
        for key, (_, put) in {**_SWITCHES, **_TOUCHY}.items():
            if key not in value and key not in current:
                continue
            try:
                put(value.get(key, base[key]))
            except (ValueError, OSError, OverflowError, locale.Error) as error:
                problems.append(Unsaved(name=self.name, path=key, type="setting", reason=f"it was refused: {error}"))
        return problems


def _umask() -> int:
    # A file that a thread creates at this very moment gets too few rights rather than too many.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _stack_size() -> int:
    # Called without an argument it does not only tell the size but sets it to the default.
    size = threading.stack_size()
    threading.stack_size(size)
    return size


# Read only when a cell has mentioned them: reading changes them for a moment.
_TOUCHY: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "umask": (_umask, lambda mask: _drop(os.umask(mask))),
    "stack_size": (_stack_size, lambda size: _drop(threading.stack_size(size))),
}


class StoredEnviron:
    """The environment variables that the user has named; with `TZ` among them the time zone follows."""

    name = "os.environ"
    needs = ""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = tuple(names)
        self._base = self.mark()

    def mark(self) -> dict[str, str | None]:
        return {name: os.environ.get(name) for name in self.names}

    def base(self, mark: Any) -> Any:
        return self._base

    def dump(self, mark: dict[str, str | None]) -> Json:
        return mark

    def lost(self, mark: Any) -> list[Unsaved]:
        return []

    def load(self, value: Any) -> list[Unsaved]:
        # What a person no longer names is no longer to be set from a checkpoint either.
        for name in self.names:
            text = value.get(name, self._base[name])
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text
        if "TZ" in self.names and hasattr(time, "tzset"):
            time.tzset()
        return []
