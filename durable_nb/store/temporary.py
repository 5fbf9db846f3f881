"""Files that appear whole or not at all: written under `tmp/`, synced, renamed into place.

Called by packs, manifests and the repository's own files. When `write_durably` has returned, the file and its name
are durable; whatever happens before leaves at most a leftover under `tmp/`, which `gc` removes.
"""

from __future__ import annotations

from durable_nb.ports import Files, WritableFile

__all__ = ["TMP", "create_temporary", "remove_temporary", "write_durably"]

TMP = "tmp"
_MOST_LEFTOVERS = 10_000


def write_durably(files: Files, path: str, content: bytes) -> None:
    """Give `path` this content, atomically and durably; its folder must exist."""
    temporary, file = create_temporary(files, path.rpartition(".")[2])
    try:
        try:
            file.write(content)
            file.sync()
        finally:
            file.close()
        files.rename(temporary, path)
    except BaseException:
        remove_temporary(files, temporary)
        raise
    files.sync_folder(path.rpartition("/")[0])


def create_temporary(files: Files, suffix: str) -> tuple[str, WritableFile]:
    """Create a file under `tmp/` with a name that nobody has."""
    for n in range(1, _MOST_LEFTOVERS):
        path = f"{TMP}/{n}.{suffix}"
        try:
            return path, files.create(path)
        except FileExistsError:
            continue  # A leftover of a killed writer, or another kernel's file in the making.
    raise FileExistsError(f"{TMP}/ is full of leftovers of killed kernels; `durable-nb gc` removes them")


def remove_temporary(files: Files, path: str) -> None:
    """Remove a temporary file if it is still there; a failure is left to gc."""
    try:
        files.remove(path)
    except OSError:
        # The write that failed is being reported; a second failure must not take its place, and the file is garbage.
        return
