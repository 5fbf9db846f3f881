"""What a cell depends on: collected when it runs, and compared with the present when it is met again.

`before` and `after` bracket a body and give the `Inputs` of its record; `Present` answers the questions of
`reuse.mismatches` about live names, process state and files. Used by the engine alone.
"""

from __future__ import annotations

import builtins
import hashlib
import logging
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durable_nb.capture.access import Access, analyse, code_hash, module_digest
from durable_nb.capture.file_marks import FileMark, changed, fingerprint, made_again, presence
from durable_nb.capture.files_read import Recording
from durable_nb.capture.outside import METADATA
from durable_nb.capture.process_stdlib import environment_bytes
from durable_nb.engine.file_places import left_so_by_later, overwritten
from durable_nb.engine.missing import label
from durable_nb.engine.processes import GUI, UNTOUCHED, digests
from durable_nb.engine.replay import Place
from durable_nb.engine.saving import process_set
from durable_nb.errors import UsageError
from durable_nb.history import Inputs, Record
from durable_nb.model import Delta, Json, Manifest, Variable

if TYPE_CHECKING:
    from durable_nb.engine.effects import CellRequest
    from durable_nb.engine.session import Engine

_log = logging.getLogger(__name__)

__all__ = ["STREAMS", "UNPROVABLE", "Before", "Present", "Watch", "access_of", "after", "before"]

STREAMS = frozenset({"random", "numpy.random", "torch.random"})
# These change whenever a library is imported. Set for real since the load they are compared; merely restored, they are
# as far along as the last cell was, and a cell further up must not run again for that.
DRIFTING = frozenset(
    {
        "warnings.filters",
        "logging",
        "sys.limits",
        "shell.callbacks",
        "shell.magics",
        "shell.config",
        "shell.future",
        "matplotlib.pyplot",
    }
)
# A number that only tells outputs or symbols apart is no reason to run a cell again.
NOT_INPUTS = STREAMS | {"imports", GUI, "sklearn.shown", "sympy.numbers"}
_STREAM_READERS = ("getstate", "get_state", "get_rng_state", "bit_generator")
# The version of a name that no checkpoint holds: nothing can prove later that it is the same.
UNPROVABLE = "?"
ALL_OUT = "Out[*]"
_SIDES = re.compile(r" on one side and (.+) on the other")
EFFECTS = "*"  # beside the modules that a cell uses: the cells before it that did something to modules
REMOVED = "removed"  # the kind of a mark of a file that the cell took away


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What was found before the body ran."""

    code_hash: str
    access: Access
    names: Mapping[str, str | None]
    variables: Mapping[str, Variable]  # those of the head, at that moment
    base: Any
    process: Mapping[str, str]  # digests of the components that were not untouched
    set_by_run: frozenset[str]
    depends: Mapping[str, str]
    key: str
    environ: Mapping[str, str]  # the values of that moment; only digests of those that are read are recorded


@dataclass(slots=True, kw_only=True)
class Watch:
    """What is observed while a body runs: the inputs found before it, and the files it opens."""

    inputs: Before
    absent: frozenset[str]  # variables that were not back when the body began
    files: Recording
    ending: ExitStack

    def end(self) -> Recording:
        """Stop observing and return what was seen; a second call changes nothing."""
        self.ending.close()
        return self.files


def before(engine: Engine, request: CellRequest) -> Before:
    """Note code, versions of what it may read, and process state; call after outside changes were committed."""
    access = access_of(request, engine.shell.namespace)
    head = engine.head
    there = engine.process.names()
    return Before(
        code_hash=code_hash(request.transformed),
        access=access,
        names={name: version_now(engine, name) for name in read_names(engine, access)},
        variables=head.names if head else {},
        base=head.checkpoint_id if head else None,
        process={name: digest for name, digest in digests(engine).items() if name in there},
        set_by_run=frozenset(process_set(engine)),
        depends=depends_digests(request.options.depends),
        key=key_digest(request.options.key, engine.shell.namespace),
        environ=_environ_now(),
    )


def _environ_now() -> Mapping[str, str]:
    """Return a copy of the environment; its texts are decoded when one is read, which few cells do."""
    live = os.environ
    copied = environment_bytes()
    if copied is None:
        return dict(live)
    return type(live)(dict(copied), live.encodekey, live.decodekey, live.encodevalue, live.decodevalue)


def environ_digests(engine: Engine, names: Collection[str], at: Mapping[str, str]) -> dict[str, str]:
    """Return keyed digests of environment variables: values may be secrets."""
    return {n: engine.workflow.keyed_digest(text) for n, text in engine.process.environment(names, at).items()}


def access_of(request: CellRequest, namespace: dict[str, Any]) -> Access:
    """Analyse the cell; one that the analysis does not understand is taken to read everything, and is never skipped."""
    try:
        return analyse(request.tree, request.transformed, namespace)
    except Exception as error:
        _log.warning("A cell could not be analysed and will not be skipped later.", exc_info=error)
        return Access(
            reads=frozenset(),
            stores=frozenset(),
            binds=frozenset(),
            everything=True,
            why_everything="it could not be analysed",
            handles_absence=True,
            modules=(),
            unknown_inputs=(),
            outside_effects=(f"it could not be analysed: {type(error).__name__}: {error}",),
        )


def after(
    engine: Engine, request: CellRequest, found: Before, late: Access, files: Recording, delta: Delta
) -> tuple[Inputs, dict[str, Json]]:
    """Return everything the attempt depended on, now that it is known what it touched, and what it wrote unseen.

    `late` is what the cell leads to once it has run: what a local module that it imported itself does is known only
    then. The second part is for the payload: a comparison does not show what was written over with equal content, and
    yet it is an effect where the content before is another one. `written` and `removed` hold what the cell certainly
    bound or deleted; what it may have written and left as it was (a branch, a function, a seed) counts as read instead.
    """
    whole = found.access.seeds or late.seeds or any(r in request.source for r in _STREAM_READERS)
    there = engine.process.names()
    streams = {name for name in STREAMS if name in there and (whole or name in delta.process)}
    binds, stores = found.access.binds | late.binds, found.access.stores | late.stores
    same = {
        name
        for name in binds | stores
        if (was := found.variables.get(name)) is not None
        and (name not in delta.names or ((now := delta.names[name]) is not None and now.version == was.version))
    }
    # What changed although the code neither reads nor binds it changed through an alias, a callback or a thread: only
    # where it is what it was, and shared as it was, does the cell do the same again. What only holds on to a definition
    # that the cell made anew is as it was.
    missed = {
        name
        for name in delta.names.keys() - found.names.keys() - stores - binds
        if name in found.variables and (engine.head is None or (stores | binds).isdisjoint(_deps(engine.head, name)))
    }
    kept = same - binds | missed
    effects: dict[str, Json] = {
        "written": sorted(same & binds),
        "removed": sorted(n for n in binds if n not in found.variables and n not in engine.shell.namespace),
        "unsaved_made": sorted({u.name for u in delta.unsaved if u.name not in engine.absent} & stores),
    }
    # Named are those that were not untouched or that a cell had set; `others_untouched` tells of all others.
    named = {*streams, *((found.process.keys() | found.set_by_run & set(there)) - NOT_INPUTS)}
    process = {n: found.process.get(n, UNTOUCHED) for n in sorted(named)}
    unset = named - found.set_by_run
    process |= environ_digests(engine, found.access.environ | late.environ, found.environ)
    names = sorted({*found.access.modules, *late.modules})
    modules = {name: digest for name in names if (digest := module_digest(name)) is not None}
    if modules:
        modules[EFFECTS] = engine.replay.effects
    asked, unclear = _asked_for(found.access.present | late.present, request, files)
    depended = Inputs(
        names={**{n: found.variables[n].version for n in sorted(kept)}, **found.names},
        base=found.base,
        process=process,
        unset=frozenset(unset),
        others_untouched=True,
        files=(
            *(mark.as_json() for mark in (*files.reads, *asked)),
            *({"path": p, "kind": REMOVED} for p in files.removed),
        ),
        depends=found.depends,
        modules=modules,
        key=found.key,
        unknown=tuple(dict.fromkeys((*found.access.unknown_inputs, *late.unknown_inputs, *files.unknown, *unclear))),
        outside_effects=tuple(dict.fromkeys((*found.access.outside_effects, *late.outside_effects))),
        handles_absence=found.access.handles_absence,
    )
    return depended, {name: value for name, value in effects.items() if value}


def _asked_for(paths: Collection[str], request: CellRequest, files: Recording) -> tuple[list[FileMark], list[str]]:
    """Return marks of the paths of which the cell asked whether they are there, and why that is unclear for some.

    As they are now: what the cell made because it was not there is there. What it wrote itself it would read where it
    finds it, so the contents count.
    """
    marks: dict[str, FileMark] = {}
    moved = any("chdir" in text for text in (request.source, request.transformed))
    for text in sorted(paths):
        path = files.path_of(text)
        if path is None or any(mark.path == path for mark in files.reads):
            continue
        if moved and not os.path.isabs(text):
            return [], [METADATA]
        try:
            marks[path] = fingerprint(path) if path in files.written else presence(path)
        except OSError:
            return [], [METADATA]
    return list(marks.values()), []


def _deps(manifest: Manifest, name: str) -> Sequence[str]:
    """Return the definitions that a name holds on to by their names."""
    variable = manifest.names.get(name)
    return manifest.groups[variable.group_id].deps if variable else ()


def read_names(engine: Engine, access: Access) -> Sequence[str]:
    """Return the names read, with «everything» and «all of Out» spelt out."""
    known = engine.head.names if engine.head else {}
    reads = set(access.reads)
    if access.everything:
        reads |= known.keys()
    elif ALL_OUT in reads:
        reads |= {n for n in known if n.startswith("Out[")}
    return sorted(reads - {ALL_OUT})


def version_now(engine: Engine, name: str) -> str | None:
    """Return the version of a live name, None if it is absent, UNPROVABLE if no checkpoint holds it."""
    if name.startswith("In["):
        return UNPROVABLE  # the history of inputs is another one in every kernel life
    variable = engine.head.names.get(name) if engine.head else None
    if variable is not None:
        return variable.version
    return UNPROVABLE if name in engine.shell.namespace and name not in engine.shell.hidden() else None


def depends_digests(paths: Sequence[str]) -> dict[str, str]:
    """Return path → digest of the content; «missing» for what is not there, a folder's files each by themselves."""
    found: dict[str, str] = {}
    for text in paths:
        path = Path(text).expanduser()
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            found[str(file)] = _digest(file)
    return found


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing"


def key_digest(expression: str, namespace: dict[str, Any]) -> str:
    """Return a digest of the value of `--key`; its repr must say all of it."""
    if not expression:
        return ""
    try:
        value = eval(expression, namespace)
    except Exception as error:
        raise UsageError(
            f"--key {expression!r} cannot be evaluated ({type(error).__name__}: {error}); the cell did not run."
        ) from None
    return hashlib.sha256(f"{type(value).__qualname__}:{value!r}".encode()).hexdigest()


@dataclass(slots=True, kw_only=True)
class Present:
    """Answers `reuse.Facts` from the live kernel, the places of skipped cells and the store."""

    engine: Engine
    request: CellRequest
    live_process: Mapping[str, str]
    _key: str | None = field(default=None)
    _bound: frozenset[str] | None = field(default=None)

    def may_bind(self, name: str) -> bool:
        """May the cell bind the name anew? Of any other it can only change the object that is there."""
        if self._bound is None:
            access = access_of(self.request, self.engine.shell.namespace)
            self._bound = access.stores | access.binds
        return name in self._bound or name.startswith("Out[")  # a result is what the cell ends with

    def present(self, name: str) -> bool:
        place = self.engine.replay.names.get(name)
        if place is not None:
            return place.version is not None
        return version_now(self.engine, name) is not None

    def is_builtin(self, name: str) -> bool:
        return hasattr(builtins, name)

    def name_differs(self, name: str, version: str, record: Record) -> str | None:
        if version == UNPROVABLE:
            return f"it reads `{name}`, which no checkpoint can hold"
        engine = self.engine
        place = engine.replay.names.get(name)
        if place is not None:
            if place.version == version or self._equal_digests(name, place, record):
                return None
            return f"`{name}` changed ({self._versions(place.version, version)})"
        now = version_now(engine, name)
        if now == version:
            return None
        if now is None:
            return f"`{name}` was read and is not defined now"
        if record.inputs.base is None:
            return f"`{name}` changed ({self._versions(now, version)})"
        base = engine.workflow.manifest(record.inputs.base)
        if (text := engine.capture.same(base, engine.workflow.read_group, [name])) is None:
            return None
        return f"`{name}` changed: {_plain(text, name)} ({self._versions(now, version)})"

    def _equal_digests(self, name: str, place: Place, record: Record) -> bool:
        """Do two stored versions have the same content by their fingerprints, which only prove equality?"""
        if place.version is None or record.inputs.base is None:
            return False
        manifest = self.engine.workflow.manifest
        one, other = (manifest(c).names.get(name) for c in (place.checkpoint_id, record.inputs.base))
        return one is not None and other is not None and bool(one.digest) and one.digest == other.digest

    def _versions(self, now: str | None, then: str) -> str:
        """Return which versions of a name are compared; a version is called by the checkpoint that it came with."""
        if now is None:
            return f"now deleted; the cell read it as {then} has it"
        if now == UNPROVABLE:
            return f"now not saved; the cell read it as {then} has it"
        attempt = self.engine.state.completed.get(now)
        made = f"made by the cell {label(attempt)}" if attempt is not None else "changed outside of the durable cells"
        return f"now as {now} has it, {made}; the cell read it as {then} has it"

    def aliases_differ(self, record: Record) -> str | None:
        """Return how names that the cell read share objects differently than they did, else None."""
        engine = self.engine
        if record.inputs.base is None or engine.head is None:
            return None
        base = engine.workflow.manifest(record.inputs.base)
        names = [n for n in record.inputs.names if n in base.names and n not in engine.replay.names]
        then = _partition({n: base.names[n].group_id for n in names})
        now = _partition({n: engine.head.names[n].group_id for n in names if n in engine.head.names})
        if then == now:
            return None
        shared = sorted({n for part in (then ^ now) if len(part) > 1 for n in part})
        if not shared:
            return None
        text = engine.capture.same(base, engine.workflow.read_group, shared)
        return None if text is None else f"what it reads shares objects differently: {text}"

    def components(self) -> Collection[str]:
        return [name for name in self.engine.process.names() if name not in NOT_INPUTS]

    def process_differs(self, component: str, digest: str, unset: bool) -> str | None:
        engine = self.engine
        if component.startswith("os.environ["):
            now = environ_digests(engine, [component[len("os.environ[") : -1]], os.environ).get(component, digest)
            return None if now == digest else _not_as_it_was(component)
        place = engine.replay.process.get(component)
        now = (place.version or UNTOUCHED) if place else self.live_process.get(component, UNTOUCHED)
        if now == digest:
            return None
        untouched = place is None and now == engine.attached_process.get(component, UNTOUCHED)
        if untouched and (unset or component in DRIFTING):
            return None  # nothing had set it then, nothing has set it since the load
        return _not_as_it_was(component)

    def file_differs(self, mark: Json, record: Record) -> str | None:
        if mark["kind"] == REMOVED:
            # A cell further up that had to run has made the file again; this one is what takes it away.
            life = self.engine.state.last_kernel
            return made_again(mark["path"], life.attached) if life is not None else None
        text = changed(FileMark.from_json(mark))
        return None if text is None or left_so_by_later(self.engine, mark, record) else text

    def file_overwritten(self, mark: Json, record: Record) -> str | None:
        return overwritten(self.engine, mark, record)

    def depends_differs(self, depends: Mapping[str, str]) -> str | None:
        now = depends_digests(self.request.options.depends)
        if now == dict(depends):
            return None
        different = sorted(k for k in {*now, *depends} if now.get(k) != depends.get(k))
        return f"a file named by --depends changed ({', '.join(different[:3])})"

    def module_differs(self, module: str, digest: str) -> str | None:
        if module == EFFECTS:
            # Who goes on in the middle has met no such cell yet, which says nothing.
            replay = self.engine.replay
            same = replay.effects == digest or not (replay.effects or replay.from_top)
            return None if same else "cells above that change modules are others, or edited"
        return None if module_digest(module) == digest else f"module {module} was edited"

    def key(self) -> str:
        if self._key is None:
            self._key = key_digest(self.request.options.key, self.engine.shell.namespace)
        return self._key


def _not_as_it_was(component: str) -> str:
    if component in STREAMS:
        return (
            f"the random numbers of `{component.removesuffix('.random')}` go on from another place than they did then"
        )
    what = {"cwd": "the working folder"}.get(component, component)
    return f"{what} is not what it was"


def _plain(text: str, name: str) -> str:
    """Say in words of the notebook how a live value, the one side, differs from what the cell had read, the other."""
    text = text.replace(f"value[{name!r}]", name).replace(" is not the same on both sides", " is another one now")
    return _SIDES.sub(r" now, and \1 then", text)


def _partition(groups: Mapping[str, str]) -> frozenset[frozenset[str]]:
    parts: dict[str, set[str]] = {}
    for name, group in groups.items():
        parts.setdefault(group, set()).add(name)
    return frozenset(frozenset(part) for part in parts.values())
