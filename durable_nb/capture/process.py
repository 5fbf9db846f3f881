"""Process state outside the namespace: random streams, folder, search path, imports, options; restored or reported.

Built by the composition root when the extension loads, because what is there at that moment is not the user's doing;
the engine calls `capture` and `reported` at every commit and `restore` before any variable is loaded. Capturing
changes nothing: components are described, never touched, and a component that cannot be read is reported, not raised.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from durable_nb.capture.process_formatters import Formatters, SympyPrinting
from durable_nb.capture.process_held import Held, HeldTracker, canonical
from durable_nb.capture.process_hooks import AtExit
from durable_nb.capture.process_libs import library_trackers
from durable_nb.capture.process_modules import Imports, LocalModules
from durable_nb.capture.process_partial import DefaultConnection, partial_losses
from durable_nb.capture.process_patches import Accessors, Patches, Registrations
from durable_nb.capture.process_shell import shell_trackers
from durable_nb.capture.process_stdlib import Environ, stdlib_trackers
from durable_nb.capture.process_switches import StoredEnviron
from durable_nb.model import Json, Unsaved

__all__ = ["Component", "ProcessState", "Tracker"]

_UNSEEN: Any = object()
_ENVIRON = re.compile(r"os\.environ\[(.*)\]")
_NOT_A_VARIABLE = re.compile(r"\W")
# What code that ran aside imported, began to draw with or counted cannot be taken back.
_STAYS = frozenset({"imports", "modules", "matplotlib.backend", "sympy.numbers"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One part of the process state: JSON, or the bytes of a pickle, and the digest of either."""

    value: Json | bytes
    digest: str


class Tracker(Protocol):
    """What one component has to say; `mark` is cheap, and equal marks mean equal state."""

    @property
    def name(self) -> str:
        """The component's name in a manifest."""
        ...

    @property
    def needs(self) -> str:
        """The library that must be imported for the state to exist; empty: none."""
        ...

    def mark(self) -> Any:
        """Return the state in a comparable form."""
        ...

    def base(self, mark: Any) -> Any:
        """Return the mark of the untouched state, asked when the state is first seen; None: all of it counts."""
        ...

    def dump(self, mark: Any) -> Json | bytes:
        """Return what is stored of a mark."""
        ...

    def load(self, value: Any) -> list[Unsaved]:
        """Make the stored state the live one, and return what of it could not come back."""
        ...

    def lost(self, mark: Any) -> list[Unsaved]:
        """Return what `dump` leaves out of this mark."""
        ...


@dataclass(slots=True)
class _Slot:
    """What is known of one tracker: the untouched mark, the mark since load or restore, the last component."""

    tracker: Tracker
    needs: str
    origin: Any = _UNSEEN
    since: Any = _UNSEEN
    mark: Any = _UNSEEN
    component: Component | None = None
    lost: tuple[Unsaved, ...] = ()


class ProcessState:
    """Captures and restores process-wide state; only what changed since the extension was loaded counts."""

    def __init__(
        self,
        *,
        enable_backend: Callable[[str], None] | None = None,
        namespace: dict[str, Any] | None = None,
        environ: Collection[str] = (),
    ) -> None:
        """Take the baselines. `enable_backend("inline")` is called when a restore wants that matplotlib backend.

        Objects of the notebook are found in `namespace`, else in `__main__`. The environment variables named in
        `environ` are stored with their values; of all others only names are told.
        """
        held = Held(namespace)
        self._imports = Imports()
        self._modules = LocalModules(self._imports.noted)
        self._environ = Environ(environ)
        self._patches, self._registrations = Patches(held), Registrations(held)
        self._at_exit, self._connection = AtExit(), DefaultConnection()
        # The order is the order of restoring: paths, imports, then what imports may disturb (filters, loggers, random).
        first, last = stdlib_trackers(held)
        trackers: Iterable[Tracker] = (
            *((StoredEnviron(environ),) if environ else ()),
            *first,
            self._imports,
            self._modules,
            *library_trackers(held, enable_backend),
            self._patches,
            self._registrations,
            Accessors(held),
            Formatters(held),
            SympyPrinting(),
            *shell_trackers(held),
            *last,
        )
        self._slots = {tracker.name: _Slot(tracker, tracker.needs) for tracker in trackers}
        # What learns from the names that a cell mentions.
        noting = (*trackers, self._at_exit)
        own = (self._imports, self._patches, self._registrations)
        self._making_way = [one.make_way for one in trackers if hasattr(one, "make_way")]
        self._noting = [one.note for one in noting if hasattr(one, "note") and one not in own]
        self._broken: dict[str, Unsaved] = {}
        self._carried: list[Unsaved] = []
        for slot in self._slots.values():
            if self._ready(slot):
                self._see(slot)

    def note_cell(self, tree: ast.Module, *, ran: bool = False) -> None:
        """Learn from a cell which modules it imports and which process state it talks about; `ran`: it is over."""
        nodes = list(ast.walk(tree))
        self._imports.note(nodes)
        self._environ.note(nodes)
        self._patches.note(nodes, ran=ran)
        self._registrations.note(nodes)
        self._connection.note(nodes)
        names = _mentioned(nodes)
        for note in self._noting:
            note(names)
        if ran:
            self._make_way()

    def _make_way(self) -> None:
        """Let what a restore hung up make way for what a cell that ran again has hung up anew."""
        for make_way in self._making_way:
            make_way()

    def capture(self) -> dict[str, Component]:
        """Return every component that differs from the untouched process, unchanged ones as the same objects."""
        components: dict[str, Component] = {}
        self._make_way()
        for name, slot in self._slots.items():
            if not slot.needs or self._ready(slot):
                self._see(slot)
            # A component whose library is not imported (yet, or any more) keeps what the last checkpoint knew.
            if slot.component is not None:
                components[name] = slot.component
        return components

    def reported(self) -> list[Unsaved]:
        """Return what was changed and is in no component; looks only at marks that `capture` has just taken."""
        found = [item for slot in self._slots.values() for item in slot.lost]
        found += self._modules.reported()
        found += self._environ.reported()
        found += self._at_exit.reported()
        found += self._connection.reported()
        found += self._broken.values()
        seen = {(item.name, item.path) for item in found}
        self._carried = [item for item in self._carried if not self._settled(item)]
        return found + [item for item in self._carried if (item.name, item.path) not in seen]

    def carry(self, reported: Iterable[Unsaved]) -> None:
        """Take over what a restored checkpoint reported about process state: lost until a cell sets it again."""
        self._carried = [item for item in reported if _NOT_A_VARIABLE.search(item.name) or item.name in self._slots]

    def _settled(self, item: Unsaved) -> bool:
        variable = _ENVIRON.fullmatch(item.name)
        if variable is not None:
            return variable[1] in os.environ
        if item.name.startswith("import "):
            return item.name.removeprefix("import ") in sys.modules
        if any(isinstance(slot.tracker, HeldTracker) and item.name in _keys(slot) for slot in self._slots.values()):
            return True
        return item.name in self._slots and self.touched(item.name)

    def environment(self, names: Collection[str], at: Mapping[str, str]) -> dict[str, str]:
        """Return what stands for the values of environment variables (`*`: all) in `at`: texts that are not stored."""
        return self._environ.inputs(names, at)

    def partial(self, namespace: Mapping[str, Any], kinds: Iterable[type]) -> list[Unsaved]:
        """Return what variables of these types lose although they are stored, such as a figure's event callbacks."""
        return partial_losses(namespace, kinds)

    def owned(self, namespace: Mapping[str, Any]) -> list[tuple[object, str, str, str]]:
        """Return objects that belong to modules: each with module and attribute, and the variable that an import bound.

        Stored as a copy, such an object would no longer be the one in use. The variables are those that still are what
        `from module import attribute` bound; of local modules there is also what no variable is an import of.
        """
        found = self._imports.references(namespace)
        # What was changed in place is not what an import makes any more: it comes back as a value of the notebook's.
        changed = {module: self._modules.changed(module) for module, _ in found.values()}
        bound = [(namespace[n], *at, n) for n, at in found.items() if at[1] not in changed[at[0]]]
        return [*self._modules.objects(), *bound]

    def names(self) -> tuple[str, ...]:
        """Return the names of all components that there can be, in the order of restoring."""
        return tuple(self._slots)

    def touched(self, name: str) -> bool:
        """Tell whether a component changed since the extension was loaded or the last restore."""
        slot = self._slots[name]
        if not self._ready(slot):
            return False
        self._see(slot)
        return slot.since is None or bool(slot.mark != slot.since)

    def restore(self, components: Mapping[str, Json | bytes], *, only: Collection[str] | None = None) -> list[Unsaved]:
        """Make the stored components the live ones, what is not among them untouched again; say what could not."""
        problems: list[Unsaved] = []
        if (stored := components.get(StoredEnviron.name)) is not None:
            # What a person no longer asks to be stored is neither set nor kept.
            kept = {n: text for n, text in dict(stored).items() if n in self._environ.stored}  # type: ignore[arg-type]
            components = {name: value for name, value in components.items() if name != StoredEnviron.name}
            components = {**components, StoredEnviron.name: kept} if kept else components
        for name, slot in self._slots.items():
            if only is not None and name not in only:
                continue
            if name in components:
                problems += self._load(slot, components[name])
            elif slot.component is not None and self._ready(slot):
                problems += self._reset(slot)
        for name in components:
            if name not in self._slots and (only is None or name in only):
                reason = "this version of durable_nb does not know it; a newer one stored it"
                problems.append(Unsaved(name=name, path="", type="process state", reason=reason))
        return problems

    @contextmanager
    def aside(self, wanted: Mapping[str, Json | bytes | None]) -> Iterator[list[Unsaved]]:
        """Run a block with these components (None: untouched) and put the whole process state back when it ends.

        Imports stay, and so does the matplotlib backend. What it yields could not be set.
        """
        self.capture()
        environ = dict(os.environ)
        before = {
            name: (slot, replace(slot))
            for name, slot in self._slots.items()
            if name not in _STAYS and self._ready(slot) and slot.mark is not _UNSEEN
        }
        problems: list[Unsaved] = []
        try:
            for name, (slot, _) in before.items():
                if name in wanted:
                    value = wanted[name]
                    problems += self._reset(slot) if value is None else self._load(slot, value)
            yield problems
        finally:
            for slot, kept in before.values():
                problems += _put_back(slot, kept)
            if dict(os.environ) != environ:
                for name in os.environ.keys() - environ.keys():
                    del os.environ[name]
                os.environ.update(environ)

    def _ready(self, slot: _Slot) -> bool:
        if not (needs := slot.needs):
            return True
        module = sys.modules.get(needs)
        # A module that a thread is importing right now is there, but half of it is missing.
        return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)

    def _see(self, slot: _Slot) -> None:
        tracker = slot.tracker
        try:
            mark = tracker.mark()
            if slot.origin is _UNSEEN:
                slot.origin = slot.since = tracker.base(mark)
            if slot.mark is not _UNSEEN and mark == slot.mark:
                return
            if slot.component is None and slot.origin is not None and mark == slot.origin:
                slot.mark, slot.lost = mark, ()
                return
            component = _component(tracker.dump(mark))
            if slot.component is None or component.digest != slot.component.digest:
                slot.component = component
            slot.lost = tuple(tracker.lost(mark))
            slot.mark = mark
            self._broken.pop(tracker.name, None)
        except Exception as error:  # a library's private corner moved, the folder is gone: report, lose nothing else
            reason = f"it could not be read: {type(error).__name__}: {error}"
            self._broken[tracker.name] = Unsaved(name=tracker.name, path="", type="process state", reason=reason)

    def _load(self, slot: _Slot, value: Json | bytes) -> list[Unsaved]:
        tracker = slot.tracker
        # Kept whatever happens now: the next checkpoint must not lose what this kernel merely failed to apply.
        slot.component = _component(value)
        try:
            if tracker.needs:
                __import__(tracker.needs)
                self._see(slot)
                slot.component = _component(value)
            problems = tracker.load(value)
            mark = tracker.mark()
        except Exception as error:  # user libraries run here; one component that fails must not cost the others
            reason = f"it could not be restored: {type(error).__name__}: {error}"
            return [Unsaved(name=tracker.name, path="", type="process state", reason=reason)]
        # A counter that was further along stays there, and what is stored of it must be looked at anew.
        slot.since, slot.mark = mark, _UNSEEN if getattr(tracker, "grows", False) else mark
        slot.lost = ()
        if slot.origin is _UNSEEN:
            slot.origin = None
        return problems

    def _reset(self, slot: _Slot) -> list[Unsaved]:
        if slot.origin is _UNSEEN or slot.origin is None:
            return []
        problems = self._load(slot, slot.tracker.dump(slot.origin))
        slot.component = None
        return problems


def _put_back(slot: _Slot, kept: _Slot) -> list[Unsaved]:
    """Make the state the one that was kept, and let the slot know no other."""
    tracker, problems = slot.tracker, list[Unsaved]()
    try:
        if tracker.mark() != kept.mark:
            problems = tracker.load(tracker.dump(kept.mark))
        mark = tracker.mark()
    except Exception as error:  # the folder may be gone, a library's corner moved: one component costs no other
        reason = f"it could not be put back: {type(error).__name__}: {error}"
        return [Unsaved(name=tracker.name, path="", type="process state", reason=reason)]
    slot.origin, slot.since, slot.component, slot.lost = kept.origin, kept.since, kept.component, kept.lost
    slot.mark = mark
    return problems


def _component(value: Json | bytes) -> Component:
    return Component(value=value, digest=hashlib.sha256(canonical(value)).hexdigest())


def _keys(slot: _Slot) -> Collection[str]:
    return slot.mark if isinstance(slot.mark, dict) else ()


def _mentioned(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names and attributes that a cell mentions."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.update(node.name.split("."))
    return frozenset(found)
