"""Which groups a look may leave out, because nothing that ran since the last one can have changed them.

Called by `namespace` before and after each look. A group is left out if it is closed, no code that may have run leads
to it, and its bindings are the same; whatever is cheap to look at is looked at all the same, in turns, and when that
finds a change that nothing explains, everything is looked at.
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import ne
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.access_bytecode import CodeFacts, code_facts
from durable_nb.capture.access_rules import EVERYTHING_NAMES, opens_everything
from durable_nb.capture.closed import References, is_closed, mentions_in
from durable_nb.capture.definitions import Definitions, importable
from durable_nb.capture.groups import Grouping
from durable_nb.capture.packing import Bad, Packed
from durable_nb.capture.process_modules import is_local_module
from durable_nb.capture.records import GroupNames, Record, Records, address
from durable_nb.capture.trails import Trail
from durable_nb.capture.transparent import Transparent
from durable_nb.capture.unseen import Unseen, of_notebook
from durable_nb.model import GroupId, Variable

__all__ = ["Selection", "Settled", "Touched"]

CHEAP_S = 0.0001  # so much time per look goes into groups that nothing can have changed
_MOST_STEPS = 100  # what is not cheap is not asked for longer either
_S_PER_OBJECT = 0.6e-6  # what the walk costs
_ALL_OUT = "Out[*]"
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The names that code which ran since the last look may have reached; those in `read` it left as they were."""

    names: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()

    def __or__(self, other: Touched) -> Touched:
        return Touched(names=self.names | other.names, read=self.read | other.read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The names to look at, the groups to leave out, and those looked at only because it is cheap.

    Groups in `read` hold what they held, but something new may share a part of it: they are walked and not dumped.
    """

    names: dict[str, Any]
    head: Mapping[str, Variable] = field(default_factory=dict)
    bindings: tuple[list[str], list[int]] = ([], [])  # of all names there are: they, and where their values are
    left_out: Mapping[GroupNames, Record] = field(default_factory=dict)
    dropped: Sequence[Record] | None = None  # what is known of the others; None: forget all that is known
    read: Mapping[GroupNames, Record] = field(default_factory=dict)
    audited: Mapping[GroupNames, Record] = field(default_factory=dict)
    bad: Mapping[str, Bad] = field(default_factory=dict)  # what cannot be stored of what is left out
    was_bad: frozenset[str] = frozenset()

    def walked(self, grouping: Grouping) -> frozenset[str]:
        """Return the names that are stored as they are, although somebody looked what they share."""
        if not self.read:
            return frozenset()
        records = [record for group in grouping.groups if (record := self.read.get(group)) is not None]
        return frozenset(n for record in records for n in record.names if n not in record.bad)

    def contradicts(self, grouping: Grouping, packed: Packed) -> bool:
        """Tell whether what was found is no business of the groups looked at alone: then all have to be."""
        if not self.left_out:
            return False
        now_bad = packed.bad.keys() & self.names.keys()
        changed = now_bad ^ self.was_bad
        # What a member of an enum has been given is stored with its class, and with everything that holds the member.
        changed |= {n for group in packed.good if group not in packed.known for n in group if self._is_enum(n)}
        if changed and any(not changed.isdisjoint(record.deps) for record in self.left_out.values()):
            return True
        return _joins(grouping, self.left_out.values()) or bool(self.missed(packed))

    def _is_enum(self, name: str) -> bool:
        return issubclass(type(self.names.get(name)), enum.EnumMeta)

    def missed(self, packed: Packed) -> tuple[str, ...]:
        """Return the names that changed although nothing that ran can have changed them."""
        good = [group for group in self.audited if group in packed.good and group not in packed.known]
        return tuple(sorted(n for g in good for n in g))


def _joins(grouping: Grouping, left_out: Iterable[Record]) -> bool:
    """Do definitions that were looked at lead back to themselves through such that were not?"""
    looked = {name: group for group in grouping.groups for name in group}
    starts = [group for group in grouping.groups if any(grouping.deps.get(n) for n in group)]
    others = {name: record for record in left_out if record.deps for name in record.names} if starts else {}
    for start in starts:
        todo = [(dep, False) for n in start for dep in grouping.deps.get(n, ())]
        met: set[tuple[str, bool]] = set()
        while todo:
            name, outside = at = todo.pop()
            if at in met:
                continue
            met.add(at)
            group = looked.get(name)
            if group is not None:
                if outside and group == start:
                    return True
                todo += [(dep, outside) for n in group for dep in grouping.deps.get(n, ())]
            elif name in others:
                todo += [(dep, True) for dep in others[name].deps]
    return False


@dataclass(slots=True)
class Settled:
    """Records of the groups of a namespace, by each of their names."""

    records: Records = field(default_factory=Records)
    transparent: Transparent = field(default_factory=Transparent)
    # Of the names at the last look: where their values were, and the groups that they are stored in since.
    _order: list[str] = field(default_factory=list)
    _at: list[int] = field(default_factory=list)
    _home: dict[str, GroupId | None] = field(default_factory=dict)
    _head: Mapping[str, Variable] | None = None  # the last one that was found to agree with that
    _facts: dict[types.CodeType, CodeFacts] = field(default_factory=dict)
    _turn: int = 0
    _paths: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # where definitions were at the last look
    # What local modules define and values are made of or refer to; with it other values are stored by where it is.
    _places: dict[tuple[str, str], int] = field(default_factory=dict)
    _unseen: Unseen = field(default_factory=Unseen)
    _unseen_reach: frozenset[str] | None = frozenset()  # what the notebook's functions that others hold lead to

    def clear(self) -> None:
        """Forget everything: the next look is at all names."""
        self.records.clear()
        self._order, self._at, self._head = [], [], None
        self._home.clear()

    # --- before a look --------------------------------------------------------------------------------------------

    def select(
        self,
        names: Mapping[str, Any],
        head: Mapping[str, Variable],
        everything: Mapping[str, Any],
        touched: Touched | None,
        *,
        audit: bool = True,
    ) -> Selection:
        """Choose what to look at among names that are no atomic values; `touched` None: all of them.

        `everything` are the atomic ones as well. With `audit` some of what may be left out is looked at all the same.
        """
        bindings = list(names), list(map(address, names.values()))
        known = bool(self.records.by_group) and self._are_there()
        reached = None if touched is None or not known else self._closure(touched)
        if touched is None or reached is None:
            return Selection(names=dict(names), head=head, bindings=bindings)
        reached |= self._stale(bindings, names, head, everything)
        by_name, left_out = self.records.by_name, dict(self.records.by_group)
        dropped = {r.names: r for n in reached if (r := by_name.get(n)) is not None}
        read = {r.names: r for n in touched.read if (r := by_name.get(n)) is not None and r.names not in dropped}
        for group in (*dropped, *read):
            del left_out[group]
        audited = self._audit(left_out) if audit else {}
        for group in audited:
            del left_out[group]
        chosen = {n for records in (dropped, read, audited) for group in records for n in group}
        if not names.keys() <= by_name.keys():
            chosen |= names.keys() - by_name.keys()
        bad = self.records.bad
        return Selection(
            # In the order of the namespace: which name stands for a group follows from it.
            names={n: names[n] for n in filter(chosen.__contains__, names)} if chosen else {},
            head=head,
            bindings=bindings,
            left_out=left_out,
            dropped=(*dropped.values(), *read.values(), *audited.values()),
            read=read,
            audited=audited,
            bad={n: b for group, r in bad.items() if group in left_out for n, b in r.bad.items()} if bad else {},
            was_bad=frozenset(n for group, r in bad.items() if group not in left_out for n in r.bad if n in names),
        )

    def _are_there(self) -> bool:
        """Tell whether local modules have what they had: one may have been loaded anew, or changed by anybody."""
        for (module, path), where in self._places.items():
            found: Any = sys.modules.get(module)
            for part in path.split("."):
                held = plainly.members(found) if plainly.is_a(found, type) else plainly.own_dict(found) or {}
                found = held.get(part)
            if id(found) != where:
                return False
        return True

    def moved(self, selection: Selection, definitions: Definitions) -> bool:
        """Tell whether a definition that something left out refers to is to be found elsewhere since the last look.

        `f = B.get` is stored as what `B` has under that name, until `B.get` is another function.
        """
        before, now = self._paths, definitions.paths
        if before == now:
            return False
        return any(
            before.get(key) != now.get(key)
            for group in selection.left_out.keys() & (self.records.callable.keys() | self.records.dependent.keys())
            for key in (*selection.left_out[group].functions, *selection.left_out[group].mentions)
        )

    def _stale(
        self,
        bindings: tuple[list[str], list[int]],
        names: Mapping[str, Any],
        head: Mapping[str, Variable],
        everything: Mapping[str, Any],
    ) -> set[str]:
        """Return names that are bound to something else, or stored as something else, and what depends on these."""
        (order, at), known = bindings, len(self._order)
        if order[:known] == self._order:
            # Those behind are new, and nothing is known of them.
            stale = set() if at[:known] == self._at else set(compress(order, map(ne, at, self._at)))
        else:
            before = dict(zip(self._order, self._at, strict=True))
            stale = {n for n, where in zip(order, at, strict=True) if before.get(n) != where}
        if head is not self._head:
            for name, group in self._home.items():
                variable = head.get(name)
                if group != (None if variable is None else variable.group_id):
                    stale.add(name)
        by_name = self.records.by_name
        if not by_name.keys() <= names.keys():
            stale |= by_name.keys() - names.keys()
        stale.update(
            record.names[0]
            for record in self.records.dependent.values()
            if any(address(everything.get(name)) != where for name, where in record.deps.items())
        )
        return stale

    def _closure(self, touched: Touched) -> set[str] | None:
        """Return all names that may have been reached, None if that may be any."""
        records, todo = self.records.by_name, set(touched.names)
        for name in touched.read:
            known = records.get(name)
            # What is made of the notebook's own classes runs their code when it is looked at.
            if known is None or known.is_open or known.everything or known.deps or known.reach or known.bad:
                todo.add(name)
        if _ALL_OUT in todo:
            todo |= {n for n in records if n.startswith("Out[")}
        if self._unseen_reach is None:
            return None
        todo |= self._unseen_reach
        for record in self.records.outsiders.values():
            # Who holds a class may change it, and call its functions.
            todo.update(record.names)
        reached: set[str] = set()
        while todo:
            name = todo.pop()
            if name in reached:
                continue
            reached.add(name)
            found = records.get(name)
            if found is None:
                continue
            if found.everything:
                return None
            todo.update(n for n in (*found.names, *found.deps, *found.reach) if n not in reached)
        return reached

    def _audit(self, left_out: Mapping[GroupNames, Record]) -> dict[GroupNames, Record]:
        """Choose groups that are looked at although nothing can have changed them: as many as are cheap, in turns."""
        order = list(left_out.values())
        chosen: dict[GroupNames, Record] = {}
        left_s = CHEAP_S
        for step in range(min(len(order), _MOST_STEPS)):
            record = order[(self._turn + step) % len(order)]
            if record.cost_s <= left_s:
                chosen[record.names] = record
                left_s -= record.cost_s
            elif chosen:
                self._turn = (self._turn + step) % len(order)
                break
        else:
            self._turn += min(len(order), _MOST_STEPS)
        return chosen

    # --- after a look ---------------------------------------------------------------------------------------------

    def note(
        self,
        selection: Selection,
        grouping: Grouping,
        packed: Packed,
        home: Callable[[str], GroupId | None],
        definitions: Definitions,
        known: References,
        namespace: dict[str, Any],
    ) -> None:
        """Take note of what a look saw, which put each name into its `home`.

        `known` counts references to values that are ours or the shell's.
        """
        records = self.records
        if selection.dropped is None:
            records.clear()
        else:
            for record in selection.dropped:
                records.drop(record)
        mentioned = mentions_in(grouping.trails.values())
        for record in records.dependent.values():
            for key, number in record.mentions.items():
                mentioned[key] = mentioned.get(key, 0) + number
        # A group that had to be taken apart may be in pieces: what the walk saw together stays together here.
        found: list[Record] = []
        for names in grouping.groups:
            before = selection.audited.get(names) if names in packed.known else None
            if before is None:
                trails = [grouping.trails[n] for n in names if n in grouping.trails]
                before = self._record(
                    *(names, trails, grouping, packed, home, definitions, known, mentioned),
                    selection.read.get(names),
                    namespace,
                )
            if before is not None:
                found.append(before)
        for record in found:
            records.put(record)
        if selection.names:
            self._paths = definitions.paths
            self._note_places(selection, grouping)
        self._note_bindings(selection, home)
        self._note_unseen(found, grouping, namespace)

    def _note_bindings(self, selection: Selection, home: Callable[[str], GroupId | None]) -> None:
        self._order, self._at = selection.bindings
        if selection.dropped is None:
            self._home.clear()
        elif len(self._home) > len(self._order):
            there = set(self._order)
            self._home = {n: group for n, group in self._home.items() if n in there}
        self._home.update((n, home(n)) for n in selection.names)
        # After a look that found something the next one has to see whether it was stored.
        self._head = None if selection.names else selection.head

    def _note_places(self, selection: Selection, grouping: Grouping) -> None:
        if selection.dropped is None:  # everything was looked at
            self._places.clear()
        self._places.update(grouping.places)
        for cls in frozenset[type]().union(*(trail.types for trail in grouping.trails.values())):
            if is_local_module(cls.__module__) and importable(cls):
                self._places[cls.__module__, cls.__qualname__] = id(cls)

    def _note_unseen(self, found: Sequence[Record], grouping: Grouping, namespace: dict[str, Any]) -> None:
        """Find out what the notebook's functions that no variable holds lead to."""
        met = {record.names for record in found}
        ids = [record.functions for group, record in self.records.callable.items() if group not in met]
        ids += [of_notebook(trail.functions, namespace) for trail in grouping.trails.values()]
        if self._unseen.note(namespace, sum(map(len, ids)), ids):
            self._unseen_reach = self._reach_of(self._unseen.codes())

    def _record(
        self,
        names: GroupNames,
        trails: Sequence[Trail],
        grouping: Grouping,
        packed: Packed,
        home: Callable[[str], GroupId | None],
        definitions: Definitions,
        known: References,
        mentioned: Mapping[int, int],
        before: Record | None,
        namespace: dict[str, Any],
    ) -> Record | None:
        good = [n for n in names if n not in packed.bad]
        homes = {home(n) for n in good}
        if len(homes) > 1 or None in homes:
            return None  # stored in pieces: it is looked at every time
        values = definitions.names
        reach = self._reach(trails)
        deps = frozenset[str]().union(*(grouping.deps.get(n, ()) for n in names))
        return Record(
            names=names,
            bad={n: packed.bad[n] for n in names if n in packed.bad},
            deps={n: address(values.get(n)) for n in deps},
            reach=reach or frozenset(),
            everything=reach is None or any(trail.everything for trail in trails),
            is_open=bool(trails)
            and not known.prove(lambda count: is_closed(trails, count, mentioned, self.transparent)),
            is_called=any(issubclass(type(f), type) for trail in trails for f in trail.functions),
            mentions=_of_definitions(trails, definitions),
            functions=frozenset[int]().union(*(of_notebook(trail.functions, namespace) for trail in trails)),
            cost_s=packed.cost_s.get(names, before.cost_s if before is not None else 0.0)
            + _S_PER_OBJECT * sum(len(f) for trail in trails for f in trail.frontiers),
        )

    def _reach(self, trails: Sequence[Trail]) -> frozenset[str] | None:
        """Return the names that the functions of a group lead to, None if that may be any."""
        for trail in trails:
            if any(issubclass(cls, _SUSPENDED) for cls in trail.types):
                return None  # what it goes on to do is in a frame that nobody looks into
            if types.BuiltinFunctionType in trail.types and any(
                opens_everything(obj) for frontier in trail.frontiers for obj in frontier
            ):
                return None
        functions = [f for trail in trails for f in trail.functions if type(f) is types.FunctionType]
        return self._reach_of([f.__code__ for f in functions])

    def _reach_of(self, codes: Iterable[types.CodeType]) -> frozenset[str] | None:
        reach: set[str] = set()
        for code in codes:
            facts = self._facts_of(code)
            if facts.everything or not EVERYTHING_NAMES.isdisjoint(facts.loads):
                return None
            reach |= facts.loads | facts.writes
        return frozenset(reach)

    def _facts_of(self, code: types.CodeType) -> CodeFacts:
        known = self._facts.get(code)
        if known is None:
            known = self._facts[code] = code_facts(code)
        return known


def _of_definitions(trails: Iterable[Trail], definitions: Definitions) -> dict[int, int]:
    found = mentions_in(trails)
    return {key: number for key, number in found.items() if key in definitions.paths}
