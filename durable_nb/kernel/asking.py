"""What a front end asks of a kernel besides cells: Tab and Shift-Tab know the variables that are not loaded yet, and
what expressions change that come along with a cell or from the debugger is looked for.

Installed by `extension`; wraps the calls by which ipykernel answers a front end, and no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from durable_nb.capture.lazy import LazyNames
from durable_nb.errors import RestoreError
from durable_nb.kernel.patches import Patches

__all__ = ["Asking"]

_EVALUATES = frozenset({"evaluate", "setExpression", "setVariable"})  # commands of the debugger
_OPENED = re.compile(r"([^\W\d]\w*)\s*[.\[(]")
_TYPED = re.compile(r"(?:^|[^.\w])([^\W\d]\w*)\Z")


class Asking:
    """The names that a front end asks about are loaded before it is answered; `beside` surrounds code of its own."""

    def __init__(self, shell: Any, lazy: LazyNames, beside: Callable[[], AbstractContextManager[None]]) -> None:
        self._shell, self._kernel, self._lazy, self._beside = shell, getattr(shell, "kernel", None), lazy, beside
        self._patches = Patches()

    def install(self) -> None:
        """Begin to listen."""
        self._patches.put(self._shell, "user_expressions", self._wrap_expressions)
        if hasattr(self._kernel, "do_debug_request"):
            self._patches.put(self._kernel, "do_debug_request", self._wrap_debug)
        self._patches.put(self._kernel, "do_complete", self._wrap_complete)
        self._patches.put(self._kernel, "do_inspect", self._wrap_inspect)

    def remove(self) -> None:
        """Leave no trace."""
        self._patches.undo()

    def _wrap_complete(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def do_complete(code: str, cursor_pos: int | None, *args: Any, **more: Any) -> Any:
            line = _line(code, cursor_pos)
            # `x.` and `x[` ask for what is in it; a word that is being typed only for the names that there are.
            with suppress(RestoreError):  # a cell that needs it tells why
                self._lazy.load(_OPENED.findall(line))
            reply = answer(code, cursor_pos, *args, **more)
            typed = _TYPED.search(line)
            if typed is not None and self._lazy and isinstance(reply, dict) and "matches" in reply:
                names = [n for n in list(self._lazy.names) if n.startswith(typed[1]) and n.isidentifier()]
                reply["matches"] = [*reply["matches"], *(n for n in sorted(names) if n not in reply["matches"])]
            return reply

        return do_complete

    def _wrap_inspect(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def do_inspect(code: str, cursor_pos: int, *args: Any, **more: Any) -> Any:
            with suppress(RestoreError):
                self._lazy.load(re.findall(r"[^\W\d]\w*", _line(code, cursor_pos, whole=True)))
            return answer(code, cursor_pos, *args, **more)

        return do_inspect

    def _wrap_expressions(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def user_expressions(expressions: Mapping[str, str]) -> Any:
            with self._beside() if expressions else nullcontext():
                return answer(expressions)

        return user_expressions

    def _wrap_debug(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        async def do_debug_request(message: Mapping[str, Any]) -> Any:
            with self._beside() if message.get("command") in _EVALUATES else nullcontext():
                return await answer(message)

        return do_debug_request


def _line(code: str, cursor: int | None, *, whole: bool = False) -> str:
    """Return the line of the cursor, up to it or whole."""
    at = len(code) if cursor is None else cursor
    start, end = code.rfind("\n", 0, at) + 1, code.find("\n", at)
    return code[start : (len(code) if end < 0 else end) if whole else at]
