"""Code of another Python minor version, read without being run, and found again in source that this Python compiles.

Called by `rebuild` while a group loads. Bytecode of another version is never given to the interpreter: its description
(names, arguments, positions) is read here, and tells functions of one line apart.
"""

from __future__ import annotations

import importlib.util
import inspect
import io
import marshal
import opcode
import re
import struct
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Lost", "NotFound", "Recorded", "codes", "in_file", "in_module", "in_source", "minor", "read_code"]

_FREE = 0x80  # CO_FAST_FREE
_SHAPE = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # *args, **kwargs, generator, coroutine, asynchronous generator
_FUTURE = 0x1000000  # CO_FUTURE_ANNOTATIONS, which the cells of a notebook hand on to each other
_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT: cells may await
_NOP = bytes((opcode.opmap["NOP"], 0))
# Comprehensions are functions up to Python 3.11 and part of the function around them since.
_COMPREHENSION = re.compile(r"<(?:list|dict|set)comp>\.(?:<locals>\.)?")


class NotFound(Exception):
    """The code cannot be made again under this Python; `args[0]` says why, as the end of a sentence."""


class Lost:
    """What stands in for a function or code object that could not be made again, until its class makes it anew.

    Can be called, so that wrappers and partial objects take it; whoever really calls it learns why it is not there.
    """

    def __init__(self, reason: str, recorded: Recorded | None = None, filename: str = "") -> None:
        self.reason, self.recorded, self.filename = reason, recorded, filename
        self.state: dict[str, Any] = {}
        self.settled = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: there is no code."""
        raise ValueError(self.reason)

    def settle(self) -> None:
        """Take note that something else has its place now."""
        self.settled = True


def minor() -> tuple[int, int]:
    """Return the version of Python whose bytecode this process makes and runs."""
    return sys.version_info[:2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a code object says of itself, whichever version made it."""

    qualname: str
    line: int
    arguments: tuple[Any, ...]  # counts, names and kind
    names: frozenset[str]
    free: tuple[str, ...]
    flags: int
    positions: frozenset[tuple[int | None, ...]]
    constants: frozenset[str] = frozenset()

    @classmethod
    def of(cls, code: types.CodeType) -> Recorded:
        """Describe a code object of this Python."""
        count = _counted(code.co_argcount, code.co_kwonlyargcount, code.co_flags)
        arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_varnames[:count])
        return cls(
            qualname=_plain(code.co_qualname),
            line=code.co_firstlineno,
            arguments=(*arguments, code.co_flags & _SHAPE),
            names=frozenset(code.co_names),
            free=code.co_freevars,
            flags=code.co_flags,
            positions=_positions(code),
            constants=frozenset(_constants(code.co_consts)),
        )


def _constants(value: Any) -> Iterator[str]:
    """Yield the numbers and texts that a function is made of, in words that no version of Python puts differently."""
    if isinstance(value, types.CodeType):
        yield from _constants(value.co_consts)
    elif isinstance(value, Recorded):
        yield from value.constants
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from _constants(item)
    elif isinstance(value, str):
        yield repr(inspect.cleandoc(value))  # since Python 3.13 documentation is stored without its indent
    elif not isinstance(value, bool) and value is not None and value is not ...:
        yield repr(value)


def _counted(positional: int, keyword: int, flags: int) -> int:
    return positional + keyword + bool(flags & 0x04) + bool(flags & 0x08)


def _plain(qualname: str) -> str:
    return _COMPREHENSION.sub("", qualname)


def _positions(code: types.CodeType) -> frozenset[tuple[int | None, ...]]:
    start = (code.co_firstlineno, code.co_firstlineno, 0, 0)  # where a function begins; says nothing
    return frozenset(p for p in code.co_positions() if None not in p and p != start)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_code(blob: bytes) -> Recorded | None:
    """Return what marshalled code says of itself, or None if it is written in a way that is not known here."""
    try:
        found = _Marshal(blob).value()
    except (ValueError, IndexError, struct.error, KeyError, TypeError, UnicodeError, OverflowError):
        return None
    return found if isinstance(found, Recorded) else None


class _Marshal:
    """A reader of marshal's version 2: no back references, code objects become descriptions."""

    def __init__(self, blob: bytes) -> None:
        self.file = io.BytesIO(blob)

    def _take(self, size: int) -> bytes:
        taken = self.file.read(size)
        if size < 0 or len(taken) != size:
            raise ValueError("the code ends too early")
        return taken

    def _int(self) -> int:
        return int.from_bytes(self._take(4), "little", signed=True)

    def value(self) -> Any:
        kind = chr(self._take(1)[0])
        if kind in "NFTS.0":
            return {"F": False, "T": True, ".": ...}.get(kind)
        if kind == "i":
            return self._int()
        if kind in "lgy":
            size = self._take(4) if kind == "l" else b""
            digits = 2 * abs(int.from_bytes(size, "little", signed=True))
            raw = size + self._take({"l": digits, "g": 8, "y": 16}[kind])
            return marshal.loads(kind.encode() + raw)  # a number and nothing else
        if kind in "sutaA":
            raw = self._take(self._int())
            return raw if kind == "s" else raw.decode("utf-8", "surrogatepass")
        if kind in "zZ":
            return self._take(self._take(1)[0]).decode("ascii")
        if kind == ")":
            return tuple(self.value() for _ in range(self._take(1)[0]))
        if kind in "([<>":
            return tuple(self.value() for _ in range(self._int()))
        if kind == ":":
            return tuple(self.value() for _ in range(3))
        if kind == "c":
            return self._code()
        raise ValueError(f"unknown kind {kind!r}")

    def _code(self) -> Recorded:
        positional, only, keyword, _, flags = (self._int() for _ in range(5))
        code, consts, names, local, kinds, _, _, qualname = (self.value() for _ in range(8))
        line, table, _ = self._int(), self.value(), self.value()
        # A description of the positions only: instructions that do nothing, and are never run.
        bare = compile("0", "<positions>", "eval")
        bare = bare.replace(co_code=_NOP * (len(code) // 2), co_linetable=table, co_firstlineno=line)
        return Recorded(
            qualname=_plain(qualname),
            line=line,
            arguments=(positional, only, keyword, local[: _counted(positional, keyword, flags)], flags & _SHAPE),
            names=frozenset(names),
            free=tuple(name for name, kind in zip(local, kinds, strict=True) if kind & _FREE),
            flags=flags,
            positions=_positions(bare),
            constants=frozenset(_constants(consts)),
        )


# --- finding ----------------------------------------------------------------------------------------------------------


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code objects inside a code object, outer before inner."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from codes(const)


def in_source(source: str, filename: str, qualname: str, line: int, recorded: Recorded | None) -> types.CodeType:
    """Return a code object compiled from the cell that it came from; raises `NotFound`."""
    future = recorded.flags & _FUTURE if recorded is not None else 0
    try:
        module: types.CodeType = compile(source, filename, "exec", flags=_AWAIT | future, dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NotFound(f"its cell does not compile ({error})") from error
    found = [
        code
        for code in (module, *codes(module))
        if _plain(code.co_qualname) == _plain(qualname) and (code is module or code.co_firstlineno == line)
    ]
    missing = f"it was not found in the source of its cell ({filename}, line {line})"
    if recorded is not None:
        return _best(found, recorded, missing)
    if len(found) != 1:
        raise NotFound(missing)
    return found[0]


def in_file(filename: str, recorded: Recorded | None) -> types.CodeType:
    """Return a code object from the file it came from, if that still has the same function; raises `NotFound`."""
    if recorded is None or not Path(filename).is_file():
        raise NotFound(f"there is no file {filename}")
    try:
        module: types.CodeType = compile(Path(filename).read_bytes(), filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OSError) as error:
        raise NotFound(f"{filename} does not compile ({error})") from error
    found = [c for c in codes(module) if _plain(c.co_qualname) == recorded.qualname and _same_names(c, recorded)]
    # The file may say something else by now: a function of the same name with another number in it is another one.
    found = [c for c in found if Recorded.of(c).constants == recorded.constants]
    return _best(found, recorded, f"{filename} has no such function any more")


def in_module(name: str, recorded: Recorded | None) -> types.CodeType:
    """Return the code of a function that a module makes (a decorator's wrapper), as it is now; raises `NotFound`."""
    missing = f"module {name} has no such function here"
    spec = getattr(sys.modules.get(name), "__spec__", None) or importlib.util.find_spec(name)
    get_code = getattr(getattr(spec, "loader", None), "get_code", None)
    module: types.CodeType | None = get_code(name) if get_code is not None else None
    if module is None or recorded is None:
        raise NotFound(missing)
    found = [
        code
        for code in codes(module)
        if _plain(code.co_qualname) == recorded.qualname and set(code.co_freevars) == set(recorded.free)
    ]
    same = [code for code in found if _same_names(code, recorded)]
    if name.partition(".")[0] not in sys.stdlib_module_names and not _installed(spec):
        # A file of the user's may say something else by now; a library's next version is meant to do the same.
        same = found = [code for code in same if Recorded.of(code).constants == recorded.constants]
    return _best(same or found, recorded, missing)


def _installed(spec: Any) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(str(getattr(spec, "origin", ""))).parts)


def _same_names(code: types.CodeType, recorded: Recorded) -> bool:
    return frozenset(code.co_names) == recorded.names


def _best(found: list[types.CodeType], recorded: Recorded, missing: str) -> types.CodeType:
    """Choose by arguments, then by the positions in the source, which no two functions have in common."""
    same = [code for code in found if Recorded.of(code).arguments == recorded.arguments]
    same = [code for code in same if set(code.co_freevars) <= set(recorded.free)]
    if not same:
        raise NotFound(missing)
    scores = [_score(Recorded.of(code).positions, recorded.positions) for code in same]
    best = max(scores)
    chosen = [code for code, score in zip(same, scores, strict=True) if score == best]
    if len(chosen) > 1 and any(code != chosen[0] for code in chosen):
        raise NotFound(f"{len(chosen)} functions in its source look the same")
    return chosen[0]


def _score(one: frozenset[Any], other: frozenset[Any]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0
