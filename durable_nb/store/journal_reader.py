"""Read the journal files of one workflow: which events are true, in order, and what is damaged.

Called by the journal for every read. The rules are FORMAT.md, section "Reading a journal": a line proves itself by its
keyed hash, the chain proves that nothing is missing between two lines, and a later writer's first line decides what
of an earlier file counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from durable_nb.errors import TRUSTING, Untrusted
from durable_nb.model import Event, Problem
from durable_nb.ports import Files
from durable_nb.store.journal_lines import GENESIS, BadLine, Record, parse_line
from durable_nb.store.signing import SigningKey

__all__ = ["Head", "JournalReader", "Segment", "segments"]

_NAME = re.compile(r"(\d{6,})-([A-Za-z0-9_-]+)(?:\.(\d+))?\.ndjson")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Segment:
    """One journal file, ordered as the chain is: by epoch, writer, number."""

    epoch: int
    kernel_id: str
    number: int
    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last true event: what the next one continues."""

    hash: str = GENESIS
    seq: int = 0
    timestamp: int = 0


@dataclass(slots=True, kw_only=True)
class _Scan:
    segment: Segment
    records: list[Record] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)


def segments(files: Files, folder: str) -> list[Segment]:
    """Return the journal files of a folder in the order of the chain."""
    found = []
    for name, size_bytes in files.list(folder):
        match = _NAME.fullmatch(name)
        if match and size_bytes >= 0:
            found.append(
                Segment(
                    epoch=int(match[1]),
                    kernel_id=match[2],
                    number=int(match[3] or 0),
                    name=name,
                    size_bytes=size_bytes,
                )
            )
    return sorted(found)


class JournalReader:
    """One pass over a journal; `head` and `problems` are complete when `events` is exhausted."""

    def __init__(
        self,
        files: Files,
        folder: str,
        *,
        workflow_id: str,
        key: SigningKey,
        trust: bool,
        accepts: Callable[[str], bool],
    ) -> None:
        self.head = Head()
        self.problems: list[Problem] = []
        self._files = files
        self._folder = folder
        self._workflow_id = workflow_id
        self._key = key
        self._trust = trust
        self._accepts = accepts
        # Lines that could not be read since the last true event: damage if the chain shows a gap there, else nothing
        # that ever counted.
        self._suspects: list[tuple[Segment, BadLine]] = []

    def events(self) -> Iterator[Event]:
        """Yield every true event in order; Untrusted where a file is signed by nobody the user trusts."""
        held: _Scan | None = None
        behind: list[tuple[Segment, BadLine]] = []
        for segment in segments(self._files, self._folder):
            scan = self._scan(segment)
            if not scan.records:
                # Without one good line a file says nothing about those before it.
                behind.extend((segment, bad) for bad in scan.bad)
                continue
            if held is not None:
                yield from self._settle(held, scan.records[0])
            self._suspects.extend(behind)
            behind = []
            held = scan
        if held is not None:
            yield from self._settle(held, None)
        for segment, bad in (*self._suspects, *behind):
            self._report("torn_tail", segment, bad.line, f"{bad.reason}; the last write did not complete")

    def _scan(self, segment: Segment) -> _Scan:
        content = self._files.read(f"{self._folder}/{segment.name}")
        lines = content.split(b"\n")
        rest = lines.pop()
        scan = _Scan(segment=segment)
        unproved: list[Record] = []
        for number, line in enumerate(lines, 1):
            found = parse_line(line, number, workflow_id=self._workflow_id, epoch=segment.epoch, key=self._key)
            if isinstance(found, BadLine):
                scan.bad.append(found)
            elif found.proved:
                scan.records.append(found)
            else:
                unproved.append(found)
        if not scan.records and (unproved or any(bad.unsigned for bad in scan.bad)):
            if not self._trust and not self._accepts(hashlib.sha256(content).hexdigest()):
                raise _untrusted(f"{self._folder}/{segment.name}")
            scan.records = unproved
        else:
            # One writer has one key: another key's name in a file of ours is a changed line.
            scan.bad += [BadLine(line=one.line, reason="it names another key than its neighbours") for one in unproved]
        if rest:
            scan.bad.append(BadLine(line=len(lines) + 1, reason="the line is incomplete"))
        scan.bad.sort(key=lambda bad: bad.line)
        return scan

    def _settle(self, scan: _Scan, following: Record | None) -> Iterator[Event]:
        """Yield what counts of one file; `following` is the first record of the next file."""
        kept = self._in_order(scan)
        if following is not None:
            # The next writer had read what counted when it began. What is here beyond that was never acknowledged:
            # a write that failed, or one of a writer that had lost its lease.
            cut = [record for record in kept if record.event.seq >= following.event.seq]
            kept = kept[: len(kept) - len(cut)]
            if sum(record.batch_index == 1 for record in cut) > 1:
                detail = f"{len(cut)} events from here on are not part of the history that was continued elsewhere"
                self._report("orphan", scan.segment, cut[0].line, detail)
        kept, torn = _without_torn_batch(kept, following)
        bad = sorted([*scan.bad, *torn], key=lambda one: one.line)
        position = 0
        for record in kept:
            while position < len(bad) and bad[position].line < record.line:
                self._suspects.append((scan.segment, bad[position]))
                position += 1
            self._link(record, scan.segment)
            if not record.erased:
                yield record.event
        self._suspects.extend((scan.segment, one) for one in bad[position:])

    def _in_order(self, scan: _Scan) -> list[Record]:
        """Return the records by seq, each once; what stands in another order was moved or copied, and is reported."""
        by_hash: dict[str, Record] = {}
        last_seq = 0
        for record in scan.records:
            if record.event.hash in by_hash:
                self._report("damaged", scan.segment, record.line, "the line repeats an earlier one; it counts once")
                continue
            if record.event.seq <= last_seq:
                self._report(
                    "damaged", scan.segment, record.line, "the line is out of place; it counts where it belongs"
                )
            last_seq = max(last_seq, record.event.seq)
            by_hash[record.event.hash] = record
        return sorted(by_hash.values(), key=lambda record: record.event.seq)

    def _link(self, record: Record, segment: Segment) -> None:
        """Move the head to this record, and report what the chain says about the way there."""
        event = record.event
        if record.prev == self.head.hash:
            for where, bad in self._suspects:
                # Nothing is missing. In the same file a line was put in; at the end of an earlier one a write failed.
                if where == segment:
                    self._report("damaged", where, bad.line, f"{bad.reason}; no event is missing here")
        elif self._suspects:
            for where, bad in self._suspects:
                self._report("damaged", where, bad.line, f"{bad.reason}; the events behind it are proved one by one")
        else:
            first, last = self.head.seq + 1, event.seq - 1
            detail = f"the events {first} to {last} before this line are missing; this one and the others are proved"
            self._report("missing", segment, record.line, detail)
        self._suspects.clear()
        self.head = Head(hash=event.hash, seq=event.seq, timestamp=event.timestamp)
        if record.erased:
            self._report("missing", segment, record.line, "the payload of this event was erased")

    def _report(self, kind: str, segment: Segment, line: int, detail: str) -> None:
        self.problems.append(Problem(object=f"{self._folder}/{segment.name}:{line}", kind=kind, detail=detail))


def _without_torn_batch(kept: list[Record], following: Record | None) -> tuple[list[Record], list[BadLine]]:
    """Drop the last batch of a file if a part of it is missing and nobody continued it: it was never acknowledged."""
    if not kept:
        return kept, []
    last = kept[-1]
    first_seq = last.event.seq - last.batch_index + 1
    batch = [record for record in kept if record.event.seq >= first_seq]
    if len(batch) == last.batch_size or (following is not None and following.prev == last.event.hash):
        return kept, []
    reason = "the events that were written together with this one are missing"
    return kept[: len(kept) - len(batch)], [BadLine(line=record.line, reason=reason) for record in batch]


def _untrusted(path: str) -> Untrusted:
    return Untrusted(
        f"The history in {path} is not signed with your key: it comes from another person or machine, or the key was "
        "replaced. Nothing of it was executed, and nothing was changed.",
        hint=TRUSTING,
        object=path,
    )
