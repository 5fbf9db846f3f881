"""`ports.Files` keeps its promises on the local disk and on the simulated one."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from durable_nb.errors import UsageError
from durable_nb.ports import Files
from durable_nb.store.files import LocalFiles
from durable_nb.testing.simfiles import SimFiles


@pytest.fixture(params=["local", "simulated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """Return an empty root of each kind."""
    made: Files = LocalFiles(tmp_path / "root") if request.param == "local" else SimFiles()
    made.make_folder("")
    return made


def put(files: Files, path: str, content: bytes) -> None:
    """Create a file with this content."""
    file = files.create(path)
    file.write(content)
    file.sync()
    file.close()


def test_what_is_written_is_read(files: Files) -> None:
    """Bytes come back whole, from an offset, and fewer at the end."""
    put(files, "a", b"0123456789")
    assert files.read("a") == b"0123456789"
    assert files.read("a", 3, 3) == b"345"
    assert files.read("a", 8, 100) == b"89"
    assert files.read("a", 8) == b"89"
    assert files.read("a", 100, 5) == b""


def test_a_memoryview_of_any_shape_is_written_as_its_bytes(files: Files) -> None:
    """A memoryview is written byte by byte, whatever its items are."""
    file = files.create("a")
    file.write(memoryview(bytearray(b"\x01\x00\x02\x00")).cast("H"))
    file.write(b"")
    file.close()
    assert files.read("a") == b"\x01\x00\x02\x00"


def test_create_refuses_a_name_that_is_taken(files: Files) -> None:
    """create raises FileExistsError and leaves the file as it is."""
    put(files, "a", b"old")
    with pytest.raises(FileExistsError):
        files.create("a")
    assert files.read("a") == b"old"


def test_create_needs_the_folder(files: Files) -> None:
    """create raises FileNotFoundError when the parent is not there."""
    with pytest.raises(FileNotFoundError):
        files.create("none/a")


def test_append_goes_behind_the_last_byte(files: Files) -> None:
    """append continues a file, also after a truncate, and needs the file to be there."""
    put(files, "a", b"0123")
    file = files.append("a")
    file.write(b"45")
    file.truncate(3)
    file.write(b"XY")
    file.close()
    assert files.read("a") == b"012XY"
    with pytest.raises(FileNotFoundError):
        files.append("b")


def test_missing_files_raise_file_not_found(files: Files) -> None:
    """read, remove and rename say that a name is not there."""
    for step in (lambda: files.read("a"), lambda: files.remove("a"), lambda: files.rename("a", "b")):
        with pytest.raises(FileNotFoundError):
            step()


def test_list_names_files_with_sizes_and_folders(files: Files) -> None:
    """list is sorted, gives -1 for folders and nothing for a folder that is not there."""
    files.make_folder("d/e")
    put(files, "d/b", b"12")
    put(files, "d/a", b"1")
    assert list(files.list("d")) == [("a", 1), ("b", 2), ("e", -1)]
    assert list(files.list("")) == [("d", -1)]
    assert list(files.list("none")) == []


def test_rename_replaces_the_target(files: Files) -> None:
    """rename moves a file over another one."""
    put(files, "a", b"new")
    put(files, "b", b"old")
    files.rename("a", "b")
    files.sync_folder("")
    assert list(files.list("")) == [("b", 3)]
    assert files.read("b") == b"new"


def test_remove_takes_a_name_away(files: Files) -> None:
    """remove makes a file disappear."""
    put(files, "a", b"1")
    files.remove("a")
    files.sync_folder("")
    assert list(files.list("")) == []


def test_make_folder_is_fine_when_it_exists(files: Files) -> None:
    """make_folder may be called again, and not where a file is."""
    files.make_folder("d/e")
    files.make_folder("d/e")
    files.sync_folder("d/e")
    put(files, "a", b"1")
    with pytest.raises(FileExistsError):
        files.make_folder("a")


@pytest.mark.parametrize("path", ["../a", "/a", "d/../../a", "d//a", "./a", "d\\a", "a\0b", "C:a", "d/"])
def test_paths_that_lead_out_are_refused(files: Files, path: str) -> None:
    """No method accepts a path that could lead out of the root."""
    with pytest.raises(UsageError):
        files.create(path)
    with pytest.raises(UsageError):
        files.read(path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no mode bits")
def test_local_folders_are_0700_and_files_0600(tmp_path: Path) -> None:
    """Nobody else can read what is stored, whatever the umask."""
    before = os.umask(0)
    try:
        files = LocalFiles(tmp_path / "root")
        files.make_folder("d/e")
        put(files, "d/e/a", b"1")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / p).stat().st_mode) for p in ("root", "root/d", "root/d/e", "root/d/e/a")]
    assert modes == [0o700, 0o700, 0o700, 0o600]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="checks the calls that Linux gets")
def test_local_sync_reaches_the_operating_system_and_tolerates_only_einval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File and folder syncs are passed on; a folder sync may answer EINVAL, and no other error is swallowed."""
    files = LocalFiles(tmp_path)
    calls: list[str] = []
    answer = errno.EINVAL

    def fsync(descriptor: int) -> None:
        calls.append("fsync")
        raise OSError(answer, os.strerror(answer))

    def fdatasync(descriptor: int) -> None:
        calls.append("fdatasync")
        raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    files.sync_folder("")
    answer = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        files.sync_folder("")
    file = files.create("a")
    with pytest.raises(OSError, match="no"):
        file.sync()
    file.close()
    assert calls == ["fsync", "fsync", "fdatasync"]


def survivors(files: SimFiles, path: str, tries: int = 60) -> set[bytes | None]:
    """Return what a file may hold after a power cut, None where its name is gone."""
    return {files.copy_before_crash(seed).snapshot().get(path) for seed in range(tries)}


def test_simulated_unsynced_data_is_lost_torn_or_kept_and_synced_data_never_changes() -> None:
    """After a crash the synced prefix is there, and behind it any part of the rest."""
    files = SimFiles()
    file = files.create("a")
    files.sync_folder("")
    file.write(b"synced")
    file.sync()
    file.write(b"unsynced")
    found = survivors(files, "a")
    assert {b"synced", b"syncedunsynced"} <= found
    assert len(found) > 4
    assert all(content is not None and content.startswith(b"synced") for content in found)


def test_simulated_names_are_lost_without_a_folder_sync() -> None:
    """A created, renamed or removed name may be as before; after sync_folder it is as it is now."""
    files = SimFiles()
    put(files, "a", b"1")
    assert {None, b"1"} == survivors(files, "a")
    files.sync_folder("")
    files.make_folder("d")
    files.rename("a", "d/b")
    assert {None, b"1"} == survivors(files, "a")
    for seed in range(60):
        assert files.copy_before_crash(seed).snapshot(), "a renamed file is at neither place"
    files.sync_folder("d")
    assert {b"1"} == survivors(files, "d/b")
    files.sync_folder("")
    assert {None} == survivors(files, "a")


def test_simulated_failing_sync_drops_what_a_later_sync_does_not_save() -> None:
    """As on Linux, a second sync after a failed one returns without the dropped data being durable."""
    files = SimFiles()
    file = files.create("a")
    files.sync_folder("")
    file.write(b"dropped")
    files.fail_at(1, OSError(errno.EIO, "I/O error"))
    with pytest.raises(OSError, match="I/O"):
        file.sync()
    file.sync()
    assert {bytes(7)} == survivors(files, "a")
    file.truncate(0)
    file.write(b"again")
    file.sync()
    assert {b"again"} == survivors(files, "a")
