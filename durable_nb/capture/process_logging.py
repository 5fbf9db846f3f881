"""Process state of `logging`: levels, propagation, filters, and handlers that can be made again.

Used by `process`, restored after the variables. A handler that writes to a file or into a stream of its own is never
opened again, only reported.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Set
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.process_held import Held, Lost, mine
from durable_nb.model import Json, Unsaved

__all__ = ["Logging"]

_SETTERS = frozenset({"addHandler", "basicConfig", "dictConfig", "fileConfig", "handlers"})


class Logging:
    """Levels, propagation, filters and handlers of loggers; what cannot be made again is reported."""

    name = "logging"
    needs = ""

    def __init__(self, held: Held | None = None) -> None:
        self._held = Held() if held is None else held
        # The handlers themselves are kept, so that an id here cannot be that of a later handler.
        self._known = {id(h): h for logger in _loggers().values() for h in logger.handlers}
        self._users: dict[int, logging.Handler] = {}
        self._codes: dict[int, tuple[Any, dict[str, Any], Json]] = {}
        self._restored: dict[str, list[logging.Handler]] = {}
        self._mentioned = False
        entries = {name: self._entry(logger) for name, logger in _loggers().items()}
        self._base = {name: entry for name, entry in entries.items() if entry != _DEFAULT_LOGGER}

    def note(self, names: Set[str]) -> None:
        """Learn the names that a cell mentions: a library hangs handlers on its loggers without any cell saying so."""
        self._mentioned = self._mentioned or not _SETTERS.isdisjoint(names)

    def make_way(self) -> None:
        """Take restored handlers away that a cell has added again: every line would appear twice."""
        for name, restored in list(self._restored.items()):
            logger = logging.getLogger(None if name == "root" else name)
            for old in list(restored):
                spec = self._spec(old)
                if any(h is not old and h not in restored and self._spec(h) == spec for h in logger.handlers):
                    logger.removeHandler(old)
                    restored.remove(old)
            if not restored:
                del self._restored[name]

    def _spec(self, handler: logging.Handler) -> Any:
        mark = self._handler_mark(handler)
        # Of two of the notebook's own class neither is at fault for what it holds by now.
        return type(handler).__qualname__ if mark is None or mark[0] == "held" else mark

    def base(self, mark: Any) -> Any:
        """Return the first mark seen as the untouched one."""
        return mark

    def mark(self) -> Any:
        changed, base = {}, self._base
        for name, logger in [("root", logging.root), *logging.root.manager.loggerDict.items()]:
            if not isinstance(logger, logging.Logger):
                continue
            touched = logger.handlers or logger.filters or logger.level or logger.disabled or not logger.propagate
            if not touched and name not in base:
                continue  # as most loggers of libraries are
            entry = self._entry(logger)
            if entry != base.get(name, _DEFAULT_LOGGER):
                changed[name] = entry
                if self._mentioned:
                    self._users.update({id(h): h for h, _ in entry[3]})
        self._mentioned = False
        return logging.root.manager.disable, changed

    def dump(self, mark: Any) -> Json:
        loggers: dict[str, Json] = {}
        for name, (level, propagate, disabled, handlers, filters) in mark[1].items():
            loggers[name] = {
                "level": level,
                "propagate": bool(propagate),
                "disabled": bool(disabled),
                "handlers": [list(spec) for _, spec in handlers if spec],
            }
            if kept := [code for _, code in filters if code is not None]:
                loggers[name]["filters"] = kept
        return {"disable": mark[0], "loggers": loggers}

    def lost(self, mark: Any) -> list[Unsaved]:
        found = []
        for name, entry in mark[1].items():
            where = f"getLogger({'' if name == 'root' else repr(name)})"
            for handler, spec in entry[3]:
                # What a library hangs on its own logger comes back when the library is imported again.
                if spec is None and (not _library_logger(name) or id(handler) in self._users):
                    reason = f"{type(handler).__name__} was added to logger {name!r} and cannot be restored"
                    path = f"{where}.handlers"
                    found.append(Unsaved(name=self.name, path=path, type=type(handler).__name__, reason=reason))
            for one, code in entry[4]:
                if code is None and (mine(one) or not _library_logger(name)):
                    reason = f"this filter of logger {name!r} cannot be restored"
                    path = f"{where}.filters"
                    found.append(Unsaved(name=self.name, path=path, type=type(one).__name__, reason=reason))
        return found

    def load(self, value: Any) -> list[Unsaved]:
        logging.disable(value["disable"])
        stored = value["loggers"]
        problems: list[Unsaved] = []
        for name in self.mark()[1]:
            if name not in stored and not _library_logger(name):
                level, propagate, disabled, *_ = self._base.get(name, _DEFAULT_LOGGER)
                self._set(name, level=level, propagate=propagate, disabled=disabled, handlers=[])
        for name, entry in stored.items():
            problems += self._set(name, **entry)
        return problems

    def _entry(self, logger: logging.Logger) -> tuple[Any, ...]:
        own: tuple[Any, ...] = ()
        filters: tuple[Any, ...] = ()
        if logger.handlers:
            # How a library formats on its own logger comes back with its import.
            library = _library_logger(logger.name) and not self._mentioned
            own = tuple(
                (h, self._handler_mark(h, deep=not library or id(h) in self._users))
                for h in logger.handlers
                if id(h) not in self._known
            )
        if logger.filters:
            filters = tuple((f, self._code(f)) for f in logger.filters)
        return (logger.level, logger.propagate, logger.disabled, own, filters)

    def _code(self, obj: Any) -> Json:
        """Return a description of a handler, filter or formatter, None if it has none."""
        state = dict(getattr(obj, "__dict__", {}))
        known = self._codes.get(id(obj))
        if known is not None and known[1] == state and not self._held.variable(obj):
            return known[2]
        try:
            code = self._held.describe(obj)
        except Lost:
            return None
        if code[0] == "pickle" and not plainly.is_a(obj, logging.Handler):
            self._codes[id(obj)] = (obj, state, code)
        return code

    def _handler_mark(self, handler: logging.Handler, *, deep: bool = True) -> Any:
        """Return what the handler can be made of again, or None."""
        cls = type(handler)
        if cls is logging.NullHandler:
            return ("null", handler.level, None, None, None)
        if cls is not logging.StreamHandler:
            if isinstance(handler, logging.FileHandler):
                return None  # made again it would open its file, and empty it in mode "w"
            if not (mine(handler) or self._variable(handler)):
                return None
            code = self._code(handler)
            return None if code is None else ("held", code)
        stream: Any = handler.stream  # type: ignore[attr-defined]
        kind = (
            "stderr"
            if stream is sys.stderr or stream is sys.__stderr__
            else "stdout"
            if stream is sys.stdout or stream is sys.__stdout__
            else ""
        )
        formatter = handler.formatter
        if not deep and formatter is not None and type(formatter) is not logging.Formatter:
            return None
        texts = _format(formatter)
        more: tuple[Any, ...] = ()
        if texts is None or handler.filters:
            if not deep:
                return None
            filters = [self._code(f) for f in handler.filters]
            code = None if texts is not None else self._code(formatter)
            if None in filters or (texts is None and code is None):
                return None
            more = (code, filters)
        return (kind, handler.level, *(texts or (None, None, None)), *more) if kind else None

    def _variable(self, handler: logging.Handler) -> str:
        # A file or a stream in a variable is as lost as without one.
        plain = type(handler).__module__.partition(".")[0] == "logging"
        return "" if plain else self._held.variable(handler)

    def _set(
        self, name: str, *, level: int, propagate: bool, disabled: bool, handlers: list[Any], filters: Any = ()
    ) -> list[Unsaved]:
        logger = logging.getLogger(None if name == "root" else name)
        logger.setLevel(level)
        logger.propagate, logger.disabled = propagate, disabled
        self._restored.pop(name, None)
        for handler in list(logger.handlers):
            if id(handler) not in self._known and self._handler_mark(handler) is not None:
                logger.removeHandler(handler)
        for one in [f for f in logger.filters if mine(f)]:
            logger.removeFilter(one)
        problems = []
        for kind, made in (*(("handlers", h) for h in handlers), *(("filters", f) for f in filters)):
            try:
                if kind == "filters":
                    logger.addFilter(self._held.make(made))
                else:
                    handler = self._handler(made)
                    logger.addHandler(handler)
                    self._restored.setdefault(name, []).append(handler)
            except Exception as error:  # classes of the notebook run here
                path = f"getLogger({'' if name == 'root' else repr(name)}).{kind}"
                reason = f"it could not be made again: {error}"
                problems.append(Unsaved(name=self.name, path=path, type="Handler", reason=reason))
        return problems

    def _handler(self, spec: Any) -> logging.Handler:
        if spec[0] == "held":
            made: logging.Handler = self._held.make(spec[1])
            return made
        kind, level, text, dates, style, *more = spec
        if kind == "null":
            handler: logging.Handler = logging.NullHandler()
        else:
            handler = logging.StreamHandler(sys.stderr if kind == "stderr" else sys.stdout)
        handler.setLevel(level)
        if style is not None:
            handler.setFormatter(logging.Formatter(text, dates, style=style))
        if more:
            if more[0] is not None:
                handler.setFormatter(self._held.make(more[0]))
            for code in more[1]:
                handler.addFilter(self._held.make(code))
        return handler


_STYLES: Mapping[type, str] = {
    logging.PercentStyle: "%", logging.StrFormatStyle: "{", logging.StringTemplateStyle: "$"
}  # fmt: skip
_DEFAULT_LOGGER: tuple[Any, ...] = (logging.NOTSET, True, False, (), ())


def _loggers() -> dict[str, logging.Logger]:
    found = {name: item for name, item in logging.root.manager.loggerDict.items() if isinstance(item, logging.Logger)}
    return {"root": logging.root, **found}


def _library_logger(name: str) -> bool:
    top = name.partition(".")[0]
    return name != "root" and top in sys.modules and top != "__main__"


def _format(formatter: logging.Formatter | None) -> tuple[str | None, str | None, str | None] | None:
    """Return format, date format and style of a plain formatter; None when it is of a class of its own."""
    if formatter is None:
        return (None, None, None)
    if type(formatter) is not logging.Formatter:
        return None
    found = _STYLES.get(type(formatter._style))
    if found is None:
        return None
    return (formatter._fmt, formatter.datefmt, found)
