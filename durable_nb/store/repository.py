"""The `.durable` folder: what is in it, who may write to it, and the services over all of its workflows.

Opened by the composition roots (kernel, command line). When `open` has returned, the folder and its format mark are
durable. The work is done by `Workflow` (one history), `verify` and `gc`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from durable_nb.errors import FormatVersion, Integrity, LeaseHeld, RepositoryError, RepositoryNotFound
from durable_nb.model import GcReport, Owner, VerifyReport
from durable_nb.ports import Clock, Files
from durable_nb.store.chunks import PACKS, ChunkStore
from durable_nb.store.explain import writing
from durable_nb.store.gc import collect
from durable_nb.store.journal import FileJournal
from durable_nb.store.lease import Lease, current_owner, holders
from durable_nb.store.left_over import finish
from durable_nb.store.manifests import canonical
from durable_nb.store.process_identity import is_alive, this_process
from durable_nb.store.signing import SigningKey
from durable_nb.store.temporary import TMP, write_durably
from durable_nb.store.verify import verify
from durable_nb.store.workflow import Workflow

__all__ = ["FORMAT_VERSION", "Repository", "Workflow"]

FORMAT_VERSION = 2
WORKFLOWS = "workflows"
QUARANTINE = "quarantine"
GC_LEASE = "leases"
# Flags that this version understands; a repository with another one may be read but not written.
KNOWN_FLAGS: frozenset[str] = frozenset()


def _nothing(point: str) -> None:
    """Stand for the named crash points in production."""


def _accept_nothing(digest: str) -> bool:
    """Trust no foreign object."""
    return False


class Repository:
    """A folder of workflows that share their packs."""

    def __init__(
        self,
        files: Files,
        *,
        key: SigningKey,
        clock: Clock,
        trust: bool,
        version: int,
        writable: bool,
        accepts: Callable[[str], bool],
    ) -> None:
        self.files = files
        self.key = key
        self.clock = clock
        self.trust = trust
        self.accepts = accepts
        self.chunks = ChunkStore(files)
        self.reached: Callable[[str], None] = _nothing
        self._version, self._writable = version, writable
        self._open: dict[str, Workflow] = {}

    @classmethod
    def open(
        cls,
        files: Files,
        *,
        key: SigningKey,
        clock: Clock,
        create: bool = True,
        trust: bool = False,
        accepts: Callable[[str], bool] = _accept_nothing,
    ) -> Repository:
        """Open the repository, making it where there is none; FormatVersion when a newer durable_nb wrote it.

        `accepts` says whether the user trusts the foreign file with this SHA-256; `trust` accepts every foreign file.
        """
        with writing("Opening this notebook's history"):
            mark = _read_mark(files)
            if mark is None:
                if not create:
                    raise RepositoryNotFound(
                        "There is no durable_nb history here.",
                        hint="Type `%load_ext durable_nb` in a notebook of this folder to begin one.",
                    )
                _make(files)
                mark = files.read("FORMAT")
        version, writable = _read_version(mark)
        return cls(files, key=key, clock=clock, trust=trust, version=version, writable=writable, accepts=accepts)

    # Workflows.

    def workflow_ids(self) -> list[str]:
        """Return the ids of the workflows that are here, sorted."""
        found = []
        for folder in self.workflow_folders():
            workflow_id = self._id_of(folder)
            if workflow_id is not None:
                found.append(workflow_id)
        return sorted(found)

    def workflow_folders(self) -> list[str]:
        """Return the folder of every workflow, as paths in the repository."""
        return [f"{WORKFLOWS}/{name}" for name, size in self.files.list(WORKFLOWS) if size < 0]

    def workflow(self, workflow_id: str, *, kernel_id: str, owner: Owner | None) -> Workflow:
        """Open a workflow: with `owner` to write, which takes its lease or raises LeaseHeld; without it to read."""
        with writing("Opening this notebook's history"):
            return self._workflow(workflow_id, kernel_id, owner)

    def _workflow(self, workflow_id: str, kernel_id: str, owner: Owner | None) -> Workflow:
        folder = f"{WORKFLOWS}/{folder_name(workflow_id)}"
        if owner is None:
            if self._id_of(folder) is None:
                raise RepositoryNotFound(
                    f"There is no history of {workflow_id!r} here.", hint="Type `durable-nb list` for what is here."
                )
            return self._opened(workflow_id, folder, kernel_id, None)
        if not self._writable:
            raise FormatVersion(
                "This history uses a feature that this durable_nb does not know; it can be read and is left unchanged.",
                hint="Upgrade durable_nb to record here.",
            )
        if (already := self._open.get(workflow_id)) is not None and already.writable:
            raise RepositoryError(f"The workflow {workflow_id!r} is already open for writing in this process.")
        self._prepare(folder, workflow_id)
        workflow = self._opened(workflow_id, folder, kernel_id, owner)
        try:
            self._refuse_during_gc(owner)
            if self._version < FORMAT_VERSION:
                # From now on there may be objects in it that an older durable_nb would misread.
                write_durably(self.files, "FORMAT", _mark_of(FORMAT_VERSION))
                self._version = FORMAT_VERSION
            self.chunks.refresh(durable=True)
            workflow.left_over = finish(
                workflow,
                files=self.files,
                chunks=self.chunks,
                key=self.key,
                boot_id=owner.boot_id,
                reached=lambda point: self.reached(point),
            )
        except BaseException:
            workflow.close()
            raise
        self._open[workflow_id] = workflow
        return workflow

    def _opened(self, workflow_id: str, folder: str, kernel_id: str, owner: Owner | None) -> Workflow:
        journal = FileJournal.open(
            self.files,
            f"{folder}/journal",
            workflow_id=workflow_id,
            key=self.key,
            clock=self.clock,
            kernel_id=kernel_id,
            owner=owner,
            trust=self.trust,
            accepts=self.accepts,
        )
        try:
            return Workflow(
                files=self.files,
                folder=folder,
                workflow_id=workflow_id,
                journal=journal,
                chunks=self.chunks,
                key=self.key,
                trusts=lambda content: self.trust or self.accepts(hashlib.sha256(content).hexdigest()),
                # Looked up at each call, so that a test may set the hook after opening.
                reached=lambda point: self.reached(point),
                closed=self._forget,
            )
        except BaseException:
            journal.close()  # the lease must not outlive a workflow that was never open
            raise

    def _forget(self, workflow: Workflow) -> None:
        if self._open.get(workflow.workflow_id) is workflow:
            del self._open[workflow.workflow_id]

    def _prepare(self, folder: str, workflow_id: str) -> None:
        # Empty folders are dropped when a history is copied by git or zip.
        for needed in (TMP, PACKS, f"{folder}/manifests"):
            self.files.make_folder(needed)
        if self._id_of(folder) != workflow_id:
            write_durably(self.files, f"{folder}/workflow.json", canonical({"workflow_id": workflow_id}) + b"\n")

    def _id_of(self, folder: str) -> str | None:
        """Return the id that a workflow's folder says, None when it says none that belongs to its name."""
        try:
            workflow_id = json.loads(self.files.read(f"{folder}/workflow.json"))["workflow_id"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return self._id_in_journal(folder)
        return workflow_id if _named(folder, workflow_id) else self._id_in_journal(folder)

    def _id_in_journal(self, folder: str) -> str | None:
        """Return the id in the first readable line of a journal: workflow.json is only a label and may be lost."""
        for name, _ in self.files.list(f"{folder}/journal"):
            for line in self.files.read(f"{folder}/journal/{name}").splitlines():
                try:
                    workflow_id = json.loads(line)["workflow_id"]
                except (ValueError, KeyError, TypeError):
                    continue
                if _named(folder, workflow_id):
                    return str(workflow_id)
        return None

    # Services.

    def verify(self, *, repair: bool = False, owner: Owner | None = None) -> VerifyReport:
        """Check every event, manifest and reachable chunk; with `repair` set aside what is damaged.

        `repair` writes, so it raises LeaseHeld while another kernel does.
        """
        owner = owner or this_process("verify", self.clock)
        with writing("Verifying"):
            if not repair:
                return verify(self, repair=False, owner=owner)
            with self._alone(owner):
                return verify(self, repair=True, owner=owner)

    def gc(self, *, dry_run: bool = False, owner: Owner | None = None) -> GcReport:
        """Remove what no kept checkpoint reaches; LeaseHeld while another kernel writes in this folder."""
        owner = owner or this_process("gc", self.clock)
        if dry_run:
            with writing("Collecting"):
                return collect(self, dry_run=True, owner=owner)
        with writing("Collecting"), self._alone(owner):
            return collect(self, dry_run=False, owner=owner)

    @contextmanager
    def writer(self, workflow_id: str, owner: Owner) -> Iterator[Workflow]:
        """Lend a workflow to write to: the one that is open here, or one opened for the moment."""
        if (already := self._open.get(workflow_id)) is not None:
            yield already
            return
        workflow = self.workflow(workflow_id, kernel_id=owner.kernel_id, owner=owner)
        try:
            yield workflow
        finally:
            workflow.close()

    @contextmanager
    def _alone(self, owner: Owner) -> Iterator[None]:
        """Hold the folder for gc or repair: no kernel writes now, none begins before this ends.

        A kernel that begins claims its workflow and then looks for gc; gc claims and then looks for kernels. So one
        of the two always sees the other.
        """
        lease = Lease.acquire(self.files, GC_LEASE, owner, clock=self.clock)
        try:
            for folder in self.workflow_folders():
                self._refuse_other_writer(folder, owner)
            yield
        finally:
            lease.release()

    def _refuse_other_writer(self, folder: str, owner: Owner) -> None:
        if any(w.folder == folder for w in self._open.values()):
            return
        for holder in holders(self.files, f"{folder}/leases"):
            if is_alive(holder) is False or _same_process(holder, owner):
                continue
            raise LeaseHeld(
                f"Another kernel (process {holder.pid} on {holder.host}) is writing in this folder, so nothing was "
                "changed; everything is safe.",
                hint="Try again when that kernel is shut down, or from within it when it is the only one.",
                pid=holder.pid,
                host=holder.host,
                since=holder.since,
                kernel_id=holder.kernel_id,
            )

    def _refuse_during_gc(self, owner: Owner) -> None:
        holder = current_owner(self.files, GC_LEASE)
        if holder is not None and is_alive(holder) is not False and not _same_process(holder, owner):
            raise LeaseHeld(
                f"Process {holder.pid} on {holder.host} is tidying up in this folder; everything is safe.",
                hint="Load the extension again in a moment.",
                pid=holder.pid,
                host=holder.host,
                since=holder.since,
                kernel_id=holder.kernel_id,
            )


def folder_name(workflow_id: str) -> str:
    """Return the folder of a workflow: readable, safe on every file system, different for different ids."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", workflow_id).strip("_")[-48:] or "workflow"
    # The hash keeps apart what the readable part merges, also where upper and lower case are the same.
    return f"{readable}-{hashlib.sha256(workflow_id.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def _named(folder: str, workflow_id: object) -> bool:
    return isinstance(workflow_id, str) and folder.rpartition("/")[2] == folder_name(workflow_id)


def _same_process(a: Owner, b: Owner) -> bool:
    return (a.host, a.pid, a.process_start) == (b.host, b.pid, b.process_start)


def _read_mark(files: Files) -> bytes | None:
    try:
        return files.read("FORMAT")
    except FileNotFoundError:
        return None


def _mark_of(version: int) -> bytes:
    return canonical({"format": "durable_nb", "version": version, "flags": []}) + b"\n"


def _make(files: Files) -> None:
    for folder in ("", TMP, PACKS, WORKFLOWS):
        files.make_folder(folder)
    # The format mark comes last: a folder without it is one whose making was interrupted, and is made again.
    write_durably(files, ".gitignore", b"*\n")
    write_durably(files, "FORMAT", _mark_of(FORMAT_VERSION))


def _read_version(mark: bytes) -> tuple[int, bool]:
    """Return the version, and whether this durable_nb may write here; FormatVersion when it may not even read."""
    try:
        content = json.loads(mark)
        version, flags = int(content["version"]), set(content["flags"])
    except (ValueError, KeyError, TypeError) as error:
        raise Integrity(
            "The file FORMAT of this history is damaged; the data beside it was not touched.",
            hint="If you know that this version of durable_nb wrote it, remove the file FORMAT and try again.",
            object="FORMAT",
            expected="",
            actual="",
            kind="damaged",
        ) from error
    if version > FORMAT_VERSION:
        raise FormatVersion(
            f"This history was written by a newer durable_nb (format {version}, this one knows {FORMAT_VERSION}); "
            "nothing was changed.",
            hint="Upgrade durable_nb to open it.",
        )
    return version, flags <= KNOWN_FLAGS
