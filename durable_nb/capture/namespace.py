"""Which names are the user's; what of them changed; puts a staged set of names into the live namespace at once.

Called by the engine, in one thread. `delta` and `stage` change nothing live; after `apply` every staged name is in the
namespace. What this class remembers is checked against the head it is given, so a commit that failed needs no undo.
"""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from durable_nb.capture import compare
from durable_nb.capture.codec import Codec, Dumped, Failed
from durable_nb.capture.definitions import Definitions, is_definition
from durable_nb.capture.groups import Grouping, is_atomic, partition
from durable_nb.capture.isolate import type_name
from durable_nb.capture.packing import Packed, Packer
from durable_nb.capture.reducers import load
from durable_nb.capture.staging import ReadGroup, Staged, Staging
from durable_nb.model import CheckpointId, GroupData, GroupId, Manifest, Unsaved, Variable

__all__ = ["Captured", "NamespaceCapture"]

# What IPython and Python keep in every namespace.
_SHELLS = frozenset(
    {"_oh", "_dh", "_ih", "_i", "_ii", "_iii", "__name__", "__doc__", "__package__", "__loader__", "__spec__"}
    | {"__builtin__", "__builtins__", "__warningregistry__"}
)
_HISTORY = re.compile(r"_i?\d+")
_LAST = frozenset({"_", "__", "___"})
_OUT = re.compile(r"Out\[(\d+)\]")
FINGERPRINT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What one look at the namespace found: new variables (None: gone), groups to store, all that cannot be stored.

    `changed` are the names whose own content is new, different or gone; `regrouped` those that only moved to another
    group, because what they share changed.
    """

    names: Mapping[str, Variable | None]
    groups: Sequence[GroupData]
    unsaved: tuple[Unsaved, ...]
    changed: tuple[str, ...]
    regrouped: tuple[str, ...]


class NamespaceCapture:
    """The live namespace as versions of variables."""

    def __init__(
        self,
        namespace: dict[str, Any],
        *,
        hidden: Callable[[], Mapping[str, Any]],
        out: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._namespace, self._hidden, self._out = namespace, hidden, out
        self._codec = Codec(namespace, load(sys.modules))
        self._packer = Packer(lambda: self._codec, self._live_value)
        self._digests: dict[GroupId, str] = {}
        self._atoms: dict[str, tuple[Any, GroupId]] = {}
        self._prints: dict[str, tuple[CheckpointId, str]] = {}
        self._adopted: dict[str, CheckpointId] = {}
        self._versions: dict[str, tuple[int, CheckpointId]] = {}
        self._grouping: tuple[tuple[str, ...], ...] = ()
        self._made: dict[str, tuple[int, str]] = {}

    # --- names ----------------------------------------------------------------------------------------------------

    def names(self) -> dict[str, Any]:
        """Return the user's names and values, entries of `Out` under `Out[n]`."""
        hidden, out = self._hidden(), self._out()
        shown = {id(value) for value in out.values()}
        chosen = {
            name: value
            for name, value in list(self._namespace.items())
            if type(name) is str and not self._is_shells(name, value, hidden, shown)
        }
        return {**chosen, **out}

    def _is_shells(self, name: str, value: Any, hidden: Mapping[str, Any], shown: set[int]) -> bool:
        if name in hidden and hidden[name] is value:
            return True
        if name in ("exit", "quit", "get_ipython"):
            return type(value).__module__.startswith("IPython.") or type_name(value) == "method"
        if not name.startswith("_"):
            return name in ("In", "Out")
        if name in _LAST:
            # A person's own `_` (a loop variable, gettext) is a variable; the last results are not.
            return (type(value) is str and not value) or id(value) in shown
        return name in _SHELLS or _HISTORY.fullmatch(name) is not None

    def _live_value(self, name: str) -> object:
        found = _OUT.fullmatch(name)
        try:
            return self._out()[name] if found else self._namespace[name]
        except KeyError:
            raise Failed(f"it needs {name}, which is not defined") from None

    # --- capture --------------------------------------------------------------------------------------------------

    def delta(
        self,
        head: Manifest | None,
        checkpoint_id: str,
        *,
        made_by: str,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> Captured:
        """Look at every name and return what differs from `head`; `include` and `exclude` are name patterns."""
        everything = self.names()
        names = {n: v for n, v in everything.items() if _wanted(n, include, exclude)}
        look = _Look(self, head, CheckpointId(checkpoint_id), made_by, names)
        atoms, rest = look.split()
        grouping = self._bind(rest, names)
        packed = self._packer.pack([*((n,) for n in atoms), *grouping.groups], names, look.known)
        captured = look.result(packed, [n for n in everything if n not in names])
        self._grouping = grouping.groups
        return captured

    def _bind(self, rest: Mapping[str, Any], names: Mapping[str, Any]) -> Grouping:
        plugin = load(sys.modules)
        if plugin is not self._codec.plugin:
            self._codec = Codec(self._namespace, plugin)
        definitions = Definitions(names)
        grouping = partition(rest, definitions, plugin, never=self._never())
        self._codec.bind(definitions, grouping)
        return grouping

    def _never(self) -> list[object]:
        hidden = self._hidden()
        shell = getattr(hidden.get("get_ipython"), "__self__", None)
        return [self._namespace, *([shell] if shell is not None else [])]

    def adopt(self, manifest: Manifest, names: Iterable[str] | None = None) -> None:
        """Take note that the live values of `names` (default all) are the manifest's versions."""
        for name in manifest.names if names is None else names:
            variable = manifest.names[name]
            self._adopted[name] = variable.version
            try:
                self._versions[name] = (id(self._live_value(name)), variable.version)
            except Failed:
                # It did not load: nothing live is this version.
                self._adopted.pop(name)

    def forget(self) -> None:
        """Take nothing for stored any more: the next look finds everything new."""
        self._digests.clear()
        self._atoms.clear()
        self._prints.clear()
        self._adopted.clear()

    # --- restore --------------------------------------------------------------------------------------------------

    def stage(self, manifest: Manifest, read_group: ReadGroup, names: Iterable[str] | None = None) -> Staged:
        """Load `names` (default all), the names they share objects with and the definitions they need."""
        wanted = list(manifest.names if names is None else names)
        chosen = set(wanted)
        self._codec = Codec(self._namespace, load(sys.modules))

        def reusable(name: str) -> tuple[object] | None:
            # Only what was not asked for and is bound live at this very version.
            if name in chosen:
                return None
            return self._at_version(name, manifest.names[name].version)

        return Staging(self._codec, manifest, read_group, reusable, lend=True).stage(wanted)

    def _at_version(self, name: str, version: CheckpointId) -> tuple[object] | None:
        try:
            live = self._live_value(name)
        except Failed:
            return None
        return (live,) if self._versions.get(name) == (id(live), version) else None

    def apply(self, staged: Staged, *, delete_others: bool) -> Mapping[int, Any]:
        """Put the staged names into the namespace, remove all others if told to; return what belongs into `Out`."""
        out = {int(m[1]): value for name, value in staged.values.items() if (m := _OUT.fullmatch(name))}
        others = set(self.names()) - set(staged.values) - staged.reused if delete_others else set()
        # One call: no other thread ever sees half of the names.
        self._namespace.update({n: v for n, v in staged.values.items() if not _OUT.fullmatch(n)})
        for name in others:
            self._namespace.pop(name, None)
        return out

    # --- comparing ------------------------------------------------------------------------------------------------

    def same(self, manifest: Manifest, read_group: ReadGroup, names: Iterable[str]) -> str | None:
        """Return how the live values of `names` differ from the stored ones, aliases included; None: they do not."""
        wanted = list(names)
        live = self.names()
        for name in wanted:
            if name not in live:
                return f"{name} is not defined any more"
            if name not in manifest.names:
                return f"{name} was not stored"
        grouping = self._bind({n: v for n, v in live.items() if not is_atomic(v)}, live)
        look = [n for n in wanted if not self._proved_equal(manifest, n, live, grouping)]
        if not look:
            return None

        def reusable(name: str) -> tuple[object] | None:
            if name in look or name not in live:
                return None
            if is_definition(live[name]) and self._print(name, live) == manifest.names[name].digest:
                return (live[name],)
            return self._at_version(name, manifest.names[name].version)

        staged = Staging(self._codec, manifest, read_group, reusable, lend=False).stage(look)
        if staged.unsaved:
            return f"{staged.unsaved[0].name} cannot be compared: {staged.unsaved[0].reason}"
        return compare.difference({n: live[n] for n in look}, {n: staged.values[n] for n in look})

    def _proved_equal(self, manifest: Manifest, name: str, live: Mapping[str, Any], grouping: Grouping) -> bool:
        variable = manifest.names[name]
        group = manifest.groups[variable.group_id]
        mates = next((g for g in grouping.groups if name in g), (name,))
        if set(mates) != set(group.names):
            return False
        known = self._digests.get(variable.group_id) or (variable.digest if len(mates) == 1 else "")
        if not known:
            return False
        try:
            return self._codec.dump(group.names, live).digest == known
        except Failed:
            return False

    def _print(self, name: str, names: Mapping[str, Any]) -> str:
        try:
            return self._codec.dump([name], names).digest
        except Failed:
            return ""

    def shared_with(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names that shared mutable objects with these at the last look."""
        wanted = set(names)
        return frozenset(n for group in self._grouping if wanted.intersection(group) for n in group) - wanted


class _Look:
    """One capture: compares what is packed with the head and draws up the delta."""

    def __init__(
        self,
        owner: NamespaceCapture,
        head: Manifest | None,
        checkpoint_id: CheckpointId,
        made_by: str,
        names: Mapping[str, Any],
    ) -> None:
        self.owner, self.id, self.made_by, self.names = owner, checkpoint_id, made_by, names
        self.head_names = head.names if head is not None else {}
        self.head_groups = head.groups if head is not None else {}
        self.same_atoms: set[str] = set()
        self.variables: dict[str, Variable | None] = {}
        self.groups: list[GroupData] = []
        self.changed: list[str] = []
        self.regrouped: list[str] = []

    def split(self) -> tuple[list[str], dict[str, Any]]:
        """Return the atomic names that may have changed, and all that needs grouping."""
        atoms, rest = [], {}
        known, head = self.owner._atoms, self.head_names
        for name, value in self.names.items():
            if not is_atomic(value):
                rest[name] = value
                continue
            entry = known.get(name)
            if entry is not None and entry[0] is value and name in head and head[name].group_id == entry[1]:
                self.same_atoms.add(name)
            else:
                atoms.append(name)
        return atoms, rest

    def _stored_group(self, group: tuple[str, ...]) -> GroupId | None:
        first = self.head_names.get(group[0])
        if first is None or set(self.head_groups[first.group_id].names) != set(group):
            return None
        return first.group_id if all(self.head_names[n].group_id == first.group_id for n in group) else None

    def known(self, group: tuple[str, ...], dumped: Dumped) -> bool:
        """Tell whether a group is the head's, as it was looked at last or came back from the store."""
        group_id = self._stored_group(group)
        if group_id is None:
            return False
        digest = self.owner._digests.get(group_id)
        if digest is None:
            return all(self.owner._adopted.get(n) == self.head_names[n].version for n in group)
        return digest == dumped.digest

    def result(self, packed: Packed, excluded: Sequence[str]) -> Captured:
        """Draw up the delta and remember what was seen."""
        owner = self.owner
        for group, dumped in packed.good.items():
            if self.known(group, dumped):
                self._unchanged(group, dumped)
            else:
                self._new(group, dumped)
        owner._adopted.clear()
        kept = self.same_atoms.union(*packed.good) if packed.good else self.same_atoms
        for name in self.head_names:
            if name not in kept:
                self.variables[name] = None
                self.changed.append(name)
        owner._digests = {
            g: d for g, d in owner._digests.items() if g in self.head_groups or g.startswith(f"{self.id}.")
        }
        owner._atoms = {n: e for n, e in owner._atoms.items() if n in kept}
        return Captured(
            names=self.variables,
            groups=self.groups,
            unsaved=self._unsaved(packed, excluded),
            changed=tuple(self.changed),
            regrouped=tuple(self.regrouped),
        )

    def _unchanged(self, group: tuple[str, ...], dumped: Dumped) -> None:
        group_id = self.head_names[group[0]].group_id
        first_look = group_id not in self.owner._digests
        self.owner._digests[group_id] = dumped.digest
        for name in group:
            version = self.head_names[name].version
            if first_look:
                # It came back from the store: the same content may pickle to other bytes from now on.
                self.owner._prints[name] = (version, self._fingerprint(name, group, dumped)[0])
            self._remember(name, group_id, version)

    def _new(self, group: tuple[str, ...], dumped: Dumped) -> None:
        group_id = GroupId(f"{self.id}.{len(self.groups)}")
        self.owner._digests[group_id] = dumped.digest
        self.groups.append(
            GroupData(
                group_id=group_id,
                names=group,
                codec=dumped.codec,
                pickle=dumped.pickle,
                buffers=dumped.buffers,
                deps=dumped.deps,
                types=tuple(sorted(f"{c.__module__}.{c.__qualname__}" for c in dumped.types)),
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
            self.owner._prints[name] = (version, digest)
            self._remember(name, group_id, version)

    def _is_version(self, name: str, before: Variable, digest: str) -> bool:
        if self.owner._adopted.get(name) == before.version:
            return True
        known = self.owner._prints.get(name)
        if known is not None and known[0] == before.version:
            return bool(digest) and known[1] == digest
        return bool(digest) and before.digest == digest

    def _remember(self, name: str, group_id: GroupId, version: CheckpointId) -> None:
        value = self.names[name]
        self.owner._versions[name] = (id(value), version)
        if is_atomic(value):
            self.owner._atoms[name] = (value, group_id)

    def _fingerprint(self, name: str, group: tuple[str, ...], dumped: Dumped) -> tuple[str, int]:
        """Return the digest and size of a name by itself; no digest where that would cost too much."""
        if len(group) == 1:
            return dumped.digest, dumped.size_bytes
        if dumped.size_bytes > FINGERPRINT_BYTES:
            return "", dumped.size_bytes
        try:
            alone = self.owner._codec.dump([name], self.names)
        except Failed:
            return "", dumped.size_bytes
        return alone.digest, alone.size_bytes

    def _unsaved(self, packed: Packed, excluded: Sequence[str]) -> tuple[Unsaved, ...]:
        made, found = self.owner._made, []
        for name, bad in packed.bad.items():
            key = id(self.names[name])
            if made.get(name, (0, ""))[0] != key:
                made[name] = (key, self.made_by)
            found.append(Unsaved(name=name, path=bad.path, type=bad.type, reason=bad.reason, made_by=made[name][1]))
        self.owner._made = {n: m for n, m in made.items() if n in packed.bad}
        for name in excluded:
            found.append(Unsaved(name=name, path="", type="", reason="left out on request (--include, --exclude)"))
        return tuple(found)


def _wanted(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    if include and not any(fnmatch.fnmatchcase(name, pattern) for pattern in include):
        return False
    return not any(fnmatch.fnmatchcase(name, pattern) for pattern in exclude)
