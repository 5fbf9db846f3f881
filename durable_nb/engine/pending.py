"""What a restore leaves to be loaded later: which groups, when each is loaded, and what is told of them.

Called by `restoring` and by the engine before anything runs, and by the kernel when nothing runs. When `need` returns,
every name that the cell can be seen to read is live; what it reaches unseen is loaded when it asks for it.
"""

from __future__ import annotations

import ast
import base64
import builtins
import errno
import re
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from durable_nb.capture import plainly
from durable_nb.capture.access import Access, analyse
from durable_nb.capture.access_bytecode import CodeFacts, code_facts
from durable_nb.capture.access_rules import IDENTIFIER
from durable_nb.capture.borrowing import address_of, fresh
from durable_nb.capture.codec import fingerprint
from durable_nb.capture.lazy import Source
from durable_nb.capture.staging import DEFINITIONS, ReadGroup
from durable_nb.chunking import Marked
from durable_nb.engine.processes import EARLY
from durable_nb.engine.words import counted_names, size_text
from durable_nb.errors import DurableError
from durable_nb.model import Group, Json, Manifest, Unsaved, Variable

if TYPE_CHECKING:
    from durable_nb.engine.effects import CellRequest
    from durable_nb.engine.session import Engine

__all__ = ["Idle", "choose", "connect", "deferring", "load_all", "need", "pending_rows", "prepare", "reader", "text"]

# Unpickling many small objects takes about four times as long as reading as many bytes of an array.
PICKLE_WEIGHT = 4
LATEST = 3  # results that IPython keeps as `_`, `__` and `___`
# Objects of these do something when they come back (draw, connect, open a file), or hold on to what the process has.
AT_ONCE = frozenset(
    {"IPython", "_io", "_thread", "altair", "asyncio", "bokeh", "comm", "contextvars", "duckdb", "h5py", "io",
     "ipykernel", "ipywidgets", "logging", "matplotlib", "mmap", "multiprocessing", "plotly", "sqlite3", "tempfile",
     "threading", "tqdm", "traitlets", "weakref", "zipfile"}
)  # fmt: skip
AT_ONCE_TYPES = frozenset({"numpy.memmap", "memoryview", "module", "generator"})
# What Python calls while an object of a class of the notebook is loaded.
_HOOKS = (
    *("__setstate__", "__reduce__", "__reduce_ex__", "__new__", "__getattr__", "__getattribute__", "__setattr__"),
    *("__hash__", "__eq__", "__setitem__", "append", "extend", "add"),
)
# Of the process, of the rights, of a network: what is stored is not the reason.
_PASSING = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EACCES, errno.EPERM, errno.ESTALE,
     errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH}
)  # fmt: skip
_WORD = re.compile(rb"[A-Za-z_]\w*")
_OUT = re.compile(r"Out\[(\d+)\]")


class _NotLoaded:
    """Stands for the value of a pending name where a cell is analysed."""


_NOT_LOADED = _NotLoaded()


def connect(engine: Engine) -> None:
    """Let what arrives late go where it belongs, and what does not arrive be told."""
    lazy = engine.capture.lazy
    lazy.outs, lazy.set_out = engine.shell.outs, engine.shell.set_out
    lazy.failed = partial(failed, engine)
    lazy.momentary = partial(_is_momentary, engine)
    engine.workflow.allocate, lazy.own = fresh, engine.workflow.own


def _is_momentary(engine: Engine, error: DurableError) -> bool:
    """Tell whether reading failed for a reason that will pass, while what is stored is as it was."""
    number = error.details.get("errno")
    return number in _PASSING or (number == errno.ENOENT and engine.workflow.is_away())


def reader(engine: Engine, manifest: Manifest) -> ReadGroup:
    """Return what reads groups of a manifest, each proved to be what the manifest means.

    The fingerprint of a group, which the signed manifest holds, is ten times as fast as the digests of its chunks. No
    accident escapes it; for a forger the digests are checked too, in the first idle moment. Large buffers are the pages
    of a pack at first, which are copied in idle moments.
    """
    if engine.settings.lazy == "off":
        return engine.workflow.read_group  # there may be no idle moments
    lazy = engine.capture.lazy

    def read(group: Group) -> tuple[bytes, Sequence[Any]]:
        alone = manifest.names.get(group.names[0]) if len(group.names) == 1 else None
        known = alone.digest if alone is not None and alone.group_id == group.group_id else group.digest

        def proves(data: bytes, buffers: Marked) -> bool:
            return fingerprint(data, buffers) == known

        data, buffers = engine.workflow.read_group(group, proves if known and group.buffers else None, mapped=True)
        if buffers.marks:
            lazy.unchecked.append(group)
        lazy.mapped.extend((weakref.ref(memory), address_of(memory), memory.nbytes) for memory in buffers.mapped)
        buffers.mapped.clear()  # nothing but what is made of it holds the memory
        return data, buffers

    return read


# ---- which -----------------------------------------------------------------------------------------------------------


def choose(
    engine: Engine,
    manifest: Manifest,
    names: Collection[str] | None = None,
    *,
    eager: bool = False,
    live: Collection[str] = (),
) -> frozenset[str]:
    """Return which of the names of a manifest (default all) are loaded later: the largest, beyond a moment's work.

    Names in `live` stay as they are live, whatever the checkpoint has.
    """
    if eager or engine.settings.lazy == "off" or not engine.capture.lazy.supported:
        return frozenset()
    used = {manifest.names[name].group_id for name in (manifest.names if names is None else names)}
    groups = [group for group_id, group in manifest.groups.items() if group_id in used]
    left = sum(map(_cost, groups))
    if left <= engine.settings.eager_bytes:
        return frozenset()
    at_once = _at_once(manifest) | {f"Out[{n}]" for n in engine.shell.outs()}
    found: set[str] = set()
    for group in sorted(groups, key=lambda group: (_defines(manifest, group), -_cost(group))):
        if left <= engine.settings.eager_bytes:
            break
        held = {n for n in group.names if n in manifest.names and manifest.names[n].group_id == group.group_id}
        if held.isdisjoint(at_once) and _can_wait(manifest, group, held):
            found |= held.difference(live)
            left -= _cost(group)
    return frozenset(found)


def _cost(group: Group) -> int:
    return PICKLE_WEIGHT * group.pickle.size_bytes + sum(buffer.size_bytes for buffer in group.buffers)


def _defines(manifest: Manifest, group: Group) -> bool:
    """Tell whether a group holds functions or classes, which code finds in more ways than by reading a name."""
    return any(manifest.names[n].type in DEFINITIONS for n in group.names if n in manifest.names)


def _at_once(manifest: Manifest) -> set[str]:
    """Return the names that have to be there from the start, whatever their size."""
    found = {entry.name for entry in manifest.unsaved}
    # Code finds a builtin of that name before it asks for what is pending.
    found.update(name for name in manifest.names if name in vars(builtins))
    results = sorted((int(m[1]), n) for n in manifest.names if (m := _OUT.fullmatch(n)))
    found.update(n for _, n in results[-LATEST:])
    # A handler, a hook, an option: the state of the process holds on to variables by their names.
    for component, entry in manifest.process.items():
        if component not in EARLY and entry:
            found.update(_named(entry.get("value")))
            found.update(word.decode() for word in _WORD.findall(base64.b64decode(entry.get("b64", ""))))
    return found


def _named(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield from IDENTIFIER.findall(value)
    elif isinstance(value, list):
        for item in value:
            yield from _named(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _named(key)
            yield from _named(item)


def _can_wait(manifest: Manifest, group: Group, held: Collection[str]) -> bool:
    if not held or not all(n.isidentifier() or _OUT.fullmatch(n) for n in held):
        return False
    kinds = {*group.types, *(manifest.names[n].type for n in held)}
    return AT_ONCE_TYPES.isdisjoint(kinds) and AT_ONCE.isdisjoint(kind.partition(".")[0] for kind in kinds)


def prepare(engine: Engine) -> None:
    """Load at once what runs code of the notebook that looks at variables while it loads: later they are others."""
    lazy, namespace = engine.capture.lazy, engine.shell.namespace
    known: dict[str, bool] = {}
    for name in list(lazy.names):
        group = lazy.group_of(name)
        for kind in group.types if group is not None else ():
            module, _, path = kind.partition(".")
            if module == "__main__" and (kind not in known):
                lazy.load([path.partition(".")[0]])
                known[kind] = _looks_around(_found(namespace, path))
            if known.get(kind):
                lazy.load([name])
                break


def _found(namespace: Mapping[str, Any], path: str) -> object:
    value: Any = namespace.get(path.partition(".")[0])
    for part in path.split(".")[1:]:
        value = plainly.members(value).get(part) if plainly.is_a(value, type) else None
    return value


def _looks_around(cls: object) -> bool:
    """Tell whether loading an instance may run code that reads or writes globals of the notebook."""
    if not plainly.is_a(cls, type):
        return True  # a class that no name leads to: it cannot be looked at
    for base in plainly.lineage(cls):
        if plainly.module(base) != "__main__":
            continue
        hooks = (*_HOOKS, "__init__") if issubclass(base, BaseException) else _HOOKS
        for hook in (plainly.members(base).get(name) for name in hooks):
            function = getattr(hook, "__func__", hook)
            code = getattr(function, "__code__", None)
            if code is not None and _asks_for_globals(code_facts(code)):
                return True
    return False


def _asks_for_globals(facts: CodeFacts) -> bool:
    own = any(not hasattr(builtins, name) for name in facts.loads)
    return own or bool(facts.writes) or bool(facts.everything)


@contextmanager
def deferring(engine: Engine, manifest: Manifest, names: Collection[str], *, alone: bool) -> Iterator[Source]:
    """Let names be loaded later from now on; if what follows does not come to its end, all is as it was.

    With `alone` nothing else is pending any more, because the checkpoint takes the place of all names.
    """
    lazy, namespace = engine.capture.lazy, engine.shell.namespace
    before = lazy.state()
    if alone:
        lazy.clear()
    # A live value of such a name would be found instead; it comes back if the restore does not get through.
    held = {name: namespace.pop(name) for name in names if name in namespace}
    source = lazy.defer(manifest, reader(engine, manifest), names)
    try:
        yield source
    except BaseException:
        lazy.back_to(before)
        namespace.update(held)
        raise


# ---- when ------------------------------------------------------------------------------------------------------------


def need(engine: Engine, request: CellRequest) -> None:
    """Load what a cell can be seen to need, before it runs."""
    lazy = engine.capture.lazy
    lazy.sync()
    while lazy:
        wanted = _wanted(engine, request, lazy.names)
        if not wanted:
            return
        # What has come may lead to more: functions of the notebook read names of their own.
        lazy.load(wanted)


def _wanted(engine: Engine, request: CellRequest, pending: Mapping[str, Variable]) -> list[str]:
    access = _access(engine, request, pending)
    if access is None or access.everything or "__builtins__" in request.source or "builtins" in request.source:
        return list(pending)
    # What it may bind and may not, it may delete as well; what it certainly binds anew nobody needs.
    names = {*access.reads, *(access.stores - access.binds), *_deleted(request.tree)}
    if "Out[*]" in names:
        names.update(n for n in pending if n.startswith("Out["))
    return [n for n in pending if n in names]


def _access(engine: Engine, request: CellRequest, pending: Iterable[str]) -> Access | None:
    seen: dict[str, Any] = {**engine.shell.namespace, **dict.fromkeys(pending, _NOT_LOADED)}
    try:
        return analyse(request.tree, request.transformed, seen)
    except Exception:  # what cannot be analysed may read everything; `inputs` tells about it
        return None


def _deleted(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a cell deletes, which have to be there for that."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Delete):
            yield from (n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


class Idle:
    """Work for idle moments, while there is `more`: `fetch` in a thread of its own, `take` between cells."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._fetched: str | None = None
        self._forged: list[tuple[Group, DurableError]] = []

    def more(self) -> bool:
        """Tell whether anything is pending, or has to be checked."""
        lazy = self._engine.capture.lazy
        return bool(lazy or lazy.mapped or lazy.unchecked)

    def fetch(self) -> None:
        """Read the smallest pending group, so that many names are there soon; then make memory own, and check."""
        lazy = self._engine.capture.lazy
        groups = {name: group for name in list(lazy.names) if (group := lazy.group_of(name)) is not None}
        if groups:
            self._fetched = min(groups, key=lambda name: _cost(groups[name]))
            lazy.fetch(self._fetched)
        elif lazy.mapped:
            lazy.own_some()
        elif lazy.unchecked:
            group = lazy.unchecked.pop()
            try:
                self._engine.workflow.check_group(group)
            except DurableError as error:
                self._forged.append((group, error))

    def take(self) -> None:
        """Make live what was read, if it still is pending; tell what was not what it seemed to be."""
        name, self._fetched = self._fetched, None
        if name is not None:
            self._engine.capture.lazy.load([name])
        while self._forged:
            group, error = self._forged.pop()
            self._engine.shell.say(
                f"durable_nb: {counted_names(group.names)} was loaded, its fingerprint was right, and what is stored "
                f"of it is not what was saved: {error} Unless the disk has failed since, somebody changed it: "
                "do not trust it, run the cell that makes it."
            )


def load_all(engine: Engine) -> None:
    """Load everything that is pending, because something is about to look at the namespace as a whole."""
    engine.capture.lazy.load_all()


# ---- what is told ----------------------------------------------------------------------------------------------------


def pending_rows(engine: Engine) -> list[tuple[str, str, int]]:
    """Return name, type and size of what is pending, largest first, without loading it."""
    names = dict(engine.capture.lazy.names)
    return sorted(((n, v.type, v.size_bytes) for n, v in names.items()), key=lambda row: (-row[2], row[0]))


def text(engine: Engine) -> str:
    """Return in words how much is pending now, empty if nothing is."""
    lazy = engine.capture.lazy
    names = list(lazy.names)
    groups = {group.group_id: group for name in names if (group := lazy.group_of(name)) is not None}
    size = size_text(sum(group.size_bytes for group in groups.values()))
    return f"{len(names)} loaded when needed ({size})" if names else ""


def failed(engine: Engine, lost: Sequence[Unsaved], stored: Mapping[str, str]) -> None:
    """Take note of names that did not load when they were needed: from now on they are not back, like any such name.

    `stored` are their versions.
    """
    engine.unloadable.update(stored.items())
    engine.missing = (*engine.missing, *lost)
    engine.absent.update((entry.name, entry) for entry in lost)
    for entry in lost:
        engine.shell.say(
            f"durable_nb: `{entry.name}` could not be loaded and is not back: {entry.reason.rstrip('.')}. "
            "Everything else is as it was."
        )
