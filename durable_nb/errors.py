"""The exception tree: what a caller can handle, each with a stable machine code and a hint of what to type next.

    DurableError(Exception)          code: ErrorCode (append-only), hint: str
    ├── UsageError(ValueError)       a wrong magic line, option or setting; the cell does not run
    ├── RepositoryError
    │   ├── RepositoryNotFound
    │   ├── UnknownName              no checkpoint, or no variable, of that name
    │   ├── FormatVersion            written by a newer durable_nb
    │   ├── LeaseHeld                another live kernel writes to this workflow
    │   ├── StaleEpoch               this kernel lost its lease; it may no longer write
    │   ├── Untrusted                not signed with this user's key
    │   └── Integrity                an object is missing or damaged
    ├── CaptureError                 names, paths and reasons
    ├── CheckpointError              the attempt finished, the commit did not; __cause__ is the OSError
    ├── RestoreError
    └── NonRetryable                 for user code
    ActivityCanceled(BaseException)  control flow; user code must not swallow it

Bottom of the dependency chain: imports the standard library only. Every error pickles.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

__all__ = [
    "TRUSTING",
    "UNSIGNED",
    "ActivityCanceled",
    "CaptureError",
    "CheckpointError",
    "DurableError",
    "ErrorCode",
    "FormatVersion",
    "Integrity",
    "LeaseHeld",
    "NonRetryable",
    "RepositoryError",
    "RepositoryNotFound",
    "RestoreError",
    "StaleEpoch",
    "UnknownName",
    "Untrusted",
    "UsageError",
]


class ErrorCode(StrEnum):
    """Stable codes: scripts compare them, so members are only ever added."""

    INTERNAL = "internal"
    USAGE = "usage"
    REPOSITORY = "repository"
    REPOSITORY_NOT_FOUND = "repository_not_found"
    FORMAT_VERSION = "format_version"
    LEASE_HELD = "lease_held"
    STALE_EPOCH = "stale_epoch"
    UNTRUSTED = "untrusted"
    INTEGRITY = "integrity"
    CAPTURE = "capture"
    CHECKPOINT = "checkpoint"
    RESTORE = "restore"
    NON_RETRYABLE = "non_retryable"
    UNKNOWN_NAME = "unknown_name"


class DurableError(Exception):
    """Anything durable_nb raises on purpose; `str(error)` is one sentence, `hint` says what to type next."""

    code: ErrorCode = ErrorCode.INTERNAL

    def __init__(self, message: str = "", *, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, Any] = details

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors are recorded and sent between processes; the default reduce would drop the keyword arguments.
        return (_rebuild, (type(self), self.message, self.hint, self.details))


def _rebuild(cls: type[DurableError], message: str, hint: str, details: dict[str, Any]) -> DurableError:
    return cls(message, hint=hint, **details)


class UsageError(DurableError, ValueError):
    """A wrong magic line, option or setting; nothing ran and nothing changed."""

    code = ErrorCode.USAGE


class RepositoryError(DurableError):
    """The store cannot do what was asked."""

    code = ErrorCode.REPOSITORY


class RepositoryNotFound(RepositoryError):
    """There is no `.durable` folder (or no such workflow, or nothing saved, in it)."""

    code = ErrorCode.REPOSITORY_NOT_FOUND


class UnknownName(RepositoryError):
    """The history is there, but no checkpoint or variable of the name that was typed; nothing changed."""

    code = ErrorCode.UNKNOWN_NAME


class FormatVersion(RepositoryError):
    """The repository was written by a newer durable_nb; nothing was changed."""

    code = ErrorCode.FORMAT_VERSION


class LeaseHeld(RepositoryError):
    """Another live process writes to this workflow; details: pid, host, since (µs UTC), kernel_id."""

    code = ErrorCode.LEASE_HELD


class StaleEpoch(RepositoryError):
    """A newer kernel took the lease over; this one must not write any more."""

    code = ErrorCode.STALE_EPOCH


UNSIGNED = (
    "it is not signed with your key; `durable-nb trust` accepts it"  # in a table, where there is no room for more
)
# Where the folder is known, its path takes the place of FOLDER.
TRUSTING = (
    "If you trust who wrote it, run `durable-nb trust FOLDER` once (in a notebook with `!` before it), then load it "
    "again."
)


class Untrusted(RepositoryError):
    """An object carries no signature of this user's key; nothing in it was executed."""

    code = ErrorCode.UNTRUSTED


class Integrity(RepositoryError):
    """An object is missing or damaged; details: object, expected, actual."""

    code = ErrorCode.INTEGRITY


class CaptureError(DurableError):
    """Values that cannot be stored; details: unsaved (list of name, path, type, reason)."""

    code = ErrorCode.CAPTURE


class CheckpointError(DurableError):
    """The cell finished and its result is in memory, but saving it failed; __cause__ says why."""

    code = ErrorCode.CHECKPOINT


class RestoreError(DurableError):
    """A checkpoint could not be brought back; the live namespace is as it was."""

    code = ErrorCode.RESTORE


class NonRetryable(DurableError):
    """Raise it in a cell to say that another attempt cannot help."""

    code = ErrorCode.NON_RETRYABLE


class ActivityCanceled(BaseException):
    """The run was canceled; a BaseException so that `except Exception` in user code lets it pass."""
