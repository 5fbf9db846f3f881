"""What was pickled is proved loadable before it counts: groups of things not yet proved are loaded in a forked child.

Called by `namespace` once per capture with the groups that are new in kind. Nothing in the live process changes; a
child that crashes or hangs proves that its group does not load. Where there is no fork, only groups without the user's
own code are loaded, in this process.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.aside import CAN_FORK, aside
from durable_nb.capture.borrowing import BORROWED
from durable_nb.capture.codec import Codec, Dumped, Failed
from durable_nb.capture.process_modules import is_local_module

__all__ = ["Claim", "Proofs"]

TIMEOUT_S = 15.0  # a busy machine may be slow to import what a value needs; what hangs has no use for time
LOADED_BYTES_PER_S = 10e6  # what even a busy machine loads in a second
COMPARED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A dumped group, and a function that says how what was loaded differs from what is live (None: not at all)."""

    dumped: Dumped
    differs: Callable[[Mapping[str, Any]], str | None]


def _says_its_hash(cls: type) -> bool:
    return plainly.is_a(type.__getattribute__(cls, "__hash__"), types.FunctionType) and (
        plainly.module(cls) == "__main__" or is_local_module(plainly.module(cls))
    )


class Proofs:
    """Which types and definitions this process has already seen come back."""

    def __init__(self, codec: Callable[[], Codec], resolve: Callable[[str], object]) -> None:
        self._codec, self._resolve = codec, resolve
        self._types: dict[int, weakref.ref[type]] = {}  # no weak set: that asks classes whether they are equal
        self._marks: set[str] = set()

    def needed(self, dumped: Dumped) -> bool:
        """Tell whether a group holds anything that has not been proved yet, or cannot be proved once for all.

        An object that says its hash itself may say none any more (`key.name = []`), and is in a set all the same.
        """
        if not (dumped.marks <= self._marks and all(map(self._is_proved, dumped.types))):
            return True
        return dumped.size_bytes <= COMPARED_BYTES and any(map(_says_its_hash, dumped.types))

    def _is_proved(self, cls: type) -> bool:
        known = self._types.get(id(cls))
        return known is not None and known() is cls

    def check(self, claims: Sequence[Claim]) -> list[str | None]:
        """Return, for each claim, why it does not load (None: it does, and that is remembered)."""
        verdicts: list[str | None] = []
        while len(verdicts) < len(claims):
            rest = claims[len(verdicts) :]
            verdicts.extend(self._in_child(rest) if CAN_FORK else [_final(self._try(c, [])) for c in rest])
        for claim, verdict in zip(claims, verdicts, strict=True):
            if verdict is None:
                self._types.update((id(cls), weakref.ref(cls)) for cls in claim.dumped.types)
                self._marks |= claim.dumped.marks
        return verdicts

    def _try(self, claim: Claim, kept: list[Any]) -> Iterator[str | None]:
        """Yield first why a group does not load, then, if it does, how it differs; what was made is `kept`."""
        dumped = claim.dumped
        token = BORROWED.set(True)
        try:
            # The child has the live memory copy-on-write; without a child nothing may write to it.
            buffers = dumped.buffers if CAN_FORK else [b.toreadonly() for b in dumped.buffers]
            loaded = self._codec().load(dumped.pickle, buffers, self._resolve, codec=dumped.codec)
        except Failed as failure:
            kept.append(failure)  # it leads to what had been made by then
            yield f"it was stored but does not load: {failure.args[0]}"
            return
        finally:
            BORROWED.reset(token)
        kept.append(loaded)
        yield None
        yield claim.differs(loaded) if dumped.size_bytes <= COMPARED_BYTES else None

    def _in_child(self, claims: Sequence[Claim]) -> list[str | None]:
        def work(kept: list[Any]) -> Iterator[tuple[int, str | None]]:
            for number, claim in enumerate(claims):
                for verdict in self._try(claim, kept):
                    yield number, verdict

        slowest = max(claim.dumped.size_bytes for claim in claims) / LOADED_BYTES_PER_S
        answers, end = aside(work, TIMEOUT_S + slowest)
        said: dict[int, list[str | None]] = {}
        for number, verdict in answers:
            said.setdefault(number, []).append(verdict)
        verdicts = [_final(iter(said[number])) for number in sorted(said)]
        # What loaded and was then not compared in time has been proved all the same.
        comparing = bool(said) and said[max(said)] == [None]
        if len(verdicts) < len(claims) and not comparing:
            verdicts.append(f"it was stored but does not load: loading it in a child process {end or 'did not finish'}")
        return verdicts


def _final(said: Iterator[str | None]) -> str | None:
    return next((verdict for verdict in said if verdict is not None), None)
