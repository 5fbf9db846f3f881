"""The projection: rows, views, catching up, asking, showing."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
import sys
import threading
from datetime import datetime
from types import SimpleNamespace

import duckdb
import pytest

from durable_nb.errors import UsageError
from durable_nb.projection import Projection, Table
from durable_nb.store.files import LocalFiles
from durable_nb.testing.events import History


@pytest.fixture
def world(tmp_path):
    """A history, and a projection of it in a folder of its own."""
    history = History()
    histories = [history]
    projection = Projection(
        tmp_path / "events.duckdb",
        source=lambda: (event for h in histories for event in h.events),
        files=LocalFiles(tmp_path),
        patience_s=0.3,
        quiet_s=0.01,
    )
    yield SimpleNamespace(
        history=history, histories=histories, projection=projection, path=tmp_path / "events.duckdb", folder=tmp_path
    )
    projection.close()


def rows(world, sql, params=()):
    """The rows of a query."""
    return list(world.projection.query(sql, params).rows)


def other_process(code, *arguments):
    """Run code in another Python and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- rows


def test_the_envelope_arrives_whole(world):
    """Every field of an event is a column, times are UTC timestamps, mappings are JSON."""
    event = world.history.add(
        "ActivityStarted", {"name": "load", "n": [1, None, {"ü": 2.5}]}, activity_id="a", attempt=2, parent_event="p"
    )
    table = world.projection.query("SELECT * FROM events")
    assert tuple(field.name for field in dataclasses.fields(event)) == table.columns
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert datetime(2023, 11, 14, 22, 13, 21) == row["timestamp"]
    assert dict(event.payload) == json.loads(row["payload"])
    assert {"parent_event": "p"} == json.loads(row["correlation"])
    plain = [f for f in table.columns if f not in {"timestamp", "payload", "metadata", "correlation"}]
    assert {f: getattr(event, f) for f in plain} == {f: row[f] for f in plain}


def test_ingest_is_idempotent(world):
    """The same events twice, or an overlapping batch, add only what is newer."""
    world.history.attach()
    assert 2 == world.projection.ingest(world.history.events)
    assert 0 == world.projection.ingest(world.history.events)
    last = world.history.add("KernelDetached", {"reason": "exit"})
    assert 1 == world.projection.ingest([world.history.events[1], last])
    assert [(3, 3)] == rows(world, "SELECT count(*), count(DISTINCT seq) FROM events")


def test_a_gap_is_filled_from_the_journal(world):
    """Events that arrive without the ones before them do not leave a hole."""
    world.history.attach()
    world.projection.ingest(world.history.events[:1])
    world.history.run("a", {"x": "int"})
    world.projection.ingest(world.history.events[-1:])
    with duckdb.connect(str(world.path), read_only=True) as connection:
        seqs = connection.execute("SELECT seq FROM events ORDER BY ALL").fetchall()
    assert [(1,), (2,), (3,), (4,)] == seqs


def test_a_gap_that_the_journal_has_too_is_accepted(world):
    """A journal that lost an event in the middle is projected as it is, and only once."""
    world.history.attach()
    world.history.run("a", {"x": "int"})
    del world.history.events[1]
    assert [(1,), (3,), (4,)] == rows(world, "SELECT seq FROM events ORDER BY seq")
    assert 0 == world.projection.ingest(world.history.events)


def test_a_query_sees_what_the_journal_holds_now(world):
    """Asking brings the file up to date first, without anybody having told it of the events."""
    world.history.attach()
    assert [(2,)] == rows(world, "SELECT count(*) FROM events")
    world.history.run("a", {"x": "int"})
    assert [(4,)] == rows(world, "SELECT count(*) FROM events")


def test_several_workflows_share_the_file(world):
    """Each workflow has its own sequence; both are there and none hides the other's events."""
    other = History("wf2")
    world.histories.append(other)
    world.history.attach()
    other.attach()
    other.add("KernelDetached", {"reason": "exit"})
    expected = [("wf", 2), ("wf2", 3)]
    assert expected == rows(world, "SELECT workflow_id, count(*) FROM events GROUP BY 1 ORDER BY 1")


def test_a_journal_that_went_back_wins(world):
    """When the journal no longer holds what was projected, the file is made again and a note says so."""
    world.history.attach()
    world.history.run("a", {"x": "int"})
    world.projection.refresh()
    del world.history.events[2:]
    world.history.add("KernelDetached", {"reason": "exit"})
    assert ["RunStarted", "KernelAttached", "KernelDetached"] == [
        name for (name,) in rows(world, "SELECT event_type FROM events ORDER BY seq")
    ]
    assert any("not hold the same events as the journal" in note for note in world.projection.notes)


def test_what_the_journal_no_longer_trusts_goes_and_comes_back(world):
    """An event that was damaged in the journal is no longer shown, and is again when the journal is whole again."""
    world.history.attach()
    world.history.run("a", {"x": "int"})
    world.projection.refresh()
    damaged = world.history.events.pop(2)
    assert [(1,), (2,), (4,)] == rows(world, "SELECT seq FROM events ORDER BY seq")
    world.history.events.insert(2, damaged)
    assert [(1,), (2,), (3,), (4,)] == rows(world, "SELECT seq FROM events ORDER BY seq")


def test_odd_text_does_not_keep_events_out(world):
    """Lone surrogates, NUL, NaN and quotes arrive as near as they can be, and so does everything after them."""
    world.history.add("A", {"text": "half \ud83d emoji", "nul": "a\0b", "nan": float("nan"), "quote": "'\"\\"})
    world.history.add("B", {"name": "fine"}, activity_id="\udc80")
    assert [("A",), ("B",)] == rows(world, "SELECT event_type FROM events ORDER BY seq")
    assert [("'\"\\", "NaN")] == rows(world, "SELECT payload->>'quote', payload->>'nan' FROM events WHERE seq = 1")


def test_clients_since_1_5_can_open_the_file(world):
    """The file says that it is in the layout of DuckDB 1.5."""
    if int(duckdb.__version__.split(".")[0]) < 2:
        pytest.skip("this DuckDB writes an older layout by itself")
    world.history.attach()
    world.projection.refresh()
    with duckdb.connect(str(world.path)) as connection:
        tags = connection.execute("SELECT tags FROM duckdb_databases() WHERE database_name = 'events'").fetchone()
    assert {"storage_version": "v1.5.0+"} == tags[0]


# -- views


def fill(history):
    """A first cell that works, a second one that fails and then works, a third one in which the kernel dies."""
    history.attach()
    history.run("load", {"df": "DataFrame", "n": "int"})
    history.start("fit")
    failed = {"error_type": "ValueError", "error_message": "no data", "traceback": "Traceback: no data"}
    history.add("ActivityFailed", failed, activity_id="id-fit", attempt=1, metadata={"execution_time_ms": 250.0})
    history.start("fit", attempt=2)
    history.complete("fit", {"model": "Model", "n": "int"}, deleted=("df",), attempt=2)
    lost = history.start("plot")
    history.add("KernelLost", {"kernel_id": "kernel-1", "cause": "signal 9", "last_seen": 1})
    history.kernel_id, history.epoch = "kernel-2", 2
    history.add("KernelAttached", {"pid": 8})
    history.add("ActivityLost", {"started_event": lost.event_id, "cause": "signal 9"}, activity_id="id-plot", attempt=1)
    history.add("RunRecovered", {"kernel_id": "kernel-1", "checkpoint_id": "wf-c8", "restored": 2, "missing": []})
    history.add("ActivityReused", {"checkpoint_id": "wf-c4", "of_event": "wf-e4"}, activity_id="id-load")


def test_runs(world):
    """A run has its status, its kernels and counts of what happened in it."""
    fill(world.history)
    sql = """SELECT status, reason, kernels, kernels_lost, recoveries, activities, completed, failed, lost, reused
             FROM runs"""
    assert [("running", "first", 2, 1, 1, 3, 2, 1, 1, 1)] == rows(world, sql)
    world.history.add("KernelDetached", {"reason": "exit"})
    assert [("detached", 14.0)] == rows(world, "SELECT status, duration_s FROM runs")


def test_attempts(world):
    """Every start is an attempt with how it ended, how long it took by its own clock, and what it stored."""
    fill(world.history)
    sql = "SELECT name, attempt, status, duration_s, error_type, checkpoint_id, stored_bytes FROM attempts ORDER BY seq"
    assert [
        ("load", 1, "completed", 1.5, None, "wf-c4", 100),
        ("fit", 1, "failed", 0.25, "ValueError", None, None),
        ("fit", 2, "completed", 1.5, None, "wf-c8", 100),
        ("plot", 1, "lost", None, "signal 9", None, None),
    ] == rows(world, sql)


def test_an_attempt_without_a_measured_time_takes_it_from_the_timestamps(world):
    """Where no execution time was recorded, the time between start and end is the duration."""
    world.history.start("a")
    world.history.add("ActivityCanceled", {"reason": "interrupt"}, activity_id="id-a", attempt=1)
    world.history.start("b")
    expected = [("a", "canceled", 1.0), ("b", "running", None)]
    assert expected == rows(world, "SELECT name, status, duration_s FROM attempts ORDER BY seq")


def test_activities(world):
    """An activity sums up its attempts; one that was reused stands as completed."""
    fill(world.history)
    sql = "SELECT name, status, attempts, failures, losses, reuses, duration_s FROM activities ORDER BY name"
    assert [
        ("fit", "completed", 2, 1, 0, 0, 1.75),
        ("load", "completed", 1, 0, 0, 1, 1.5),
        ("plot", "lost", 1, 0, 1, 0, None),
    ] == rows(world, sql)


def test_checkpoints(world):
    """Commits of cells and others are listed with parent, counts and what became of them."""
    fill(world.history)
    payload = {"checkpoint": {"id": "c9", "parent": "wf-c8"}, "reason": "manual", "changed": [], "stored_bytes": 5}
    world.history.add("CheckpointCompleted", payload)
    world.history.add("CheckpointRestored", {"checkpoint_id": "c9", "names": ["n"], "missing": []})
    world.history.add("CheckpointDeleted", {"checkpoint_id": "wf-c4"})
    sql = """SELECT checkpoint_id, parent, reason, name, changed, deleted, live, restores, removed
             FROM checkpoints ORDER BY seq"""
    assert [
        ("wf-c4", None, "activity", "load", 2, 0, True, 0, True),
        ("wf-c8", "wf-c4", "activity", "fit", 2, 1, True, 0, False),
        ("c9", "wf-c8", "manual", None, 0, 0, True, 1, False),
    ] == rows(world, sql)


def test_variables(world):
    """Every version of a name is a row; the current ones are the newest that were not deleted."""
    fill(world.history)
    sql = "SELECT name, version, type, size_bytes, made_by, current FROM variables ORDER BY seq, name"
    assert [
        ("df", "wf-c4", "DataFrame", 10, "load", False),
        ("n", "wf-c4", "int", 11, "load", False),
        ("model", "wf-c8", "Model", 10, "fit", True),
        ("n", "wf-c8", "int", 11, "fit", True),
    ] == rows(world, sql)


def test_a_cell_without_a_name_is_known_by_its_id(world):
    """Most cells have no name: the name is NULL, and what they made is made by their activity."""
    world.history.add("ActivityStarted", {"name": "", "source": "x = 1"}, activity_id="code-1", attempt=1)
    payload = {"name": "", "checkpoint": {"id": "c1", "parent": None}, "changed": [{"name": "x", "version": "c1"}]}
    world.history.add("ActivityCompleted", payload, activity_id="code-1", attempt=1)
    assert [(None, "x = 1")] == rows(world, "SELECT name, source FROM attempts")
    assert [(None, "x = 1")] == rows(world, "SELECT name, source FROM activities")
    assert [(None, "code-1")] == rows(world, "SELECT name, activity_id FROM checkpoints")
    assert [("x", "code-1")] == rows(world, "SELECT name, made_by FROM variables")


@pytest.mark.parametrize("seed", range(12))
def test_current_variables_follow_the_line_of_parents(world, seed):
    """Whatever was restored in whatever order, `current` is what walking back from the head finds."""
    stream = random.Random(seed)
    states: dict[str | None, dict[str, str]] = {None: {}}
    state: dict[str, str] = {}
    for i in range(40):
        if stream.random() < 0.25:
            back = stream.choice(list(states))
            if back is None:
                world.history.add("RunStarted", {"reason": "new"})
            elif stream.random() < 0.5:
                world.history.add("CheckpointRestored", {"checkpoint_id": back, "whole": True, "names": 1})
            world.history.continue_from(back)
            state = dict(states[back])
        if stream.random() < 0.1:
            world.history.add("CheckpointRestored", {"checkpoint_id": "wf-c2", "whole": False, "names": 1})
        changed = {name: "int" for name in stream.sample("abcde", 2)}
        deleted = tuple(name for name in state if name not in changed and stream.random() < 0.2)
        event = world.history.run(f"cell{i}", changed, deleted=deleted)
        checkpoint_id = event.payload["checkpoint"]["id"]
        state = {n: v for n, v in state.items() if n not in deleted} | dict.fromkeys(changed, checkpoint_id)
        states[checkpoint_id] = dict(state)
    assert state == dict(rows(world, "SELECT name, version FROM variables WHERE current"))
    back = stream.choice(list(states)[1:])
    world.history.add("CheckpointRestored", {"checkpoint_id": back, "whole": True, "names": 1})
    assert states[back] == dict(rows(world, "SELECT name, version FROM variables WHERE current"))
    world.history.add("RunStarted", {"reason": "new"})
    assert [] == rows(world, "SELECT name FROM variables WHERE current")


def test_errors_and_resources(world):
    """What went wrong and what was used are views of their own."""
    fill(world.history)
    assert [
        ("ActivityFailed", "ValueError", "no data"),
        ("KernelLost", "KernelLost", "signal 9"),
        ("ActivityLost", "ActivityLost", "signal 9"),
    ] == rows(world, "SELECT event_type, error_type, message FROM errors ORDER BY seq")
    assert [(1.2, 50_000_000, 100)] == rows(
        world, "SELECT DISTINCT cpu_s, rss_bytes, stored_bytes FROM resources WHERE cpu_s IS NOT NULL"
    )


def test_outputs(world):
    """Every recorded output is a row with its text and types; large ones, stored apart, tell their size."""
    recorded = [
        {"kind": "stream", "content": {"name": "stdout", "text": "hello\n"}},
        {"kind": "display_data", "content": {"data": {"text/plain": "<Figure>", "image/png": "aGk="}, "metadata": {}}},
    ]
    small = {"outputs": {"text": json.dumps(recorded)}}
    large = {"outputs": {"buffer": {"size_bytes": 70_000, "chunks": ["d" * 64]}}}
    for name, attachments in (("show", small), ("plot", large)):
        payload = {"name": name, "checkpoint": {"id": f"c-{name}"}, "attachments": attachments}
        world.history.add("ActivityCompleted", payload, activity_id=f"id-{name}", attempt=1)
    sql = "SELECT name, checkpoint_id, n, kind, text, mime_types FROM outputs ORDER BY seq, n"
    assert [
        ("show", "c-show", 1, "stream", "hello\n", None),
        ("show", "c-show", 2, "display_data", "<Figure>", ["text/plain", "image/png"]),
        ("plot", "c-plot", None, None, None, None),
    ] == [(*row[:5], row[5] if row[5] is None else list(row[5])) for row in rows(world, sql)]
    assert [(70_000,)] == rows(world, "SELECT size_bytes FROM outputs WHERE name = 'plot'")


def test_chunks_in_events_are_left_to_the_journal(world):
    """Payloads keep what describes an inline checkpoint and leave out its bytes; the event itself is untouched."""
    inline = {"body": {"names": {}}, "chunks": {"ab": {"codec": "raw", "size_bytes": 3, "data": "AAAA"}}}
    event = world.history.add("CheckpointCompleted", {"checkpoint": {"id": "c1", "parent": None, "inline": inline}})
    kept = {"body": {"names": {}}, "chunks": {"ab": {"codec": "raw", "size_bytes": 3}}}
    assert [(kept,)] == [
        (json.loads(text),) for (text,) in rows(world, "SELECT payload->'$.checkpoint.inline' FROM events")
    ]
    assert "AAAA" == event.payload["checkpoint"]["inline"]["chunks"]["ab"]["data"]


def test_a_start_that_was_recorded_late_is_put_back(world):
    """A cell whose start was only written with its end began as long before as it took."""
    world.history.add("ActivityStarted", {"name": "a", "late": True}, activity_id="id-a", attempt=1)
    world.history.complete("a", {"x": "int"}, ms=2500.0)
    assert [(2.5, 2_500_000)] == rows(
        world, "SELECT duration_s, date_diff('microsecond', started, ended) FROM attempts"
    )


def test_triggered_events_are_derived(world):
    """An event lists the ones that name it as their parent, in order."""
    first = world.history.add("A")
    second = world.history.add("B", parent_event=first.event_id)
    third = world.history.add("C", parent_event=first.event_id)
    assert [
        ("A", None, [second.event_id, third.event_id]),
        ("B", first.event_id, []),
        ("C", first.event_id, []),
    ] == rows(world, "SELECT event_type, parent_event, triggered_events FROM history ORDER BY seq")


def test_every_view_answers_on_odd_events(world):
    """No view fails on an empty history or on payloads that lack everything or hold something else."""
    views = [name for (name,) in rows(world, "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1")]
    promised = "activities attempts checkpoints errors history outputs resources runs steps variables"
    assert promised.split() == views
    for name in views:
        assert [] == rows(world, f"SELECT * FROM {name}")
    for kind in ("ActivityStarted", "ActivityCompleted", "CheckpointCompleted", "StepStarted", "ActivityReused"):
        world.history.add(kind)
        world.history.add(kind, {"checkpoint": "x", "changed": 3, "deleted": {"a": 1}, "attachments": "z", "name": []})
        world.history.add(kind, {"checkpoint": {"id": 5}, "changed": [1, {"name": None, "size_bytes": "big"}]})
    for name in views:
        world.projection.query(f"SELECT * FROM {name}")


# -- asking and showing


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM nothing", "nothing does not exist"),
        ("SELECT a + 1 FROM events", '"a" not found'),
        ("CREATE TABLE mine (a INT)", "read-only"),
        ("SELECT * FROM read_csv('/does/not/exist.csv')", "No files found"),
        ("SELECT seq + event_type FROM events", "No function matches"),
        ("SELECT event_type::INTEGER FROM events", "Could not convert string"),
    ],
)
def test_a_wrong_statement_is_one_clear_line(world, sql, says):
    """The user's SQL errors come as UsageError, with DuckDB's words in one line and what to type next."""
    world.history.attach()
    with pytest.raises(UsageError) as caught:
        world.projection.query(sql)
    assert says in str(caught.value)
    assert 1 == len(str(caught.value).splitlines())
    assert "SHOW TABLES" in caught.value.hint
    assert [] == world.projection.notes


def test_parameters(world):
    """Values reach a statement by position and by name."""
    world.history.attach()
    assert [(2,)] == rows(world, "SELECT seq FROM events WHERE event_type = ?", ["KernelAttached"])
    assert [(2,)] == rows(world, "SELECT seq FROM events WHERE event_type = $kind", {"kind": "KernelAttached"})


def test_variables_of_the_process_are_not_tables(world):
    """A misspelt table never finds a Python variable of whoever calls."""
    events_of_mine = [1]
    with pytest.raises(UsageError):
        world.projection.query("SELECT * FROM events_of_mine")
    assert [1] == events_of_mine


def test_a_table_as_text():
    """Text is aligned, numbers to the right, and nothing in a value can break a line."""
    table = Table(
        columns=("name", "n"),
        types=("VARCHAR", "BIGINT"),
        rows=(("load", 5), ("two\nlines\x1b[0m", 1234), (None, None)),
    )
    assert [
        "name                    n",
        "──────────────────  ─────",
        "load                    5",
    ][0].split() == repr(table).splitlines()[0].split()
    lines = repr(table).splitlines()
    assert 6 == len(lines)
    assert ["load", "5"] == lines[2].split()
    assert lines[2].endswith("5")
    assert len(lines[2]) == len(lines[3])
    assert r"two\nlines\x1b[0m  1234" == lines[3]
    assert "NULL" == lines[4].split()[0]
    assert "(3 rows)" == lines[5]


def test_a_long_table_is_cut_for_showing_only():
    """What is shown is bounded and says so; the rows are all there."""
    table = Table(columns=("n",), types=("BIGINT",), rows=tuple((i,) for i in range(1000)))
    assert 63 == len(repr(table).splitlines())
    assert repr(table).endswith("(1000 rows, the first 60 shown)")
    assert 201 == table._repr_html_().count("<tr>")
    assert 1000 == len(table)


def test_html_is_escaped():
    """Values and column names are text, never markup."""
    table = Table(columns=("<b>",), types=("VARCHAR",), rows=(("<script>alert(1)</script>",),))
    assert "<script" not in table._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in table._repr_html_()
    assert '<th style="text-align: left">&lt;b&gt;</th>' in table._repr_html_()


def test_to_json(world):
    """JSON columns become what they hold, times ISO 8601 with a Z, lists lists."""
    world.history.add("A", {"n": 1})
    sql = (
        "SELECT timestamp, payload, [1, 2] AS l, 1.5::DECIMAL(4,2) AS d, 'NaN'::DOUBLE AS nan, NULL AS nil FROM events"
    )
    assert [
        {"timestamp": "2023-11-14T22:13:21Z", "payload": {"n": 1}, "l": [1, 2], "d": "1.50", "nan": "nan", "nil": None}
    ] == json.loads(world.projection.query(sql).to_json())


def test_to_dataframe(world):
    """A result becomes a DataFrame with fitting types, two columns of one name included."""
    pandas = pytest.importorskip("pandas")
    world.history.add("A", attempt=2)
    world.history.add("B")
    frame = world.projection.query(
        "SELECT event_type, timestamp, seq, seq, attempt, seq / 2 AS half FROM events ORDER BY seq"
    ).to_dataframe()
    assert ["event_type", "timestamp", "seq", "seq", "attempt", "half"] == list(frame.columns)
    # pandas before 3 turns the unit into its own.
    kinds = [str(t).replace("[ns]", "[us]") for t in frame.dtypes.iloc[1:]]
    assert ["datetime64[us]", "int64", "int64", "Int64", "float64"] == kinds
    assert [2, pandas.NA] == list(frame["attempt"])
    empty = world.projection.query("SELECT event_type, seq FROM events WHERE false").to_dataframe()
    assert (0, 2) == empty.shape


# -- the background, and other processes


def test_the_background_brings_the_file_up_to_date(world):
    """Events handed over are in the file soon, without a query, and closing leaves none behind."""
    world.history.attach()
    world.projection.update_in_background(world.history.events)
    world.projection.close()
    with duckdb.connect(str(world.path), read_only=True) as connection:
        assert (2,) == connection.execute("SELECT count(*) FROM events").fetchone()
    assert [] == world.projection.notes


def test_the_background_never_raises_or_blocks(world, tmp_path):
    """Trouble while updating is a note; handing over returns at once and the next query still answers."""
    reading, go_on = threading.Event(), threading.Event()

    def source():
        reading.set()
        assert go_on.wait(20)
        raise RuntimeError("the journal is upside down")

    projection = Projection(tmp_path / "other.duckdb", source=source, files=LocalFiles(tmp_path), quiet_s=0.01)
    projection.update_in_background()
    assert reading.wait(20)
    projection.update_in_background(world.history.events)
    go_on.set()
    projection.close()
    assert 1 == len([n for n in projection.notes if "the journal is upside down" in n])


def test_duckdb_is_not_imported_before_it_is_needed(tmp_path):
    """Importing and constructing the projection, and handing events over, load no DuckDB on the caller's thread."""
    code = """
import sys
from pathlib import Path
from durable_nb.projection import Projection
from durable_nb.store.files import LocalFiles
p = Projection(Path(sys.argv[1]) / "events.duckdb", source=lambda: [], files=LocalFiles(sys.argv[1]), quiet_s=60)
p.update_in_background()
print("duckdb" in sys.modules, "pandas" in sys.modules, "random" in sys.modules)
p.close()
"""
    assert "False False True" == other_process(code, tmp_path)


def test_the_end_of_a_kernel_does_not_wait_for_duckdb_to_be_loaded(world, tmp_path):
    """What was handed over and not added is left to the next query, which adds all of it."""
    code = """
import sys
from pathlib import Path
from durable_nb.projection import Projection
from durable_nb.store.files import LocalFiles
from durable_nb.testing.events import History
h = History(); h.attach()
p = Projection(Path(sys.argv[1]) / "events.duckdb", source=lambda: h.events, files=LocalFiles(sys.argv[1]), quiet_s=60)
p.update_in_background(h.events)
p.close(load=False)
print("duckdb" in sys.modules, p.query("SELECT count(*) FROM events").rows)
"""
    assert "False ((2,),)" == other_process(code, tmp_path)


def test_an_exit_right_after_handing_over_is_clean(world, tmp_path):
    """A process that ends while the thread is about to work neither aborts nor hangs, and the rows are there."""
    code = """
import sys
from pathlib import Path
from durable_nb.projection import Projection
from durable_nb.store.files import LocalFiles
from durable_nb.testing.events import History
h = History(); h.attach()
p = Projection(Path(sys.argv[1]) / "events.duckdb", source=lambda: h.events, files=LocalFiles(sys.argv[1]))
p.update_in_background(h.events)
"""
    assert "" == other_process(code, tmp_path)
    with duckdb.connect(str(tmp_path / "events.duckdb"), read_only=True) as connection:
        assert (2,) == connection.execute("SELECT count(*) FROM events").fetchone()


READER = """
import sys, time, random, duckdb
path, seen, deadline = sys.argv[1], 0, time.monotonic() + 30
tries = 0
while seen < int(sys.argv[2]) and time.monotonic() < deadline:
    try:
        with duckdb.connect(path, read_only=True) as connection:
            now = connection.execute("SELECT count(*) FROM events").fetchone()[0]
    except duckdb.IOException as error:
        assert "lock" in str(error), error
        tries += 1
        time.sleep(random.uniform(0.001, 0.01))
        continue
    assert now >= seen, (now, seen)
    if now != seen:
        print(now, flush=True)
    seen = now
    time.sleep(random.uniform(0.005, 0.02))
"""


def test_another_process_reads_while_this_one_writes(world):
    """A reader with plain duckdb follows a projection that is written in bursts; both get through."""
    world.history.attach()
    projection = Projection(
        world.path, source=lambda: world.history.events, files=LocalFiles(world.folder), patience_s=15.0
    )
    projection.refresh()
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(world.path), "102"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        first = reader.stdout.readline()
        for i in range(50):
            world.history.run(f"cell{i % 5}", {"x": "int"})
            projection.ingest(world.history.events[-2:])
        out, err = reader.communicate(timeout=40)
    finally:
        reader.kill()
    assert (0, "") == (reader.returncode, err)
    counts = [int(line) for line in (first + out).split()]
    assert 102 == counts[-1]
    assert len(counts) >= 3


HOLDER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "ro")
print("open", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_file_held_open_by_another_process_does_not_stop_a_query(world, mode):
    """While somebody keeps the file open, answers are complete all the same; afterwards the file catches up."""
    world.history.attach()
    world.projection.refresh()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(world.path), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert "open\n" == holder.stdout.readline()
        world.history.run("a", {"x": "int"})
        with pytest.raises(BlockingIOError):
            world.projection.refresh()
        assert [("a",)] == rows(world, "SELECT name FROM attempts")
        assert "answered from memory" in world.projection.notes[-1]
        with pytest.raises(UsageError):
            world.projection.query("SELECT nothing FROM events")
    finally:
        holder.communicate("\n")
    assert 2 == world.projection.refresh()


def test_a_connection_of_the_users_own_does_not_stop_a_query(world):
    """A notebook that has the file open itself, in the same process, still gets every row from a query."""
    world.history.attach()
    world.projection.refresh()
    with duckdb.connect(str(world.path), read_only=True) as mine:
        world.history.run("a", {"x": "int"})
        assert [(4,)] == rows(world, "SELECT count(*) FROM events")
        assert (2,) == mine.execute("SELECT count(*) FROM events").fetchone()
    assert 2 == world.projection.refresh()


def test_without_a_folder_nothing_is_made(tmp_path):
    """Asking where no repository is answers with no rows and leaves no file behind."""
    folder = tmp_path / ".durable"
    projection = Projection(folder / "events.duckdb", source=list, files=LocalFiles(folder))
    assert 0 == len(projection.query("SELECT * FROM events"))
    assert [] == list(tmp_path.iterdir())


def test_the_users_random_stream_is_untouched(world):
    """Projecting and asking draw nothing from the streams that a notebook seeds."""
    world.history.attach()
    random.seed(7)
    before = random.getstate()
    world.projection.refresh()
    world.projection.query("SELECT 1")
    assert before == random.getstate()
