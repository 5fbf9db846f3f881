"""The narrow protocols the core needs from the world; implementations live at the edges, fakes in `testing/`.

Each method states one promise. Nothing here is imported for behaviour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from durable_nb.model import Event, EventDraft, Output, Owner

__all__ = ["Clock", "Files", "Journal", "Observer", "ReadsInto", "Shell", "TellsFolders", "WritableFile"]


class Clock(Protocol):
    """The only source of time."""

    def now_us(self) -> int:
        """Wall clock, microseconds since the epoch, UTC; may jump, also backwards."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...


class WritableFile(Protocol):
    """An open file that only grows."""

    def write(self, data: bytes | memoryview) -> None:
        """Append all of `data`, or raise OSError with an unknown part of it written."""
        ...

    def sync(self) -> None:
        """Return only when everything written is durable under the file's name, if that name itself is durable."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut to the first `size_bytes` bytes; later writes append there."""
        ...

    def close(self) -> None:
        """Release the handle; promises no durability."""
        ...


class Files(Protocol):
    """All that the store asks of a file system. Paths are relative to the repository root, with `/`."""

    def create(self, path: str) -> WritableFile:
        """Create a new file for writing and fail with FileExistsError if the name is taken; parents must exist."""
        ...

    def append(self, path: str) -> WritableFile:
        """Open an existing file so that writes go behind its last byte."""
        ...

    def read(self, path: str, offset: int = 0, size_bytes: int | None = None) -> bytes:
        """Return the bytes from `offset` (fewer at the end); FileNotFoundError if there is no such file."""
        ...

    def list(self, path: str) -> Sequence[tuple[str, int]]:
        """Return (name, size in bytes; -1 for a folder) of what is in a folder, sorted; empty if there is none."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Replace `target` atomically; durable only after `sync_folder` of the target's folder."""
        ...

    def remove(self, path: str) -> None:
        """Take a name away; FileNotFoundError if it is not there; durable only after `sync_folder`."""
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder (mode 0700) and its parents, durably; fine if it exists."""
        ...

    def sync_folder(self, path: str) -> None:
        """Return only when creations, renames and removals in this folder are durable."""
        ...


@runtime_checkable
class WritesTogether(Protocol):
    """What a file may offer beside `WritableFile`: many pieces in one go, which the system keeps in larger pages."""

    def write_together(self, parts: Sequence[bytes | memoryview]) -> None:
        """Append the pieces one after the other, completely; OSError with an unknown part of them appended."""
        ...


@runtime_checkable
class ReadsInto(Protocol):
    """What a file system may offer beside `Files`: reading without a copy."""

    def read_into(self, path: str, offset: int, parts: Sequence[bytearray | memoryview]) -> int:
        """Fill the parts one after the other with the bytes from `offset`; return how many there were."""
        ...


@runtime_checkable
class TellsFolders(Protocol):
    """What a file system may offer beside `Files`: looking at a folder without asking for the size of each file."""

    def names(self, path: str) -> Sequence[str]:
        """Return the names in a folder, in any order; empty if there is none."""
        ...

    def stamp(self, path: str) -> object:
        """Return what changes, sooner or later, when a name comes or goes; OSError if there is no such folder."""
        ...


@runtime_checkable
class MapsInto(Protocol):
    """What a file system may offer beside `Files`: files that never change in the place of memory, without a copy."""

    def map_into(self, path: str, offset: int, memory: memoryview, start: int, size_bytes: int) -> bool:
        """Let bytes of a file be those of `memory` from `start` on; False where that cannot be, and nothing is done.

        What is written there later stays in the process.
        """
        ...

    def fetch(self, mapped: memoryview) -> None:
        """Have mapped bytes read by now; OSError where the file does not give them."""
        ...


class Journal(Protocol):
    """The append-only list of events of one workflow, written by the holder of its lease."""

    @property
    def owner(self) -> Owner | None:
        """The lease this journal writes under; None when it was opened to read."""
        ...

    def append(self, drafts: Sequence[EventDraft]) -> list[Event]:
        """Make the events durable, in order and together, and return them; on OSError none of them is true."""
        ...

    def read(self, after_seq: int = 0) -> Iterator[Event]:
        """Yield the trusted events in order of `seq`, from the first one behind `after_seq`."""
        ...

    def close(self, *, release: bool = True) -> None:
        """Stop writing; with `release` give the lease back, else leave it to be taken over."""
        ...


class Observer(Protocol):
    """Sees every event after it is durable; must not raise and must not block."""

    def __call__(self, events: Sequence[Event]) -> None: ...


class Shell(Protocol):
    """What the engine needs of the interactive shell."""

    @property
    def namespace(self) -> dict[str, Any]:
        """The live `user_ns`, a plain dict."""
        ...

    def state(self) -> Mapping[str, Any]:
        """Return the execution count and the inputs new since the last call: {n: [raw, parsed]}, as JSON."""
        ...

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Bring execution count and input history back."""
        ...

    def cell_sources(self) -> Mapping[str, Any]:
        """Return the sources of cells compiled since the last call: {file name: [execution count, text]}."""
        ...

    def restore_sources(self, sources: Mapping[str, Any]) -> None:
        """Let tracebacks and `inspect` find the source of restored cells."""
        ...

    def transform(self, source: str) -> str:
        """Return a cell's body as plain Python, the way the shell would run it."""
        ...

    def outs(self) -> Mapping[int, object]:
        """Return a copy of `Out`."""
        ...

    def set_out(self, n: int, value: object, *, latest: bool = False) -> None:
        """Make `value` the result of cell `n`; with `latest` the newest one, `_`."""
        ...

    def gui_state(self) -> Mapping[str, Any]:
        """Return what is switched on beside the namespace (extensions, inline figures), as JSON."""
        ...

    def restore_gui_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Switch it on again; return a sentence for each thing that could not be."""
        ...

    def hidden(self) -> Mapping[str, Any]:
        """Return the names that the shell itself put into the namespace, with their values."""
        ...

    def emit(self, outputs: Sequence[Output]) -> None:
        """Send recorded outputs to the front end again, in order."""
        ...

    def say(self, line: str) -> None:
        """Show one line of ours to the person."""
        ...
