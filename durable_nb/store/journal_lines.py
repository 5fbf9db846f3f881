"""The bytes of one journal line: written, and read back with proof of who wrote it.

Called by the journal only; pure. The layout is FORMAT.md, section "Journal line": the keyed hash comes first, the
payload last, and the hash covers the payload through its digest, so that a payload can be erased and the chain stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from durable_nb.model import Event, EventDraft, Json
from durable_nb.store.signing import SigningKey, canonical_json

__all__ = ["GENESIS", "BadLine", "Record", "encode_line", "parse_line"]

# What the first line of a workflow chains to.
GENESIS = "0" * 64
# Bytes signed as a journal line can never pass for a signed manifest, and the other way round.
_DOMAIN = b"durable_nb journal line\n"
_START = b'{"hash":"'
_SIGNED_FROM = len(_START) + 64 + len(b'",')
_PAYLOAD = b',"payload":'
_ERASED = _PAYLOAD + b"null}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A well-formed line: its event, what it chains to, its place in its batch, and whether our key proves it.

    `erased`: the payload was taken away on purpose; the line holds its place in the chain, but says nothing any more.
    """

    event: Event
    prev: str
    batch_index: int
    batch_size: int
    line: int
    proved: bool
    erased: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that is not what somebody wrote; `unsigned`: it is an event without a signature rather than damage."""

    line: int
    reason: str
    unsigned: bool = False


def encode_line(
    draft: EventDraft, place: Mapping[str, Json], *, prev: str, batch: tuple[int, int], key: SigningKey
) -> tuple[bytes, Event]:
    """Return the line (with its newline) and the event that it says; `place` holds what the journal adds to a draft."""
    payload = canonical_json(dict(draft.payload))
    head: dict[str, Json] = {
        **place,
        "activity_id": draft.activity_id,
        "attempt": draft.attempt,
        "batch": list(batch),
        "correlation": dict(draft.correlation),
        "event_type": draft.event_type,
        "key": key.key_id,
        "payload_bytes": len(payload),
        "payload_sha256": hashlib.sha256(payload).hexdigest(),
        "prev": prev,
        "run_id": draft.run_id,
    }
    signed = canonical_json(head)[1:-1] + _PAYLOAD
    line_hash = key.sign(_DOMAIN + signed)
    line = b"".join((_START, line_hash.encode(), b'",', signed, payload, b"}\n"))
    # The event is what a reader will get, not the draft: tuples have become lists, integer keys strings.
    return line, _event(json.loads(line), line_hash)


def parse_line(line: bytes, number: int, *, workflow_id: str, epoch: int, key: SigningKey) -> Record | BadLine:
    """Return the record of one line (without its newline), or what is wrong with it."""
    try:
        document = json.loads(line)
    except ValueError:
        return BadLine(line=number, reason="it is not JSON")
    if not isinstance(document, dict) or not line.startswith(_START) or not isinstance(document.get("key"), str):
        unsigned = isinstance(document, dict) and "event_type" in document
        return BadLine(line=number, reason="it is no journal line", unsigned=unsigned)
    try:
        event = _event(document, document["hash"])
        prev, (batch_index, batch_size) = document["prev"], document["batch"]
        erased = line.endswith(_ERASED)
        payload_bytes = len(b"null") if erased else document["payload_bytes"]
        payload = line[len(line) - 1 - payload_bytes : -1]
        signed = line[_SIGNED_FROM : len(line) - 1 - payload_bytes]
    except (KeyError, TypeError, ValueError):
        return BadLine(line=number, reason="fields are missing or of the wrong type")
    proved = key.verify(_DOMAIN + signed, event.hash)
    if not proved and document["key"] == key.key_id:
        return BadLine(line=number, reason="its hash does not fit, so it was changed")
    if event.workflow_id != workflow_id or event.epoch != epoch:
        return BadLine(line=number, reason="it belongs to another workflow or epoch")
    fits = erased or hashlib.sha256(payload).hexdigest() == document["payload_sha256"]
    if not signed.endswith(_PAYLOAD) or not fits:
        return BadLine(line=number, reason="its payload does not fit its digest")
    return Record(
        event=event,
        prev=prev,
        batch_index=batch_index,
        batch_size=batch_size,
        line=number,
        proved=proved,
        erased=erased,
    )


def _event(document: Mapping[str, Json], line_hash: str) -> Event:
    return Event(
        event_id=document["event_id"],
        event_type=document["event_type"],
        timestamp=document["timestamp"],
        workflow_id=document["workflow_id"],
        run_id=document["run_id"],
        activity_id=document["activity_id"],
        attempt=document["attempt"],
        kernel_id=document["kernel_id"],
        epoch=document["epoch"],
        seq=document["seq"],
        payload=document["payload"],
        metadata=document["metadata"],
        correlation=document["correlation"],
        schema_version=document["schema_version"],
        hash=line_hash,
    )
