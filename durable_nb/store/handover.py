"""The records of the hand-over log: one per commit, with everything that it takes to make it, whoever does.

Written by `Behind` in the kernel, read by the writer and, when both are gone, by the next kernel. Log and arena are
never synced: what is in them outlives every process and not the machine. FORMAT.md, section 5.7, describes them. A
record is carried out only if the user's key proves it, and the bytes in the arena with it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import xxhash

from durable_nb.errors import Integrity
from durable_nb.model import Digest, EventDraft, Json
from durable_nb.ports import Files
from durable_nb.store.manifests import entries_of, with_entries
from durable_nb.store.pending import parse_place
from durable_nb.store.signing import SigningKey, canonical_json

__all__ = [
    "FOLDER",
    "FORMAT",
    "Record",
    "arena_path",
    "draft_from_json",
    "draft_to_json",
    "encode_record",
    "fingerprint",
    "log_path",
    "named_body",
    "places_named_by",
    "read_record",
    "seed_of",
]

FOLDER = "inflight"
FORMAT = 1
_MAGIC = b"DNBHAND1"
_PREFIX = struct.Struct("<8sQQ")  # magic, length of the header, length of the bytes that ride in the record
_MAC_BYTES = 32
# A record is read into memory before its length is proved; none is longer than this.
_MOST_BYTES = 1 << 32
_DOMAIN = b"durable_nb hand-over\n"
_DATA_DOMAIN = b"durable_nb hand-over data\n"
_SEED_DOMAIN = b"durable_nb hand-over seed\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A proved record; `size_bytes` is what it takes in the log."""

    header: Mapping[str, Json]
    riding: bytes
    mac: bytes
    data_mac: bytes
    size_bytes: int

    @property
    def number(self) -> int:
        return int(self.header["number"])

    @property
    def in_arena(self) -> bool:
        return bool(self.header["in_arena"])

    def pieces(self, files: Files, folder: str) -> Iterator[bytes]:
        """Yield the bytes of each piece in order: new chunks, then attachments."""
        path = arena_path(folder, self.header["epoch"])
        for offset, length in zip(self.header["offsets"], self.header["lengths"], strict=True):
            piece = files.read(path, offset, length) if self.in_arena else self.riding[offset : offset + length]
            if len(piece) != length:
                raise _refused(path, offset, "its bytes are cut off")
            yield piece

    def proves(self, fingerprints: bytes, key: SigningKey) -> bool:
        """Say whether these are the fingerprints of the pieces as they were when the record was made."""
        return key.verify(_DATA_DOMAIN + self.mac + fingerprints, self.data_mac.hex())


def log_path(folder: str, epoch: int) -> str:
    """Return the log of the hand-overs of an epoch, in the folder of a workflow."""
    return f"{folder}/{FOLDER}/{epoch:06d}.log"


def arena_path(folder: str, epoch: int) -> str:
    """Return the file that the bytes of an epoch's hand-overs are in."""
    return f"{folder}/{FOLDER}/{epoch:06d}.arena"


def seed_of(nonce: str, key: SigningKey) -> int:
    """Return the secret seed of the fingerprints of a log."""
    return int(key.sign(_SEED_DOMAIN + nonce.encode())[:16], 16)


def fingerprint(data: bytes | memoryview, seed: int) -> bytes:
    """Return the keyed fingerprint of a piece: fast, and of no use to who has neither the seed nor the result."""
    return xxhash.xxh3_128_digest(data, seed)


def encode_record(header: Mapping[str, Json], riding: bytes, fingerprints: bytes, key: SigningKey) -> bytes:
    """Return the bytes of a record."""
    encoded = canonical_json(dict(header))
    signed = b"".join((_PREFIX.pack(_MAGIC, len(encoded), len(riding)), encoded, riding))
    mac = bytes.fromhex(key.sign(_DOMAIN + signed))
    data_mac = bytes.fromhex(key.sign(_DATA_DOMAIN + mac + fingerprints))
    return signed + mac + data_mac


def read_record(files: Files, path: str, offset: int, key: SigningKey) -> Record | None:
    """Return the record at `offset`, None at the end of the log; Integrity if it is torn or not the user's."""
    prefix = files.read(path, offset, _PREFIX.size)
    if not prefix:
        return None
    if len(prefix) < _PREFIX.size:
        raise _refused(path, offset, "it is cut off")
    magic, header_bytes, riding_bytes = _PREFIX.unpack(prefix)
    size_bytes = _PREFIX.size + header_bytes + riding_bytes + 2 * _MAC_BYTES
    if magic != _MAGIC or size_bytes > _MOST_BYTES:
        raise _refused(path, offset, "it is not one")
    content = files.read(path, offset, size_bytes)
    if len(content) < size_bytes:
        raise _refused(path, offset, "it is cut off")
    signed, macs = content[: -2 * _MAC_BYTES], content[-2 * _MAC_BYTES :]
    if not key.verify(_DOMAIN + signed, macs[:_MAC_BYTES].hex()):
        raise _refused(path, offset, "it is not signed with your key")
    header = json.loads(signed[_PREFIX.size : _PREFIX.size + header_bytes])
    if header["format"] != FORMAT:
        raise _refused(path, offset, f"it has the format {header['format']}")
    return Record(
        header=header,
        riding=signed[_PREFIX.size + header_bytes :],
        mac=macs[:_MAC_BYTES],
        data_mac=macs[_MAC_BYTES:],
        size_bytes=size_bytes,
    )


def _refused(path: str, offset: int, why: str) -> Integrity:
    return Integrity(
        f"The hand-over at byte {offset} of {path} was not carried out: {why}. Every earlier checkpoint is safe.",
        hint="Run the cells that come after the last checkpoint again.",
        object=path,
        expected="",
        actual="",
        kind="torn_tail",
    )


def draft_to_json(draft: EventDraft) -> dict[str, Json]:
    """Encode a draft."""
    return {
        "event_type": draft.event_type,
        "run_id": draft.run_id,
        "activity_id": draft.activity_id,
        "attempt": draft.attempt,
        "payload": dict(draft.payload),
        "metadata": dict(draft.metadata),
        "correlation": dict(draft.correlation),
    }


def draft_from_json(data: Mapping[str, Json]) -> EventDraft:
    """Decode a draft."""
    return EventDraft(**data)


def named_body(body: Json, known: Mapping[int, Sequence[Digest]]) -> Json:
    """Replace the places in a body by the digests of their chunks; KeyError for a hand-over that is not known."""

    def named(entry: str) -> str:
        at = parse_place(entry)
        return entry if at is None else known[at[0]][at[1]]

    for ref in _refs(body):
        with_entries(ref, [named(entry) for entry in entries_of(ref)])
    return body


def places_named_by(number: int, body: Json, durable: Json) -> Sequence[Digest]:
    """Return the digests of the chunks of a hand-over, from the body that was made of its own."""
    found: dict[int, Digest] = {}
    for mine, stored in zip(_refs(body), _refs(durable), strict=True):
        for entry, digest in zip(entries_of(mine), entries_of(stored), strict=True):
            at = parse_place(entry)
            if at is not None and at[0] == number:
                found[at[1]] = Digest(digest)
    # Every new chunk is named by its own commit, so there are no gaps.
    return [found[index] for index in range(len(found))]


def _refs(body: Json) -> Iterator[dict[str, Json]]:
    for _, group in sorted(body["groups"].items()):
        yield group["pickle"]
        yield from group["buffers"]
