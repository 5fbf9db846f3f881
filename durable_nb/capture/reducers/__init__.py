"""What pickle gets wrong, put right library by library: the protocol that every file in this folder follows.

Called by `codec`, `groups` and `compare`. A reducer only describes an object; nothing live changes when it returns.
A file `reducers/<lib>.py` has `LIBRARY` (the top-level module it is about, None: always) and `plugin() -> Plugin`.
It is imported only when its library is already in `sys.modules`, so it may import that library at module level.
Rebuild functions are named `_make_*`, live beside their reducer and never move: pickles name them.
Every reducer says with `@promise` what comes back of what it describes; `tests/zoo` holds it to its word.
Other packages bring plug-ins of the same kind by the entry point `durable_nb.reducers`: README.md in this folder.
"""

from __future__ import annotations

import importlib
import operator
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any, Literal, TypeAlias, TypeVar

from durable_nb.capture.reducers._others import Offer, offers, outcome, over

__all__ = ["SHARING", "Kept", "Plugin", "Promise", "Reducer", "Sharing", "Unstorable", "load", "promise", "troubles"]

# What a file is about is spelt here and not read from the file, because reading it would import the file.
ALWAYS = frozenset({"builtins", "threading", "io", "hashed"})


class Unstorable(Exception):
    """Raised by a reducer: this object cannot be stored; `args[0]` is the reason in plain words."""


Reducer: TypeAlias = Callable[[Any], "tuple[Any, ...] | str"]
Kept: TypeAlias = Literal["exact", "equal", "reported"]
_R = TypeVar("_R", bound=Callable[[Any], Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What comes back of what a reducer describes.

    `exact`: type, content, identity and sharing as they were, and it goes on behaving the same. `equal`: it compares
    equal and serves the same, but something named in `note` is new. `reported`: it is not stored, and the report gives
    the reason. A reducer that promises `exact` or `equal` may still refuse single values, with a reason of their own.
    """

    kept: Kept
    note: str = ""


def promise(kept: Kept, note: str = "") -> Callable[[_R], _R]:
    """Declare what a reducer keeps; read back with `vars(reducer)["promise"]`. `equal` and `reported` need a note."""
    if kept != "exact" and not note:
        raise ValueError(f"a reducer that promises {kept!r} says in a note what is new, or why")

    def declare(reducer: _R) -> _R:
        vars(reducer)["promise"] = Promise(kept=kept, note=note)
        return reducer

    return declare


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What one library (or, merged, all that are loaded) needs beyond plain pickle.

    `exact` goes by `type(obj)`, `subclasses` by isinstance (first match). `referents` replaces what the walk over a
    value follows, by type (nearest base); None from it says that the process has one such object, which links nothing.
    `memory` names the memory an object is a view of: the id of its owner, an address range, or None when it owns
    nothing that others could share.
    """

    exact: Mapping[type, Reducer] = field(default_factory=dict)
    subclasses: tuple[tuple[type, Reducer], ...] = ()
    referents: Mapping[type, Callable[[Any], Iterable[Any] | None]] = field(default_factory=dict)
    memory: Mapping[type, Callable[[Any], tuple[int, int] | int | None]] = field(default_factory=dict)

    def of_subclass(self, cls: type) -> Reducer | None:
        """Return the first of `subclasses` that is for a type."""
        return next((reducer for base, reducer in self.subclasses if _is_a(cls, base)), None)


def _is_a(cls: type, base: type) -> bool:
    if any(one is base for one in cls.__mro__):
        return True
    # An abstract class asks the other one whether it equals what it knows, and that may be anything.
    plain = type(cls).__eq__ is type.__eq__ and type(cls).__hash__ is type.__hash__
    return plain and issubclass(cls, base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What the last walk saw of shared memory, in the words of `Plugin.memory`.

    `memory` are the owners and address ranges that more than one object looks at; `objects` those owners among them
    that the namespace also reaches as objects; `members` are, by range, who else looks at its memory.
    `dicts` are the ids of dictionaries reached more than once: one of them may be the `__dict__` of an object.
    `own` are the variables that are being dumped: what else is defined in the notebook is only referred to.
    """

    memory: frozenset[int | tuple[int, int]] = frozenset()
    objects: frozenset[int] = frozenset()
    members: Mapping[tuple[int, int], tuple[tuple[int, int, Callable[[], Any]], ...]] = field(default_factory=dict)
    dicts: frozenset[int] = frozenset()
    own: frozenset[str] = frozenset()


# Set while a group is dumped: a reducer learns here whether the memory of its object is shared inside the namespace.
SHARING: ContextVar[Sharing | None] = ContextVar("durable_nb_sharing", default=None)


def load(modules: Mapping[str, ModuleType]) -> Plugin:
    """Merge the plugins of every library in `modules` (normally `sys.modules`), those of other packages included."""
    ours = frozenset(name for name in _available() if name in ALWAYS or _loaded(modules, name))
    return _merged(ours, tuple(offer for offer in offers() if _loaded(modules, offer.library)))


class Loader:
    """Merges plug-ins like `load`, and does not ask again while the libraries that have one are the same modules."""

    def __init__(self) -> None:
        self._seen: list[ModuleType | None] = []
        self._merged: Plugin | None = None

    def __call__(self, modules: Mapping[str, ModuleType]) -> Plugin:
        """Return what `load` does."""
        names = [*_available(), *(offer.library for offer in offers())]
        found = list(map(modules.get, names))
        merged = self._merged
        if merged is None or len(found) != len(self._seen) or not all(map(operator.is_, found, self._seen)):
            merged = load(modules)
            # One that is being imported right now is the same module when it is ready.
            ready = all(_loaded(modules, name) for name, module in zip(names, found, strict=True) if module is not None)
            self._seen, self._merged = found, merged if ready else None
        return merged


def troubles(modules: Mapping[str, ModuleType]) -> dict[str, str]:
    """Return what does not work of the plug-ins of other packages, by library."""
    found = (outcome(offer, Plugin) for offer in offers() if _loaded(modules, offer.library))
    return {one.offer.library: one.trouble for one in found if one.trouble}


def _loaded(modules: Mapping[str, ModuleType], name: str) -> bool:
    # A module under import is in sys.modules half-built; a background thread may be importing right now.
    module = modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


@lru_cache(maxsize=1)
def _available() -> tuple[str, ...]:
    return tuple(sorted(info.name for info in pkgutil.iter_modules(__path__)))


@lru_cache(maxsize=64)
def _merged(names: frozenset[str], others: tuple[Offer, ...]) -> Plugin:
    exact: dict[type, Reducer] = {}
    subclasses: list[tuple[type, Reducer]] = []
    referents: dict[type, Callable[[Any], Iterable[Any] | None]] = {}
    memory: dict[type, Callable[[Any], tuple[int, int] | int | None]] = {}
    # Builtins last: a library's own word about its types wins over the general one.
    for name in sorted(names, key=lambda n: (n in ALWAYS, n)):
        part: Plugin = importlib.import_module(f"{__name__}.{name}").plugin()
        exact = {**part.exact, **exact}
        subclasses.extend(part.subclasses)
        referents = {**part.referents, **referents}
        memory = {**part.memory, **memory}
    ours = Plugin(exact=exact, subclasses=tuple(subclasses), referents=referents, memory=memory)
    return over(ours, [outcome(offer, Plugin) for offer in others]) if others else ours
