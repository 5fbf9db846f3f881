"""The command line: `durable-nb VERB [NOTEBOOK|FOLDER] …`, also reachable as `jupyter durable`.

Arguments become calls of the same verbs that `%durable` uses, errors become exit codes: 0 done, 1 the verb says no
(damage found, a check failed), 2 wrong usage, 3 not possible.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from durable_nb import __version__
from durable_nb.clock import SystemClock
from durable_nb.config import Settings
from durable_nb.errors import DurableError, UsageError
from durable_nb.history import fold
from durable_nb.store.process_identity import this_process
from durable_nb.store.workflow import Workflow
from durable_nb.verbs import Context, Report, check, help_on, run
from durable_nb.verbs.arguments import FLAGS
from durable_nb.verbs.checks import run_checks
from durable_nb.verbs.opening import (
    FOLDER,
    history_folder,
    locate,
    new_run_id,
    only_workflow,
    open_projection,
    open_repository,
    told_where,
    when_drained,
)
from durable_nb.verbs.trusting import accept, accepted, key_path_of

__all__ = ["main"]

OK, SAYS_NO, USAGE, NOT_POSSIBLE = 0, 1, 2, 3
COMMAND = "durable-nb"
# These are about all notebooks of a folder; the others need to know which one.
_OF_FOLDER = frozenset({"list", "sql", "verify", "gc", "doctor"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["durable"]:
        words = words[1:]  # `jupyter durable VERB` hands its own word on
    if words[:1] and words[0] in ("-V", "--version"):
        print(__version__)
        return OK
    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    try:
        report = _answer(words[0], words[1:]) if words else _help()
        _show(report.to_json() if as_json else repr(report))
    except UsageError as error:
        print(f"durable-nb: {error}", file=sys.stderr)
        return USAGE
    except (DurableError, OSError) as error:
        print(f"durable-nb: {error}", file=sys.stderr)
        return NOT_POSSIBLE
    return OK if report.ok else SAYS_NO


def _show(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Whoever read this has enough (`| head`); what is left in the buffer must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _answer(verb: str, words: list[str]) -> Report:
    told = help_on(verb, words, COMMAND)
    if told is not None:
        return told if words else _help()
    return _demo(words) if verb == "demo" else _run(verb, words)


def _help() -> Report:
    told = help_on("help", (), COMMAND)
    assert told is not None
    usage = f"usage: {COMMAND} VERB [NOTEBOOK or FOLDER] [arguments] [--json]"
    return Report(lines=[usage, "", "verbs:", *told.lines], data=told.data)


def _demo(words: Sequence[str]) -> Report:
    from durable_nb.kernel.demo import demo

    check("demo", words)
    return demo(words)


def _run(verb: str, words: list[str]) -> Report:
    clock = SystemClock()
    settings = Settings.from_environment(os.environ)
    target, rest = _target(verb, words)
    _check(verb, target, rest)
    place = locate(settings, notebook=target if target.endswith(".ipynb") else "", cwd=_folder(target))
    if verb == "trust":
        # The history may be unreadable until it is trusted, so nothing of it is opened here.
        return _trust(settings, history_folder(Path(rest[0]).expanduser()) if rest else place.folder)
    repository = open_repository(settings, place.folder, clock=clock, create=False, trust="--trust" in rest)
    workflow = None
    of_folder = verb in _OF_FOLDER
    if place.named or not of_folder:
        workflow_id = only_workflow(repository, place.workflow_id if place.named else None)
        # A damaged or foreign history must not keep `verify` and `list` from telling so.
        with told_where(place.folder):
            workflow = None if of_folder else repository.workflow(workflow_id, kernel_id="command", owner=None)

    def take_lease() -> Workflow:
        owner = this_process("command", clock)
        return when_drained(
            repository, context.workflow.workflow_id, owner, lambda line: print(line, file=sys.stderr, flush=True)
        )

    context = Context(
        folder=place.folder,
        repository=repository,
        opened=workflow,
        state=fold(workflow.events() if workflow is not None else ()),
        clock=clock,
        settings=settings,
        projection=open_projection(repository, place.folder, workflow),
        engine=None,
        prefix=COMMAND,
        take_lease=take_lease,
        new_run_id=lambda: new_run_id(clock),
        trust=lambda folder: accept(settings, folder),
        demo=_demo,
        checks=lambda: run_checks(repository, place.folder, clock, key_path_of(settings)),
    )
    return run(verb, rest, context)


def _check(verb: str, target: str, rest: list[str]) -> None:
    """Refuse a wrong line; a word too many may have been meant as the folder, which is then not there."""
    try:
        check(verb, rest)
    except UsageError as error:
        word = error.details.get("word")
        if target or word is None:
            raise
        raise UsageError(
            f"`{verb}` takes no {word!r}, and there is no folder of that name; nothing was done. "
            f"Usage: {COMMAND} {verb} [NOTEBOOK or FOLDER]"
        ) from None


def _trust(settings: Settings, folder: Path) -> Report:
    folder = history_folder(folder)
    return accepted(folder, accept(settings, folder))


def _target(verb: str, words: list[str]) -> tuple[str, list[str]]:
    """Tell the notebook or folder from the verb's own arguments: the first notebook, else the first folder."""
    for is_one in (_is_notebook, lambda word: _is_folder(word, takes_words=FLAGS.get(verb, ("", 0, {}))[1] > 0)):
        for i, word in enumerate(words):
            if is_one(word):
                return word, words[:i] + words[i + 1 :]
    return "", words


def _is_notebook(word: str) -> bool:
    return word.endswith(".ipynb") and not word.startswith("-")


def _is_folder(word: str, *, takes_words: bool) -> bool:
    # `isdir` takes any text, such as a query, which is no path at all.
    if word.startswith("-") or not os.path.isdir(word):
        return False
    # `why a` means the cell, also where there is a folder `a` that has nothing to do with it.
    told = os.sep in word or word in (os.curdir, os.pardir) or word == FOLDER
    return told or not takes_words or os.path.isdir(os.path.join(word, FOLDER))


def _folder(target: str) -> Path:
    path = Path(target) if target else Path.cwd()
    if path.is_dir():
        path = path.absolute()
        return path.parent if path.name == FOLDER else path
    return Path.cwd()


if __name__ == "__main__":
    sys.exit(main())
