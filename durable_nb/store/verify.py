"""Verify and repair: check every object that a checkpoint needs, say what is lost with a damaged one, set it aside.

Called by `Repository.verify`. Verifying writes nothing. Repairing never deletes: damaged packs and manifests go to
`quarantine/` after what is whole in them was stored again, and checkpoints that cannot be restored any more are marked
by CheckpointCorrupted events, so that the newest whole one becomes the one to restore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from durable_nb.errors import UNSIGNED, Integrity, RepositoryError, Untrusted
from durable_nb.model import CheckpointId, Event, EventDraft, Owner, Problem, VerifyReport
from durable_nb.store.chunks import PACK_MAGIC, PACKS, ChunkStore, Entry
from durable_nb.store.explain import reading
from durable_nb.store.workflow import Workflow

if TYPE_CHECKING:
    from durable_nb.store.repository import Repository

__all__ = ["verify"]

QUARANTINE = "quarantine"


@dataclass(slots=True)
class _Findings:
    problems: list[Problem] = field(default_factory=list)
    # workflow id: checkpoint: the object that it lost
    broken: dict[str, dict[CheckpointId, str]] = field(default_factory=dict)
    # workflow id: events whose attachments lost this object
    outputs: dict[str, list[tuple[Event, str]]] = field(default_factory=dict)
    manifests: list[str] = field(default_factory=list)  # paths of damaged manifest files
    chunks: dict[str, Integrity] = field(default_factory=dict)  # digest: what is wrong
    packs: set[str] = field(default_factory=set)  # packs with something damaged in them
    events: int = 0
    checkpoints: int = 0


def verify(repository: Repository, *, repair: bool, owner: Owner) -> VerifyReport:
    """Check the whole repository; with `repair`, set damaged objects aside and mark what is lost with them."""
    store = ChunkStore(repository.files)
    store.refresh(durable=False)
    findings = _Findings()
    checked: set[str] = set()
    ids = repository.workflow_ids()
    for workflow_id in ids:
        try:
            workflow = repository.workflow(workflow_id, kernel_id=owner.kernel_id, owner=None)
        except RepositoryError as error:
            findings.problems.append(_problem(workflow_id, error))
            continue
        try:
            _check_workflow(workflow, store, findings, checked)
        finally:
            workflow.close()
    _check_frames(repository, store, findings)
    if repair and findings.problems:
        _repair(repository, store, findings, checked, owner)
    return VerifyReport(
        workflows=len(ids),
        events=findings.events,
        checkpoints=findings.checkpoints,
        chunks=len(checked),
        size_bytes=sum(size for _, size in repository.files.list(PACKS)),
        problems=tuple(findings.problems),
    )


def _check_workflow(workflow: Workflow, store: ChunkStore, findings: _Findings, checked: set[str]) -> None:
    findings.problems += _journal_problems(workflow)
    findings.events += sum(1 for _ in workflow.events())
    kept = [info for info in workflow.checkpoints() if not info.corrupted]
    findings.checkpoints += len(kept)
    broken = findings.broken.setdefault(workflow.workflow_id, {})
    needs: dict[CheckpointId, set[str]] = {}
    unreadable: dict[CheckpointId, RepositoryError] = {}
    for info in kept:
        try:
            manifest = workflow.manifest(info.id)
            needs[info.id] = {
                digest
                for group in manifest.groups.values()
                for ref in (group.pickle, *group.buffers)
                for digest in ref.chunks
            }
        except RepositoryError as error:
            unreadable[info.id] = error
    _report_manifests(workflow, unreadable, findings)
    attached = workflow.attached_chunks()
    wanted = set().union(*needs.values(), attached)
    for digest in sorted(wanted):
        _check_chunk(workflow, store, digest, findings, checked)
    for digest in sorted(wanted & findings.chunks.keys()):
        hit = [cid for cid, needed in needs.items() if digest in needed]
        loss = findings.chunks[digest]
        broken.update((cid, f"chunk {digest}") for cid in hit)
        outputs = attached.get(digest, [])
        findings.outputs.setdefault(workflow.workflow_id, []).extend((event, f"chunk {digest}") for event in outputs)
        detail = f"{loss.message} Recorded outputs of a cell are lost with it." if outputs else loss.message
        findings.problems.append(_problem(f"chunk {digest}", loss, hit, detail))


def _journal_problems(workflow: Workflow) -> list[Problem]:
    """Return what the journal found, with the checkpoints whose events are lost: their numbers are not there."""
    lost = workflow.lost_checkpoints()
    found = []
    for problem in workflow.problems:
        hit: tuple[str, ...] = ()
        if problem.kind in {"damaged", "missing"} and lost:
            # A damaged line mostly still shows which checkpoint it was about; if not, it may be any of the lost ones.
            shown = tuple(cid for cid in lost if f'"id":"{cid}"' in _line(workflow, problem.object))
            hit = shown or tuple(lost)
        found.append(replace(problem, checkpoints=hit))
    return found


def _line(workflow: Workflow, place: str) -> str:
    path, _, number = place.rpartition(":")
    lines = workflow.read_file(path).split(b"\n")
    return lines[int(number) - 1].decode(errors="replace") if number.isdigit() and int(number) <= len(lines) else ""


def _report_manifests(
    workflow: Workflow, unreadable: Mapping[CheckpointId, RepositoryError], findings: _Findings
) -> None:
    """Report each manifest that cannot be read once, with every checkpoint that is built on it."""
    by_object: dict[str, list[CheckpointId]] = {}
    for cid, error in unreadable.items():
        by_object.setdefault(_object(cid, error), []).append(cid)
    for object_, hit in by_object.items():
        error = unreadable[hit[0]]
        findings.problems.append(_problem(object_, error, hit))
        if not isinstance(error, Untrusted):
            # A foreign manifest is whole: its checkpoints come back when the user trusts it.
            findings.broken[workflow.workflow_id].update((cid, object_) for cid in hit)
        if _kind(error) == "damaged" and object_.startswith("manifest "):
            findings.manifests.append(f"{workflow.folder}/manifests/{object_.removeprefix('manifest ')}")


def _check_chunk(workflow: Workflow, store: ChunkStore, digest: str, findings: _Findings, checked: set[str]) -> None:
    """Read a chunk at every place where it lies; it is lost only when none of them is whole."""
    if workflow.is_inline(digest):
        try:
            workflow.chunk(digest)
            checked.add(digest)
        except Integrity as error:
            findings.chunks[digest] = error
        return
    if digest in checked or digest in findings.chunks:
        return
    whole = False
    problem: Integrity | None = None
    for entry in store.entries(digest):
        try:
            with reading(f"chunk {digest}"):
                store.read_entry(entry)
            whole = True
        except Integrity as error:
            problem = error
            findings.packs.add(entry.pack)
    if whole:
        checked.add(digest)
    elif problem is not None:
        findings.chunks[digest] = problem
    else:
        findings.chunks[digest] = Integrity(
            f"chunk {digest} is missing.", object=digest, expected=digest, actual="", kind="missing"
        )


def _check_frames(repository: Repository, store: ChunkStore, findings: _Findings) -> None:
    """Check what no chunk covers: the index and the first bytes of each pack."""
    reported = {problem.object for problem in findings.problems}
    for pack in sorted(store.packs):
        torn = store.torn.get(pack)
        if torn is None and repository.files.read(f"{PACKS}/{pack}", 0, len(PACK_MAGIC)) != PACK_MAGIC:
            torn = f"pack {pack} is damaged: its first bytes are altered."
        if torn is None and pack in findings.packs and not any(o.startswith("chunk") for o in reported):
            torn = f"pack {pack} is damaged: another copy of what is damaged in it is whole."
        if torn is not None:
            findings.packs.add(pack)
            findings.problems.append(Problem(object=f"pack {pack}", kind="damaged", detail=torn))


def _repair(repository: Repository, store: ChunkStore, findings: _Findings, checked: set[str], owner: Owner) -> None:
    """Save what is whole, set aside what is not, mark what is lost; note in the problems what was repaired."""
    files = repository.files
    files.make_folder(QUARANTINE)
    for pack in sorted(findings.packs):
        whole = [entry for entry in store.packs[pack] if entry.digest in checked and _is_whole(store, entry)]
        # Under the same name the new pack has taken the damaged one's place, and there is nothing to set aside.
        if not whole or store.copy_records(whole) != pack:
            _set_aside(repository, f"{PACKS}/{pack}", pack)
            store.forget(pack)
    for path in findings.manifests:
        _set_aside(repository, path, f"{path.split('/')[1]}-{path.rpartition('/')[2]}")
    for known in list(repository.chunks.packs):
        repository.chunks.forget(known)
    repository.chunks.refresh(durable=True)
    for workflow_id, broken in findings.broken.items():
        outputs = findings.outputs.get(workflow_id, [])
        if broken or outputs:
            with repository.writer(workflow_id, owner) as workflow:
                _mark(workflow, broken, outputs)
    findings.problems = [replace(problem, repaired=_repaired(problem)) for problem in findings.problems]


def _repaired(problem: Problem) -> bool:
    # A line of the journal stays as it is: it is the evidence, and reading steps over it.
    # A foreign manifest waits for the user's trust.
    return problem.kind != "unsigned" and problem.object.startswith(("chunk ", "pack ", "manifest ", "the event of "))


def _mark(workflow: Workflow, broken: Mapping[CheckpointId, str], outputs: Sequence[tuple[Event, str]]) -> None:
    checkpoints = [
        EventDraft(
            event_type="CheckpointCorrupted",
            run_id=workflow.location(cid).event.run_id,
            payload={"checkpoint_id": cid, "object": object_},
        )
        for cid, object_ in broken.items()
    ]
    attachments = [
        EventDraft(
            event_type="AttachmentsCorrupted",
            run_id=event.run_id,
            payload={"of_event": event.event_id, "object": object_},
        )
        for event, object_ in outputs
    ]
    workflow.append([*checkpoints, *attachments])


def _set_aside(repository: Repository, path: str, name: str) -> None:
    files = repository.files
    taken = {found for found, _ in files.list(QUARANTINE)}
    target, n = name, 1
    while target in taken:
        n += 1
        target = f"{name}.{n}"
    files.rename(path, f"{QUARANTINE}/{target}")
    files.sync_folder(QUARANTINE)
    files.sync_folder(path.rpartition("/")[0])


def _is_whole(store: ChunkStore, entry: Entry) -> bool:
    try:
        with reading(f"chunk {entry.digest}"):
            store.read_entry(entry)
    except Integrity:
        return False
    return True


def _object(checkpoint_id: str, error: Exception) -> str:
    details = error.details if isinstance(error, RepositoryError) else {}
    return str(details.get("object") or f"checkpoint {checkpoint_id}")


def _kind(error: RepositoryError) -> str:
    return "unsigned" if isinstance(error, Untrusted) else str(error.details.get("kind", "damaged"))


def _problem(object_: str, error: RepositoryError, checkpoints: Sequence[str] = (), detail: str = "") -> Problem:
    if isinstance(error, Untrusted):
        detail = UNSIGNED
    return Problem(object=object_, kind=_kind(error), detail=detail or error.message, checkpoints=tuple(checkpoints))
