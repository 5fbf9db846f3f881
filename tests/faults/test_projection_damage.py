"""The projection's file lost, cut, flipped, overwritten and killed half-way: the rows are right all the same."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import duckdb
import pytest

from durable_nb.projection import Projection
from durable_nb.store.files import LocalFiles
from durable_nb.testing.events import History


@pytest.fixture
def world(tmp_path):
    """A history of forty cells and its projected file, closed."""
    history = History()
    history.attach()
    for i in range(40):
        history.run(f"cell{i}", {f"x{i}": "int", "n": "int"})
    path = tmp_path / "events.duckdb"
    world = SimpleNamespace(history=history, path=path, folder=tmp_path)
    fresh(world).refresh()
    return world


def fresh(world, **options):
    """A projection as another process would open it."""
    return Projection(
        world.path, source=lambda: iter(world.history.events), files=LocalFiles(world.folder), patience_s=0.3, **options
    )


def answer(projection):
    """Rows that touch every event and most of their columns."""
    events = projection.query("SELECT event_id, seq, payload, metadata FROM events ORDER BY seq").rows
    return events, projection.query("SELECT name, version, current FROM variables ORDER BY ALL").rows


def expected(world):
    """The same rows from a file that nothing has happened to."""
    folder = world.folder / "expected"
    folder.mkdir()
    return answer(Projection(folder / "e.duckdb", source=lambda: world.history.events, files=LocalFiles(folder)))


def left(world):
    """The names in the folder that are the projection's."""
    return sorted(path.name for path in world.folder.iterdir() if path.name.startswith("events.duckdb"))


def test_a_deleted_file_is_made_again(world):
    """Somebody deleted the file: the next query has every row, and there is nothing to complain of."""
    rows = expected(world)
    world.path.unlink()
    projection = fresh(world)
    assert rows == answer(projection)
    assert [] == projection.notes
    assert ["events.duckdb"] == left(world)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"not a database at all", b"\0" * 20_000, bytes(range(256)) * 200],
    ids=["empty", "one-byte", "text", "zeros", "pattern"],
)
def test_garbage_is_replaced_and_told(world, content):
    """Whatever stands in place of the file is thrown away, the rows are right, and a note says what was done."""
    rows = expected(world)
    world.path.write_bytes(content)
    projection = fresh(world)
    assert rows == answer(projection)
    assert 1 == len(projection.notes)
    assert (
        "deleted and made again from the journal with 82 events. Nothing of the history is lost."
        in (projection.notes[0])
    )
    assert ["events.duckdb"] == left(world)


def test_a_database_of_somebody_else_is_replaced(world):
    """A sound DuckDB file with other tables under our name is not mistaken for the projection."""
    rows = expected(world)
    world.path.unlink()
    with duckdb.connect(str(world.path)) as connection:
        connection.execute("CREATE TABLE mine (a INT)")
    assert rows == answer(fresh(world))


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM events WHERE seq = 5",
        "DROP VIEW variables",
        "DROP TABLE ingested",
        "UPDATE ingested SET layout = 'x'",
    ],
)
def test_a_file_that_somebody_changed_is_made_again(world, change):
    """Rows deleted, views dropped, an older layout: noticed, and made again."""
    rows = expected(world)
    with duckdb.connect(str(world.path)) as connection:
        connection.execute(change)
    projection = fresh(world)
    assert rows == answer(projection)
    assert "made again from the journal" in projection.notes[0]


@pytest.mark.parametrize("cut", [1, 100, 4096, 5000, 12288, 20_000])
def test_a_cut_file_is_made_again(world, cut):
    """A file that ends early, at its head or near its end, costs nothing but the time to make it again."""
    rows = expected(world)
    size = world.path.stat().st_size
    for keep in (cut, size - cut):
        good = world.path.read_bytes()
        os.truncate(world.path, keep)
        assert rows == answer(fresh(world))
        world.path.write_bytes(good)


def test_flipped_bits_never_give_wrong_rows(world):
    """One flipped bit anywhere in the file: the rows are right, or the file is made again and the rows are right."""
    rows = expected(world)
    good = world.path.read_bytes()
    stream = random.Random(5)
    damaged = 0
    places = [*range(0, 64, 8), *(stream.randrange(len(good)) for _ in range(28))]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << stream.randrange(8)
        world.path.write_bytes(bad)
        projection = fresh(world)
        assert rows == answer(projection), f"byte {place}"
        damaged += bool(projection.notes)
    # The test would prove nothing if the flips had all hit unused bytes.
    assert damaged >= len(places) // 3


LOG_WRITER = """
import sys, os, duckdb
connection = duckdb.connect(sys.argv[1])
connection.execute("INSERT INTO ingested SELECT NULL, NULL, NULL, 0, layout FROM ingested LIMIT 1")
os._exit(1)
"""


def test_a_left_over_log_is_replayed_or_thrown_away(world):
    """A process died between commit and close: its log is good, cut, flipped or garbage, and the rows are right."""
    rows = expected(world)
    subprocess.run([sys.executable, "-c", LOG_WRITER, str(world.path)], check=False, timeout=30)
    log = world.path.with_name("events.duckdb.wal")
    content, file = log.read_bytes(), world.path.read_bytes()
    assert len(content) > 50
    stream = random.Random(6)
    variants = [content, b"", b"garbage " * 100, content + b"\0" * 64, content[: len(content) // 2], content[:-1]]
    for _ in range(12):
        flipped = bytearray(content)
        flipped[stream.randrange(len(content))] ^= 1 << stream.randrange(8)
        variants.append(bytes(flipped))
    for variant in variants:
        world.path.write_bytes(file)
        log.write_bytes(variant)
        assert rows == answer(fresh(world))


def test_the_log_of_a_deleted_file_does_not_reach_the_new_one(world):
    """The file is gone and its log is not: the new file starts without it."""
    rows = expected(world)
    subprocess.run([sys.executable, "-c", LOG_WRITER, str(world.path)], check=False, timeout=30)
    world.path.unlink()
    assert rows == answer(fresh(world))
    assert ["events.duckdb"] == left(world)


KILLED = """
import sys
from pathlib import Path
from durable_nb.projection import Projection
from durable_nb.store.files import LocalFiles
from durable_nb.testing.events import History
folder = Path(sys.argv[1])
history = History()
history.attach()
for i in range(300):
    history.run(f"cell{i}", {"x": "int"})
projection = Projection(folder / "events.duckdb", source=lambda: history.events, files=LocalFiles(folder))
print("go", flush=True)
while True:
    projection.rebuild()
    (folder / "events.duckdb").unlink()
    for i in range(0, 300, 20):
        projection.ingest(history.events[i:i + 20])
"""


def test_a_kill_at_any_time_leaves_a_file_that_reads_or_is_made_again(tmp_path):
    """A process that projects and rebuilds without pause is killed at random moments; the next one has every row."""
    stream = random.Random(8)
    history = History()
    history.attach()
    for i in range(300):
        history.run(f"cell{i}", {"x": "int"})
    for _ in range(10):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE)
        assert b"go\n" == child.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.3 + stream.random() * 0.5)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        projection = Projection(
            tmp_path / "events.duckdb", source=lambda: history.events, files=LocalFiles(tmp_path), patience_s=0.3
        )
        assert ((602, 602),) == projection.query("SELECT count(*), count(DISTINCT seq) FROM events").rows
    projection.rebuild()
    assert ["events.duckdb"] == sorted(path.name for path in tmp_path.iterdir())


def test_what_a_killed_rebuild_left_is_swept(world):
    """Half-written files of earlier rebuilds go with the next one, and nothing else in the folder does."""
    (world.folder / "events.duckdb.00.new").write_bytes(b"half")
    shutil.copy(world.path, world.folder / "events.duckdb.01.new")
    (world.folder / "events.duckdb.01.new.wal").write_bytes(b"log")
    (world.folder / "notes.new").write_bytes(b"mine")
    assert 82 == fresh(world).rebuild()
    assert ["events.duckdb"] == left(world)
    assert b"mine" == (world.folder / "notes.new").read_bytes()


class FullDisk(LocalFiles):
    """Files that refuse to rename."""

    def rename(self, source, target):
        """Fail as a full disk does."""
        raise OSError(28, "No space left on device")


def test_where_no_file_can_be_made_answers_come_from_memory(world):
    """A damaged file that cannot be replaced costs no answer; the note says why, and no leftovers stay."""
    rows = expected(world)
    world.path.write_bytes(b"garbage")
    projection = Projection(world.path, source=lambda: world.history.events, files=FullDisk(world.folder))
    assert rows == answer(projection)
    assert "No space left on device" in projection.notes[-1]
    assert "answered from memory" in projection.notes[-1]
    with pytest.raises(OSError, match="No space left"):
        projection.refresh()
    assert ["events.duckdb"] == left(world)


def test_a_folder_in_place_of_the_file_costs_no_answer(world):
    """Even a directory under our name only means that answers come from memory."""
    rows = expected(world)
    world.path.unlink()
    world.path.mkdir()
    projection = fresh(world)
    assert rows == answer(projection)
    assert "answered from memory" in projection.notes[-1]


REBUILDER = """
import sys
from pathlib import Path
from durable_nb.projection import Projection
from durable_nb.store.files import LocalFiles
from durable_nb.testing.events import History
folder, history = Path(sys.argv[1]), History()
history.attach()
for i in range(40):
    history.run(f"cell{i}", {f"x{i}": "int", "n": "int"})
for i in range(8):
    projection = Projection(folder / "events.duckdb", source=lambda: history.events, files=LocalFiles(folder))
    (folder / "events.duckdb").write_bytes(b"damaged again")
    assert 82 == len(projection.query("SELECT * FROM events"))
"""


def test_two_processes_may_find_the_damage_at_once(world):
    """Several that damage, rebuild and ask at the same time all get their answers, and one whole file remains."""
    rows = expected(world)
    children = [
        subprocess.Popen([sys.executable, "-c", REBUILDER, str(world.folder)], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [child.communicate(timeout=60)[1] for child in children]
    assert [(0, ""), (0, "")] == [(child.returncode, e) for child, e in zip(children, errors, strict=True)]
    projection = fresh(world)
    assert rows == answer(projection)
    projection.rebuild()
    assert ["events.duckdb"] == left(world)
