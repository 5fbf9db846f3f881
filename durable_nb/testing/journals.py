"""Journals for tests: one key, kernels that are alive or dead as the test says, drafts with a number in them.

Used by the tests of the journal, the lease and whatever stands on them.
"""

from __future__ import annotations

from collections.abc import Callable

from durable_nb.model import EventDraft, Owner
from durable_nb.ports import Clock, Files
from durable_nb.store.journal import ROTATE_BYTES, FileJournal
from durable_nb.store.signing import SigningKey
from durable_nb.testing.clock import ManualClock

__all__ = ["FOLDER", "draft", "fake_owner", "fixed_key", "open_journal"]

FOLDER = "workflows/w1/journal"


def fixed_key(secret: str = "a key for tests only") -> SigningKey:
    """Return a key that is the same every time."""
    return SigningKey(secret.encode())


def fake_owner(kernel_id: str = "k1", *, pid: int = 101, host: str = "here") -> Owner:
    """Return an owner that is no process at all."""
    return Owner(kernel_id=kernel_id, pid=pid, process_start="1", boot_id="b", host=host, since=0, epoch=0)


def draft(number: int, **payload: object) -> EventDraft:
    """Return an event to append; the number tells it from others."""
    return EventDraft(event_type="ActivityStarted", run_id="r1", payload={"n": number, **payload})


def open_journal(
    files: Files,
    kernel_id: str = "k1",
    *,
    read_only: bool = False,
    clock: Clock | None = None,
    key: SigningKey | None = None,
    alive: bool | None = False,
    trust: bool = False,
    accepts: Callable[[str], bool] | None = None,
    take_over: bool = False,
    rotate_bytes: int = ROTATE_BYTES,
) -> FileJournal:
    """Open the test workflow's journal as this kernel; `alive` is the state of whoever holds the lease."""
    return FileJournal.open(
        files,
        FOLDER,
        workflow_id="w1",
        key=key or fixed_key(),
        clock=clock or ManualClock(tick_us=1_000),
        kernel_id=kernel_id,
        owner=None if read_only else fake_owner(kernel_id),
        trust=trust,
        accepts=accepts or (lambda digest: False),
        take_over=take_over,
        alive=lambda owner: alive,
        rotate_bytes=rotate_bytes,
    )
