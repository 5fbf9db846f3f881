"""A kernel that is nothing but its store, in a process of its own: it hands commits over, and dies when it is told to.

`HandingKernel` drives it from a test; the module itself is what the process runs. A value is bytes made of a seed, so
that the test can tell what a checkpoint must hold.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from durable_nb.clock import SystemClock
from durable_nb.errors import CheckpointError, StaleEpoch
from durable_nb.model import CheckpointId, Delta, EventDraft, GroupData, GroupId, Json, Owner, Variable
from durable_nb.store.files import LocalFiles
from durable_nb.store.process_identity import this_process
from durable_nb.store.repository import Repository
from durable_nb.store.signing import SigningKey
from durable_nb.store.workflow import Workflow

__all__ = ["FAULTY", "KEY", "NOTEBOOK", "HandingKernel", "delta_of", "open_here", "value_of"]

NOTEBOOK = "analysis.ipynb"
KEY = SigningKey(b"a key for tests, 32 bytes long ..")
FAULTY = "durable_nb.testing.faulty_writer"
_PACKAGE = str(Path(__file__).resolve().parents[2])


def value_of(seed: int, size_bytes: int) -> bytes:
    """Return the value that a seed stands for; its second half is always the same, so that chunks stay unchanged."""
    half = size_bytes // 2
    return random.Random(seed).randbytes(size_bytes - half) + random.Random(0).randbytes(half)


def open_here(root: Path, kernel_id: str = "next") -> tuple[Repository, Workflow]:
    """Open the repository to write as the calling process."""
    clock = SystemClock()
    repository = Repository.open(LocalFiles(root), key=KEY, clock=clock)
    return repository, repository.workflow(NOTEBOOK, kernel_id=kernel_id, owner=this_process(kernel_id, clock))


def delta_of(workflow: Workflow, parent: CheckpointId | None, name: str, value: bytes) -> Delta:
    """Return a delta that sets one variable to these bytes, in a group that keeps its id."""
    checkpoint_id, group_id = workflow.next_checkpoint_id(), GroupId(f"g-{name}")
    variable = Variable(group_id=group_id, version=checkpoint_id, type="bytes", size_bytes=len(value))
    group = GroupData(
        group_id=group_id, names=(name,), codec="pickle5", pickle=b"a pickle", buffers=(memoryview(value),)
    )
    return Delta(checkpoint_id=checkpoint_id, parent=parent, names={name: variable}, groups=(group,))


class HandingKernel:
    """The test's side: starts the process, tells it what to do, and reads what it answers."""

    def __init__(self, root: Path, kernel_id: str = "first") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "durable_nb.testing.handing", str(root), kernel_id],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": _PACKAGE},
        )
        self.pid = self._process.pid

    def __enter__(self) -> HandingKernel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def do(self, what: str, *arguments: Json) -> Json:
        """Let it do something and return its answer; EOFError when it died over it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, *arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            raise EOFError(what)
        return json.loads(answer)

    def kill(self) -> None:
        """Kill it as the system does when memory runs out; return when it is gone."""
        self._process.kill()
        self._process.communicate()


class _Kernel:
    """What the process does."""

    def __init__(self, root: str, kernel_id: str) -> None:
        self._clock, self._kernel_id = SystemClock(), kernel_id
        self._repository = Repository.open(LocalFiles(root), key=KEY, clock=self._clock)
        owner: Owner = this_process(kernel_id, self._clock)
        self._workflow = self._repository.workflow(NOTEBOOK, kernel_id=kernel_id, owner=owner)
        self._head: CheckpointId | None = next((i.id for i in reversed(self._workflow.checkpoints())), None)
        self._attempts = 0
        self._boxes: dict[str, bytes] = {}

    def start_writer(self, module: str, budget_bytes: int) -> int | None:
        """Start the writer and give it the journal."""
        self._workflow.start_writer(clock=self._clock, budget_bytes=budget_bytes, module=module)
        while self._workflow.no_writer == "" and not self._workflow.can_hand_over():
            self._workflow.wait(0.05)
        return self._workflow.writer_pid

    def begin(self) -> int:
        """Append that a cell starts; return the sequence number."""
        self._attempts += 1
        return self._workflow.append([self._draft("ActivityStarted")])[0].seq

    def hand_over(self, name: str, seed: int, size_bytes: int) -> str:
        """Hand a commit over; return its id, or why it was not: `sync`, it was made here instead; `full`, there is no
        room; `failed`, it builds on one that the writer could not store."""
        try:
            return self._hand_over(name, seed, size_bytes)
        except CheckpointError:
            return "failed"

    def _hand_over(self, name: str, seed: int, size_bytes: int) -> str:
        value = self._boxes[name] = value_of(seed, size_bytes)
        delta = delta_of(self._workflow, self._head, name, value)
        prepared = self._workflow.prepare(self._draft("ActivityCompleted"), delta, attachments={"outputs": b"seen"})
        if prepared is None:
            self._head = self._workflow.commit(self._draft("ActivityCompleted"), delta).manifest.checkpoint_id
            return "sync"
        if not self._workflow.has_room(prepared):
            return "full"
        manifest = self._workflow.hand_over(prepared)
        assert manifest is not None
        self._head = manifest.checkpoint_id
        return str(self._head)

    def commit(self, name: str, seed: int, size_bytes: int) -> str:
        """Make a commit before answering."""
        delta = delta_of(self._workflow, self._head, name, value_of(seed, size_bytes))
        self._head = self._workflow.commit(self._draft("ActivityCompleted"), delta).manifest.checkpoint_id
        return str(self._head)

    def status(self) -> Json:
        """Tell what is in flight, what became durable, and whether the writer has failed."""
        self._workflow.take_in()
        setback = self._workflow.setback()
        if setback is not None:
            there = [info.id for info in self._workflow.checkpoints()]
            self._head = there[-1] if there else None
        return {
            "saving": [ticket.checkpoint_id for ticket in self._workflow.saving],
            "news": [event.seq for event in self._workflow.news()],
            "setback": None if setback is None else [str(setback.error), list(setback.lost)],
            "writer": self._workflow.writer_pid,
            "no_writer": self._workflow.no_writer,
            "head": self._head,
        }

    def drain(self) -> Json:
        """Wait until nothing is in flight."""
        self._workflow.drain()
        return self.status()

    def read(self, name: str) -> bool:
        """Read a variable of the head back, and tell whether it is what it was set to."""
        assert self._head is not None
        manifest = self._workflow.manifest(self._head)
        try:
            _, buffers = self._workflow.read_group(manifest.groups[manifest.names[name].group_id])
        except CheckpointError:
            return False
        return bytes(buffers[0]) == self._boxes[name]

    def die_at(self, point: str) -> bool:
        """Kill this process when it gets to a point."""

        def reached(here: str) -> None:
            if here == point:
                os.kill(os.getpid(), signal.SIGKILL)

        self._repository.reached = reached
        return True

    def fork(self) -> str:
        """Let a forked child try to hand over, to append and to take in; return what it was told."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            told = []
            for attempt in (lambda: self.hand_over("x", 1, 100), self.begin, self.status, self._workflow.close):
                try:
                    attempt()
                except StaleEpoch as error:
                    told.append(type(error).__name__)
            os.write(write, " ".join(told).encode())
            os._exit(0)
        os.close(write)
        with open(read, "rb") as answer:
            told_by_child = answer.read().decode()
        os.waitpid(pid, 0)
        return told_by_child

    def collect(self) -> int:
        """Delete all checkpoints but the newest and collect garbage, with the journal taken back meanwhile."""
        self._workflow.stop_writer()
        for info in self._workflow.checkpoints()[:-1]:
            self._workflow.delete_checkpoint(info.id)
        return self._repository.gc().chunks

    def stop_writer(self) -> bool:
        """Take the journal back."""
        self._workflow.stop_writer()
        return True

    def close(self) -> bool:
        """End in an orderly way."""
        self._workflow.close()
        return True

    def _draft(self, event_type: str) -> EventDraft:
        return EventDraft(event_type=event_type, run_id="r1", activity_id=self._kernel_id, attempt=self._attempts)


def main() -> None:
    """Do what comes on the standard input, and answer each line with one."""
    kernel = _Kernel(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        action: Any = getattr(kernel, what)
        print(json.dumps(action(*arguments)), flush=True)


if __name__ == "__main__":
    main()
