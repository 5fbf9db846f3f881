"""Tracebacks as lists of places, and back: frames cannot be stored, but where they were can.

Called by `types`. What is made again has real frames of code that does nothing but raise at that place, so that every
printer of tracebacks shows the same lines; they hold no variables.
"""

from __future__ import annotations

import _thread
import ast
import itertools
import linecache
import types
from typing import Any

__all__ = ["described", "made_again", "sources"]

Entry = tuple[str, str, str, int, int, tuple[int, int, int], str]
_LIMIT = 1000  # more frames than anybody reads; the innermost are kept


class _Here(Exception):
    """Raised to get hold of a frame."""


def described(traceback: types.TracebackType | None) -> tuple[Entry, ...]:
    """Return each frame's file, names, first line, line, the columns there, and module, outermost first."""
    found: list[Entry] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        line, end, start, stop = next(
            itertools.islice(code.co_positions(), traceback.tb_lasti // 2, None), (None, None, None, None)
        )
        known = line == traceback.tb_lineno and None not in (end, start, stop)
        columns = (end or 0, start or 0, stop or 0) if known else (traceback.tb_lineno, 0, 0)
        module = traceback.tb_frame.f_globals.get("__name__")
        names = code.co_filename, code.co_name, code.co_qualname
        found.append(
            (*names, code.co_firstlineno, traceback.tb_lineno, columns, module if isinstance(module, str) else "")
        )
        traceback = traceback.tb_next
    return tuple(found[-_LIMIT:])


def sources(entries: tuple[Entry, ...]) -> dict[str, str]:
    """Return the sources of the cells among the files, which no file system has."""
    cached = {entry[0]: linecache.cache.get(entry[0]) for entry in entries}
    return {name: "".join(held[2]) for name, held in cached.items() if held and len(held) > 2 and held[1] is None}


def made_again(entries: tuple[Any, ...]) -> types.TracebackType | None:
    """Return a traceback of the same places."""
    if not entries:
        return None
    # A frame keeps those that it was called from, and they what they held: here everything that is being restored.
    # In a thread of its own none of ours are below it.
    made: list[types.TracebackType | BaseException] = []
    over = _thread.allocate_lock()
    over.acquire()
    _thread.start_new_thread(_make, (entries, made, over))
    with over:
        (result,) = made
    if isinstance(result, BaseException):
        raise result
    return result


def _make(entries: tuple[Any, ...], made: list[types.TracebackType | BaseException], over: _thread.LockType) -> None:
    traceback: types.TracebackType | None = None
    try:
        for entry in reversed(entries):
            traceback = types.TracebackType(traceback, *_frame(*entry))
        assert traceback is not None
        made.append(traceback)
    except BaseException as error:  # raised again where it was asked for
        made.append(error)
    finally:
        del made, traceback  # the frames keep this one, which must not keep them
        over.release()


def _frame(
    filename: str, name: str, qualname: str, first: int, line: int, columns: tuple[int, int, int], module: str
) -> tuple[types.FrameType, int, int]:
    end, start, stop = columns
    # A code object counts its lines from its first one, which for a module is line 1.
    above = min(first, line) - 1
    place = {
        "lineno": line - above,
        "end_lineno": max(end, line) - above,
        "col_offset": start,
        "end_col_offset": stop,
    }
    raising = ast.Raise(exc=ast.Name(id="here", ctx=ast.Load(), **place), cause=None, **place)
    code = compile(ast.Module(body=[raising], type_ignores=[]), filename, "exec")
    code = code.replace(co_name=name, co_qualname=qualname, co_firstlineno=above + 1)
    scope = {"__name__": module, "__file__": filename, "here": _Here()}
    try:
        exec(code, scope)
    except _Here as raised:
        inner = raised.__traceback__.tb_next if raised.__traceback__ is not None else None
        raised.__traceback__ = None
        assert inner is not None
        del scope["here"]
        try:
            return inner.tb_frame, inner.tb_lasti, line
        finally:
            del inner  # the frame keeps this one
    raise AssertionError("the code only raises")
