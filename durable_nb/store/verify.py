"""Verify and repair: check every object that a checkpoint needs, say what is lost with a damaged one, set it aside.

Called by `Repository.verify`. Verifying writes nothing. Repairing never deletes: damaged packs and manifests go to
`quarantine/` after what is whole in them was stored again, and checkpoints that cannot be restored any more are marked
by CheckpointCorrupted events, so that the newest whole one becomes the one to restore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from durable_nb.errors import Integrity, LeaseHeld, RepositoryError, Untrusted
from durable_nb.model import CheckpointId, EventDraft, Owner, Problem, VerifyReport
from durable_nb.store.chunks import PACK_MAGIC, PACKS, ChunkStore, Entry
from durable_nb.store.gc import attached_chunks
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
    findings.problems += workflow.problems
    findings.events += sum(1 for _ in workflow.events())
    kept = [info for info in workflow.checkpoints() if not info.corrupted]
    findings.checkpoints += len(kept)
    broken = findings.broken.setdefault(workflow.workflow_id, {})
    needs: dict[CheckpointId, set[str]] = {}
    for info in kept:
        try:
            manifest = workflow.manifest(info.id)
            needs[info.id] = {
                digest
                for group in manifest.groups.values()
                for ref in (group.pickle, *group.buffers)
                for digest in ref.chunks
            }
        except (RepositoryError, KeyError, TypeError, ValueError) as error:
            broken[info.id] = _object(info.id, error)
            continue
    _report_manifests(workflow, [info.id for info in kept], findings)
    wanted = set().union(*needs.values()) | {d for e in workflow.events() for d in attached_chunks(e)}
    for digest in sorted(wanted):
        _check_chunk(workflow, store, digest, findings, checked)
    for digest in sorted(wanted & findings.chunks.keys()):
        hit = [cid for cid, needed in needs.items() if digest in needed]
        loss = findings.chunks[digest]
        broken.update((cid, f"chunk {digest}") for cid in hit)
        detail = loss.message if hit else f"{loss.message} The recorded outputs of a cell are lost with it."
        findings.problems.append(_problem(f"chunk {digest}", loss, hit, detail))


def _report_manifests(workflow: Workflow, kept: Sequence[CheckpointId], findings: _Findings) -> None:
    """Report each manifest that cannot be read once, with every checkpoint that is built on it."""
    broken = findings.broken[workflow.workflow_id]
    by_object: dict[str, list[CheckpointId]] = {}
    for cid, object_ in broken.items():
        by_object.setdefault(object_, []).append(cid)
    for object_, hit in by_object.items():
        kind, detail = "damaged", f"{object_} cannot be read."
        for cid in kept:
            try:
                workflow.body(cid)
            except RepositoryError as error:
                if _object(cid, error) == object_:
                    kind, detail = _kind(error), error.message
                    if kind == "damaged":
                        findings.manifests.append(f"{workflow.folder}/manifests/{workflow.location(cid).manifest}")
                    break
        else:
            if object_.startswith("the event of"):
                kind, detail = "missing", f"{object_} is missing from the journal."
        findings.problems.append(Problem(object=object_, kind=kind, detail=detail, checkpoints=tuple(hit)))


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
    unmarked: dict[str, str] = {}
    for workflow_id, broken in findings.broken.items():
        if broken:
            try:
                with repository.writer(workflow_id, owner) as workflow:
                    _mark(workflow, broken)
            except (LeaseHeld, Untrusted) as error:
                unmarked.update((cid, error.message) for cid in broken)
    findings.problems = [
        replace(problem, repaired=_repaired(problem) and not unmarked.keys() & set(problem.checkpoints))
        for problem in findings.problems
    ]


def _repaired(problem: Problem) -> bool:
    # A line of the journal stays as it is: it is the evidence, and reading steps over it.
    return problem.object.startswith(("chunk ", "pack ", "manifest ", "the event of "))


def _mark(workflow: Workflow, broken: Mapping[CheckpointId, str]) -> None:
    already = {info.id for info in workflow.checkpoints() if info.corrupted}
    workflow.append(
        [
            EventDraft(
                event_type="CheckpointCorrupted",
                run_id=workflow.location(cid).event.run_id,
                payload={"checkpoint_id": cid, "object": object_},
            )
            for cid, object_ in broken.items()
            if cid not in already
        ]
    )


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
    return Problem(object=object_, kind=_kind(error), detail=detail or error.message, checkpoints=tuple(checkpoints))
