"""A small life of a repository, step by step, with a model of what must be there: the subject of the fault tests.

`Scenario.run` commits small and large groups, deletes, collects and changes kernels on the given files. At every moment
`acknowledged` holds what has been promised, and `in_flight` what the step under way may have made true.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from durable_nb.model import CheckpointId, Delta, EventDraft, GroupData, GroupId, Owner, Variable
from durable_nb.ports import Files
from durable_nb.store.repository import Repository
from durable_nb.store.signing import SigningKey
from durable_nb.store.workflow import Workflow
from durable_nb.testing.clock import ManualClock
from durable_nb.testing.invariants import Content

__all__ = ["KEY", "NOTEBOOK", "Scenario", "delta_of", "newest", "open_repository", "owner", "randbytes"]

NOTEBOOK = "analysis.ipynb"
KEY = SigningKey(b"a key for tests, 32 bytes long ..")


def owner(n: int = 0) -> Owner:
    """Return the owner of a kernel that is dead already, so that the next one may take over at once."""
    return Owner(
        kernel_id=f"k{n}",
        # Above the greatest pid that Linux gives out.
        pid=2**22 + 1 + n,
        process_start="1",
        boot_id="",
        host=socket.gethostname(),
        since=0,
        epoch=0,
    )


def open_repository(files: Files) -> Repository:
    """Open the repository with the key of the tests."""
    return Repository.open(files, key=KEY, clock=ManualClock(tick_us=1000))


def randbytes(seed: int, size_bytes: int) -> bytes:
    """Return bytes that do not compress."""
    return random.Random(seed).randbytes(size_bytes)


@dataclass(slots=True)
class Scenario:
    """The steps, and what each of them has promised."""

    acknowledged: dict[CheckpointId, Content] = field(default_factory=dict)
    in_flight: tuple[CheckpointId, Content] | None = None
    deleting: CheckpointId | None = None
    attachments: dict[CheckpointId, bytes] = field(default_factory=dict)
    kernels: int = 0
    _attempts: int = 0
    # Called for each step that changes something; the fault tests retry a step that failed.
    attempt: Callable[[Callable[[], object]], object] = field(default=lambda step: step())

    def run(self, files: Files) -> None:
        """Live through ten commits, two deletes, a gc and a change of kernel."""
        repository = self.repository(files)
        workflow = self.open(repository)
        self.commit(workflow, {"a": (b"one", ()), "b": (b"two", ())})
        self.commit(workflow, {"frame": (b"pickle of a frame", (randbytes(1, 90_000), randbytes(2, 3_000)))})
        self.commit(workflow, {"a": (b"one more", ()), "b": None})
        self.commit(workflow, {"frame": (b"pickle of a frame", (randbytes(3, 90_000), randbytes(2, 3_000)))})
        self.commit(workflow, {"c": (bytes(1_100_000), ())}, attachment=b'{"text": "small"}')
        self.delete(workflow, CheckpointId("c2"))
        self.collect(repository)
        # Only one checkpoint holds the big buffer: each reading of it costs more than all the rest.
        self.commit(workflow, {"d": (randbytes(4, 70_000), ()), "c": None}, attachment=randbytes(5, 50_000))
        self.commit(workflow, {"d": None, "a": (b"last", ())})
        self.delete(workflow, CheckpointId("c6"))
        self.attempt(workflow.close)
        repository = self.repository(files)
        workflow = self.open(repository)
        self.commit(workflow, {"frame": (b"pickle of a frame", (randbytes(1, 90_000), randbytes(6, 3_000)))})
        self.collect(repository)
        self.commit(workflow, {"e": (b"after gc", ())})
        self.commit(workflow, {"f": (randbytes(7, 66_000), ())})
        self.attempt(workflow.close)

    def repository(self, files: Files) -> Repository:
        """Open the repository."""
        opened = self.attempt(lambda: open_repository(files))
        assert isinstance(opened, Repository)
        return opened

    def open(self, repository: Repository) -> Workflow:
        """Open the notebook as the next kernel."""
        self.kernels += 1
        kernel = owner(self.kernels)
        opened = self.attempt(
            lambda: repository.workflow(NOTEBOOK, kernel_id=kernel.kernel_id, owner=kernel),
        )
        assert isinstance(opened, Workflow)
        return opened

    def commit(
        self,
        workflow: Workflow,
        changes: dict[str, tuple[bytes, tuple[bytes, ...]] | None],
        *,
        attachment: bytes = b"",
    ) -> None:
        """Run a cell that changes these variables, each in a group of its own, and commit it."""
        self._attempts += 1
        started = EventDraft(event_type="ActivityStarted", run_id="r1", activity_id="cell", attempt=self._attempts)
        self.attempt(lambda: workflow.append([started]))
        delta = delta_of(workflow, changes, parent=newest(workflow))
        after = self.content(workflow) | {(name,): value for name, value in changes.items() if value is not None}
        for name, value in changes.items():
            if value is None:
                del after[(name,)]
        self.in_flight = (delta.checkpoint_id, after)
        draft = EventDraft(event_type="ActivityCompleted", run_id="r1", activity_id="cell", attempt=self._attempts)
        noted = EventDraft(event_type="Noted", run_id="r1", payload={"of": delta.checkpoint_id})
        attachments = {"outputs": attachment} if attachment else {}
        self.attempt(lambda: workflow.commit(draft, delta, attachments=attachments, also=[noted]))
        self.acknowledged[delta.checkpoint_id] = after
        if attachment:
            self.attachments[delta.checkpoint_id] = attachment
        self.in_flight = None

    def content(self, workflow: Workflow) -> dict[tuple[str, ...], tuple[bytes, tuple[bytes, ...]]]:
        """Return what the newest checkpoint holds, by the model."""
        kept = workflow.checkpoints()
        return dict(self.acknowledged[kept[-1].id]) if kept else {}

    def delete(self, workflow: Workflow, checkpoint_id: CheckpointId) -> None:
        """Delete a checkpoint."""
        self.deleting = checkpoint_id
        content = self.acknowledged.pop(checkpoint_id)
        self.in_flight = (checkpoint_id, content)
        self.attempt(lambda: workflow.delete_checkpoint(checkpoint_id))
        self.in_flight = self.deleting = None

    def collect(self, repository: Repository) -> None:
        """Collect garbage."""
        self.attempt(lambda: repository.gc(owner=owner(self.kernels)))


def delta_of(
    workflow: Workflow,
    changes: Mapping[str, tuple[bytes, Sequence[bytes | bytearray]] | None],
    *,
    parent: CheckpointId | None,
) -> Delta:
    """Build the delta of a cell that changes these variables of `parent`."""
    checkpoint_id = workflow.next_checkpoint_id()
    names: dict[str, Variable | None] = {}
    groups = []
    for name, value in changes.items():
        if value is None:
            names[name] = None
            continue
        group_id = GroupId(f"g-{name}")
        names[name] = Variable(group_id=group_id, version=checkpoint_id, type="object", size_bytes=len(value[0]))
        buffers = [memoryview(buffer) for buffer in value[1]]
        groups.append(GroupData(group_id=group_id, names=(name,), codec="pickle", pickle=value[0], buffers=buffers))
    return Delta(
        checkpoint_id=checkpoint_id,
        parent=parent,
        names=names,
        groups=groups,
        process={"cwd": f"/{checkpoint_id}"},
        shell={"execution_count": int(checkpoint_id[1:])},
    )


def newest(workflow: Workflow) -> CheckpointId | None:
    """Return the newest checkpoint, None when there is none."""
    kept = workflow.checkpoints()
    return kept[-1].id if kept else None
