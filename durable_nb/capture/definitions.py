"""Functions, classes, code, cells, enums and typing objects of a notebook: who they are, and how pickle describes them.

Called by `codec` (to store) and `groups` (to walk). A *definition* is a function, class, cache wrapper, NewType or type
variable. One that a module offers is stored as its import name; one that is bound in the namespace is stored once,
under that name, and referred to by name from everywhere else; any other is stored by value with what holds it.
"""

from __future__ import annotations

import abc
import builtins
import enum
import linecache
import marshal
import sys
import types
import typing
from collections.abc import Mapping, Set
from typing import Any

from durable_nb.capture import caches, foreign, plainly, rebuild, runtime_modules
from durable_nb.capture.caches import LruCache
from durable_nb.capture.foreign import codes
from durable_nb.capture.hooks import hooks
from durable_nb.capture.reducers import Unstorable

__all__ = ["Definitions", "constants", "importable", "is_definition", "own_scope", "parts", "private"]

TYPING: frozenset[type] = frozenset({typing.NewType, typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple})
# A set: a class of the notebook may have a metaclass whose `==` is anything, and a hash is asked first.
_ATOM_DEFINITIONS: frozenset[type] = frozenset({types.FunctionType, LruCache, *TYPING})
_PLACES = (types.GetSetDescriptorType, types.MemberDescriptorType)
# Made anew by `type.__new__` or set in the skeleton; __slotnames__ is a cache that pickling itself leaves behind.
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
NO_MODULES: Mapping[int, types.ModuleType] = types.MappingProxyType({})
_NOT_MEMBERS = frozenset(
    {"__dict__", "__weakref__", "__module__", "_abc_impl", "__abstractmethods__", "__slotnames__"}
    | {"__msgspec_cache__"}  # what msgspec works out of a class when it first meets one
)


def is_definition(obj: object) -> bool:
    """Tell whether an object is a function, class that says what it is, cache wrapper, NewType or type variable."""
    return plainly.closed(obj) is None if issubclass(type(obj), type) else type(obj) in _ATOM_DEFINITIONS


def importable(obj: Any) -> bool:
    """Tell whether `import` and attribute access give this very object in a new process."""
    if plainly.closed(obj) is not None:
        return False
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    if not isinstance(module, str) or module == "__main__" or not isinstance(name, str):
        return False
    found: Any = sys.modules.get(module)
    if found is None:
        found = runtime_modules.of_library(module)
    if found is None:
        return False
    for part in name.split("."):
        try:
            found = plainly.members(found).get(part) if plainly.is_a(found, type) else getattr(found, part, None)
        except Exception:  # a lazy module may raise anything; then it is not a plain import
            return False
        if plainly.is_a(found, staticmethod | classmethod):
            found = found.__func__
    return found is obj and not runtime_modules.is_made(sys.modules[module])


def constants(cls: type) -> dict[int, tuple[str, str]]:
    """Return the stateless objects of this type that its own module offers: sentinels, told apart by identity only.

    So are `sys.version_info`, `sys.flags` and their like, whose types hide behind them.
    """
    if cls.__module__ == "sys":
        return {id(value): ("sys", name) for name, value in list(vars(sys).items()) if type(value) is cls}
    own_way = any(getattr(cls, name) is not getattr(object, name) for name in ("__reduce_ex__", "__reduce__"))
    if cls.__module__ == "__main__" or own_way or cls.__basicsize__ > object.__basicsize__ + 16:
        return {}
    module = sys.modules.get(cls.__module__)
    if module is None or not plainly.own_dict_of(cls):  # what works out its attributes has them elsewhere
        return {}
    return {
        id(value): (cls.__module__, name)
        for name, value in list(vars(module).items())
        if type(value) is cls and not plainly.own_dict(value)
    }


class Definitions:
    """Where the definitions of one namespace are bound, as of now."""

    def __init__(self, names: Mapping[str, Any], foreign: Set[str] = frozenset()) -> None:
        """Names in `foreign` are known to be bound to what modules define."""
        self.names, self.foreign = names, foreign
        self.paths: dict[int, tuple[str, ...]] = {}
        classes: list[tuple[str, type]] = []
        made: list[tuple[str, types.ModuleType]] = []
        asked: dict[type, bool] = {}  # most variables are data, and of a few types
        for name, value in names.items():
            if name in foreign:
                continue
            kind = type(value)
            try:
                known_kind = kind in asked
            except Exception:  # its class can be no key
                continue
            if not known_kind:
                asked[kind] = kind in _ATOM_DEFINITIONS or issubclass(kind, (type, types.ModuleType))
            if not asked[kind]:
                continue
            if issubclass(kind, types.ModuleType) and runtime_modules.by_value(value):
                made.append((name, value))
            if not is_definition(value) or importable(value):
                continue
            known = self.paths.get(id(value))
            # The name in the definition itself wins over aliases bound earlier.
            if known is None or getattr(value, "__name__", None) == name:
                self.paths[id(value)] = (name,)
            if known is None and issubclass(type(value), type):
                classes.append((name, value))
        for _, value in classes:
            self._nested(self.paths[id(value)], value, depth=0)
        for name, module in made:
            self._inside(name, module)

    def _inside(self, name: str, module: types.ModuleType) -> None:
        """Note where the definitions of a module are that the notebook made."""
        own = {key: value for key, value in vars(module).items() if is_definition(value) and not importable(value)}
        for key, value in own.items():
            known = self.paths.get(id(value))
            if known is None or (len(known) == 2 and known[0] == name and getattr(value, "__name__", None) == key):
                self.paths[id(value)] = (name, key)
        for key, value in own.items():
            if issubclass(type(value), type) and self.paths[id(value)] == (name, key):
                self._nested((name, key), value, depth=0)

    def _nested(self, path: tuple[str, ...], cls: type, depth: int) -> None:
        for name, value in vars(cls).items():
            if plainly.closed(value) is None and issubclass(type(value), (types.FunctionType, type)):
                # Another name for a method makes it no variable of its own: its class has to stay as it was.
                known = self.paths.get(id(value))
                is_alias = known is not None and len(known) == 1 and known[0] != name == value.__name__
                if (known is not None and not is_alias) or importable(value):
                    continue
                self.paths[id(value)] = (*path, name)
                if issubclass(type(value), type) and depth < 8:
                    self._nested((*path, name), value, depth + 1)

    def path(self, obj: object) -> tuple[str, ...] | None:
        """Return where an object is bound, or None."""
        return self.paths.get(id(obj))


def private(scope: dict[str, Any]) -> bool:
    """Tell whether a function's globals are a dictionary of its own (made by exec), not those of a module."""
    name = scope.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is None or vars(module) is not scope


def own_scope(f: types.FunctionType) -> dict[str, Any]:
    """Return the private globals of a function; of a copy of a whole namespace only what the function uses.

    Libraries that write code run it in such a copy: attrs in one of the notebook's globals, sympy's lambdify in one of
    all that numpy and scipy offer. It would drag all of it along, and some of it cannot be pickled.
    """
    scope = f.__globals__
    # Only a notebook has `_ih`. The globals of a script that %run ran are its own, and its functions share them.
    of_notebook = scope.get("__name__") == "__main__" and "_ih" in scope
    if not of_notebook and not f.__code__.co_filename.startswith("<lambdifygenerated-"):
        return scope
    used = {name for code in (f.__code__, *codes(f.__code__)) for name in code.co_names}
    return {name: value for name, value in scope.items() if name in used}


def parts(obj: Any) -> list[Any]:
    """Return what a definition holds, for the walk: never its globals."""
    if isinstance(obj, types.FunctionType):
        return [obj.__defaults__, obj.__kwdefaults__, obj.__dict__, obj.__annotations__, *(obj.__closure__ or ())]
    if type(obj) is LruCache:
        return [vars(obj)["__wrapped__"], vars(obj), *caches.held(obj)]
    if isinstance(obj, type):
        held = [v for k, v in vars(obj).items() if k not in _NOT_MEMBERS]
        if isinstance(obj, enum.EnumMeta):
            # The walk takes a member for its class; what hangs on the members is the class's to hold.
            members: Mapping[str, Any] = obj.__members__
            held += [vars(member) for member in members.values()]
        return [type(obj), *obj.__bases__, *held]
    return [v for v in vars(obj).values()] if hasattr(obj, "__dict__") else []


# --- reducers by value ----------------------------------------------------------------------------------------------


def source_of(code: types.CodeType) -> str | None:
    """Return the whole source of the cell that a code object comes from, if it is still known."""
    name = code.co_filename
    entry = linecache.cache.get(name)
    # Only cells: the source of a file belongs to that file.
    if entry is None or len(entry) < 3 or entry[1] is not None:
        return None
    return "".join(entry[2])


class ByValue:
    """Describes definitions by value for one pickle; keeps shared sources, cells and globals shared in it."""

    def __init__(
        self,
        namespace: dict[str, Any],
        modules: Mapping[int, types.ModuleType] = NO_MODULES,
        entries: caches.Entries | None = None,
    ) -> None:
        """`modules` are the modules stored by value that the walk saw, by the id of their dictionary.

        `entries` is what caches take along of what they remember; without it they are described as if new.
        """
        self.namespace, self.modules, self.entries = namespace, modules, entries
        self.caches = False
        self.sources: dict[str, str | None] = {}
        self.nans: dict[int, tuple[int, float]] = {}
        self.empty_cells: set[int] = set()
        self.enums: set[type] = set()
        self.marks: set[str] = set()  # what this pickle rebuilds by value, for the proof

    def code(self, code: types.CodeType) -> tuple[Any, ...]:
        """Describe a code object, its file name kept."""
        name = code.co_filename
        if name not in self.sources:
            self.sources[name] = source_of(code)
        # Version 2 of marshal knows no back references, whose flags depend on reference counts: same code, same bytes.
        blob = marshal.dumps(code, 2)
        minor = foreign.minor()
        self.marks.add(f"{name}:{code.co_firstlineno}:{code.co_qualname}")
        return rebuild._make_code, (blob, minor, name, code.co_qualname, code.co_firstlineno, self.sources[name])

    def cell(self, cell: types.CellType) -> tuple[Any, ...]:
        """Describe a cell: empty when a function in this pickle fills it, else with its content."""
        if id(cell) in self.empty_cells:
            return rebuild._make_cell, ()
        try:
            content = (cell.cell_contents,)
        except ValueError:
            return rebuild._make_cell, ()
        return rebuild._make_cell, (), content, None, None, rebuild._fill_cell

    def function(self, f: types.FunctionType) -> tuple[Any, ...]:
        """Describe a function: skeleton first, then all that may lead back to it."""
        cells = f.__closure__
        state: dict[str, Any] = {}
        if cells:
            filled = []
            for cell in cells:
                self.empty_cells.add(id(cell))
                try:
                    filled.append((cell, cell.cell_contents))
                except ValueError:  # a cell that is not set yet stays empty
                    continue
            state["cells"] = tuple(filled)
        if f.__dict__:
            state["dict"] = dict(f.__dict__)
        for name in ("__defaults__", "__kwdefaults__", "__annotations__", "__type_params__"):
            value = getattr(f, name, None)
            if value:
                state[name] = value
        state["__doc__"] = f.__doc__
        state["__module__"] = f.__module__
        state["__name__"] = f.__name__
        state["__qualname__"] = f.__qualname__
        home = self.modules.get(id(f.__globals__))
        if home is not None:
            args = (f.__code__, home, cells)
            return rebuild._make_function_in, args, state, None, None, rebuild._fill_function
        args = (f.__code__, self._where(f), cells)
        return rebuild._make_function, args, state, None, None, rebuild._fill_function

    def _where(self, f: types.FunctionType) -> Any:
        scope = f.__globals__
        if scope is self.namespace:
            return None
        if private(scope):
            return own_scope(f)
        name = scope["__name__"]
        return name if name != "__main__" else None

    def module(self, module: Any) -> tuple[Any, ...]:
        """Describe a module that no import brings back: bare, then what it holds."""
        held = vars(module)
        self.marks.add(f"module:{module.__name__}")
        known = held.get("__builtins__") is builtins.__dict__
        state = {k: v for k, v in held.items() if k != "__builtins__" or not known}
        args = (type(module), module.__name__, known)
        return rebuild._make_made_module, args, state, None, None, rebuild._fill_made_module

    def lru_cache(self, wrapper: Any) -> tuple[Any, ...]:
        """Describe a cache wrapper, with what it remembers if this pickle is to take that along."""
        self.caches = True
        options = wrapper.cache_parameters()
        # Around a class `update_wrapper` has copied its slots as well; it does so again.
        state = {
            k: v
            for k, v in vars(wrapper).items()
            if k not in ("__wrapped__", "cache_parameters") and type(v) not in _PLACES
        }
        args = (wrapper.__wrapped__, options["maxsize"], options["typed"])
        found = self.entries.of(wrapper) if self.entries is not None else None
        if found is None:
            return rebuild._make_lru_cache, args, state, None, None, rebuild._fill_dict
        return caches._make_cache, args, {"dict": state, **found.as_state()}, None, None, caches._fill_cache

    def typing_object(self, obj: Any) -> tuple[Any, ...]:
        """Describe a NewType or type variable."""
        if type(obj) is typing.NewType:
            return rebuild._make_newtype, (
                obj.__name__,
                obj.__supertype__,
                obj.__module__,
                vars(obj).get("__qualname__", obj.__name__),
            )
        if isinstance(obj, typing.TypeVar):
            options = {"covariant": obj.__covariant__, "contravariant": obj.__contravariant__, "bound": obj.__bound__}
            options = {k: v for k, v in options.items() if v}
            return rebuild._make_typevar, (obj.__name__, obj.__constraints__, options, obj.__module__)
        if isinstance(obj, typing.ParamSpec):
            return rebuild._make_paramspec, (obj.__name__, obj.__module__)
        return rebuild._make_typevartuple, (obj.__name__, obj.__module__)

    def cls(self, cls: Any) -> tuple[Any, ...]:
        """Describe a class: a bare skeleton, then its members."""
        if not cls.__flags__ & HEAP_TYPE or _has_native_parts(cls):
            raise Unstorable(f"class {cls.__qualname__} belongs to an extension module and cannot be found by import")
        refused = _only_by_its_statement(cls)
        if refused is not None:
            raise Unstorable(refused)
        self.marks.add(f"class:{cls.__module__}.{cls.__qualname__}")
        held = dict(vars(cls))
        slots = [k for k, v in held.items() if type(v) is types.MemberDescriptorType and v.__objclass__ is cls]
        bare: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
        # Names hold the places of members, because people iterate over a class in order. Special methods do not: a
        # class that is in a circle with its instances or subclasses is used before its members are there.
        bare.update(dict.fromkeys(name for name in held if name not in slots and not _special(name)))
        if "__slots__" in held:
            bare["__slots__"] = (*slots, *(k for k in ("__dict__", "__weakref__") if k in held))
        if "__orig_bases__" in held:
            bare["__orig_bases__"] = held["__orig_bases__"]
        members = {k: v for k, v in held.items() if k not in _NOT_MEMBERS and k not in slots}
        state: dict[str, Any] = {**hooks(cls, members), "members": members}
        if issubclass(type(cls), abc.ABCMeta):
            self._abc(cls, state)
        if isinstance(cls, enum.EnumMeta):
            return self._enum(cls, bare, state)
        return (
            rebuild._make_class,
            (type(cls), cls.__name__, cls.__bases__, bare),
            state,
            None,
            None,
            rebuild._fill_class,
        )

    def _abc(self, cls: Any, state: dict[str, Any]) -> None:
        import _abc  # type: ignore[import-not-found,unused-ignore]

        state["abstract"] = cls.__abstractmethods__
        registered = [ref() for ref in _abc._get_dump(cls)[0]]
        if registered:
            state["registered"] = sorted((r for r in registered if r is not None), key=lambda r: str(r.__qualname__))

    def _enum(self, cls: Any, bare: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        self.enums.add(cls)
        by_name: dict[str, Any] = vars(cls).get("_member_map_", {})
        canonical = {name: member for name, member in by_name.items() if member._name_ == name}
        plain = tuple((name, _plain(cls, member)) for name, member in canonical.items())
        members = state["members"]
        members.pop("_member_map_", None)
        # Combinations of flags are made when first used; only real members belong to the class.
        known = {id(member) for member in canonical.values()}
        by_value = members.get("_value2member_map_", {})
        members["_value2member_map_"] = {value: member for value, member in by_value.items() if id(member) in known}
        state["attributes"] = {name: dict(vars(member)) for name, member in canonical.items()}
        state["aliases"] = {name: member._name_ for name, member in by_name.items() if name not in canonical}
        state["order"] = list(by_name)
        args = (type(cls), cls.__name__, cls.__bases__, bare, plain)
        return rebuild._make_enum, args, state, None, None, rebuild._fill_enum

    def member(self, member: Any) -> tuple[Any, ...]:
        """Describe an enum member by its name, a combination of flags by its value."""
        cls = type(member)
        if cls._member_map_.get(member._name_) is member:
            return rebuild._make_member, (cls, member._name_)
        return rebuild._make_flag, (cls, member._value_)


def _only_by_its_statement(cls: Any) -> str | None:
    """Return why nothing but the class statement makes a class: a library lays it out, or has not finished with it.

    Asked before anything of the class is touched: looking at mapped attributes makes SQLAlchemy set up all mappings,
    which fails for good while a class that they name is still to come.
    """
    again = f"run the cell that makes {cls.__qualname__} again"
    registry = next((vars(base)["_sa_registry"] for base in cls.__mro__ if "_sa_registry" in vars(base)), None)
    if registry is not None and not all(mapper.configured for mapper in registry.mappers):
        return (
            f"SQLAlchemy sets up the mappings of class {cls.__qualname__} when they are first used; until then, {again}"
        )
    meta = type(cls)
    maker = next((vars(b)["__new__"] for b in meta.__mro__ if isinstance(vars(b).get("__new__"), _BUILTIN)), None)
    if maker is not None and maker.__self__ is not type:
        return f"{meta.__module__}.{meta.__qualname__} lays out class {cls.__qualname__} in C; {again}"
    return None


_BUILTIN = types.BuiltinFunctionType


def _special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in ("__doc__", "__annotations__")


_NATIVE = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)


def _has_native_parts(cls: type) -> bool:
    """Tell whether an extension module made the class: what is native in it cannot be rebuilt."""
    return any(
        isinstance(value, _NATIVE) and value.__objclass__ is cls and name not in _NOT_MEMBERS
        for name, value in vars(cls).items()
    )


def _plain(cls: Any, member: Any) -> tuple[type, Any] | None:
    """Return the built-in type and value that an enum mixes in (int, str, ...), None for a plain enum."""
    mixin = vars(cls).get("_member_type_", object)
    base = next(b for b in mixin.__mro__ if not b.__flags__ & HEAP_TYPE)
    if base is object:
        return None
    if base not in _PLAIN_VALUE:
        raise Unstorable(f"enum {cls.__qualname__} mixes in {mixin.__qualname__}, which cannot be rebuilt")
    return base, _PLAIN_VALUE[base](member)


# The value without the enum's own `__str__`, `__int__` and the like.
_PLAIN_VALUE: Mapping[type, Any] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda member: b"".join((member,)),
    tuple: lambda member: tuple(tuple.__iter__(member)),
}
