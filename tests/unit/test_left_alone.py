"""What loading a copy aside does to files, databases, programs and descriptors: nothing."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durable_nb.capture.left_alone import leave_alone

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here, so nothing is loaded aside")


def in_child(action: Callable[[], Any], own: Path) -> str:
    """Run an action in a child that may change nothing; return what it raised, or its result in words."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            leave_alone(str(own), [write])
            try:
                said = repr(action())
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(write, said.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        said = stream.read()
    os.waitpid(pid, 0)
    return said


def truncated(path: Path) -> None:
    """Cut a file that was opened without emptying it."""
    with open(path, "r+") as file:
        file.truncate(0)


def truncated_low(path: Path) -> None:
    """Do so by its descriptor."""
    fd = os.open(path, os.O_RDWR)
    os.ftruncate(fd, 0)


def through_a_map(path: Path) -> None:
    """Write through a memory map."""
    import mmap

    with open(path, "r+b") as file:
        mmap.mmap(file.fileno(), 0)[:4] = b"lost"


def through_numpy(path: Path) -> None:
    """Write through an array on a memory map."""
    import numpy

    numpy.memmap(path, dtype="u1", mode="r+")[:4] = 0


def through_a_link(path: Path, link: Callable[[Path, str], None] = os.symlink) -> None:
    """Write through a link in a folder of one's own."""
    import tempfile

    name = tempfile.mkdtemp() + "/link"
    link(path, name)
    with open(name, "w") as file:
        file.write("fresh")


def through_a_linked_folder(path: Path) -> None:
    """Remove a file by way of a linked folder."""
    import tempfile

    folder = tempfile.mkdtemp()
    os.symlink(path.parent, folder + "/up")
    os.remove(f"{folder}/up/{path.name}")


def through_a_hard_link(path: Path) -> None:
    """Write through another name of the file."""
    through_a_link(path, os.link)


def from_its_folder(path: Path) -> None:
    """Empty a file by the descriptor of its folder, from a folder of one's own."""
    import tempfile

    folder = os.open(path.parent, os.O_RDONLY)
    os.chdir(tempfile.mkdtemp())
    os.open(path.name, os.O_WRONLY | os.O_TRUNC, dir_fd=folder)


def in_a_thread(path: Path) -> None:
    """Write in another thread."""
    import threading

    thread = threading.Thread(target=path.write_text, args=("fresh",))
    thread.start()
    thread.join()


def replaced(path: Path) -> None:
    """Put another file in its place."""
    (path.parent / "new").write_text("new")
    os.replace(path.parent / "new", path)


CHANGES: list[Callable[[Path], Any]] = [
    truncated, truncated_low, through_a_map, through_numpy, through_a_link, through_a_linked_folder,
    through_a_hard_link, from_its_folder, in_a_thread, replaced, os.remove, lambda path: os.chmod(path, 0),
    lambda path: os.utime(path, (0, 0)), lambda path: path.open("a").write("more"),
    lambda path: os.rename(path, path.parent / "other"), lambda path: os.truncate(path, 0),
    lambda path: os.system(f"{sys.executable} -c \"open({str(path)!r}, 'w')\""),
    lambda path: os.mkdir(path.parent / "folder"), lambda path: (path.parent / "beside").touch(),
    lambda path: os.symlink(path, path.parent / "link"),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_files_and_folders_are_as_they_were(tmp_path: Path, change: Callable[[Path], Any]) -> None:
    """Whatever is tried, content, mode, times and neighbours stay."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = folder / "data.txt"
    path.write_text("precious")
    path.chmod(0o640)
    before = path.stat()
    in_child(lambda: change(path), tmp_path / "own")
    assert [p.name for p in folder.iterdir()] == ["data.txt"]
    assert path.read_text() == "precious"
    after = path.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ino) == (before.st_mode, before.st_mtime_ns, before.st_ino)


def test_descriptors_of_the_kernel_are_not_written_to(tmp_path: Path) -> None:
    """A log that the kernel has open gets no line from a copy."""
    path = tmp_path / "log.txt"
    with path.open("w") as log:
        log.write("begun\n")
        log.flush()

        def more() -> None:
            log.write("loaded\n")
            log.flush()

        in_child(more, tmp_path / "own")
        log.write("ended\n")
    assert path.read_text() == "begun\nended\n"


def test_databases_are_read_and_not_written(tmp_path: Path) -> None:
    """A copy may connect to a database and read; it adds no row and makes no file."""
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (x)")
        connection.execute("insert into t values (1)")
    connection.close()

    def count() -> Any:
        return sqlite3.connect(path).execute("select count(*) from t").fetchall()

    def insert() -> None:
        with sqlite3.connect(path) as there:
            there.execute("insert into t values (2)")

    assert in_child(count, tmp_path / "own") == "[(1,)]"
    assert "readonly" in in_child(insert, tmp_path / "own")
    made = in_child(lambda: sqlite3.connect(tmp_path / "new.db").execute("select 1"), tmp_path / "own")
    assert "unable to open" in made
    assert not (tmp_path / "new.db").exists()
    assert count() == [(1,)]


def test_hdf5_files_are_read_and_not_written(tmp_path: Path) -> None:
    """So it is with HDF5 files, which are opened in C."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["x"] = 1
    content = path.read_bytes()

    def add() -> None:
        h5py.File(path, "r+")["y"] = 2

    assert in_child(lambda: h5py.File(path, "r")["x"][()], tmp_path / "own").endswith("1)")
    assert in_child(add, tmp_path / "own") != "None"
    assert in_child(lambda: h5py.File(path, "w"), tmp_path / "own") != "None"
    assert path.read_bytes() == content


def test_files_are_opened_mapped_and_made_for_oneself(tmp_path: Path) -> None:
    """What changes nothing of anybody's works: reading, private maps, temporary files."""
    import numpy

    path = tmp_path / "numbers"
    numpy.arange(4, dtype="i8").tofile(path)

    def use() -> Any:
        import tempfile

        with open(path, "r+b") as file:
            first = file.read(1)
        numbers = numpy.memmap(path, dtype="i8", mode="r+")
        numbers[0] = 7
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("mine")
            file.seek(0)
            mine = file.read()
        folder = tempfile.mkdtemp()
        with open(os.path.join(folder, "x"), "w") as file:
            file.write("y")
        os.remove(os.path.join(folder, "x"))
        os.rmdir(folder)
        return first, numbers.tolist(), mine

    assert in_child(use, tmp_path / "own") == "(b'\\x00', [7, 1, 2, 3], 'mine')"
    assert numpy.fromfile(path, dtype="i8").tolist() == [0, 1, 2, 3]
