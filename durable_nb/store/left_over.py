"""Finishing what a kernel had handed over when it and its writer were both gone, before the next one begins.

Called by the repository when it opens a workflow to write. When `finish` has returned, everything that was handed over
completely is durable, and what could not be trusted is told and gone. It raises OSError when the disk refuses, and the
next opening tries again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from durable_nb.errors import Integrity
from durable_nb.model import CheckpointId, Digest, Event
from durable_nb.ports import Files
from durable_nb.store.chunks import ChunkStore
from durable_nb.store.commits import Plan
from durable_nb.store.completing import Completing
from durable_nb.store.handover import FOLDER, Record, log_path, places_named_by, read_record
from durable_nb.store.signing import SigningKey

if TYPE_CHECKING:
    from durable_nb.store.workflow import Workflow

__all__ = ["LeftOver", "finish"]

BY = "handed_over_by"  # in the metadata of an event: which kernel and epoch it was made for
_LOG = re.compile(r"(\d{6,})\.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOver:
    """What was found: the checkpoints that were finished, and why others could not be."""

    finished: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def finish(
    workflow: Workflow,
    *,
    files: Files,
    chunks: ChunkStore,
    key: SigningKey,
    boot_id: str,
    reached: Callable[[str], None],
) -> LeftOver:
    """Carry out the records of earlier epochs that nobody has carried out, in order; remove their files."""
    folder = f"{workflow.folder}/{FOLDER}"
    names = sorted(name for name, size in files.list(folder) if size >= 0)
    last = _last_epoch(workflow)
    finished: list[str] = []
    refused: list[str] = []
    for epoch in sorted({int(m[1]) for name in names if (m := _LOG.fullmatch(name))}):
        log = _Log(workflow, files, chunks, key, reached)
        path, offset = log_path(workflow.folder, epoch), 0
        try:
            while (record := read_record(files, path, offset, key)) is not None:
                offset += record.size_bytes
                if log.is_done(record):
                    continue
                _refuse_foreign(record, epoch=epoch, last=last, boot_id=boot_id)
                finished.append(log.carry_out(record))
        except (Integrity, ValueError) as error:
            # What comes behind it builds on it.
            refused.append(str(error))
    for name in names:
        files.remove(f"{folder}/{name}")
    return LeftOver(finished=tuple(finished), refused=tuple(refused))


def _last_epoch(workflow: Workflow) -> int:
    """Return the epoch of the kernel that was the last to do anything; finishing for it counts as its own doing."""
    events = list(workflow.events())
    return int(events[-1].metadata.get(BY, {}).get("epoch", events[-1].epoch)) if events else 0


class _Log:
    """The hand-overs of one epoch, as far as they are known."""

    def __init__(
        self, workflow: Workflow, files: Files, chunks: ChunkStore, key: SigningKey, reached: Callable[[str], None]
    ) -> None:
        self._workflow = workflow
        self._completing = Completing(
            files=files, folder=workflow.folder, chunks=chunks, key=key, append=self._append, reached=reached
        )

    def is_done(self, record: Record) -> bool:
        """Whether the commit of a record is durable already; then later records may build on its chunks."""
        checkpoint_id = CheckpointId(record.header["body"]["checkpoint_id"])
        if not self._workflow.is_there(checkpoint_id):
            return False
        durable = self._workflow.body(checkpoint_id)
        self._completing.learn(record.number, places_named_by(record.number, record.header["body"], durable))
        return True

    def carry_out(self, record: Record) -> str:
        """Make the commit of a record."""
        body = record.header["body"]
        if body["checkpoint_id"] != self._workflow.next_checkpoint_id():
            raise _refused(record, f"the next checkpoint is {self._workflow.next_checkpoint_id()}")
        if body["parent"] is not None and not self._workflow.is_there(body["parent"]):
            raise _refused(record, f"it builds on {body['parent']}, which is not there")
        by = {"kernel_id": record.header["kernel_id"], "epoch": record.header["epoch"]}
        self._completing.complete(record, alone=True, made_by={BY: by})
        return str(body["checkpoint_id"])

    def _append(self, plan: Plan, digests: Sequence[Digest], altered: bool) -> list[Event]:
        return self._workflow.append([plan.draft, *plan.also])


def _refuse_foreign(record: Record, *, epoch: int, last: int, boot_id: str) -> None:
    if record.header["epoch"] != epoch or epoch != last:
        raise _refused(record, "it is not of the last kernel that wrote here")
    if record.header["boot_id"] != boot_id:
        raise _refused(record, "the machine was restarted since, and it had not reached the disk")


def _refused(record: Record, why: str) -> Integrity:
    checkpoint_id = record.header["body"]["checkpoint_id"]
    return Integrity(
        f"Checkpoint {checkpoint_id} was being saved when the last kernel ended, and is not there: {why}.",
        hint="Every earlier checkpoint is safe; the cells after it run again.",
        object=checkpoint_id,
        kind="missing",
    )
