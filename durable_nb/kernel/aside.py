"""Runs a cell's body once more without anybody seeing it: no outputs, no number, no entry in Out or the history.

Called by the engine through `Engine.run_aside` when a cell makes again what a checkpoint could not hold. IPython's own
transformations apply, so magics and shell lines work; a body with `await` is refused. Nothing here is recorded.
"""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from durable_nb.errors import UsageError
from durable_nb.kernel.outputs import muted

__all__ = ["run_aside"]


def run_aside(shell: Any, source: str, leave_out: Collection[str]) -> BaseException | None:
    """Run a body in the shell's namespace, without the top-level definitions in `leave_out`; return what it raised."""
    if threading.current_thread() is not threading.main_thread():
        return UsageError("it runs in the main shell only, not in a subshell or a thread")
    try:
        code, filename = _compiled(shell, source, leave_out)
    except (SyntaxError, UsageError) as error:
        return error
    with muted(shell), _without_new_figures():
        try:
            exec(code, shell.user_global_ns, shell.user_ns)
        except BaseException as raised:  # whatever it is, the engine records it and tells it
            return raised.with_traceback(_from_file(raised.__traceback__, filename))
    return None


def _compiled(shell: Any, source: str, leave_out: Collection[str]) -> tuple[Any, str]:
    transformed = shell.transform_cell(source)
    filename = shell.compile.cache(transformed, shell.displayhook.prompt_count, raw_code=source)
    tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename))
    statements = [node for node in tree.body if not _is_left_out(node, leave_out)]
    # The last expression is run like the others: its value is shown to nobody and is no result.
    with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        code = shell.compile(ast.Module(body=statements, type_ignores=[]), filename, "exec")
    if code.co_flags & inspect.CO_COROUTINE:
        raise UsageError("its cell awaits something, which can only be done by running the cell yourself")
    return code, filename


def _is_left_out(node: ast.stmt, leave_out: Collection[str]) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name in leave_out


@contextmanager
def _without_new_figures() -> Iterator[None]:
    """Take figures that pyplot registers meanwhile out of its list: the inline backend would show them in this cell."""
    before = set(_figures())
    try:
        yield
    finally:
        figures = _figures()
        for number in figures.keys() - before:
            del figures[number]


def _figures() -> dict[int, Any]:
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return helpers.Gcf.figs if helpers is not None else {}


def _from_file(traceback: TracebackType | None, filename: str) -> TracebackType | None:
    at = traceback
    while at is not None and at.tb_frame.f_code.co_filename != filename:
        at = at.tb_next
    return at or traceback
