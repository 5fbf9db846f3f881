"""The hidden generator behind `random.random()` and friends stays the one of the process; others keep what they carry.

Merged into the plug-in by `load` once random is imported. `from random import shuffle` binds a method of it; a copy
would be a second stream that nobody seeds. What pickle keeps of a generator is its stream, not its attributes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "random"


def _make_global() -> Any:
    return random._inst


def _make_generator(cls: Any) -> Any:
    """Return a generator without running the `__init__` of the user's class, whose arguments are not known."""
    return cls.__new__(cls)


def _fill_generator(generator: Any, state: tuple[Any, dict[str, Any]]) -> None:
    stream, attributes = state
    if stream is not None:
        random.Random.setstate(generator, stream)
    vars(generator).update(attributes)


@promise("exact")
def _generator(generator: Any) -> Any:
    if generator is random._inst:
        return _make_global, ()
    kind: Any = type(generator)
    if kind.__reduce__ is not random.Random.__reduce__ or kind.getstate is not _base(kind).getstate:
        return generator.__reduce_ex__(5)
    # The system's generator has no stream of its own.
    stream = None if isinstance(generator, random.SystemRandom) else generator.getstate()
    return _make_generator, (kind,), (stream, dict(vars(generator))), None, None, _fill_generator


def _base(kind: type) -> Any:
    return random.SystemRandom if issubclass(kind, random.SystemRandom) else random.Random


def _referents(generator: Any) -> Iterable[Any] | None:
    return None if generator is random._inst else vars(generator).values()


def plugin() -> Plugin:
    """Return what `random` needs."""
    return Plugin(subclasses=((random.Random, _generator),), referents={random.Random: _referents})
