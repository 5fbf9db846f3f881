"""Whatever is done to the bytes of a journal, what a reader believes was written, and what is missing is reported."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from durable_nb.errors import Untrusted
from durable_nb.model import Event
from durable_nb.testing.journals import FOLDER, draft, open_journal
from durable_nb.testing.simfiles import SimFiles

FILES = (f"{FOLDER}/000001-k1.ndjson", f"{FOLDER}/000002-k2.ndjson")
BATCHES = ((1, 2, 1), (3, 1, 1))


def written() -> tuple[SimFiles, list[Event]]:
    """Return a disk with the journal of two kernels, and its events."""
    files, events = SimFiles(), []
    for kernel, batches in zip(("k1", "k2"), BATCHES, strict=True):
        journal = open_journal(files, kernel)
        for size in batches:
            events += journal.append([draft(len(events) + i, text="ü\n" * i) for i in range(size)])
        journal.close()
    return files, events


changes = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["flip", "cut", "copy", "insert", "truncate"]),
        st.floats(0, 1, exclude_max=True),
        st.floats(0, 1, exclude_max=True),
        st.integers(1, 255),
    ),
    min_size=1,
    max_size=3,
)


def change(content: bytes, kind: str, a: float, b: float, value: int) -> bytes:
    """Return the content after one change."""
    start, stop = sorted((int(a * len(content)), int(b * len(content))))
    if kind == "flip":
        return content[:start] + bytes([content[start] ^ value]) + content[start + 1 :] if content else content
    if kind == "cut":
        return content[:start] + content[stop:]
    if kind == "copy":
        return content[:stop] + content[start:stop] + content[stop:]
    if kind == "insert":
        return content[:start] + bytes([value]) + content[start:]
    return content[:start]


@settings(max_examples=150, deadline=None)
@given(changes)
@example([(0, "truncate", 0.0, 0.0, 1)])
@example([(1, "flip", 0.0, 0.0, 255)])
def test_no_change_is_believed_or_passes_in_silence(todo: list[tuple[int, str, float, float, int]]) -> None:
    """Every event that is read is one that was written, in order; every missing one is reported, but for the tail."""
    files, events = written()
    for which, *what in todo:
        files.replace(FILES[which], change(files.read(FILES[which]), *what))
    reader = open_journal(files, read_only=True)
    try:
        found = list(reader.read())
    except Untrusted:
        return  # Nothing in one of the files is ours any more: refused as a whole, which is loud enough.
    originals = {event.seq: event for event in events}
    assert [originals[event.seq] for event in found] == found
    assert sorted({event.seq for event in found}) == [event.seq for event in found]
    last = found[-1].seq if found else 0
    missing = set(range(1, last)) - {event.seq for event in found}
    assert not missing or [problem for problem in reader.problems if problem.kind != "torn_tail"]
