"""The option line of `%%durable`: one table of all options, and the pure function that reads a line by it.

Called by `intercept` and `magics` before a cell runs; when `parse` returns, every option is known, has a value of the
right kind and can be acted on by this version. Whatever is wrong is a `UsageError` and nothing has run.
"""

from __future__ import annotations

import ast
import difflib
import functools
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from durable_nb.engine.effects import CellOptions
from durable_nb.errors import UsageError

__all__ = ["OPTIONS", "CellOptions", "Option", "nearest", "parse", "split", "working_options"]

NOT_RUN = "The cell did not run."
_NAME = re.compile(r"\w[\w.\-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: what it is called in a magic line (`name`) and in Python and files (`keyword`), and what it takes.

    `kind` is flag, expression, list or choice. An option that is not `available` is refused by name.
    """

    name: str
    keyword: str
    description: str
    kind: str = "flag"
    metavar: str = ""
    choices: tuple[str, ...] = ()
    later_choices: tuple[str, ...] = ()
    available: bool = True


def _option(name: str, description: str, **more: Any) -> Option:
    return Option(name=name, keyword=name[2:].replace("-", "_"), description=description, **more)


def _later(*names: str) -> Iterable[Option]:
    return (_option(name, "comes with a later version", kind="later", available=False) for name in names)


OPTIONS: tuple[Option, ...] = (
    _option("--rerun", "Run even if nothing changed."),
    _option("--setup", "For connections, clients, magics: run again by itself on restore, never skipped."),
    _option("--key", "A further input to compare: the value of this expression.", kind="expression", metavar="EXPR"),
    _option("--depends", "Files that are inputs, compared by content.", kind="list", metavar="PATH,…"),
    _option("--skip-if", "Skip the cell when this expression is true.", kind="expression", metavar="EXPR"),
    _option("--include", "Save only the names that match (repeatable).", kind="list", metavar="PATTERN"),
    _option("--exclude", "Do not save the names that match (repeatable).", kind="list", metavar="PATTERN"),
    _option(
        "--durability",
        "sync commits before the reply; async lets another process commit, which outlives the kernel.",
        kind="choice",
        metavar="sync|async",
        choices=("sync", "async"),
        later_choices=("exit",),
    ),
    _option(
        "--on-unserializable",
        "What cannot be stored: report it, fail the cell, or recompute (run this cell again by itself on restore).",
        kind="choice",
        metavar="report|fail|recompute",
        choices=("report", "fail", "recompute"),
    ),
    *_later("--phase", "--verify", "--on-code-change"),
    *_later("--max-attempts", "--initial-interval", "--backoff-coefficient", "--max-interval", "--jitter"),
    *_later("--retry-on", "--no-retry-on", "--on-exhausted"),
    *_later("--timeout", "--heartbeat-timeout", "--schedule-to-close-timeout", "--semantics"),
    *_later("--checkpoint", "--compensate"),
    *_later("--executor", "--task-queue", "--attr", "--summary"),
)


def working_options() -> tuple[Option, ...]:
    """Return the options that this version acts on, in the order in which help shows them."""
    return tuple(option for option in OPTIONS if option.available)


@functools.lru_cache(maxsize=64)
def parse(line: str) -> tuple[str, CellOptions]:
    """Read what follows `%%durable` on its line into the cell's name (or "") and its options; raise UsageError."""
    tokens = split(line)
    table = {option.name: option for option in OPTIONS}
    name = ""
    given: dict[str, Any] = {}
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if not token.startswith("-"):
            name = _name(token, name)
            continue
        flag, has_value, value = token.partition("=")
        option = table.get(flag)
        if option is None:
            raise _unknown(flag)
        if not option.available:
            raise UsageError(f"{flag} comes with a later version of durable_nb; the cell did not run.")
        if option.kind == "flag":
            if has_value:
                raise UsageError(f"{flag} takes no value, but {value!r} was given.", hint=NOT_RUN)
        elif not has_value:
            if at == len(tokens) or tokens[at] in table:
                raise UsageError(f"{flag} needs a value: {flag} {option.metavar}.", hint=NOT_RUN)
            value = tokens[at]
            at += 1
        _set(given, option, value)
    return name, CellOptions(**given)


def split(line: str) -> list[str]:
    """Split a magic line into words as a shell would (quotes, backslashes); raise UsageError at an open quote."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"Cannot read {line.strip()!r}: {str(error).lower()}.", hint=NOT_RUN) from error


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the known word that `word` was probably meant to be, or ""."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else ""


def _name(token: str, earlier: str) -> str:
    if earlier:
        raise UsageError(f"A cell has one name, but {earlier!r} and {token!r} were given.", hint=NOT_RUN)
    if not _NAME.fullmatch(token):
        raise UsageError(
            f"{token!r} is not a name: letters, digits, '_', '-' and '.', at most 100 of them, "
            "the first one a letter, a digit or '_'.",
            hint=NOT_RUN,
        )
    return token


def _unknown(flag: str) -> UsageError:
    names = [option.name for option in working_options()]
    if flag in ("-h", "--help"):
        return UsageError("Type %%durable? in a cell of its own for help.", hint=NOT_RUN)
    # The nearest of all options is named even when it is refused: that it comes later is what the person needs to know.
    guess = nearest("--" + flag.lstrip("-").lower(), [option.name for option in OPTIONS])
    advice = f"did you mean {guess}?" if guess else f"the options are {', '.join(names)}."
    return UsageError(f"%%durable has no option {flag}; {advice}", hint=NOT_RUN)


def _set(given: dict[str, Any], option: Option, value: str) -> None:
    if option.kind == "list":
        items = tuple(part.strip() for part in value.split(",") if part.strip())
        if not items:
            raise UsageError(f"{option.name} needs a value: {option.name} {option.metavar}.", hint=NOT_RUN)
        given[option.keyword] = given.get(option.keyword, ()) + items
        return
    if option.keyword in given:
        raise UsageError(f"{option.name} was given twice.", hint=NOT_RUN)
    if option.kind == "flag":
        given[option.keyword] = True
    elif option.kind == "expression":
        given[option.keyword] = _expression(option, value)
    else:
        given[option.keyword] = _choice(option, value)


def _expression(option: Option, value: str) -> str:
    try:
        ast.parse(value.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise UsageError(
            f"{option.name} needs a Python expression, but {value!r} is not one; put it in quotes if it has spaces.",
            hint=NOT_RUN,
        ) from error
    return value.strip()


def _choice(option: Option, value: str) -> str:
    if value in option.choices:
        return value
    offered = " or ".join(option.choices)
    if value in option.later_choices:
        raise UsageError(
            f"{option.name} {value} comes with a later version of durable_nb (now there is {offered}); "
            "the cell did not run."
        )
    raise UsageError(f"{option.name} is {offered}, not {value!r}.", hint=NOT_RUN)
