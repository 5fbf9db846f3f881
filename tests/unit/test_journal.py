"""What a reader makes of a journal that was cut, flipped, moved about or written to by more than one."""

from __future__ import annotations

import json
import random

import pytest

from durable_nb.errors import RepositoryError, StaleEpoch, Untrusted, UsageError
from durable_nb.model import EventDraft
from durable_nb.store.journal import FileJournal, journal_digests
from durable_nb.testing.clock import ManualClock
from durable_nb.testing.journals import FOLDER, draft, fake_owner, fixed_key, open_journal
from durable_nb.testing.simfiles import SimFiles

FILE = f"{FOLDER}/000001-k1.ndjson"


def written(*batches: int) -> tuple[SimFiles, list[bytes]]:
    """Return a disk with one batch after the other, and the journal's lines."""
    files = SimFiles()
    journal = open_journal(files)
    number = 0
    for size in batches:
        journal.append([draft(number + i) for i in range(size)])
        number += size
    journal.close()
    return files, files.read(FILE).splitlines(keepends=True)


def numbers(journal: FileJournal) -> list[int]:
    """Return the numbers of the events that are true."""
    return [event.payload["n"] for event in journal.read()]


def reread(files: SimFiles) -> tuple[list[int], list[str]]:
    """Return the numbers that are true, and the kinds of the problems."""
    journal = open_journal(files, read_only=True)
    return numbers(journal), [problem.kind for problem in journal.problems]


def test_a_line_is_flat_json_that_any_tool_reads() -> None:
    """Every line is one JSON object with the envelope as its columns."""
    _, lines = written(2)
    document = json.loads(lines[1])
    assert (
        document["event_type"],
        document["seq"],
        document["payload"],
        document["event_id"],
    ) == ("ActivityStarted", 2, {"n": 1}, "1-2")


def test_append_returns_what_read_returns() -> None:
    """What a writer is told is what every later reader gets, also for values that JSON changes."""
    files = SimFiles()
    journal = open_journal(files)
    odd = EventDraft(
        event_type="ActivityStarted",
        run_id="r1",
        activity_id="a",
        attempt=2,
        payload={"t": (1, 2), "text": 'ä\u2028\ud800\n"', "f": 0.1, "nested": {"payload": None, "hash": "x"}},
        metadata={"m": [None, True]},
        correlation={"cell": "c1"},
    )
    events = journal.append([odd, draft(1)])
    assert events == list(journal.read())
    assert journal.problems == []


def test_without_a_sync_a_power_cut_takes_the_end_and_nothing_else() -> None:
    """What is to be durable soon may be gone with the machine, until something else is appended, or at the end."""
    files = SimFiles()
    journal = open_journal(files)
    journal.append([draft(0)])
    journal.append([draft(1)], sync=False)
    assert numbers(journal) == [0, 1]
    found = {tuple(reread(files.copy_before_crash(seed))[0]) for seed in range(40)}
    assert found == {(0,), (0, 1)}
    journal.append([draft(2)])
    journal.append([draft(3)], sync=False)
    journal.sync()
    assert {tuple(reread(files.copy_before_crash(seed))[0]) for seed in range(40)} == {(0, 1, 2, 3)}
    journal.append([draft(4)], sync=False)
    journal.close()
    assert reread(files.crash(random.Random(1))) == ([0, 1, 2, 3, 4], [])


@pytest.mark.parametrize("batches", [(1, 1, 1), (1, 3)])
def test_a_torn_tail_at_every_byte_loses_only_the_last_batch(batches: tuple[int, ...]) -> None:
    """Cut anywhere behind the last acknowledged batch, the journal is that batch; all or nothing of the next one."""
    files, lines = written(*batches)
    last = batches[-1]
    start = sum(map(len, lines[:-last]))
    content = b"".join(lines)
    before = list(range(len(lines) - last))
    for size in range(start, len(content)):
        files.replace(FILE, content[:size])
        found, problems = reread(files)
        assert before == found, size
        assert {"torn_tail"} >= set(problems), size


def test_a_torn_tail_is_reported_and_then_written_over_by_the_next_writer() -> None:
    """The next kernel continues behind the last whole batch, and then the tear is nobody's problem any more."""
    files, lines = written(1, 2)
    files.replace(FILE, b"".join(lines)[:-5])
    assert reread(files) == ([0], ["torn_tail", "torn_tail"])
    journal = open_journal(files, "k2")
    journal.append([draft(7)])
    assert reread(files) == ([0, 7], [])


def test_a_flipped_byte_anywhere_is_detected_and_costs_one_event_at_most() -> None:
    """Every byte of a line in the middle is covered: a change never passes, and the lines behind it stay proved."""
    files, lines = written(1, 1, 1, 1)
    start = len(lines[0])
    for offset in range(len(lines[1]) - 1):
        files.damage(FILE, start + offset)
        found, problems = reread(files)
        files.damage(FILE, start + offset)
        assert found == [0, 2, 3], offset
        assert ["damaged"] * len(problems) == problems
        assert problems


def test_a_flipped_newline_joins_two_lines_and_costs_those_two() -> None:
    """A line end that was changed makes one unreadable line of two, and the rest stays proved."""
    files, lines = written(1, 1, 1, 1)
    files.damage(FILE, len(lines[0]) + len(lines[1]) - 1)
    assert reread(files) == ([0, 3], ["damaged"])


def test_damage_names_file_line_and_what_is_still_trusted() -> None:
    """The report says where the damage is and that what stands behind it is proved."""
    files, lines = written(1, 1, 1)
    files.damage(FILE, len(lines[0]) + 20)
    journal = open_journal(files, read_only=True)
    assert numbers(journal) == [0, 2]
    (problem,) = journal.problems
    assert f"{FILE}:2" == problem.object
    assert "the events behind it are proved one by one" in problem.detail


def test_a_flip_in_the_last_line_is_a_torn_tail() -> None:
    """The last line, damaged, cannot be told from a write that did not complete; it is ignored and listed."""
    files, _ = written(1, 1)
    files.damage(FILE, -30)
    assert reread(files) == ([0], ["torn_tail"])


@pytest.mark.parametrize(
    ("order", "expected", "problems"),
    [
        ((0, 1, 1, 2, 3), [0, 1, 2, 3], ["damaged"]),
        ((0, 2, 3), [0, 2, 3], ["missing"]),
        ((0, 2, 1, 3), [0, 1, 2, 3], ["damaged"]),
        ((3, 2, 1, 0), [0, 1, 2, 3], ["damaged"] * 3),
        ((2, 3), [2, 3], ["missing"]),
    ],
)
def test_moved_copied_and_removed_lines(order: tuple[int, ...], expected: list[int], problems: list[str]) -> None:
    """Genuine lines count once and where they belong; every copy, move and gap is reported."""
    files, lines = written(1, 1, 1, 1)
    files.replace(FILE, b"".join(lines[i] for i in order))
    assert (expected, problems) == reread(files)


def test_a_line_put_in_between_is_reported_and_never_counts() -> None:
    """A forged line between two genuine ones has no hash of our key: nothing is missing, and it says nothing."""
    files, lines = written(1, 1)
    forged = lines[1].replace(b'"n":1', b'"n":9')
    files.replace(FILE, lines[0] + forged + lines[1])
    assert reread(files) == ([0, 1], ["damaged"])


def test_a_line_of_another_workflow_does_not_count() -> None:
    """A genuine line of another workflow of the same user cannot be moved here."""
    files, lines = written(1)
    foreign = open_journal(SimFiles())
    foreign._workflow_id = "w2"
    elsewhere = SimFiles()
    foreign._files = elsewhere
    elsewhere.make_folder(FOLDER)
    foreign.append([draft(5)])
    files.replace(FILE, lines[0] + elsewhere.read(FILE))
    assert reread(files) == ([0], ["torn_tail"])


def test_a_removed_file_is_reported() -> None:
    """When the file of a whole epoch is gone, the next one's chain says so."""
    files, _ = written(1)
    for kernel in ("k2", "k3"):
        journal = open_journal(files, kernel)
        journal.append([draft(8)])
        journal.close()
    files.remove(f"{FOLDER}/000002-k2.ndjson")
    assert reread(files) == ([0, 8], ["missing"])


def test_a_truncated_file_with_a_successor_is_reported() -> None:
    """Events cut off the end of an older file are missed, because the next file chains to them."""
    files, lines = written(1, 1)
    journal = open_journal(files, "k2")
    journal.append([draft(2)])
    files.replace(FILE, lines[0])
    assert reread(files) == ([0, 2], ["missing"])


def test_sequence_chain_and_epoch_go_on_in_the_next_kernel() -> None:
    """A second writer has a higher epoch, its own file, and continues sequence and chain."""
    files, _ = written(1, 1)
    journal = open_journal(files, "k2")
    journal.append([draft(2)])
    found = list(open_journal(files, read_only=True).read())
    assert [(event.epoch, event.seq) for event in found] == [(1, 1), (1, 2), (2, 3)]
    assert [event.event_id for event in found] == ["1-1", "1-2", "2-3"]
    assert reread(files) == ([0, 1, 2], [])


def test_read_behind_a_sequence_number() -> None:
    """A follower asks for what it has not seen."""
    files, _ = written(2, 2)
    assert [event.seq for event in open_journal(files, read_only=True).read(2)] == [3, 4]


def test_a_clock_set_back_does_not_turn_time_round() -> None:
    """Timestamps never decrease, over kernels too, and the skew is kept beside them."""
    files = SimFiles()
    clock = ManualClock()
    journal = open_journal(files, clock=clock)
    first = journal.append([draft(0)])[0]
    clock.set_back(5)
    second = journal.append([draft(1)])[0]
    journal.close()
    third = open_journal(files, "k2", clock=clock).append([draft(2)])[0]
    clock.advance(60)
    assert [first.timestamp] * 3 == [event.timestamp for event in (first, second, third)]
    assert [first.metadata, second.metadata] == [{}, {"clock_skew_us": 5_000_000}] * 1


def test_a_big_file_is_continued_in_a_new_one() -> None:
    """Above its limit a file is left alone, and the chain goes on in the next one."""
    files = SimFiles()
    journal = open_journal(files, rotate_bytes=1_500)
    for number in range(5):
        journal.append([draft(number)])
    names = [name for name, _ in files.list(FOLDER)]
    assert names == ["000001-k1.1.ndjson", "000001-k1.2.ndjson", "000001-k1.ndjson"]
    assert reread(files) == ([0, 1, 2, 3, 4], [])


def test_an_erased_payload_keeps_the_chain() -> None:
    """A payload replaced by null leaves a place in the chain: the event says nothing, and every other one is proved."""
    files, lines = written(1, 1, 1)
    head = lines[1][: lines[1].index(b',"payload":') + len(b',"payload":')]
    files.replace(FILE, lines[0] + head + b"null}\n" + lines[2])
    assert reread(files) == ([0, 2], ["missing"])
    files.replace(FILE, lines[0] + head + b"null}\n")
    journal = open_journal(files, "k2")
    assert journal.append([draft(3)])[0].seq == 3


def test_a_foreign_key_is_refused_with_the_way_out() -> None:
    """A journal signed by somebody else is not read, and the sentence says how to accept it."""
    files, _ = written(1)
    journal = open_journal(files, read_only=True, key=fixed_key("the key of somebody else"))
    with pytest.raises(Untrusted, match="durable-nb trust FOLDER") as caught:
        list(journal.read())
    assert caught.value.details["object"] == FILE


def test_an_unsigned_event_is_refused() -> None:
    """An event that anybody could have written by hand is no event."""
    files, _ = written(1)
    files.replace(FILE, b'{"event_type":"ActivityCompleted","seq":1,"payload":{}}\n')
    with pytest.raises(Untrusted):
        list(open_journal(files, read_only=True).read())


def test_trust_accepts_a_foreign_journal_and_continues_it() -> None:
    """With trust a foreign history is read, and this user's own events follow it."""
    files, _ = written(1, 1)
    journal = open_journal(files, "k2", key=fixed_key("the key of somebody else"), trust=True)
    assert numbers(journal) == [0, 1]
    journal.append([draft(2)])
    assert numbers(journal) == [0, 1, 2]
    assert journal.problems == []


def test_accepted_digests_hold_for_the_very_bytes() -> None:
    """What was accepted once is accepted for good, and a byte added to it is not."""
    files, lines = written(1, 1)
    digests = set(journal_digests(files, FOLDER))
    other = fixed_key("the key of somebody else")
    assert numbers(open_journal(files, read_only=True, key=other, accepts=digests.__contains__)) == [0, 1]
    files.replace(FILE, lines[0] + lines[1] + lines[1])
    with pytest.raises(Untrusted):
        numbers(open_journal(files, read_only=True, key=other, accepts=digests.__contains__))


def test_a_zombie_is_refused_and_what_it_wrote_late_never_counts() -> None:
    """A writer that lost its lease cannot append, and a line it had on the way is not part of the history."""
    files, _ = written(1)
    old = open_journal(files, "k2")
    old.append([draft(1)])
    late_name = f"{FOLDER}/000002-k2.ndjson"
    before = files.read(late_name)
    old.append([draft(66)])
    late = files.read(late_name)
    files.replace(late_name, before)
    new = open_journal(files, "k3")
    new.append([draft(2)])
    with pytest.raises(StaleEpoch, match="process 101 on here took it over"):
        old.append([draft(3)])
    files.replace(late_name, late)
    assert reread(files) == ([0, 1, 2], [])


def test_two_histories_that_went_apart_are_reported() -> None:
    """Files of two continuations of one history do not mix: one counts, the other is named."""
    files, _ = written(1)
    twin = files.copy()
    for disk, kernel in ((files, "k2"), (twin, "k3")):
        journal = open_journal(disk, kernel)
        for number in (1, 2, 3):
            journal.append([draft(number)])
    files.replace(f"{FOLDER}/000002-k3.ndjson", twin.read(f"{FOLDER}/000002-k3.ndjson"))
    assert reread(files) == ([0, 1, 2, 3], ["orphan"])


def test_a_takeover_between_write_and_acknowledgement_is_not_acknowledged() -> None:
    """If the lease went while the line was on its way to the disk, the writer is told that it may not count."""
    files, _ = written(1)
    old = open_journal(files, "k2")
    old.append([draft(1)])

    class TakenOver:
        def __init__(self, file: object) -> None:
            self.file = file

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

        def sync(self) -> None:
            open_journal(files, "k3").append([draft(2)])

    old._file = TakenOver(old._file)  # type: ignore[assignment]
    with pytest.raises(StaleEpoch):
        old.append([draft(9)])
    found, problems = reread(files)
    assert (found[-1], problems) == (2, [])


def test_a_closed_or_reading_journal_records_nothing() -> None:
    """Only an open writer appends; everybody else is told so."""
    files, _ = written(1)
    journal = open_journal(files, "k2")
    journal.close()
    journal.close()
    for silent in (journal, open_journal(files, read_only=True)):
        with pytest.raises(RepositoryError, match="reading only"):
            silent.append([draft(1)])
    assert None is open_journal(files, read_only=True).owner


def test_a_forked_child_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool worker that inherited the journal must not write into its parent's file."""
    files, _ = written(1)
    journal = open_journal(files, "k2")
    monkeypatch.setattr("durable_nb.store.journal.os.getpid", lambda: -1)
    with pytest.raises(StaleEpoch, match="forked child"):
        journal.append([draft(1)])


def test_a_kernel_id_becomes_a_file_name_and_is_checked() -> None:
    """A kernel id with a path in it is refused before anything is made."""
    with pytest.raises(UsageError):
        open_journal(SimFiles(), "../k")


def test_opening_and_reading_change_nothing() -> None:
    """A reader leaves every byte of the repository as it was."""
    files, _ = written(2)
    before = files.snapshot()
    assert numbers(open_journal(files, read_only=True)) == [0, 1]
    assert before == files.snapshot()
    assert fake_owner().kernel_id == "k1"
