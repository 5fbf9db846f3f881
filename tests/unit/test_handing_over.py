"""The parts of a hand-over by themselves: places in the arena, names that are still to come, records, messages."""

from __future__ import annotations

import itertools
import random
from collections import deque

import pytest

from durable_nb.errors import CheckpointError, Integrity
from durable_nb.model import CheckpointId, Digest, EventDraft
from durable_nb.store.arena import Ring
from durable_nb.store.channel import Channel, pair
from durable_nb.store.handover import encode_record, log_path, named_body, places_named_by, read_record
from durable_nb.store.pending import PendingChunks, Ticket, parse_place, place
from durable_nb.testing.scenario import KEY
from durable_nb.testing.simfiles import SimFiles


def test_places_in_flight_never_overlap() -> None:
    """Whatever is taken and given back in order, no byte belongs to two commits, and all of it can be used."""
    rng = random.Random(3)
    ring, flying = Ring(1000), deque[list[tuple[int, int]]]()
    refused = 0
    for _ in range(5000):
        lengths = [rng.randrange(1, 200) for _ in range(rng.randrange(1, 4))]
        offsets = ring.take(lengths)
        if offsets is None or (flying and rng.random() < 0.3):
            if offsets is not None:
                ring.undo()
            refused += offsets is None
            flying.popleft()
            ring.give_back()
            continue
        flying.append([(offset, offset + length) for offset, length in zip(offsets, lengths, strict=True)])
        taken = sorted(span for spans in flying for span in spans)
        assert taken[-1][1] <= 1000
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(taken)), taken
        assert ring.used_bytes == sum(end - begin for begin, end in taken)
    assert refused > 100
    while flying:
        flying.popleft()
        ring.give_back()
    assert ring.take([1000]) == [0]


def test_what_never_fits_is_refused() -> None:
    """A commit larger than the budget is not waited for."""
    with pytest.raises(ValueError, match="never fit"):
        Ring(10).take([6, 5])


def ticket(number: int, digests: list[str] | None = None) -> Ticket:
    """Return a ticket; somebody who waits for it settles it."""

    def settle(waiting: Ticket) -> None:
        waiting.digests = [Digest(text) for text in digests or []]

    return Ticket(number, CheckpointId(f"c{number}"), settle)


def test_names_that_are_to_come() -> None:
    """Places stand for names until they are known, one hand-over after the other; reading them waits."""
    first, second = ticket(1, ["aa", "bb"]), ticket(2, ["cc"])
    chunks = PendingChunks(["00", place(1, 1), place(2, 0), place(1, 0)], {1: first, 2: second})
    assert (len(chunks), list(chunks.names())) == (4, ["00", "~1.1", "~2.0", "~1.0"])
    first.digests = [Digest("aa"), Digest("bb")]
    assert list(chunks.names()) == ["00", "bb", "~2.0", "aa"]
    assert list(chunks) == ["00", "bb", "cc", "aa"]
    assert list(chunks.names()) == ["00", "bb", "cc", "aa"]
    assert chunks == ("00", "bb", "cc", "aa")


def test_names_that_never_come() -> None:
    """Chunks of a commit that failed have no names, and who asks for them is told why."""
    failed = ticket(1)
    failed.error = OSError("disk full")
    chunks = PendingChunks([place(1, 0)], {1: failed})
    with pytest.raises(CheckpointError, match="c1 changed was never stored: disk full"):
        list(chunks)


def test_places() -> None:
    """A place is not a digest, and says what it stands for."""
    assert (parse_place(place(12, 3)), parse_place("ab" * 32)) == ((12, 3), None)


def body(*chunks: str) -> dict[str, object]:
    """Return as much of a body as names chunks."""
    ref = {"size_bytes": 1, "chunk_bytes": 1, "chunks": list(chunks[:1])}
    return {"groups": {"g": {"pickle": ref, "buffers": [{**ref, "chunks": list(chunks[1:])}]}}}


def test_a_body_gets_its_names_and_tells_them() -> None:
    """What `named_body` puts in, `places_named_by` finds again."""
    named = named_body(body("~2.0", "~1.1", "ff", "~2.1"), {1: ["a", "b"], 2: ["c", "d"]})
    assert named == body("c", "b", "ff", "d")
    assert places_named_by(2, body("~2.0", "~1.1", "ff", "~2.1"), named) == ["c", "d"]
    with pytest.raises(KeyError):
        named_body(body("~3.0"), {})


def write(content: bytes) -> SimFiles:
    """Return a disk with a log of this content."""
    files = SimFiles()
    files.make_folder("w/inflight")
    file = files.create(log_path("w", 1))
    file.write(content)
    return files


def test_a_record_is_whole_or_refused() -> None:
    """Of two records each is read back; cut off anywhere or changed in any byte, a record is refused."""
    draft = EventDraft(event_type="ActivityCompleted", run_id="r")
    header = {
        "format": 1,
        "epoch": 1,
        "number": 1,
        "in_arena": False,
        "draft": draft.event_type,
        "offsets": [0],
        "lengths": [3],
    }
    one, two = (encode_record({**header, "number": n}, b"abc", b"", KEY) for n in (1, 2))
    files = write(one + two)
    first = read_record(files, log_path("w", 1), 0, KEY)
    assert first is not None
    second = read_record(files, log_path("w", 1), first.size_bytes, KEY)
    assert second is not None
    assert (first.number, second.number, list(second.pieces(files, "w"))) == (1, 2, [b"abc"])
    assert (first.proves(b"", KEY), first.proves(b"x", KEY)) == (True, False)
    assert read_record(files, log_path("w", 1), len(one + two), KEY) is None
    data_mac = len(one) - 32
    for cut in range(1, len(one)):
        with pytest.raises(Integrity):
            read_record(write(one[:cut]), log_path("w", 1), 0, KEY)
    for at in range(data_mac):
        changed = bytearray(one)
        changed[at] ^= 1
        with pytest.raises(Integrity):
            read_record(write(bytes(changed)), log_path("w", 1), 0, KEY)


def test_messages_arrive_whole_and_in_order() -> None:
    """Whatever the sizes, and although neither side waits for the other while it sends."""
    left, right = (Channel(end) for end in pair())
    sent = [(bytes([65 + n % 26]), bytes([n % 256]) * size) for n, size in enumerate([0, 1, 70_000, 5_000_000, 3])]
    for kind, payload in sent:
        left.send(kind, payload)
    got: list[tuple[bytes, bytes]] = []
    while len(got) < len(sent):
        left.pump()
        if (message := right.take()) is not None:
            got.append(message)
    assert (got, left.waiting) == (sent, False)
    left.close()
    assert (right.take(), right.ended) == (None, True)
    right.close()
