"""The fold of the journal and the decision by hand: no disk, no kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from durable_nb.history import Inputs, Record, State, fold
from durable_nb.model import CheckpointId, Event, Json
from durable_nb.reuse import candidates, mismatches


def event(seq: int, kind: str, payload: Mapping[str, Json] | None = None, **more: Any) -> Event:
    """Make an event of kernel k1 in run r1."""
    fields: dict[str, Any] = {
        "event_id": f"1-{seq}",
        "event_type": kind,
        "timestamp": 1_000_000 * seq,
        "workflow_id": "w",
        "run_id": "r1",
        "activity_id": None,
        "attempt": None,
        "kernel_id": "k1",
        "epoch": 1,
        "seq": seq,
        "payload": payload or {},
        "metadata": {},
        "correlation": {},
        "schema_version": 1,
        "hash": "",
    }
    return Event(**{**fields, **more})


def started(seq: int, activity: str = "a", code: str = "h", kernel: str = "k1") -> Event:
    """Return the start of an attempt."""
    payload = {"name": activity, "source": "x", "code_hash": code, "execution_count": seq, "cell_id": f"id-{activity}"}
    return event(seq, "ActivityStarted", payload, activity_id=activity, attempt=1, kernel_id=kernel)


def completed(
    seq: int, of: int, activity: str = "a", checkpoint: str = "c1", kernel: str = "k1", **inputs: Any
) -> Event:
    """Return the end of the attempt that event `of` began."""
    payload = {
        "checkpoint": {"id": checkpoint},
        "changed": [{"name": "x", "type": "int", "size_bytes": 1, "version": checkpoint}],
        "inputs": Inputs(**inputs).to_json(),
    }
    parent = {"parent_event": f"1-{of}"}
    return event(
        seq, "ActivityCompleted", payload, activity_id=activity, attempt=1, correlation=parent, kernel_id=kernel
    )


def base(*events: Event) -> State:
    """Fold the events after those of a run and a kernel."""
    return fold([event(1, "RunStarted", {"reason": "first"}), event(2, "KernelAttached", {"pid": 7}), *events])


class ByHand:
    """Facts given by the test: names and components that differ, names that are there."""

    def __init__(self, *, differing: tuple[str, ...] = (), there: tuple[str, ...] = (), key: str = "") -> None:
        self.differing, self.there, self._key = differing, there, key

    def name_differs(self, name: str, version: str, record: Record) -> str | None:
        """Answer by the list."""
        return f"{name} differs" if name in self.differing else None

    def present(self, name: str) -> bool:
        """Answer by the list."""
        return name in self.there

    def is_builtin(self, name: str) -> bool:
        """Know one builtin."""
        return name == "sum"

    def components(self) -> tuple[str, ...]:
        """Know two components."""
        return ("cwd", "sys.path")

    def process_differs(self, component: str, digest: str, unset: bool) -> str | None:
        """Answer by the list."""
        return f"{component} differs" if component in self.differing else None

    def file_differs(self, mark: Json, record: Record) -> str | None:
        """Answer by the list."""
        return "file differs" if "file" in self.differing else None

    def file_overwritten(self, mark: Json, record: Record) -> str | None:
        """Answer by the list."""
        return "file overwritten" if "overwritten" in self.differing else None

    def depends_differs(self, depends: Mapping[str, str]) -> str | None:
        """Find no difference."""
        return None

    def module_differs(self, module: str, digest: str) -> str | None:
        """Answer by the list."""
        return "module differs" if module in self.differing else None

    def key(self) -> str:
        """Return the given key."""
        return self._key


def record(**inputs: Any) -> Record:
    """Return the record of a finished attempt with these inputs."""
    state = base(started(3), completed(4, 3, **inputs))
    assert state.run is not None
    return state.run.records[0]


def test_an_attempt_without_an_end_stays_open() -> None:
    """What the kernel did not survive is visible as an attempt that runs until an event ends it."""
    state = base(started(3))
    assert [a.status for a in state.attempts] == ["running"]
    state.apply(event(4, "ActivityLost", {"cause": "killed"}, correlation={"parent_event": "1-3"}))
    assert [(a.status, a.error) for a in state.attempts] == [("lost", "killed")]


def test_a_run_whose_beginning_is_lost_is_there() -> None:
    """The line that told of it can be damaged: what comes after it is folded all the same."""
    commit = event(2, "CheckpointCompleted", {"checkpoint": {"id": "c1"}})
    state = fold([event(1, "KernelAttached", {"pid": 7}), commit])
    assert state.run is not None
    assert ("r1", "c1") == (state.run.run_id, state.run.head)


def test_the_head_is_the_last_commit_or_restore() -> None:
    """A commit moves the head, and so does a restore of an earlier checkpoint."""
    state = base(started(3), completed(4, 3), started(5, "b"), completed(6, 5, "b", "c2"))
    assert state.run is not None
    assert state.run.head == CheckpointId("c2")
    state.apply(event(7, "CheckpointRestored", {"checkpoint_id": "c1", "whole": True}))
    assert state.run.head == CheckpointId("c1")


def test_only_earlier_lives_are_candidates() -> None:
    """What finished in this life is no candidate; the same cell comes before a newer one with another id."""
    state = base(started(3, "a"), completed(4, 3, "a"), started(5, "b"), completed(6, 5, "b", "c2"))
    found = candidates(state.run, "h", cell_id="id-a", before_seq=7)
    assert [r.activity_id for r in found] == ["a", "b"]
    assert [r.activity_id for r in candidates(state.run, "h", cell_id=None, before_seq=5)] == ["a"]
    assert list(candidates(state.run, "other", cell_id=None, before_seq=None)) == []


def test_equal_inputs_are_a_hit() -> None:
    """With nothing different there is no reason to run."""
    assert mismatches(record(names={"x": "c0"}, process={"random": "d"}), ByHand()) == []


def test_each_kind_of_input_is_compared() -> None:
    """Names, process state, files, modules and the key each are a reason of their own."""
    inputs = {
        "names": {"x": "c0"},
        "process": {"random": "d"},
        "files": ({"path": "f"},),
        "modules": {"m": "d"},
        "key": "k",
    }
    facts = ByHand(differing=("x", "random", "file", "m"), key="other")
    reasons = mismatches(record(**inputs), facts, first_only=False)
    expected = ["the value of --key is another one", "random differs", "module differs", "file differs", "x differs"]
    assert expected == reasons


def test_a_name_that_was_absent_and_made_first_is_no_input() -> None:
    """The cell completed without the name, so it made it before it read it; presence now does not matter."""
    assert mismatches(record(names={"y": None}), ByHand(there=("y",))) == []


def test_absence_matters_to_a_cell_that_catches_it() -> None:
    """A cell with `except NameError`, and one that read a builtin of that name, run when the name is there now."""
    caught = record(names={"y": None}, handles_absence=True)
    assert mismatches(caught, ByHand(there=("y",))) == ["`y` was not defined when it ran, and is now"]
    builtin = record(names={"sum": None})
    assert mismatches(builtin, ByHand(there=("sum",))) == ["`sum` was not defined when it ran, and is now"]


def test_unknown_inputs_follow_the_setting() -> None:
    """Inputs that nothing can see are a reason to run only when the settings say so."""
    seen = record(unknown=("shell command",))
    assert mismatches(seen, ByHand()) == []
    assert len(mismatches(seen, ByHand(), unknown_inputs="run")) == 1


def test_effects_outside_the_namespace_are_never_reused() -> None:
    """A cell that changed a library class is run again in every kernel."""
    assert "outside the namespace" in mismatches(record(outside_effects=("pd.DataFrame.f",)), ByHand())[0]


def test_unknown_events_change_nothing() -> None:
    """A journal of a newer version with unknown event types stays readable."""
    before = base(started(3))
    after = base(started(3), event(4, "SomethingNew", {"a": 1}))
    assert [a.status for a in before.attempts] == [a.status for a in after.attempts]
    assert after.last_seq == 4


def test_inputs_survive_json() -> None:
    """What is recorded of inputs is read back as it was."""
    inputs = Inputs(names={"a": "c1", "b": None}, unset=frozenset({"random"}), unknown=("x",), handles_absence=True)
    assert inputs == Inputs.from_json(inputs.to_json())


def test_what_is_not_recorded_of_inputs_takes_no_room() -> None:
    """Inputs that are empty are not written, and components of process state that nobody touched are one mark."""
    assert {"process": {"*": "untouched"}} == Inputs(others_untouched=True).to_json()
    assert Inputs(others_untouched=True) == Inputs.from_json({"process": {"*": "untouched"}})
    # As it was written before: every component by itself, and nothing said of others.
    assert Inputs(process={"cwd": ""}) == Inputs.from_json({"process": {"cwd": ""}, "unset": [], "files": []})


def test_components_that_a_record_does_not_name_count_as_untouched() -> None:
    """A record with the mark of the others is no hit where one of them differs; one without it says nothing of them."""
    facts = ByHand(differing=("sys.path",))
    assert ["sys.path differs"] == mismatches(record(others_untouched=True), facts)
    assert [] == mismatches(record(others_untouched=True), ByHand())
    assert [] == mismatches(record(), facts)
    assert ["sys.path differs"] == mismatches(record(process={"sys.path": "x"}, others_untouched=True), facts)


def test_a_reader_that_does_not_know_the_mark_of_the_others_runs_the_cell() -> None:
    """To a version that takes the mark for a component, that component is not what it was."""
    written = Inputs(others_untouched=True).to_json()
    assert written["process"]["*"] != ""  # what such a version finds of a component that it does not have


def test_reuses_are_counted_at_the_attempt_that_stands_for_the_cell() -> None:
    """Of many attempts the one that made the checkpoint is counted, and others are not."""
    state = base(started(3), completed(4, 3), started(5, "b"), completed(6, 5, "b", "c2"))
    state.apply(event(7, "ActivityReused", {"of_event": "1-4", "checkpoint_id": "c1"}))
    state.apply(event(8, "ActivityReused", {"of_event": "1-9", "checkpoint_id": "c9"}))
    assert [1, 0] == [a.reused for a in state.attempts]
