"""Records what a cell sends to the front end, and sends it again.

Called by `intercept` around the body of a durable cell and by the engine (through `IPythonShell.emit`) on a skip. When
`stop` returns, everything that the body printed, displayed or raised is in the list, in the order in which a person
saw it, with all MIME types. Nothing here is durable.
"""

from __future__ import annotations

import base64
import json
import math
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from durable_nb.kernel.patches import Patches
from durable_nb.kernel.streams import drain, flush
from durable_nb.model import Json, Output

__all__ = ["LIMIT_BYTES", "OutputLog", "OutputRecorder", "muted", "outputs_from_json", "outputs_to_json", "replay"]

LIMIT_BYTES = 32 * 1024 * 1024
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_MAX_INT = 2**53
_KINDS = frozenset({"stream", "display_data", "update_display_data", "execute_result", "error"})


def outputs_to_json(outputs: Iterable[Output]) -> list[Json]:
    """Return outputs in nbformat's shape (`output_type` beside the content; `transient` keeps the display id)."""
    return [{"output_type": output.kind, **output.content} for output in outputs]


def outputs_from_json(items: Iterable[Mapping[str, Json]]) -> tuple[Output, ...]:
    """Return what `outputs_to_json` wrote as outputs again."""
    return tuple(
        Output(kind=item["output_type"], content={k: v for k, v in item.items() if k != "output_type"})
        for item in items
    )


class OutputLog:
    """The outputs of one cell as a notebook would keep them: coalesced, cleared and updated as the cell asked."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._lock = threading.Lock()
        self._limit_bytes = limit_bytes
        self._clear_waiting = False
        self._reset()

    def _reset(self) -> None:
        self._items: list[tuple[str, dict[str, Any]]] = []
        self._texts: dict[int, list[str]] = {}
        self._size_bytes = 0
        self._left_out = 0

    def add(self, kind: str, content: Mapping[str, Any]) -> None:
        """Take one message's content, from any thread; what is not an output is ignored."""
        with self._lock:
            if kind == "clear_output":
                self._clear_waiting = bool(content.get("wait"))
                if not self._clear_waiting:
                    self._reset()
                return
            if kind not in _KINDS or (kind == "stream" and not content["text"]):
                return
            if self._clear_waiting and kind != "update_display_data":
                self._clear_waiting = False
                self._reset()
            self._take(kind, content)

    def finish(self) -> tuple[Output, ...]:
        """Return the outputs recorded so far; a last note says when some were too many to keep."""
        with self._lock:
            outputs = []
            for at, (kind, content) in enumerate(self._items):
                whole = {**content, "text": "".join(self._texts[at])} if kind == "stream" else content
                outputs.append(Output(kind=kind, content=_plain(whole)))
            if self._left_out:
                note = (
                    f"[durable_nb kept the first {self._limit_bytes >> 20} MiB of this cell's outputs; "
                    f"{self._left_out} more were shown but not recorded]\n"
                )
                outputs.append(Output(kind="stream", content={"name": "stderr", "text": note}))
            return tuple(outputs)

    def _take(self, kind: str, content: Mapping[str, Any]) -> None:
        size_bytes = _size(content)
        if self._size_bytes + size_bytes > self._limit_bytes:
            self._left_out += 1
            return
        self._size_bytes += size_bytes
        if kind == "stream":
            self._take_text(content["name"], content["text"])
        elif kind == "update_display_data":
            self._take_update(content)
        else:
            kept = {key: value for key, value in content.items() if key != "transient"}
            display_id = (content.get("transient") or {}).get("display_id")
            if display_id is not None:
                kept["transient"] = {"display_id": display_id}
            self._items.append((kind, kept))

    def _take_text(self, name: str, text: str) -> None:
        if not self._items or self._items[-1][0] != "stream" or self._items[-1][1]["name"] != name:
            self._texts[len(self._items)] = []
            self._items.append(("stream", {"name": name}))
        self._texts[len(self._items) - 1].append(text)

    def _take_update(self, content: Mapping[str, Any]) -> None:
        display_id = (content.get("transient") or {}).get("display_id")
        new = {"data": content["data"], "metadata": content["metadata"], "transient": {"display_id": display_id}}
        found = False
        for _kind, earlier in self._items:
            if display_id is not None and (earlier.get("transient") or {}).get("display_id") == display_id:
                self._size_bytes -= _size(earlier)
                earlier.update(new)
                found = True
        if not found:
            # The output that this updates belongs to another cell: a replay has to send the update again.
            self._items.append(("update_display_data", new))


class OutputRecorder:
    """Listens to one cell's outputs between `start` and `stop`, without changing what is shown."""

    def __init__(self, shell: Any, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._shell = shell
        self._log = OutputLog(limit_bytes)
        self._patches = Patches()
        self._streams: tuple[Any, ...] = ()
        self._muted = 0

    def start(self) -> None:
        """Begin to record."""
        self._streams = (sys.stdout, sys.stderr)
        session = getattr(self._shell.display_pub, "session", None)
        if session is None:
            self._listen_in_terminal()
            return
        # What was written before the cell's body must not be taken for a part of it.
        flush(self._streams)
        self._listen_to_session(session)

    def stop(self) -> tuple[Output, ...]:
        """Wait until everything written so far is out, stop recording, and return it."""
        try:
            flush_inline_figures()
            drain(self._streams)
            flush(self._streams)
        finally:
            self._patches.undo()
        return self._log.finish()

    def _listen_to_session(self, session: Any) -> None:
        # Every output of a kernel, whichever object made it, leaves through this one method: streams from the
        # publishing thread, displays from any thread, errors. Only what answers this cell's request counts, so
        # output of other cells' threads and of subshells stays out.
        mine = _message_id(self._shell.display_pub.parent_header)

        def listening(send: Any) -> Any:
            def heard(
                stream: Any, message: Any, content: Any = None, parent: Any = None, *args: Any, **more: Any
            ) -> Any:
                if isinstance(message, Mapping):
                    kind, body, header = message.get("msg_type"), message.get("content"), message.get("parent_header")
                else:
                    kind, body, header = message, content, parent
                if isinstance(kind, str) and isinstance(body, Mapping) and _message_id(header) == mine:
                    self._log.add(kind, body)
                return send(stream, message, content, parent, *args, **more)

            return heard

        self._patches.put(session, "send", listening)

    def _listen_in_terminal(self) -> None:
        shell = self._shell

        def written(name: str) -> Any:
            def listening(write: Any) -> Any:
                def heard(text: str) -> Any:
                    if not self._muted:
                        self._log.add("stream", {"name": name, "text": text})
                    return write(text)

                return heard

            return listening

        def quietly(call: Any) -> Any:
            # What a display or a result prints on the terminal is recorded once, as what it is.
            def muted(*args: Any, **more: Any) -> Any:
                self._muted += 1
                try:
                    return call(*args, **more)
                finally:
                    self._muted -= 1

            return muted

        def displayed(publish: Any) -> Any:
            def heard(
                data: Any, metadata: Any = None, *args: Any, transient: Any = None, update: bool = False, **more: Any
            ) -> Any:
                kind = "update_display_data" if update else "display_data"
                self._log.add(kind, _bundle(data, metadata) | {"transient": transient or {}})
                return quietly(publish)(data, metadata or {}, **more)

            return heard

        def resulted(write: Any) -> Any:
            def heard(data: Any, metadata: Any = None) -> Any:
                self._log.add("execute_result", _bundle(data, metadata))
                return quietly(write)(data, metadata)

            return heard

        def failed(show: Any) -> Any:
            def heard(kind: Any, error: Any, lines: Any) -> Any:
                content = {"ename": kind.__name__, "evalue": str(error), "traceback": list(lines)}
                self._log.add("error", content)
                return quietly(show)(kind, error, lines)

            return heard

        def cleared(clear: Any) -> Any:
            def heard(wait: bool = False) -> Any:
                self._log.add("clear_output", {"wait": wait})
                return quietly(clear)(wait)

            return heard

        for name, stream in zip(("stdout", "stderr"), self._streams, strict=True):
            if hasattr(stream, "__dict__"):
                self._patches.put(stream, "write", written(name))
        self._patches.put(shell.display_pub, "publish", displayed)
        self._patches.put(shell.display_pub, "clear_output", cleared)
        self._patches.put(shell.displayhook, "write_output_prompt", quietly)
        self._patches.put(shell.displayhook, "write_format_data", resulted)
        self._patches.put(shell.displayhook, "finish_displayhook", quietly)
        self._patches.put(shell, "_showtraceback", failed)


@contextmanager
def muted(shell: Any) -> Iterator[None]:
    """Until the block ends, let nothing that answers the cell that runs now reach the person.

    The streams stay the objects that they are: what is made meanwhile (a log handler, say) may keep one.
    """
    streams, patches = (sys.stdout, sys.stderr), Patches()
    session = getattr(shell.display_pub, "session", None)
    if session is None:
        for stream in streams:
            if hasattr(stream, "__dict__"):
                patches.put(stream, "write", lambda write: len)
        for name in ("publish", "clear_output"):
            patches.put(shell.display_pub, name, lambda call: lambda *args, **more: None)
    else:
        flush(streams)
        mine = _message_id(shell.display_pub.parent_header)
        patches.put(session, "send", lambda send: _without_outputs(send, mine))
    try:
        yield
    finally:
        try:
            drain(streams)
            flush(streams)
        finally:
            patches.undo()


def _without_outputs(send: Any, mine: str) -> Any:
    def sending(stream: Any, message: Any, content: Any = None, parent: Any = None, *args: Any, **more: Any) -> Any:
        kind, header = message, parent
        if isinstance(message, Mapping):
            kind, header = message.get("msg_type"), message.get("parent_header")
        if (kind in _KINDS or kind == "clear_output") and _message_id(header) == mine:
            return None
        return send(stream, message, content, parent, *args, **more)

    return sending


def replay(shell: Any, outputs: Sequence[Output]) -> None:
    """Send recorded outputs to the front end again, in order, as part of the cell that runs now."""
    in_kernel = getattr(shell.display_pub, "session", None) is not None
    for output in outputs:
        content = output.content
        if output.kind == "stream":
            stream = sys.stderr if content["name"] == "stderr" else sys.stdout
            stream.write(content["text"])
            stream.flush()
        elif output.kind in ("display_data", "update_display_data"):
            shell.display_pub.publish(
                _without_dead_views(shell, content["data"]),
                dict(content.get("metadata") or {}),
                transient=dict(content.get("transient") or {}),
                update=output.kind == "update_display_data",
            )
        elif output.kind == "execute_result":
            _replay_result(shell, content, in_kernel=in_kernel)
        elif output.kind == "error":
            if in_kernel:
                _send(shell, "error", dict(content))
            else:
                print("\n".join(content["traceback"]))


def flush_inline_figures() -> None:
    """Show what pyplot holds now: IPython does it only after the cell, when nothing records any more."""
    backend = sys.modules.get("matplotlib_inline.backend_inline")
    matplotlib = sys.modules.get("matplotlib")
    if backend is None or matplotlib is None:
        return
    if "inline" in str(matplotlib.rcParams._get("backend")).lower():
        backend.flush_figures()


def _replay_result(shell: Any, content: Mapping[str, Any], *, in_kernel: bool) -> None:
    data = _without_dead_views(shell, content["data"])
    hook = shell.displayhook
    if in_kernel:
        metadata = dict(content.get("metadata") or {})
        _send(shell, "execute_result", {"data": data, "metadata": metadata, "execution_count": hook.prompt_count})
    else:
        hook.write_output_prompt()
        hook.write_format_data(data, {})
        hook.finish_displayhook()
    if "text/plain" in data:
        shell.history_manager.output_hist_reprs[hook.prompt_count] = data["text/plain"]


def _send(shell: Any, kind: str, content: dict[str, Any]) -> None:
    hook = shell.displayhook
    flush((sys.stdout, sys.stderr))
    topic = hook.topic.replace(b"execute_result", kind.encode()) if hook.topic else None
    hook.session.send(hook.pub_socket, kind, content, parent=hook.parent_header, ident=topic)


def _without_dead_views(shell: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    # Where a widget's model is gone with the lost kernel a view of it would show an error; its text still says what it
    # was. A widget that came back has the model that it had.
    comms = getattr(getattr(getattr(shell, "kernel", None), "comm_manager", None), "comms", {})
    view = data.get(_WIDGET_VIEW)
    alive = isinstance(view, Mapping) and view.get("model_id") in comms
    return {mime: value for mime, value in data.items() if mime != _WIDGET_VIEW or alive}


def _message_id(parent: Any) -> Any:
    if not isinstance(parent, Mapping):
        return None
    header = parent.get("header", parent)
    return header.get("msg_id") if isinstance(header, Mapping) else None


def _bundle(data: Mapping[str, Any], metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    encoded = {k: base64.b64encode(v).decode("ascii") if isinstance(v, bytes) else v for k, v in data.items()}
    return {"data": encoded, "metadata": dict(metadata or {})}


def _size(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(key)) + _size(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_size, value))
    return 8


def _plain(value: Any) -> Any:
    # Front ends accept JSON that the journal does not (huge integers, NaN); an output must never cost a checkpoint.
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) < _MAX_INT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return json.loads(json.dumps(value, default=str))
