"""What a notebook sets in IPython: magics, aliases, callbacks, transformers, handlers of exceptions, options, features.

Used by `process`, restored after the variables because it refers to them. The shell is the one of `get_ipython()`;
without one there is no state. Extensions and inline figures are the shell port's own part.
"""

from __future__ import annotations
import __future__

import sys
import types
from collections.abc import Mapping
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.process_held import Held, HeldTracker, live_shell, make_way, mine
from durable_nb.capture.process_told import Told
from durable_nb.model import Json, Unsaved

__all__ = ["FutureFeatures", "ShellConfig", "shell_trackers"]

_NEEDS = "IPython.core.interactiveshell"


def shell_trackers(held: Held) -> tuple[Any, ...]:
    """Return the components of this module, in the order in which they are restored."""
    return Magics(held), Aliases(held), Callbacks(held), Exceptions(held), ShellConfig(), FutureFeatures()


class Magics(HeldTracker):
    """Magics that the notebook registered: functions, instances of its classes, aliases of magics."""

    name = "shell.magics"
    needs = _NEEDS
    advice = "run the cell that registers it again"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._seen: list[Any] = []
        self._found: dict[str, Any] = {}
        shell = live_shell() if _NEEDS in sys.modules else None
        tables = shell.magics_manager.magics.values() if shell is not None else ()
        self._base = [f for table in tables for f in table.values() if type(f).__name__ == "MagicAlias"]

    def entries(self) -> Mapping[str, Any]:
        shell = live_shell()
        if shell is None:
            return {}
        manager = shell.magics_manager
        seen = [*manager.magics["line"].values(), *manager.magics["cell"].values(), *manager.registry.values()]
        if seen != self._seen:
            self._seen, self._found = seen, self._find(manager)
        return self._found

    def _find(self, manager: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        own = {id(one): name for name, one in list(manager.registry.items()) if mine(one)}
        for kind, table in manager.magics.items():
            for name, function in list(table.items()):
                owner = _owner(function)
                if id(owner) in own:
                    found[f"class {own[id(owner)]}"] = owner
                elif type(function).__name__ == "MagicAlias":
                    # IPython has some of its own.
                    if not any(function is known for known in self._base):
                        found[f"{kind} {name}"] = function
                elif mine(function):
                    found[f"{kind} {name}"] = function
        return found

    def describe(self, value: Any) -> Json:
        if type(value).__name__ == "MagicAlias":
            return ["alias", value.magic_name, value.magic_kind, value.magic_params]
        magics = sys.modules["IPython.core.magic"].Magics
        if not plainly.is_a(value, magics):
            return super().describe(value)
        if name := self.held.variable(value):
            return ["name", name]
        state = {k: v for k, v in vars(value).items() if not k.startswith("_trait") and k not in _OF_MAGICS}
        traits = {k: v for k, v in value._trait_values.items() if k not in magics.class_traits()}
        return ["magics", super().describe(type(value)), self.held.by_value((state, traits))]

    def make(self, code: Json) -> Any:
        if code[0] == "alias":
            return tuple(code)
        if code[0] != "magics":
            return super().make(code)
        cls = super().make(code[1])
        state, traits = self.held.make(code[2])
        made = cls.__new__(cls)
        # What the class's own __init__ did to the instance is in its state already.
        sys.modules["IPython.core.magic"].Magics.__init__(made, live_shell())
        vars(made).update(state)
        for name, value in traits.items():
            setattr(made, name, value)
        return made

    def put(self, key: str, value: Any) -> None:
        manager = live_shell().magics_manager
        kind, _, name = key.partition(" ")
        if kind == "class":
            manager.register(value)
        elif isinstance(value, tuple):
            manager.register_alias(name, *value[1:])
        else:
            manager.register_function(value, magic_kind=kind, magic_name=name)

    def drop(self, key: str) -> None:
        manager = live_shell().magics_manager
        kind, _, name = key.partition(" ")
        if kind != "class":
            manager.magics[kind].pop(name, None)
            return
        for table in manager.magics.values():
            for magic in [n for n, f in table.items() if _owner(f) is manager.registry[name]]:
                del table[magic]
        manager.registry.pop(name)


def _owner(magic: Any) -> Any:
    """Return the instance that a magic is a method of, None for others; IPython loads an unused magic when asked."""
    return magic.__self__ if type(magic) is types.MethodType else None


_OF_MAGICS = frozenset({"shell", "options_table", "magics", "_cross_validation_lock"})


class Aliases(HeldTracker):
    """Commands of the system under a name of their own (`%alias`)."""

    name = "shell.aliases"
    needs = _NEEDS

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._seen: list[Any] = []
        self._aliases: list[tuple[str, Any]] = []
        self._base = self._now()

    def _now(self) -> dict[str, str]:
        shell = live_shell() if _NEEDS in sys.modules else None
        if shell is None:
            return {}
        table = shell.alias_manager.linemagics
        # Which of all magics are aliases is asked only when there are others.
        if (seen := [*table, *table.values()]) != self._seen:
            alias = sys.modules["IPython.core.alias"].Alias
            self._seen, self._aliases = seen, [(n, one) for n, one in table.items() if isinstance(one, alias)]
        return {name: one.cmd for name, one in self._aliases}

    def entries(self) -> Mapping[str, Any]:
        now, base = self._now(), self._base
        return {} if now == base else {n: now.get(n) for n in {**base, **now} if now.get(n) != base.get(n)}

    def put(self, key: str, value: Any) -> None:
        manager = live_shell().alias_manager
        if key in self._now():
            manager.undefine_alias(key)
        if value is not None:
            manager.define_alias(key, value)

    def drop(self, key: str) -> None:
        self.put(key, self._base.get(key))


class Callbacks(HeldTracker):
    """Callbacks of events, transformers of input and of syntax trees, in their order."""

    name = "shell.callbacks"
    needs = _NEEDS
    advice = "run the cell that registers it again"

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self._restored: dict[str, list[Any]] = {}
        self._seen: dict[str, list[Any]] | None = None
        self._found: dict[str, Any] = {}

    def make_way(self) -> None:
        """Take restored callbacks and transformers away that a cell has registered again: they would work twice."""
        if self._restored:
            lists = self._lists()
            for where, restored in self._restored.items():
                make_way(lists[where], restored)

    def _lists(self) -> dict[str, list[Any]]:
        shell = live_shell()
        if shell is None:
            return {}
        return {
            **shell.events.callbacks,
            "input_transformers_cleanup": shell.input_transformers_cleanup,
            "input_transformers_post": shell.input_transformers_post,
            "line_transforms": shell.input_transformer_manager.line_transforms,
            "token_transformers": shell.input_transformer_manager.token_transformers,
            "ast_transformers": shell.ast_transformers,
        }

    def entries(self) -> Mapping[str, Any]:
        now = self._lists()
        if now != self._seen:
            self._seen = {where: list(held) for where, held in now.items()}
            self._found = {
                f"{where} {i}": one
                for where, held in self._seen.items()
                for i, one in enumerate(one for one in held if mine(one))
            }
        return self._found

    def put(self, key: str, value: Any) -> None:
        where, _, place = key.partition(" ")
        held = self._lists()[where]
        there = [i for i, one in enumerate(held) if mine(one)]
        self._restored.setdefault(where, []).append(value)
        if int(place) < len(there):
            held[there[int(place)]] = value
        else:
            held.append(value)

    def drop(self, key: str) -> None:
        where, _, place = key.partition(" ")
        held = self._lists()[where]
        there = [i for i, one in enumerate(held) if mine(one)]
        # Entries are dropped one by one, so those behind may have moved up.
        if there:
            del held[there[min(int(place), len(there) - 1)]]


class Exceptions(HeldTracker):
    """The function that shows exceptions of some types, set by `set_custom_exc`."""

    name = "shell.exceptions"
    needs = _NEEDS

    def entries(self) -> Mapping[str, Any]:
        shell = live_shell()
        if shell is None or not shell.custom_exceptions:
            return {}
        wrapped = shell.CustomTB.__func__
        names = getattr(wrapped, "__code__", None)
        cells = dict(zip(names.co_freevars, wrapped.__closure__ or (), strict=True)) if names else {}
        handler = cells["handler"].cell_contents if "handler" in cells else None
        return {"handler": (shell.custom_exceptions, handler)} if handler is not None and mine(handler) else {}

    def put(self, key: str, value: Any) -> None:
        live_shell().set_custom_exc(*value)

    def drop(self, key: str) -> None:
        live_shell().set_custom_exc((), None)


class ShellConfig:
    """Options of `%config` and of the magics that set some: plain values that differ from the start."""

    name = "shell.config"
    needs = _NEEDS

    def __init__(self) -> None:
        self._base: dict[str, Any] = {}
        self._at: list[tuple[Any, list[tuple[str, str]]]] = []
        self._seen = 0
        self._told: Told | None = None
        self._mark: dict[str, Any] = {}
        if _NEEDS in sys.modules:
            self._base = self._now()

    def _now(self) -> dict[str, Any]:
        """Return the values that differ from the untouched ones, all of them before those are known."""
        shell = live_shell()
        if shell is None:
            return {}
        if len(shell.configurables) != self._seen:
            self._find(shell)
        base, found = self._base, {}
        for one, traits in self._at:
            values, is_shell = one._trait_values, one is shell
            for trait, key in traits:
                if trait not in values:
                    continue
                # People set options of the shell on its class too, which puts a value where the option was declared.
                value = getattr(shell, trait) if is_shell else values[trait]
                usual = base.get(key, _NO_VALUE)
                # Of most the untouched value is the very object; of a list or dict a copy is kept.
                if value is not usual and (usual is _NO_VALUE or value != usual):
                    found[key] = value.copy() if type(value) in (list, dict) else value
        for key, value in (
            (_MODE, shell.InteractiveTB.mode),
            (_PDB, shell.call_pdb),
            (_FOLDERS, tuple(shell.user_ns.get("_dh", ()))),
        ):
            if base.get(key, _NO_VALUE) != value:
                found[key] = value
        return found

    def _find(self, shell: Any) -> None:
        first = not self._seen
        self._seen = len(shell.configurables)
        formatters = shell.display_formatter.formatters.values()
        at: dict[str, tuple[Any, str]] = {}
        for one in (*shell.configurables, *formatters):
            cls = type(one)
            if cls.__module__.partition(".")[0] not in ("IPython", "ipykernel") or cls.__name__ in _NOT_OPTIONS:
                continue
            for trait in cls.class_traits(config=True):
                if trait not in _NOT_TRAITS:
                    at[f"{cls.__name__}.{trait}"] = (one, trait)
                    # A default that nobody has asked for is not there yet; asking is harmless and tells it.
                    if first:
                        getattr(one, trait)
        found: dict[int, tuple[Any, list[tuple[str, str]]]] = {}
        for key, (one, trait) in at.items():
            found.setdefault(id(one), (one, []))[1].append((trait, key))
        self._at = list(found.values())

    def mark(self) -> dict[str, Any]:
        shell, base = live_shell(), self._base
        if self._told is None or shell is None or not self._told.is_so(shell):
            self._told = None
            self._mark = {k: v for k, v in self._now().items() if k in base}
            if shell is not None:
                self._told = Told(shell, self._at)
        return self._mark

    def base(self, mark: Any) -> Any:
        return {}

    def dump(self, mark: dict[str, Any]) -> Json:
        return {k: list(map(str, v)) if k == _FOLDERS else v for k, v in mark.items() if _plain(v)}

    def lost(self, mark: dict[str, Any]) -> list[Unsaved]:
        reason = "its value is not plain data; run the cell that sets it again"
        return [
            Unsaved(name=self.name, path=k, type=type(v).__name__, reason=reason)
            for k, v in mark.items()
            if not _plain(v)
        ]

    def load(self, value: Any) -> list[Unsaved]:
        problems = []
        shell, current = live_shell(), self.mark()
        at = {key: (one, trait) for one, traits in self._at for trait, key in traits}
        for key in {**current, **value}:
            wanted = value.get(key, self._base.get(key))
            try:
                if key == _MODE:
                    shell.InteractiveTB.set_mode(mode=wanted)
                elif key == _PDB:
                    shell.call_pdb = wanted
                elif key == _FOLDERS:
                    shell.user_ns["_dh"][:] = wanted
                elif key in at:
                    setattr(*at[key], wanted)
            except Exception as error:  # a value that this version of IPython refuses
                problems.append(Unsaved(name=self.name, path=key, type="option", reason=f"it was refused: {error}"))
        return problems


class FutureFeatures:
    """Features that a `from __future__ import …` turned on: IPython compiles all later cells with them too."""

    name = "shell.future"
    needs = _NEEDS

    def __init__(self) -> None:
        # Some features have no flag of their own, others are flags that every function has.
        features = ((name, getattr(__future__, name)) for name in __future__.all_feature_names)
        self._flags = {name: one.compiler_flag for name, one in features if one.compiler_flag > _CO_NESTED}
        self._all = sum(set(self._flags.values()))

    def mark(self) -> list[str]:
        shell = live_shell()
        flags = 0 if shell is None else shell.compile.flags & self._all
        return [name for name, flag in self._flags.items() if flags & flag] if flags else []

    def base(self, mark: list[str]) -> list[str]:
        return []

    def dump(self, mark: list[str]) -> Json:
        return list(mark)

    def lost(self, mark: list[str]) -> list[Unsaved]:
        return []

    def load(self, value: Any) -> list[Unsaved]:
        compiler = live_shell().compile
        for name, flag in self._flags.items():
            compiler.flags = compiler.flags | flag if name in value else compiler.flags & ~flag
        reason = "this Python has no such feature"
        return [
            Unsaved(name=self.name, path=name, type="feature", reason=reason)
            for name in value
            if name not in self._flags
        ]


_CO_NESTED = 0x10
_NO_VALUE = object()
_MODE, _PDB, _FOLDERS = "%xmode", "%pdb", "%cd"
_NOT_OPTIONS = frozenset({"IPKernelApp", "HistoryManager", "AliasManager", "PayloadManager"})
_NOT_TRAITS = frozenset(
    {"ast_transformers", "loop_runner", "inspector_class", "lazy_magics", "singleton_printers", "type_printers",
     "deferred_printers", "active_types"}
)  # fmt: skip


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(type(k) is str and _plain(v) for k, v in value.items())
    return value is None or isinstance(value, bool | int | float | str) or hasattr(value, "__fspath__")
