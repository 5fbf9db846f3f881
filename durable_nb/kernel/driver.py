"""Real IPython kernels, driven as a front end drives them: start one in a folder, run cells, interrupt, kill, restart.

Used by `demo` and, through `durable_nb.testing.kernels`, by tests and tutorials. Each kernel is a process of its own
with its own IPython profile and no shared history, of the caller's Python or of another one. `stop` (or the end of a
`with` block) leaves no process behind.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from durable_nb.store.files import LocalFiles
from durable_nb.store.lease import holders
from durable_nb.store.process_identity import is_alive
from durable_nb.verbs.opening import FOLDER

__all__ = ["Kernel", "Reply"]

_STARTS = 3
_OUTPUTS = frozenset({"stream", "display_data", "update_display_data", "execute_result", "error", "clear_output"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a front end got for one cell. `outputs` are message contents with `output_type`, in order of arrival;
    `pages` are help texts."""

    status: str
    ename: str = ""
    evalue: str = ""
    traceback: tuple[str, ...] = ()
    execution_count: int = 0
    outputs: tuple[dict[str, Any], ...] = field(default=())
    pages: tuple[str, ...] = ()

    def text(self, name: str = "stdout") -> str:
        """Return all that was written to one stream."""
        return "".join(o["text"] for o in self.outputs if o["output_type"] == "stream" and o["name"] == name)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the outputs of one kind."""
        return [o for o in self.outputs if o["output_type"] == kind]

    @property
    def result(self) -> str | None:
        """The plain text of the cell's result."""
        found = self.of("execute_result")
        return found[-1]["data"]["text/plain"] if found else None


class Kernel:
    """One kernel process and a client on it."""

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        start_timeout_s: float = 60,
        python: Path | None = None,
    ) -> None:
        from jupyter_client.manager import KernelManager

        self.folder = folder
        self._start_timeout_s = start_timeout_s
        # The kernel gets the package that the caller imports, installed or not.
        package = str(Path(__file__).resolve().parents[2])
        inherited = dict(os.environ)
        # Told of pytest, ipykernel leaves file descriptors 1 and 2 alone, and prints of children would be lost.
        inherited.pop("PYTEST_CURRENT_TEST", None)
        self._environ = {
            **inherited,
            "IPYTHONDIR": str(folder / ".ipython"),
            "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")])),
            **(environ or {}),
        }
        for attempt in range(_STARTS):
            manager: Any = KernelManager(kernel_name="python3")
            self._manager = manager
            if python is not None:
                manager.kernel_spec.argv[0] = str(python)
            # Kernels log warnings about their own transport at every start, which would tear what the caller shows.
            quiet = ["--IPKernelApp.log_level=40"]
            self._manager.start_kernel(cwd=str(folder), env=self._environ, extra_arguments=quiet)
            try:
                self._connect()
                return
            except RuntimeError:
                # The ports were chosen before the kernel bound them, and something else was quicker.
                self._release()
                if attempt + 1 == _STARTS:
                    raise

    def _connect(self) -> None:
        self._client: Any = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=self._start_timeout_s)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the kernel."""
        return int(self._manager.provisioner.pid)

    def run(self, cell: str, *, timeout_s: float = 60, **how: Any) -> Reply:
        """Run a cell to its end."""
        return self.finish(self.begin(cell, **how), timeout_s=timeout_s)

    def begin(
        self,
        cell: str,
        *,
        cell_id: str | None = None,
        silent: bool = False,
        store_history: bool = True,
        expressions: Mapping[str, str] | None = None,
        subshell: str | None = None,
    ) -> str:
        """Ask for a cell to be run and return at once the id to give to `finish`.

        `expressions` are asked for along with it, and in a `subshell` it runs beside what runs already.
        """
        content = {
            "code": cell,
            "silent": silent,
            "store_history": store_history and not silent,
            "user_expressions": dict(expressions or {}),
            "allow_stdin": False,
            "stop_on_error": False,
        }
        metadata = {"cellId": cell_id} if cell_id is not None else {}
        message = self._client.session.msg("execute_request", content, metadata=metadata)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def finish(self, request: str, *, timeout_s: float = 60) -> Reply:
        """Wait for the end of a cell and return what it sent."""
        deadline_s = time.monotonic() + timeout_s
        outputs = []
        for message in self._messages(request, "get_iopub_msg", deadline_s):
            kind, content = message["msg_type"], message["content"]
            if kind in _OUTPUTS:
                outputs.append({"output_type": kind, **content})
            if kind == "status" and content["execution_state"] == "idle":
                break
        reply = next(self._messages(request, "get_shell_msg", deadline_s))["content"]
        return Reply(
            status=reply["status"],
            ename=reply.get("ename", ""),
            evalue=reply.get("evalue", ""),
            traceback=tuple(reply.get("traceback", ())),
            execution_count=reply.get("execution_count", 0),
            outputs=tuple(outputs),
            pages=tuple(p["data"]["text/plain"] for p in reply.get("payload", ()) if p["source"] == "page"),
        )

    def _messages(self, request: str, get: str, deadline_s: float) -> Any:
        while True:
            try:
                message = getattr(self._client, get)(timeout=0.5)
            except queue.Empty:
                if not self._manager.is_alive():
                    raise ChildProcessError("the kernel died") from None
                if time.monotonic() > deadline_s:
                    raise TimeoutError("the kernel did not answer in time") from None
                continue
            if message["parent_header"].get("msg_id") == request:
                yield message

    def wait_for_text(self, request: str, text: str, *, timeout_s: float = 30) -> None:
        """Wait until a running cell has printed `text`."""
        seen = ""
        for message in self._messages(request, "get_iopub_msg", time.monotonic() + timeout_s):
            seen += message["content"].get("text", "") if message["msg_type"] == "stream" else ""
            if text in seen:
                return

    def ask(self, method: str, *args: Any, timeout_s: float = 30) -> dict[str, Any]:
        """Send another request of the protocol (`complete`, `inspect`, `is_complete`); return the reply."""
        request = getattr(self._client, method)(*args)
        deadline_s = time.monotonic() + timeout_s
        content: dict[str, Any] = next(self._messages(request, "get_shell_msg", deadline_s))["content"]
        return content

    def control(self, kind: str, content: Mapping[str, Any], *, timeout_s: float = 30) -> dict[str, Any]:
        """Send a request on the channel that is heard while a cell runs; return the reply."""
        message = self._client.session.msg(kind, dict(content))
        self._client.control_channel.send(message)
        deadline_s = time.monotonic() + timeout_s
        reply: dict[str, Any] = next(self._messages(message["header"]["msg_id"], "get_control_msg", deadline_s))
        return dict(reply["content"])

    def tell(self, kind: str, content: Mapping[str, Any]) -> None:
        """Send a message that nothing answers, as widgets do."""
        self._client.shell_channel.send(self._client.session.msg(kind, dict(content)))

    def interrupt(self) -> None:
        """Do what the stop button does."""
        self._manager.interrupt_kernel()

    def sigkill(self) -> None:
        """Kill the kernel as the system does when memory runs out; return when it is gone."""
        with contextlib.suppress(ProcessLookupError):  # a test may have killed it already
            os.kill(self.pid, signal.SIGKILL)
        while self._manager.is_alive():
            time.sleep(0.01)
        self._release()

    def settle(self) -> None:
        """Return when the writer of a killed kernel has saved what it was handed: then the folder may be copied."""
        histories = self.folder / FOLDER
        for leases in sorted(histories.glob("workflows/*/leases")):
            place = leases.relative_to(histories).as_posix()
            while any(is_alive(owner) for owner in holders(LocalFiles(histories), place)):
                time.sleep(0.01)

    def restart(self) -> None:
        """Do what a person's restart does: shutdown_request(restart=True), then a new process."""
        self._client.stop_channels()
        self._manager.restart_kernel(now=False)
        self._connect()

    def stop(self) -> None:
        """End the kernel in an orderly way, if it still lives."""
        if self._manager.has_kernel:
            self._manager.shutdown_kernel(now=False)
        self._release()

    def _release(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._client.stop_channels()
        if self._manager.has_kernel:
            self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()
