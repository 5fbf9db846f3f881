"""Run finished cells once more, with their inputs as of then, for the names that no checkpoint could hold.

Called by `recomputing`. The namespace holds for the length of a body what the cell had been given: the live objects
that are still what they were, copies of the others, and values of other such cells. Afterwards it holds what it held,
and beside it the names that were made again.
"""

from __future__ import annotations

import ast
import base64
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from durable_nb.capture.access import analyse
from durable_nb.engine import missing, pending, processes
from durable_nb.engine.definitions_kept import definitions_to_keep
from durable_nb.engine.effects import Started
from durable_nb.engine.inputs import ALL_OUT, STREAMS
from durable_nb.engine.missing import UNPROVABLE, Maker, Remade
from durable_nb.engine.payloads import commit_payload
from durable_nb.engine.restoring import put_back
from durable_nb.engine.sharing import share
from durable_nb.engine.words import counted_names
from durable_nb.errors import DurableError
from durable_nb.history import Record
from durable_nb.model import Json, Manifest
from durable_nb.resources import cpu_s

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["Session"]

# What a computation may depend on beside its variables; put back after it.
AS_OF_THEN = STREAMS | {"cwd", "sys.path", "decimal.context"}


class Refused(Exception):
    """Why a cell does not run again, in words that follow «not made again:»."""


@dataclass(slots=True, kw_only=True)
class Then:
    """What a cell is given: live objects that are what they were, copies of what is another one now, names to hide."""

    base: Manifest | None
    lent: dict[str, Any] = field(default_factory=dict)
    copies: dict[str, Any] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    process: dict[str, Any] = field(default_factory=dict)


class Session:
    """Cells that run again for one restore or one verb; each runs at most once, and feeds those that need it."""

    def __init__(
        self, engine: Engine, *, asked_by: str, named: frozenset[str] = frozenset(), force: bool = False
    ) -> None:
        self.engine, self.asked_by, self.named, self.force = engine, asked_by, named, force
        self.ancestors = missing.lineage(engine.workflow, engine.head.checkpoint_id if engine.head else None)
        self.done: list[Remade] = []
        self._made: dict[str, Mapping[str, Any]] = {}
        self._problems: dict[str, str] = {}
        self._running: list[str] = []
        self._interrupted = False

    def attempt(self, maker: Maker) -> None:
        """Run the cell, unless it ran in this session; what becomes of it is told in `done`."""
        wanted = self._wanted(maker)
        pending.load_all(self.engine)  # what takes other values for a while must be there first
        try:
            self._make(maker)
        except Refused as refused:
            self.done.append(Remade(label=maker.label, wanted=wanted, problem=str(refused)))
        except Exception as error:  # a defect of ours or a full disk must not cost the restore; it is told, not hidden
            problem = f"durable_nb failed at it ({type(error).__name__}: {error})"
            self.done.append(Remade(label=maker.label, wanted=wanted, problem=problem))

    def _make(self, maker: Maker) -> Mapping[str, Any]:
        """Return what the cell bound when it ran again, by name; Refused if it does not run, or raises."""
        event_id = maker.record.event_id
        if event_id in self._made:
            return self._made[event_id]
        if event_id not in self._problems:
            try:
                self._run(maker, self._wanted(maker))
                return self._made[event_id]
            except (Refused, DurableError) as refused:
                self._problems[event_id] = str(refused)
        raise Refused(self._problems[event_id])

    def _wanted(self, maker: Maker) -> tuple[str, ...]:
        """Return the names that are not back and that this attempt made: one run gives all of them."""
        found = []
        for name, entry in self.engine.absent.items():
            other = missing.maker_of(self.engine.state, entry, self.ancestors)
            if isinstance(other, Maker) and other.record is maker.record and name.isidentifier():
                found.append(name)
        return tuple(found)

    # --- may it? --------------------------------------------------------------------------------------------------

    def _check_allowed(self, maker: Maker, wanted: Collection[str]) -> None:
        if self.asked_by == "mark":
            if not maker.marked:
                raise Refused(f"the cell {maker.label} is not marked `--on-unserializable recompute`")
            if self._was_lost(maker.record):
                raise Refused(f"a kernel was lost when the cell {maker.label} ran again; only the verb tries once more")
        elif not (maker.marked or self.force or self.named.intersection(wanted)):
            raise Refused(f"that needs the cell {maker.label} to run again as well, which `--force` allows")
        self._check_files(maker, f"`%durable recompute {' '.join(wanted) or 'NAME'} --force`")

    def _was_lost(self, record: Record) -> bool:
        tries = [a for a in self.engine.state.attempts if a.recompute == record.event_id]
        return bool(tries) and tries[-1].status == "lost"

    def _check_files(self, maker: Maker, line: str) -> None:
        if self.force:
            return
        files = maker.record.files_written
        if files is None:
            raise Refused(
                f"it was not recorded which files the cell {maker.label} writes; {line} runs it all the same, or run "
                "the cell yourself"
            )
        if files:
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            raise Refused(
                f"the cell {maker.label} opens {files[0]}{more} for writing or removes it, and would do so again; "
                f"{line} runs it all the same"
            )

    # --- with what? -----------------------------------------------------------------------------------------------

    def _inputs(self, maker: Maker) -> Then:
        """Collect the inputs as of then; Refused where one of them cannot be had."""
        record, engine = maker.record, self.engine
        try:
            base = engine.workflow.manifest(record.inputs.base) if record.inputs.base else None
        except DurableError as error:
            raise Refused(f"its inputs as of {record.inputs.base} are gone ({error})") from error
        then = Then(base=base)
        load: list[str] = []
        for name, version in record.inputs.names.items():
            if version is None:
                then.hidden.add(name)
            elif version == UNPROVABLE:
                self._lend_unstored(maker, name, then)
            elif base is None or name not in base.names:
                raise Refused(f"its input `{name}` is in no checkpoint any more")
            elif self._may_lend(record, base, name):
                if name.isidentifier():
                    then.lent[name] = engine.shell.namespace[name]
            elif not name.isidentifier():
                if _reads(maker.attempt.source, name, engine):
                    raise Refused(f"it reads {name}, which is another result now; run the cell yourself")
                # It changed along with a variable that the cell bound anew: the two had been one object.
            else:
                load.append(name)
        if load:
            self._load(then, load)
        then.process = self._process(record, base)
        return then

    def _lend_unstored(self, maker: Maker, name: str, then: Then) -> None:
        try:
            then.lent[name] = self._unstored_input(maker, name, then.base)
        except Refused:
            if name in _names_in(maker.attempt.source, self.engine):
                raise
            # It is a word in a text, or what some function reads that may not be called: without it, the cell either
            # does what it did or raises.
            then.hidden.add(name)

    def _load(self, then: Then, names: Sequence[str]) -> None:
        assert then.base is not None
        staged = self.engine.capture.stage(then.base, self.engine.workflow.read_group, names)
        lost = [u for u in staged.unsaved if u.name in names]
        if lost:
            raise Refused(f"its input `{lost[0].name}` as of {then.base.checkpoint_id} cannot be had: {lost[0].reason}")
        then.copies.update({n: v for n, v in staged.values.items() if n.isidentifier()})
        for name in then.copies:
            then.lent.pop(name, None)

    def _may_lend(self, record: Record, base: Manifest, name: str) -> bool:
        """Is the live object what the cell read, joined as it was, and left as it was by the cell?"""
        head, capture = self.engine.head, self.engine.capture
        stored = base.groups[base.names[name].group_id]
        group = [n for n in stored.names if n in base.names]
        # An instance of a class that was defined anew since has to be one of the class of then.
        if head is None or any(
            n in record.changed or n not in head.names or not capture.is_at(n, base.names[n].version)
            for n in (*group, *(d for d in stored.deps if d in base.names))
        ):
            return False
        together = head.names[name].group_id == base.names[name].group_id or len(group) == 1
        return together or capture.same(base, self.engine.workflow.read_group, group) is None

    def _unstored_input(self, maker: Maker, name: str, base: Manifest | None) -> Any:
        """Return the value of an input that no checkpoint held: the live one if it is that, else made again."""
        entry = next((u for u in base.unsaved if u.name == name), None) if base is not None else None
        if entry is None or base is None:
            raise Refused(f"it read `{name}`, and nothing tells what that was; run the cell yourself")
        ancestors = missing.lineage(self.engine.workflow, base.checkpoint_id)
        found = missing.maker_of(self.engine.state, entry, ancestors)
        if isinstance(found, str):
            raise Refused(f"it needs `{name}` as of {base.checkpoint_id}, and {found}; run the cells yourself")
        if name in self.engine.shell.namespace and self._is_still(name, found):
            return self.engine.shell.namespace[name]
        event_id = found.record.event_id
        if event_id in self._running or event_id == maker.record.event_id:
            raise Refused(f"it needs `{name}`, which needs it in turn")
        try:
            values = self._make(found)
        except Refused as refused:
            asks = self.asked_by == "verb" and name in self.engine.absent and name not in self.named
            line = f"type `%durable recompute {name} {' '.join(sorted(self.named))}`"
            raise Refused(
                f"it needs `{name}` as the cell {found.label} made it, which is not back: {line if asks else refused}"
            ) from refused
        if name not in values:
            raise Refused(f"it needs `{name}`, which the cell {found.label} did not make when it ran again")
        return values[name]

    def _is_still(self, name: str, maker: Maker) -> bool:
        """Was the live value made by this attempt, by its repetition, or by the same cell from the same inputs?"""
        by, state = self.engine.capture.made_by(name), self.engine.state
        tries = [a for a in state.attempts if a.activity_id == by and a.status == "completed"]
        if not tries:
            return False
        last = tries[-1]
        if last.recompute:
            return last.recompute == maker.record.event_id
        run = state.run
        record = next((r for r in run.records if r.checkpoint_id == last.checkpoint_id), None) if run else None
        return (
            record is not None
            and record.code_hash == maker.record.code_hash
            and record.inputs.names == maker.record.inputs.names
        )

    def _process(self, record: Record, base: Manifest | None) -> dict[str, Any]:
        """Return the components that the cell depended on and that are other now; None: untouched then."""
        now, stored = processes.live(self.engine), base.process if base is not None else {}
        found: dict[str, Any] = {}
        others = AS_OF_THEN - STREAMS if record.inputs.others_untouched else frozenset()
        for name in AS_OF_THEN & record.inputs.process.keys() | others:
            entry = stored.get(name)
            if (entry["digest"] if entry else None) == (now[name]["digest"] if name in now else None):
                continue
            if entry is not None:
                found[name] = base64.b64decode(entry["b64"]) if "b64" in entry else entry["value"]
            elif name not in STREAMS:  # where an unseeded stream began is not known
                found[name] = None
        return found

    # --- the run --------------------------------------------------------------------------------------------------

    def _run(self, maker: Maker, wanted: tuple[str, ...]) -> None:
        if self._interrupted:
            raise Refused("you interrupted it")
        self._check_allowed(maker, wanted)
        self._running.append(maker.record.event_id)
        try:
            then = self._inputs(maker)
        finally:
            self._running.pop()
        keep = definitions_to_keep(self.engine, maker)
        started = self._start(maker, wanted)
        made, error = self._execute(maker, then, keep)
        if error is not None:
            self.engine.guarded("record the failure", lambda: self._failed(started, error))
            self._interrupted = isinstance(error, KeyboardInterrupt)
            raise Refused(f"the cell {maker.label} raised {type(error).__name__}: {error}")
        self._made[maker.record.event_id] = made
        self._take(maker, wanted, then, made, started)

    def _start(self, maker: Maker, wanted: Sequence[str]) -> Started:
        engine, attempt = self.engine, maker.attempt
        number = 1 + engine.state.tries.get((engine.run_id, attempt.activity_id), 0)
        event = engine.append(
            engine.draft(
                "ActivityStarted",
                {
                    "name": attempt.name,
                    "source": attempt.source,
                    "code_hash": attempt.code_hash,
                    "cell_id": attempt.cell_id,
                    "execution_count": attempt.execution_count,
                    "options": dict(attempt.options),
                    "decision": [f"{counted_names(wanted)} could not be stored"],
                    "recompute": {
                        "names": list(wanted),
                        "of_event": maker.record.event_id,
                        "as_of": maker.record.inputs.base,
                        "asked_by": self.asked_by,
                    },
                },
                activity_id=attempt.activity_id,
                attempt=number,
            )
        )[0]
        return Started(
            event=event,
            activity_id=attempt.activity_id,
            attempt=number,
            began_s=engine.clock.monotonic_s(),
            cpu_s=cpu_s(),
        )

    def _failed(self, started: Started, error: BaseException) -> None:
        assert started.event is not None
        self.engine.record_error(started, started.event, error)

    def _execute(
        self, maker: Maker, then: Then, keep: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], BaseException | None]:
        """Run the body over the namespace of then; return what it bound, and the error it raised."""
        engine = self.engine
        assert engine.run_aside is not None
        guard = nullcontext() if self.force else engine.files.guarding()
        with engine.process.aside(then.process) as problems:
            if problems:
                raise Refused(f"its {problems[0].name} as of then cannot be set: {problems[0].reason}")
            with _swapped(engine.shell.namespace, {**then.lent, **then.copies, **keep}, then.hidden) as made, guard:
                error = engine.run_aside(maker.attempt.source, frozenset(keep))
        return made, error

    def _take(self, maker: Maker, wanted: Sequence[str], then: Then, made: Mapping[str, Any], started: Started) -> None:
        """Put what was not back into the namespace, with what shares objects with it, and make that durable."""
        engine, record = self.engine, maker.record
        taken = {n: made[n] for n in wanted if n in made}
        engine.shell.namespace.update(taken)
        engine.capture.note_made(dict.fromkeys(taken, record.activity_id))
        shared = share(engine, record, taken, made, then.copies)
        notes = list(shared.notes)
        since: dict[str, list[str]] = {}
        for name in taken:
            if cells := missing.used_since(engine, name, record, self.ancestors):
                since.setdefault(", ".join(cells), []).append(name)
        for cells_text, names in since.items():
            verb = "is" if len(names) == 1 else "are"
            notes.append(f"{counted_names(names)} {verb} as {maker.label} left it; used since by {cells_text}.")
        engine.guarded(
            "save what was made again", lambda: self._commit(maker, taken, shared.names, then.lent, started, notes)
        )
        if lost := [n for n in wanted if n not in taken]:
            problem = f"the cell {maker.label} ran again and did not make {counted_names(lost)}"
            self.done.append(Remade(label=maker.label, wanted=tuple(lost), problem=problem))
        if taken:
            self.done.append(
                Remade(
                    label=maker.label,
                    wanted=tuple(taken),
                    names=tuple(taken),
                    as_of=record.inputs.base,
                    notes=tuple(notes),
                )
            )

    def _commit(
        self,
        maker: Maker,
        taken: Mapping[str, Any],
        shared: Collection[str],
        lent: Mapping[str, Any],
        started: Started,
        notes: list[str],
    ) -> None:
        """Commit the new state as the end of the attempt; what was lent and came back changed is put back first."""
        engine, attempt = self.engine, maker.attempt
        options = attempt.options
        how = {"include": options.get("include", ()), "exclude": options.get("exclude", ()), "written": tuple(taken)}
        engine.reached.touched = None
        delta, _ = engine.delta(maker.record.activity_id, **how)
        spoilt = sorted(n for n in delta.names.keys() & lent.keys() - taken.keys() - set(shared))
        if spoilt and engine.head is not None:
            notes.extend(put_back(engine, [n for n in spoilt if n in engine.head.names]))
            engine.reached.touched = None
            delta, _ = engine.delta(maker.record.activity_id, **how)
        payload: dict[str, Json] = {
            **commit_payload(engine, delta, ()),
            "name": attempt.name,
            "execution_count": attempt.execution_count,
            "recompute": {"names": sorted(taken), "of_event": maker.record.event_id},
        }
        assert started.event is not None
        engine.commit_delta(
            engine.draft(
                "ActivityCompleted",
                payload,
                activity_id=started.activity_id,
                attempt=started.attempt,
                metadata={"code_hash": attempt.code_hash, **engine.metadata(started)},
                correlation={"parent_event": started.event.event_id},
            ),
            delta,
            {},
        )


def _reads(source: str, name: str, engine: Engine) -> bool:
    """Tell whether the code of a cell can be seen to read a result in `Out`, or cannot be seen through."""
    transformed = engine.shell.transform(source)
    access = analyse(ast.parse(transformed), transformed, engine.shell.namespace)
    return access.everything or not access.reads.isdisjoint({name, ALL_OUT})


def _names_in(source: str, engine: Engine) -> set[str]:
    tree = ast.parse(engine.shell.transform(source))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


@contextmanager
def _swapped(namespace: dict[str, Any], then: Mapping[str, Any], hidden: Collection[str]) -> Iterator[dict[str, Any]]:
    """Let the namespace hold these names for the length of a block, then again what it held; yields what was bound.

    It stays the one dictionary that functions and the shell know. Names that the block is not about stay as they are,
    so that threads of the user's find them.
    """
    before = dict(namespace)
    made: dict[str, Any] = {}
    for name in hidden:
        namespace.pop(name, None)
    namespace.update(then)
    try:
        yield made
    finally:
        absent = object()
        made.update({n: v for n, v in list(namespace.items()) if before.get(n, absent) is not v})
        for name in [n for n in namespace if n not in before]:
            del namespace[name]
        for name, value in before.items():
            if namespace.get(name, absent) is not value:
                namespace[name] = value
