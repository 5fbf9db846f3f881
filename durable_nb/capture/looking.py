"""One look at the namespace: what is new, different, moved or gone since the head, drawn up as a delta.

Called by `namespace`. What it remembers is kept by group id and version and holds only where the head agrees.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from durable_nb.capture import plainly
from durable_nb.capture.codec import Dumped
from durable_nb.capture.definitions import importable, is_definition
from durable_nb.capture.isolate import type_name
from durable_nb.capture.kinds import ATOMIC, is_atomic
from durable_nb.capture.packing import Packed
from durable_nb.capture.process_modules import is_local_module
from durable_nb.model import CheckpointId, GroupData, GroupId, Manifest, Unsaved, Variable

__all__ = ["Captured", "Look", "Memory", "Names"]

Names: TypeAlias = Mapping[str, Any]  # variables by name

FINGERPRINT_BYTES = 64 << 20
CACHED_BYTES = 1 << 30
_SPARE = 64  # digests of groups that are gone by now


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What one look at the namespace found: new variables (None: gone), groups to store, all that cannot be stored.

    `changed` are the names whose own content is new, different or gone; `regrouped` those that only moved to another
    group, because what they share changed; `missed` those that changed although nothing that ran can have done it.
    `kinds` are the types of all values.
    """

    names: Mapping[str, Variable | None]
    groups: Sequence[GroupData]
    unsaved: tuple[Unsaved, ...]
    changed: tuple[str, ...]
    regrouped: tuple[str, ...]
    missed: tuple[str, ...] = ()
    kinds: Collection[type] = ()


class Made:
    """Which cell made a value that is not stored; the value itself is not kept alive for that."""

    __slots__ = ("_id", "_ref", "by")

    def __init__(self, value: object, by: str) -> None:
        self.by = by
        self._id = id(value)
        self._ref: weakref.ref[object] | None = None
        try:
            self._ref = weakref.ref(value)
        except TypeError:  # of such a type the address alone has to tell
            return

    def is_of(self, value: object) -> bool:
        """Tell whether this is the value, and not another one at the address of a value that is gone."""
        return self._id == id(value) and (self._ref is None or self._ref() is value)


@dataclass(slots=True)
class Memory:
    """What earlier looks saw: digests by group, atomic values, fingerprints by version, what a restore brought back.

    `imported` are functions and classes of libraries, which are stored as where to find them.
    """

    digests: dict[GroupId, str] = field(default_factory=dict)
    atoms: dict[str, tuple[Any, GroupId]] = field(default_factory=dict)
    imported: dict[str, tuple[weakref.ref[Any], GroupId]] = field(default_factory=dict)
    prints: dict[str, tuple[CheckpointId, str]] = field(default_factory=dict)
    adopted: dict[str, CheckpointId] = field(default_factory=dict)
    versions: dict[str, tuple[int, CheckpointId]] = field(default_factory=dict)
    made: dict[str, Made] = field(default_factory=dict)

    def take_in(self, seen: Memory) -> None:
        """Remember what a look aside saw of values that have become live since."""
        self.digests.update(seen.digests)
        self.atoms.update(seen.atoms)
        self.imported.update(seen.imported)
        self.prints.update(seen.prints)
        self.versions.update(seen.versions)


class Look:
    """One capture: compares what is packed with the head and draws up the delta."""

    def __init__(
        self,
        memory: Memory,
        head: Manifest | None,
        checkpoint_id: CheckpointId,
        made_by: str,
        names: Mapping[str, Any],
        alone: Callable[[str, Mapping[str, Any]], tuple[str, int] | None],
        pending: Set[str] = frozenset(),
    ) -> None:
        self.pending = pending  # names that are not live because they are still to be loaded: not gone
        self.memory, self.id, self.made_by, self.names, self.alone = memory, checkpoint_id, made_by, names, alone
        self.head_names = head.names if head is not None else {}
        self.head_groups = head.groups if head is not None else {}
        self.variables: dict[str, Variable | None] = {}
        self.groups: list[GroupData] = []
        self.same: set[str] = set()
        self.changed: list[str] = []
        self.regrouped: list[str] = []

    def split(self) -> tuple[list[str], dict[str, Any]]:
        """Return the atomic names that may have changed, and all that needs grouping.

        What is `same` as ever, because it is a function or class of a library, is in neither.
        """
        atoms, rest = [], {}
        known, imported, head = self.memory.atoms, self.memory.imported, self.head_names
        for name, value in self.names.items():
            try:
                maybe = type(value) in ATOMIC
            except Exception:  # not even its class can be asked for its hash
                maybe = False
            if not maybe:
                place = imported.get(name)
                if place is None or not (place[0]() is value and name in head and head[name].group_id == place[1]):
                    rest[name] = value
                else:
                    self.same.add(name)
                continue
            entry = known.get(name)
            if (
                entry is not None
                and entry[0] is value
                and (variable := head.get(name)) is not None
                and variable.group_id == entry[1]
            ):
                continue
            if is_atomic(value):
                atoms.append(name)
            else:
                rest[name] = value
        return atoms, rest

    def _stored_group(self, group: tuple[str, ...]) -> GroupId | None:
        first = self.head_names.get(group[0])
        if first is None or set(self.head_groups[first.group_id].names) != set(group):
            return None
        live = self.head_names
        return first.group_id if all(n in live and live[n].group_id == first.group_id for n in group) else None

    def home(self, name: str) -> GroupId | None:
        """Return the group that a name is in after this look."""
        variable = self.variables[name] if name in self.variables else self.head_names.get(name)
        return None if variable is None else variable.group_id

    def known(self, group: tuple[str, ...], dumped: Dumped) -> bool:
        """Tell whether a group is the head's, as it was looked at last or came back from the store."""
        group_id = self._stored_group(group)
        if group_id is None:
            return False
        digest = self.memory.digests.get(group_id)
        if digest is None:
            return all(self.memory.adopted.get(n) == self.head_names[n].version for n in group)
        return digest == dumped.digest

    def result(self, packed: Packed, excluded: Mapping[str, Any], looked: Sequence[str], walked: Set[str]) -> Captured:
        """Draw up the delta and remember what was seen.

        `looked` are the names that were looked at, `walked` those among them that are as the head has them although
        they are not in `packed`. All others are as the head has them, if they are there.
        """
        for group, dumped in packed.good.items():
            if group in packed.known:
                self._unchanged(group, dumped)
            else:
                self._new(group, dumped)
        self.memory.adopted.clear()
        stored = set(walked).union(*packed.good)
        gone = {name for name in looked if name not in stored}
        if not self.head_names.keys() <= self.names.keys():
            gone |= self.head_names.keys() - self.names.keys()
        if gone:
            lost = [name for name in self.head_names if name in gone and name not in self.pending]
            self.variables.update(dict.fromkeys(lost))
            self.changed.extend(lost)
        self._forget(looked, stored)
        return Captured(
            names=self.variables,
            groups=self.groups,
            unsaved=self._unsaved(packed, excluded),
            changed=tuple(self.changed),
            regrouped=tuple(self.regrouped),
        )

    def _forget(self, looked: Sequence[str], stored: Set[str]) -> None:
        """Forget what is not there any more, or not what it was."""
        memory = self.memory
        if len(memory.digests) > len(self.head_groups) + len(self.groups) + _SPARE:
            memory.digests = {
                g: d for g, d in memory.digests.items() if g in self.head_groups or g.startswith(f"{self.id}.")
            }
        for name in looked:
            entry = memory.atoms.get(name)
            if entry is not None and (name not in stored or entry[0] is not self.names[name]):
                del memory.atoms[name]
        if not memory.atoms.keys() <= self.names.keys():
            memory.atoms = {n: e for n, e in memory.atoms.items() if n in self.names}
        if not memory.imported.keys() <= self.names.keys():
            memory.imported = {n: e for n, e in memory.imported.items() if n in self.names}

    def _unchanged(self, group: tuple[str, ...], dumped: Dumped) -> None:
        group_id = self.head_names[group[0]].group_id
        first_look = group_id not in self.memory.digests
        self.memory.digests[group_id] = dumped.digest
        for name in group:
            version = self.head_names[name].version
            if first_look:
                # It came back from the store: the same content may pickle to other bytes from now on.
                self.memory.prints[name] = (version, self._fingerprint(name, group, dumped)[0])
            self._remember(name, group_id, version, alone=len(group) == 1)

    def _new(self, group: tuple[str, ...], dumped: Dumped) -> None:
        group_id = GroupId(f"{self.id}.{len(self.groups)}")
        self.memory.digests[group_id] = dumped.digest
        self.groups.append(
            GroupData(
                group_id=group_id,
                names=group,
                codec=dumped.codec,
                pickle=dumped.pickle,
                buffers=dumped.buffers,
                marks=dumped.chunk_marks,
                deps=dumped.deps,
                types=tuple(sorted(f"{plainly.module(c)}.{plainly.qualname(c)}" for c in dumped.types)),
            )
        )
        for name in group:
            before = self.head_names.get(name)
            digest, size = self._fingerprint(name, group, dumped)
            if before is not None and self._is_version(name, before, digest):
                version, made_by = before.version, before.made_by
                self.regrouped.append(name)
            else:
                version, made_by = self.id, self.made_by
                self.changed.append(name)
            self.variables[name] = Variable(
                group_id=group_id,
                version=version,
                type=type_name(self.names[name]),
                size_bytes=size,
                digest=digest,
                made_by=made_by,
            )
            self.memory.prints[name] = (version, digest)
            self._remember(name, group_id, version, alone=len(group) == 1)

    def _is_version(self, name: str, before: Variable, digest: str) -> bool:
        if self.memory.adopted.get(name) == before.version:
            return True
        known = self.memory.prints.get(name)
        # What came back from the store may look different from what was stored: equal to either is the same content.
        if bool(digest) and known is not None and known == (before.version, digest):
            return True
        return bool(digest) and before.digest == digest

    def _remember(self, name: str, group_id: GroupId, version: CheckpointId, *, alone: bool) -> None:
        value = self.names[name]
        self.memory.versions[name] = (id(value), version)
        if is_atomic(value):
            self.memory.atoms[name] = (value, group_id)
        elif alone and is_definition(value) and importable(value) and not is_local_module(value.__module__):
            # What a local module defines is another thing after a reload: the name is left with what it had been.
            self.memory.imported[name] = (weakref.ref(value), group_id)

    def _fingerprint(self, name: str, group: tuple[str, ...], dumped: Dumped) -> tuple[str, int]:
        """Return the digest and size of a name by itself; no digest where that would cost too much."""
        if len(group) == 1 and not dumped.caches:
            return dumped.digest, dumped.size_bytes
        # A call of a cached function makes its group another one; that must not make its large results new as well.
        most = CACHED_BYTES if dumped.caches else FINGERPRINT_BYTES * len(group)
        if dumped.size_bytes * len(group) > most:
            return "", dumped.size_bytes
        alone = self.alone(name, self.names)
        return ("", dumped.size_bytes) if alone is None else alone

    def _unsaved(self, packed: Packed, excluded: Mapping[str, Any]) -> tuple[Unsaved, ...]:
        made, found = self.memory.made, []
        # In the order of the namespace, whatever the order in which it was found out.
        for name, bad in [(n, packed.bad[n]) for n in self.names if n in packed.bad] if packed.bad else ():
            by = self._maker(name, self.names[name])
            found.append(Unsaved(name=name, path=bad.path, type=bad.type, reason=bad.reason, made_by=by))
        for name, value in excluded.items():
            reason, by = "left out on request (--include, --exclude)", self._maker(name, value)
            found.append(Unsaved(name=name, path="", type=type_name(value), reason=reason, made_by=by))
        self.memory.made = {n: m for n, m in made.items() if n in packed.bad or n in excluded}
        return tuple(found)

    def _maker(self, name: str, value: object) -> str:
        known = self.memory.made.get(name)
        if known is None or not known.is_of(value):
            known = self.memory.made[name] = Made(value, self.made_by)
        return known.by
