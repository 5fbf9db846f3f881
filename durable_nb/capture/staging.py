"""Stored groups back to values beside the live namespace, in the order in which they need each other.

Called by `namespace` to restore and to compare. Nothing live changes; a group that does not load costs its names and
those that need them, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from durable_nb.capture import files_read
from durable_nb.capture.borrowing import BORROWED, given
from durable_nb.capture.codec import Codec, Failed, Lost, Partly
from durable_nb.errors import DurableError, RestoreError
from durable_nb.model import Group, GroupId, Manifest, Unsaved

# Loaded first, because the hooks of other objects call them.
DEFINITIONS = frozenset({"module", "function", "type", "abc.ABCMeta", "enum.EnumType", "builtin_function_or_method"})

__all__ = ["DEFINITIONS", "ReadGroup", "Staged", "Staging"]

# Returns a group's pickle and its buffers; buffers are writable (bytearray or a private mapping) and given away.
ReadGroup: TypeAlias = Callable[[Group], tuple[bytes, Sequence[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Values ready to be applied, what did not load and why, and live definitions that were used as they are.

    `afterwards` is to be done once the values are in the namespace: a widget connects to the front end.
    """

    checkpoint: Manifest
    values: Mapping[str, Any] = field(default_factory=dict)
    unsaved: tuple[Unsaved, ...] = ()
    reused: frozenset[str] = frozenset()
    afterwards: tuple[Callable[[], None], ...] = ()


class Staging:
    """One restore: loads groups on demand and remembers which are loaded, loading or lost."""

    def __init__(
        self,
        codec: Codec,
        manifest: Manifest,
        read_group: ReadGroup,
        reusable: Callable[[str], tuple[object] | None],
        *,
        lend: bool,
        into: dict[str, Any] | None = None,
    ) -> None:
        self._live, self._lend, self._progress = codec.namespace, lend, False
        self._codec, self._manifest, self._read, self._reusable = codec, manifest, read_group, reusable
        self.values: dict[str, Any] = {} if into is None else into
        self.reused: dict[str, Any] = {}
        self.failed: dict[str, str] = {}
        self._loading: set[GroupId] = set()
        self._final: set[str] = set()  # what another try would not bring back, while its neighbours are there
        self._afterwards: list[Callable[[], None]] = []

    def stage(self, names: Iterable[str], needs: Iterable[str] = ()) -> Staged:
        """Load the groups of `names` and what they need; have definitions ready that others will need later."""
        wanted = sorted(names, key=lambda n: self._manifest.names[n].type not in DEFINITIONS)
        with self._lent():
            self._load_all(wanted)
            # A hook that runs while its object loads may use a variable that was loaded only later: try again.
            while self.failed and self._progress:
                self._progress = False
                again = [name for name in self.failed if name not in self._final]
                self.failed = {name: self.failed[name] for name in self._final}
                self._load_all(again)
            for name in needs:
                # One that does not load is told when something is to be made of it.
                with suppress(Failed):
                    self._resolve(name)
        unsaved = tuple(self._unsaved(name, reason) for name, reason in self.failed.items())
        return Staged(
            checkpoint=self._manifest,
            values=self.values,
            unsaved=unsaved,
            reused=frozenset(self.reused),
            afterwards=tuple(self._afterwards),
        )

    def _load_all(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.values and name not in self.failed:
                self._load(self._manifest.names[name].group_id)

    @contextmanager
    def _lent(self) -> Iterator[None]:
        """Let the user's code that runs while objects load see the variables loaded so far; take them back after."""
        live, before = self._live, dict(self._live)
        try:
            yield
        finally:
            for name in self.values if self._lend else ():
                if name in before:
                    live[name] = before[name]
                else:
                    live.pop(name, None)

    def _unsaved(self, name: str, reason: str) -> Unsaved:
        variable = self._manifest.names[name]
        return Unsaved(name=name, path="", type=variable.type, reason=reason, made_by=variable.made_by)

    def _load(self, group_id: GroupId) -> None:
        group = self._manifest.groups[group_id]
        # A group that came back from an earlier checkpoint may hold values of names that are others by now.
        held = [n for n in group.names if n in self._manifest.names and self._manifest.names[n].group_id == group_id]
        self._loading.add(group_id)
        # What is loaded to be compared goes away again, and must not tell anybody when it does.
        token = BORROWED.set(BORROWED.get() or not self._lend)
        try:
            # Needed groups first, so that loads do not nest deeper than needed.
            for name in group.deps:
                try:
                    self._resolve(name)
                except Failed:
                    # A definition that is lost for good costs the names that lead to it, and not all of the group.
                    if name not in self._final:
                        raise
            data, buffers = self._read(group)
            # Whether loading harms files was tried before it was stored; what one value does another may not have done.
            with files_read.loading():
                loaded = self._codec.load(
                    data, given(buffers), self._resolve, codec=group.codec, afterwards=self._afterwards
                )
        except Partly as part:
            gone = {name: part.lost[name] for name in held if name in part.lost}
            self.failed.update(gone)
            self._final.update(gone)
            self._take({name: part.loaded[name] for name in held if name in part.loaded})
        except RestoreError:  # it cannot be read now, and can later
            raise
        except (Failed, DurableError) as failure:  # DurableError: a damaged or missing object of the store
            for name in held:
                self.failed[name] = str(failure.args[0])
            if isinstance(failure, Lost):
                self._final.update(held)
        else:
            self._take({name: loaded[name] for name in held})
        finally:
            BORROWED.reset(token)
            self._loading.discard(group_id)

    def _take(self, found: Mapping[str, Any]) -> None:
        self.values.update(found)
        if self._lend:
            self._live.update((n, v) for n, v in found.items() if n.isidentifier())
        self._progress = True

    def _resolve(self, name: str) -> object:
        if name in self.values:
            return self.values[name]
        if name in self.reused:
            return self.reused[name]
        if name in self.failed:
            raise Failed(f"it needs {name}, which did not load: {self.failed[name]}")
        variable = self._manifest.names.get(name)
        if variable is None:
            raise Failed(f"it needs {name}, which the checkpoint does not hold")
        live = self._reusable(name)
        if live is not None:
            self.reused[name] = live[0]
            return live[0]
        if variable.group_id in self._loading:
            raise Failed(f"it needs {name}, which needs it in turn")
        self._load(variable.group_id)
        return self._resolve(name)
