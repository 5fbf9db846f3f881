"""Garbage collection: remove what no kept checkpoint and no attachment reaches.

Called by `Repository.gc`, which keeps writers out meanwhile. New packs are durable before an old one is removed, so a
crash at any moment leaves every reachable object; what is left over is garbage for the next time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from durable_nb.errors import Integrity
from durable_nb.model import GcReport, Owner
from durable_nb.store.chunks import PACKS, Entry
from durable_nb.store.manifests import chunks_of
from durable_nb.store.temporary import TMP
from durable_nb.store.workflow import Workflow

if TYPE_CHECKING:
    from durable_nb.store.repository import Repository

__all__ = ["collect"]

# A pack is written anew when less than this part of it is in use.
_REWRITE_BELOW = 0.5


def collect(repository: Repository, *, dry_run: bool, owner: Owner) -> GcReport:
    """Remove (or with `dry_run` count) garbage: packs, parts of packs, manifests, temporary files."""
    files, store = repository.files, repository.chunks
    store.refresh(durable=not dry_run)
    reachable: set[str] = set()
    manifests: dict[str, set[str]] = {}
    for workflow_id in repository.workflow_ids():
        workflow = repository.workflow(workflow_id, kernel_id=owner.kernel_id, owner=None)
        try:
            manifests[workflow.folder] = _reach(workflow, reachable)
        finally:
            workflow.close()
    keep, rewrite, remove = _sort_packs(store.packs, store.torn, reachable)
    sizes = dict(files.list(PACKS))
    unused = [
        (f"{folder}/manifests/{name}", size)
        for folder, named in manifests.items()
        for name, size in files.list(f"{folder}/manifests")
        if name not in named and size >= 0
    ]
    leftovers = [(f"{TMP}/{name}", size) for name, size in files.list(TMP) if size >= 0]
    gone = [entry for pack in (*remove, *rewrite) for entry in store.packs[pack]]
    moved = [entry for entries in rewrite.values() for entry in entries]
    freed = sum(sizes[pack] for pack in (*remove, *rewrite)) - sum(entry.record_bytes for entry in moved)
    if not dry_run:
        # The name of a pack follows from what is in it, so the new one may have taken the place of an old one.
        written = store.copy_records(moved) if moved else ""
        repository.reached("after-gc-write")
        packs = [pack for pack in (*remove, *rewrite) if pack != written]
        _remove(repository, packs, [path for path, _ in (*unused, *leftovers)])
    return GcReport(
        chunks=len(gone) - len(moved),
        packs=len(remove) + len(rewrite),
        manifests=len(unused),
        freed_bytes=freed + sum(size for _, size in (*unused, *leftovers)),
        kept_bytes=sum(sizes[pack] for pack in keep) + sum(entry.record_bytes for entry in moved),
        dry_run=dry_run,
    )


def _reach(workflow: Workflow, reachable: set[str]) -> set[str]:
    """Add the chunks that a workflow keeps; return the manifest files that it keeps."""
    # A torn or orphaned line was never acknowledged; nothing can need it.
    lost = [problem for problem in workflow.problems if problem.kind not in {"torn_tail", "orphan"}]
    if lost:
        raise Integrity(
            f"The history of {workflow.workflow_id!r} is damaged ({lost[0].detail}), so it is not known what it "
            "needs; nothing was collected.",
            hint="Type `durable-nb verify` to see what is affected.",
            object=lost[0].object,
            expected="",
            actual="",
            kind=lost[0].kind,
        )
    named: set[str] = set()
    for info in workflow.checkpoints():
        try:
            # A delta's ancestors up to its keyframe are kept as well, so bodies name together all that is needed.
            reachable.update(chunks_of(workflow.body(info.id)))
        except Integrity:
            if not info.corrupted:
                raise
            continue  # It was reported and marked; what cannot be read keeps nothing.
        named.add(workflow.location(info.id).manifest)
    reachable.update(workflow.attached_chunks())
    return named


def _sort_packs(
    packs: Mapping[str, Sequence[Entry]], torn: Mapping[str, str], reachable: set[str]
) -> tuple[list[str], dict[str, list[Entry]], list[str]]:
    """Return the packs to keep, those to write anew with the entries they keep, and those to remove."""
    keep: list[str] = []
    rewrite: dict[str, list[Entry]] = {}
    remove: list[str] = []
    held: set[str] = set()  # A chunk that lies in two packs is needed in one.
    for pack, entries in sorted(packs.items(), key=lambda item: -len(item[1])):
        live = [entry for entry in entries if entry.digest in reachable and entry.digest not in held]
        total = sum(entry.record_bytes for entry in entries)
        if pack in torn:
            keep.append(pack)  # `verify --repair` saves what is in it first.
            continue
        if not live:
            remove.append(pack)
            continue
        held.update(entry.digest for entry in live)
        if sum(entry.record_bytes for entry in live) < _REWRITE_BELOW * total:
            rewrite[pack] = live
        else:
            keep.append(pack)
    return keep, rewrite, remove


def _remove(repository: Repository, packs: Sequence[str], paths: Sequence[str]) -> None:
    files = repository.files
    for pack in packs:
        # Out of the index first: no commit may count on a chunk whose file is about to go.
        repository.chunks.forget(pack)
        files.remove(f"{PACKS}/{pack}")
    for path in paths:
        files.remove(path)
    for folder in {PACKS, *(path.rpartition("/")[0] for path in paths)}:
        files.sync_folder(folder)
