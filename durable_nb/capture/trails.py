"""What the walk met on its way through the value of one name, kept until it is known who else holds it.

Filled by `groups`, read by `closed`.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OURS", "WEAK", "Held", "OurRef", "Trail"]

# The walk follows what these lead to, and yet they do not keep it alive.
WEAK: tuple[type, ...] = (
    weakref.ref,
    weakref.ProxyType,
    weakref.CallableProxyType,
    weakref.WeakValueDictionary,
    weakref.WeakKeyDictionary,
    weakref.WeakSet,
)


class OurRef(weakref.ref[Any]):
    """A weak reference of our own, told apart from the one that all others share."""


OURS: tuple[type, ...] = (OurRef,)


class Held(list[Any]):
    """A list that the walk made: what it holds is held once more because of it."""


@dataclass(slots=True, kw_only=True)
class Trail:
    """The objects that one name leads to: those that the walk followed (`frontiers`), and those it asked (`own`).

    `repeats` counts, by id, the references met beyond the first one, and those that the walk itself holds; `mentions`
    counts all references to definitions and to what is in `own`. `functions` are the definitions that are part of the
    value. `everything`: it leads to the namespace itself, or to what the process shares.
    """

    frontiers: list[list[Any]] = field(default_factory=list)
    own: list[Any] = field(default_factory=list)
    functions: list[Any] = field(default_factory=list)
    types: set[type] = field(default_factory=set)
    repeats: dict[int, int] = field(default_factory=dict)
    mentions: dict[int, int] = field(default_factory=dict)
    everything: bool = False

    def met(self, obj: object) -> None:
        """Count a reference to a definition, or to an object that is asked for what it holds."""
        self.mentions[id(obj)] = self.mentions.get(id(obj), 0) + 1

    def hold(self, held: Held) -> None:
        """Count the references that a list of the walk's own adds."""
        for obj in held:
            self.repeats[id(obj)] = self.repeats.get(id(obj), 0) + 1

    def forget(self, held: Held) -> None:
        """Do not count the references that a weak one seems to add."""
        for obj in held:
            self.repeats[id(obj)] = self.repeats.get(id(obj), 0) - 1
