"""Each call to the disk fails once: nothing is lost, the message says so, and the next try succeeds."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable

import pytest

from durable_nb.errors import CheckpointError, DurableError
from durable_nb.model import EventDraft
from durable_nb.testing import invariants
from durable_nb.testing.recovery import check_promises, check_recovery
from durable_nb.testing.scenario import NOTEBOOK, Scenario, delta_of, newest, open_repository
from durable_nb.testing.simfiles import SimFiles


def number_of_operations() -> int:
    """Return how many calls to the disk the scenario makes."""
    files = SimFiles()
    Scenario().run(files)
    return len(files.operations)


def live_with_failure(n: int, number: int) -> tuple[SimFiles, Scenario, list[DurableError]]:
    """Let call `n` fail; every step that fails is tried once more, and must then succeed."""
    files = SimFiles()
    files.fail_at(n, OSError(number, os.strerror(number)))
    failures: list[DurableError] = []

    def attempt(step: Callable[[], object]) -> object:
        try:
            return step()
        except DurableError as error:
            failures.append(error)
            return step()

    life = Scenario(attempt=attempt)
    life.run(files)
    return files, life, failures


def check_failing_calls(number: int, *, first: int, every: int) -> None:
    """Let each `every`-th call fail in a life of its own; check what is said, and recover after a crash."""
    seen = 0
    for n in range(first, number_of_operations() + 1, every):
        files, life, failures = live_with_failure(n, number)
        for error in failures:
            text = str(error)
            assert "safe" in text or "Nothing was changed" in text, f"call {n}: {text}"
            assert error.hint, f"call {n}: {text}"
            assert isinstance(error.__cause__, OSError), f"call {n}: {text}"
        seen += len(failures)
        try:
            # A failed sync must not count on the next one: what it dropped is lost in a crash.
            check_recovery(life, files.crash(random.Random(n)))
        except BaseException as error:
            error.add_note(f"call {n} failed with {os.strerror(number)}")
            raise
    assert seen > 200 // every


def test_every_failing_call_costs_nothing() -> None:
    """Whichever call fails, the step says what is safe, its second try succeeds, and all is there after a crash."""
    # Every call fails once: the odd ones for lack of space, the even ones with an I/O error.
    check_failing_calls(errno.ENOSPC, first=1, every=2)
    check_failing_calls(errno.EIO, first=2, every=2)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_every_failing_call_costs_nothing_long(number: int) -> None:
    """Every call fails with every error."""
    check_failing_calls(number, first=1, every=1)


def test_a_failed_commit_leaves_everything_as_it_was_and_the_next_succeeds() -> None:
    """CheckpointError names the cause and what is safe; head, ids and user bytes are unchanged; a new commit works."""
    draft = EventDraft(event_type="CheckpointCompleted", run_id="r1")
    content = random.Random(1).randbytes(100_000)
    for n in range(1, 100):
        files = SimFiles()
        life = Scenario()
        workflow = life.open(open_repository(files))
        life.commit(workflow, {"a": (b"one", ())})
        buffer = bytearray(content)
        delta = delta_of(workflow, {"x": (b"pickle", (buffer,))}, parent=newest(workflow))
        events = list(workflow.events())
        files.fail_at(n, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        error = failure_of(lambda workflow=workflow, delta=delta: workflow.commit(draft, delta))
        if error is None:
            break
        assert isinstance(error, CheckpointError)
        assert "No space left on device" in error.message
        assert "untouched" in error.message
        assert events == list(workflow.events())
        assert delta.checkpoint_id == workflow.next_checkpoint_id()
        assert content == bytes(buffer)
        check_promises(life, workflow)
        workflow.commit(draft, delta)
        assert delta.checkpoint_id == workflow.checkpoints()[-1].id
        assert (b"pickle", (content,)) == invariants.restored(workflow, delta.checkpoint_id)[("x",)]
    assert n > 12


def test_a_failing_read_changes_nothing_and_the_next_one_succeeds() -> None:
    """Whichever read fails in a restore, the error says what is safe, and trying again brings everything back."""
    files = SimFiles()
    life = Scenario()
    life.run(files)
    before = files.snapshot()

    def restore() -> None:
        workflow = open_repository(files).workflow(NOTEBOOK, kernel_id="reader", owner=None)
        invariants.acknowledged_checkpoints_are_there(workflow, life.acknowledged)

    for n in range(1, 200):
        files.fail_at(n, OSError(errno.EIO, os.strerror(errno.EIO)))
        error = failure_of(restore)
        if error is None:
            break
        assert "safe" in str(error) or "Nothing was changed" in str(error)
        restore()
    assert n > 15
    assert before == files.snapshot()


def failure_of(step: Callable[[], object]) -> DurableError | None:
    """Return the error that a step raises, None when it succeeds."""
    try:
        step()
    except DurableError as error:
        return error
    return None
