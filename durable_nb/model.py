"""Frozen values that travel between the layers: events, checkpoints, groups, reads, outcomes.

Built by capture, store and engine; nothing in here does anything. Times are integers, microseconds since the
epoch, UTC. Sizes are bytes. Digests are lower-case hex SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NewType, TypeAlias

Json: TypeAlias = Any  # None, bool, int, float, str, list[Json], dict[str, Json]; ints beyond 2**53 are forbidden
Digest = NewType("Digest", str)
GroupId = NewType("GroupId", str)
CheckpointId = NewType("CheckpointId", str)

SCHEMA_VERSION = 1
_OTHERS = "*"  # stands in `inputs.process` for all components that are not named


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDraft:
    """An event before the journal has given it its place: everything but ids, time, sequence and hash."""

    event_type: str
    run_id: str
    activity_id: str | None = None
    attempt: int | None = None
    payload: Mapping[str, Json] = field(default_factory=dict)
    metadata: Mapping[str, Json] = field(default_factory=dict)
    correlation: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One immutable fact of the journal (the envelope of `kernel/PROTOCOL` and of the SQL table `events`)."""

    event_id: str
    event_type: str
    timestamp: int
    workflow_id: str
    run_id: str
    activity_id: str | None
    attempt: int | None
    kernel_id: str
    epoch: int
    seq: int
    payload: Mapping[str, Json]
    metadata: Mapping[str, Json]
    correlation: Mapping[str, Json]
    schema_version: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferRef:
    """Bytes in the store: the concatenation of `chunks`, each `chunk_bytes` long but the last; `size_bytes` in all.

    The digests of chunks that were handed over to the writer are known when it has named them: reading them waits.
    """

    size_bytes: int
    chunk_bytes: int
    chunks: Sequence[Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupData:
    """A captured group on its way to the store: one pickle and its out-of-band buffers, not yet named.

    `buffers` are contiguous, byte-shaped memoryviews that stay valid and unchanged until the commit returns. `marks`
    are those of the chunks of the pickle and of each buffer, where they are known (`chunking.marks_of`).
    """

    group_id: GroupId
    names: tuple[str, ...]
    codec: str
    pickle: bytes
    buffers: Sequence[memoryview] = ()
    marks: tuple[tuple[bytes, ...], ...] = ()
    deps: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A stored group: variables that share objects or memory, loaded together or not at all.

    `deps` are names of other groups' variables (classes, functions) that must be resolvable while it loads. `digest` is
    a fingerprint of all its bytes, where the digest of its only name is not one, and it has buffers.
    """

    group_id: GroupId
    names: tuple[str, ...]
    codec: str
    pickle: BufferRef
    buffers: tuple[BufferRef, ...] = ()
    deps: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    digest: str = ""

    @property
    def size_bytes(self) -> int:
        return self.pickle.size_bytes + sum(b.size_bytes for b in self.buffers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One name of a manifest: which group holds it, since which checkpoint its value is what it is, what it is.

    `version` is the id of the checkpoint in which the value last changed; `digest` a fingerprint of the content that
    proves equality when equal and nothing when different (empty: unknown).
    """

    group_id: GroupId
    version: CheckpointId
    type: str
    size_bytes: int
    digest: str = ""
    made_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsaved:
    """Something a checkpoint could not hold. `name` is a variable or spelt-out process state (`os.environ[X]`)."""

    name: str
    path: str
    type: str
    reason: str
    made_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The whole namespace at one checkpoint, resolved: what every name was, and the state around it.

    `process` maps a component (`random`, `cwd`, …) to its JSON value or, for what JSON cannot say, to a group id under
    `{"group": id}`; those groups are in `groups` with no names. `shell` holds execution count and the like.
    """

    checkpoint_id: CheckpointId
    parent: CheckpointId | None
    names: Mapping[str, Variable]
    groups: Mapping[GroupId, Group]
    process: Mapping[str, Json] = field(default_factory=dict)
    shell: Mapping[str, Json] = field(default_factory=dict)
    unsaved: tuple[Unsaved, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one commit changes, before it is stored: the engine builds it, `Workflow.commit` makes it true.

    `names` maps each changed name to its variable, or to None when it was deleted; a group that no remaining name
    (and no process entry) uses leaves the manifest by itself. `process`, `shell` and `versions` entries replace the
    parent's entry of the same key (None deletes it). `unsaved` is the complete new list. A process entry of the form
    `{"group": id}` names a group among `groups` that has no names.
    """

    checkpoint_id: CheckpointId
    parent: CheckpointId | None
    names: Mapping[str, Variable | None] = field(default_factory=dict)
    groups: Sequence[GroupData] = ()
    kept: Sequence[Group] = ()  # groups that an earlier checkpoint stored and this one brings back as they are
    process: Mapping[str, Json] = field(default_factory=dict)
    shell: Mapping[str, Json] = field(default_factory=dict)
    unsaved: tuple[Unsaved, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a commit made true: its event and the manifest that is now the head."""

    event: Event
    manifest: Manifest
    stored_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One recorded output in nbformat's shape: `kind` is stream, display_data, execute_result or error."""

    kind: str
    content: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding of `verify`: what is wrong with which object, and what it takes with it."""

    object: str
    kind: str  # missing | damaged | unsigned | orphan | torn_tail
    detail: str
    checkpoints: tuple[str, ...] = ()
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result of `verify`: counts, and the problems (none: everything that is reachable is whole)."""

    workflows: int
    events: int
    checkpoints: int
    chunks: int
    size_bytes: int
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """The result of `gc`: what was (or with dry_run would be) removed."""

    chunks: int
    packs: int
    manifests: int
    freed_bytes: int
    kept_bytes: int
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who holds a lease: pid + start time + boot id identify a process beyond pid reuse; `since` in µs UTC."""

    kernel_id: str
    pid: int
    process_start: str
    boot_id: str
    host: str
    since: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything an attempt depended on, as recorded when it completed.

    `names`: version of each name read, None when it was absent. `base`: the checkpoint its versions are taken from.
    `process`: digest of each component of process state it read; `unset` lists those that nothing in the run had set.
    `others_untouched`: all others, but for those that are nobody's input, were untouched, and nothing had set them.
    """

    names: Mapping[str, str | None] = field(default_factory=dict)
    base: CheckpointId | None = None
    process: Mapping[str, str] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    files: tuple[Json, ...] = ()
    depends: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    unknown: tuple[str, ...] = ()
    outside_effects: tuple[str, ...] = ()
    handles_absence: bool = False
    others_untouched: bool = False

    def to_json(self) -> dict[str, Json]:
        """Return what is not empty; a reader that does not know the mark of the others finds them changed."""
        found: dict[str, Json] = {
            "names": dict(self.names),
            "base": self.base,
            "process": {**({_OTHERS: "untouched"} if self.others_untouched else {}), **self.process},
            "unset": sorted(self.unset),
            "files": list(self.files),
            "depends": dict(self.depends),
            "modules": dict(self.modules),
            "key": self.key,
            "unknown": list(self.unknown),
            "outside_effects": list(self.outside_effects),
            "handles_absence": self.handles_absence,
        }
        return {key: value for key, value in found.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Inputs:
        process = dict(data.get("process", {}))
        others = process.pop(_OTHERS, None) is not None
        return cls(
            names=dict(data.get("names", {})),
            base=data.get("base"),
            process=process,
            others_untouched=others,
            unset=frozenset(data.get("unset", ())),
            files=tuple(data.get("files", ())),
            depends=dict(data.get("depends", {})),
            modules=dict(data.get("modules", {})),
            key=data.get("key", ""),
            unknown=tuple(data.get("unknown", ())),
            outside_effects=tuple(data.get("outside_effects", ())),
            handles_absence=bool(data.get("handles_absence", False)),
        )
