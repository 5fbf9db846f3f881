"""A notebook without a kernel: cells run in a dictionary, every cell is captured, and a second one is restored from it.

Used by tests of capture and restore. Nothing is durable: the stored groups live in memory.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping
from typing import Any

from durable_nb.capture.namespace import Captured, NamespaceCapture
from durable_nb.capture.staging import Staged
from durable_nb.model import BufferRef, CheckpointId, Group, GroupId, Manifest, Unsaved

__all__ = ["Notebook"]


class Notebook:
    """A namespace, its captures, and the manifest that a store would hold."""

    def __init__(self, namespace: Mapping[str, Any] | None = None) -> None:
        # Functions made by dataclasses get the globals of the real `__main__`; everything else gets this dictionary.
        self.ns: dict[str, Any] = {"__name__": "__main__", **(namespace or {})}
        self.out: dict[str, Any] = {}
        self.capture = NamespaceCapture(self.ns, hidden=dict, out=lambda: self.out)
        self.head: Manifest | None = None
        self.stored: dict[GroupId, tuple[bytes, list[bytes]]] = {}
        self.cells = 0

    def run(self, cell: str) -> Captured:
        """Run a cell and capture what it left."""
        name = f"<cell {id(self)}-{self.cells}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        exec(compile(cell, name, "exec", dont_inherit=True), self.ns)
        return self.look()

    def look(self, **options: Any) -> Captured:
        """Capture now, and make the result the head."""
        self.cells += 1
        captured = self.capture.delta(self.head, f"c{self.cells}", made_by=f"cell {self.cells}", **options)
        names = dict(self.head.names) if self.head is not None else {}
        groups = dict(self.head.groups) if self.head is not None else {}
        for name, variable in captured.names.items():
            if variable is None:
                names.pop(name, None)
            else:
                names[name] = variable
        for data in captured.groups:
            self.stored[data.group_id] = (data.pickle, [bytes(b) for b in data.buffers])
            size = BufferRef(size_bytes=len(data.pickle), chunk_bytes=1 << 20, chunks=())
            groups[data.group_id] = Group(
                group_id=data.group_id, names=data.names, codec=data.codec, pickle=size, deps=data.deps
            )
        used = {variable.group_id for variable in names.values()}
        self.head = Manifest(
            checkpoint_id=CheckpointId(f"c{self.cells}"),
            parent=None,
            names=names,
            groups={g: group for g, group in groups.items() if g in used},
            unsaved=captured.unsaved,
        )
        return captured

    def read(self, group: Group) -> tuple[bytes, list[bytearray]]:
        """Return what a store returns: the pickle, and buffers that are given away."""
        data, buffers = self.stored[group.group_id]
        return data, [bytearray(b) for b in buffers]

    def restored(self) -> Notebook:
        """Return a new notebook in which the head has been restored."""
        assert self.head is not None
        other = Notebook()
        other.head, other.stored, other.cells = self.head, self.stored, self.cells + 1000
        staged = other.restore()
        assert not staged.unsaved, staged.unsaved
        return other

    def restore(self, names: Iterable[str] | None = None, *, delete_others: bool = True) -> Staged:
        """Stage and apply the head (or some of its names) in this notebook."""
        assert self.head is not None
        staged = self.capture.stage(self.head, self.read, names)
        out = self.capture.apply(staged, delete_others=delete_others)
        self.out = {f"Out[{number}]": value for number, value in out.items()}
        self.capture.adopt(self.head, list(staged.values))
        return staged

    def __getitem__(self, name: str) -> Any:
        return self.ns[name]

    def check(self, cell: str) -> None:
        """Run a cell without capturing: assertions of a test in the words of a notebook."""
        exec(compile(cell, "<check>", "exec", dont_inherit=True), self.ns)

    @property
    def unsaved(self) -> dict[str, Unsaved]:
        """The report of the last capture, by name."""
        assert self.head is not None
        return {u.name: u for u in self.head.unsaved}
