"""Content-addressed chunks in write-once packs: cut, hash, compress, pack; find and read again by digest.

Called by `Workflow.commit` and by `gc` and `verify`. When `PackWriter.finish` has returned, the pack and its name are
durable; a pack that no manifest reaches is garbage and harmless. A read returns verified bytes or raises Integrity.
The layout of a pack is FORMAT.md's.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import zstandard

from durable_nb.chunking import CHUNK_BYTES, MOST_CHUNK_BYTES, cut
from durable_nb.errors import Integrity
from durable_nb.model import BufferRef, Digest
from durable_nb.ports import Files, WritesTogether
from durable_nb.store.temporary import create_temporary, remove_temporary

__all__ = ["ChunkStore", "Entry", "PackWriter", "compress", "decompress", "digest_of"]

PACKS = "packs"

PACK_MAGIC = b"DNBPACK1"
RECORD_MAGIC = b"DNBC"
END_MAGIC = b"DNBPEND1"
# How a chunk is stored: as it is, as one zstd frame, or as it is and without a header of its own, in an extent.
RAW, ZSTD, BARE = 0, 1, 2
# Record header: magic, codec, three zero bytes, raw length, stored length, SHA-256 of the raw bytes; then the bytes.
RECORD = struct.Struct("<4sB3xQQ32s")
EXTENT_MAGIC = b"DNBX"
# Extent header: magic, number of chunks, length of each, length of the zeros behind the digests; then the digests (32
# bytes each), the zeros, and the chunks without anything in between, so that they can be mapped into memory as one.
EXTENT = struct.Struct("<4s4xQQQ")
DIGEST_BYTES = 32
EXTENT_CHUNKS = 128  # of each extent at most: a reader of a pack without its index can tell a length from noise
_EXTENT_FROM = 8  # chunks: below that a record each is smaller
# The first chunk of an extent begins so far behind the beginning of a page: where the C library puts large blocks, so
# that the pages of a file can take the place of those of an array.
PAGE_BYTES, BEHIND_BYTES = 4096, 16
# Footer entry: SHA-256, offset of the record header (of the bytes themselves in an extent), raw length, stored length,
# codec, seven zero bytes.
ENTRY = struct.Struct("<32sQQQB7x")
# Trailer, the last bytes of a pack: SHA-256 of the footer entries, their number, magic.
TRAILER = struct.Struct("<32sQ8s")
_TAIL_BYTES = 16 * 1024
_BUFFER_BYTES = 1024 * 1024
_SAMPLE_BYTES = 16 * 1024
_SAMPLE_FROM_BYTES = 256 * 1024
_ZSTD_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a chunk lies: the pack, the offset of its record header (BARE: of its bytes), the lengths, the codec."""

    pack: str
    digest: Digest
    offset: int
    raw_bytes: int
    stored_bytes: int
    codec: int

    @property
    def record_bytes(self) -> int:
        return (DIGEST_BYTES if self.codec == BARE else RECORD.size) + self.stored_bytes


def digest_of(data: bytes | memoryview) -> Digest:
    """Return the name of a chunk: the lower-case hex SHA-256 of its raw bytes."""
    return Digest(hashlib.sha256(data).hexdigest())


def compress(data: bytes | memoryview) -> tuple[int, bytes | memoryview]:
    """Return (codec, stored bytes): zstd where it shrinks the data by a tenth, else the data itself."""
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
    size_bytes = len(data)
    if size_bytes >= _SAMPLE_FROM_BYTES:
        # Trying costs more than writing on data that does not shrink, so three pieces speak for the whole.
        places = (0, size_bytes // 2, size_bytes - _SAMPLE_BYTES)
        sample = b"".join(bytes(data[at : at + _SAMPLE_BYTES]) for at in places)
        if len(compressor.compress(sample)) > 0.9 * len(sample):
            return RAW, data
    packed = compressor.compress(data)
    return (ZSTD, packed) if len(packed) <= 0.9 * size_bytes else (RAW, data)


def decompress(codec: int, stored: bytes, raw_bytes: int, digest: str) -> bytes:
    """Return the raw bytes of a chunk after checking them against its name; raise Integrity otherwise."""
    if raw_bytes > MOST_CHUNK_BYTES or codec not in {RAW, ZSTD, BARE}:
        raise damaged(digest, "its header is not one of a chunk")
    data = stored
    if codec == ZSTD:
        try:
            data = zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_bytes)
        except zstandard.ZstdError as error:
            raise damaged(digest, f"it does not decompress ({error})") from error
    actual = digest_of(data)
    if actual != digest:
        raise damaged(digest, f"its content has the digest {actual[:12]}…", actual=actual)
    return data


def damaged(object_: str, detail: str, *, actual: str = "") -> Integrity:
    """Build the error for an object that is there and not what it should be."""
    return Integrity(
        f"{object_} is damaged: {detail}. Nothing was changed.",
        hint="Type `durable-nb verify` to see which checkpoints it takes with it.",
        object=object_,
        expected=object_,
        actual=actual,
        kind="damaged",
    )


def missing(object_: str) -> Integrity:
    """Build the error for an object that is not there."""
    return Integrity(
        f"{object_} is missing. Nothing was changed.",
        hint="Type `durable-nb verify` to see which checkpoints it takes with it.",
        object=object_,
        expected=object_,
        actual="",
        kind="missing",
    )


class ChunkStore:
    """The packs of one repository and the index over them, kept in memory."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._packs: dict[str, tuple[Entry, ...]] = {}
        self._index: dict[Digest, list[Entry]] = {}
        self._writes = False
        self.torn: dict[str, str] = {}  # pack: what is wrong with its frame

    def __contains__(self, digest: object) -> bool:
        return digest in self._index

    @property
    def packs(self) -> dict[str, tuple[Entry, ...]]:
        """The entries of every known pack."""
        return self._packs

    def refresh(self, *, durable: bool) -> None:
        """Learn the packs that are there now; with `durable`, and ever after, make sure first that they will stay."""
        self._writes |= durable
        found = {name: size for name, size in self._files.list(PACKS) if name.endswith(".pack")}
        if self._writes:
            # A pack whose writer was killed before its folder sync is visible and may still vanish; a commit that
            # reuses its chunks would vanish in part with it. After the listing, so that all that was listed stays.
            self._files.sync_folder(PACKS)
        for name in [name for name in self._packs if name not in found]:
            self.forget(name)
        for name in [name for name in found if name not in self._packs]:
            try:
                self._add(name, load_index(self._files, name, found[name]))
            except FileNotFoundError:
                continue  # Collected by another process since the listing.
            except Integrity as error:
                self.torn[name] = error.message
                self._add(name, list(scan(self._files, name, found[name])))

    def forget(self, pack: str) -> None:
        """Drop a pack from the index because its file is gone or about to go."""
        for entry in self._packs.pop(pack, ()):
            left = [e for e in self._index[entry.digest] if e.pack != pack]
            if left:
                self._index[entry.digest] = left
            else:
                del self._index[entry.digest]
        self.torn.pop(pack, None)

    def put(self, data: memoryview) -> tuple[BufferRef, dict[Digest, memoryview]]:
        """Name the chunks of a buffer; return its reference, and its chunks that are in no pack yet."""
        named = [(digest_of(chunk), chunk) for chunk in cut(data, CHUNK_BYTES)]
        ref = BufferRef(size_bytes=len(data), chunk_bytes=CHUNK_BYTES, chunks=tuple(digest for digest, _ in named))
        return ref, {digest: chunk for digest, chunk in named if digest not in self._index}

    def entries(self, digest: str) -> Sequence[Entry]:
        """Return every place where a chunk lies; empty when it is in no known pack."""
        return self._index.get(Digest(digest), ())

    def get(self, digest: str) -> bytes:
        """Return the verified bytes of a chunk; Integrity when no pack holds it whole."""
        try:
            return self._get(digest)
        except (Integrity, FileNotFoundError):
            # Another process may have stored it, or moved it to another pack, since the index was built.
            self.refresh(durable=False)
            return self._get(digest)

    def read_record(self, entry: Entry) -> bytes:
        """Return the stored bytes of a record after checking its header, if it has one, against the index."""
        if entry.codec == BARE:
            data = self._files.read(f"{PACKS}/{entry.pack}", entry.offset, entry.stored_bytes)
            if len(data) != entry.stored_bytes:
                raise damaged(entry.digest, f"the pack {entry.pack} is cut off before it")
            return data
        record = self._files.read(f"{PACKS}/{entry.pack}", entry.offset, entry.record_bytes)
        header = RECORD.pack(
            RECORD_MAGIC, entry.codec, entry.raw_bytes, entry.stored_bytes, bytes.fromhex(entry.digest)
        )
        if len(record) != entry.record_bytes or record[: RECORD.size] != header:
            raise damaged(entry.digest, f"its record in the pack {entry.pack} is cut off or altered")
        return record[RECORD.size :]

    def read_entry(self, entry: Entry) -> bytes:
        """Return the verified raw bytes of one record."""
        return decompress(entry.codec, self.read_record(entry), entry.raw_bytes, entry.digest)

    def write_pack(self, chunks: Iterable[tuple[Digest, memoryview]]) -> int:
        """Store chunks in one new pack, durably; return its size in bytes (0: nothing to store)."""
        writer: PackWriter | None = None
        try:
            for digest, chunk in chunks:
                writer = writer or PackWriter(self._files)
                codec, stored = compress(chunk)
                writer.add(digest, codec, len(chunk), stored)
            return self._finish(writer)[1] if writer is not None else 0
        except BaseException:
            if writer is not None:
                writer.abandon()
            raise

    def open_pack(self) -> PackWriter:
        """Begin a new pack; hand it to `finish_pack`, or abandon it."""
        return PackWriter(self._files)

    def finish_pack(self, writer: PackWriter) -> None:
        """Make a pack durable, and its chunks count as stored."""
        self._finish(writer)

    def copy_records(self, entries: Iterable[Entry]) -> str:
        """Store verified records of other packs in one new pack, durably; return its name."""
        writer = PackWriter(self._files)
        try:
            for entry in entries:
                stored = self.read_record(entry)
                decompress(entry.codec, stored, entry.raw_bytes, entry.digest)
                writer.add(entry.digest, RAW if entry.codec == BARE else entry.codec, entry.raw_bytes, stored)
            return self._finish(writer)[0]
        except BaseException:
            writer.abandon()
            raise

    def _finish(self, writer: PackWriter) -> tuple[str, int]:
        name, entries, size_bytes = writer.finish()
        # Only now: a chunk counts as present when its pack's content and name are durable.
        self.forget(name)
        self._add(name, entries)
        return name, size_bytes

    def _get(self, digest: str) -> bytes:
        error: Integrity = missing(f"chunk {digest}")
        for entry in self._index.get(Digest(digest), ()):
            try:
                return self.read_entry(entry)
            except Integrity as found:
                error = found
        raise error

    def _add(self, pack: str, entries: Sequence[Entry]) -> None:
        self._packs[pack] = tuple(entries)
        for entry in entries:
            self._index.setdefault(entry.digest, []).append(entry)


class PackWriter:
    """One pack in the making, under `tmp/` until it is complete."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._path, self._file = create_temporary(files, "pack")
        self._buffer = bytearray(PACK_MAGIC)
        self._offset = len(PACK_MAGIC)
        self._entries: list[Entry] = []
        self._run: list[tuple[Digest, bytes | memoryview]] = []

    def add(self, digest: Digest, codec: int, raw_bytes: int, stored: bytes | memoryview) -> None:
        """Append one chunk; its bytes must stay as they are until some more have been added, or `finish`."""
        if codec == RAW and raw_bytes == CHUNK_BYTES:
            self._run.append((digest, stored))
            if len(self._run) == EXTENT_CHUNKS:
                self._end_run()
        else:
            self._end_run()
            self._add_record(digest, codec, raw_bytes, stored)

    def _end_run(self) -> None:
        """Write the whole raw chunks that were added one after the other: together, if they are many."""
        run, self._run = self._run, []
        if len(run) < _EXTENT_FROM:
            for digest, data in run:
                self._add_record(digest, RAW, CHUNK_BYTES, data)
            return
        digests = b"".join(bytes.fromhex(digest) for digest, _ in run)
        start = self._offset + EXTENT.size + len(digests)
        zeros = (BEHIND_BYTES - start) % PAGE_BYTES
        self._buffer += EXTENT.pack(EXTENT_MAGIC, len(run), CHUNK_BYTES, zeros) + digests + bytes(zeros)
        for at, (digest, _) in enumerate(run):
            self._entries.append(Entry("", digest, start + zeros + at * CHUNK_BYTES, CHUNK_BYTES, CHUNK_BYTES, BARE))
        self._write_together([data for _, data in run])
        self._offset = start + zeros + len(run) * CHUNK_BYTES

    def _write_together(self, pieces: Sequence[bytes | memoryview]) -> None:
        if isinstance(self._file, WritesTogether):
            # Mapped, the larger pages that this gives come ten times as fast.
            parts = [bytes(self._buffer), *pieces]
            self._buffer.clear()
            self._file.write_together(parts)
            return
        self._flush()
        for data in pieces:
            self._file.write(data)

    def _add_record(self, digest: Digest, codec: int, raw_bytes: int, stored: bytes | memoryview) -> None:
        self._entries.append(Entry("", digest, self._offset, raw_bytes, len(stored), codec))
        self._buffer += RECORD.pack(RECORD_MAGIC, codec, raw_bytes, len(stored), bytes.fromhex(digest))
        self._offset += RECORD.size + len(stored)
        if len(stored) >= _BUFFER_BYTES // 2:
            # A big raw chunk goes from the user's memory to the kernel without another copy.
            self._flush()
            self._file.write(stored)
        else:
            self._buffer += stored
            if len(self._buffer) >= _BUFFER_BYTES:
                self._flush()

    def finish(self) -> tuple[str, list[Entry], int]:
        """Make the pack durable under its final name; return the name, the entries and the size in bytes."""
        self._end_run()
        footer = b"".join(
            ENTRY.pack(bytes.fromhex(e.digest), e.offset, e.raw_bytes, e.stored_bytes, e.codec) for e in self._entries
        )
        digest = hashlib.sha256(footer)
        self._buffer += footer + TRAILER.pack(digest.digest(), len(self._entries), END_MAGIC)
        self._flush()
        self._file.sync()
        self._file.close()
        # The name follows from the content, so that storing the same chunks twice gives one pack with one layout.
        name = f"{digest.hexdigest()[:32]}.pack"
        self._files.rename(self._path, f"{PACKS}/{name}")
        self._files.sync_folder(PACKS)
        size_bytes = self._offset + len(footer) + TRAILER.size
        entries = [Entry(name, e.digest, e.offset, e.raw_bytes, e.stored_bytes, e.codec) for e in self._entries]
        return name, entries, size_bytes

    def abandon(self) -> None:
        """Take the unfinished file away as far as that is possible."""
        self._file.close()
        remove_temporary(self._files, self._path)

    def _flush(self) -> None:
        if self._buffer:
            self._file.write(bytes(self._buffer))
            self._buffer.clear()


def load_index(files: Files, pack: str, size_bytes: int) -> list[Entry]:
    """Read the entries of a pack from its footer; Integrity when the footer is not whole."""
    path = f"{PACKS}/{pack}"
    tail = files.read(path, max(0, size_bytes - _TAIL_BYTES), _TAIL_BYTES)
    if len(tail) < TRAILER.size:
        raise damaged(f"pack {pack}", "it is too short")
    digest, count, magic = TRAILER.unpack(tail[-TRAILER.size :])
    footer_bytes = count * ENTRY.size
    start = size_bytes - TRAILER.size - footer_bytes
    if magic != END_MAGIC or start < len(PACK_MAGIC):
        raise damaged(f"pack {pack}", "its index is cut off or altered")
    if footer_bytes + TRAILER.size > len(tail):
        tail = files.read(path, start, footer_bytes + TRAILER.size)
    footer = tail[len(tail) - TRAILER.size - footer_bytes : len(tail) - TRAILER.size]
    if hashlib.sha256(footer).digest() != digest:
        raise damaged(f"pack {pack}", "its index is altered")
    return [
        Entry(pack, Digest(d.hex()), offset, raw_bytes, stored_bytes, codec)
        for d, offset, raw_bytes, stored_bytes, codec in ENTRY.iter_unpack(footer)
    ]


def scan(files: Files, pack: str, size_bytes: int) -> Iterator[Entry]:
    """Find the records of a pack without its index, by stepping from header to header."""
    path = f"{PACKS}/{pack}"
    offset = len(PACK_MAGIC)
    while offset + RECORD.size <= size_bytes:
        head = files.read(path, offset, RECORD.size)
        if head[: len(EXTENT_MAGIC)] == EXTENT_MAGIC:
            found = _scan_extent(files, pack, offset, size_bytes)
            if not found:
                return
            yield from found
            offset = found[-1].offset + found[-1].stored_bytes
            continue
        magic, codec, raw_bytes, stored_bytes, digest = RECORD.unpack(head)
        if magic != RECORD_MAGIC or stored_bytes > MOST_CHUNK_BYTES or offset + RECORD.size + stored_bytes > size_bytes:
            return
        yield Entry(pack, Digest(digest.hex()), offset, raw_bytes, stored_bytes, codec)
        offset += RECORD.size + stored_bytes


def _scan_extent(files: Files, pack: str, offset: int, size_bytes: int) -> list[Entry]:
    """Return the chunks of an extent, none if its header cannot be one."""
    path = f"{PACKS}/{pack}"
    _, count, chunk_bytes, zeros = EXTENT.unpack(files.read(path, offset, EXTENT.size))
    start = offset + EXTENT.size + count * DIGEST_BYTES + zeros
    if count > EXTENT_CHUNKS or not 0 < chunk_bytes <= MOST_CHUNK_BYTES or start + count * chunk_bytes > size_bytes:
        return []
    digests = files.read(path, offset + EXTENT.size, count * DIGEST_BYTES)
    return [
        Entry(
            pack,
            Digest(digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES].hex()),
            start + at * chunk_bytes,
            chunk_bytes,
            chunk_bytes,
            BARE,
        )
        for at in range(count)
    ]
