"""Which variables share mutable objects or memory and must be stored together, and whose definitions they refer to.

Called by `namespace` before every capture. Reads only: it follows references without running code of the user's
classes, and when it returns nothing but the result remains.
"""

from __future__ import annotations

import builtins
import gc
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from durable_nb.capture import inline_dicts, plainly, runtime_modules
from durable_nb.capture.cycles import cycles
from durable_nb.capture.definitions import (
    HEAP_TYPE,
    Definitions,
    importable,
    own_scope,
    parts,
    private,
)
from durable_nb.capture.kinds import (
    COUNTED,
    DEFINITION,
    FLOAT,
    LARGE_BYTES,
    LARGE_ITEMS,
    LINK,
    MEMBER,
    MODULE,
    OWN_WAY,
    REFUSED,
    SKIP,
    TEXT,
    THROUGH,
    Kinds,
    is_atomic,
    shared_nans,
)
from durable_nb.capture.process_modules import is_local_module
from durable_nb.capture.reducers import Plugin, Sharing
from durable_nb.capture.trails import WEAK, Held, OurRef, Trail

__all__ = ["NOTHING", "Grouping", "partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """A partition of names: every group in order of first name; `deps` are the names a name's value refers to.

    `alone` is what is shared inside one name, where anything is. `special` are the names that reach what only the
    slower pickler keeps: NaN objects, the namespace, the builtins. `modules` are those that no import brings back, by
    the id of their dictionary. `places` are the definitions that local modules have, by module and name, with their
    ids. `trails` is what the walk met, name by name; whoever keeps it keeps the user's objects.
    """

    groups: tuple[tuple[str, ...], ...]
    deps: Mapping[str, frozenset[str]]
    sharing: Sharing
    alone: Mapping[str, Sharing]
    special: frozenset[str]
    modules: Mapping[int, types.ModuleType]
    places: Mapping[tuple[str, str], int]
    trails: Mapping[str, Trail]


_EMPTY: Mapping[Any, Any] = types.MappingProxyType({})
NOTHING = Grouping(
    groups=(),
    deps=_EMPTY,
    sharing=Sharing(),
    alone=_EMPTY,
    special=frozenset(),
    modules=_EMPTY,
    places=_EMPTY,
    trails=_EMPTY,
)


def partition(
    names: Mapping[str, Any], definitions: Definitions, plugin: Plugin, *, never: Iterable[object] = ()
) -> Grouping:
    """Partition `names`; objects in `never` (the namespace dictionary, the shell) are neither followed nor linked."""
    walk = _Walk(definitions, plugin, never)
    for name, value in names.items():
        walk.add(name, value)
    for name, instance in inline_dicts.owners(names, list(walk.kept)):
        walk.own_dict(name, names[name], instance)
    return walk.result(list(names))


def _weak(obj: Any) -> Callable[[], Any]:
    """Return a weak reference, of what allows none (a bytearray) a strong one, which lasts until the next look."""
    try:
        return OurRef(obj)
    except TypeError:
        return lambda: obj


class _Walk:
    """One pass over a namespace: owner of every linkable object, union-find over names."""

    def __init__(self, definitions: Definitions, plugin: Plugin, never: Iterable[object]) -> None:
        self.definitions, self.plugin = definitions, plugin
        self.kinds = Kinds(plugin)
        self.owner: dict[int, str] = {id(obj): "" for obj in never}
        self.owner[id(sys.modules)] = self.owner[id(builtins.__dict__)] = ""
        self.special: set[str] = set()
        self.shared_dicts: set[int] = set()
        self.own_dicts: dict[str, set[int]] = {}
        self.shared_nans = list(shared_nans().values())
        self.modules: dict[int, types.ModuleType] = {}
        self.parent: dict[str, str] = {}
        self.deps: dict[str, set[str]] = {}
        self.places: dict[tuple[str, str], int] = {}
        self.boring: dict[int, Any] = {}  # importable definitions, kept alive so that their ids stay theirs
        self.kept: list[Any] = []  # temporaries, for the same reason
        self.memory: dict[int, list[str]] = {}
        self.ranges: list[tuple[int, int, str, Any]] = []
        self.trails: dict[str, Trail] = {}
        self.trail = Trail()

    def find(self, name: str) -> str:
        """Return the representative of a name's group."""
        while (up := self.parent.get(name, name)) != name:
            self.parent[name] = self.parent.get(up, up)
            name = up
        return name

    def union(self, a: str, b: str) -> None:
        """Put two names into one group; the empty name belongs to what is never linked."""
        if a and b and (a := self.find(a)) != (b := self.find(b)):
            self.parent[b] = a

    def add(self, name: str, value: Any) -> None:
        """Walk the value of a name."""
        if is_atomic(value):
            return
        cls = type(value)
        self.trail = self.trails[name] = Trail()
        if plainly.refusal(cls) is not None or plainly.closed(value) is not None:
            self._passed_over(name)
            return
        kind = self.kinds[cls]
        self.trail.types.add(cls)
        if kind == SKIP:
            self._same_object(name, value, cls)
            return
        frontier: list[Any] = []
        if kind == DEFINITION:
            self._bound_definition(name, value, frontier)
        else:
            if kind in (THROUGH, TEXT) and value:
                self._same_object(name, value, cls)
            self._visit(name, [value], frontier, set())
        self._run(name, frontier)

    def _same_object(self, name: str, value: Any, cls: type) -> None:
        # `a = b = (1, 2)` stays one object.
        self.union(self.owner.setdefault(id(value), name), name)

    def _module(self, name: str, module: types.ModuleType, frontier: list[Any]) -> None:
        # A module that can be imported needs no partner; any other is an object like all that it holds.
        held = vars(module)
        if id(held) in self.modules or runtime_modules.by_value(module):
            self.modules[id(held)] = module
            if self._first_seen(name, module):
                frontier.append([held])

    def _bound_definition(self, name: str, value: Any, frontier: list[Any]) -> None:
        path = self.definitions.path(value)
        if path is None:  # an import
            return
        self.trail.met(value)
        if path == (name,):
            self._by_value(name, value, frontier)
        elif len(path) == 1:
            self.union(path[0], name)
        else:
            self.deps.setdefault(name, set()).add(path[0])

    def _by_value(self, name: str, value: Any, frontier: list[Any]) -> None:
        self.owner[id(value)] = name
        self.trail.functions.append(value)
        held = Held(parts(value))
        if type(value) is types.FunctionType:
            scope = value.__globals__
            # Globals made by exec belong to the function; those of the notebook or a module are never followed.
            home = sys.modules.get(scope.get("__name__", ""))
            if home is not None and getattr(home, "__dict__", None) is scope:
                held.append(home)
            elif self.owner.get(id(scope)) != "" and private(scope):
                held.append(own_scope(value))
        self.kept.append(held)
        self.trail.hold(held)
        frontier.append(held)

    def _run(self, name: str, frontier: list[Any]) -> None:
        hollow: set[int] = set()
        while frontier:
            refs = gc.get_referents(*frontier)
            self.kept.append(frontier)
            self.trail.frontiers.append(frontier)
            frontier = []
            self._visit(name, refs, frontier, hollow)

    def _visit(self, name: str, refs: list[Any], frontier: list[Any], hollow: set[int]) -> None:
        kinds, owner, follow, repeats = self.kinds, self.owner, frontier.append, self.trail.repeats
        try:
            met = set(map(type, refs))
        except Exception:
            self._passed_over(name)
            refs = [obj for obj in refs if plainly.refusal(type(obj)) is None]
            met = set(map(type, refs))
        found = {kinds[cls] for cls in met}
        if REFUSED in found:
            self._passed_over(name)
            met = {cls for cls in met if kinds[cls] != REFUSED}
        self.trail.types |= met
        if not found - {SKIP}:
            return
        for obj in refs:
            kind = kinds[type(obj)]
            if kind == LINK:
                key = id(obj)
                known = owner.get(key)
                if known is None:
                    owner[key] = name
                    follow(obj)
                elif not known:
                    self.special.add(name)
                    self.trail.everything = True
                else:
                    repeats[key] = repeats.get(key, 0) + 1
                    if type(obj) is dict:
                        self.shared_dicts.add(key)
                        if known == name:
                            self.own_dicts.setdefault(name, set()).add(key)
                    if known != name:
                        self.union(known, name)
            elif kind == SKIP or (kind == TEXT and len(obj) < LARGE_BYTES) or (kind == FLOAT and obj == obj):
                continue
            elif kind == THROUGH:
                if id(obj) in hollow:
                    repeats[id(obj)] = repeats.get(id(obj), 0) + 1
                else:
                    hollow.add(id(obj))
                    follow(obj)
                    if type(obj) in COUNTED and len(obj) >= LARGE_ITEMS:
                        self._first_seen(name, obj)
            elif kind == DEFINITION:
                if id(obj) not in self.boring:
                    self._definition(name, obj, frontier)
            elif kind == FLOAT:
                self.special.add(name)
                if not any(obj is shared for shared in self.shared_nans):
                    self._first_seen(name, obj)
            elif kind == MEMBER:
                self._definition(name, type(obj), frontier)
            elif kind == OWN_WAY:
                self._own_way(name, obj, frontier)
            elif kind == MODULE:
                self._module(name, obj, frontier)
            elif kind == REFUSED:
                continue
            else:
                self._first_seen(name, obj)

    def _passed_over(self, name: str) -> None:
        """Note that a name leads to what is refused for its class: it is not stored, whatever else it leads to."""
        self.trail.everything = True

    def own_dict(self, name: str, value: dict[str, Any], instance: Any) -> None:
        """Note that `value`, a name's, is the `__dict__` of an instance that was walked."""
        self.shared_dicts.add(id(value))
        self.union(self.owner.get(id(instance), ""), name)

    def _first_seen(self, name: str, obj: Any) -> bool:
        known = self.owner.setdefault(id(obj), name)
        if known is name:
            # `is`: the very entry made now, or one of this name; both need no union, the second no second look.
            if id(obj) in self.boring:
                return False
            self.boring[id(obj)] = obj
            return True
        self.union(known, name)
        return False

    def _own_way(self, name: str, obj: Any, frontier: list[Any]) -> None:
        cls = type(obj)
        if self.owner.get(id(obj)) == "":
            self.special.add(name)
            self.trail.everything = True
            return
        self.trail.met(obj)
        referents = self.kinds.referents[cls]
        held = referents(obj) if referents is not None else gc.get_referents(obj)
        # None: one object for the whole process (a global random stream), neither followed nor linked.
        if held is None or not self._first_seen(name, obj):
            return
        self.trail.own.append(obj)
        held = Held(held)
        self.trail.hold(held)
        if issubclass(cls, WEAK):
            self.trail.forget(held)
        frontier.append(held)
        memory = next((self.plugin.memory[b] for b in cls.__mro__ if b in self.plugin.memory), None)
        where = None if memory is None else memory(obj)
        if isinstance(where, int):
            self.memory.setdefault(where, []).append(name)
        elif where is not None and where[1] > where[0]:
            self.ranges.append((where[0], where[1], name, obj))

    def _definition(self, name: str, obj: Any, frontier: list[Any]) -> None:
        path = self.definitions.path(obj)
        if path is not None:
            self.trail.met(obj)
            if path[0] != name:
                self.deps.setdefault(name, set()).add(path[0])
            elif len(path) > 1 and id(obj) not in self.owner:
                self._by_value(name, obj, frontier)
            return
        if plainly.closed(obj) is not None:  # no path leads to such a class
            self._passed_over(name)
            return
        if importable(obj) or (plainly.is_a(obj, type) and not obj.__flags__ & HEAP_TYPE):
            self.boring[id(obj)] = obj
            if is_local_module(obj.__module__):
                self.places[obj.__module__, obj.__qualname__] = id(obj)
            return
        self.trail.met(obj)
        known = self.owner.get(id(obj))
        if known is None:
            self._by_value(name, obj, frontier)
        elif known != name:
            self.union(known, name)

    def result(self, names: list[str]) -> Grouping:
        """Close over overlapping memory and over cycles of dependencies."""
        sharing = self._shared_memory()
        order = {name: i for i, name in enumerate(names)}
        for cycle in cycles({self.find(n): {self.find(d) for d in deps} for n, deps in self._merged_deps().items()}):
            for other in cycle[1:]:
                self.union(cycle[0], other)
        members: dict[str, list[str]] = {}
        for name in names:
            members.setdefault(self.find(name), []).append(name)
        deps = {n: frozenset(d for d in found if self.find(d) != self.find(n)) for n, found in self.deps.items()}
        groups = sorted((tuple(g) for g in members.values()), key=lambda g: order[g[0]])
        # These would count among the references of what they hold.
        self.boring.clear()
        self.ranges.clear()
        return Grouping(
            modules=self.modules,
            groups=tuple(groups),
            deps=deps,
            sharing=sharing,
            places=self.places,
            alone=self._alone(sharing),
            trails=self.trails,
            special=frozenset(n for group in groups if not self.special.isdisjoint(group) for n in group),
        )

    def _merged_deps(self) -> dict[str, set[str]]:
        merged: dict[str, set[str]] = {}
        for name, found in self.deps.items():
            merged.setdefault(self.find(name), set()).update(found)
        return merged

    def _shared_memory(self) -> Sharing:
        shared: set[int | tuple[int, int]] = set()
        objects = set()
        for where, users in self.memory.items():
            for other in users[1:]:
                self.union(users[0], other)
            reached = self.owner.get(where)
            # An array owns its memory itself: reached is the array then, which is among the users already.
            if reached is not None and where not in self.boring:
                self.union(reached, users[0])
                objects.add(where)
            if len(users) > 1 or where in objects:
                shared.add(where)
        members = self._overlaps(shared)
        return Sharing(
            memory=frozenset(shared),
            objects=frozenset(objects),
            members=members,
            dicts=frozenset(self.shared_dicts),
        )

    def _alone(self, sharing: Sharing) -> dict[str, Sharing]:
        """Restrict what is shared to what each name shares with itself: the rest is no part of its own content."""
        uses: dict[str, list[int | tuple[int, int]]] = {}
        for where, users in self.memory.items():
            for name in users:
                uses.setdefault(name, []).append(where)
            if where in sharing.objects:
                uses.setdefault(self.owner[where], []).append(where)
        for start, stop, name, _ in self.ranges:
            if (start, stop) in sharing.memory:
                uses.setdefault(name, []).append((start, stop))
        names = {*uses, *self.own_dicts}
        return {
            name: Sharing(
                memory=frozenset(w for w, n in Counter(uses.get(name, ())).items() if n > 1),
                objects=sharing.objects,
                members=sharing.members,
                dicts=frozenset(self.own_dicts.get(name, ())),
            )
            for name in names
        }

    def _overlaps(
        self, shared: set[int | tuple[int, int]]
    ) -> dict[tuple[int, int], tuple[tuple[int, int, Callable[[], Any]], ...]]:
        """Join names of overlapping ranges; add the ranges to `shared`, return who looks at each stretch of memory."""
        members: dict[tuple[int, int], tuple[tuple[int, int, Callable[[], Any]], ...]] = {}
        cluster: list[tuple[int, int, str, Any]] = []
        end = 0
        for entry in [*sorted(self.ranges, key=lambda r: r[:2]), (sys.maxsize << 2, 0, "", None)]:
            if entry[0] >= end:
                if len(cluster) > 1:
                    # Weak, because what was seen is remembered until the next look and must not keep objects alive.
                    users = tuple((start, stop, _weak(obj)) for start, stop, _, obj in cluster)
                    members.update(((start, stop), users) for start, stop, _ in users)
                cluster = []
            elif cluster:
                self.union(cluster[0][2], entry[2])
            cluster.append(entry)
            end = max(end, entry[1])
        shared.update(members)
        return members
