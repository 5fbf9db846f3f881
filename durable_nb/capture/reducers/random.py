"""The hidden generator behind `random.random()` and friends stays the one of the process.

Merged into the plug-in by `load` once random is imported. `from random import shuffle` binds a method of it; a copy
would be a second stream that nobody seeds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "random"


def _make_global() -> Any:
    return random._inst


@promise("exact")
def _generator(generator: Any) -> Any:
    return (_make_global, ()) if generator is random._inst else generator.__reduce_ex__(5)


def _referents(generator: Any) -> Iterable[Any] | None:
    return None if generator is random._inst else vars(generator).values()


def plugin() -> Plugin:
    """Return what `random` needs."""
    return Plugin(exact={random.Random: _generator}, referents={random.Random: _referents})
