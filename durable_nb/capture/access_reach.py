"""Close the reads of a cell over the notebook functions, methods, closures and containers they lead to.

Called by `access.analyse` only. Looks at live objects without running any of their code: no attribute access that a
class could override, no iteration of anything but built-in containers.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import types
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final

from durable_nb.capture import access_rules as rules
from durable_nb.capture import plainly
from durable_nb.capture.access_ast import Use
from durable_nb.capture.access_bytecode import CodeFacts, code_facts
from durable_nb.capture.access_modules import installed_folders, local_file
from durable_nb.capture.outside import (
    EVERY_VARIABLE,
    MAIN_REASON,
    METADATA,
    environment_ids,
    is_environment,
    is_main,
    is_metadata,
    readers_named,
    unseen_reader,
)

__all__ = ["TOO_LONG", "TOO_MANY", "Reach"]

MAX_OBJECTS: Final = 10_000
MAX_DEPTH: Final = 2
MAX_TEXT: Final = 100_000
# Not all that it may read is known. What it may change is found by the references that groups have to each other.
TOO_MANY: Final = f"more than {MAX_OBJECTS} objects can be reached, too many to look at"
TOO_LONG: Final = "a text is too long to look for names in it"
NO_HASH: Final = "it leads to an object whose class cannot be asked for its hash"
_BUILTINS = frozenset(vars(builtins))
_ATOMS = frozenset({int, float, complex, bool, bytes, type(None), bytearray, range, type(Ellipsis)})
_DATA = _ATOMS | {str}
_TEXT = frozenset({str})
_CONTAINERS = (list, tuple, set, frozenset, dict)
_DESCRIPTORS = (staticmethod, classmethod)
# Objects that lead to code or to other objects in a way of their own.
_HOLDERS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.CellType,
    functools.partial,
    property,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
)
_owner = plainly.module
_CACHED = type(functools.lru_cache(lambda: None))


class Reach:
    """One walk over what the names of a cell lead to; adds what it finds to the cell's `Use`."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self.namespace = namespace
        self._use = Use()
        self._todo: list[tuple[object, int]] = []
        self._seen: dict[int, object] = {}
        self._codes: dict[int, CodeFacts] = {}
        self._names: set[str] = set()
        self._local: dict[str, bool] = {}
        self._modules: set[str] = set()
        self._texts: set[str] = set()
        self._plain: dict[type, bool] = {}
        self._environment = environment_ids()
        self._members: dict[type, list[Any]] = {}
        self._attributes: dict[type, bool] = {}
        self._installed: tuple[str, ...] = ()

    def follow(self, use: Use, values: Iterable[object] = ()) -> None:
        """Add everything that the names in `use`, and `values`, lead to, to `use` itself."""
        try:
            self._follow(use, values)
        except TypeError as error:
            # The class of an object that was reached has a metaclass that defines `__eq__` and no `__hash__`.
            if "unhashable type" not in str(error):
                raise
            use.everything.append(NO_HASH)

    def _follow(self, use: Use, values: Iterable[object]) -> None:
        self._use = use
        self._push_all(values, 0)
        for name in [*use.loads, *use.text]:
            # What a cell's own code asks of the notebook as a module, of the environment or of files is in its text.
            value = self.namespace.get(name)
            if not (is_main(value) or is_environment(value) or is_metadata(value)):
                self._name(name)
        while self._todo:
            if len(self._seen) > MAX_OBJECTS:
                use.everything.append(TOO_MANY)
                return
            value, depth = self._todo.pop()
            self._visit(value, depth)

    # -- names and texts -----------------------------------------------------------------------------------------

    def _name(self, name: str) -> None:
        if name in self._names:
            return
        self._names.add(name)
        if name in self.namespace:
            self._push(self.namespace[name], 0)

    def _load(self, name: str) -> None:
        """Take a global that reached code loads."""
        if is_main(self.namespace.get(name)):
            self._use.everything.append(MAIN_REASON)
            return
        shadowed = name in self.namespace and name not in rules.SHELL_NAMES
        if name in rules.EVERYTHING_NAMES and not shadowed:
            self._use.everything.append(f"{name} in a function may read any name")
        elif (name in _BUILTINS and not shadowed) or (name.startswith("__") and name.endswith("__")):
            if name == "input":
                self._use.unknown.add("input()")
        else:
            self._use.loads.add(name)
            self._name(name)

    def _text(self, text: str) -> None:
        if text in self._texts:
            return
        if len(text) > MAX_TEXT:
            self._use.everything.append(TOO_LONG)
            return
        self._texts.add(text)
        for word in (text,) if text.isascii() and text.isidentifier() else set(rules.IDENTIFIER.findall(text)):
            if word in self.namespace and word not in rules.SHELL_NAMES and word not in self._names:
                if rules.history_name(word, self.namespace) in ("Out[*]", "In[*]") or word.startswith("__"):
                    continue
                self._use.text.add(word)
                self._name(word)

    # -- objects -------------------------------------------------------------------------------------------------

    def _push(self, value: object, depth: int) -> None:
        if type(value) in _ATOMS:
            return
        if type(value) is str:
            self._text(value)
        elif id(value) not in self._seen:
            # Kept, so that the id of a temporary is not given to another object meanwhile.
            self._seen[id(value)] = value
            self._todo.append((value, depth))

    def _push_all(self, values: Iterable[object], depth: int) -> None:
        # What `_push` does, without a call for each of ten thousand values.
        seen, todo = self._seen, self._todo
        for value in values:
            kind = type(value)
            if kind in _ATOMS:
                continue
            if kind is str:
                self._text(value)  # type: ignore[arg-type]
            elif id(value) not in seen:
                if len(seen) > MAX_OBJECTS:
                    return
                seen[id(value)] = value
                todo.append((value, depth))

    def _visit(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind not in self._plain:
            self._plain[kind] = _is_plain(kind)
        if self._plain[kind] and id(value) not in self._environment:
            if type(kind) is type and kind in _CONTAINERS:
                self._container(value, depth)
            else:
                self._instance(value, depth)
            return
        if reader := unseen_reader(value):
            self._use.unknown.add(f"{reader} may read files unseen")
        if is_environment(value):
            self._use.environ.add(EVERY_VARIABLE)
            return
        if is_metadata(value):
            self._use.unknown.add(METADATA)
            return
        if kind is types.FunctionType:
            self._function(value)
        elif issubclass(kind, type):
            self._class(value)
        elif kind is types.MethodType:
            self._push_all((value.__func__, value.__self__), depth)
        elif is_main(value):
            self._use.everything.append(MAIN_REASON)
        elif value is builtins:
            self._use.everything.append("builtins may give any name")
        elif issubclass(kind, types.ModuleType):
            self._module(value.__name__)
        elif issubclass(kind, functools.partial):
            self._push_all((value.func, *value.args, *value.keywords.values()), depth)
        elif issubclass(kind, _DESCRIPTORS):
            self._push(value.__func__, depth)
        elif issubclass(kind, property):
            self._push_all((value.fget, value.fset, value.fdel), depth)
        elif kind is types.CellType:
            self._cells((value,), depth)
        elif kind is types.BuiltinMethodType:
            if rules.opens_everything(value):
                self._use.everything.append(f"{value.__name__} may read any name")
            self._push(value.__self__, depth)
        elif issubclass(kind, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
            # What a suspended generator goes on to do is code of the notebook too.
            self._code(value.gi_code if issubclass(kind, types.GeneratorType) else _code_of(value))
        elif issubclass(kind, (list, tuple, set, frozenset, dict)):
            self._container(value, depth)
        if not issubclass(kind, (type, types.ModuleType, types.FunctionType)):
            self._instance(value, depth)

    def _container(self, value: Any, depth: int) -> None:
        if depth >= MAX_DEPTH:
            return
        kind = type(value)
        # The built-in's own iteration: a subclass may have overridden it.
        base: Any = next(b for b in _CONTAINERS if issubclass(kind, b))
        values: Any = value  # a plain list or tuple needs no copy: taking it in runs no code of the notebook
        if kind is not list and kind is not tuple:
            values = tuple(dict.values(value)) if base is dict else tuple(base.__iter__(value))
        if len(values) > MAX_OBJECTS:
            # So many strings are data; a query is not built out of a column. One thing that is none is enough.
            if next(itertools.filterfalse(_DATA.__contains__, map(type, values)), None) is not None:
                self._use.everything.append(TOO_MANY)
            return
        if _ATOMS.issuperset(map(type, values)):
            return
        self._push_all(values, depth + 1)
        if base is dict and not _TEXT.issuperset(map(type, dict.__iter__(value))):
            self._push_all((k for k in dict.__iter__(value) if type(k) is not str), depth + 1)

    def _instance(self, value: object, depth: int) -> None:
        kind = type(value)
        module = _owner(kind)
        if module == "__main__":
            self._push(kind, 0)
        elif module not in ("builtins", "types"):
            self._module(module)
        if kind is _CACHED:
            self._push(value.__wrapped__, 0)  # type: ignore[attr-defined]
        if depth > MAX_DEPTH:
            return
        if kind not in self._members:
            mine = (c for c in plainly.lineage(kind) if _owner(c) == "__main__")
            self._members[kind] = [plainly.members(c).get(n) for c in mine for n in plainly.slots(c)]
            self._attributes[kind] = plainly.own_dict_of(kind)
        try:
            # What works its `__dict__` out is not asked for it.
            own = object.__getattribute__(value, "__dict__") if self._attributes[kind] else None
        except AttributeError:
            own = None
        if type(own) is dict:
            self._push_all(list(own.values()), depth + 1)
        for member in self._members[kind]:
            if type(member) is types.MemberDescriptorType:
                try:
                    self._push(member.__get__(value, kind), depth + 1)
                except AttributeError:
                    continue  # An empty slot holds nothing.

    def _class(self, value: type) -> None:
        if _owner(value) != "__main__":
            self._module(_owner(value))
            return
        self._push_all(list(plainly.members(value).values()), 0)
        self._push_all((*plainly.bases(value), type(value)), 0)

    def _function(self, value: types.FunctionType) -> None:
        attributes = list(value.__dict__.values())
        self._cells(value.__closure__ or (), 0)
        self._push_all((*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *attributes), 0)
        # Not `__module__`: a wrapper made by a library carries that of the function it wraps.
        module = value.__globals__.get("__name__")
        if value.__globals__ is self.namespace or module == "__main__":
            self._code(value.__code__)
        elif isinstance(module, str):
            self._module(module)
            if self._is_local(module):
                self._local_effects(value)

    def _cells(self, cells: Iterable[types.CellType], depth: int) -> None:
        for cell in cells:
            try:
                self._push(cell.cell_contents, depth)
            except ValueError:
                continue  # An empty cell holds nothing yet.

    # -- code ----------------------------------------------------------------------------------------------------

    def _facts(self, code: types.CodeType) -> CodeFacts:
        if id(code) not in self._codes:
            self._codes[id(code)] = code_facts(code)
            self._use.environ |= self._codes[id(code)].environ
            if self._codes[id(code)].metadata:
                self._use.unknown.add(METADATA)
            for name in readers_named(self._codes[id(code)].imports, self._codes[id(code)].names):
                self._use.unknown.add(f"{name} may read files unseen")
            self._use.seeds |= self._codes[id(code)].seeds
        return self._codes[id(code)]

    def _code(self, code: types.CodeType) -> None:
        if id(code) in self._codes:
            return
        facts = self._facts(code)
        if facts.everything:
            self._use.everything.append(facts.everything)
        self._use.absence |= facts.absence
        self._use.writes |= facts.writes
        for module in facts.imports:
            self._module(module)
        for name in facts.loads:
            self._load(name)
        for text in facts.texts:
            self._text(text)
        for chain in facts.attributes:
            self._attribute(chain, self.namespace)
        for chain in facts.changed:
            self._change(chain)

    def _attribute(self, chain: tuple[str, ...], names: Mapping[str, object]) -> None:
        value: Any = names.get(chain[0])
        if not issubclass(type(value), types.ModuleType):
            if issubclass(type(value), PurePath) and not rules.METADATA_METHODS.isdisjoint(chain):
                self._use.unknown.add(METADATA)
            return
        for name in chain[1:]:
            if name in rules.C_READERS or (name.startswith(("read_", "scan_")) and value.__name__ == "polars"):
                self._use.unknown.add(f"{name} may read files unseen")
            elif name in rules.OS_PROGRAMS and value.__name__ == "os":
                self._use.unknown.add("shell command")
            following = vars(value).get(name)
            if is_environment(following):
                return  # Which variable it is asked for is in the code.
            if not issubclass(type(following), types.ModuleType):
                if type(following) is types.FunctionType or is_metadata(following):
                    self._push(following, 0)
                elif reader := unseen_reader(following):
                    self._use.unknown.add(f"{reader} may read files unseen")
                return
            value = following

    def _change(self, chain: tuple[str, ...]) -> None:
        value: Any = self.namespace.get(chain[0])
        shown = ".".join(chain).replace(".[]", "[…]")
        root = value.__name__ if issubclass(type(value), types.ModuleType) else chain[0]
        if rules.is_process_state(root + shown[len(chain[0]) :]):
            return
        is_method = chain[-1] in rules.MUTATORS
        if issubclass(type(value), types.ModuleType):
            following = vars(value).get(chain[1]) if len(chain) > 1 else None
            # `np.append(a, b)` and `mod.Class.update(…)` are calls; `mod.items.append(…)` changes the module.
            if is_method and (len(chain) < 3 or issubclass(type(following), (types.ModuleType, type))):
                return
            self._use.effects.append(f"{shown} in a function changes the module {value.__name__}")
        elif issubclass(type(value), type) and _owner(value) != "__main__" and (not is_method or len(chain) > 2):
            where = plainly.qualname(value)
            self._use.effects.append(f"{shown} in a function changes the imported class {where}")

    def _local_effects(self, function: types.FunctionType) -> None:
        """Note what a function of a local module leaves behind in that module."""
        if id(function.__code__) in self._codes:
            return
        facts = self._facts(function.__code__)
        own = function.__globals__
        where = f"{function.__module__}.{function.__qualname__}"
        if facts.writes:
            self._use.effects.append(f"{where} changes globals of its module: {', '.join(sorted(facts.writes))}")
        for chain in facts.changed:
            if chain[0] in own and not (chain[-1] in rules.MUTATORS and plainly.is_a(own[chain[0]], types.ModuleType)):
                self._use.effects.append(f"{where} changes {'.'.join(chain).replace('.[]', '[…]')} of its module")
        for chain in facts.attributes:
            self._attribute(chain, own)
        for name in facts.loads:
            value = own.get(name)
            if reader := unseen_reader(value):
                self._use.unknown.add(f"{reader} may read files unseen")
            if is_environment(value):
                self._use.environ.add(EVERY_VARIABLE)
            if is_metadata(value):
                self._use.unknown.add(METADATA)
            if type(value) is types.FunctionType and value is not function and value.__globals__ is own:
                self._push(value, 0)

    # -- modules -------------------------------------------------------------------------------------------------

    def _is_local(self, name: str) -> bool:
        if name not in self._local:
            self._installed = self._installed or installed_folders()
            self._local[name] = local_file(name, installed=self._installed) is not None
        return self._local[name]

    def _module(self, name: str) -> None:
        if not name or name in self._modules:
            return
        self._modules.add(name)
        reason = rules.UNSEEN_MODULES.get(name.partition(".")[0])
        if reason is not None and not name.startswith("urllib.parse"):
            self._use.unknown.add(reason)
        if self._is_local(name):
            self._use.modules.add(name)


def _is_plain(kind: type) -> bool:
    """Tell whether an object is only a container or has only attributes: none of what is asked of an object is its."""
    if type(kind) is type and kind in _CONTAINERS:
        return True
    others = (*_CONTAINERS, *_DESCRIPTORS, *_HOLDERS, type, types.ModuleType)
    return not issubclass(kind, others) and plainly.name(kind) != "cython_function_or_method"


def _code_of(value: Any) -> types.CodeType:
    code: types.CodeType = value.cr_code if isinstance(value, types.CoroutineType) else value.ag_code
    return code
