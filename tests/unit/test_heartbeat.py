"""Signs of life: a kernel on another machine that works in one cell for hours is not taken for dead."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from durable_nb.errors import LeaseHeld
from durable_nb.kernel.heartbeat import Heartbeat
from durable_nb.store.lease import GRACE_S, Lease
from durable_nb.store.process_identity import this_process
from durable_nb.testing.clock import ManualClock
from durable_nb.testing.simfiles import SimFiles


def test_a_beat_keeps_another_machines_lease() -> None:
    """With a beat in the last minute the lease of another host is respected, without one it is taken over."""
    files, clock = SimFiles(), ManualClock()
    files.make_folder("leases")
    mine = this_process("one", clock)
    far = Lease.acquire(files, "leases", replace(mine, host="elsewhere", kernel_id="far"), clock=clock)
    clock.advance(2 * GRACE_S)
    far.beat(clock.now_us())
    far.beat(clock.now_us())
    clock.advance(GRACE_S / 2)
    with pytest.raises(LeaseHeld):
        Lease.acquire(files, "leases", mine, clock=clock)
    clock.advance(GRACE_S)
    assert Lease.acquire(files, "leases", mine, clock=clock).owner.epoch == 2


def test_the_heart_beats_until_it_is_stopped() -> None:
    """The thread beats in its interval, survives a disk that refuses, and ends when told."""
    beats, enough = [], threading.Event()

    def beat() -> None:
        beats.append(1)
        if len(beats) == 3:
            enough.set()
        if len(beats) == 1:
            raise OSError("no space")

    heart = Heartbeat(beat, every_s=0.01)
    heart.start()
    assert enough.wait(10)
    heart.stop()
    seen = len(beats)
    assert threading.active_count() == len([t for t in threading.enumerate() if t.name != "durable_nb-heartbeat"])
    assert len(beats) == seen


def test_stopping_before_starting_is_fine() -> None:
    """A read-only kernel never starts its heart, and ends in order all the same."""
    Heartbeat(lambda: None).stop()
