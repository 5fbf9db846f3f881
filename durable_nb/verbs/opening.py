"""Where a notebook's history is, and how it is opened: the part of composition that kernel and command line share.

Called by `kernel.extension` and `cli`. Opening for a kernel makes the folder; opening for the command line does not.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from durable_nb.config import Settings
from durable_nb.errors import DurableError, LeaseHeld, RepositoryError, RepositoryNotFound, Untrusted, UsageError
from durable_nb.model import Event, Owner
from durable_nb.ports import Clock
from durable_nb.projection.duckdb import Projection
from durable_nb.store.files import LocalFiles
from durable_nb.store.process_identity import this_process
from durable_nb.store.repository import Repository
from durable_nb.store.signing import SigningKey
from durable_nb.store.workflow import Workflow
from durable_nb.verbs.trusting import key_path_of, trusted

__all__ = [
    "Place",
    "all_events",
    "first_line",
    "history_folder",
    "locate",
    "new_run_id",
    "notebook_path",
    "only_workflow",
    "open_for_kernel",
    "open_projection",
    "open_repository",
    "open_to_write",
    "told_where",
    "when_drained",
]

_log = logging.getLogger(__name__)

FOLDER = ".durable"
DEFAULT = "default"
MAX_DEFAULTS = 100
LOOK_S = 0.05
SAY_AFTER_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`folder` is the `.durable` folder; `named` tells that the workflow's id is known and not just «default»."""

    folder: Path
    workflow_id: str
    named: bool


def locate(settings: Settings, *, notebook: str, cwd: Path) -> Place:
    """Return where the history of a notebook is; `notebook` is the path that the front end tells, or empty."""
    path = Path(notebook) if notebook else None
    beside = cwd
    if path is not None:
        beside = (cwd / path).parent if (cwd / path).parent.is_dir() else cwd
    folder = Path(settings.dir).expanduser() if settings.dir else beside / FOLDER
    if not folder.is_absolute():
        folder = beside / folder
    if settings.workflow:
        return Place(folder=folder, workflow_id=settings.workflow, named=True)
    if path is not None and path.name:
        name = _name_in(folder, beside, path.name.removesuffix(".ipynb"))
        return Place(folder=folder, workflow_id=name, named=True)
    return Place(folder=folder, workflow_id=_name_in(folder, beside, DEFAULT), named=False)


def _name_in(folder: Path, beside: Path, stem: str) -> str:
    """Return the name of a notebook in `folder`: its own where that lies beside it, else with its path.

    Notebooks of several folders may share one history (DURABLE_NB_DIR), and those of one name must stay apart there.
    """
    folder, beside = folder.resolve(), beside.resolve()
    if folder.is_relative_to(beside):
        return stem
    notebook = beside / stem
    return (notebook.relative_to(folder.parent) if notebook.is_relative_to(folder.parent) else notebook).as_posix()


def history_folder(named: Path) -> Path:
    """Return the folder of the history that a person means by `named`: itself, or the one inside; it must exist."""
    for folder in (named, named / FOLDER):
        if (folder / "FORMAT").is_file():
            return folder
    raise RepositoryNotFound(
        f"There is no history in {named}; nothing was changed.", hint="Name the notebook's folder."
    )


@contextmanager
def told_where(folder: Path) -> Iterator[None]:
    """Let the advice of an error about trust name the folder."""
    try:
        yield
    except Untrusted as error:
        error.hint = error.hint.replace("FOLDER", shlex.quote(str(folder)))
        raise


def open_repository(settings: Settings, folder: Path, *, clock: Clock, create: bool, trust: bool = False) -> Repository:
    """Open the repository in `folder` with the user's signing key."""
    if not create and not (folder / "FORMAT").is_file():
        raise RepositoryNotFound(
            f"There is no history in {folder.parent}.",
            hint="Name the notebook or its folder, or type `%load_ext durable_nb` in a notebook there to begin one.",
        )
    key = SigningKey.load_or_create(key_path_of(settings))
    try:
        if create:
            folder.parent.mkdir(parents=True, exist_ok=True)
        return Repository.open(
            LocalFiles(folder), key=key, clock=clock, create=create, trust=trust, accepts=trusted(settings).accepts
        )
    except (OSError, RepositoryError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise _not_opened(settings, folder, cause, error) from cause


def _not_opened(settings: Settings, folder: Path, cause: OSError, error: Exception) -> RepositoryError:
    """Return the error for a folder that the system refuses, with its name: a setting may be what is wrong."""
    hint = "Make it writable, or name another folder in DURABLE_NB_DIR before the kernel starts."
    if settings.dir:
        hint = f"DURABLE_NB_DIR={settings.dir} names it: name a folder there that can be made and written."
    elif isinstance(error, RepositoryError):
        hint = error.hint
    return RepositoryError(
        f"Opening this notebook's history failed: {folder}: {cause.strerror or cause}. Your variables are untouched in "
        "memory, and every checkpoint is as safe as before.",
        hint=hint,
        errno=cause.errno,
    )


def open_for_kernel(
    settings: Settings, place: Place, *, kernel_id: str, clock: Clock, say: Callable[[str], None]
) -> tuple[Repository, Workflow, str]:
    """Open the notebook's history to write; return a line to show, if any, too.

    `say` shows a line at once, when this takes long because the last kernel's writer still saves.

    Where the disk refuses (it is full, the folder is read-only) and there is a history already, it is opened to read.
    """
    try:
        with told_where(place.folder):
            repository = open_repository(settings, place.folder, clock=clock, create=True)
            return repository, *open_to_write(repository, place, kernel_id=kernel_id, clock=clock, say=say)
    except RepositoryError as error:
        if not isinstance(error.__cause__, OSError) or not (place.folder / "FORMAT").is_file():
            raise
        repository = open_repository(settings, place.folder, clock=clock, create=False)
        workflow = repository.workflow(place.workflow_id, kernel_id=kernel_id, owner=None)
        return (
            repository,
            workflow,
            (
                f"durable_nb: {error} Until the extension is loaded again cells run here without being durable "
                "(read-only); `%durable restore` brings the saved variables back."
            ),
        )


def open_to_write(
    repository: Repository, place: Place, *, kernel_id: str, clock: Clock, say: Callable[[str], None]
) -> tuple[Workflow, str]:
    """Take the workflow's lease; return it and a line to show, if any.

    A named workflow that a live kernel holds is opened to read, with a line that says who holds it. The folder's
    «default», which just means that the front end told no name, makes way: this kernel gets «default-2».
    """
    names = [place.workflow_id]
    if not place.named:
        names += [f"{place.workflow_id}-{n}" for n in range(2, MAX_DEFAULTS)]
    held: LeaseHeld | None = None
    for name in names:
        try:
            workflow = when_drained(repository, name, this_process(kernel_id, clock), say)
        except LeaseHeld as error:
            held = held or error
            continue
        if held is None:
            return workflow, _left_over_line(workflow)
        return workflow, (
            f"durable_nb: another kernel (process {held.details.get('pid')}) uses «{place.workflow_id}» of this "
            f"folder, so this one is «{name}». DURABLE_NB_WORKFLOW=NAME before the kernel starts gives it a name."
        )
    assert held is not None
    workflow = repository.workflow(place.workflow_id, kernel_id=kernel_id, owner=None)
    return workflow, f"durable_nb: {held} Until then cells run here without being durable (read-only)."


def first_line(settings: Settings, place: Place, repository: Repository) -> str:
    """Return what is said when a notebook's history begins: where, and whose it might have been under another name.

    A notebook that was renamed finds nothing of its own: the history that is left has a name that no file has now.
    """
    here, folder = Path.cwd(), place.folder
    shown = folder.relative_to(here) if folder.is_relative_to(here) else folder
    line = f"durable_nb: a new history begins in {shown}."
    if settings.dir or settings.workflow or not place.named:
        return line
    left = [
        name
        for name in repository.workflow_ids()
        if name != place.workflow_id
        and name != DEFAULT
        and not name.startswith(f"{DEFAULT}-")
        # Any text can be a name; `os.path` calls one that cannot be a file's not there.
        and not any(os.path.exists(folder.parent / f"{name}{ending}") for ending in ("", ".ipynb"))
    ]
    if not left:
        return line
    return (
        f"{line} If this notebook was renamed: the history of {', '.join(f'«{name}»' for name in left[:3])} is there, "
        f"whose notebook is not; a kernel started with DURABLE_NB_WORKFLOW={left[0]} goes on with it."
    )


def when_drained(repository: Repository, name: str, owner: Owner, say: Callable[[str], None]) -> Workflow:
    """Open a workflow to write; a writer that still saves what its kernel handed over is waited for."""
    told, pause = False, threading.Event()
    for turn in itertools.count():
        try:
            return repository.workflow(name, kernel_id=owner.kernel_id, owner=owner)
        except LeaseHeld as error:
            if not error.details.get("draining"):
                raise
            if turn * LOOK_S > SAY_AFTER_S and not told:
                told = True
                say(
                    f"durable_nb: waiting until what the last kernel left to its writer (process "
                    f"{error.details.get('pid')}) is on disk."
                )
        pause.wait(LOOK_S)
    raise AssertionError("unreachable")


def _left_over_line(workflow: Workflow) -> str:
    """Tell what the last kernel had handed over, and nobody had finished."""
    left = workflow.left_over
    parts = [f"{', '.join(left.finished)} of the last kernel finished now"] if left.finished else []
    return f"durable_nb: {'; '.join([*parts, *left.refused])}." if parts or left.refused else ""


def all_events(repository: Repository, own: Workflow | None) -> Iterable[Event]:
    """Yield the events of every readable workflow of the folder, those of `own` from memory.

    One that cannot be read (a foreign one, say) is left out: `list` and `verify` tell about it.
    """
    for workflow_id in repository.workflow_ids():
        if own is not None and workflow_id == own.workflow_id:
            yield from own.events()
            continue
        try:
            other = repository.workflow(workflow_id, kernel_id="reader", owner=None)
        except DurableError as error:
            _log.warning("The workflow %s is left out of the query: %s", workflow_id, error)
            continue
        yield from other.events()


def open_projection(repository: Repository, folder: Path, own: Workflow | None) -> Projection:
    """Return the folder's DuckDB lens; opens nothing yet."""
    return Projection(folder / "events.duckdb", source=lambda: all_events(repository, own), files=LocalFiles(folder))


def new_run_id(clock: Clock) -> str:
    """Return an id for a run that sorts by time and is unique across machines."""
    return f"r{clock.now_us() // 1_000_000:x}-{secrets.token_hex(3)}"


def only_workflow(repository: Repository, wanted: str | None) -> str:
    """Return the workflow that a command means: the wanted one, or the only one there is."""
    known = repository.workflow_ids()
    if wanted is not None:
        if wanted not in known:
            raise RepositoryNotFound(
                f"There is no workflow «{wanted}» here.", hint=f"There are: {', '.join(known) or 'none'}."
            )
        return wanted
    if len(known) == 1:
        return known[0]
    if not known:
        raise RepositoryNotFound("Nothing has been recorded here yet.", hint="Run a cell with `%%durable` first.")
    raise UsageError(f"Which workflow? Name its notebook, or one of: {', '.join(known)}.")


def notebook_path(environ: Mapping[str, str], namespace: Mapping[str, object]) -> str:
    """Return the path of the notebook as the front end tells it, empty if it does not."""
    told = namespace.get("__vsc_ipynb_file__")
    if isinstance(told, str) and told:
        return told
    # A parameter of the notebook (`papermill --inject-paths`); what lies on a server has no folder here.
    injected = namespace.get("PAPERMILL_INPUT_PATH")
    if isinstance(injected, str) and "://" not in injected:
        return injected
    return environ.get("JPY_SESSION_NAME", "")
