"""Which names are the user's; what of them changed; puts a staged set of names into the live namespace at once.

Called by the engine, in one thread. `delta` and `stage` change nothing live; after `apply` every staged name is in the
namespace. What this class remembers is checked against the head it is given, so a commit that failed needs no undo.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from durable_nb.capture import compare, runtime_modules
from durable_nb.capture.closed import References, held_by
from durable_nb.capture.codec import Codec, Failed, MarkedAt, is_plain
from durable_nb.capture.compare_aside import compared
from durable_nb.capture.definitions import Definitions, is_definition
from durable_nb.capture.groups import NOTHING, Grouping, partition
from durable_nb.capture.kinds import is_atomic, types_of
from durable_nb.capture.lazy import LazyNames, connect
from durable_nb.capture.looking import Captured, Look, Made, Memory, Names
from durable_nb.capture.naming import OUT, LiveNames, wanted
from durable_nb.capture.packing import Packed, Packer
from durable_nb.capture.pickler import quiet
from durable_nb.capture.reducers import Loader, Plugin, load, troubles
from durable_nb.capture.reducers.io import is_console
from durable_nb.capture.settled import Settled, Touched
from durable_nb.capture.staging import ReadGroup, Staged, Staging
from durable_nb.model import CheckpointId, Manifest, Unsaved

__all__ = ["Captured", "NamespaceCapture"]

# Every process has one of each, and a copy of one would be nobody's.
_PROCESS_OBJECTS = (
    *(("sys", name) for name in ("path", "argv", "modules", "stdout", "stderr", "stdin", "meta_path", "path_hooks")),
    ("os", "environ"),
)
# An object, the module and attribute where it is, and the variable that an import bound to it, if one did.
Owned = tuple[object, str, str, str]
ARRIVED = CheckpointId("arrived")  # stands for a checkpoint in a look that nothing is stored of


class NamespaceCapture:
    """The live namespace as versions of variables."""

    def __init__(
        self,
        namespace: dict[str, Any],
        *,
        hidden: Callable[[], Mapping[str, Any]],
        out: Callable[[], Mapping[str, Any]],
        owned: Callable[[], Iterable[Owned]] = tuple,
        held: Callable[[], Iterable[Any]] = tuple,
    ) -> None:
        """`owned` tells which objects are modules', and so stay the ones in use, whoever holds them.

        `held` gives the values that the shell holds beside the namespace and `Out`, once for each time it does.
        """
        self._owned, self._held = owned, held
        self._namespace, self._hidden, self._out = namespace, hidden, out
        self._live = LiveNames(namespace, hidden, out)
        # Which plug-ins there are is found out by the first look, not on the way to the first cell.
        self._plugins = Loader()
        self._codec = Codec(namespace, Plugin())
        self._packer = Packer(lambda: self._codec, self._live.value)
        self._memory = Memory()
        self._grouping: tuple[tuple[str, ...], ...] = ()
        self._settled = Settled()
        # Names that a cell left out on request: its neighbours must not save them in its stead.
        self._left_out: set[str] = set()
        # What a restored checkpoint holds and is not live yet: unchanged by definition, and looked at by nobody.
        self.lazy = LazyNames(self.first_look, namespace)

    # --- names ----------------------------------------------------------------------------------------------------

    def names(self) -> dict[str, Any]:
        """Return the user's names and values, entries of `Out` under `Out[n]`, made modules under `sys.modules[n]`."""
        return self._live.now()

    def _names_now(self) -> tuple[dict[str, Any], frozenset[str]]:
        """Return the live names and the pending ones at one moment, of which threads of the person's may load some."""
        with self.lazy.publishing:
            self.lazy.note_arrived(self._memory)
            self.lazy.bound_since()
            return self.names(), frozenset(self.lazy.names)

    def first_look(self, manifest: Manifest, values: Names, beside: Names, marked: MarkedAt) -> Memory:
        """Look at values that were just loaded and are not live yet; the next look takes in what is returned.

        `beside` are the definitions that they are made of, whatever their names are bound to by now. For the thread
        that loaded them: nothing that other looks use is touched. `marked` is known of memory that was read for them.
        """
        aside = NamespaceCapture(self._namespace, hidden=self._hidden, out=self._out, owned=self._owned)
        aside._memory.adopted = {name: manifest.names[name].version for name in values}
        look = Look(aside._memory, manifest, ARRIVED, "", values, aside._print_of)
        atoms, rest = look.split()
        everything = {**aside.names(), **beside, **values}
        grouping = aside._bind(rest, Definitions(everything))
        aside._codec.marked = marked
        packed = aside._packer.pack([*((n,) for n in atoms), *grouping.groups], everything, look.known, {})
        look.result(packed, {}, list(values), frozenset())
        aside._codec.release()
        return aside._memory

    # --- capture --------------------------------------------------------------------------------------------------

    def is_quiet(self, head: Manifest | None) -> bool:
        """Tell whether a look would have nothing to look at, given that no code of the notebook ran since the last."""
        if head is None or self.lazy:
            return False
        everything, left = self.names(), self._left_out
        names = {n: v for n, v in everything.items() if n not in left} if left else everything
        look = Look(self._memory, head, ARRIVED, "", names, self._print_of)
        atoms, rest = look.split()
        if atoms or not head.names.keys() <= names.keys():
            return False
        return not self._settled.select(rest, head.names, names, Touched(), audit=False).names

    def delta(
        self,
        head: Manifest | None,
        checkpoint_id: str,
        *,
        made_by: str,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        written: Collection[str] = (),
        touched: Touched | None = None,
        audit: bool = True,
    ) -> Captured:
        """Look at the namespace and return what differs from `head`; `include` and `exclude` are name patterns.

        `touched` is what code that ran since the last look may have reached; without it every name is looked at. With
        `audit`, so are some of the others.

        Patterns are about what is new or changed: what stays as the head has it stays there. What was left out stays
        so until a cell that is asked to save it has `written` it.
        """
        self.lazy.load(self.lazy.torn())
        everything, pending = self._names_now()
        stored = head.names if head is not None else {}
        unwanted = {n for n in everything if not wanted(n, include, exclude)} if include or exclude else set()
        left = self._left_out.intersection(everything).difference(written)
        left |= {n for n in unwanted if n not in stored or n in written}
        captured = self._look(head, checkpoint_id, made_by, everything, left, touched, pending, audit=audit)
        changed = {n: v for n, v in captured.names.items() if v is not None and v.version == checkpoint_id}
        if unwanted.intersection(changed):
            left |= unwanted.intersection(changed)
            captured = self._look(head, checkpoint_id, made_by, everything, left, None, pending)
        self._left_out = left
        return captured

    def _look(
        self,
        head: Manifest | None,
        checkpoint_id: str,
        made_by: str,
        everything: Mapping[str, Any],
        left: Set[str],
        touched: Touched | None,
        pending: Set[str] = frozenset(),
        *,
        audit: bool = True,
    ) -> Captured:
        names = {n: v for n, v in everything.items() if n not in left} if left else everything
        look = Look(self._memory, head, CheckpointId(checkpoint_id), made_by, names, self._print_of, pending)
        atoms, rest = look.split()
        selection = self._settled.select(rest, look.head_names, names, touched, audit=audit)
        # Plain atoms are what they are; to find out what is shared with them would be most of what a small cell costs.
        idle = not selection.names and all(is_plain(names[n]) for n in atoms)
        definitions = Definitions({} if idle else names, look.same)
        if not idle and self._settled.moved(selection, definitions):
            del selection, definitions
            return self._look(head, checkpoint_id, made_by, everything, left, None, pending)
        grouping = NOTHING if idle else self._bind(selection.names, definitions)
        dumped = [group for group in grouping.groups if group not in selection.read]
        packed = self._packer.pack([*((n,) for n in atoms), *dumped], names, look.known, selection.bad)
        missed = selection.missed(packed)
        if selection.contradicts(grouping, packed):
            del selection, grouping, packed
            again = self._look(head, checkpoint_id, made_by, everything, left, None, pending)
            return replace(again, missed=missed)
        excluded = {n: v for n, v in everything.items() if n in left} if left else {}
        captured = look.result(packed, excluded, [*atoms, *selection.names], selection.walked(grouping))
        self._grouping = (*grouping.groups, *selection.left_out)
        self._codec.release()
        known = self._references(everything, names, rest, selection.names, packed)
        self._settled.note(selection, grouping, packed, look.home, definitions, known, self._namespace)
        broken = [
            Unsaved(name=f"durable_nb.reducers[{library}]", path="", type="plug-in", reason=reason)
            for library, reason in troubles(sys.modules).items()
        ]
        kinds = types_of(everything.values())
        return replace(captured, unsaved=(*captured.unsaved, *broken), missed=missed, kinds=kinds)

    def _references(
        self,
        everything: Mapping[str, Any],
        names: Mapping[str, Any],
        rest: Mapping[str, Any],
        looked: Mapping[str, Any],
        packed: Packed,
    ) -> References:
        """Count the references that this look adds, and when they are needed those of the shell."""
        ours = [names, rest, looked] if names is everything else [everything, names, rest, looked]

        def few() -> Mapping[int, int]:
            return held_by([*(looked.values() for _ in ours), packed.exporters()])

        def whole() -> Mapping[int, int]:
            return held_by([*(o.values() for o in ours), packed.exporters(), *self._shells_references(everything)])

        return References(few, whole)

    def _shells_references(self, users: Mapping[str, Any]) -> list[Iterable[Any]]:
        hidden = [v for name, v in list(self._namespace.items()) if name not in users and type(v) is not str]
        return [hidden, self._held()]

    def _bind(self, rest: Mapping[str, Any], definitions: Definitions) -> Grouping:
        plugin, names = self._plugins(sys.modules), definitions.names
        if plugin is not self._codec.plugin:
            self._codec = Codec(self._namespace, plugin)
        # What a module owns stays the module's: a copy would no longer be the object that the module itself uses.
        theirs = [
            (value, (module, attribute))
            for value, module, attribute, name in self._owned()
            if (not name or (name in names and name not in definitions.foreign and _is_owned(value)))
            if not _is_made(module)
        ]
        theirs += [
            (held, (module, name))
            for module, name in _PROCESS_OBJECTS
            if not name.startswith("std") or is_console(getattr(sys, name))
            if (held := getattr(sys.modules[module], name)) is not None
        ]
        owned = {id(obj): at for obj, at in theirs}
        grouping = partition(rest, definitions, plugin, never=[*self._never(), *(obj for obj, _ in theirs)])
        self._codec.bind(definitions, grouping, owned)
        return grouping

    def _never(self) -> list[object]:
        hidden = self._hidden()
        shell = getattr(hidden.get("get_ipython"), "__self__", None)
        return [self._namespace, *([shell] if shell is not None else [])]

    def adopt(self, manifest: Manifest, names: Iterable[str] | None = None) -> None:
        """Take note that the live values of `names` (default all) are the manifest's versions."""
        for name in manifest.names if names is None else names:
            variable = manifest.names[name]
            self._memory.adopted[name] = variable.version
            self._left_out.discard(name)
            # What came back may pickle to other bytes than what was stored.
            self._memory.digests.pop(variable.group_id, None)
            try:
                self._memory.versions[name] = (id(self._live.value(name)), variable.version)
            except Failed:
                # It did not load: nothing live is this version.
                self._memory.adopted.pop(name)

    def note_made(self, made_by: Mapping[str, str]) -> None:
        """Take note of which cell made values that cannot be stored, where the next look could not tell."""
        for name, by in made_by.items():
            self._memory.made[name] = Made(self._live.value(name), by)

    def made_by(self, name: str) -> str | None:
        """Return the cell that made the live value of a name that is not stored; None where that is not known."""
        known = self._memory.made.get(name)
        return known.by if known is not None and known.is_of(self._live.value(name)) else None

    def is_at(self, name: str, version: CheckpointId) -> bool:
        """Tell whether the live value of a name is this very version, as of the last look."""
        if (pending := self.lazy.names.get(name)) is not None:
            return pending.version == version
        self.lazy.note_arrived(self._memory)
        return self._at_version(name, version) is not None

    def forget(self) -> None:
        """Take nothing for stored any more: the next look finds everything new."""
        self._memory.digests.clear()
        self._memory.atoms.clear()
        self._memory.imported.clear()
        self._memory.prints.clear()
        self._memory.adopted.clear()
        self._settled.clear()

    # --- restore --------------------------------------------------------------------------------------------------

    def stage(
        self,
        manifest: Manifest,
        read_group: ReadGroup,
        names: Iterable[str] | None = None,
        needs: Iterable[str] = (),
        into: dict[str, Any] | None = None,
        anew: Collection[str] = (),
    ) -> Staged:
        """Load `names` (default all), the names they share objects with and the definitions they need, and `needs`.

        What is loaded goes `into` a dictionary of the caller's, if there is one. Of `anew` no live value is used.
        """
        wanted = list(manifest.names if names is None else names)
        self._codec = Codec(self._namespace, load(sys.modules))
        along = {n for g in {manifest.names[name].group_id for name in wanted} for n in manifest.groups[g].names}

        def reusable(name: str) -> tuple[object] | None:
            # Only what is not loaded along and is bound live at this very version, or is a definition of equal content.
            if name in along or name in anew:
                return None
            self._bring([name], manifest)
            return self._at_version(name, manifest.names[name].version) or self._equal_definition(
                manifest, read_group, name
            )

        return Staging(self._codec, manifest, read_group, reusable, lend=True, into=into).stage(wanted, needs)

    def _bring(self, names: Iterable[str], manifest: Manifest) -> None:
        """Load those of these names that are pending at the very version that a manifest has."""
        at = {n: v.version for n, v in self.lazy.names.items()}
        if wanted := [n for n in names if n in at and n in manifest.names and manifest.names[n].version == at[n]]:
            self.lazy.load(wanted)
            self._names_now()

    def _at_version(self, name: str, version: CheckpointId) -> tuple[object] | None:
        try:
            live = self._live.value(name)
        except Failed:
            return None
        return (live,) if self._memory.versions.get(name) == (id(live), version) else None

    def _equal_definition(self, manifest: Manifest, read_group: ReadGroup, name: str) -> tuple[object] | None:
        live = self._namespace.get(name)
        if not is_definition(live):
            return None
        alone = self._print_of(name, self.names())
        if alone is not None and alone[0] == manifest.names[name].digest:
            return (live,)
        # A cell that ran again in another kernel has the same code in a file of another name.
        return (live,) if self.same(manifest, read_group, [name]) is None else None

    def apply(self, staged: Staged, *, delete_others: bool) -> Mapping[int, Any]:
        """Put the staged names into the namespace, remove all others if told to; return what belongs into `Out`."""
        out = {int(m[1]): value for name, value in staged.values.items() if (m := OUT.fullmatch(name))}
        live = self.names() if delete_others else {}
        others = set(live) - set(staged.values) - staged.reused
        places = {n: v for n, v in staged.values.items() if runtime_modules.is_place(n)}
        runtime_modules.remove(others, live)
        with quiet():  # the package of a module may have to be imported
            runtime_modules.place(places)
        # One call: no other thread ever sees half of the names.
        self._namespace.update({n: v for n, v in staged.values.items() if n not in places and not OUT.fullmatch(n)})
        for name in others:
            self._namespace.pop(name, None)
        for action in staged.afterwards:
            connect(action)
        return out

    # --- comparing ------------------------------------------------------------------------------------------------

    def same(self, manifest: Manifest, read_group: ReadGroup, names: Iterable[str]) -> str | None:
        """Return how the live values of `names` differ from the stored ones, aliases included; None: they do not."""
        try:
            return self._difference(manifest, read_group, list(names))
        finally:
            self._codec.release()

    def _difference(self, manifest: Manifest, read_group: ReadGroup, wanted: list[str]) -> str | None:
        if not (wanted := [n for n in wanted if not self._is_as_stored(n, manifest)]):
            return None
        # What it shares by now, or what it was then, is found out by comparing only.
        self.lazy.load(wanted)
        live, _ = self._names_now()
        for name in wanted:
            if name not in live:
                return f"{name} is not defined any more"
            if name not in manifest.names:
                return f"{name} was not stored"
        grouping = self._bind({n: v for n, v in live.items() if not is_atomic(v)}, Definitions(live))
        look = [n for n in wanted if not self._proved_equal(manifest, n, live, grouping)]
        if not look:
            return None

        def reusable(name: str) -> tuple[object] | None:
            if name in look or name not in live:
                return None
            alone = self._print_of(name, live) if is_definition(live[name]) else None
            if alone is not None and alone[0] == manifest.names[name].digest:
                return (live[name],)
            return self._at_version(name, manifest.names[name].version)

        def work(kept: list[Any]) -> Iterator[str | None]:
            staged = Staging(self._codec, manifest, read_group, reusable, lend=False).stage(look)
            kept.append(staged)
            if staged.unsaved:
                yield f"{staged.unsaved[0].name} cannot be compared: {staged.unsaved[0].reason}"
            else:
                yield compare.difference({n: live[n] for n in look}, {n: staged.values[n] for n in look})

        kinds = {kind for n in look for kind in manifest.groups[manifest.names[n].group_id].types}
        return compared(work, kinds, sum(manifest.names[n].size_bytes for n in look))

    def _is_as_stored(self, name: str, manifest: Manifest) -> bool:
        """Tell whether a pending name is certainly what a manifest has, so that it need not be loaded for that."""
        group, then = self.lazy.group_of(name), manifest.names.get(name)
        if group is None or then is None:
            return False
        alone = len(group.names) == len(manifest.groups[then.group_id].names) == 1
        return then.group_id == group.group_id or (alone and then.version == self.lazy.names[name].version)

    def _proved_equal(self, manifest: Manifest, name: str, live: Mapping[str, Any], grouping: Grouping) -> bool:
        variable = manifest.names[name]
        group = manifest.groups[variable.group_id]
        mates = next((g for g in grouping.groups if name in g), (name,))
        if set(mates) != set(group.names):
            return False
        known = self._memory.digests.get(variable.group_id) or (variable.digest if len(mates) == 1 else "")
        if not known:
            return False
        try:
            return self._codec.dump(group.names, live).digest == known
        except Failed:
            return False

    def _print_of(self, name: str, names: Mapping[str, Any]) -> tuple[str, int] | None:
        """Return digest and size of a name by itself, None if it cannot be stored by itself."""
        try:
            alone = self._codec.dump_alone(name, names)
        except Failed:
            return None
        return alone.digest, alone.size_bytes

    def shared_with(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names that shared mutable objects with these at the last look."""
        wanted = set(names)
        pending = [group.names for n in wanted if (group := self.lazy.group_of(n)) is not None]
        groups = (*self._grouping, *pending)
        return frozenset(n for group in groups if wanted.intersection(group) for n in group) - wanted


def _is_made(module: str) -> bool:
    found = sys.modules.get(module)
    return found is not None and runtime_modules.is_made(found, named=True)


def _is_owned(value: object) -> bool:
    # A finder of the notebook makes modules inside packages that are not the notebook's.
    made = issubclass(type(value), types.ModuleType) and runtime_modules.is_made(value, named=True)
    return not made and not is_atomic(value)
