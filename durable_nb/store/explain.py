"""What a failing disk means to the person at the notebook: the operating system's errors in our words.

Called around everything in the store that a person asks for. Nothing here is durable.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from durable_nb.errors import CheckpointError, Integrity, RepositoryError

__all__ = ["not_saved", "reading", "writing"]


_ELSEWHERE = "Make it writable, or name a folder that is in DURABLE_NB_DIR before the kernel starts."
_NEXT = {errno.EROFS: _ELSEWHERE, errno.EACCES: _ELSEWHERE, errno.EPERM: _ELSEWHERE}


def not_saved(error: OSError) -> CheckpointError:
    """Say that a checkpoint was not made, and that nothing else was lost."""
    return CheckpointError(
        f"This checkpoint was not saved: {_reason(error)}. Your variables are untouched in memory, and every earlier "
        "checkpoint is as safe as before.",
        hint="Free some space or fix the disk; the next durable cell tries again.",
        errno=error.errno,
    )


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Turn an OSError into a RepositoryError that says that `what` failed and that everything stored is safe."""
    try:
        yield
    except OSError as error:
        raise RepositoryError(
            f"{what} failed: {_reason(error)}. Your variables are untouched in memory, and every checkpoint is as "
            "safe as before.",
            hint=_NEXT.get(error.errno or 0, "Free some space or fix the disk, and try again."),
            errno=error.errno,
        ) from error


@contextmanager
def reading(object_: str) -> Iterator[None]:
    """Turn an OSError into an Integrity error: an object that the disk does not give is as good as damaged."""
    try:
        yield
    except OSError as error:
        raise Integrity(
            f"{object_} cannot be read: {_reason(error)}. Nothing was changed.",
            hint="Try again; if it stays so, type `durable-nb verify` to see which checkpoints it takes with it.",
            object=object_,
            expected="",
            actual="",
            kind="damaged",
            errno=error.errno,
        ) from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
