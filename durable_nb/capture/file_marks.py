"""What a file, or a folder's names, was like at a moment, and whether it is still the same (rule 6).

Called for the files that a cell read or changed, when it ends and when it is met again. Nothing is stored here.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["FULL_DIGEST_BYTES", "FileMark", "changed", "fingerprint", "made_again", "presence"]

FULL_DIGEST_BYTES: Final = 64 << 20
_SAMPLES: Final = 64
_EDGE_BYTES: Final = 1 << 20
_SAMPLE_BYTES: Final = 64 << 10
_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMark:
    """A file (or a folder whose names were listed, or a name that was not there) as a cell saw it.

    `digest` of a file is its SHA-256, with the prefix `sampled:` for files above 64 MiB, of which only the size,
    both ends and 64 pieces are read; of a folder that of its visible names; empty when there was nothing. With
    `presence_only` the cell has asked whether it is there, and what it holds does not matter.
    """

    path: str
    kind: Literal["file", "folder", "missing"]
    size_bytes: int = 0
    mtime_ns: int = 0
    digest: str = ""
    presence_only: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the mark as JSON values."""
        return {
            "path": self.path,
            "kind": self.kind,
            "size_bytes": self.size_bytes,
            "mtime_ns": str(self.mtime_ns),  # Nanoseconds since 1970 do not fit the 53 bits of a JSON number.
            "digest": self.digest,
            **({"presence_only": True} if self.presence_only else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FileMark:
        """Build the mark that `as_json` described."""
        return cls(
            path=value["path"],
            kind=value["kind"],
            size_bytes=value["size_bytes"],
            mtime_ns=int(value["mtime_ns"]),
            digest=value["digest"],
            presence_only=bool(value.get("presence_only")),
        )


def _digest(path: str, size_bytes: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as stream:
        if size_bytes <= FULL_DIGEST_BYTES:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
            return digest.hexdigest()
        digest.update(str(size_bytes).encode())
        step = (size_bytes - _EDGE_BYTES) // (_SAMPLES + 1)
        pieces = [(0, _EDGE_BYTES), (size_bytes - _EDGE_BYTES, _EDGE_BYTES)]
        pieces += [(step * (n + 1), _SAMPLE_BYTES) for n in range(_SAMPLES)]
        for offset, length in pieces:
            stream.seek(offset)
            digest.update(stream.read(length))
    return "sampled:" + digest.hexdigest()


def _names_digest(path: str) -> str:
    # Hidden names are the tools' own, such as our folder and Jupyter's checkpoints.
    names = sorted(n for n in os.listdir(path) if not n.startswith(".") and n != "__pycache__")
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def fingerprint(path: str, *, contents: bool = True) -> FileMark:
    """Return the mark of what is at `path` now; OSError when it is there and cannot be read.

    Without `contents` a file is not read and has no digest: it can only be known again by its size and time.
    """
    path = os.path.abspath(path)
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return FileMark(path=path, kind="missing")
    if stat.S_ISDIR(status.st_mode):
        return FileMark(path=path, kind="folder", digest=_names_digest(path))
    return FileMark(
        path=path,
        kind="file",
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        digest=_digest(path, status.st_size) if contents else "",
    )


def presence(path: str) -> FileMark:
    """Return the mark of whether something is at `path` now; OSError when that cannot be found out."""
    path = os.path.abspath(path)
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return FileMark(path=path, kind="missing")
    return FileMark(
        path=path,
        kind="folder" if stat.S_ISDIR(status.st_mode) else "file",
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        presence_only=True,
    )


def changed(mark: FileMark | Mapping[str, Any]) -> str | None:
    """Return in one sentence how a file differs from its mark (or the mark's JSON form), None if it is the same.

    The file is only read when its size is the same and its time of change is not.
    """
    if not isinstance(mark, FileMark):
        mark = FileMark.from_json(mark)
    try:
        status = os.stat(mark.path)
    except (FileNotFoundError, NotADirectoryError):
        return None if mark.kind == "missing" else f"{mark.path} is not there any more."
    except OSError as error:
        return f"{mark.path} cannot be looked at: {error.strerror}."
    if mark.kind == "missing":
        return f"{mark.path} was not there and is there now."
    if stat.S_ISDIR(status.st_mode) != (mark.kind == "folder"):
        return f"{mark.path} was a {mark.kind} and is none now."
    if mark.presence_only:
        return None
    try:
        if mark.kind == "folder":
            return None if _names_digest(mark.path) == mark.digest else f"{mark.path} holds other files now."
        if status.st_size != mark.size_bytes:
            return f"{mark.path} has {status.st_size} bytes instead of {mark.size_bytes}."
        if status.st_mtime_ns == mark.mtime_ns or (mark.digest and _digest(mark.path, status.st_size) == mark.digest):
            return None
    except OSError as error:
        return f"{mark.path} cannot be read: {error.strerror}."
    return f"{mark.path} has other contents now."


def made_again(path: str, since_us: int) -> str | None:
    """Return in one sentence that a file which a cell removed was made again after a moment, else None."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    # The time of the last change of any kind: what was copied here keeps its old time of writing.
    return f"it removes {path}, which has been made again." if status.st_ctime_ns // 1000 >= since_us else None
