"""Process state of `logging`: levels, propagation and handlers that are plain enough to be made again.

Used by `process`. A handler that writes to a file or into an object is never opened again, only reported.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from durable_nb.model import Json, Unsaved

__all__ = ["Logging"]


class Logging:
    """Levels, propagation and plain console handlers of loggers; every other added handler is reported."""

    name = "logging"
    needs = ""

    def __init__(self) -> None:
        # The handlers themselves are kept, so that an id here cannot be that of a later handler.
        self._known = {id(h): h for logger in _loggers().values() for h in logger.handlers}
        self._base = {name: self._entry(logger) for name, logger in _loggers().items()}

    def base(self, mark: Any) -> Any:
        """Return the first mark seen as the untouched one."""
        return mark

    def mark(self) -> Any:
        changed = {}
        for name, logger in _loggers().items():
            entry = self._entry(logger)
            if entry != self._base.get(name, _DEFAULT_LOGGER):
                changed[name] = entry
        return logging.root.manager.disable, changed

    def dump(self, mark: Any) -> Json:
        loggers = {
            name: {
                "level": level,
                "propagate": bool(propagate),
                "disabled": bool(disabled),
                "handlers": [list(spec) for _, spec in handlers if spec],
            }
            for name, (level, propagate, disabled, handlers) in mark[1].items()
        }
        return {"disable": mark[0], "loggers": loggers}

    def lost(self, mark: Any) -> list[Unsaved]:
        found = []
        for name, entry in mark[1].items():
            for handler, spec in entry[3]:
                # What a library hangs on its own logger comes back when the library is imported again.
                if spec is None and not _library_logger(name):
                    path = f"getLogger({'' if name == 'root' else repr(name)}).handlers"
                    reason = f"{type(handler).__name__} was added to logger {name!r} and cannot be restored"
                    found.append(Unsaved(name=self.name, path=path, type=type(handler).__name__, reason=reason))
        return found

    def load(self, value: Any) -> list[Unsaved]:
        logging.disable(value["disable"])
        stored = value["loggers"]
        for name in self.mark()[1]:
            if name not in stored and not _library_logger(name):
                level, propagate, disabled, _ = self._base.get(name, _DEFAULT_LOGGER)
                self._set(name, level=level, propagate=propagate, disabled=disabled, handlers=[])
        for name, entry in stored.items():
            self._set(name, **entry)
        return []

    def _entry(self, logger: logging.Logger) -> tuple[Any, ...]:
        mine = tuple(_handler_mark(h) for h in logger.handlers if id(h) not in self._known)
        return (logger.level, logger.propagate, logger.disabled, mine)

    def _set(self, name: str, *, level: int, propagate: bool, disabled: bool, handlers: list[Any]) -> None:
        logger = logging.getLogger(None if name == "root" else name)
        logger.setLevel(level)
        logger.propagate, logger.disabled = propagate, disabled
        for handler in list(logger.handlers):
            if id(handler) not in self._known and _handler_mark(handler)[1] is not None:
                logger.removeHandler(handler)
        for spec in handlers:
            logger.addHandler(_handler_from_json(spec))


_DEFAULT_LOGGER: tuple[Any, ...] = (logging.NOTSET, True, False, ())


def _loggers() -> dict[str, logging.Logger]:
    found = {name: item for name, item in logging.root.manager.loggerDict.items() if isinstance(item, logging.Logger)}
    return {"root": logging.root, **found}


def _library_logger(name: str) -> bool:
    top = name.partition(".")[0]
    return name != "root" and top in sys.modules and top != "__main__"


def _handler_mark(handler: logging.Handler) -> tuple[logging.Handler, tuple[Any, ...] | None]:
    """Return the handler and, if it can be made again from plain data, that data."""
    if type(handler) is logging.NullHandler:
        return handler, ("null", handler.level, None, None, None)
    texts = _format(handler.formatter)
    if type(handler) is not logging.StreamHandler or handler.filters or texts is None:
        return handler, None
    if handler.stream is sys.stderr or handler.stream is sys.__stderr__:
        return handler, ("stderr", handler.level, *texts)
    if handler.stream is sys.stdout or handler.stream is sys.__stdout__:
        return handler, ("stdout", handler.level, *texts)
    return handler, None


def _format(formatter: logging.Formatter | None) -> tuple[str | None, str | None, str | None] | None:
    """Return format, date format and style of a plain formatter; None when it is of a class of its own."""
    if formatter is None:
        return (None, None, None)
    style = {logging.PercentStyle: "%", logging.StrFormatStyle: "{", logging.StringTemplateStyle: "$"}
    found = style.get(type(formatter._style))
    if type(formatter) is not logging.Formatter or found is None:
        return None
    return (formatter._fmt, formatter.datefmt, found)


def _handler_from_json(spec: Any) -> logging.Handler:
    kind, level, text, dates, style = spec
    if kind == "null":
        handler: logging.Handler = logging.NullHandler()
    else:
        handler = logging.StreamHandler(sys.stderr if kind == "stderr" else sys.stdout)
    handler.setLevel(level)
    if style is not None:
        handler.setFormatter(logging.Formatter(text, dates, style=style))
    return handler
