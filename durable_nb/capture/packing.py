"""Groups of live values to proved pickles; whatever cannot be stored costs its own name and no other.

Called by `namespace` once per capture. Nothing live changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from durable_nb.capture import compare, plainly
from durable_nb.capture.codec import CHANGING, Codec, Dumped, Failed
from durable_nb.capture.definitions import is_definition
from durable_nb.capture.isolate import type_name, where
from durable_nb.capture.proof import Claim, Proofs

__all__ = ["Bad", "Packed", "Packer"]

GroupNames = tuple[str, ...]
ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """Why a name cannot be stored: the path inside it, the type there, the reason."""

    path: str
    type: str
    reason: str


@dataclass(slots=True)
class Packed:
    """Every group that can be stored, and every name that cannot; `is_known` tells what is stored already."""

    is_known: Callable[[GroupNames, Dumped], bool]
    good: dict[GroupNames, Dumped] = field(default_factory=dict)
    bad: dict[str, Bad] = field(default_factory=dict)
    known: set[GroupNames] = field(default_factory=set)
    cost_s: dict[GroupNames, float] = field(default_factory=dict)

    def put(self, group: GroupNames, dumped: Dumped) -> None:
        """Take a group; of one that is stored already keep no bytes, which would double the memory in use."""
        if self.is_known(group, dumped):
            self.known.add(group)
            dumped = dumped.slim()
        self.good[group] = dumped

    def exporters(self) -> Iterator[Any]:
        """Yield the objects that buffers which are to be stored hold on to: an array, a view of it and the array."""
        for dumped in self.good.values():
            for buffer in dumped.buffers:
                exporter: Any = buffer.obj
                while exporter is not None:
                    yield exporter
                    exporter = getattr(exporter, "base", None)


class Packer:
    """Dumps groups, proves them, and takes them apart where something fails."""

    def __init__(self, codec: Callable[[], Codec], live: Callable[[str], object]) -> None:
        self._codec = codec
        self._proofs = Proofs(codec, live)
        self._refuted: dict[str, str] = {}
        self._found: dict[str, tuple[int, str, Bad]] = {}

    def pack(
        self,
        groups: Iterable[GroupNames],
        names: Mapping[str, Any],
        known: Callable[[GroupNames, Dumped], bool],
        bad: Mapping[str, Bad],
    ) -> Packed:
        """Dump all groups; prove those that are not `known` and hold something new in kind.

        `bad` are names of other groups, of which it is known already that they cannot be stored.
        """
        packed = Packed(is_known=known, bad=dict(bad))
        for group in groups:
            began_s = perf_counter()
            self._dump(group, names, packed)
            packed.cost_s[group] = perf_counter() - began_s
        self._without_their_needs(names, packed)
        for _ in range(4):
            new = [g for g, d in packed.good.items() if g not in packed.known and self._proofs.needed(d)]
            if not new or not self._prove(new, names, packed):
                break
            self._without_their_needs(names, packed)
        self._found = {n: f for n, f in self._found.items() if n in packed.bad}
        return packed

    # --- dumping --------------------------------------------------------------------------------------------------

    def _dump(self, group: GroupNames, names: Mapping[str, Any], packed: Packed) -> None:
        codec = self._codec()
        reason = CHANGING
        for _ in range(ATTEMPTS):
            try:
                packed.put(group, codec.dump(group, names))
                return
            except Failed as failure:
                reason = str(failure.args[0])
            if CHANGING not in reason:
                break
        if len(group) == 1:
            self._alone(group[0], names, reason, packed)
            return
        rest = []
        for name in group:
            alone = self._reason_alone(name, names)
            if alone is None:
                rest.append(name)
            else:
                self._alone(name, names, alone, packed)
        if len(rest) == len(group):
            # Each is fine by itself, together they are not (nested too deeply, say): none of them is stored half.
            for name in rest:
                packed.bad[name] = self._bad(name, names, f"together with {', '.join(group)}: {reason}")
        elif rest:
            self._dump(tuple(rest), names, packed)

    def _reason_alone(self, name: str, names: Mapping[str, Any]) -> str | None:
        try:
            self._codec().dump([name], names)
        except Failed as failure:
            return str(failure.args[0])
        return None

    def _alone(self, name: str, names: Mapping[str, Any], reason: str, packed: Packed) -> None:
        try:
            packed.put((name,), self._codec().dump_dill(name, names[name]))
        except Failed:
            packed.bad[name] = self._bad(name, names, reason)

    def _bad(self, name: str, names: Mapping[str, Any], reason: str) -> Bad:
        value = names[name]
        known = self._found.get(name)
        if known is None or known[:2] != (id(value), reason):
            path, kind, inner = where(self._codec(), name, value, reason)
            text = inner if kind.rpartition(".")[2] in inner else f"{kind}: {inner}"
            known = self._found[name] = (id(value), reason, Bad(path=path, type=kind, reason=text))
        return known[2]

    # --- what needs what ------------------------------------------------------------------------------------------

    def _without_their_needs(self, names: Mapping[str, Any], packed: Packed) -> None:
        """Take out groups that refer to a definition that is not stored."""
        again = bool(packed.bad)
        while again:
            again = False
            for group, dumped in list(packed.good.items()):
                lost = next((d for d in dumped.deps if d in packed.bad), None)
                if lost is None:
                    continue
                again = True
                del packed.good[group]
                if dumped.warm:
                    # Perhaps only what a cache remembers needs it: the cache does without.
                    packed.put(group, self._codec().dump_cold(group, names))
                    continue
                for name in group:
                    reason = f"it needs {lost}, which cannot be stored: {packed.bad[lost].reason}"
                    packed.bad[name] = Bad(path="", type=type_name(names[name]), reason=reason)

    # --- proof ----------------------------------------------------------------------------------------------------

    def _prove(self, groups: list[GroupNames], names: Mapping[str, Any], packed: Packed) -> bool:
        """Load what was dumped; return whether something turned out bad (and was taken apart)."""
        verdicts = self._check({g: packed.good[g] for g in groups}, names)
        failed = [(g, v) for g, v in zip(groups, verdicts, strict=True) if v is not None]
        for group, verdict in failed:
            if packed.good.pop(group).warm:
                # Perhaps it is for what a cache remembers; the next round shows whether it loads without.
                packed.put(group, self._codec().dump_cold(group, names))
            elif len(group) == 1:
                packed.bad[group[0]] = self._unproved(group[0], names, str(verdict))
            else:
                self._take_apart(group, str(verdict), names, packed)
        return bool(failed)

    def _check(self, groups: Mapping[GroupNames, Dumped], names: Mapping[str, Any]) -> list[str | None]:
        """Return the verdict on each group; bytes that failed once are not tried again after every cell."""
        digests = {group: dumped.digest for group, dumped in groups.items()}
        open_ = [g for g in groups if digests[g] not in self._refuted]
        said = self._proofs.check([self._claim(g, names, groups[g]) for g in open_])
        found = dict(zip(open_, said, strict=True))
        verdicts = [found[g] if g in found else self._refuted[digests[g]] for g in groups]
        self._refuted.update((digests[g], v) for g, v in found.items() if v is not None)
        return verdicts

    def _take_apart(self, group: GroupNames, verdict: str, names: Mapping[str, Any], packed: Packed) -> None:
        said: dict[str, str | None] = {}
        alone: dict[GroupNames, Dumped] = {}
        for name in group:
            try:
                alone[name,] = self._codec().dump([name], names)
            except Failed as failure:  # what can be stored with its neighbours need not be so by itself
                said[name] = str(failure.args[0])
        said.update(zip((name for (name,) in alone), self._check(alone, names), strict=True))
        rest = [n for n in group if said[n] is None]
        for name in group:
            if said[name] is not None or len(rest) == len(group):
                packed.bad[name] = self._unproved(name, names, said[name] or verdict)
        if rest and len(rest) < len(group):
            self._dump(tuple(rest), names, packed)

    def _unproved(self, name: str, names: Mapping[str, Any], reason: str) -> Bad:
        return Bad(path="", type=type_name(names[name]), reason=reason)

    def _claim(self, group: GroupNames, names: Mapping[str, Any], dumped: Dumped) -> Claim:
        live = {name: names[name] for name in group}

        def differs(loaded: Mapping[str, Any]) -> str | None:
            for name, value in live.items():
                if plainly.qualname(type(loaded[name])) != plainly.qualname(type(value)):
                    return f"it came back as {type_name(loaded[name])} instead of {type_name(value)}"
            if any(is_definition(value) for value in live.values()) or dumped.marks or not _comparable(dumped):
                # What is rebuilt by value is a new object of its own; only data can be compared with data.
                return None
            found = compare.difference(live, dict(loaded))
            if found is None or "cannot be compared" in found:
                # Locks and weak references have no content to compare; that they load is all that can be proved.
                return None
            return f"it does not come back equal: {found}"

        return Claim(dumped=dumped, differs=differs)


def _comparable(dumped: Dumped) -> bool:
    """Tell whether equality means something: objects of libraries fill caches when pickled, and may say they differ."""
    return all(_trusted(plainly.module(cls)) for cls in dumped.types)


def _trusted(module: str) -> bool:
    return module == "__main__" or module.partition(".")[0] in sys.stdlib_module_names
