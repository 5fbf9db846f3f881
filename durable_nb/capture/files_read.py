"""Which files a cell reads and changes, seen by the interpreter's audit hook (rule 6).

Called by the engine around the body of a cell. Nothing is stored here; when the recording has ended, the marks describe
the files as they were at that moment.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from durable_nb.capture.access_modules import installed_folders
from durable_nb.capture.file_marks import FileMark, fingerprint
from durable_nb.capture.files_guard import FileGuard, FileRefused, is_exclusive, writes
from durable_nb.capture.files_left import Changes

__all__ = ["FileReads", "Recording", "loading"]

MAX_FILES: Final = 10_000

# Events after which something may have been read that no `open` event shows.
_UNSEEN: Final[Mapping[str, str]] = {
    "subprocess.Popen": "other program",
    "os.system": "shell command",
    "os.exec": "other program",
    "os.posix_spawn": "other program",
    "os.spawn": "other program",
    "os.startfile": "other program",
    "os.fork": "child process",
    "os.forkpty": "child process",
    "pty.spawn": "other program",
    "socket.connect": "network",
    "socket.getaddrinfo": "network",
    "urllib.Request": "network",
    "ctypes.dlopen": "C library loaded by ctypes",
    "sqlite3.connect": "sqlite3",
}
_LISTINGS: Final = frozenset({"os.listdir", "os.scandir"})
_REMOVALS: Final[Mapping[str, int]] = {"os.remove": 1, "os.rename": 2}  # which argument is the folder's descriptor
_IGNORED_PARTS: Final = (
    f"{os.sep}.durable{os.sep}",
    f"{os.sep}.ipynb_checkpoints{os.sep}",
    f"{os.sep}__pycache__{os.sep}",
)
_IGNORED_ENDS: Final = (".pyc", ".pyo", ".so", ".pyd", ".ttf", ".otf", ".afm", f"{os.sep}.durable")


_FOLDER_VARIABLES: Final = (
    "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"
)  # fmt: skip


def _ignored_folders() -> tuple[str, ...]:
    """Return the folders whose files belong to the installation and the tools, not to the user's data."""
    return _ignored(
        home=os.path.expanduser("~"),
        temp=tempfile.gettempdir(),
        current=_current_folder(),
        prefixes=(sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix),
        named=tuple(map(os.environ.get, _FOLDER_VARIABLES)),
    )


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # a cell has removed it; nothing lies in it
        return os.sep


@functools.lru_cache(maxsize=8)
def _ignored(
    *, home: str, temp: str, current: str, prefixes: tuple[str, ...], named: tuple[str | None, ...]
) -> tuple[str, ...]:
    """Do what `_ignored_folders` says; a cell that begins where the last one began costs no more joining of paths."""
    found = {*installed_folders(), "/proc/", "/dev/", "/sys/", "/etc/", "/usr/share/zoneinfo/", "/usr/share/fonts/"}
    found |= {"/usr/local/share/fonts/", "/var/cache/fontconfig/", os.path.join(temp, "ipykernel_")}
    for prefix in set(prefixes):
        # A project that lives inside the prefix (a prefix of `/usr`, an environment as project folder) keeps its files.
        inside = current.startswith(prefix.rstrip(os.sep) + os.sep)
        parts = (
            ("bin", "lib", "lib64", "include", "share", "etc", "Lib", "DLLs") if inside or prefix == os.sep else ("",)
        )
        found |= {os.path.join(prefix, part).rstrip(os.sep) + os.sep for part in parts}
    for relative in (
        ".ipython",
        ".jupyter",
        ".local/share/jupyter",
        ".local/share/fonts",
        ".fonts",
        ".config/matplotlib",
    ):
        found.add(os.path.join(home, relative) + os.sep)
    for relative in (
        ".cache/matplotlib",
        ".cache/fontconfig",
        ".config/fontconfig",
        "Library/Jupyter",
        "Library/Fonts",
    ):
        found.add(os.path.join(home, relative) + os.sep)
    for folder in filter(None, named):
        found.add(os.path.abspath(os.path.join(current, folder)).rstrip(os.sep) + os.sep)
    site = sysconfig.get_config_var("userbase")
    if isinstance(site, str):
        found.add(os.path.join(site, "lib") + os.sep)
    return tuple(sorted(found))


class Recording:
    """What happened while a recording was active; complete once the recording has ended."""

    EVENTS: Final = frozenset({"open", *_UNSEEN, *_LISTINGS, *_REMOVALS, *Changes.EVENTS})

    def __init__(self, ignored: tuple[str, ...]) -> None:
        self._ignored = ignored
        self._read: dict[str, tuple[int, int] | None] = {}
        self._listed: set[str] = set()
        self._written: set[str] = set()
        self._over: set[str] = set()
        self._fresh: set[str] = set()
        self._removed: set[str] = set()
        self._unknown: set[str] = set()
        self._marks: tuple[FileMark, ...] = ()
        self._changes = Changes(self.path_of)

    @property
    def reads(self) -> tuple[FileMark, ...]:
        """The files that were read and not written, as they are at the end, sorted by path."""
        return self._marks

    @property
    def written(self) -> tuple[str, ...]:
        """The absolute paths of the files that were opened for writing, sorted."""
        return tuple(sorted(self._written))

    @property
    def touched(self) -> tuple[str, ...]:
        """What running the cell again would change: files that it wrote and left, and those that it removed."""
        left = {path for path in self._over if os.path.lexists(path) and not os.path.isdir(path)}
        return tuple(sorted(left.union(set(self.removed) - self._fresh)))

    @property
    def removed(self) -> tuple[str, ...]:
        """The absolute paths of the files that were removed or renamed and are gone, sorted."""
        return tuple(sorted(path for path in self._removed if not os.path.lexists(path)))

    def left(self, known: Container[str]) -> list[dict[str, Any]]:
        """Return how the cell left the files that it changed, and folders of `known` that it changed the names in.

        `known` are the paths that cells have read: theirs come first where there are too many.
        """
        return self._changes.left(known)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Why there may be inputs that are not in `reads`, sorted."""
        return tuple(sorted(self._unknown))

    def event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take one audit event; called in whatever thread caused it."""
        if event in Changes.EVENTS:
            self._changes.event(event, arguments)
        if event == "open":
            self._opened(*arguments[:3])
        elif event in _LISTINGS:
            self._list(arguments[0])
        elif event in _REMOVALS:
            # A name inside an open folder (shutil.rmtree) is not looked up.
            if arguments[_REMOVALS[event]] == -1 and (path := self.path_of(arguments[0])) is not None:
                self._removed.add(path)
        elif event == "sqlite3.connect" and arguments[0] == ":memory:":
            return
        elif event in _UNSEEN:
            self._unknown.add(_UNSEEN[event])

    def failed(self, error: Exception) -> None:
        """Note that an event could not be understood, which makes the inputs unknown."""
        self._unknown.add(f"a file access could not be followed ({type(error).__name__}: {error})")

    def path_of(self, path: Any) -> str | None:
        """Return the absolute path of a file of the user's, None for those of the installation and of tools."""
        if isinstance(path, int) or path is None:
            return None
        found = os.path.abspath(os.fsdecode(path))
        if found.startswith(self._ignored) or found.endswith(_IGNORED_ENDS):
            return None
        return None if any(part in found for part in _IGNORED_PARTS) else found

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        found = self.path_of(path)
        if found is None:
            return
        flags = flags if isinstance(flags, int) else 0
        keeps = bool(flags & os.O_RDWR) and not flags & os.O_TRUNC
        if writes(mode, flags):
            self._changes.note(found, keeps=not flags & os.O_TRUNC, appends=bool(flags & os.O_APPEND))
            if is_exclusive(mode, flags) or not os.path.lexists(found):
                self._fresh.add(found)
            if not is_exclusive(mode, flags):
                self._over.add(found)
            if found in self._read or (keeps and found not in self._written and os.path.isfile(found)):
                # What it held before is input, and is gone.
                self._unknown.add(f"{found} was read and then changed")
            self._written.add(found)
            return
        if found in self._written or found in self._read:
            return
        if len(self._read) >= MAX_FILES:
            self._unknown.add(f"more than {MAX_FILES} files")
            return
        try:
            status = os.stat(found)
        except OSError:
            self._read[found] = None
            return
        if stat.S_ISREG(status.st_mode):
            self._read[found] = (status.st_size, status.st_mtime_ns)
        elif not stat.S_ISDIR(status.st_mode):
            self._unknown.add(f"{found} is no regular file")

    def _list(self, path: Any) -> None:
        if isinstance(path, int):
            self._unknown.add("a folder listed by its descriptor")
            return
        found = self.path_of("." if path is None else path)
        if found is not None:
            self._listed.add(found)

    def finish(self) -> None:
        """Fingerprint what was read and not written."""
        marks = []
        for path, before in list(self._read.items()):
            if path in self._written:
                continue
            try:
                mark = fingerprint(path)
            except OSError as error:
                self._unknown.add(f"{path} cannot be read any more ({error.strerror})")
                continue
            if before is not None and before != (mark.size_bytes, mark.mtime_ns):
                self._unknown.add(f"{path} changed while the cell ran")
            marks.append(mark)
        for path in self._listed - {m.path for m in marks}:
            try:
                marks.append(fingerprint(path))
            except OSError as error:
                self._unknown.add(f"{path} cannot be listed any more ({error.strerror})")
        self._marks = tuple(sorted(marks, key=lambda m: m.path))


class _Slot:
    """What the hook, which stays for the life of the process, looks at."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active: tuple[Recording | FileGuard, ...] = ()


def _is_import_system(depth: int) -> bool:
    """Tell whether the import system lists a folder: what it looks for there are modules, not data."""
    name = sys._getframe(depth).f_code.co_filename
    return "importlib" in name and ("<frozen" in name or name.startswith(installed_folders()))


def _hook(slot: _Slot) -> Callable[[str, tuple[Any, ...]], None]:
    # Each `id` of anybody's comes by here: what nobody listens to has to be gone at once.
    heard = Recording.EVENTS | FileGuard.EVENTS

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in heard:
            return
        for seen in slot.active:
            if event not in seen.EVENTS:
                continue
            try:
                if event not in _LISTINGS or not _is_import_system(2):
                    seen.event(event, arguments)
            except FileRefused:
                raise
            except Exception as error:  # An error here would break the user's own call.
                seen.failed(error)

    return hook


@functools.cache
def _slot() -> _Slot:
    """Install the hook, once per process because it cannot be removed; it is inert while nothing is recorded."""
    slot = _Slot()
    sys.addaudithook(_hook(slot))
    return slot


@contextmanager
def _listening(guard: FileGuard) -> Iterator[None]:
    slot = _slot()
    slot.active = (*slot.active, guard)
    try:
        yield
    finally:
        slot.active = tuple(s for s in slot.active if s is not guard)


def loading() -> AbstractContextManager[None]:
    """Return a block in which this thread loads values, and may change no file of the user's by that."""
    says = "loading it would write, remove or rename {path}, which is there"
    return _listening(FileGuard(Recording(_ignored_folders()).path_of, says=says, loads=True))


class FileReads:
    """Records the file accesses of all threads of this process, as often as asked."""

    def __init__(self, own: Sequence[str] = ()) -> None:
        """`own` are folders of ours, whose files are nobody's input, like those of this package."""
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        self._own = tuple(os.path.abspath(folder).rstrip(os.sep) + os.sep for folder in (package, *own))

    @contextmanager
    def recording(self) -> Iterator[Recording]:
        """Record until the block ends; what it yields is complete afterwards. Recordings may overlap."""
        seen, slot = Recording((*_ignored_folders(), *self._own)), _slot()
        slot.active = (*slot.active, seen)
        try:
            yield seen
        finally:
            slot.active = tuple(s for s in slot.active if s is not seen)
            seen.finish()

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Until the block ends, let this thread change no file of the user's that is there."""
        with _listening(FileGuard(Recording((*_ignored_folders(), *self._own)).path_of)):
            yield
