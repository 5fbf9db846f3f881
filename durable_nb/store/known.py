"""The chunks of the newest commit by their marks, so that what did not change is neither hashed nor handed over again.

Kept by `Workflow`, asked by `commits` and `preparing`. It says what is the same, never that it is stored still.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from durable_nb.model import BufferRef, Digest, GroupId
from durable_nb.store.pending import names_now

__all__ = ["Known", "Marks"]

_SPARE = 4096  # so many marks of groups that are gone may stay


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """A buffer as it is stored, with a mark of each of its chunks."""

    ref: BufferRef
    marks: tuple[bytes, ...]


class Known:
    """Finds a chunk by its mark, whatever group or buffer it was in."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, Sequence[Marks]] = {}
        self._places: dict[bytes, tuple[Sequence[Digest], int]] = {}
        self._live = 0

    def reader(self) -> Callable[[bytes], str | None]:
        """Return what finds the digest of a chunk by its mark (or the place that stands for it) during one commit."""
        places, names = self._places, dict[int, Sequence[str]]()

        def find(mark: bytes) -> str | None:
            at = places.get(mark)
            if at is None:
                return None
            chunks, index = at
            known = names.get(id(chunks))
            if known is None:
                known = names[id(chunks)] = names_now(chunks)
            return known[index]

        return find

    def update(self, kept: Container[GroupId], new: Mapping[GroupId, Sequence[Marks]]) -> None:
        """Take in the groups of a commit; of the others only those in `kept` are there still."""
        gone = [gid for gid in self._groups if gid not in kept and gid not in new]
        for gid in gone:
            self._live -= _count(self._groups.pop(gid))
        for gid, buffers in new.items():
            self._live += _count(buffers) - _count(self._groups.get(gid, ()))
            self._groups[gid] = buffers
            self._add(buffers)
        if len(self._places) > 2 * self._live + _SPARE:
            self._rebuild()

    def drop(self, checkpoint_id: str) -> None:
        """Forget what a checkpoint stored: it is not certain to be what its marks say."""
        self._groups = {gid: m for gid, m in self._groups.items() if gid.rpartition(".")[0] != checkpoint_id}
        self._rebuild()

    def clear(self) -> None:
        """Forget everything: the next commit stores all of its chunks."""
        self._groups.clear()
        self._rebuild()

    def _rebuild(self) -> None:
        self._places.clear()
        self._live = 0
        for buffers in self._groups.values():
            self._live += _count(buffers)
            self._add(buffers)

    def _add(self, buffers: Sequence[Marks]) -> None:
        for each in buffers:
            chunks = each.ref.chunks
            self._places.update((mark, (chunks, i)) for i, mark in enumerate(each.marks))


def _count(buffers: Sequence[Marks]) -> int:
    return sum(len(each.marks) for each in buffers)
