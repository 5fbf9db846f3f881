"""The port `Shell` for IPython: its namespace and history, its outputs, and how its process ends.

Built by `extension`, used by the engine. What `restore_state`, `restore_sources`, `set_out` and `restore_gui_state`
were given is in force when they return; nothing here is durable.
"""

from __future__ import annotations

import atexit
import contextlib
import html
import itertools
import linecache
import os
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from durable_nb.kernel.outputs import replay
from durable_nb.kernel.patches import Patches
from durable_nb.model import Json, Output

__all__ = ["IPythonShell"]

_OWN_EXTENSIONS = frozenset({"durable_nb", "storemagic", "IPython.extensions.storemagic"})
_MODULE_NAMES = ("__name__", "__package__", "__loader__", "__spec__", "__builtin__", "__builtins__")
_UNDERS = ("_", "__", "___")
_PRINTING = {"bbox_inches": "tight"}  # what matplotlib_inline gives to every figure, unless it is told otherwise
_FIGURES = {"image/png": "png", "image/jpeg": "jpeg", "image/svg+xml": "svg", "application/pdf": "pdf"}


class IPythonShell:
    """IPython as the engine sees it, in a kernel and in a terminal."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._patches = Patches()
        self._on_exit: list[Callable[[], None]] = []
        self._on_shutdown: list[Callable[[bool], None]] = []
        self._told_inputs: list[str] = []
        self._files_seen = 0
        self._told_sources: set[tuple[str, int]] = set()
        self._pid = os.getpid()
        self._attached = False
        self._waiting: list[str] = []
        self._brought: frozenset[str] = frozenset()
        self.detach_reason = ""

    @property
    def in_kernel(self) -> bool:
        """Whether a front end is connected (otherwise this is IPython in a terminal)."""
        return getattr(self._shell, "kernel", None) is not None

    # Namespace

    @property
    def namespace(self) -> dict[str, Any]:
        """The live `user_ns`."""
        namespace: dict[str, Any] = self._shell.user_ns
        return namespace

    def hidden(self) -> Mapping[str, Any]:
        """Return the names that the shell itself put into the namespace, with the values it gave them."""
        shell = self._shell
        namespace, at_start = shell.user_ns, shell.user_ns_hidden
        more = {name: namespace[name] for name in _MODULE_NAMES if name in namespace}
        if (about := namespace.get("__doc__")) is None or str(about).startswith("Automatically created module"):
            more["__doc__"] = about  # a cell that begins with a string binds another one
        for under in _UNDERS:
            if under in namespace and under not in at_start:
                more[under] = getattr(shell.displayhook, under)
        # No copy of the shell's: there is a name in it for each cell that ran.
        return ChainMap(more, at_start)

    def held(self) -> list[object]:
        """Return the values that IPython holds beside the namespace and `Out`, once for each reference."""
        hook = self._shell.displayhook
        results = {id(r): r for r in (self._shell.last_execution_result, hook.exec_result) if r is not None}
        hidden = self._shell.user_ns_hidden.values()
        return [*hidden, *(getattr(hook, under, None) for under in _UNDERS), *(r.result for r in results.values())]

    # Execution count, inputs, Out, sources

    def state(self) -> dict[str, Json]:
        """Return the next cell's number, and the inputs that are new since the last call as {n: [raw, parsed]}."""
        history = self._shell.history_manager
        inputs: dict[str, Json] = {}
        listed = history.input_hist_raw if history is not None else []
        told = self._told_inputs
        # The texts told are the very objects of the history, so comparing all of them at once costs next to nothing.
        start = len(told) if listed[: len(told)] == told else 0
        del told[len(listed) :]
        told.extend([""] * (len(listed) - len(told)))
        for n in range(start, len(listed)):
            if told[n] != listed[n]:
                inputs[str(n)] = [listed[n], history.input_hist_parsed[n]]
            told[n] = listed[n]
        return {"execution_count": self._shell.displayhook.prompt_count + 1, "inputs": inputs}

    def restore_state(self, state: Mapping[str, Json]) -> None:
        """Let numbering go on behind the restored cells, and put their inputs back under their numbers."""
        history = self._shell.history_manager
        inputs = {int(n): pair for n, pair in state.get("inputs", {}).items()}
        # While a cell runs, `execution_count` is already the next number; before IPython 9.1 it was still its own.
        now = self._shell.displayhook.prompt_count
        behind = 1 - (self._shell.execution_count - now)
        count = max(int(state.get("execution_count", 0)), now + 1)
        for listed, which in ((history.input_hist_raw, 0), (history.input_hist_parsed, 1)):
            # IPython appends the next input, so both lists have to end just before its number.
            listed.extend([""] * (count - len(listed)))
            for n, pair in inputs.items():
                if 0 < n < count:
                    listed[n] = pair[which]
        for n, pair in inputs.items():
            self._shell.push({f"_i{n}": pair[0]}, interactive=False)
        told = self._told_inputs
        told.extend([""] * (len(history.input_hist_raw) - len(told)))
        for n, pair in inputs.items():
            if 0 < n < len(told):
                told[n] = pair[0]
        # The next cell finds the one before it in `_i`, not the cell of this kernel that restored.
        history._iii, history._ii, history._i, history._i00 = ["", "", "", *history.input_hist_raw][-4:]
        self._shell.push({name: getattr(history, name) for name in ("_i", "_ii", "_iii")}, interactive=False)
        self._shell.execution_count = count - behind

    def outs(self) -> dict[int, object]:
        """Return a copy of `Out`."""
        return dict(self._shell.user_ns["_oh"])

    def set_out(self, n: int, value: object, *, latest: bool = False) -> None:
        """Make `value` the result of cell `n`: `Out[n]`, `_n`, and with `latest` `_` too, moving `_` and `__` on."""
        shell, hook = self._shell, self._shell.displayhook
        if value is shell.user_ns["_oh"]:
            return
        if latest:
            keep_users = any(
                under in shell.user_ns
                and shell.user_ns[under] is not shell.user_ns_hidden.get(under, getattr(hook, under))
                for under in _UNDERS
            )
            hook.___, hook.__, hook._ = hook.__, hook._, value
            if not keep_users:
                shell.push({"_": hook._, "__": hook.__, "___": hook.___}, interactive=False)
        shell.push({f"_{n}": value}, interactive=False)
        shell.user_ns["_oh"][n] = value

    def cell_sources(self) -> dict[str, Json]:
        """Return the source of cells compiled since the last call: {file name: [execution count, text]}."""
        new: dict[str, Json] = {}
        files = self._shell.compile._filename_map
        # A file name stands for its text, so only names that came since the last call are of interest.
        count = len(files) - self._files_seen if self._files_seen <= len(files) else len(files)
        self._files_seen = len(files)
        # From the end: going past the names of a long history to the new ones would take longer for every cell.
        for name, number in reversed(list(itertools.islice(reversed(files.items()), count))):
            entry = linecache.cache.get(name)
            if entry is None or len(entry) != 4 or (name, number) in self._told_sources:
                continue
            self._told_sources.add((name, number))
            new[name] = [number, "".join(entry[2])]
        return new

    def restore_sources(self, sources: Mapping[str, Json]) -> None:
        """Let tracebacks, `inspect.getsource` and joblib find the source of functions from restored cells."""
        for name, (number, text) in sources.items():
            # No modification time: `linecache.checkcache` then leaves an entry alone that has no file.
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            self._shell.compile._filename_map.setdefault(name, number)
            self._told_sources.add((name, number))

    def transform(self, source: str) -> str:
        """Return a cell's body as plain Python, the way IPython would run it."""
        return str(self._shell.transform_cell(source))

    # What a person sees

    def emit(self, outputs: Sequence[Output]) -> None:
        """Send recorded outputs to the front end again, in order."""
        replay(self._shell, outputs)

    def say(self, line: str) -> None:
        """Show one line of ours, or a line and the rows of a table below it."""
        if not self.in_kernel:
            print(line)
            return
        if not self._shell.display_pub.parent_header:
            # Loaded by IPython's configuration: no cell is there yet that could show it.
            self._waiting.append(line)
            return
        style = "color:var(--jp-ui-font-color2,#777);font-size:var(--jp-ui-font-size1,0.9em)"
        first, _, table = line.partition("\n")
        rich = f'<div style="{style}">{html.escape(first)}</div>'
        if table:
            rich += f'<pre style="{style}">{html.escape(table)}</pre>'
        self._shell.display_pub.publish({"text/plain": line, "text/html": rich})

    # Extensions and plotting

    def gui_state(self) -> dict[str, Json]:
        """Return what is switched on beside the namespace: extensions, autoreload's mode, inline figures."""
        manager = self._shell.extension_manager
        state: dict[str, Json] = {"extensions": sorted(set(manager.loaded) - _OWN_EXTENSIONS)}
        reloader = getattr(self._shell.magics_manager.registry.get("AutoreloadMagics"), "_reloader", None)
        if reloader is not None:
            mode = (
                "0"
                if not reloader.enabled
                else "1"
                if not reloader.check_all
                else "3"
                if reloader.autoload_obj
                else "2"
            )
            state["autoreload"] = mode
        inline = sys.modules.get("matplotlib_inline.backend_inline")
        if inline is not None and inline.flush_figures in self._shell.events.callbacks["post_execute"]:
            config = inline.InlineBackend.instance(parent=self._shell)
            state["inline"] = {
                "figure_formats": sorted(config.figure_formats),
                "close_figures": config.close_figures,
                **self._inline_details(config),
            }
        return state

    def _inline_details(self, config: Any) -> dict[str, Json]:
        """Return what else was chosen for inline figures, where it is not as usual."""
        found: dict[str, Json] = {}
        if config.rc:
            found["rc"] = dict(config.rc)
        if config.print_figure_kwargs != _PRINTING:
            found["print_figure_kwargs"] = dict(config.print_figure_kwargs)
        # What `set_matplotlib_formats` was given stands in the functions that draw figures and nowhere else.
        figure = sys.modules["matplotlib.figure"].Figure
        formatters = self._shell.display_formatter.formatters
        printers = {mime: one.type_printers.get(figure) for mime, one in formatters.items() if mime in _FIGURES}
        drawn = {_FIGURES[mime]: getattr(p, "keywords", {}) for mime, p in printers.items() if p is not None}
        if "png" in drawn and "fmt" not in drawn["png"]:
            drawn["retina"] = drawn.pop("png")
        options = {k: v for k, v in next(iter(drawn.values()), {}).items() if k not in ("fmt", "base64")}
        formats = {{"jpg": "jpeg", "png2x": "retina"}.get(f, f) for f in config.figure_formats}
        if drawn and (options != config.print_figure_kwargs or drawn.keys() != formats):
            found["drawn"] = [sorted(drawn), options]
        return found

    def restore_gui_state(self, state: Mapping[str, Json]) -> list[str]:
        """Switch on again what `gui_state` told; return one sentence for each thing that could not be."""
        problems = []
        for name in state.get("extensions", ()):
            try:
                self._shell.extension_manager.load_extension(name)
            except Exception as error:
                problems.append(f"extension {name} was not loaded again: {type(error).__name__}: {error}")
        if "autoreload" in state and self._shell.find_line_magic("autoreload") is not None:
            self._shell.run_line_magic("autoreload", state["autoreload"])
        if "inline" in state:
            try:
                self._restore_inline(state["inline"])
            except ImportError as error:
                problems.append(f"%matplotlib inline is not in force again: {error}")
        return problems

    def enable_backend(self, name: str) -> None:
        """Do what `%matplotlib NAME` does, and print nothing."""
        self._shell.enable_matplotlib(name)

    def _restore_inline(self, wanted: Mapping[str, Json]) -> None:
        # Wiring the backend up now, before any cell draws, is what makes the first figure appear in its own cell.
        self.enable_backend("inline")
        inline = sys.modules["matplotlib_inline.backend_inline"]
        config = inline.InlineBackend.instance(parent=self._shell)
        config.close_figures = wanted["close_figures"]
        config.rc = wanted.get("rc", {})
        config.print_figure_kwargs = wanted.get("print_figure_kwargs", _PRINTING)
        config.figure_formats = set(wanted["figure_formats"])
        if "drawn" in wanted:
            formats, options = wanted["drawn"]
            sys.modules["IPython.core.pylabtools"].select_figure_formats(self._shell, formats, **options)

    # The end of the process

    def attach(self) -> None:
        """Begin to watch how this process ends."""
        if self._attached:
            return
        self._attached = True
        atexit.register(self._exiting)
        # IPython in a terminal empties the namespace at its end, before what is registered with atexit is called.
        self._patches.put(self._shell, "_atexit_once", self._wrap_end)
        self._shell.events.register("pre_run_cell", self._first_cell)
        if self.in_kernel:
            self._patches.put(self._shell.kernel, "do_shutdown", self._wrap_shutdown)

    def detach(self) -> None:
        """Stop watching and forget all callbacks; leaves no trace."""
        self._attached = False
        atexit.unregister(self._exiting)
        self._forget_first_cell()
        self._patches.undo()
        self._on_exit.clear()
        self._on_shutdown.clear()

    def brought(self, names: Iterable[str]) -> None:
        """Take note of names that came into the namespace by a restore while the extension was loading.

        When its configuration loads the extension, IPython takes all names that are there at the end of its start for
        its own and hides them; those of a restore are the person's.
        """
        self._brought = frozenset(names)

    def _first_cell(self, *_: object) -> None:
        self._forget_first_cell()
        hidden, namespace = self._shell.user_ns_hidden, self._shell.user_ns
        for name in self._brought:
            if name in hidden and hidden[name] is namespace.get(name):
                del hidden[name]
        while self._waiting:
            self.say(self._waiting.pop(0))

    def _forget_first_cell(self) -> None:
        if self._first_cell in self._shell.events.callbacks["pre_run_cell"]:
            self._shell.events.unregister("pre_run_cell", self._first_cell)

    def _wrap_end(self, end: Callable[[], None]) -> Callable[[], None]:
        def ending() -> None:
            self._exiting()
            end()

        return ending

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Call back once when the process ends in an orderly way, in the main thread, after the last cell."""
        self._on_exit.append(callback)

    def on_shutdown(self, callback: Callable[[bool], None]) -> None:
        """Call back at once when a person asks for a shutdown (True: a restart).

        Called in the control thread, possibly while a cell runs: the process may be killed before that cell ends, and
        then this is the only sign that the end was wanted.
        """
        self._on_shutdown.append(callback)

    def _wrap_shutdown(self, do_shutdown: Callable[[bool], Any]) -> Callable[[bool], Any]:
        def noting(restart: bool) -> Any:
            self.detach_reason = "restart" if restart else "shutdown"
            for callback in tuple(self._on_shutdown):
                callback(restart)
            return do_shutdown(restart)

        return noting

    def _exiting(self) -> None:
        # A forked child that ends normally runs this too, and nothing of it is the child's to close.
        if os.getpid() != self._pid:
            return
        with contextlib.ExitStack() as stack:
            while self._on_exit:
                stack.callback(self._on_exit.pop(0))
