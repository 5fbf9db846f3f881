"""The bytes of stored buffers into fresh memory, by several threads: read, decompressed and verified chunk by chunk.

Called by `Workflow` for whatever is large. What is returned is verified, writable and the caller's own. A chunk that is
not whole where it is looked for first is left to `ChunkStore.get`, which knows where else it may be and what to say.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import zstandard

from durable_nb.chunking import Marked, mark_of, marks_of
from durable_nb.model import BufferRef
from durable_nb.ports import Files, MapsInto, ReadsInto
from durable_nb.store.chunks import BARE, PACKS, RECORD, RECORD_MAGIC, ZSTD, ChunkStore, Entry, damaged
from durable_nb.store.explain import reading

__all__ = ["Memory", "read_buffers"]

Memory: TypeAlias = Any  # writable, contiguous bytes
Place: TypeAlias = tuple[str, memoryview]  # the digest of a chunk, and where it is to go
Inline: TypeAlias = Callable[[str], bytes | None]

# Below this the threads cost more than they save.
PARALLEL_FROM_BYTES = 4 * 1024 * 1024
MOST_THREADS = 4
_RUN = 64  # chunks that one thread takes at a time: neighbours in a buffer mostly are neighbours in a pack
# Chunks that lie together are mapped; fewer are read, and so is a buffer of very many pieces, since the system lets a
# process have no more than 65 530 mappings.
_MAP_FROM = 8
_MOST_MAPS = 2048


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring chunks of a buffer: their digests, where they go, and whether they are mapped there already."""

    digests: Sequence[str]
    place: memoryview
    chunk_bytes: int
    mapped: bool

    def places(self) -> list[Place]:
        size = self.chunk_bytes
        return [(digest, self.place[at * size : (at + 1) * size]) for at, digest in enumerate(self.digests)]


def read_buffers(
    refs: Sequence[BufferRef],
    store: ChunkStore,
    files: Files,
    inline: Inline,
    allocate: Callable[[int], Memory] = bytearray,
    *,
    verify: bool = True,
    mapped: bool = False,
) -> Marked:
    """Return the content of buffers in memory from `allocate`; `inline` gives the chunks that are in no pack.

    Without `verify` the digests of chunks are not looked at, and their marks are taken instead, for a caller who proves
    the whole by these. With `mapped`, memory may consist of the very pages of a pack: nothing is copied.
    """
    if mapped and isinstance(files, MapsInto):
        try:
            return _read(refs, store, files, inline, allocate, verify=verify, maps=files)
        except OSError:
            pass  # a page that cannot be read, say: by reading, it is found out which chunk that is
    return _read(refs, store, files, inline, allocate, verify=verify, maps=None)


def _read(
    refs: Sequence[BufferRef],
    store: ChunkStore,
    files: Files,
    inline: Inline,
    allocate: Callable[[int], Memory],
    *,
    verify: bool,
    maps: MapsInto | None,
) -> Marked:
    made = [allocate(ref.size_bytes) for ref in refs]
    wholes = [memoryview(memory) for memory in made]
    reader = _Reader(store, files, inline, maps, verify=verify)
    runs = [list(reader.runs(ref, whole)) for ref, whole in zip(refs, wholes, strict=True)]
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    jobs = list(chain.from_iterable(runs))
    try:
        if sum(ref.size_bytes for ref in refs) < PARALLEL_FROM_BYTES or threads == 1:
            marks = list(map(reader.read, jobs))
        else:
            marks = _in_threads(reader, jobs, threads)
    finally:
        for view in (*(job.place for job in jobs), *wholes):
            view.release()
    found = Marked(made)
    if not verify:
        each = iter(marks)
        found.marks = [tuple(chain.from_iterable(next(each) for _ in mine)) for mine in runs]
    for memory, mine in zip(made, runs, strict=True):
        if any(job.mapped for job in mine):
            found.mapped.append(memory)
    return found


def _chunks(ref: BufferRef) -> Sequence[str]:
    expected = -(-ref.size_bytes // ref.chunk_bytes) if ref.size_bytes else 0
    if len(ref.chunks) != expected:
        raise damaged("a buffer", f"it has {len(ref.chunks)} chunks instead of {expected}")
    return ref.chunks


def _in_threads(reader: _Reader, runs: Sequence[_Run], threads: int) -> list[list[bytes]]:
    found: list[list[bytes]] = [[] for _ in runs]
    failed: dict[int, BaseException] = {}
    left, over = iter(enumerate(runs)), threading.Event()

    def work() -> None:
        # Each thread takes the next run, so that nobody has to be woken for every one of them.
        for at, run in left:
            try:
                found[at] = reader.read(run)
            except BaseException as error:  # told by who waits for all of them
                failed[at] = error
                over.set()
            if over.is_set():
                break

    pool = ThreadPoolExecutor(threads, thread_name_prefix="durable_nb-read")
    try:
        wait([pool.submit(work) for _ in range(threads)])
    finally:
        # After an error or an interrupt nothing more is begun, and nobody writes into memory that is given back.
        over.set()
        pool.shutdown(wait=True)
    if failed:
        raise failed[min(failed)]  # the first of the buffer, whichever thread came first
    return found


class _Reader:
    """Reads runs of chunks; may be used by several threads at once."""

    def __init__(self, store: ChunkStore, files: Files, inline: Inline, maps: MapsInto | None, *, verify: bool) -> None:
        self._store, self._inline, self._verify, self._maps = store, inline, verify, maps
        self._into = files if isinstance(files, ReadsInto) else None
        self._mapped = 0

    def runs(self, ref: BufferRef, whole: memoryview) -> Iterator[_Run]:
        """Yield the chunks of a buffer in runs, mapped already where that can be."""
        chunks, size = _chunks(ref), ref.chunk_bytes
        for first, last in self._parts(ref, whole):
            mapped = self._map(chunks[first], whole, first * size, (last - first) * size)
            for at in range(first, last, _RUN):
                to = min(at + _RUN, last)
                yield _Run(chunks[at:to], whole[at * size : to * size], size, mapped)

    def _parts(self, ref: BufferRef, whole: memoryview) -> Iterator[tuple[int, int]]:
        """Yield the buffer's chunks in parts; where they are to be mapped, each lies in one pack as one piece."""
        first, expected = 0, None
        if self._maps is None or isinstance(whole.obj, bytearray):  # which are small, or resized in place by anybody
            yield from [(0, len(ref.chunks))] if ref.chunks else []
            return
        for at, digest in enumerate(ref.chunks):
            entry = self._entry(digest)
            bare = entry is not None and entry.codec == BARE and entry.raw_bytes == ref.chunk_bytes
            place = (entry.pack, entry.offset) if entry is not None and bare else None
            if at and place != expected:
                yield first, at
                first = at
            expected = (place[0], place[1] + ref.chunk_bytes) if place is not None else None
        if ref.chunks:
            yield first, len(ref.chunks)

    def _map(self, digest: str, whole: memoryview, start: int, size_bytes: int) -> bool:
        entry = self._entry(digest)
        if isinstance(whole.obj, bytearray) or self._maps is None or entry is None:
            return False
        if entry.codec != BARE or size_bytes < _MAP_FROM * entry.raw_bytes:
            return False
        if self._mapped == _MOST_MAPS:
            return False
        try:
            done = self._maps.map_into(f"{PACKS}/{entry.pack}", entry.offset, whole, start, size_bytes)
        except FileNotFoundError:  # another process moved it
            return False
        self._mapped += done
        return done

    def read(self, run: _Run) -> list[bytes]:
        """Fill the place of a run with its chunks, verified; or return their marks."""
        if run.mapped and self._maps is not None:
            self._maps.fetch(run.place)
            if not self._verify:
                return list(marks_of(run.place, run.chunk_bytes))
        places = run.places()
        try:
            if not run.mapped:
                self._fill(places)
            elif wrong := [place for place in places if not _is(*place)]:
                for digest, place in wrong:
                    self._by_the_store(digest, place)
            return [] if self._verify else [mark_of(place) for _, place in places]
        finally:
            for _, place in places:
                place.release()

    def _fill(self, places: Sequence[Place]) -> None:
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
            plain = entry is not None and entry.codec != ZSTD and entry.raw_bytes == len(place)
            if entry is not None and plain and expected == (entry.pack, entry.offset):
                runs[-1].append((digest, place))
            else:
                runs.append([(digest, place)])
            expected = (entry.pack, entry.offset + _length(entry)) if entry is not None and plain else None
        return runs

    def _together(self, places: Sequence[Place]) -> bool:
        """Read neighbours by one call; False where something is not as it should be."""
        entries = [entry for digest, _ in places if (entry := self._entry(digest)) is not None]
        if self._into is None or len(entries) != len(places):
            return False
        headers = [bytearray(len(_header(entry))) for entry in entries]
        parts = [part for header, (_, place) in zip(headers, places, strict=True) for part in (header, place)]
        try:
            count = self._into.read_into(f"{PACKS}/{entries[0].pack}", entries[0].offset, parts)
        except OSError:
            return False
        if count != sum(map(_length, entries)):
            return False
        if any(header != _header(entry) for header, entry in zip(headers, entries, strict=True)):
            return False
        return not self._verify or all(_is(digest, place) for digest, place in places)

    def _directly(self, digest: str, place: memoryview) -> bool:
        """Read a chunk from where it lies into its place; False where that does not give exactly this chunk."""
        entry = self._entry(digest)
        if self._into is None or entry is None or entry.raw_bytes != len(place):
            return False
        header = bytearray(len(_header(entry)))
        stored: Any = place if entry.codec != ZSTD else bytearray(entry.stored_bytes)
        try:
            count = self._into.read_into(f"{PACKS}/{entry.pack}", entry.offset, [header, stored])
        except OSError:
            return False
        if count != _length(entry) or header != _header(entry):
            return False
        if entry.codec == ZSTD:
            try:
                data = zstandard.ZstdDecompressor().decompress(stored, max_output_size=entry.raw_bytes)
            except zstandard.ZstdError:
                return False
            if len(data) != len(place):
                return False
            place[:] = data
        return not self._verify or _is(digest, place)


def _is(digest: str, place: memoryview) -> bool:
    return hashlib.sha256(place).hexdigest() == digest


def _header(entry: Entry) -> bytes:
    """Return what stands before the bytes of a chunk in its pack."""
    if entry.codec == BARE:
        return b""
    return RECORD.pack(RECORD_MAGIC, entry.codec, entry.raw_bytes, entry.stored_bytes, bytes.fromhex(entry.digest))


def _length(entry: Entry) -> int:
    return entry.stored_bytes + (0 if entry.codec == BARE else RECORD.size)
