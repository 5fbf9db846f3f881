"""Events as rows: the layout of the file, how a batch goes in, and up to where a file holds what.

Called by `Projection` on open connections; nothing is true before the caller commits its transaction.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from typing import Any

from durable_nb.model import Event

__all__ = ["Head", "Layout", "heads", "insert", "load"]

BATCH_EVENTS = 2000

# One list per column: as quick as an appender, and typed by what is written here.
_INSERT = """
INSERT INTO events SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[]), make_timestamp(unnest($3::BIGINT[])),
    unnest($4::VARCHAR[]), unnest($5::VARCHAR[]), unnest($6::VARCHAR[]), unnest($7::INTEGER[]), unnest($8::VARCHAR[]),
    unnest($9::BIGINT[]), unnest($10::BIGINT[]), unnest($11::VARCHAR[])::JSON, unnest($12::VARCHAR[])::JSON,
    unnest($13::VARCHAR[])::JSON, unnest($14::INTEGER[]), unnest($15::VARCHAR[])
"""
_HEADS = """
SELECT workflow_id, max(seq), arg_max(event_id, seq), CAST(sum(events) AS BIGINT)
FROM ingested WHERE workflow_id IS NOT NULL GROUP BY 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last projected event of a workflow, and how many there are of it in all."""

    seq: int
    event_id: str
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The text of views.sql, its fingerprint (a file made from another text is made again) and the views it makes."""

    sql: str
    fingerprint: str
    views: frozenset[str]

    @classmethod
    def read(cls) -> Layout:
        """Read the text that ships with the package."""
        sql = resources.files("durable_nb.projection").joinpath("views.sql").read_text("utf-8")
        return cls(
            sql=sql,
            fingerprint=hashlib.sha256(sql.encode()).hexdigest()[:16],
            views=frozenset(re.findall(r"^CREATE VIEW (\w+)", sql, re.MULTILINE)),
        )


def load(connection: Any, events: Iterable[Event], layout: Layout) -> int:
    """Make the tables and views in an empty database, put all events in, commit; return how many."""
    connection.execute("BEGIN")
    connection.execute(layout.sql)
    connection.execute("INSERT INTO ingested VALUES (NULL, NULL, NULL, 0, ?)", [layout.fingerprint])
    rest, count = iter(events), 0
    while batch := list(islice(rest, BATCH_EVENTS)):
        count += insert(connection, batch, layout)
    connection.execute("COMMIT")
    return count


def heads(connection: Any) -> dict[str, Head]:
    """Return the last projected event of each workflow."""
    rows = connection.execute(_HEADS).fetchall()
    return {name: Head(seq=seq, event_id=event_id, events=count) for name, seq, event_id, count in rows}


def insert(connection: Any, batch: Sequence[Event], layout: Layout) -> int:
    """Add the events and the new heads of their workflows; the caller's transaction makes both true together."""
    if not batch:
        return 0
    rows = [_row(event) for event in batch]
    connection.execute(_INSERT, [list(column) for column in zip(*rows, strict=True)])
    last: dict[str, tuple[Event, int]] = {}
    for event in batch:
        before, count = last.get(event.workflow_id, (event, 0))
        last[event.workflow_id] = (event if event.seq >= before.seq else before, count + 1)
    connection.executemany(
        "INSERT INTO ingested VALUES (?, ?, ?, ?, ?)",
        [
            [_text(name), event.seq, _text(event.event_id), count, layout.fingerprint]
            for name, (event, count) in last.items()
        ],
    )
    return len(batch)


def _row(event: Event) -> tuple[Any, ...]:
    return (
        _text(event.event_id),
        _text(event.event_type),
        event.timestamp,
        _text(event.workflow_id),
        _text(event.run_id),
        None if event.activity_id is None else _text(event.activity_id),
        event.attempt,
        _text(event.kernel_id),
        event.epoch,
        event.seq,
        _json(_without_chunks(event.payload)),
        _json(event.metadata),
        _json(event.correlation),
        event.schema_version,
        _text(event.hash),
    )


def _without_chunks(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the bytes of the chunks that ride in the event: they are no history, and would be most of the file."""
    checkpoint = payload.get("checkpoint")
    if not isinstance(checkpoint, Mapping) or not isinstance(checkpoint.get("inline"), Mapping):
        return payload
    inline = checkpoint["inline"]
    chunks = inline.get("chunks")
    if not isinstance(chunks, Mapping):
        return payload
    described = {
        digest: {k: v for k, v in chunk.items() if k != "data"} if isinstance(chunk, Mapping) else chunk
        for digest, chunk in chunks.items()
    }
    return {**payload, "checkpoint": {**checkpoint, "inline": {**inline, "chunks": described}}}


def _json(value: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(dict(value), ensure_ascii=False, allow_nan=False)
    except ValueError:
        # NaN and infinities are no JSON; as strings they at least do not keep every later event out of the file.
        text = json.dumps(json.loads(json.dumps(dict(value)), parse_constant=str), ensure_ascii=False)
    return _text(text)


def _text(value: str) -> str:
    # A lone surrogate (a file name, half an emoji) is no UTF-8; one such character must not keep the batch out.
    return value.encode("utf-8", "replace").decode("utf-8")
