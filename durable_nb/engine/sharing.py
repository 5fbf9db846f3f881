"""What a value that was made again shares with the variables that came back, so that they stay one object.

Called by `recomputing` after a cell ran again. A variable that the cell had made together with the value is replaced by
the one of the new run, if that is equal and nothing else holds on to the old one; where that cannot be, it is told.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from durable_nb.capture import plainly
from durable_nb.capture.kinds import is_atomic
from durable_nb.history import Record

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["Shared", "share"]

MOST_OBJECTS = 200_000
_CLOSED = (types.ModuleType, types.CodeType, types.FrameType, types.BuiltinFunctionType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The names that are bound to objects of the new run now, and sentences about those that could not be."""

    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def share(
    engine: Engine, record: Record, taken: Mapping[str, Any], made: Mapping[str, Any], copies: Mapping[str, Any]
) -> Shared:
    """Join the variables that the cell made together with `taken` to them; `copies` are inputs of then it was given."""
    reached = _reach(taken.values(), engine.shell.namespace)
    notes = [
        f"It works on a copy of `{name}` as of then, because `{name}` is another one now."
        for name, value in copies.items()
        if id(value) in reached and name not in taken and name not in record.changed
    ]
    joined = [
        name
        for name in record.changed
        if name in made
        and name not in taken
        and name.isidentifier()
        and _touches(made[name], reached, engine.shell.namespace)
    ]
    after = engine.workflow.manifest(record.checkpoint_id)
    head = engine.head.names if engine.head is not None else {}
    same = [n for n in joined if n in head and n in after.names and head[n].version == after.names[n].version]
    apart = [n for n in joined if n not in same]
    free = [n for n in same if _is_free(engine, n, {*same, *taken})]
    apart += [n for n in same if n not in free]
    if free and not _rebind(engine, free, made):
        apart, free = [*apart, *free], []
    notes += [f"It no longer shares objects with `{name}`, which stays as it is." for name in apart]
    return Shared(names=tuple(free), notes=tuple(notes))


def _rebind(engine: Engine, names: list[str], made: Mapping[str, Any]) -> bool:
    """Bind the names to the new objects if these are what the checkpoint says; else leave everything as it is."""
    namespace, head = engine.shell.namespace, engine.head
    assert head is not None
    before = {n: namespace[n] for n in names}
    namespace.update({n: made[n] for n in names})
    if engine.capture.same(head, engine.workflow.read_group, names) is not None:
        namespace.update(before)
        return False
    engine.adopt(head, names)
    return True


def _is_free(engine: Engine, name: str, mine: set[str]) -> bool:
    """Does no other variable share objects with this one, or hold on to it as its definition?"""
    assert engine.head is not None
    group = engine.head.groups[engine.head.names[name].group_id]
    holders = [g for g in engine.head.groups.values() if name in g.deps and not mine.issuperset(g.names)]
    return mine.issuperset(group.names) and not holders


def _reach(values: Iterable[Any], namespace: dict[str, Any]) -> dict[int, Any]:
    """Return everything that the values hold by its id, in frames of generators too, as far as a limit."""
    found: dict[int, Any] = {}
    frontier = list(values)
    while frontier and len(found) < MOST_OBJECTS:
        new = []
        for obj in frontier:
            if id(obj) not in found and obj is not namespace and not plainly.is_a(obj, _CLOSED) and not is_atomic(obj):
                found[id(obj)] = obj
                new.append(obj)
        frontier = [part for obj in new for part in _parts(obj)]
    return found


def _parts(obj: Any) -> list[Any]:
    if type(obj) is types.FunctionType:
        # Never its globals: those are the namespace, and everything in it.
        return [obj.__closure__, obj.__defaults__, obj.__kwdefaults__, obj.__dict__]
    if plainly.is_a(obj, type):
        return list(plainly.members(obj).values()) if plainly.module(obj) == "__main__" else []
    return gc.get_referents(obj)


def _touches(value: Any, reached: Mapping[int, Any], namespace: dict[str, Any]) -> bool:
    """Does a value hold, or is it, something of what was reached that can change or that is defined here?"""
    return any(at in reached and _counts(obj) for at, obj in _reach([value], namespace).items())


def _counts(obj: Any) -> bool:
    if plainly.is_a(obj, type | types.FunctionType):
        return plainly.home(obj) == "__main__"
    return not plainly.is_a(obj, tuple | frozenset | str | bytes)
