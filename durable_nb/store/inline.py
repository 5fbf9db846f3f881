"""Small bytes inside JSON: chunks that ride in an event, and attachments. Pure; called by `Workflow`.

Nothing is durable here; the journal's chain and the chunk's own digest say whether what is read back is right.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from durable_nb.model import Json
from durable_nb.store.chunks import RAW, ZSTD, compress, damaged, decompress

__all__ = ["bytes_from", "bytes_to_json", "chunk_from_json", "chunk_to_json"]

_CODECS = {RAW: "raw", ZSTD: "zstd"}
_CODES = {name: code for code, name in _CODECS.items()}


def chunk_to_json(chunk: memoryview) -> dict[str, Json]:
    """Encode a chunk: codec, raw size, stored bytes in base64."""
    codec, stored = compress(chunk)
    return {"codec": _CODECS[codec], "size_bytes": len(chunk), "data": base64.b64encode(stored).decode("ascii")}


def chunk_from_json(digest: str, data: Mapping[str, Json]) -> bytes:
    """Decode a chunk and verify it against its digest; Integrity if it is not whole."""
    try:
        stored = base64.b64decode(data["data"], validate=True)
        codec, size_bytes = _CODES[data["codec"]], int(data["size_bytes"])
    except (binascii.Error, KeyError, ValueError) as error:
        raise damaged(f"chunk {digest}", "it is not encoded as a chunk in its event") from error
    return decompress(codec, stored, size_bytes, digest)


def bytes_to_json(content: bytes) -> dict[str, Json]:
    """Encode an attachment: as text where it is text, so that people and SQL can read it; in base64 otherwise."""
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def bytes_from(data: Mapping[str, Json]) -> bytes:
    """Decode an attachment."""
    text: str | None = data.get("text")
    return base64.b64decode(data["base64"]) if text is None else text.encode()
