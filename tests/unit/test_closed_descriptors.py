"""Descriptors of ours that the notebook's code has closed: what it opens next under their numbers is left alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from durable_nb.store.files import LocalFiles, LocalSpace


def reopened(descriptor: int, path: Path) -> int:
    """Close a descriptor as code does that closes all, and open a file of the user's under its number."""
    mine = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(mine, descriptor)
    os.close(mine)
    os.write(descriptor, b"mine")
    return descriptor


def test_a_file_of_the_users_is_neither_written_nor_cut_nor_closed(tmp_path: Path) -> None:
    """Writing, syncing and cutting raise OSError, closing does nothing, and the user's file stays as it was."""
    file = LocalFiles(tmp_path).create("log")
    descriptor = reopened(next(fd for fd in open_now() if leads_to(fd, tmp_path / "log")), tmp_path / "mine.txt")
    together: Any = file
    for action in (
        lambda: file.write(b"x"),
        lambda: together.write_together([b"x"]),
        file.sync,
        lambda: file.truncate(0),
    ):
        with pytest.raises(OSError, match="closed by other code"):
            action()
    file.close()
    os.write(descriptor, b" still")
    os.close(descriptor)
    assert (tmp_path / "mine.txt").read_bytes() == b"mine still"
    assert (tmp_path / "log").read_bytes() == b""


def test_an_arena_that_is_another_file_by_now(tmp_path: Path) -> None:
    """What is handed over is not written into it."""
    space: LocalSpace = LocalFiles(tmp_path).space("arena")
    descriptor = reopened(next(fd for fd in open_now() if leads_to(fd, tmp_path / "arena")), tmp_path / "mine.txt")
    with pytest.raises(OSError, match="closed by other code"):
        space.write_at(0, b"x")
    space.close()
    os.close(descriptor)
    assert (tmp_path / "mine.txt").read_bytes() == b"mine"


def open_now() -> list[int]:
    """Return the descriptors that are open."""
    found = []
    for fd in range(3, 1024):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
    return found


def leads_to(fd: int, path: Path) -> bool:
    """Tell whether a descriptor is of a file."""
    return os.path.samestat(os.fstat(fd), path.stat())
