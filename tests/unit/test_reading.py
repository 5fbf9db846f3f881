"""Buffers read by several threads: every byte, in the memory that was asked for, verified."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from durable_nb.capture.borrowing import ARRAY_FROM_BYTES, fresh
from durable_nb.errors import Integrity
from durable_nb.model import BufferRef
from durable_nb.ports import Files
from durable_nb.store import reading
from durable_nb.store.chunks import PACKS, ChunkStore
from durable_nb.store.files import LocalFiles
from durable_nb.store.temporary import TMP
from durable_nb.testing.simfiles import SimFiles

NOISE = random.Random(1).randbytes(6 * 1024 * 1024 + 17)
BLANK = bytes(5 * 1024 * 1024)


def store_on(files: Files) -> ChunkStore:
    """A store with empty folders."""
    for folder in (PACKS, TMP):
        files.make_folder(folder)
    return ChunkStore(files)


def put(store: ChunkStore, *contents: bytes) -> list[BufferRef]:
    """Store the contents in one pack and return where they are."""
    placed = [store.put(memoryview(content)) for content in contents]
    store.write_pack({d: chunk for _, new in placed for d, chunk in new.items()}.items())
    return [ref for ref, _ in placed]


@pytest.fixture(params=["real", "simulated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """A file system that reads into memory, and one that cannot."""
    return LocalFiles(tmp_path) if request.param == "real" else SimFiles()


def read(refs: list[BufferRef], store: ChunkStore, files: Files, **how: Any) -> list[bytes]:
    """The contents as bytes."""
    return [bytes(memory) for memory in reading.read_buffers(refs, store, files, lambda digest: None, **how)]


def test_every_byte_comes_back(files: Files) -> None:
    """Raw and compressed chunks, an empty buffer and one of a part of a chunk come back as they were."""
    store = store_on(files)
    contents = [NOISE, b"", BLANK, b"short"]
    refs = put(store, *contents)
    assert contents == read(refs, store, files)
    assert contents == read(refs, store, files, allocate=fresh)


def test_one_thread_reads_the_same(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """With threads or without, the same bytes."""
    store = store_on(files)
    refs = put(store, NOISE)
    monkeypatch.setattr(reading, "PARALLEL_FROM_BYTES", 1 << 40)
    assert [NOISE] == read(refs, store, files)


def test_inline_chunks_are_taken_from_where_they_are(files: Files) -> None:
    """Chunks that are in no pack come from `inline`."""
    store = store_on(files)
    ref, new = store.put(memoryview(b"in the event"))
    given = {digest: bytes(chunk) for digest, chunk in new.items()}
    assert [b"in the event"] == [bytes(m) for m in reading.read_buffers([ref], store, files, given.get)]


def damage(files: Files, pack: str, offset: int) -> None:
    """Change one byte of a pack."""
    if isinstance(files, SimFiles):
        files.damage(f"{PACKS}/{pack}", offset)
        return
    assert isinstance(files, LocalFiles)
    with (files.root / PACKS / pack).open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("where", [0, 20, 100])
@pytest.mark.parametrize("content", [NOISE, BLANK], ids=["raw", "compressed"])
def test_damage_is_never_handed_out(files: Files, content: bytes, where: int) -> None:
    """A changed byte in the header or in the content of a record is an error that names the chunk."""
    store = store_on(files)
    (ref,) = put(store, content)
    entry = store.entries(ref.chunks[-2])[0]
    damage(files, entry.pack, entry.offset + min(where, entry.record_bytes - 1))
    with pytest.raises(Integrity, match=ref.chunks[-2]):
        read([ref], store, files)


def test_another_copy_stands_in(files: Files) -> None:
    """A chunk that is damaged in one pack and whole in another is read from the other."""
    store = store_on(files)
    (ref,) = put(store, NOISE)
    entries = [store.entries(digest)[0] for digest in ref.chunks]
    store.copy_records(entries[1:])
    damage(files, entries[2].pack, entries[2].offset + 200)
    assert [NOISE] == read([ref], store, files)


def test_a_pack_that_moved_is_found(files: Files) -> None:
    """What another process has collected into another pack since is found there."""
    store = store_on(files)
    (ref,) = put(store, NOISE)
    other = ChunkStore(files)
    other.refresh(durable=False)
    (old,) = other.packs
    other.copy_records([other.entries(digest)[0] for digest in ref.chunks[1:]])
    other.copy_records([other.entries(ref.chunks[0])[0]])
    files.remove(f"{PACKS}/{old}")
    assert [NOISE] == read([ref], store, files)


def test_a_wrong_number_of_chunks_is_an_error(files: Files) -> None:
    """A reference whose chunks do not make up its size is damaged."""
    store = store_on(files)
    (ref,) = put(store, NOISE)
    wrong = BufferRef(size_bytes=ref.size_bytes, chunk_bytes=ref.chunk_bytes, chunks=ref.chunks[:-1])
    with pytest.raises(Integrity, match="chunks instead of"):
        read([wrong], store, files)


def test_large_buffers_go_into_arrays() -> None:
    """With numpy loaded, large memory is an array that another array can take over; small memory is plain."""
    assert (bytearray, np.ndarray) == (type(fresh(100)), type(fresh(ARRAY_FROM_BYTES)))
    assert fresh(ARRAY_FROM_BYTES).flags.owndata
