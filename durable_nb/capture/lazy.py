"""Variables of stored checkpoints that are not loaded yet: loaded by name, their groups whole, when asked for.

Held by `namespace`; filled by the engine when a restore leaves something for later. `load` may be called by any thread:
a group is loaded once, its values become live together, with a note of what they were so that the next look finds what
changed since. What does not load is told to `failed` by name and costs nothing else.
"""

from __future__ import annotations

import builtins
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from durable_nb.capture import lazy_builtins
from durable_nb.capture.ahead import ReadAhead
from durable_nb.capture.borrowing import address_of
from durable_nb.capture.codec import Codec, MarkedAt
from durable_nb.capture.lazy_builtins import LazyBuiltins
from durable_nb.capture.looking import Memory
from durable_nb.capture.reducers import load
from durable_nb.capture.staging import ReadGroup, Staged, Staging
from durable_nb.chunking import Marked
from durable_nb.errors import DurableError, RestoreError
from durable_nb.model import Group, GroupId, Manifest, Unsaved, Variable

__all__ = ["LazyNames", "Source", "connect"]

_log = logging.getLogger(__name__)

_OUT = re.compile(r"Out\[(\d+)\]")
_RESULT = re.compile(r"_(\d+)")
OWNED_BYTES = 16 * 1024 * 1024  # so much is copied at a time: some hundredths of a second
# Nothing changes arrays of these while it loads, so that the marks they were verified by are those of what is live.
_PLAIN = frozenset({"numpy", "pandas"})


def connect(action: Callable[[], None]) -> None:
    """Do what a restored value asked for once it is live."""
    try:
        action()
    except Exception:  # the value is there all the same; what it cannot reach now it says itself when used
        _log.warning("something restored could not be connected again", exc_info=True)


def _not_now(group: Group, error: DurableError) -> RestoreError:
    names = ", ".join(f"`{name}`" for name in group.names)
    return RestoreError(
        f"{names} cannot be loaded now: {error.message.rstrip('.')}. What is stored is as it was.",
        hint="Once that is mended (too many open files, or a folder that was moved), run the cell again.",
    )


class _Arriving(Staging):
    """A staging in a kernel that goes on meanwhile: no name shows before all of its group is there."""

    @contextmanager
    def _lent(self) -> Iterator[None]:
        # Code that runs while objects load finds what it needs like all code: by the lazy builtins.
        yield

    def _take(self, found: Mapping[str, Any]) -> None:
        self.values.update(found)
        self._progress = True


@dataclass(slots=True)
class Source:
    """A checkpoint that pending names come from.

    `kept` are definitions as it has them: what is loaded later is made of the very same objects as what was loaded
    before, whatever their names are bound to by then. `beside` is what is being loaded at once, while it is: a hook of
    that may ask for what is pending, and the two have to be made of the same definitions as well.
    """

    manifest: Manifest
    read: ReadAhead
    kept: dict[str, object] = field(default_factory=dict)
    beside: dict[str, Any] | None = None

    def made_already(self, name: str) -> tuple[object] | None:
        """Return the object that a name of the checkpoint was loaded as."""
        if name in self.kept:
            return (self.kept[name],)
        return (self.beside[name],) if self.beside is not None and name in self.beside else None


def _is_same(name: str, one: Source, other: Source) -> bool:
    """Tell whether a name is the same version in two checkpoints."""
    found = [s.manifest.names[name].version for s in (one, other) if name in s.manifest.names]
    return len(found) == 2 and found[0] == found[1]


State = tuple[dict[str, Variable], dict[str, Source]]


class LazyNames:
    """The names that are still to be loaded, by what their manifests say of them."""

    def __init__(
        self,
        look: Callable[[Manifest, Mapping[str, Any], Mapping[str, Any], MarkedAt], Memory],
        namespace: dict[str, Any],
    ) -> None:
        self._look, self._namespace = look, namespace
        # Consulted by every look: what is in here is as the head has it, although it is not live.
        self.names: dict[str, Variable] = {}
        self._sources: dict[str, Source] = {}
        # Groups that came on the proof of a fingerprint: their digests are to be checked when there is time.
        self.unchecked: list[Group] = []
        # Memory that consists of the pages of packs: who holds it, its address and size.
        self.mapped: list[tuple[Callable[[], object], int, int]] = []
        self.own: Callable[[int, int], None] = lambda address, size_bytes: None
        self.failed: Callable[[Sequence[Unsaved], Mapping[str, str]], None] = lambda unsaved, stored: None
        # Whether what could not be read is there all the same, and will be given another time.
        self.momentary: Callable[[DurableError], bool] = lambda error: False
        self.set_out: Callable[[int, object], None] = lambda n, value: None
        self.outs: Callable[[], Collection[int]] = tuple
        self._at_work: set[GroupId] = set()
        self._arrived: list[Memory] = []
        self._builtins: LazyBuiltins | None = None
        self._supported: bool | None = None
        self._new_locks()

    def _new_locks(self) -> None:
        self._pid = os.getpid()
        # One thread loads at a time; one that runs inside a load may load more.
        self._loading = threading.RLock()
        # Held for moments only, so that no look ever waits for a load.
        self.publishing = threading.RLock()

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def supported(self) -> bool:
        """Whether names can be loaded later in this Python."""
        if self._supported is None:
            self._supported = lazy_builtins.supported()
        return self._supported

    # --- beginning and end ----------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return what `back_to` needs to undo what is deferred and dropped from now on."""
        return dict(self.names), dict(self._sources)

    def back_to(self, state: State) -> None:
        """Let exactly that be pending again."""
        with self._loading, self.publishing:
            self.names, self._sources = state
            self._tidy()

    def clear(self) -> None:
        """Forget all that is pending, because a checkpoint takes the place of all names."""
        self.back_to(({}, {}))

    def defer(self, manifest: Manifest, read_group: ReadGroup, names: Iterable[str]) -> Source:
        """Let these names of a manifest, which must not be live, be loaded later; return where to keep definitions."""
        source = Source(manifest, ReadAhead(read_group))
        with self._loading, self.publishing:
            for name in names:
                self.names[name], self._sources[name] = manifest.names[name], source
            self._tidy()
        return source

    def keep(self, source: Source, definitions: Mapping[str, object]) -> None:
        """Take note of definitions that were loaded, for those that are to be made of them."""
        needed = self._needed(source)
        source.kept.update({n: v for n, v in definitions.items() if n in needed})

    def postpone(
        self, manifest: Manifest, read_group: ReadGroup, names: Collection[str], definitions: Mapping[str, object]
    ) -> None:
        """Take live names away and let them be loaded later, made of these definitions."""
        with self._loading, self.publishing:
            for name in names:
                self._namespace.pop(name, None)
            self.keep(self.defer(manifest, read_group, names), definitions)

    def drop(self, names: Iterable[str]) -> None:
        """Forget names because they are bound to something else now, or gone."""
        with self.publishing:
            for name in names:
                self.names.pop(name, None)
                self._sources.pop(name, None)
            self._tidy()

    def sync(self) -> None:
        """Let code see what was changed in the real builtins since the last cell."""
        if self._builtins is not None:
            self._builtins.sync()
            # A builtin of that name would be found instead.
            self.load([name for name in list(self.names) if name in vars(builtins)])

    def _tidy(self) -> None:
        """Have code ask for what is pending; with nothing pending let all be as it was before."""
        if self.names and self._builtins is None:
            self._builtins = lazy_builtins.install(self._namespace, self.find)
        elif not self.names and not self._at_work and self._builtins is not None:
            lazy, self._builtins = self._builtins, None
            lazy_builtins.remove(self._namespace, lazy)

    # --- asking ---------------------------------------------------------------------------------------------------

    def find(self, name: str) -> tuple[object] | None:
        """Return the value of a global that the namespace misses, loaded now; None: nothing of that name is pending."""
        result = _RESULT.fullmatch(name)
        # Otherwise another thread may have loaded it since the lookup that missed it.
        self.load([f"Out[{int(result[1])}]" if result else name])
        return (self._namespace[name],) if name in self._namespace else None

    def load(self, names: Iterable[str]) -> None:
        """Make those of these names live that are pending, with all that they share objects with."""
        wanted = [name for name in names if name in self.names]
        if not wanted:
            return
        if self._pid != os.getpid():
            # A forked child: who held the locks, and what was being loaded, is not here.
            self._new_locks()
            self._at_work = set()
        with self._loading:
            for source in {id(s): s for name in wanted if (s := self._sources.get(name)) is not None}.values():
                self._load(source, [n for n in wanted if self._sources.get(n) is source])

    def load_all(self, *, last: bool = False) -> None:
        """Make everything live that is pending; `last`: what cannot be read now will not be asked for again."""
        if last:
            self.momentary = lambda error: False
        while self.names:
            before = len(self.names)
            self.load(list(self.names))
            if len(self.names) == before:
                return  # it is being loaded by who asks

    def _load(self, source: Source, names: Iterable[str]) -> None:
        # A look may drop names meanwhile, because they were bound to something else.
        open_ = {n: v.group_id for n in names if (v := self.names.get(n)) is not None}
        wanted = [n for n, group_id in open_.items() if group_id not in self._at_work]
        if not wanted:
            return
        mine = {open_[n] for n in wanted}
        self._at_work |= mine

        def read(group: Group) -> tuple[bytes, Sequence[Any]]:
            # Code that runs while it loads cannot wait for it.
            mine.add(group.group_id)
            self._at_work.add(group.group_id)
            try:
                data, buffers = source.read(group)
            except DurableError as error:
                if not self.momentary(error):
                    raise
                raise _not_now(group, error) from error
            if isinstance(buffers, Marked) and all(kind.partition(".")[0] in _PLAIN for kind in group.types):
                large = [(b, m) for b, m in zip(buffers, buffers.marks, strict=False) if type(b) is not bytearray]
                marked.update({address_of(buffer): (len(buffer), marks) for buffer, marks in large})
            return data, buffers

        marked: dict[int, tuple[int, tuple[bytes, ...]]] = {}
        try:
            codec = Codec(self._namespace, load(sys.modules))
            made = partial(self._made_already, source)
            staged = _Arriving(codec, source.manifest, read, made, lend=True).stage(wanted)
            self._publish(source, staged, marked)
        finally:
            self._at_work -= mine
            with self.publishing:
                self._tidy()

    def _made_already(self, source: Source, name: str) -> tuple[object] | None:
        """Return the object that a definition was loaded as, or is loaded as now because it waits in another source."""
        other = self._sources.get(name)
        elsewhere = other is not None and other is not source and _is_same(name, source, other)
        if elsewhere and source.made_already(name) is None:
            self.load([name])
        return source.made_already(name)

    def _shares(self, name: str, source: Source, other: Source) -> bool:
        """Tell whether what one source loaded is what another is to make its objects of."""
        mine = self._sources.get(name) is source or (name not in self._sources and name in self._namespace)
        return mine and _is_same(name, source, other)

    def _needed(self, source: Source) -> set[str]:
        """Return the names of definitions that pending groups, and those that are being loaded, are made of."""
        groups = source.manifest.groups
        open_ = {v.group_id for n, v in list(self.names.items()) if self._sources.get(n) is source} | self._at_work
        return {dep for group_id in open_ if group_id in groups for dep in groups[group_id].deps}

    def _publish(self, source: Source, staged: Staged, marked: MarkedAt) -> None:
        arrived = [n for n in staged.values if self._sources.get(n) is source]
        values = {n: staged.values[n] for n in arrived if not self._is_live(n)}
        # Looked at before any other code can change it: changed later, it would pass for what the checkpoint has.
        for other in {id(s): s for s in (source, *self._sources.values())}.values():
            theirs = {n for n in staged.values if other is source or self._shares(n, source, other)}
            self.keep(other, {n: staged.values[n] for n in theirs})
        seen = self._look(source.manifest, values, {**source.kept, **staged.values}, marked)
        lost = [entry for entry in staged.unsaved if self._sources.get(entry.name) is source]
        if source.beside is not None:
            source.beside.update({n: v for n, v in staged.values.items() if n not in self.names})
        stored = {entry.name: self.names[entry.name].version for entry in lost if entry.name in self.names}
        with self.publishing:
            self._arrived.append(seen)
            self._namespace.update({n: v for n, v in values.items() if not _OUT.fullmatch(n)})
            for name, value in values.items():
                if (out := _OUT.fullmatch(name)) is not None:
                    self.set_out(int(out[1]), value)
            for name in (*arrived, *(entry.name for entry in lost)):
                self.names.pop(name, None)
                self._sources.pop(name, None)
        for action in staged.afterwards:
            connect(action)
        if lost:
            self.failed(lost, stored)
        needed = self._needed(source)
        source.kept = {n: v for n, v in source.kept.items() if n in needed}

    def _is_live(self, name: str) -> bool:
        out = _OUT.fullmatch(name)
        return int(out[1]) in self.outs() if out else name in self._namespace

    def fetch(self, name: str) -> None:
        """Read the group of a pending name now, in a thread that has time, for the load that is to come."""
        source, group = self._sources.get(name), self.group_of(name)
        if source is not None and group is not None:
            source.read.fetch(group)

    def own_some(self, most_bytes: int = OWNED_BYTES) -> None:
        """Have a part of what consists of the pages of packs copied, as long as somebody holds it."""
        memory, address, size_bytes = self.mapped.pop()
        if memory() is not None:
            self.own(address, min(size_bytes, most_bytes))
            if size_bytes > most_bytes:
                self.mapped.append((memory, address + most_bytes, size_bytes - most_bytes))

    # --- for the looks --------------------------------------------------------------------------------------------

    def torn(self) -> list[str]:
        """Return the pending names that are stored as made of a definition whose name means another object by now.

        As they are stored they would become something else after the next loss: an instance of the class that a cell
        has just defined anew, say. Loaded now, they are what they were, and are saved as that.
        """
        found = []
        for name, source in list(self._sources.items()):
            group = self.group_of(name)
            if group is not None and not all(self._is_still(dep, source) for dep in group.deps):
                found.append(name)
        return found

    def _is_still(self, name: str, source: Source) -> bool:
        if name in source.kept:
            return self._namespace.get(name) is source.kept[name]
        return self._sources.get(name) is source and not self._is_live(name)

    def note_arrived(self, memory: Memory) -> None:
        """Add what was noted of the values that came since the last call."""
        with self.publishing:
            arrived, self._arrived = self._arrived, []
            for seen in arrived:
                memory.take_in(seen)

    def bound_since(self) -> None:
        """Forget the names that the person's code has bound meanwhile: they are something else now."""
        self.drop([name for name in self.names if self._is_live(name)])

    def group_of(self, name: str) -> Group | None:
        """Return the stored group of a pending name."""
        variable, source = self.names.get(name), self._sources.get(name)
        return None if variable is None or source is None else source.manifest.groups[variable.group_id]
