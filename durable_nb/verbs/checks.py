"""What `doctor` looks at: this machine, the key, the folder, and the store. Changes nothing but a file it removes."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from durable_nb import __version__
from durable_nb.errors import DurableError
from durable_nb.ports import Clock
from durable_nb.store.files import LocalFiles
from durable_nb.store.repository import Repository
from durable_nb.verbs.report import counted

__all__ = ["run_checks"]

_PACKAGES = ("ipython", "ipykernel", "dill", "duckdb", "zstandard", "xxhash")
_PROBE = "tmp/doctor-probe"
SLOW_SYNC_S = 0.05


def run_checks(repository: Repository, folder: Path, clock: Clock, key_path: Path) -> dict[str, dict[str, Any]]:
    """Return check → {ok, detail}."""
    checks: dict[str, Callable[[], tuple[bool, str]]] = {
        "versions": _versions,
        "signing key": lambda: _private(key_path, 0o077),
        "folder": lambda: _private(folder, 0o077),
        "sync": lambda: _sync(LocalFiles(folder), clock),
        "space": lambda: _space(folder),
        "history": lambda: _history(repository),
    }
    found: dict[str, dict[str, Any]] = {}
    for name, check in checks.items():
        try:
            ok, detail = check()
        except (OSError, DurableError) as error:
            ok, detail = False, str(error)
        found[name] = {"ok": ok, "detail": detail}
    return found


def _versions() -> tuple[bool, str]:
    parts = [f"durable_nb {__version__}", f"Python {platform.python_version()}"]
    parts += [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES]
    return True, ", ".join(parts)


def _private(path: Path, forbidden: int) -> tuple[bool, str]:
    mode = path.stat().st_mode & 0o777
    private = os.name == "nt" or not mode & forbidden
    return private, f"{path} (mode {mode:03o})" + ("" if private else ": others can read it; `chmod go-rwx` it")


def _sync(files: LocalFiles, clock: Clock) -> tuple[bool, str]:
    files.make_folder("tmp")
    began = clock.monotonic_s()
    handle = files.create(_PROBE)
    try:
        handle.write(b"probe")
        handle.sync()
    finally:
        handle.close()
        files.remove(_PROBE)
        files.sync_folder("tmp")
    took = clock.monotonic_s() - began
    slow = "" if took < SLOW_SYNC_S else ": slow, each durable cell waits for it"
    return True, f"create, write, sync and remove took {took * 1000:.1f} ms{slow}"


def _space(folder: Path) -> tuple[bool, str]:
    stat = os.statvfs(folder) if hasattr(os, "statvfs") else None
    if stat is None:
        return True, "unknown"
    free = stat.f_bavail * stat.f_frsize
    return free > 256 * 1024 * 1024, f"{free / 2**30:.1f} GiB free"


def _history(repository: Repository) -> tuple[bool, str]:
    report = repository.verify()
    if report.problems:
        return (
            False,
            f"{counted(len(report.problems), 'problem')}, such as: {report.problems[0].detail}; `verify` lists them",
        )
    return True, f"{counted(report.workflows, 'workflow')}, {counted(report.checkpoints, 'checkpoint')}, all whole"
