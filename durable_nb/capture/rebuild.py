"""Every callable that a stored pickle may name to rebuild functions, classes, code, cells, enums and typing objects.

Called by the unpickler only. These names and signatures are part of the on-disk format: they are never moved, renamed
or narrowed. Nothing here runs the user's code: a class comes back without its metaclass's `__init__`, its decorators or
`__init_subclass__`, because what those did is part of the stored state already.
"""

from __future__ import annotations

import abc
import builtins
import dataclasses
import functools
import gc
import importlib
import linecache
import marshal
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from durable_nb.capture import foreign, generated
from durable_nb.capture.foreign import Lost, NotFound
from durable_nb.capture.whole import missing_in

__all__ = ["Loading", "loading", "missing_of_library", "resolve", "stand_in", "when_live", "when_lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """What a load is bound to: the live namespace, where names of other groups come from, what was not made again.

    `layouts` gives the names in the order of a closure's cells for code that this Python orders in another way.
    `afterwards` is what to do once the values are live, which what is only compared or proved never is.
    `optional` gives the values the chance to let go of what was not made again, where they can do without it.
    """

    namespace: dict[str, Any]
    resolve: Callable[[str], object]
    lost: list[Lost] = field(default_factory=list)
    layouts: dict[int, tuple[types.CodeType, tuple[str, ...]]] = field(default_factory=dict)
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    optional: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)

    def let_go(self, loaded: Mapping[str, object]) -> None:
        """Drop what the loaded values can do without; what is left of stand-ins is then a loss of nobody's."""
        if not self.lost or not self.optional:
            return
        for action in self.optional:
            action(self.namespace)
        if all(missing_in(value, self.namespace) is None for value in loaded.values()):
            for index in range(len(self.lost)):
                self.lost[index].settle()

    def reason(self) -> str | None:
        """Return why something that was loaded is not whole, or None."""
        reason = next((lost.reason for lost in self.lost if not lost.settled), None)
        if reason is not None:
            return reason
        for index in range(len(self.lost)):
            self.lost[index].state = {}
        reason = self._held()
        if reason is not None:
            gc.collect()  # what was replaced may still hold itself
            reason = self._held()
        return reason

    def _held(self) -> str | None:
        # The list and the argument: whoever else holds what its class has replaced would hold a dead thing.
        for index in range(len(self.lost)):
            if sys.getrefcount(self.lost[index]) > 2:
                return self.lost[index].reason
        return None


# A context variable, because pickle gives the callables it names no other way to learn which load they serve.
_LOADING: ContextVar[Loading] = ContextVar("durable_nb_loading")


@contextmanager
def loading(namespace: dict[str, Any], resolver: Callable[[str], object]) -> Iterator[Loading]:
    """Bind the rebuild functions to a namespace and a resolver while a group loads."""
    current = Loading(namespace=namespace, resolve=resolver)
    token = _LOADING.set(current)
    try:
        yield current
    finally:
        _LOADING.reset(token)


def resolve(name: str) -> object:
    """Return the value of a name of another group."""
    return _LOADING.get().resolve(name)


def when_live(action: Callable[[], None]) -> None:
    """Have something done once the values that are being loaded are live."""
    _LOADING.get().afterwards.append(action)


def when_lost(action: Callable[[dict[str, Any]], None]) -> None:
    """Have something done, given the namespace, if this load meets what cannot be made again."""
    _LOADING.get().optional.append(action)


def _main(path: tuple[str, ...]) -> object:
    """Return a definition by where it is bound: a variable, then attributes."""
    value = resolve(path[0])
    for part in path[1:]:
        held = vars(value).get(part) if isinstance(value, type) else None
        value = getattr(value, part) if held is None or hasattr(type(held), "__get__") else held
    return value


def _main_raw(path: tuple[str, ...]) -> object:
    """Return what stands in a class dictionary under a name, without binding it."""
    value = resolve(path[0])
    for part in path[1:]:
        value = vars(value)[part]
    return value


def _make_module(name: str) -> types.ModuleType:
    return sys.modules["__main__"] if name == "__main__" else importlib.import_module(name)


def _make_made_module(cls: type[types.ModuleType], name: str, builtin: bool) -> types.ModuleType:
    """Return a module that the notebook had made, still empty, without the `__init__` of a class of its own."""
    made = cls.__new__(cls)
    types.ModuleType.__init__(made, name)
    vars(made).clear()
    # Functions look for it while they are made, before the module has its content.
    vars(made).update({"__name__": name, **({"__builtins__": builtins.__dict__} if builtin else {})})
    return made


def _fill_made_module(module: types.ModuleType, state: dict[str, Any]) -> None:
    vars(module).update(state)


# --- code and functions ---------------------------------------------------------------------------------------------


def _make_code(
    blob: bytes, minor: tuple[int, int], filename: str, qualname: str, line: int, source: str | None
) -> types.CodeType | Lost:
    """Return the code object as it was; under another Python minor version compile it from its cell's source."""
    if source is not None and filename not in linecache.cache:
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    if minor == foreign.minor():
        code: types.CodeType = marshal.loads(blob)
        return code
    recorded = foreign.read_code(blob)
    here = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    try:
        if source is None:
            raise NotFound("its source was not recorded (made by exec or eval?)")
        return _laid_out(foreign.in_source(source, filename, qualname, line, recorded), recorded)
    except NotFound as missing:
        return _lost(
            f"{qualname} was compiled by Python {minor[0]}.{minor[1]} and cannot be made again by {here}: "
            f"{missing.args[0]}. Run the cell that makes it again, or load it with Python {minor[0]}.{minor[1]}",
            recorded,
            filename,
        )


def _laid_out(code: types.CodeType, recorded: foreign.Recorded | None) -> types.CodeType:
    current = _LOADING.get(None)
    if current is not None and recorded is not None and recorded.free != code.co_freevars:
        current.layouts[id(code)] = (code, recorded.free)
    return code


def _lost(reason: str, recorded: foreign.Recorded | None = None, filename: str = "") -> Lost:
    """Return a stand-in; the load fails in the end unless something else takes its place."""
    current = _LOADING.get(None)
    if current is None:
        raise ValueError(reason)
    current.lost.append(Lost(reason, recorded, filename))
    return current.lost[-1]


def _make_cell() -> types.CellType:
    return types.CellType()


def _fill_cell(cell: types.CellType, content: tuple[object]) -> None:
    cell.cell_contents = content[0]


def _make_function(
    code: types.CodeType | Lost, where: str | dict[str, Any] | None, cells: tuple[types.CellType, ...] | None
) -> types.FunctionType | Lost:
    """Return a function on the live namespace (`where` None), a module's globals (its name) or a private dictionary."""
    if where is None:
        scope = _LOADING.get().namespace
    elif isinstance(where, str):
        scope = vars(_make_module(where))
    else:
        scope = where
    if isinstance(code, Lost):
        # A wrapper that a library's decorator made: the library's own source has it. Else a script's, from its file.
        try:
            if isinstance(where, str):
                found = foreign.in_module(where, code.recorded)
            else:
                found = foreign.in_file(code.filename, code.recorded)
            _laid_out(found, code.recorded)
        except (NotFound, ImportError, SyntaxError, ValueError):
            code.settle()  # the function is what is lost now
            return _lost(code.reason)
        code.settle()
        code = found
    if id(code) in _LOADING.get().layouts:
        by_name = dict(zip(_LOADING.get().layouts[id(code)][1], cells or (), strict=True))
        cells = tuple(by_name[name] for name in code.co_freevars) or None
    return types.FunctionType(code, scope, code.co_name, None, cells)


def _make_function_in(
    code: types.CodeType | Lost, module: types.ModuleType, cells: tuple[types.CellType, ...] | None
) -> types.FunctionType | Lost:
    """Return a function whose globals are those of a module that was stored by value."""
    return _make_function(code, vars(module), cells)


def _fill_function(function: types.FunctionType | Lost, state: dict[str, Any]) -> None:
    # State setters get every part at once; a cell is shared by functions, and each sets it to the same content.
    for cell, content in state.get("cells", ()):
        cell.cell_contents = content
    if isinstance(function, Lost):
        function.state = state
        return
    state.pop("cells", None)
    function.__dict__.update(state.pop("dict", {}))
    for name, value in state.items():
        setattr(function, name, value)


def _make_lru_cache(function: Any, maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize=maxsize, typed=typed)(function)


# --- classes --------------------------------------------------------------------------------------------------------


@contextmanager
def _no_init_subclass(bases: tuple[type, ...]) -> Iterator[None]:
    """Keep the bases' `__init_subclass__` from running while a skeleton is made.

    It ran when the class statement did; a second run would register the class twice or miss its keyword arguments.
    """
    owner = next(
        (b for base in bases for b in base.__mro__ if isinstance(vars(b).get("__init_subclass__"), classmethod)), None
    )
    if owner is None:
        yield
        return
    kept = vars(owner)["__init_subclass__"]
    try:
        type.__setattr__(owner, "__init_subclass__", classmethod(lambda cls, **_: None))
    except TypeError:  # an immutable type of an extension module: its hook cannot be the user's
        yield
        return
    try:
        yield
    finally:
        type.__setattr__(owner, "__init_subclass__", kept)


def _make_class(meta: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """Return the bare class: right metaclass, bases, slots and names, no members, nobody told about it."""
    with _no_init_subclass(bases):
        made: type = type.__new__(meta, name, bases, dict(namespace))
    if issubclass(meta, abc.ABCMeta):
        import _abc  # type: ignore[import-not-found,unused-ignore]  # what ABCMeta.__new__ calls

        _abc._abc_init(made)
    return made


def _fill_class(made: type, state: dict[str, Any]) -> None:
    for name, value in state["members"].items():
        type.__setattr__(made, name, value)
    if "abstract" in state:
        type.__setattr__(made, "__abstractmethods__", state["abstract"])
    for registered in state.get("registered", ()):
        abc.ABCMeta.register(made, registered)  # type: ignore[arg-type]
    generated.complete(made)


def _make_record(name: str) -> object:
    """Return what dataclasses keep of a class (`_DataclassParams`) or a field (`Field`), still empty."""
    cls: type = getattr(dataclasses, name)
    return object.__new__(cls)


def _fill_record(target: object, state: dict[str, Any]) -> None:
    generated.fill_record(target, state)


def _make_unwrapped(module: str, qualname: str) -> object:
    """Return the function inside a class method or static method that a module offers."""
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = vars(found).get(part)
        found = getattr(found, "__func__", found)
        if found is None:
            return missing_of_library(module, qualname)
    return found


def stand_in(reason: str) -> object:
    """Return what stands for a definition that did not load."""
    return _lost(reason)


def missing_of_library(module: str, name: str) -> Lost:
    """Return a stand-in for what the standard library of another version offers and this one does not."""
    return _lost(
        f"{module}.{name} does not exist in Python {sys.version_info[0]}.{sys.version_info[1]}. "
        f"Run the cell that uses it again, or load it with the version of Python that has it"
    )


def _make_enum(
    meta: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any], members: tuple[tuple[str, Any], ...]
) -> type:
    """Return an enum class whose members exist, still without their attributes; mixins (int, str) carry their value."""
    made = _make_class(meta, name, bases, namespace)
    by_name: dict[str, Any] = {}
    for member, plain in members:
        by_name[member] = object.__new__(made) if plain is None else plain[0].__new__(made, plain[1])
        # What hangs on a member may have it as a key, and asks for its hash before it has the rest.
        by_name[member].__dict__["_name_"] = member
    type.__setattr__(made, "_member_map_", by_name)
    return made


def _fill_enum(made: Any, state: dict[str, Any]) -> None:
    by_name = vars(made)["_member_map_"]
    for name, attributes in state["attributes"].items():
        by_name[name].__dict__.clear()
        by_name[name].__dict__.update(attributes)
    for alias, name in state["aliases"].items():
        by_name[alias] = by_name[name]
    ordered = {name: by_name[name] for name in state["order"]}
    by_name.clear()
    by_name.update(ordered)
    _fill_class(made, state)
    generated.complete_enum(made)


def _make_member(enum: Any, name: str) -> object:
    return vars(enum)["_member_map_"][name]


def _make_flag(enum: Any, value: Any) -> object:
    return enum(value)


# --- typing ---------------------------------------------------------------------------------------------------------


def _make_newtype(name: str, supertype: Any, module: str, qualname: str) -> Any:
    made = typing.NewType(name, supertype)  # type: ignore[misc]
    made.__module__ = module
    made.__qualname__ = qualname
    return made


def _make_typevar(name: str, constraints: tuple[Any, ...], options: dict[str, Any], module: str) -> Any:
    made = typing.TypeVar(name, *constraints, **options)  # type: ignore[misc]
    made.__module__ = module
    return made


def _make_paramspec(name: str, module: str) -> Any:
    made = typing.ParamSpec(name)  # type: ignore[misc]
    made.__module__ = module
    return made


def _make_typevartuple(name: str, module: str) -> Any:
    made = typing.TypeVarTuple(name)  # type: ignore[misc]
    made.__module__ = module
    return made


def _fill_dict(target: Any, state: Mapping[str, Any]) -> None:
    """Set instance attributes without asking the class's own `__setattr__`."""
    target.__dict__.update(state)


def _share_dict(target: Any, state: dict[str, Any]) -> None:
    """Make a dictionary that others hold, too, the instance's own."""
    object.__setattr__(target, "__dict__", state)


def _share_state(target: Any, given: tuple[Any, dict[str, Any]]) -> None:
    """The same for an instance whose class has a state of its own: what that makes of the dictionary, others see."""
    state, held = given
    setter = getattr(target, "__setstate__", None)
    if state is not None and setter is not None:
        setter(state)
    elif state is not None:
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        vars(target).update(attributes or {})
        for name, value in (slots or {}).items():
            setattr(target, name, value)
    own = object.__getattribute__(target, "__dict__")
    if own is not held:
        content = dict(own)
        held.clear()
        held.update(content)
        object.__setattr__(target, "__dict__", held)
