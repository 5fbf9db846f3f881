"""What the process uses, and how the garbage collector is kept from looking at a history that stays."""

from __future__ import annotations

import gc
import sys

import pytest

from durable_nb.resources import rss_bytes, uncollected


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_afterwards_as_it_was(on: bool) -> None:
    """Within the block it does not begin by itself; what a person switched off stays off, also after an error."""
    was_on = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        inside = []
        with pytest.raises(ZeroDivisionError), uncollected():
            inside.append(gc.isenabled() or 1 / 0)
        with uncollected():
            inside.append(gc.isenabled())
        assert ([False], on) == (inside, gc.isenabled())
    finally:
        (gc.enable if was_on else gc.disable)()


def test_what_a_block_made_is_old_and_still_collected() -> None:
    """Objects of the block are in the oldest generation and not frozen: a cycle among them goes when nobody has it."""
    with uncollected():
        kept = [[n] for n in range(100)]
    assert any(item is kept for item in gc.get_objects(generation=2))
    kept.append(kept)
    number = id(kept)
    del kept
    gc.collect()
    assert not any(id(item) == number and len(item) == 101 for item in gc.get_objects() if type(item) is list)


def test_what_somebody_froze_stays_frozen() -> None:
    """A person's `gc.freeze()` is not undone."""
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with uncollected():
            kept = [[n] for n in range(100)]
        assert 100 == len(kept)
        assert gc.get_freeze_count() > count // 2  # some are gone because nobody has them any more
    finally:
        gc.unfreeze()


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is what is known elsewhere")
def test_resident_memory_is_that_of_now() -> None:
    """It grows with what is held and shrinks when that is let go."""
    before = rss_bytes()
    held = bytearray(b"x") * (64 << 20)
    grown = rss_bytes()
    del held
    assert grown - before > 48 << 20
    assert rss_bytes() < grown - (48 << 20)
