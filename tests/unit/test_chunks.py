"""Chunks: cut, named, compressed where it helps, packed, found again without reading everything, verified."""

from __future__ import annotations

import hashlib
import random

import pytest

from durable_nb.errors import Integrity
from durable_nb.store import chunks
from durable_nb.store.chunks import CHUNK_BYTES, ChunkStore, compress, decompress
from durable_nb.testing.simfiles import SimFiles


def store_on(files: SimFiles) -> ChunkStore:
    """Return a chunk store on a disk with the folders that it needs."""
    files.make_folder("packs")
    files.make_folder("tmp")
    made = ChunkStore(files)
    made.refresh(durable=True)
    return made


def noise(size_bytes: int, seed: int = 1) -> bytes:
    """Return bytes that do not compress."""
    return random.Random(seed).randbytes(size_bytes)


def read(store: ChunkStore, digests: tuple[str, ...]) -> bytes:
    """Read chunks and put them together."""
    return b"".join(store.get(digest) for digest in digests)


@pytest.mark.parametrize("size_bytes", [0, 1, 1000, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 5])
def test_a_buffer_comes_back_from_its_chunks(size_bytes: int) -> None:
    """Chunks of every length concatenate to the buffer, in this store and in one opened later."""
    files = SimFiles()
    store = store_on(files)
    data = noise(size_bytes)
    ref, _, new = store.put(memoryview(data), None)
    store.write_pack(new.items())
    later = ChunkStore(files)
    later.refresh(durable=False)
    assert (size_bytes, CHUNK_BYTES) == (ref.size_bytes, ref.chunk_bytes)
    assert -(-size_bytes // CHUNK_BYTES) == len(ref.chunks)
    assert data == read(store, ref.chunks) == read(later, ref.chunks)


def test_a_chunk_is_named_by_the_sha256_of_its_raw_bytes() -> None:
    """The name is the lower-case hex SHA-256, whatever is stored for it."""
    ref, _, _ = store_on(SimFiles()).put(memoryview(b"x" * 100_000), None)
    assert (hashlib.sha256(b"x" * 100_000).hexdigest(),) == ref.chunks


def test_what_is_stored_is_not_stored_again() -> None:
    """The same content, also inside another buffer, adds no chunk."""
    store = store_on(SimFiles())
    data = noise(2 * CHUNK_BYTES)
    store.write_pack(store.put(memoryview(data), None)[2].items())
    assert store.put(memoryview(data[CHUNK_BYTES:]), None)[2] == {}


def test_an_unchanged_chunk_costs_no_sha256(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the marks of the last commit only the changed chunk is hashed and stored."""
    store = store_on(SimFiles())
    data = bytearray(noise(4 * CHUNK_BYTES + 10))
    ref, marks, new = store.put(memoryview(data), None)
    store.write_pack(new.items())
    data[CHUNK_BYTES + 5] ^= 1
    hashed: list[int] = []
    whole = chunks.digest_of

    def counting(chunk: memoryview) -> str:
        hashed.append(len(chunk))
        return whole(chunk)

    monkeypatch.setattr(chunks, "digest_of", counting)
    changed, _, new = store.put(memoryview(data), marks)
    assert hashed == [CHUNK_BYTES]
    assert [changed.chunks[1]] == list(new)
    assert [i for i in range(5) if ref.chunks[i] != changed.chunks[i]] == [1]


def test_a_chunk_that_gc_took_away_is_stored_again_though_its_mark_is_known() -> None:
    """Marks say that content is unchanged, never that it is still stored."""
    store = store_on(SimFiles())
    data = noise(100_000)
    _, marks, new = store.put(memoryview(data), None)
    store.write_pack(new.items())
    store.forget(next(iter(store.packs)))
    assert len(store.put(memoryview(data), marks)[2]) == 1


def test_a_shorter_last_chunk_is_not_taken_for_its_longer_one() -> None:
    """A buffer that grew or shrank keeps only the chunks that are the same."""
    store = store_on(SimFiles())
    _, marks, _ = store.put(memoryview(bytes(CHUNK_BYTES + 10)), None)
    for size_bytes in (CHUNK_BYTES + 9, CHUNK_BYTES + 11, 10):
        ref, _, _ = store.put(memoryview(bytes(size_bytes)), marks)
        assert hashlib.sha256(bytes(size_bytes)[-(size_bytes % CHUNK_BYTES) :]).hexdigest() == ref.chunks[-1]


def test_compression_is_used_only_where_it_shrinks() -> None:
    """Zeros become small, noise stays raw, and noise in a big chunk is recognised by a sample."""
    assert compress(bytes(CHUNK_BYTES))[0] == chunks.ZSTD
    assert len(compress(bytes(CHUNK_BYTES))[1]) < 1000
    for size_bytes in (100, 10_000, CHUNK_BYTES):
        data = noise(size_bytes)
        assert (chunks.RAW, data) == compress(data)
        codec, stored = compress(memoryview(data))
        assert data == decompress(codec, bytes(stored), size_bytes, chunks.digest_of(data))


def test_a_wrong_byte_is_an_integrity_error_that_names_the_chunk() -> None:
    """Whatever byte of a record is wrong, the chunk is refused under its name, unless its content is whole."""
    files = SimFiles()
    store = store_on(files)
    ref, _, new = store.put(memoryview(b"some text " * 500), None)
    store.write_pack(new.items())
    (entry,) = store.entries(ref.chunks[0])
    unharmed = 0
    for offset in range(entry.offset, entry.offset + entry.record_bytes):
        files.damage(f"packs/{entry.pack}", offset)
        try:
            content, named = store.get(ref.chunks[0]), ""
        except Integrity as error:
            content, named = b"", error.details["object"].removeprefix("chunk ")
        whole = content == b"some text " * 500
        assert whole or named == ref.chunks[0]
        unharmed += whole
        files.damage(f"packs/{entry.pack}", offset)
    # Older zstd libraries do not mind the spare bits at the end of a frame.
    assert unharmed <= 1
    assert store.get(ref.chunks[0]) == b"some text " * 500


def test_a_pack_without_its_index_is_read_by_its_records() -> None:
    """A damaged footer is noted, and every record is found by stepping from header to header."""
    files = SimFiles()
    store = store_on(files)
    refs = [store.put(memoryview(noise(1000, seed)), None) for seed in range(20)]
    store.write_pack([item for _, _, new in refs for item in new.items()])
    (pack,) = store.packs
    for offset in (-1, -40, -100):
        copy = files.copy()
        copy.damage(f"packs/{pack}", offset)
        later = ChunkStore(copy)
        later.refresh(durable=False)
        assert [pack] == list(later.torn)
        for seed, (ref, _, _) in enumerate(refs):
            assert noise(1000, seed) == read(later, ref.chunks)


def test_opening_reads_the_index_and_not_the_data() -> None:
    """A store with megabytes in it is opened with one short read for each pack."""
    files = SimFiles()
    store = store_on(files)
    store.write_pack(store.put(memoryview(noise(5 * CHUNK_BYTES)), None)[2].items())
    read_bytes: list[int] = []
    inner = files.read

    def counting(path: str, offset: int = 0, size_bytes: int | None = None) -> bytes:
        data = inner(path, offset, size_bytes)
        read_bytes.append(len(data))
        return data

    files.read = counting  # type: ignore[method-assign]
    ChunkStore(files).refresh(durable=False)
    assert len(read_bytes) == 1
    assert sum(read_bytes) < 64 * 1024


def test_an_index_longer_than_the_first_read_is_read_whole() -> None:
    """A pack with a thousand chunks opens with all of them."""
    files = SimFiles()
    store = store_on(files)
    new = [store.put(memoryview(f"chunk {n}".encode()), None)[2] for n in range(1000)]
    store.write_pack([item for one in new for item in one.items()])
    later = ChunkStore(files)
    later.refresh(durable=False)
    assert later.torn == {}
    assert sum(len(entries) for entries in later.packs.values()) == 1000


def test_a_reader_follows_a_chunk_to_another_pack() -> None:
    """When another process has moved a chunk, the next read finds it where it is now."""
    files = SimFiles()
    store = store_on(files)
    ref, _, new = store.put(memoryview(noise(1000, 1)), None)
    other = store.put(memoryview(noise(1000, 2)), None)[2]
    store.write_pack([*new.items(), *other.items()])
    reader = ChunkStore(files)
    reader.refresh(durable=False)
    (pack,) = store.packs
    store.copy_records(store.entries(ref.chunks[0]))
    files.remove(f"packs/{pack}")
    assert noise(1000, 1) == read(reader, ref.chunks)
