"""Project the journal into one DuckDB file, bring it up to date, ask it, and make it again when it is not whole.

Called by the kernel's observers (`update_in_background`), by the SQL verbs (`query`) and by `doctor` (`notes`). The
journal is the only truth: nothing in the file is durable by promise, and nothing but answers depends on it.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from durable_nb.errors import UsageError
from durable_nb.model import Event
from durable_nb.ports import Files
from durable_nb.projection.background import Background
from durable_nb.projection.database import Locked, NotWhole, create_database, open_database
from durable_nb.projection.rows import Head, Layout, heads, insert, load
from durable_nb.projection.table import Table

__all__ = ["Projection"]

log = logging.getLogger(__name__)

NOTES_KEPT = 20

Params: TypeAlias = Sequence[Any] | Mapping[str, Any]

_WHOLE = """
SELECT (SELECT bool_and(layout = $1) FROM ingested),
       (SELECT count(*) FROM events) = (SELECT coalesce(sum(events), 0) FROM ingested)
"""


class Projection:
    """The file `path`, kept as a picture of all events that `source` yields.

    `source` returns every trusted event of every workflow of the folder, in order of `seq` within each. `files` is
    rooted at the folder of `path`. `patience_s` bounds how long one opening waits for another process to close the
    file; `quiet_s` is how long there must be no event before the background thread begins, so that it works while the
    person thinks and not beside their cells. Thread-safe; makes no thread and imports no DuckDB before it is needed.
    """

    def __init__(
        self,
        path: Path,
        *,
        source: Callable[[], Iterable[Event]],
        files: Files,
        patience_s: float = 2.0,
        quiet_s: float = 10.0,
    ) -> None:
        self._path = path
        self._source = source
        self._files = files
        self._patience_s = patience_s
        self._notes: deque[str] = deque(maxlen=NOTES_KEPT)
        self._lock = threading.RLock()
        self._layout: Layout | None = None
        self._background = Background(self._deliver, quiet_s=quiet_s)

    @property
    def notes(self) -> list[str]:
        """Sentences about what was found and done, oldest first, for `status` and `doctor`."""
        return list(self._notes)

    def ingest(self, events: Iterable[Event]) -> int:
        """Add those of `events` that are newer than what the file holds and return how many rows came in.

        Events that do not continue what is there are preceded by what the source has. Raises OSError when the file
        stays in use or cannot be written.
        """
        batch = sorted(events, key=lambda event: (event.workflow_id, event.seq))
        if not batch:
            return 0
        with self._lock, self._as_os_errors():
            try:
                added = self._append(batch, gapless=True)
                if added is not None:
                    return added
                before = self._catch_up()
            except NotWhole as error:
                before = self._make_again(error)
            return before + (self._append(batch) or 0)

    def refresh(self) -> int:
        """Read the journal and add what the file does not hold yet; return how many rows came in.

        Raises OSError when the file stays in use or cannot be written.
        """
        with self._lock, self._as_os_errors():
            try:
                return self._catch_up()
            except NotWhole as error:
                return self._make_again(error)

    def rebuild(self) -> int:
        """Make the file again from the journal, whatever is there, and return how many rows it holds."""
        with self._lock, self._as_os_errors():
            return self._make_again(None)

    def query(self, sql: str, params: Params = ()) -> Table:
        """Run one statement (or several: the last one's rows) on everything that the journal holds by now.

        Works as well when the file is missing, damaged, in use or cannot be written: then on a copy in memory. Raises
        UsageError with DuckDB's message in one line.
        """
        with self._lock:
            try:
                return self._query_file(sql, params)
            except (OSError, Locked, NotWhole) as error:
                if self._path.parent.is_dir():
                    self._note(f"{self._path.name} could not be used: {error}. The query was answered from memory.")
            return self._query_memory(sql, params)

    def update_in_background(self, events: Sequence[Event] | None = None) -> None:
        """Have `events` (None: whatever the journal holds) added by a thread soon; returns at once."""
        self._background.hand_over(events)

    def close(self, timeout_s: float = 5.0, *, load: bool = True) -> None:
        """Add what was handed over and end the background thread; waits at most `timeout_s`. Queries still work.

        With `load` off, DuckDB is not loaded for that: at the end of a kernel it would take longer than it is given,
        and the next query adds what is missing.
        """
        if not load and "duckdb" not in sys.modules:
            self._background.drop()
        self._background.close(timeout_s)

    def _deliver(self, events: Sequence[Event] | None) -> None:
        try:
            if events is None:
                self.refresh()
            else:
                self.ingest(events)
        except Exception as error:  # The kernel goes on whatever happens here, and the next query starts afresh.
            log.debug("the projection was not updated", exc_info=True)
            self._note(f"{self._path.name} was not brought up to date: {error}. The next query tries again.")

    # -- bringing the file up to date

    def _heads(self, connection: Any) -> dict[str, Head]:
        """Return up to where the file holds each workflow; NotWhole when it cannot be trusted to."""
        layout, complete = connection.execute(_WHOLE, [self._shape().fingerprint]).fetchone()
        if not layout:
            raise NotWhole("it was made by another version of durable_nb")
        if not complete:
            raise NotWhole("its number of rows is not what it should be")
        return heads(connection)

    def _catch_up(self) -> int:
        """Compare the file with the journal and append what is new; NotWhole when the file must be made again."""
        # The file is asked before the journal is read: whatever it held by then, the journal must hold as well.
        with self._open(read_only=True) as connection:
            known = self._heads(connection)
        counted = dict.fromkeys(known, 0)
        unseen = set(known)
        new: list[Event] = []
        for event in self._source():
            head = known.get(event.workflow_id)
            if head is None or event.seq > head.seq:
                new.append(event)
                continue
            counted[event.workflow_id] += 1
            if event.seq == head.seq and event.event_id == head.event_id:
                unseen.discard(event.workflow_id)
        if unseen or any(counted[name] != head.events for name, head in known.items()):
            raise NotWhole("it does not hold the same events as the journal")
        return (self._append(new) or 0) if new else 0

    def _append(self, batch: Sequence[Event], *, gapless: bool = False) -> int | None:
        """Add what is newer than the file; with `gapless` only if nothing is missing between (else None)."""
        with self._open(read_only=False) as connection:
            # Asked under the writer's lock: another process may have added the same events a moment ago.
            known = self._heads(connection)
            if gapless and not _continues(batch, known):
                return None
            new = [e for e in batch if e.workflow_id not in known or e.seq > known[e.workflow_id].seq]
            connection.execute("BEGIN")
            added = insert(connection, new, self._shape())
            connection.execute("COMMIT")
            return added

    def _make_again(self, why: NotWhole | None) -> int:
        """Write a new file beside the old one and rename it over that; the old one and its log are deleted."""
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self._path.parent}")
        existed = self._path.exists()
        self._sweep()
        # The name is this call's own, so that two processes that rebuild at once both end with a whole file.
        fresh = self._path.with_name(f"{self._path.name}.{random.Random().getrandbits(64):016x}.new")
        try:
            with create_database(fresh) as connection:
                count = load(connection, self._source(), self._shape())
            # The log of the old file would be replayed into the new one.
            self._remove(f"{self._path.name}.wal")
            self._files.rename(fresh.name, self._path.name)
        except BaseException:
            self._remove(fresh.name)
            self._remove(f"{fresh.name}.wal")
            raise
        if existed and why is not None:
            self._note(
                f"{self._path.name} could not be used ({why}), so it was deleted and made again from the journal with "
                f"{count} events. Nothing of the history is lost."
            )
        return count

    def _sweep(self) -> None:
        """Remove what killed rebuilds left behind; one that is being written is locked, and stays."""
        left = [name for name, _ in self._files.list(".") if name.startswith(f"{self._path.name}.")]
        for name in [name for name in left if name.endswith(".new")]:
            try:
                with open_database(self._path.with_name(name), read_only=True, patience_s=0.0):
                    usable = True
            except Locked:
                continue
            except (NotWhole, OSError):
                usable = False
            log.debug("removing a leftover of a rebuild: %s (readable: %s)", name, usable)
            self._remove(name)
            self._remove(f"{name}.wal")

    def _remove(self, name: str) -> None:
        try:
            self._files.remove(name)
        except FileNotFoundError:
            return

    # -- asking

    def _query_file(self, sql: str, params: Params) -> Table:
        """Answer from the file, made again once if it turns out not to be whole."""
        try:
            self._catch_up()
            return self._run(sql, params)
        except NotWhole as error:
            self._make_again(error)
        return self._run(sql, params)

    def _run(self, sql: str, params: Params) -> Table:
        import duckdb

        with self._open(read_only=True) as connection:
            try:
                return _table(connection, sql, params)
            except duckdb.Error as error:
                message = str(error)
        # Is the statement wrong, or the file? Reading all of it tells; only a statement that failed pays for that.
        self._check()
        raise _usage(message)

    def _query_memory(self, sql: str, params: Params) -> Table:
        import duckdb

        connection = duckdb.connect(":memory:")
        try:
            load(connection, self._source(), self._shape())
            try:
                return _table(connection, sql, params)
            except duckdb.Error as error:
                raise _usage(str(error)) from None
        finally:
            connection.close()

    def _check(self) -> None:
        """Read every row and look for every view; NotWhole when something is missing or does not read."""
        with self._open(read_only=True) as connection:
            self._heads(connection)
            connection.execute("SELECT bit_xor(hash(events)) FROM events").fetchall()
            found = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        lost = self._shape().views - {name for (name,) in found}
        if lost:
            raise NotWhole(f"views are missing in it: {', '.join(sorted(lost))}")

    # -- helpers

    def _open(self, *, read_only: bool) -> Any:
        return open_database(self._path, read_only=read_only, patience_s=self._patience_s)

    def _shape(self) -> Layout:
        if self._layout is None:
            self._layout = Layout.read()
        return self._layout

    def _note(self, sentence: str) -> None:
        if not self._notes or self._notes[-1] != sentence:
            self._notes.append(sentence)

    @contextmanager
    def _as_os_errors(self) -> Iterator[None]:
        """Let callers outside see OSError for what is wrong with the file, and none of the package's own signals."""
        try:
            yield
        except Locked as error:
            raise BlockingIOError(f"{self._path.name} is in use: {error}") from error
        except NotWhole as error:
            raise OSError(f"{self._path.name} cannot be used: {error}") from error


def _continues(batch: Sequence[Event], known: Mapping[str, Head]) -> bool:
    """Say whether each workflow's events follow on what the file holds, so that the journal need not be read."""
    expected = {workflow_id: head.seq + 1 for workflow_id, head in known.items()}
    for event in batch:
        following = expected.get(event.workflow_id, 1)
        if event.seq > following:
            return False
        expected[event.workflow_id] = max(following, event.seq + 1)
    return True


def _table(connection: Any, sql: str, params: Params) -> Table:
    # Otherwise a misspelt table name could find a variable of this module.
    connection.execute("SET python_enable_replacements = false")
    connection.execute(sql, params)
    described = connection.description or []
    rows = connection.fetchall() if described else []
    return Table(
        columns=tuple(column[0] for column in described),
        types=tuple(str(column[1]) for column in described),
        rows=tuple(tuple(row) for row in rows),
    )


def _usage(message: str) -> UsageError:
    """Say in one line what DuckDB says, without the excerpt of the statement and the list of candidates."""
    text = " ".join(message.split("\nLINE ")[0].split("\n\tCandidate")[0].split())
    return UsageError(
        f"The query did not run: {text}{'' if text.endswith(('.', '!', '?')) else '.'}",
        hint="`SHOW TABLES` lists what there is, `DESCRIBE runs` the columns.",
    )
