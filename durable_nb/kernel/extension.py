"""The composition root in a kernel: builds the engine for this shell, installs the hooks, takes them away again.

Called by `%load_ext durable_nb` and `%unload_ext durable_nb`. When `load` returns, the lease is held (or the kernel
is read-only and has said so), the journal says that this kernel is here, and what was to come back is back.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from IPython import get_ipython

from durable_nb.capture.files_read import FileReads
from durable_nb.capture.namespace import NamespaceCapture
from durable_nb.capture.process import ProcessState
from durable_nb.clock import SystemClock
from durable_nb.config import Settings
from durable_nb.engine import Engine, saving
from durable_nb.engine.attaching import attach
from durable_nb.engine.missing import error_note
from durable_nb.engine.pending import Idle
from durable_nb.errors import DurableError
from durable_nb.kernel.aside import run_aside
from durable_nb.kernel.asking import Asking
from durable_nb.kernel.demo import demo
from durable_nb.kernel.heartbeat import Heartbeat
from durable_nb.kernel.idle import IdleLoader
from durable_nb.kernel.intercept import Interceptor, one_line
from durable_nb.kernel.magics import DurableMagics
from durable_nb.kernel.shell import IPythonShell
from durable_nb.model import Json, Owner, Unsaved
from durable_nb.projection.duckdb import Projection
from durable_nb.resources import oom_kills, uncollected
from durable_nb.store.process_identity import this_process
from durable_nb.store.repository import Repository
from durable_nb.store.workflow import Workflow
from durable_nb.verbs import VERBS, Context, Report, run, subjects
from durable_nb.verbs.checks import run_checks
from durable_nb.verbs.opening import (
    Place,
    first_line,
    locate,
    new_run_id,
    notebook_path,
    open_for_kernel,
    open_projection,
)
from durable_nb.verbs.trusting import accept, key_path_of

__all__ = ["current_unsaved", "load", "unload"]

_log = logging.getLogger(__name__)
_ATTRIBUTE = "_durable_nb_extension"
# Verbs that move or remove what is stored: nobody else may know it as it was before.
ALONE = frozenset({"gc", "verify"})


@dataclass(slots=True, kw_only=True)
class Extension:
    """What is installed in one shell."""

    shell: IPythonShell
    engine: Engine
    interceptor: Interceptor
    magics: DurableMagics | None = None
    projection: Projection
    repository: Repository
    place: Place
    settings: Settings
    heartbeat: Heartbeat
    idle: IdleLoader
    asking: Asking
    detached: bool = False

    def context(self) -> Context:
        clock = self.engine.clock
        return Context(
            folder=self.place.folder,
            repository=self.repository,
            opened=self.engine.workflow,
            state=self.engine.state,
            clock=clock,
            settings=self.settings,
            projection=self.projection,
            engine=self.engine,
            prefix="%durable",
            take_lease=lambda: self.engine.workflow,
            new_run_id=self.engine.new_run_id,
            trust=lambda folder: accept(self.settings, folder),
            demo=demo,
            checks=lambda: run_checks(self.repository, self.place.folder, clock, key_path_of(self.settings)),
        )

    def run_verb(self, verb: str, arguments: list[str]) -> Report:
        if verb == "status":  # tells what is being saved
            saving.take_in(self.engine)
            return run(verb, arguments, self.context())
        saving.drain(self.engine)
        if verb not in ALONE:
            return run(verb, arguments, self.context())
        with saving.without_writer(self.engine):
            return run(verb, arguments, self.context())

    def explain_error(self, error: BaseException) -> None:
        """Add a note to the NameError of a variable that was not back after a restore."""
        if not isinstance(error, NameError) or not isinstance(error.name, str) or hasattr(error, "__notes__"):
            return
        if note := error_note(self.engine, error.name):
            error.add_note(note)

    def subjects(self, verb: str) -> list[str]:
        """Return what Tab offers behind a verb."""
        return subjects(self.context(), verb)

    def run_sql(self, query: str, save_as: str | None) -> object:
        saving.drain(self.engine)
        table = self.projection.query(query)
        frame = table.to_dataframe()
        result = table if frame is None else frame
        if save_as is not None:
            self.shell.namespace[save_as] = result
        return result

    def detach(self, reason: str) -> None:
        if self.detached:
            return
        self.detached = True
        self.heartbeat.stop()
        self.idle.remove()
        self.asking.remove()
        self.engine.detach(reason)
        # The front end waits some seconds for a kernel to end; the next query catches up on what is left.
        self.projection.close(timeout_s=1.5, load=False)


def load(ip: Any) -> None:
    """Attach durable_nb to the shell; loading it twice changes nothing."""
    if getattr(ip, _ATTRIBUTE, None) is not None:
        return
    try:
        _load(ip)
    except DurableError as error:
        raise one_line(error) from None


def _load(ip: Any) -> None:
    clock = SystemClock()
    settings = Settings.from_environment(os.environ)
    place = locate(settings, notebook=notebook_path(os.environ, ip.user_ns), cwd=Path.cwd())
    owner = this_process("", clock)
    kernel_id = _kernel_id(owner)
    shell = IPythonShell(ip)
    if not shell.in_kernel:
        settings = replace(settings, lazy="off")  # nothing would load the rest in idle moments
    with uncollected():
        repository, workflow, line = open_for_kernel(settings, place, kernel_id=kernel_id, clock=clock, say=shell.say)
    process = ProcessState(
        enable_backend=shell.enable_backend,
        namespace=ip.user_ns,
        environ=[name for part in settings.env.split(",") if (name := part.strip())],
    )
    engine = Engine(
        workflow=workflow,
        shell=shell,
        clock=clock,
        settings=settings,
        capture=NamespaceCapture(
            ip.user_ns,
            hidden=shell.hidden,
            out=lambda: _results(shell),
            owned=lambda: process.owned(ip.user_ns),
            held=shell.held,
        ),
        process=process,
        kernel_id=kernel_id,
        files=FileReads([str(place.folder)]),
        modules=sys.modules,
        new_run_id=lambda: new_run_id(clock),
    )
    projection = open_projection(repository, place.folder, workflow)
    if workflow.writable:
        engine.observers.append(projection.update_in_background)
    interceptor = Interceptor(ip, engine)
    engine.run_beside = interceptor.run_nested
    engine.run_aside = partial(run_aside, ip)
    extension = Extension(
        shell=shell,
        engine=engine,
        interceptor=interceptor,
        projection=projection,
        repository=repository,
        place=place,
        settings=settings,
        heartbeat=Heartbeat(workflow.beat),
        idle=IdleLoader(ip, Idle(engine), lambda: interceptor.busy),
        asking=Asking(ip, engine.capture.lazy, lambda: engine.beside(None)),
    )
    interceptor.before_showing = extension.explain_error
    magics = DurableMagics(
        ip,
        interceptor,
        verbs=tuple(VERBS),
        run_verb=extension.run_verb,
        run_sql=extension.run_sql,
        subjects=extension.subjects,
    )
    extension.magics = magics
    there = set(ip.user_ns)
    begins = workflow.writable and next(iter(workflow.events()), None) is None
    try:
        lines = attach(engine, _identity(owner))
    except BaseException:
        workflow.close()
        raise
    interceptor.install()
    magics.register()
    shell.attach()
    shell.brought(set(ip.user_ns) - there)
    shell.on_shutdown(lambda restart: _note_ending(workflow, restart))
    shell.on_exit(lambda: extension.detach(shell.detach_reason or "exit"))
    if shell.in_kernel:
        extension.idle.install()
        extension.asking.install()
    setattr(ip, _ATTRIBUTE, extension)
    if settings.durability == "async":
        saving.start(engine)
    if workflow.writable:
        extension.heartbeat.start()
    for text in filter(None, [line, *lines, first_line(settings, place, repository) if begins else ""]):
        shell.say(text)


def unload(ip: Any) -> None:
    """Take every hook, magic and transformer away again; what is saved stays."""
    extension: Extension | None = getattr(ip, _ATTRIBUTE, None)
    if extension is None:
        return
    if extension.magics is not None:
        extension.magics.unregister()
    extension.interceptor.remove()
    extension.shell.detach()
    extension.detach("unload")
    delattr(ip, _ATTRIBUTE)


def current_unsaved() -> list[Unsaved]:
    """Return what the last checkpoint (or the restored one) could not hold, in the kernel that asks."""
    extension: Extension | None = getattr(get_ipython(), _ATTRIBUTE, None)
    return list(extension.engine.missing) if extension is not None else []


def _note_ending(workflow: Workflow, restart: bool) -> None:
    """Leave a note in the control thread: the main one may never get to record the end."""
    try:
        workflow.note_ending("restart" if restart else "shutdown")
    except OSError as error:
        _log.warning("The end of this kernel could not be noted; the next one will call it a loss: %s", error)


def _kernel_id(owner: Owner) -> str:
    """Return the same id for the same process, so that unloading and loading again is one kernel life."""
    text = f"{owner.host}\0{owner.boot_id}\0{owner.pid}\0{owner.process_start}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _results(shell: IPythonShell) -> dict[str, object]:
    """Return the entries of `Out` under the names that checkpoints know them by."""
    return {f"Out[{n}]": value for n, value in shell.outs().items()}


def _identity(owner: Owner) -> dict[str, Json]:
    return {
        "pid": owner.pid,
        "host": owner.host,
        "boot_id": owner.boot_id,
        "process_start": owner.process_start,
        "oom_kills": oom_kills(),
        "python": sys.version.split()[0],
    }
