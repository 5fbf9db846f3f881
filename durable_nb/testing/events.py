"""Make believable events by hand, in order, for tests of what reads a history.

Used by tests only; nothing is stored.
"""

from __future__ import annotations

from typing import Any

from durable_nb.model import SCHEMA_VERSION, Event

__all__ = ["History"]


class History:
    """The events of one workflow so far; every call of `add` appends one, a second later than the one before."""

    def __init__(self, workflow_id: str = "wf", *, start_us: int = 1_700_000_000_000_000) -> None:
        self.workflow_id = workflow_id
        self.run_id = f"{workflow_id}-run-1"
        self.kernel_id = "kernel-1"
        self.epoch = 1
        self.events: list[Event] = []
        self._start_us = start_us
        self._head: str | None = None

    def add(
        self,
        event_type: str,
        payload: dict[str, Any] | None = None,
        *,
        activity_id: str | None = None,
        attempt: int | None = None,
        metadata: dict[str, Any] | None = None,
        parent_event: str | None = None,
    ) -> Event:
        """Append one event and return it."""
        seq = len(self.events) + 1
        event = Event(
            event_id=f"{self.workflow_id}-e{seq}",
            event_type=event_type,
            timestamp=self._start_us + seq * 1_000_000,
            workflow_id=self.workflow_id,
            run_id=self.run_id,
            activity_id=activity_id,
            attempt=attempt,
            kernel_id=self.kernel_id,
            epoch=self.epoch,
            seq=seq,
            payload=payload or {},
            metadata=metadata or {},
            correlation={"parent_event": parent_event} if parent_event else {},
            schema_version=SCHEMA_VERSION,
            hash=f"{seq:064x}",
        )
        self.events.append(event)
        return event

    def attach(self, kernel_id: str = "kernel-1", *, reason: str = "first") -> None:
        """Append the start of a run with its first kernel."""
        self.kernel_id = kernel_id
        self.add("RunStarted", {"reason": reason})
        self.add("KernelAttached", {"pid": 7, "host": "here", "python": "3.11.7", "versions": {}})

    def start(self, name: str, *, attempt: int = 1) -> Event:
        """Append the start of a cell."""
        payload = {"name": name, "source": f"{name} = 1", "code_hash": f"h-{name}", "execution_count": 1}
        return self.add("ActivityStarted", payload, activity_id=f"id-{name}", attempt=attempt)

    def complete(
        self, name: str, changed: dict[str, str], *, deleted: tuple[str, ...] = (), attempt: int = 1, ms: float = 1500.0
    ) -> Event:
        """Append the completion of a cell whose checkpoint changed these names (name to type)."""
        checkpoint_id = f"{self.workflow_id}-c{len(self.events) + 1}"
        payload = {
            "name": name,
            "checkpoint": {"id": checkpoint_id, "parent": self._head},
            "changed": [
                {"name": n, "type": kind, "size_bytes": 10 + i, "version": checkpoint_id}
                for i, (n, kind) in enumerate(changed.items())
            ],
            "deleted": list(deleted),
            "unsaved": [],
            "stored_bytes": 100,
        }
        metadata = {
            "execution_time_ms": ms,
            "commit_time_ms": 2.5,
            "resource_usage": {"cpu_ms": 1200.0, "rss_bytes": 50_000_000},
        }
        self._head = checkpoint_id
        return self.add("ActivityCompleted", payload, activity_id=f"id-{name}", attempt=attempt, metadata=metadata)

    def run(self, name: str, changed: dict[str, str], *, deleted: tuple[str, ...] = ()) -> Event:
        """Append the start and the completion of a cell."""
        self.start(name)
        return self.complete(name, changed, deleted=deleted)

    def continue_from(self, checkpoint_id: str | None) -> None:
        """Let the next checkpoint continue this one instead of the last."""
        self._head = checkpoint_id
