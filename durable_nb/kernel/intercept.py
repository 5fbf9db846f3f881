"""Stands between IPython and the body of a durable cell, and drives the engine's generator around it.

IPython itself runs the body, exactly as if the header were not there (decisions/0001): an input transformer takes the
`%%durable` line away before IPython looks at the cell, and `Interceptor` wraps `run_ast_nodes`, the one call that
executes a cell. Installed and removed by `extension`; `magics` uses `run_nested` where IPython calls `%%durable` as a
magic. When the wrapped call returns, the engine has finished with the cell.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Protocol

from IPython.core.error import UsageError as ShellUsageError

from durable_nb.engine.effects import NO_RESULT, BodyOutcome, CellOptions, CellRequest
from durable_nb.errors import DurableError, UsageError
from durable_nb.kernel.options import NOT_RUN, parse
from durable_nb.kernel.outputs import OutputRecorder
from durable_nb.kernel.patches import Patches
from durable_nb.model import Output

__all__ = ["Interceptor", "RunsCells", "one_line", "split_header"]

_HEADER = re.compile(r"[ \t]*%%durable(?:[ \t]+(?P<line>[^\r\n]*?))?[ \t]*(?:\r\n|\r|\n)?\Z")
_OURS = re.compile(r"%durable(?![\w?])|%(?:re|un)?load_ext\s+durable_nb\s*$")


class RunsCells(Protocol):
    """What is needed of the engine."""

    def run_cell(self, request: CellRequest) -> Generator[Any, Any, None]:
        """Yield `Execute` each time the body is to run, and nothing else; be sent a BodyOutcome."""
        ...

    def beside(self, request: CellRequest | None) -> AbstractContextManager[None]:
        """Return the block in which code that is no cell runs; None: such as nobody can analyse beforehand."""
        ...


def split_header(cell: str) -> tuple[str, str, int] | None:
    """Return (option line, body, number of lines before the body) of a cell that begins with `%%durable`, else None.

    As for every cell magic only blank lines may come before it.
    """
    if "%%durable" not in cell:
        return None
    lines = cell.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if line.isspace():
            continue
        found = _HEADER.match(line)
        return (found["line"] or "", "".join(lines[at + 1 :]), at + 1) if found else None
    return None


def one_line(error: DurableError) -> BaseException:
    """Return an exception that IPython shows as one line: what went wrong is told by the words, not by our frames."""
    if isinstance(error, UsageError):
        usage: BaseException = ShellUsageError(str(error))
        return usage
    shown = error.with_traceback(None)
    line = f"{type(error).__name__}: {error}"
    shown._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
    return shown


class Interceptor:
    """Has the engine run the person's cells, the durable and the plain ones; `every` makes all of them durable."""

    def __init__(self, shell: Any, engine: RunsCells) -> None:
        self.every = False
        self.before_showing: Callable[[BaseException], None] = lambda error: None
        self._shown: BaseException | None = None
        self._shell = shell
        self._engine = engine
        self._patches = Patches()
        self._shifts: dict[str, int] = {}
        self._plain: Callable[..., Awaitable[Any]] = shell.run_ast_nodes
        self._running = False
        self._depth = 0
        self._installed = False

    def install(self) -> None:
        """Begin to intercept."""
        if self._installed:
            return
        self._installed = True
        self._shell.input_transformers_cleanup.insert(0, self._take_header)
        self._patches.put(self._shell.compile, "cache", self._wrap_cache)
        self._patches.put(self._shell.compile, "ast_parse", self._wrap_parse)
        self._patches.put(self._shell, "run_ast_nodes", self._wrap_run)
        self._patches.put(self._shell, "showtraceback", self._wrap_show)

    @property
    def busy(self) -> bool:
        """Whether a cell runs, perhaps waiting for something."""
        return self._depth > 0

    def remove(self) -> None:
        """Stop intercepting and leave no trace, also when called by a cell that runs."""
        self._installed = False
        self.every = False
        transformers = self._shell.input_transformers_cleanup
        transformers[:] = [one for one in transformers if one != self._take_header]
        self._patches.undo()
        self._shifts.clear()

    def _take_header(self, lines: list[str]) -> list[str]:
        # While a cell runs, text comes here from magics such as `%%time` that transform their own body: a `%%durable`
        # in it is a magic below theirs and has to stay one.
        found = None if self._depth else split_header("".join(lines))
        return lines if found is None else lines[found[2] :]

    # IPython leaves such transformers out when it only asks whether a typed cell is complete: with its header a durable
    # cell is complete after a blank line, like every cell magic.
    _take_header.has_side_effects = True  # type: ignore[attr-defined]

    # Line numbers: the body's are those of the cell as the person sees it, header included; so links in tracebacks,
    # warnings, breakpoints and syntax errors point at the right line.

    def _wrap_cache(self, cache: Callable[..., str]) -> Callable[..., str]:
        def with_header(transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
            name = cache(transformed_code, number, raw_code)
            found = split_header(raw_code or "") if self._installed and not self._depth else None
            self._shifts.pop(name, None)
            if found is not None and not found[1].lstrip().startswith("%%"):
                before = len(found[1]) - len(found[1].lstrip("\r\n \t")) if found[1].strip() else 0
                count = found[2] + found[1][:before].count("\n")
                lines = ["\n"] * count + linecache.getlines(name)
                linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
                self._shifts[name] = count
            return name

        return with_header

    def _wrap_parse(self, ast_parse: Callable[..., ast.AST]) -> Callable[..., ast.AST]:
        def shifted(source: str, filename: str = "<unknown>", symbol: str = "exec") -> ast.AST:
            count = self._shifts.get(filename, 0)
            try:
                tree = ast_parse(source, filename, symbol)
            except SyntaxError as error:
                if error.filename == filename and error.lineno is not None:
                    error.lineno += count
                    error.end_lineno = None if error.end_lineno is None else error.end_lineno + count
                raise
            return ast.increment_lineno(tree, count) if count else tree

        return shifted

    def _wrap_show(self, show: Callable[..., None]) -> Callable[..., None]:
        def showtraceback(exc_tuple: Any = None, *args: Any, **more: Any) -> None:
            error = sys.exc_info()[1] if exc_tuple is None else exc_tuple[1]
            if isinstance(error, BaseException):
                self.before_showing(error)
                # Shown by a magic that swallows it, the error ended the body; shown by the body itself, it did not.
                by = sys._getframe(1).f_globals.get("__name__", "")
                if by.startswith("IPython.") and threading.current_thread() is threading.main_thread():
                    self._shown = error
            show(exc_tuple, *args, **more)

        return showtraceback

    # First driver: IPython executes a cell.

    def _wrap_run(self, run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        self._plain = run

        async def run_ast_nodes(nodelist: list[ast.stmt], cell_name: str, *args: Any, **more: Any) -> Any:
            result = more.get("result")
            try:
                request = self._request(nodelist, result)
            except UsageError as error:
                return self._fail(one_line(error), result)
            if threading.current_thread() is not threading.main_thread():
                with self._engine.beside(None):
                    return await run(nodelist, cell_name, *args, **more)
            self._depth += 1
            try:
                if request is None:
                    info = self._look(result)
                    looks = info and self._describe(info, result, source=info.raw_cell, durable=False)
                    with self._engine.beside(looks) if looks else nullcontext():
                        return await run(nodelist, cell_name, *args, **more)
                return await self._drive(request, lambda: run(nodelist, cell_name, *args, **more), result)
            finally:
                self._depth -= 1

        return run_ast_nodes

    def _request(self, nodelist: Sequence[ast.stmt], result: Any) -> CellRequest | None:
        info = getattr(result, "info", None)
        if not self._installed or self._depth or info is None or not isinstance(info.raw_cell, str):
            return None
        header = split_header(info.raw_cell)
        if header is None:
            return self._request_without_header(info, nodelist, result)
        _main_thread_only()
        line, body, _count = header
        name, options = parse(line)
        if not body.strip():
            hint = "For a verb use one %: %durable status."
            raise UsageError("%%durable needs a cell body below its line.", hint=hint)
        if not nodelist:
            return None
        return self._describe(info, result, source=body, name=name, options=options, durable=True)

    def _request_without_header(self, info: Any, nodelist: Sequence[ast.stmt], result: Any) -> CellRequest | None:
        """Describe a person's cell: plain, or with `%durable on` durable; None for what the engine need not know."""
        if not nodelist or info.silent or not info.store_history:
            return None
        if threading.current_thread() is not threading.main_thread():
            return None
        code = _code_lines(info.raw_cell)
        if _only_ours(code):
            return None
        # `%%time` above `%%durable`: the magic below makes its own body durable, with its own name and options.
        magics = itertools.takewhile(lambda line: line.startswith("%%"), code)
        durable = self.every and not any(_HEADER.match(line) for line in magics)
        return self._describe(info, result, source=info.raw_cell, durable=durable)

    def _look(self, result: Any) -> Any:
        """Return what is known of a run by which a front end reads variables, as an inspector does; None for a cell."""
        info = getattr(result, "info", None)
        if self._depth > 1 or info is None:
            return None
        shows = bool(info.silent or not info.store_history) and not _only_ours(_code_lines(info.raw_cell))
        return info if shows else None

    def _describe(self, info: Any, result: Any, **more: Any) -> CellRequest:
        count = getattr(result, "execution_count", None) or self._shell.displayhook.prompt_count
        transformed = getattr(info, "transformed_cell", None) or self._shell.transform_cell(info.raw_cell)
        return CellRequest(
            transformed=transformed,
            # Parsed anew: the nodes that run carry the cell's line numbers, the engine wants those of `transformed`.
            tree=ast.parse(transformed),
            cell_id=getattr(info, "cell_id", None),
            execution_count=count,
            **more,
        )

    async def _drive(self, request: CellRequest, body: Callable[[], Awaitable[Any]], result: Any) -> Any:
        flow = self._engine.run_cell(request)
        outcome: BodyOutcome | None = None
        self._running = request.durable
        execute = self._execute if request.durable else self._execute_plain
        try:
            try:
                flow.send(None)
                while True:
                    # A body without `await` never suspends here, so that Ctrl-C reaches it as without us.
                    outcome = await execute(body, result)
                    flow.send(outcome)
            except StopIteration:
                return outcome is not None and outcome.error is not None
        except DurableError as refused:
            return self._fail(one_line(refused), result)
        except KeyboardInterrupt as interrupt:
            return self._fail(_interrupted(interrupt, ran=outcome is not None), result)
        except Exception as failure:
            # Raised further, this would end a cell with `await` without any reply to the front end.
            return self._fail(failure, result)
        finally:
            self._running = False
            flow.close()

    async def _execute(self, body: Callable[[], Awaitable[Any]], result: Any) -> BodyOutcome:
        recorder = OutputRecorder(self._shell)
        self._shown = None
        try:
            recorder.start()
            await body()
        except KeyboardInterrupt as interrupt:
            # IPython has caught what the body raised, so this came in the instant before or behind it.
            self._fail(interrupt.with_traceback(None), result)
        outputs = self._stop(recorder, result)
        # `%run`, and `%%time` of IPython 8, show an error and go on: to the front end all is well, but such a cell has
        # not finished its work.
        error = result.error_before_exec or result.error_in_exec or self._shown
        value = NO_RESULT if result.result is None else result.result
        return BodyOutcome(error=error, outputs=outputs, result=value)

    async def _execute_plain(self, body: Callable[[], Awaitable[Any]], result: Any) -> BodyOutcome:
        await body()
        return BodyOutcome(error=result.error_before_exec or result.error_in_exec)

    def _stop(self, recorder: OutputRecorder, result: Any) -> tuple[Output, ...]:
        try:
            return recorder.stop()
        except KeyboardInterrupt as error:
            self._fail(error.with_traceback(None), result)
            return ()

    def _fail(self, error: BaseException, result: Any) -> bool:
        if hasattr(self._shell, "_last_traceback"):
            # A usage line has no traceback; ipykernel would put the one of an earlier cell into the reply.
            self._shell._last_traceback = [f"{type(error).__name__}: {error}"]
        self._shell.showtraceback((type(error), error, error.__traceback__))
        if result.error_in_exec is None and result.error_before_exec is None:
            result.error_in_exec = error
        return True

    # Second driver: IPython calls `%%durable` as a magic, below another one or through run_cell_magic.

    def run_nested(self, line: str, body: str) -> None:
        """Run `body` as a durable cell inside the cell that runs now; the user's exception comes out as itself."""
        __tracebackhide__ = True
        name, options = parse(line)
        _main_thread_only()
        if self._running:
            raise UsageError("This code runs in a durable cell already; %%durable cannot be nested.", hint=NOT_RUN)
        request, codes, filename = self._compile_nested(body, name, options)
        flow = self._engine.run_cell(request)
        outcome: BodyOutcome | None = None
        self._running = True
        try:
            flow.send(None)
            while True:
                outcome = self._execute_nested(codes, request.execution_count)
                flow.send(outcome)
        except StopIteration:
            pass
        finally:
            self._running = False
            flow.close()
        if outcome is not None and outcome.error is not None:
            raise outcome.error.with_traceback(_from_file(outcome.error.__traceback__, filename))

    def _compile_nested(self, body: str, name: str, options: CellOptions) -> tuple[CellRequest, list[Any], str]:
        shell = self._shell
        count = shell.displayhook.prompt_count
        transformed = shell.transform_cell(body)
        filename = shell.compile.cache(transformed, count, raw_code=body)
        tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename))
        interactive: list[ast.stmt] = []
        statements = list(tree.body)
        silenced = shell.displayhook.semicolon_at_end_of_expression(transformed)
        if statements and isinstance(statements[-1], ast.Expr) and not silenced:
            interactive = [statements.pop()]
        with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
            codes = [shell.compile(ast.Module(body=statements, type_ignores=[]), filename, "exec")]
            if interactive:
                codes.append(shell.compile(ast.Interactive(body=interactive), filename, "single"))
        if any(code.co_flags & inspect.CO_COROUTINE for code in codes):
            raise UsageError("A body with `await` needs %%durable as the first line of its cell.", hint=NOT_RUN)
        request = CellRequest(
            source=body,
            transformed=transformed,
            tree=ast.parse(transformed),
            name=name,
            options=options,
            cell_id=None,
            execution_count=count,
            durable=True,
        )
        return request, codes, filename

    def _execute_nested(self, codes: Sequence[Any], count: int) -> BodyOutcome:
        shell = self._shell
        failure: BaseException | None = None
        shell.user_ns["_oh"].pop(count, None)
        recorder = OutputRecorder(shell)
        recorder.start()
        try:
            for code in codes:
                exec(code, shell.user_global_ns, shell.user_ns)
        except BaseException as raised:  # whatever it is, the engine hears of it and it is raised again
            failure = raised
        finally:
            outputs = recorder.stop()
        value = shell.user_ns["_oh"].get(count, NO_RESULT)
        return BodyOutcome(error=failure, outputs=outputs, result=value)


def _code_lines(cell: str) -> list[str]:
    lines = [line.strip() for line in cell.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _only_ours(code: Sequence[str]) -> bool:
    return not code or code[0].startswith("%%durable_sql") or all(map(_OURS.match, code))


def _main_thread_only() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("%%durable works in the main shell only, not in a subshell or a thread.", hint=NOT_RUN)


def _interrupted(error: KeyboardInterrupt, *, ran: bool) -> BaseException:
    # The engine says itself how far it had come, if it knows.
    words = str(error) or (
        "interrupted while the cell's result was being saved; the result is in memory, run the cell again to save it."
        if ran
        else "interrupted before the cell's body ran; nothing changed."
    )
    shown = KeyboardInterrupt(words).with_traceback(None)
    shown.__cause__ = error
    shown._render_traceback_ = lambda: [f"KeyboardInterrupt: {words}"]  # type: ignore[attr-defined]
    return shown


def _from_file(traceback: TracebackType | None, filename: str) -> TracebackType | None:
    at = traceback
    while at is not None and at.tb_frame.f_code.co_filename != filename:
        at = at.tb_next
    return at or traceback
