"""Chunks that were handed over to the writer and have no name yet: who asks for the names waits for them.

Made by `Behind` in the kernel. A ticket stands for one commit that was handed over; its digests are there when the
writer has made that commit durable, and never when it has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

from durable_nb.errors import CheckpointError
from durable_nb.model import CheckpointId, Digest

__all__ = ["PendingChunks", "Ticket", "names_now", "parse_place", "place"]

# Stands for a digest in a record: the number of the hand-over that brought the chunk, and the chunk's number in it.
_MARK = "~"


def place(number: int, index: int) -> str:
    """Return what stands for a chunk without a name in a record."""
    return f"{_MARK}{number}.{index}"


def parse_place(entry: str) -> tuple[int, int] | None:
    """Return hand-over and chunk of a place; None for a digest."""
    if not entry.startswith(_MARK):
        return None
    number, _, index = entry[1:].partition(".")
    return int(number), int(index)


class Ticket:
    """One commit that was handed over, until the writer has answered."""

    __slots__ = ("_wait", "bytes_in_flight", "checkpoint_id", "digests", "error", "number", "parent_event")

    def __init__(
        self, number: int, checkpoint_id: CheckpointId, wait: Callable[[Ticket], None], *, parent_event: str = ""
    ) -> None:
        self.number = number
        self.checkpoint_id = checkpoint_id
        self.parent_event = parent_event  # the event that the commit ends, a cell's start
        self.bytes_in_flight = 0
        self.digests: Sequence[Digest] | None = None
        self.error: BaseException | None = None
        self._wait = wait

    @property
    def settled(self) -> bool:
        """Whether the commit is durable, or never will be."""
        return self.digests is not None or self.error is not None

    def known(self) -> Sequence[Digest]:
        """Return the digests of the chunks, waiting for the writer; CheckpointError when it could not store them."""
        if not self.settled:
            self._wait(self)
        if self.digests is None:
            raise CheckpointError(
                f"What checkpoint {self.checkpoint_id} changed was never stored: {self.error}. Your variables are "
                "untouched in memory.",
                hint="The next durable cell stores it again.",
            ) from self.error
        return self.digests


class PendingChunks(Sequence[Digest]):
    """The digests of a buffer, some of which the writer has still to tell."""

    __slots__ = ("_entries", "_tickets")

    def __init__(self, entries: Sequence[str], tickets: Mapping[int, Ticket]) -> None:
        """`entries` are digests and places; `tickets` are the hand-overs that the places mean."""
        self._entries: Sequence[str] = entries
        self._tickets: Mapping[int, Ticket] = tickets

    def tickets(self) -> Mapping[int, Ticket]:
        """Return the hand-overs that some names are still to come from."""
        return self._tickets

    def names(self) -> Sequence[str]:
        """Return the digests, with places for those that are not known yet."""
        known = {n: ticket.known() for n, ticket in self._tickets.items() if ticket.settled}
        if known:
            self._entries = tuple(_named(entry, known) for entry in self._entries)
            self._tickets = {n: ticket for n, ticket in self._tickets.items() if n not in known}
        return self._entries

    def _resolve(self) -> Sequence[Digest]:
        for ticket in self._tickets.values():
            ticket.known()
        return self.names()  # type: ignore[return-value]  # without a ticket that is open every entry is a digest

    @overload
    def __getitem__(self, index: int) -> Digest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Digest]: ...
    def __getitem__(self, index: int | slice) -> Digest | Sequence[Digest]:
        return self._resolve()[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Digest]:
        return iter(self._resolve())

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | PendingChunks) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"PendingChunks({list(self._entries)!r})"


def _named(entry: str, known: Mapping[int, Sequence[Digest]]) -> str:
    at = parse_place(entry)
    return known[at[0]][at[1]] if at is not None and at[0] in known else entry


def names_now(chunks: Sequence[Digest]) -> Sequence[str]:
    """Return the digests of a buffer without waiting: places stand for those that are not known yet."""
    return chunks.names() if isinstance(chunks, PendingChunks) else chunks
