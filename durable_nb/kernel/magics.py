"""The magics: `%%durable`, `%durable VERB`, `%durable on|off` and `%%durable_sql`.

Registered by `extension`. A `%%durable` that is the first line of a cell never gets here (see `intercept`); this class
makes it known to `%lsmagic`, `%%durable?` and Tab, and runs it where IPython calls it as a magic.
"""

# IPython has no types, so its decorators and base class are Any here.
# mypy: disallow-untyped-decorators=False, disallow-subclassing-any=False
from __future__ import annotations

import json
import keyword
from collections.abc import Callable, Sequence
from typing import Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.display import display

from durable_nb.errors import DurableError, UsageError
from durable_nb.kernel.completing import SWITCHES, Completing
from durable_nb.kernel.intercept import Interceptor, one_line
from durable_nb.kernel.options import nearest, split, working_options

__all__ = ["DurableMagics"]

RunVerb = Callable[[str, list[str]], Any]
RunSql = Callable[[str, str | None], Any]


def _documented(method: Callable[..., Any]) -> Callable[..., Any]:
    """Give a magic the arguments of the option table, for its help; the line itself is read by `options.parse`."""
    # IPython puts another % before the name that it shows.
    for option in reversed(working_options()):
        how: dict[str, Any] = {"action": "store_true"} if option.kind == "flag" else {"metavar": option.metavar}
        method = argument(option.name, help=option.description, **how)(method)
    method = argument("name", metavar="NAME", nargs="?", help="Name of the cell in the history.")(method)
    documented: Callable[..., Any] = magic_arguments("%durable")(method)
    return documented


@magics_class
class DurableMagics(Magics):
    """What a person can type; the work is done by the callables it was given.

    `run_verb(verb, arguments)` returns an object with a repr and `to_json()`; `run_sql(query, save_as)` returns an
    object to display and has already put it into the namespace if there is a name to save it as. `subjects(verb)` are
    the words that Tab offers behind a verb.
    """

    def __init__(
        self,
        shell: Any,
        interceptor: Interceptor,
        *,
        verbs: Sequence[str],
        run_verb: RunVerb,
        run_sql: RunSql,
        subjects: Callable[[str], Sequence[str]] = lambda verb: (),
    ) -> None:
        super().__init__(shell)
        self._interceptor = interceptor
        self._verbs = tuple(verbs)
        self._run_verb = run_verb
        self._run_sql = run_sql
        self._completing = Completing(shell, verbs=self._verbs, subjects=subjects)

    @no_var_expand
    @line_magic("durable")
    def durable_line(self, line: str) -> None:
        """Act on this notebook: `%durable VERB …`, or make every cell durable: `%durable on`, `%durable off`.

        Every verb takes --json; `%durable help` lists them, `%durable help VERB` tells how to use one. `%durable` alone
        is `%durable status`.
        """
        __tracebackhide__ = True
        try:
            words = split(line)
            verb, arguments = (words[0], words[1:]) if words else ("status", [])
            if verb == "--json":
                verb, arguments = "status", words
            if verb in SWITCHES:
                self._switch(verb, arguments)
            else:
                self._act(verb, arguments)
        except DurableError as error:
            raise one_line(error) from None

    @no_var_expand
    @cell_magic("durable")
    @_documented
    def durable_cell(self, line: str, cell: str) -> None:
        """Make this cell an activity: it is saved when it has finished, and skipped after a crash."""
        __tracebackhide__ = True
        try:
            self._interceptor.run_nested(line, cell)
        except DurableError as error:
            raise one_line(error) from None

    @no_var_expand
    @cell_magic("durable_sql")
    @magic_arguments("%durable_sql")
    @argument("--save", metavar="NAME", help="Keep the result as this variable.")
    def durable_sql(self, line: str, cell: str) -> None:
        """Query this notebook's history by SQL: table `events` and the views over it."""
        __tracebackhide__ = True
        try:
            save_as = _save_as(split(line))
            if not cell.strip():
                raise UsageError("%%durable_sql needs a query below its line, such as SELECT * FROM activities.")
            display(self._run_sql(cell, save_as))
        except DurableError as error:
            raise one_line(error) from None

    def register(self) -> None:
        """Make the magics and their completion known to the shell."""
        self.shell.register_magics(self)
        self._completing.install()

    def unregister(self) -> None:
        """Take the magics and their completion away again."""
        manager = self.shell.magics_manager
        for kind, names in (("line", ("durable",)), ("cell", ("durable", "durable_sql"))):
            for name in names:
                registered = manager.magics[kind].get(name)
                if getattr(registered, "__self__", None) is self:
                    del manager.magics[kind][name]
        if manager.registry.get(type(self).__name__) is self:
            del manager.registry[type(self).__name__]
        self._completing.remove()

    def _switch(self, verb: str, arguments: list[str]) -> None:
        if arguments:
            raise UsageError(
                f"%durable {verb} takes nothing more, but {' '.join(arguments)!r} was given; nothing changed."
            )
        self._interceptor.every = verb == "on"
        print("Every cell is durable now." if verb == "on" else "Only cells that begin with %%durable are durable now.")

    def _act(self, verb: str, arguments: list[str]) -> None:
        as_json = "--json" in arguments
        result = self._run_verb(verb, [word for word in arguments if word != "--json"])
        if as_json:
            shown = result.to_json()
            print(shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, indent=2))
        elif result is not None:
            display(result)


def _save_as(words: Sequence[str]) -> str | None:
    """Return the name behind --save in the line of `%%durable_sql`, or None."""
    name: str | None = None
    at = iter(words)
    for word in at:
        flag, given, value = word.partition("=")
        if flag != "--save":
            meant = " Did you mean --save?" if flag.startswith("-") and nearest(flag, ("--save",)) else ""
            raise UsageError(
                f"%%durable_sql has no {'option' if flag.startswith('-') else 'argument'} {flag}.{meant} "
                "Usage: %%durable_sql [--save NAME]. The query did not run."
            )
        name = value if given else next(at, "")
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"--save needs a variable's name, but {name!r} is not one. The query did not run.")
    return name
