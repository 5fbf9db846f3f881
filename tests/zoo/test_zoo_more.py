"""The second half of the zoo: values come back as their rows promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable_nb.testing.zoo import Enclosure, enclosures, problems

ALL = enclosures()
NONE: list[str] = []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("enclosure", ALL[len(ALL) // 2 :], ids=lambda e: e.name)
def test_every_value_comes_back_as_promised_too(enclosure: Enclosure, tmp_path: Path) -> None:
    """After SIGKILL each value is exact, equal or reported, as its row says, and its reducer says the same."""
    if not enclosure.installed:
        pytest.skip(f"{enclosure.library} is not installed: {len(enclosure.values)} values of the zoo are not tested")
    assert NONE == problems(enclosure, tmp_path)
