"""How bytes are cut into chunks, and the fast marks by which a chunk that is what it was is found again. Pure.

Used by `capture`, which computes the marks while it reads the bytes anyway, and by `store`, which names and keeps what
is new. A mark (XXH3, 128 bits) is compared inside one process only; what is stored is named by SHA-256.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import xxhash

__all__ = [
    "CHUNK_BYTES",
    "MOST_CHUNK_BYTES",
    "PICKLE_CHUNK_BYTES",
    "Marked",
    "cut",
    "digest_of_marks",
    "mark_of",
    "marks_of",
]

# Of a buffer: one element of a large array costs this much when it changes, and a digest for each in every keyframe.
CHUNK_BYTES = 128 * 1024
# Of a pickle: what is appended to a list costs its own bytes, and this much at most for the end of what was there.
PICKLE_CHUNK_BYTES = 16 * 1024
MOST_CHUNK_BYTES = 1024 * 1024  # what a reader has to expect


def cut(data: memoryview, chunk_bytes: int) -> Iterator[memoryview]:
    """Yield the chunks of a buffer of bytes; none for an empty one."""
    for start in range(0, len(data), chunk_bytes):
        yield data[start : start + chunk_bytes]


class Marked(list[Any]):
    """Buffers that were read, with the marks of their chunks as they came, where they were taken.

    `mapped` are those of which parts are the pages of a file.
    """

    def __init__(self, buffers: Sequence[Any] = (), marks: Sequence[tuple[bytes, ...]] = ()) -> None:
        super().__init__(buffers)
        self.marks = marks
        self.mapped: list[Any] = []


def mark_of(chunk: memoryview) -> bytes:
    """Return the mark of one chunk."""
    return xxhash.xxh3_128_digest(chunk)


def marks_of(data: memoryview, chunk_bytes: int) -> tuple[bytes, ...]:
    """Return the mark of each chunk of a buffer of bytes."""
    mark = xxhash.xxh3_128_digest
    if len(data) <= chunk_bytes:
        return (mark(data),) if len(data) else ()
    return tuple(mark(data[start : start + chunk_bytes]) for start in range(0, len(data), chunk_bytes))


def digest_of_marks(sizes: list[int], marks: tuple[tuple[bytes, ...], ...]) -> str:
    """Return a fingerprint of several buffers as hex digits: equal only if all their bytes are."""
    state = xxhash.xxh3_128()
    for size, each in zip(sizes, marks, strict=True):
        state.update(size.to_bytes(8, "little"))
        state.update(b"".join(each))
    return str(state.hexdigest())
