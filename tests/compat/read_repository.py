"""An independent reader of a durable_nb repository, written from FORMAT.md alone.

It uses the standard library and zstandard, and imports nothing of durable_nb: what it reads, anybody can read in
twenty years. Run it as `python read_repository.py FOLDER KEYFILE` to list the checkpoints.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import struct
import sys
from pathlib import Path
from typing import Any

import zstandard

JOURNAL_DOMAIN = b"durable_nb journal line\n"
MANIFEST_DOMAIN = b"durable_nb manifest\n"
JOURNAL_NAME = re.compile(r"(\d{6,})-([A-Za-z0-9_-]+)(?:\.(\d+))?\.ndjson")
RECORD = struct.Struct("<4sB3xQQ32s")
ENTRY = struct.Struct("<32sQQQB7x")
TRAILER = struct.Struct("<32sQ8s")


class Damaged(Exception):
    """Something is not what the document says."""


def read_key(content: bytes) -> bytes:
    """Return the secret in a key file."""
    return content.strip()


def mac(key: bytes, data: bytes) -> str:
    """Return HMAC-SHA256 in hex."""
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def canonical(value: Any) -> bytes:
    """Return canonical JSON (without the rule for lone surrogates, which the example does not need)."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def whole(ref: dict[str, Any], parent: dict[str, Any]) -> dict[str, Any]:
    """Return a reference with all of its digests; one that is told as a difference takes the others from the parent."""
    if "like" not in ref:
        return ref
    group_id, index = ref["like"]
    group = parent["groups"][group_id]
    before = [group["pickle"], *group["buffers"]][index]
    if before["chunk_bytes"] != ref["chunk_bytes"]:
        raise Damaged("a buffer differs from one with chunks of another size")
    count = -(-ref["size_bytes"] // ref["chunk_bytes"])
    known = dict(enumerate(before["chunks"])) | {int(i): digest for i, digest in ref["changed"].items()}
    chunks = [known[i] for i in range(count)]
    return {"size_bytes": ref["size_bytes"], "chunk_bytes": ref["chunk_bytes"], "chunks": chunks}


class Repository:
    """Everything that can be read from one `.durable` folder."""

    def __init__(self, root: Path, key: bytes) -> None:
        mark = json.loads((root / "FORMAT").read_bytes())
        if mark["format"] != "durable_nb" or mark["version"] not in (1, 2):
            raise Damaged("not a repository of version 1 or 2")
        self.root = root
        self.key = key
        self.chunks = self._index_packs()

    def workflows(self) -> dict[str, Workflow]:
        """Return the workflows by id."""
        found = {}
        for folder in sorted((self.root / "workflows").iterdir()):
            workflow_id = json.loads((folder / "workflow.json").read_bytes())["workflow_id"]
            found[workflow_id] = Workflow(self, folder, workflow_id)
        return found

    def _index_packs(self) -> dict[str, tuple[Path, int, int, int, int]]:
        index: dict[str, tuple[Path, int, int, int, int]] = {}
        for path in sorted((self.root / "packs").glob("*.pack")):
            content = path.read_bytes()
            digest, count, magic = TRAILER.unpack(content[-TRAILER.size :])
            footer = content[len(content) - TRAILER.size - count * ENTRY.size : len(content) - TRAILER.size]
            if content[:8] != b"DNBPACK1" or magic != b"DNBPEND1" or hashlib.sha256(footer).digest() != digest:
                raise Damaged(f"{path.name} is not whole")
            if path.name != f"{digest.hex()[:32]}.pack":
                raise Damaged(f"{path.name} has another name than its content")
            for name, offset, raw_bytes, stored_bytes, codec in ENTRY.iter_unpack(footer):
                index[name.hex()] = (path, offset, raw_bytes, stored_bytes, codec)
        return index

    def chunk(self, digest: str) -> bytes:
        """Return a chunk from its pack."""
        path, offset, raw_bytes, stored_bytes, codec = self.chunks[digest]
        with path.open("rb") as file:
            file.seek(offset)
            header = b"" if codec == 2 else file.read(RECORD.size)
            stored = file.read(stored_bytes)
        if codec != 2 and header != RECORD.pack(b"DNBC", codec, raw_bytes, stored_bytes, bytes.fromhex(digest)):
            raise Damaged(f"the record of chunk {digest} does not fit its index entry")
        return unpack_chunk(digest, codec, raw_bytes, stored)


def unpack_chunk(digest: str, codec: int, raw_bytes: int, stored: bytes) -> bytes:
    """Return the raw bytes of a chunk, checked."""
    raw = zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_bytes) if codec == 1 else stored
    if len(raw) != raw_bytes or hashlib.sha256(raw).hexdigest() != digest:
        raise Damaged(f"chunk {digest} is not what its name says")
    return raw


class Workflow:
    """The history of one notebook."""

    def __init__(self, repository: Repository, folder: Path, workflow_id: str) -> None:
        self.repository = repository
        self.folder = folder
        self.workflow_id = workflow_id
        self.events = self._read_journal()
        self.inline: dict[str, dict[str, Any]] = {}
        self.places: dict[str, dict[str, Any]] = {}
        deleted = set()
        for event in self.events:
            checkpoint = event["payload"].get("checkpoint")
            if checkpoint is not None:
                self.places[checkpoint["id"]] = checkpoint
                self.inline.update(checkpoint.get("inline", {}).get("chunks", {}))
            elif event["event_type"] == "CheckpointDeleted":
                deleted.add(event["payload"]["checkpoint_id"])
                for child, place in event["payload"]["rebased"].items():
                    self.places[child] = place
        self.checkpoints = [name for name in self.places if name not in deleted]

    def restore(self, checkpoint_id: str) -> dict[str, tuple[bytes, list[bytes]]]:
        """Return for every variable the pickle and the buffers of the group that holds it."""
        manifest = self.manifest(checkpoint_id)
        loaded = {
            group_id: (self._buffer(group["pickle"]), [self._buffer(ref) for ref in group["buffers"]])
            for group_id, group in manifest["groups"].items()
        }
        return {name: loaded[variable["group_id"]] for name, variable in manifest["names"].items()}

    def manifest(self, checkpoint_id: str) -> dict[str, Any]:
        """Return the complete manifest of a checkpoint: its keyframe and the deltas since."""
        body = self._body(checkpoint_id)
        parent: dict[str, Any] = {part: {} for part in ("names", "groups", "process", "shell", "versions")}
        if body["depth"] > 0:
            parent = self.manifest(body["parent"])
        result = dict(body)
        for group in body["groups"].values():
            if group is not None:
                group["pickle"] = whole(group["pickle"], parent)
                group["buffers"] = [whole(ref, parent) for ref in group["buffers"]]
        for part in ("names", "groups", "process", "shell", "versions"):
            merged = {**parent[part], **body[part]}
            result[part] = {key: value for key, value in merged.items() if value is not None}
        used = {variable["group_id"] for variable in result["names"].values()}
        used |= {v["group"] for v in result["process"].values() if isinstance(v, dict) and set(v) == {"group"}}
        result["groups"] = {key: value for key, value in result["groups"].items() if key in used}
        return result

    def attachment(self, event: dict[str, Any], name: str) -> bytes:
        """Return what is attached to an event."""
        stored = event["payload"]["attachments"][name]
        if "text" in stored:
            return str(stored["text"]).encode()
        return self._buffer(stored["buffer"]) if "buffer" in stored else base64.b64decode(stored["base64"])

    def _body(self, checkpoint_id: str) -> dict[str, Any]:
        place = self.places[checkpoint_id]
        if "inline" in place:
            body: dict[str, Any] = place["inline"]["body"]
        else:
            encoded, trailer, rest = (self.folder / "manifests" / place["manifest"]).read_bytes().split(b"\n")
            signature = json.loads(trailer)
            if rest or hashlib.sha256(encoded).hexdigest() != place["digest"]:
                raise Damaged(f"{place['manifest']} is not what the journal recorded")
            if not hmac.compare_digest(mac(self.repository.key, MANIFEST_DOMAIN + encoded), signature["hmac_sha256"]):
                raise Damaged(f"{place['manifest']} is not signed with this key")
            body = json.loads(encoded)
            if canonical(body) != encoded or len(encoded) != place["size_bytes"]:
                raise Damaged(f"{place['manifest']} is not canonical")
        if body["format"] not in (1, 2) or (body["workflow_id"], body["checkpoint_id"]) != (
            self.workflow_id,
            checkpoint_id,
        ):
            raise Damaged(f"the body of {checkpoint_id} belongs elsewhere")
        return body

    def _buffer(self, ref: dict[str, Any]) -> bytes:
        pieces = []
        for position, digest in enumerate(ref["chunks"]):
            if digest in self.inline:
                stored = self.inline[digest]
                codec = {"raw": 0, "zstd": 1}[stored["codec"]]
                piece = unpack_chunk(digest, codec, stored["size_bytes"], base64.b64decode(stored["data"]))
            else:
                piece = self.repository.chunk(digest)
            if position < len(ref["chunks"]) - 1 and len(piece) != ref["chunk_bytes"]:
                raise Damaged("a chunk that is not the last one is short")
            pieces.append(piece)
        content = b"".join(pieces)
        if len(content) != ref["size_bytes"]:
            raise Damaged("a buffer has another size than its reference says")
        return content

    def _read_journal(self) -> list[dict[str, Any]]:
        """Return the events; a torn tail is skipped, anything else that is not whole is an error here."""
        files = []
        for path in (self.folder / "journal").iterdir():
            match = JOURNAL_NAME.fullmatch(path.name)
            if match:
                files.append(((int(match[1]), match[2], int(match[3] or 0)), path))
        files.sort()
        parsed = [(position, self._parse(path)) for position, path in files]
        parsed = [(position, lines) for position, lines in parsed if lines]
        events: list[dict[str, Any]] = []
        last_hash, last_seq = "0" * 64, 0
        for number, ((epoch, kernel_id, _), lines) in enumerate(parsed):
            following = parsed[number + 1][1][0] if number + 1 < len(parsed) else None
            if following is not None:
                # The next file's first line decides what of this one counts.
                lines = [line for line in lines if line["seq"] < following["seq"]]
            elif lines[-1]["batch"][0] < lines[-1]["batch"][1]:
                # The last batch of all is torn, so it never happened.
                lines = lines[: -lines[-1]["batch"][0]]
            for line in lines:
                if (line["epoch"], line["kernel_id"], line["workflow_id"]) != (epoch, kernel_id, self.workflow_id):
                    raise Damaged("a line belongs elsewhere")
                if line["prev"] != last_hash or line["seq"] != last_seq + 1:
                    raise Damaged(f"the chain is broken at event {line['seq']}")
                last_hash, last_seq = line["hash"], line["seq"]
                events.append(line)
        return events

    def _parse(self, path: Path) -> list[dict[str, Any]]:
        """Return the lines of one file that verify, up to the first that does not."""
        lines: list[dict[str, Any]] = []
        for line in path.read_bytes().split(b"\n")[:-1]:
            try:
                document: dict[str, Any] = json.loads(line)
            except ValueError:
                break
            payload = line[-1 - document["payload_bytes"] : -1]
            signed = line[75 : -1 - document["payload_bytes"]]
            if not line.startswith(b'{"hash":"') or not signed.endswith(b',"payload":'):
                break
            if not hmac.compare_digest(mac(self.repository.key, JOURNAL_DOMAIN + signed), document["hash"]):
                break
            if hashlib.sha256(payload).hexdigest() != document["payload_sha256"]:
                break
            lines.append(document)
        return lines


def main() -> None:
    """List what is in a repository."""
    root, key_file = Path(sys.argv[1]), Path(sys.argv[2])
    for workflow_id, workflow in Repository(root, read_key(key_file.read_bytes())).workflows().items():
        print(f"{workflow_id}: {len(workflow.events)} events")
        for checkpoint_id in workflow.checkpoints:
            names = ", ".join(sorted(workflow.manifest(checkpoint_id)["names"]))
            print(f"  {checkpoint_id}: {names}")


if __name__ == "__main__":
    main()
