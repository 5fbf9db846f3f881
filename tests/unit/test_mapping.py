"""The pages of packs in the place of an array's memory: the same bytes, written to privately, refused where unsafe."""

from __future__ import annotations

import errno
import os
import random
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from durable_nb.capture.borrowing import address_of, fresh
from durable_nb.capture.lazy import LazyNames
from durable_nb.capture.looking import Memory
from durable_nb.chunking import CHUNK_BYTES, Marked, marks_of
from durable_nb.errors import Integrity
from durable_nb.model import BufferRef
from durable_nb.store import mapping, reading
from durable_nb.store.chunks import PACKS, ChunkStore
from durable_nb.store.files import LocalFiles
from durable_nb.store.temporary import TMP

LARGE = 40 * 1024 * 1024 + 17  # beyond what glibc may take from its heap
NOISE = random.Random(5).randbytes(LARGE)


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    """A folder on a file system that packs are mapped from."""
    if mapping.can_map(memoryview(fresh(LARGE))) is None or not mapping.is_local(str(tmp_path)):
        pytest.skip("nothing is mapped on this system")
    made = LocalFiles(tmp_path)
    for folder in (PACKS, TMP):
        made.make_folder(folder)
    return made


def put(store: ChunkStore, content: bytes) -> BufferRef:
    """Store what is new of a buffer in one pack."""
    ref, new = store.put(memoryview(content))
    store.write_pack(new.items())
    return ref


def read(ref: BufferRef, store: ChunkStore, files: LocalFiles, **how: Any) -> Marked:
    """Read a buffer by mapping it where that can be."""
    return reading.read_buffers([ref], store, files, lambda digest: None, fresh, mapped=True, **how)


def overwrite(files: LocalFiles, pack: str, offset: int, data: bytes) -> None:
    """Change bytes of a pack in place."""
    with open(files.root / PACKS / pack, "r+b") as file:
        file.seek(offset)
        file.write(data)


def mapped_files() -> int:
    """How many parts of this process's memory are pages of packs."""
    return sum(".pack" in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_mapped_bytes_are_those_that_were_stored(files: LocalFiles) -> None:
    """Every byte is there, with its marks, in an array that owns its memory and gives it back."""
    store = ChunkStore(files)
    ref = put(store, NOISE)
    for how in ({"verify": False}, {"verify": True}):
        found = read(ref, store, files, **how)
        assert NOISE == bytes(found[0])
        assert mapped_files() > 0
        assert [id(memory) for memory in found] == [id(memory) for memory in found.mapped]
        marks = [] if how["verify"] else [marks_of(memoryview(NOISE), CHUNK_BYTES)]
        assert marks == list(found.marks)
        memory = found[0]
        del found
        memory.resize(LARGE + 5, refcheck=False)
        assert NOISE == bytes(memory[:-5])
        del memory
        assert mapped_files() == 0


def test_a_change_stays_in_the_process(files: LocalFiles) -> None:
    """What is written to mapped memory is not written to the pack."""
    store = ChunkStore(files)
    ref = put(store, NOISE)
    first = read(ref, store, files, verify=False)[0]
    first[:] = 7
    assert NOISE == bytes(read(ref, store, files, verify=False)[0])
    assert (7, 7) == (first.min(), first.max())


def test_an_array_of_which_parts_changed_is_mapped_in_parts(files: LocalFiles) -> None:
    """Chunks in other packs are read into their places between what is mapped."""
    store = ChunkStore(files)
    put(store, NOISE)
    changed = bytearray(NOISE)
    changed[10 * CHUNK_BYTES + 3] ^= 1
    changed[200 * CHUNK_BYTES] ^= 1
    changed[-1] ^= 1
    ref = put(store, bytes(changed))
    found = read(ref, store, files, verify=False)
    assert bytes(changed) == bytes(found[0])
    assert [marks_of(memoryview(changed), CHUNK_BYTES)] == list(found.marks)
    assert mapped_files() >= 3


def test_own_memory_does_not_follow_the_pack(files: LocalFiles) -> None:
    """Once copied, memory is what it was, whatever becomes of the pack."""
    store = ChunkStore(files)
    ref = put(store, NOISE)
    memory = read(ref, store, files, verify=False)[0]
    memory[5] ^= 1
    mapping.own(address_of(memory), memory.nbytes)
    for name in list(store.packs):
        os.truncate(files.root / PACKS / name, (files.root / PACKS / name).stat().st_size)
        overwrite(files, name, 0, bytes(LARGE))
    memory[5] ^= 1
    assert NOISE == bytes(memory)


def test_damage_in_mapped_pages_is_found_by_name(files: LocalFiles) -> None:
    """A changed byte changes a mark; by digests the chunk is refused, or read from another pack that has it whole."""
    store = ChunkStore(files)
    ref = put(store, NOISE)
    entry = store.entries(ref.chunks[9])[0]
    overwrite(files, entry.pack, entry.offset + 100, b"?!?")
    marks = read(ref, store, files, verify=False).marks[0]
    expected = marks_of(memoryview(NOISE), CHUNK_BYTES)
    assert [9] == [at for at, (one, other) in enumerate(zip(marks, expected, strict=True)) if one != other]
    with pytest.raises(Integrity, match=ref.chunks[9]):
        read(ref, store, files, verify=True)
    chunk = memoryview(NOISE)[9 * CHUNK_BYTES : 10 * CHUNK_BYTES]
    store.write_pack([(ref.chunks[9], chunk)])
    assert NOISE == bytes(read(ref, store, files, verify=True)[0])


def test_a_pack_that_is_too_short_is_an_error_and_no_signal(files: LocalFiles) -> None:
    """Where a pack was cut off nothing is mapped, and the chunk that is not there is named."""
    store = ChunkStore(files)
    ref = put(store, NOISE)
    entry = store.entries(ref.chunks[250])[0]
    os.truncate(files.root / PACKS / entry.pack, entry.offset + 5000)
    with pytest.raises(Integrity, match=ref.chunks[250]):
        read(ref, store, files, verify=True)


def test_where_the_system_does_not_map_the_memory_stays(files: LocalFiles) -> None:
    """A refused mapping leaves the memory as it was, and the bytes are read into it."""
    store = ChunkStore(files)
    ref = put(store, NOISE)
    entry = store.entries(ref.chunks[0])[0]
    memory = fresh(LARGE)
    memory[:] = 9
    with open(files.root / PACKS / entry.pack, "rb") as file:
        offset = address_of(memory) % mapping.PAGE
        assert mapping.map_pages(file.fileno(), offset + 1, address_of(memory), LARGE) is None
    assert mapping.map_pages(-1, offset, address_of(memory), LARGE) is None
    assert (9, 9) == (memory.min(), memory.max())


def test_bytearrays_are_read(files: LocalFiles) -> None:
    """Memory that nothing can hold weakly, and that may grow in place, is filled by reading."""
    store = ChunkStore(files)
    ref = put(store, NOISE)
    found = reading.read_buffers([ref], store, files, lambda digest: None, mapped=True, verify=False)
    assert (NOISE, []) == (bytes(found[0]), found.mapped)
    assert [marks_of(memoryview(NOISE), CHUNK_BYTES)] == list(found.marks)


def test_pages_that_cannot_be_read_are_read_once_more(files: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system refuses to bring a page, or to map it, the bytes are read in the other way."""
    store = ChunkStore(files)
    ref = put(store, NOISE)

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "fetch", refuse)
        assert NOISE == bytes(read(ref, store, files, verify=True)[0])
    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "map_into", lambda *_: False)
        found = read(ref, store, files, verify=True)
    assert (NOISE, []) == (bytes(found[0]), found.mapped)


def test_only_memory_that_is_mapped_for_itself_is_replaced(files: LocalFiles) -> None:
    """A part of the heap, a part of an array, memory of others and read-only memory stay what they are."""
    large = fresh(LARGE)
    assert isinstance(large, np.ndarray)
    assert mapping.can_map(memoryview(large)) == address_of(large)
    refused: list[Any] = [bytearray(100), large[4096:], fresh(3000), large[: LARGE // 2], bytes(LARGE)]
    assert [None] * 5 == [mapping.can_map(memoryview(memory)) for memory in refused]


def test_what_is_mapped_is_copied_as_long_as_it_is_there() -> None:
    """Memory is copied part by part, the rest of an array that is gone meanwhile is let go."""
    lazy = LazyNames(lambda *_: Memory(), {})
    copied: list[tuple[int, int]] = []
    lazy.own = lambda address, size_bytes: copied.append((address, size_bytes))
    first, second = fresh(LARGE), fresh(LARGE)
    lazy.mapped = [(weakref.ref(first), 100, 25), (weakref.ref(second), 200, 25)]
    lazy.own_some(10)
    del second
    while lazy.mapped:
        lazy.own_some(10)
    assert [(200, 10), (100, 10), (110, 10), (120, 5)] == copied
