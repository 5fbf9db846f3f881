"""What is known of the groups of a namespace since they were looked at, found by name and by what has to be asked.

Kept by `settled`. A look costs what changed and not what is there, so nothing here is made anew for a look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from durable_nb.capture.packing import Bad

__all__ = ["GroupNames", "Record", "Records", "address"]

GroupNames = tuple[str, ...]

# What `id` tells, in another form. `id` raises an audit event each time, and somebody listens to those.
address = object.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of one group since it was looked at.

    `deps` are the definitions it refers to by name, with the addresses of these; `reach` are names that its functions
    load or bind; `everything`: they may reach any. `is_open`: somebody else may hold a part of it. `is_called`: it
    holds a class, and who holds that is not counted. `mentions` counts its references to definitions, by id;
    `functions` are the ids of the notebook's functions in it.
    """

    names: GroupNames
    bad: Mapping[str, Bad]
    deps: Mapping[str, int]
    reach: frozenset[str]
    everything: bool
    is_open: bool
    is_called: bool
    mentions: Mapping[int, int]
    functions: frozenset[int]
    cost_s: float


@dataclass(slots=True)
class Records:
    """Records by each of their names and by group, and those among them that every look has to ask."""

    by_name: dict[str, Record] = field(default_factory=dict)
    by_group: dict[GroupNames, Record] = field(default_factory=dict)
    outsiders: dict[GroupNames, Record] = field(default_factory=dict)  # open, or called by anybody
    dependent: dict[GroupNames, Record] = field(default_factory=dict)  # with references to definitions
    bad: dict[GroupNames, Record] = field(default_factory=dict)  # with names that cannot be stored
    callable: dict[GroupNames, Record] = field(default_factory=dict)  # with functions of the notebook

    def put(self, record: Record) -> None:
        """Take in a group; whatever was known of its names is forgotten."""
        for name in record.names:
            if (before := self.by_name.get(name)) is not None:
                self.drop(before)
        self.by_name.update(dict.fromkeys(record.names, record))
        self.by_group[record.names] = record
        if record.is_open or record.is_called:
            self.outsiders[record.names] = record
        if record.deps or record.mentions:
            self.dependent[record.names] = record
        if record.bad:
            self.bad[record.names] = record
        if record.functions:
            self.callable[record.names] = record

    def drop(self, record: Record) -> None:
        """Forget a group."""
        for name in record.names:
            self.by_name.pop(name, None)
        for index in (self.by_group, self.outsiders, self.dependent, self.bad, self.callable):
            index.pop(record.names, None)

    def clear(self) -> None:
        """Forget all of them."""
        for index in (self.by_name, self.by_group, self.outsiders, self.dependent, self.bad, self.callable):
            index.clear()
