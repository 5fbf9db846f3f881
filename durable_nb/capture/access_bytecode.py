"""Read from a function's compiled code which globals it loads, which strings it holds, what it asks for at run time.

Called by the closure over objects, which has no source of the functions it meets. Pure.
"""

from __future__ import annotations

import functools
import opcode
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

from durable_nb.capture import access_rules as rules

__all__ = ["CodeFacts", "code_facts"]

_GLOBAL_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_GLOBAL_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_FOLLOWS_CONSTANT_CALL = frozenset({"LOAD_CONST", "PRECALL", "CALL", "CALL_KW", "KW_NAMES"})
_LOOKUPS = rules.ENVIRONMENT_LOOKUPS
_QUESTIONS = rules.METADATA_METHODS.union(rules.METADATA_OF_PATHS)
_WRITES = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR"})
_SUBSCRIPTS = _WRITES | {"BINARY_SUBSCR", "BINARY_OP"}
_SILENT = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "RESUME", "PUSH_NULL", "NOT_TAKEN", "COPY_FREE_VARS"})
_ABSENCE_ERRORS = frozenset({"NameError", "UnboundLocalError", "Exception", "BaseException"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFacts:
    """What one code object and the code nested in it may do.

    `attributes` are `root.a.b` chains on globals; `changed` those that are assigned to or changed by a method.
    """

    loads: frozenset[str]
    writes: frozenset[str]
    texts: tuple[str, ...]
    everything: str
    absence: bool
    imports: frozenset[str]
    attributes: frozenset[tuple[str, ...]]
    changed: frozenset[tuple[str, ...]]
    seeds: bool
    environ: frozenset[str]
    metadata: bool
    names: frozenset[str]


def _instructions(code: CodeType) -> Iterator[tuple[str, int]]:
    extended, raw, names = 0, code.co_code, opcode.opname
    for position in range(0, len(raw), 2):
        name, argument = names[raw[position]], raw[position + 1] | extended
        if name == "EXTENDED_ARG":
            extended = argument << 8
            continue
        extended = 0
        if name not in _SILENT:
            yield name, argument


def _name_of(code: CodeType, operation: str, argument: int) -> str:
    # The low bits of these arguments are flags for the interpreter.
    if operation == "LOAD_GLOBAL" or (operation == "LOAD_ATTR" and sys.version_info >= (3, 12)):
        argument >>= 1
    elif operation == "LOAD_SUPER_ATTR":
        argument >>= 2
    return code.co_names[argument] if argument < len(code.co_names) else ""


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (tuple, frozenset)):
        for item in value:
            yield from _texts(item)


def _constant_asked(code: CodeType, steps: list[tuple[str, int]], at: int) -> object:
    """Return the constant that the mapping loaded at `at` is asked for, by subscript or by `get`; None for others."""
    following = steps[at + 1 : at + 3]
    if len(following) < 2:
        return None
    (first, first_argument), (second, second_argument) = following
    if first == "LOAD_CONST" and second in _SUBSCRIPTS:
        return code.co_consts[first_argument]
    is_lookup = first in ("LOAD_ATTR", "LOAD_METHOD") and _name_of(code, first, first_argument) in _LOOKUPS
    return code.co_consts[second_argument] if is_lookup and second == "LOAD_CONST" else None


def _variable_asked(code: CodeType, steps: list[tuple[str, int]], at: int, name: str) -> str:
    """Return the environment variable that is read by what is loaded at `at`, empty for a write, `*` for any."""
    following = steps[at + 1 : at + 4]
    if name.startswith("getenv"):
        asked = code.co_consts[following[0][1]] if following and following[0][0] == "LOAD_CONST" else None
    elif following and following[0][0] == "CONTAINS_OP":
        # The text is loaded before `os` and `environ`.
        before = steps[at - 2] if at >= 2 else ("", 0)
        asked = code.co_consts[before[1]] if before[0] == "LOAD_CONST" else None
    elif not _WRITES.isdisjoint(operation for operation, _ in following[:2]):
        return ""
    else:
        asked = _constant_asked(code, steps, at)
    return asked if isinstance(asked, str) else "*"


class _Reader:
    """Collects the facts of nested code objects; one instruction of context on each side is enough."""

    def __init__(self) -> None:
        self.loads: set[str] = set()
        self.writes: set[str] = set()
        self.texts: list[str] = []
        self.everything = ""
        self.absence = False
        self.imports: set[str] = set()
        self.attributes: set[tuple[str, ...]] = set()
        self.changed: set[tuple[str, ...]] = set()
        self.seeds = False
        self.environ: set[str] = set()
        self.metadata = False
        self.names: set[str] = set()

    def read(self, code: CodeType) -> None:
        steps = list(_instructions(code))
        self.seeds |= any(map(rules.sets_stream, code.co_names))
        self.names.update(code.co_names)
        chain: tuple[str, ...] = ()
        before: tuple[str, ...] = ()
        for position, (operation, argument) in enumerate(steps):
            following = steps[position + 1][0] if position + 1 < len(steps) else ""
            next_chain: tuple[str, ...] = ()
            if operation in _GLOBAL_LOADS:
                name = _name_of(code, operation, argument)
                self.loads.add(name)
                next_chain = (name,)
            elif operation in ("LOAD_ATTR", "LOAD_METHOD"):
                name = _name_of(code, operation, argument)
                if chain:
                    next_chain = (*chain, name)
                    self.attributes.add(next_chain)
                    if name in rules.MUTATORS:
                        self.changed.add(next_chain)
                self._attribute(name, chain, code, steps, position)
            elif operation in ("STORE_ATTR", "DELETE_ATTR") and chain:
                self.changed.add((*chain, _name_of(code, operation, argument)))
            elif operation in ("STORE_SUBSCR", "DELETE_SUBSCR") and before:
                self.changed.add((*before, "[]"))
            elif operation in _GLOBAL_WRITES:
                self.writes.add(_name_of(code, operation, argument))
            elif operation in ("IMPORT_NAME", "IMPORT_FROM"):
                self._import(code, operation, _name_of(code, operation, argument))
            elif operation in ("LOAD_CONST", "RETURN_CONST") and following not in ("IMPORT_NAME", "CALL_KW"):
                self.texts.extend(_texts(code.co_consts[argument]))
            before, chain = chain, next_chain
        self._errors(code, steps)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.read(constant)

    def _attribute(
        self, name: str, chain: tuple[str, ...], code: CodeType, steps: list[tuple[str, int]], at: int
    ) -> None:
        # Of a global it is known what it is; `p.exists()` of a local is taken for a path's.
        operation, argument = steps[at]
        is_call = operation == "LOAD_METHOD" or (sys.version_info >= (3, 12) and bool(argument & 1))
        self.metadata |= is_call and not chain and name in _QUESTIONS
        if name in rules.ENVIRONMENT:
            self.environ.add(_variable_asked(code, steps, at, name))
        if name in rules.EVERYTHING_ATTRIBUTES or (name in ("eval", "exec") and chain == ("builtins",)):
            self.everything = self.everything or f".{name} may read any name"
        elif name in rules.QUERY_CALLS:
            rest = [operation for operation, _ in steps[at + 1 : at + 3]]
            argument = steps[at + 1][1] if len(steps) > at + 1 else 0
            no_argument = rest[:1] and rest[0] in ("PRECALL", "CALL") and argument == 0
            constant = rest[:1] == ["LOAD_CONST"] and len(rest) > 1 and rest[1] in _FOLLOWS_CONSTANT_CALL
            if not (no_argument or constant):
                self.everything = self.everything or f"{name}() gets a text made at run time, which may name anything"

    def _import(self, code: CodeType, operation: str, name: str) -> None:
        if operation == "IMPORT_NAME":
            self._module = name
            self.imports.add(name)
            if name == "__main__":
                self.everything = self.everything or "the module of the notebook may give any name"
        else:
            self.imports.add(f"{self._module}.{name}")
            if self._module == "os" and name in rules.ENVIRONMENT:
                self.environ.add("*")

    @staticmethod
    def _looks_modules_up(code: CodeType, steps: list[tuple[str, int]]) -> bool:
        """Tell whether `sys.modules` is asked for more than a module by its written name."""
        for at, (operation, argument) in enumerate(steps):
            loads = operation in ("LOAD_ATTR", "LOAD_METHOD") and _name_of(code, operation, argument) == "modules"
            if not loads and not (operation == "IMPORT_FROM" and code.co_names[argument] == "modules"):
                continue
            following = [name for name, _ in steps[at + 1 : at + 4]] + [""] * 3
            written = _constant_asked(code, steps, at) is not None or not _WRITES.isdisjoint(following)
            # `model.modules()` is a call, `'x' in sys.modules` only asks whether it is there.
            if not written and following[0] not in ("CONTAINS_OP", "PRECALL", "CALL"):
                return True
        return False

    def _errors(self, code: CodeType, steps: list[tuple[str, int]]) -> None:
        if "__main__" in code.co_consts and {"modules", "import_module", "__import__"} & set(code.co_names):
            self.everything = self.everything or "the module of the notebook may give any name"
        if {"sys", "modules"} <= set(code.co_names) and self._looks_modules_up(code, steps):
            self.everything = self.everything or "the module of the notebook may give any name"
        if not code.co_exceptiontable:
            return
        operations = {operation for operation, _ in steps}
        bare = "PUSH_EXC_INFO" in operations and not operations & {"CHECK_EXC_MATCH", "WITH_EXCEPT_START"}
        self.absence |= bare or bool(_ABSENCE_ERRORS & set(code.co_names))


@functools.lru_cache(maxsize=4096)
def code_facts(code: CodeType) -> CodeFacts:
    """Return what a code object may read, hold and change, nested functions and classes included.

    Equal code objects have the same instructions, names and constants, and nothing else is looked at here.
    """
    reader = _Reader()
    reader.read(code)
    everything = reader.everything
    if sys.version_info >= (3, 15):
        # Not seen yet: names of attributes count as reads too, rather than trusting an unknown instruction set.
        reader.loads |= set(code.co_names)
    return CodeFacts(
        loads=frozenset(reader.loads),
        writes=frozenset(reader.writes),
        texts=tuple(reader.texts),
        everything=everything,
        absence=reader.absence,
        imports=frozenset(reader.imports),
        attributes=frozenset(reader.attributes),
        changed=frozenset(reader.changed),
        seeds=reader.seeds,
        environ=frozenset(reader.environ - {""}),
        metadata=reader.metadata,
        names=frozenset(reader.names),
    )
