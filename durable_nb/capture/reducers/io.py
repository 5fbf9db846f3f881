"""Files are never opened again: not read, not written, not truncated; what is closed comes back closed.

Merged into the plug-in by `load`. Streams in memory come back where they were, the console is the kernel's own.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = None

_CONSOLE = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")
_CONSOLES = frozenset({"ipykernel", "IPython", "colorama", "debugpy", "_pytest"})
_FILES = (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair, io.TextIOWrapper)
# Not the pair: its halves are two files.
_CLOSABLE = frozenset({io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper})
# Their streams look like files to pickle's default way, which would copy half of them.
_FILE_MODULES = frozenset({"bz2", "gzip", "http.client", "lzma", "socket", "zipfile", "tarfile", "fsspec.spec"})


def is_console(stream: Any) -> bool:
    """Tell whether a stream is the process's own: `sys.stdout` may be led into any object of the notebook."""
    own = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    return any(stream is s for s in own) or type(stream).__module__.partition(".")[0] in _CONSOLES


def _make_console(name: str) -> Any:
    return getattr(sys, name)


def _make_closed(cls: type, name: Any, mode: str, text: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    """Return a closed file that says of itself what the stored one said; only the null device is opened for it."""
    raw = io.FileIO(os.devnull, mode)
    made: Any = raw
    if cls is io.TextIOWrapper:
        random, reads = "+" in mode, "r" in mode
        made = cls((io.BufferedRandom if random else io.BufferedReader if reads else io.BufferedWriter)(raw), **text)
    elif cls is not io.FileIO:
        made = cls(raw)
    made.close()
    raw.name = name
    for attribute, value in state.items():
        setattr(made, attribute, value)
    return made


def _closed(stream: Any) -> Any:
    """Describe a file that `with open(...) as f` left behind, which is nothing of the system's any more, else None."""
    cls, name = type(stream), _name(stream)
    raw = getattr(stream, "buffer", stream)
    raw = getattr(raw, "raw", raw)
    if cls not in _CLOSABLE or type(raw) is not io.FileIO or not isinstance(name, str | bytes | int):
        return None
    mode, text = raw.mode.replace("b", ""), {}
    if cls is io.TextIOWrapper:
        text = {n: getattr(stream, n) for n in ("encoding", "errors", "line_buffering", "write_through")}
        mode = mode.replace("x", "w")  # the null device exists; what the stream says of its mode is in its state
    elif "x" in mode:
        return None
    state = {n: v for n, v in vars(stream).items() if n not in ("name", "__IOBase_closed")}
    return _make_closed, (cls, name, mode, text, state)


@promise("exact")
def _stream(stream: Any) -> Any:
    for name in _CONSOLE:
        if getattr(sys, name, None) is stream and is_console(stream):
            return _make_console, (name,)
    if _ask(stream, "closed") and (made := _closed(stream)) is not None:
        return made
    if isinstance(stream, _FILES) or any(c.__module__ in _FILE_MODULES for c in type(stream).__mro__):
        if _in_memory(stream):
            raise Unstorable(f"a {type(stream).__name__} over memory; keep the bytes and wrap them again")
        raise Unstorable(_describe(stream))
    return stream.__reduce_ex__(5)


def _in_memory(stream: Any) -> bool:
    inner = stream
    for _ in range(4):
        inner = getattr(inner, "buffer", None) or getattr(inner, "raw", None) or inner
    return isinstance(inner, io.BytesIO)


def _describe(stream: Any) -> str:
    state = "a closed" if _ask(stream, "closed") else "an open"
    name, mode = _name(stream), _ask(stream, "mode")
    path = f" {name!r}" if isinstance(name, str | bytes | int) else ""
    how = f" (mode {mode!r})" if isinstance(mode, str | int) else ""
    return f"{state} file{path}{how}, a {type(stream).__name__}: files are not opened again; do it in a cell"


def _name(stream: Any) -> Any:
    buffer = _ask(stream, "buffer")
    # Compressed files keep what they read and write in `_fp`; before Python 3.13 only that one has a name.
    for holder in (stream, _ask(stream, "_fp"), buffer, _ask(buffer, "_fp")):
        if (name := _ask(holder, "name")) is not None:
            return name
    return None


def _ask(stream: Any, attribute: str) -> Any:
    try:
        return getattr(stream, attribute, None)
    except ValueError:  # a detached or closed stream refuses to tell
        return None


def plugin() -> Plugin:
    """Return what streams need."""
    return Plugin(subclasses=((io.IOBase, _stream),))
