"""Open a DuckDB file for a moment, wait for others a bounded time, and say what kind of trouble an error is.

Called by `Projection` alone. A connection is closed when its block ends: a process that has the file open for writing
shuts every other process out, readers included.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Locked", "NotWhole", "create_database", "kind_of_trouble", "open_database"]

log = logging.getLogger(__name__)

# Clients of DuckDB 1.5 and later can open what a later one writes in this layout.
STORAGE_VERSION = "v1.5.0"
# Small blocks: a batch is a few rows, and the default block of 256 KiB would be written anew for each of them.
BLOCK_BYTES = 16384
LONGEST_WAIT_S = 0.1


class Locked(Exception):
    """Another connection had the file open, through every try."""


class NotWhole(Exception):
    """The file is missing, damaged, of another layout, or says something that the journal does not."""


@contextmanager
def open_database(path: Path, *, read_only: bool, patience_s: float) -> Iterator[Any]:
    """Yield a connection to an existing file.

    Raises Locked when it stays in use for `patience_s`, NotWhole when it is missing or does not read, OSError when the
    disk refuses; what the block raises of DuckDB's errors is translated in the same way.
    """
    # Absent options matter: within one process DuckDB gives a file to two connections only if they agree on them.
    config = {} if read_only else {"threads": 1}
    with _closing(_connect(path, config, read_only, patience_s)) as connection:
        yield connection


@contextmanager
def create_database(path: Path) -> Iterator[Any]:
    """Yield a connection to a new file that clients from 1.5 on can open."""
    import duckdb

    config: dict[str, Any] = {"threads": 1, "default_block_size": BLOCK_BYTES}
    if int(duckdb.__version__.split(".")[0]) >= 2:
        config["storage_compatibility_version"] = STORAGE_VERSION
    try:
        connection = duckdb.connect(str(path), config=config)
    except duckdb.Error as error:
        raise kind_of_trouble(error) from error
    with _closing(connection):
        yield connection


def kind_of_trouble(error: Exception) -> Exception:
    """Tell apart what another connection does, what the disk does, and what is wrong with the file."""
    text = " ".join(str(error).split("\nLINE ")[0].split())[:300]
    lowered = text.lower()
    if any(sign in lowered for sign in ("could not set lock", "different configuration", "unique file handle")):
        return Locked(text)
    if any(
        sign in lowered for sign in ("no space left", "permission denied", "read-only file system", "out of memory")
    ):
        return OSError(text)
    return NotWhole(f"DuckDB says: {text}")


def _connect(path: Path, config: dict[str, Any], read_only: bool, patience_s: float) -> Any:
    import duckdb

    for delay_s in _delays(patience_s):
        # Opening for writing would make the file, and a killed maker would leave a part of one under the final name.
        if not path.exists():
            raise NotWhole("it is missing")
        try:
            return duckdb.connect(str(path), read_only=read_only, config=config)
        except duckdb.Error as error:
            trouble = kind_of_trouble(error)
            if not isinstance(trouble, Locked):
                raise trouble from error
        threading.Event().wait(delay_s)
    raise trouble


def _delays(patience_s: float) -> Iterator[float]:
    """Yield jittered waits, growing from milliseconds, that add up to `patience_s`; always at least one."""
    # A stream of its own: the user's seeded `random` must not notice us.
    stream = random.Random()
    waited_s, step_s = 0.0, 0.005
    while waited_s < patience_s:
        delay_s = step_s * (0.5 + stream.random())
        yield delay_s
        waited_s += delay_s
        step_s = min(step_s * 1.6, LONGEST_WAIT_S)
    yield 0.0


@contextmanager
def _closing(connection: Any) -> Iterator[Any]:
    import duckdb

    try:
        yield connection
    except duckdb.Error as error:
        raise kind_of_trouble(error) from error
    finally:
        try:
            connection.close()
        except duckdb.Error as error:
            # Closing moves the log into the file; if that failed, the next open replays the log or finds the damage.
            log.debug("closing a projection: %s", error)
