"""Manifests on their way to bytes and back: canonical JSON, deltas, keyframes, signatures.

Called by `Workflow`; pure, so nothing is durable when a function here returns. A *body* is the JSON of one commit:
complete (a keyframe, `depth` 0) or the difference from its parent's manifest (`depth` deltas since the last keyframe,
at most `KEYFRAME_EVERY - 1`). A manifest *file* is the body as one line of canonical JSON, and one line with its
signature. FORMAT.md describes both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from durable_nb.errors import TRUSTING, Untrusted
from durable_nb.model import (
    BufferRef,
    CheckpointId,
    Delta,
    Digest,
    Group,
    GroupId,
    Json,
    Manifest,
    Unsaved,
    Variable,
)
from durable_nb.store.chunks import damaged, digest_of
from durable_nb.store.pending import names_now
from durable_nb.store.signing import SigningKey, canonical_json

__all__ = [
    "KEYFRAME_EVERY",
    "apply_body",
    "canonical",
    "chunks_of",
    "delta_body",
    "entries_of",
    "keyframe_body",
    "manifest_of",
    "open_signed",
    "ref_from_json",
    "ref_to_json",
    "sign",
    "with_entries",
]

KEYFRAME_EVERY = 64
FORMAT, FORMAT_WITH_DIFFERENCES = 1, 2
# A buffer of fewer chunks is told whole: that is hardly longer.
_DIFFERENCE_FROM = 4
_INT_LIMIT = 2**53
# Bytes signed as a manifest can never pass for a signed journal line, and the other way round.
_DOMAIN = b"durable_nb manifest\n"


def canonical(value: Json) -> bytes:
    """Return the one encoding of a JSON value: sorted keys, no spaces, UTF-8; ValueError for what JSON cannot say."""
    _check(value)
    return canonical_json(value)


def _check(value: Json) -> None:
    """Refuse what two readers may understand differently: big integers, keys that are no strings, odd types."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"a key of a JSON object must be a string, not {key!r}")
        items: Iterable[Json] = value.values()
    elif isinstance(value, list | tuple):
        items = value
    else:
        items = (value,)
    for item in items:
        kind = type(item)
        if kind is str or item is None:
            continue
        if isinstance(item, dict | list | tuple):
            _check(item)
        elif isinstance(item, int) and not -_INT_LIMIT <= item <= _INT_LIMIT:
            raise ValueError(f"the integer {item} is beyond 2**53; store it as text")


def ref_to_json(ref: BufferRef) -> dict[str, Json]:
    """Encode a buffer reference; chunks that have no name yet are in it as places (`store.pending`)."""
    return {"size_bytes": ref.size_bytes, "chunk_bytes": ref.chunk_bytes, "chunks": list(names_now(ref.chunks))}


def ref_from_json(data: Mapping[str, Json], parent: Manifest | None = None) -> BufferRef:
    """Decode a buffer reference; one that is told as a difference needs the manifest that it differs from."""
    if "like" not in data:
        chunks = [Digest(c) for c in data["chunks"]]
    else:
        if parent is None:
            raise ValueError("a buffer differs from one of a manifest that is not there")
        group_id, buffer = data["like"]
        before = _buffers(parent.groups[GroupId(group_id)])[buffer]
        # Without waiting for what is in flight: its places are as good here.
        chunks = [Digest(c) for c in names_now(before.chunks)]
        count = -(-data["size_bytes"] // data["chunk_bytes"])
        chunks = chunks[:count] + [Digest("")] * (count - len(chunks))
        for index, digest in data["changed"].items():
            chunks[int(index)] = Digest(digest)
    return BufferRef(size_bytes=data["size_bytes"], chunk_bytes=data["chunk_bytes"], chunks=tuple(chunks))


def entries_of(ref: dict[str, Json]) -> list[str]:
    """Return the digests (or the places that stand for them) that an encoded reference names itself."""
    if "like" not in ref:
        return list(ref["chunks"])
    return [digest for _, digest in sorted(ref["changed"].items(), key=lambda at: int(at[0]))]


def with_entries(ref: dict[str, Json], entries: Sequence[str]) -> None:
    """Put other digests into an encoded reference, in the order of `entries_of`."""
    if "like" not in ref:
        ref["chunks"] = list(entries)
    else:
        order = sorted(ref["changed"], key=int)
        ref["changed"] = dict(zip(order, entries, strict=True))


def _buffers(group: Group) -> tuple[BufferRef, ...]:
    return (group.pickle, *group.buffers)


def _as_difference(ref: BufferRef, like: Group | None, index: int) -> dict[str, Json]:
    """Encode a reference by what differs from the same buffer of an earlier group, where that is shorter."""
    whole = ref_to_json(ref)
    if like is None or len(ref.chunks) < _DIFFERENCE_FROM or index > len(like.buffers):
        return whole
    before = _buffers(like)[index]
    if before.chunk_bytes != ref.chunk_bytes:
        return whole
    then, now = names_now(before.chunks), whole["chunks"]
    changed = {str(i): name for i, name in enumerate(now) if i >= len(then) or then[i] != name}
    if len(changed) > len(now) // 2:
        return whole
    return {
        "size_bytes": ref.size_bytes,
        "chunk_bytes": ref.chunk_bytes,
        "like": [like.group_id, index],
        "changed": changed,
    }


def delta_body(
    delta: Delta, groups: Mapping[GroupId, Group], parent: Manifest | None, workflow_id: str, depth: int
) -> dict[str, Json]:
    """Encode a delta as a body; a first checkpoint (no parent) is a keyframe by itself."""
    if parent is None:
        depth = 0
    body = _header(delta.checkpoint_id, delta.parent, workflow_id, depth)
    names = {name: v for name, v in delta.names.items() if v is not None or parent is not None}
    body["names"] = {name: None if v is None else _variable_to_json(v) for name, v in names.items()}
    kept = {group.group_id: group for group in delta.kept}
    body["groups"] = {gid: _group_to_json(group) for gid, group in kept.items()}
    for gid, group in groups.items():
        told = body["groups"][gid] = _group_to_json(group, _earlier(group, parent))
        if any("like" in ref for ref in (told["pickle"], *told["buffers"])):
            body["format"] = FORMAT_WITH_DIFFERENCES
    for part in ("process", "shell", "versions"):
        entries: Mapping[str, Json] = getattr(delta, part)
        body[part] = {k: v for k, v in entries.items() if v is not None or parent is not None}
    body["unsaved"] = [_unsaved_to_json(u) for u in delta.unsaved]
    return body


def _earlier(group: Group, parent: Manifest | None) -> Group | None:
    """Return the group that held the same variables before, as far as one did."""
    before = parent.names.get(group.names[0]) if parent is not None and group.names else None
    return None if before is None or parent is None else parent.groups[before.group_id]


def keyframe_body(manifest: Manifest, workflow_id: str) -> dict[str, Json]:
    """Encode a complete manifest as a body that needs no other."""
    body = _header(manifest.checkpoint_id, manifest.parent, workflow_id, 0)
    body["names"] = {name: _variable_to_json(v) for name, v in manifest.names.items()}
    body["groups"] = {gid: _group_to_json(group) for gid, group in manifest.groups.items()}
    body["process"] = dict(manifest.process)
    body["shell"] = dict(manifest.shell)
    body["versions"] = dict(manifest.versions)
    body["unsaved"] = [_unsaved_to_json(u) for u in manifest.unsaved]
    return body


def _header(checkpoint_id: str, parent: str | None, workflow_id: str, depth: int) -> dict[str, Json]:
    return {
        "format": FORMAT,
        "workflow_id": workflow_id,
        "checkpoint_id": checkpoint_id,
        "parent": parent,
        "depth": depth,
    }


def manifest_of(body: Mapping[str, Json]) -> Manifest:
    """Decode a keyframe."""
    return apply_body(None, body)


def apply_body(parent: Manifest | None, body: Mapping[str, Json]) -> Manifest:
    """Return the manifest that a body makes of its parent's (of nothing, for a keyframe).

    Groups that no name and no process entry uses are gone. ValueError when a name or a process entry uses a group
    that is not there: such a delta must not be stored.
    """
    if body["depth"] == 0:
        parent = None
    names: dict[str, Variable] = dict(parent.names) if parent else {}
    for name, data in body["names"].items():
        if data is None:
            names.pop(name, None)
        else:
            names[name] = _variable_from_json(data)
    groups: dict[GroupId, Group] = dict(parent.groups) if parent else {}
    groups.update((GroupId(gid), _group_from_json(gid, data, parent)) for gid, data in body["groups"].items())
    process = _replaced(parent.process if parent else {}, body["process"])
    used = {v.group_id for v in names.values()} | _process_groups(process)
    if absent := used - groups.keys():
        raise ValueError(f"checkpoint {body['checkpoint_id']} uses groups that it does not hold: {sorted(absent)}")
    return Manifest(
        checkpoint_id=CheckpointId(body["checkpoint_id"]),
        parent=None if body["parent"] is None else CheckpointId(body["parent"]),
        names=names,
        groups={gid: group for gid, group in groups.items() if gid in used},
        process=process,
        shell=_replaced(parent.shell if parent else {}, body["shell"]),
        unsaved=tuple(Unsaved(**data) for data in body["unsaved"]),
        versions=_replaced(parent.versions if parent else {}, body["versions"]),
    )


def chunks_of(body: Mapping[str, Json]) -> set[str]:
    """Return the digests of every chunk that a body names."""
    found: set[str] = set()
    for group in body["groups"].values():
        for ref in (group["pickle"], *group["buffers"]):
            found.update(entries_of(ref))
    return found


def sign(body: bytes, key: SigningKey) -> bytes:
    """Return the manifest file for a canonical body: the body and a line with its signature."""
    trailer = {"key_id": key.key_id, "hmac_sha256": key.sign(_DOMAIN + body)}
    return body + b"\n" + canonical(trailer) + b"\n"


def open_signed(
    name: str, content: bytes, *, digest: str, key: SigningKey, trusts: Callable[[bytes], bool]
) -> dict[str, Json]:
    """Return the body of a manifest file after checking its digest and its signature.

    Integrity when it is not the file that the journal names; Untrusted when another key, or none, signed it, unless
    `trusts` accepts the whole file.
    """
    body, _, trailer = content.partition(b"\n")
    if digest_of(body) != digest:
        raise damaged(f"manifest {name}", "its content is not what the journal recorded", actual=digest_of(body))
    try:
        signature = json.loads(trailer) if trailer.endswith(b"\n") else {}
        key_id, mac = str(signature.get("key_id", "")), str(signature.get("hmac_sha256", ""))
    except (ValueError, AttributeError) as error:
        raise damaged(f"manifest {name}", "its signature line is not readable") from error
    proved = key.verify(_DOMAIN + body, mac)
    if key_id == key.key_id and not proved:
        raise damaged(f"manifest {name}", "its signature is altered")
    if not (proved and key_id == key.key_id) and not trusts(content):
        raise Untrusted(
            f"Manifest {name} is not signed with your key, so nothing in it was read or run.",
            hint=TRUSTING,
            object=f"manifest {name}",
        )
    return cast(dict[str, Json], json.loads(body))


def _replaced(parent: Mapping[str, Json], changes: Mapping[str, Json]) -> dict[str, Json]:
    merged = {**parent, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _process_groups(process: Mapping[str, Json]) -> set[GroupId]:
    return {GroupId(v["group"]) for v in process.values() if isinstance(v, dict) and v.keys() == {"group"}}


def _variable_to_json(v: Variable) -> dict[str, Json]:
    return {
        "group_id": v.group_id,
        "version": v.version,
        "type": v.type,
        "size_bytes": v.size_bytes,
        "digest": v.digest,
        "made_by": v.made_by,
    }


def _variable_from_json(data: Mapping[str, Json]) -> Variable:
    return Variable(
        group_id=GroupId(data["group_id"]),
        version=CheckpointId(data["version"]),
        type=data["type"],
        size_bytes=data["size_bytes"],
        digest=data["digest"],
        made_by=data["made_by"],
    )


def _group_to_json(group: Group, like: Group | None = None) -> dict[str, Json]:
    return {
        "names": list(group.names),
        "codec": group.codec,
        "pickle": _as_difference(group.pickle, like, 0),
        "buffers": [_as_difference(b, like, i) for i, b in enumerate(group.buffers, 1)],
        "deps": list(group.deps),
        "types": list(group.types),
        **({"digest": group.digest} if group.digest else {}),
    }


def _group_from_json(group_id: str, data: Mapping[str, Json], parent: Manifest | None) -> Group:
    buffers: Sequence[Mapping[str, Json]] = data["buffers"]
    return Group(
        group_id=GroupId(group_id),
        names=tuple(data["names"]),
        codec=data["codec"],
        pickle=ref_from_json(data["pickle"], parent),
        buffers=tuple(ref_from_json(b, parent) for b in buffers),
        deps=tuple(data["deps"]),
        types=tuple(data["types"]),
        digest=data.get("digest", ""),
    )


def _unsaved_to_json(u: Unsaved) -> dict[str, Json]:
    return {"name": u.name, "path": u.path, "type": u.type, "reason": u.reason, "made_by": u.made_by}
