"""Ctrl-C waits while something becomes durable, and is not lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from durable_nb.engine.interrupts import uninterrupted


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """SIGINT interrupts; a shell that starts the tests in the background has told them to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_inside_comes_after_the_block() -> None:
    """A SIGINT during the block is delivered at its end, and the handler is the one from before."""
    before = signal.getsignal(signal.SIGINT)
    done = []

    def work() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is before


def test_no_interrupt_no_effect() -> None:
    """Without a SIGINT the block changes nothing, also in another thread."""
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with uninterrupted():
            seen.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with uninterrupted():
        seen.append(2)
    assert seen == [1, 2]
    assert signal.getsignal(signal.SIGINT) is before
