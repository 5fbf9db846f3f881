"""The bytes of stored buffers into fresh memory, by several threads: read, decompressed and verified chunk by chunk.

Called by `Workflow` for whatever is large. What is returned is verified, writable and the caller's own. A chunk that is
not whole where it is looked for first is left to `ChunkStore.get`, which knows where else it may be and what to say.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import zstandard

from durable_nb.model import BufferRef
from durable_nb.ports import Files, ReadsInto
from durable_nb.store.chunks import PACKS, RAW, RECORD, RECORD_MAGIC, ChunkStore, Entry, damaged
from durable_nb.store.explain import reading

__all__ = ["Memory", "read_buffers"]

Memory: TypeAlias = Any  # writable, contiguous bytes
Place: TypeAlias = tuple[str, memoryview]  # the digest of a chunk, and where it is to go

# Below this the threads cost more than they save.
PARALLEL_FROM_BYTES = 4 * 1024 * 1024
MOST_THREADS = 4
_RUN = 64  # chunks that one thread takes at a time: neighbours in a buffer mostly are neighbours in a pack


def read_buffers(
    refs: Sequence[BufferRef],
    store: ChunkStore,
    files: Files,
    inline: Callable[[str], bytes | None],
    allocate: Callable[[int], Memory] = bytearray,
    *,
    verify: bool = True,
) -> list[Memory]:
    """Return the content of buffers in memory from `allocate`; `inline` gives the chunks that are in no pack.

    Without `verify` the digests of chunks are not looked at: the caller proves the whole in another way.
    """
    made = [allocate(ref.size_bytes) for ref in refs]
    places = [
        (digest, memoryview(memory)[start : start + ref.chunk_bytes][: ref.size_bytes - start])
        for ref, memory in zip(refs, made, strict=True)
        for start, digest in zip(range(0, ref.size_bytes, ref.chunk_bytes), _chunks(ref), strict=True)
    ]
    reader = _Reader(store, files, inline, verify=verify)
    total = sum(ref.size_bytes for ref in refs)
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    try:
        if total < PARALLEL_FROM_BYTES or threads == 1:
            reader.read(places)
        else:
            _in_threads(reader, places, threads)
    finally:
        for _, place in places:
            place.release()
    return made


def _chunks(ref: BufferRef) -> Sequence[str]:
    expected = -(-ref.size_bytes // ref.chunk_bytes) if ref.size_bytes else 0
    if len(ref.chunks) != expected:
        raise damaged("a buffer", f"it has {len(ref.chunks)} chunks instead of {expected}")
    return ref.chunks


def _in_threads(reader: _Reader, places: Sequence[Place], threads: int) -> None:
    runs = [places[at : at + _RUN] for at in range(0, len(places), _RUN)]
    pool = ThreadPoolExecutor(threads, thread_name_prefix="durable_nb-read")
    try:
        for _ in pool.map(reader.read, runs):
            pass
    finally:
        # After an error or an interrupt nothing more is begun, and nobody writes into memory that is given back.
        pool.shutdown(wait=True, cancel_futures=True)


class _Reader:
    """Reads runs of chunks; may be used by several threads at once."""

    def __init__(self, store: ChunkStore, files: Files, inline: Callable[[str], bytes | None], *, verify: bool) -> None:
        self._store, self._inline, self._verify = store, inline, verify
        self._into = files if isinstance(files, ReadsInto) else None

    def read(self, places: Sequence[Place]) -> None:
        """Fill each place with its chunk."""
        for neighbours in self._neighbours(places):
            if len(neighbours) > 1 and self._together(neighbours):
                continue
            for digest, place in neighbours:
                if not self._directly(digest, place):
                    self._by_the_store(digest, place)

    def _by_the_store(self, digest: str, place: memoryview) -> None:
        data = self._inline(digest)
        if data is None:
            with reading(f"chunk {digest}"):
                data = self._store.get(digest)
        if len(data) != len(place):
            raise damaged("a buffer", f"a chunk has {len(data)} bytes instead of {len(place)}")
        place[:] = data

    def _entry(self, digest: str) -> Entry | None:
        return next(iter(self._store.entries(digest)), None)

    def _neighbours(self, places: Sequence[Place]) -> list[list[Place]]:
        """Return the places in runs that lie in a pack one behind the other, as they are and as long as they should."""
        runs: list[list[Place]] = []
        expected: tuple[str, int] | None = None
        for digest, place in places:
            entry = self._entry(digest)
            plain = entry is not None and entry.codec == RAW and entry.raw_bytes == len(place)
            if entry is not None and plain and expected == (entry.pack, entry.offset):
                runs[-1].append((digest, place))
            else:
                runs.append([(digest, place)])
            expected = (entry.pack, entry.offset + entry.record_bytes) if entry is not None and plain else None
        return runs

    def _together(self, places: Sequence[Place]) -> bool:
        """Read neighbours by one call; False where something is not as it should be."""
        entries = [entry for digest, _ in places if (entry := self._entry(digest)) is not None]
        if self._into is None or len(entries) != len(places):
            return False
        headers = [bytearray(RECORD.size) for _ in entries]
        parts = [part for header, (_, place) in zip(headers, places, strict=True) for part in (header, place)]
        try:
            count = self._into.read_into(f"{PACKS}/{entries[0].pack}", entries[0].offset, parts)
        except OSError:
            return False
        if count != sum(entry.record_bytes for entry in entries):
            return False
        if any(header != _header(entry) for header, entry in zip(headers, entries, strict=True)):
            return False
        return not self._verify or all(hashlib.sha256(place).hexdigest() == digest for digest, place in places)

    def _directly(self, digest: str, place: memoryview) -> bool:
        """Read a chunk from where it lies into its place; False where that does not give exactly this chunk."""
        entry = self._entry(digest)
        if self._into is None or entry is None or entry.raw_bytes != len(place):
            return False
        header = bytearray(RECORD.size)
        stored: Any = place if entry.codec == RAW else bytearray(entry.stored_bytes)
        try:
            count = self._into.read_into(f"{PACKS}/{entry.pack}", entry.offset, [header, stored])
        except OSError:
            return False
        if count != entry.record_bytes or header != _header(entry):
            return False
        if entry.codec != RAW:
            try:
                data = zstandard.ZstdDecompressor().decompress(stored, max_output_size=entry.raw_bytes)
            except zstandard.ZstdError:
                return False
            if len(data) != len(place):
                return False
            place[:] = data
        return not self._verify or hashlib.sha256(place).hexdigest() == digest


def _header(entry: Entry) -> bytes:
    return RECORD.pack(RECORD_MAGIC, entry.codec, entry.raw_bytes, entry.stored_bytes, bytes.fromhex(entry.digest))
