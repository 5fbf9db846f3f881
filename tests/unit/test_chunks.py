"""Chunks: cut, named, compressed where it helps, packed, found again without reading everything, verified."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import pytest

from durable_nb.chunking import CHUNK_BYTES, PICKLE_CHUNK_BYTES, marks_of
from durable_nb.errors import Integrity
from durable_nb.model import CheckpointId, Delta, GroupData, GroupId
from durable_nb.ports import WritesTogether
from durable_nb.store import chunks, commits
from durable_nb.store.chunks import ChunkStore, compress, decompress
from durable_nb.store.commits import stage
from durable_nb.store.files import LocalFiles
from durable_nb.store.known import Known
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
    ref, new = store.put(memoryview(data))
    store.write_pack(new.items())
    later = ChunkStore(files)
    later.refresh(durable=False)
    assert (size_bytes, CHUNK_BYTES) == (ref.size_bytes, ref.chunk_bytes)
    assert -(-size_bytes // CHUNK_BYTES) == len(ref.chunks)
    assert data == read(store, ref.chunks) == read(later, ref.chunks)


def test_a_chunk_is_named_by_the_sha256_of_its_raw_bytes() -> None:
    """The name is the lower-case hex SHA-256, whatever is stored for it."""
    ref, _ = store_on(SimFiles()).put(memoryview(b"x" * 100_000))
    assert (hashlib.sha256(b"x" * 100_000).hexdigest(),) == ref.chunks


def test_what_is_stored_is_not_stored_again() -> None:
    """The same content, also inside another buffer, adds no chunk."""
    store = store_on(SimFiles())
    data = noise(2 * CHUNK_BYTES)
    store.write_pack(store.put(memoryview(data))[1].items())
    assert store.put(memoryview(data[CHUNK_BYTES:]))[1] == {}


def staged(store: ChunkStore, known: Known, data: bytes, *, number: int = 1) -> tuple[list[str], dict[str, int]]:
    """Stage a group with one buffer and store it; return the digests of its chunks, and the sizes of the new ones."""
    group = GroupData(
        group_id=GroupId(f"c{number}.0"), names=("x",), codec="pickle5", pickle=b"p", buffers=[memoryview(data)]
    )
    found = stage(Delta(checkpoint_id=CheckpointId(f"c{number}"), parent=None, groups=[group]), store, known, ())
    store.write_pack(found.new.items())
    known.update((), found.marks)
    return list(found.groups[group.group_id].buffers[0].chunks), {d: len(c) for d, c in found.new.items()}


def test_an_unchanged_chunk_costs_no_sha256(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the marks of the last commit only the changed chunk is hashed and stored, in whatever group it is now."""
    store, known = store_on(SimFiles()), Known()
    data = bytearray(noise(4 * CHUNK_BYTES + 10))
    before, _ = staged(store, known, bytes(data))
    data[CHUNK_BYTES + 5] ^= 1
    hashed: list[int] = []
    whole = chunks.digest_of

    def counting(chunk: memoryview) -> str:
        hashed.append(len(chunk))
        return whole(chunk)

    monkeypatch.setattr(commits, "digest_of", counting)
    after, new = staged(store, known, bytes(data), number=2)
    assert (hashed, list(new)) == ([CHUNK_BYTES], [after[1]])
    assert [i for i in range(5) if before[i] != after[i]] == [1]


def test_a_chunk_that_gc_took_away_is_stored_again_though_its_mark_is_known() -> None:
    """Marks say that content is unchanged, never that it is still stored."""
    store, known = store_on(SimFiles()), Known()
    data = noise(100_000)
    staged(store, known, data)
    store.forget(next(iter(store.packs)))
    assert len(staged(store, known, data, number=2)[1]) == 2


def test_a_shorter_last_chunk_is_not_taken_for_its_longer_one() -> None:
    """A buffer that grew or shrank keeps only the chunks that are the same."""
    store, known = store_on(SimFiles()), Known()
    staged(store, known, bytes(CHUNK_BYTES + 10))
    for number, size_bytes in enumerate((CHUNK_BYTES + 9, CHUNK_BYTES + 11, 10), 2):
        digests, _ = staged(store, known, bytes(size_bytes), number=number)
        assert hashlib.sha256(bytes(size_bytes)[-(size_bytes % CHUNK_BYTES) :]).hexdigest() == digests[-1]


def test_bytes_that_change_while_they_are_named_are_not_found_by_their_old_mark() -> None:
    """A mark that was taken before a thread wrote says nothing of what was stored."""
    store, known = store_on(SimFiles()), Known()
    data = bytearray(noise(1000))
    marks = (marks_of(memoryview(b"p"), PICKLE_CHUNK_BYTES), marks_of(memoryview(bytes(data)), CHUNK_BYTES))
    data[0] ^= 1
    group = GroupData(
        group_id=GroupId("c1.0"), names=("x",), codec="pickle5", pickle=b"p", buffers=[memoryview(data)], marks=marks
    )
    delta = Delta(checkpoint_id=CheckpointId("c1"), parent=None, groups=[group])
    known.update((), stage(delta, store, known, ()).marks)
    find = known.reader()
    assert (True, None) == (find(marks[0][0]) is not None, find(marks[1][0]))


def test_marks_of_groups_that_are_gone_are_let_go() -> None:
    """What is known stays in proportion to what the newest commit holds."""
    store, known = store_on(SimFiles()), Known()
    last = noise(1000, 7)
    for number in range(1, 40):
        staged(store, known, noise(600 * CHUNK_BYTES // 1000, number), number=number)
    staged(store, known, last, number=40)
    assert len(known._places) < 10_000
    assert known.reader()(marks_of(memoryview(last), CHUNK_BYTES)[0]) is not None
    known.drop("c40")
    assert known.reader()(marks_of(memoryview(last), CHUNK_BYTES)[0]) is None


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
    ref, new = store.put(memoryview(b"some text " * 500))
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
    refs = [store.put(memoryview(noise(1000, seed))) for seed in range(20)]
    store.write_pack([item for _, new in refs for item in new.items()])
    (pack,) = store.packs
    for offset in (-1, -40, -100):
        copy = files.copy()
        copy.damage(f"packs/{pack}", offset)
        later = ChunkStore(copy)
        later.refresh(durable=False)
        assert [pack] == list(later.torn)
        for seed, (ref, _) in enumerate(refs):
            assert noise(1000, seed) == read(later, ref.chunks)


def test_opening_reads_the_index_and_not_the_data() -> None:
    """A store with megabytes in it is opened with one short read for each pack."""
    files = SimFiles()
    store = store_on(files)
    store.write_pack(store.put(memoryview(noise(5 * CHUNK_BYTES)))[1].items())
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
    new = [store.put(memoryview(f"chunk {n}".encode()))[1] for n in range(1000)]
    store.write_pack([item for one in new for item in one.items()])
    later = ChunkStore(files)
    later.refresh(durable=False)
    assert later.torn == {}
    assert sum(len(entries) for entries in later.packs.values()) == 1000


def whole_chunks(count: int, seed: int) -> bytes:
    """Noise that makes so many whole chunks."""
    return noise(count * CHUNK_BYTES, seed)


def test_many_raw_chunks_lie_together_behind_the_beginning_of_a_page() -> None:
    """The whole raw chunks of a buffer are one piece in the pack; what is shorter, compressed or few is a record."""
    store = store_on(SimFiles())
    large = memoryview(whole_chunks(chunks.EXTENT_CHUNKS + 9, 1) + b"the end")
    few, blank = memoryview(whole_chunks(3, 2)), memoryview(bytes(9 * CHUNK_BYTES))
    refs = [store.put(data) for data in (large, few, blank)]
    store.write_pack([item for _, new in refs for item in new.items()])
    found = [[store.entries(digest)[0] for digest in ref.chunks] for ref, _ in refs]
    codecs = [{entry.codec for entry in entries} for entries in (found[0][:-1], found[0][-1:], found[1], found[2])]
    assert [{chunks.BARE}, {chunks.RAW}, {chunks.RAW}, {chunks.ZSTD}] == codecs
    first, second = found[0][: chunks.EXTENT_CHUNKS], found[0][chunks.EXTENT_CHUNKS : -1]
    for run in (first, second):
        assert {chunks.BEHIND_BYTES} == {entry.offset % chunks.PAGE_BYTES for entry in run[:1]}
        assert [run[0].offset + n * CHUNK_BYTES for n in range(len(run))] == [entry.offset for entry in run]
    assert [bytes(large), bytes(few), bytes(blank)] == [read(store, ref.chunks) for ref, _ in refs]


@pytest.mark.skipif(not hasattr(os, "writev"), reason="the system writes one piece at a time")
def test_pieces_are_written_completely_however_little_the_system_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that takes a part of the pieces is followed by others, until all bytes are there in order."""
    writev, taken = os.writev, iter([3, 2, 7, 1, 4])

    def reluctant(descriptor: int, parts: list[memoryview]) -> int:
        return writev(descriptor, [memoryview(b"".join(parts))[: next(taken)]])

    monkeypatch.setattr(os, "writev", reluctant)
    file = LocalFiles(tmp_path).create("pieces")
    assert isinstance(file, WritesTogether)
    file.write_together([b"one", b"", b"more", memoryview(b"pieces"), b"here"])
    file.close()
    assert b"onemorepieceshere" == (tmp_path / "pieces").read_bytes()


def test_an_extent_is_read_without_the_index_and_moved() -> None:
    """Without its index a pack still has all chunks of an extent; copied elsewhere they lie together again."""
    files = SimFiles()
    store = store_on(files)
    data = whole_chunks(20, 3) + b"short"
    ref, new = store.put(memoryview(data))
    store.write_pack(new.items())
    (pack,) = store.packs
    files.damage(f"packs/{pack}", len(files.read(f"packs/{pack}")) - 1)
    torn = ChunkStore(files)
    torn.refresh(durable=False)
    assert ([pack], data) == (list(torn.torn), read(torn, ref.chunks))
    moved = torn.copy_records([torn.entries(digest)[0] for digest in ref.chunks[5:]])
    assert {chunks.BARE} == {entry.codec for entry in torn.packs[moved][:-1]}
    files.remove(f"packs/{pack}")
    torn.refresh(durable=False)
    assert data[5 * CHUNK_BYTES :] == read(torn, ref.chunks[5:])


def test_a_pack_that_ends_inside_an_extent_names_the_chunks_behind_it() -> None:
    """Of a pack that was cut off the chunks before the cut are read, and those behind are damaged by name."""
    files = SimFiles()
    store = store_on(files)
    ref, new = store.put(memoryview(whole_chunks(20, 4)))
    store.write_pack(new.items())
    last = store.entries(ref.chunks[-1])[0]
    files.replace(f"packs/{last.pack}", files.read(f"packs/{last.pack}")[: last.offset + 100])
    assert whole_chunks(20, 4)[: 19 * CHUNK_BYTES] == read(store, ref.chunks[:-1])
    with pytest.raises(Integrity, match=ref.chunks[-1]):
        store.read_entry(last)


def test_a_reader_follows_a_chunk_to_another_pack() -> None:
    """When another process has moved a chunk, the next read finds it where it is now."""
    files = SimFiles()
    store = store_on(files)
    ref, new = store.put(memoryview(noise(1000, 1)))
    other = store.put(memoryview(noise(1000, 2)))[1]
    store.write_pack([*new.items(), *other.items()])
    reader = ChunkStore(files)
    reader.refresh(durable=False)
    (pack,) = store.packs
    store.copy_records(store.entries(ref.chunks[0]))
    files.remove(f"packs/{pack}")
    assert noise(1000, 1) == read(reader, ref.chunks)
