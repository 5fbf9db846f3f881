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
from durable_nb.verbs import VERBS, Context, Report, run
from durable_nb.verbs.arguments import FLAGS, usage
from durable_nb.verbs.checks import run_checks
from durable_nb.verbs.opening import (
    FOLDER,
    locate,
    new_run_id,
    only_workflow,
    open_projection,
    open_repository,
)
from durable_nb.verbs.trusting import accept, key_path_of

__all__ = ["main"]

OK, SAYS_NO, USAGE, NOT_POSSIBLE = 0, 1, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["durable"]:
        words = words[1:]  # `jupyter durable VERB` hands its own word on
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return OK
    if words[0] in ("-V", "--version"):
        print(__version__)
        return OK
    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    try:
        report = _demo(words[1:]) if words[0] == "demo" else _run(words[0], words[1:])
    except UsageError as error:
        print(f"durable-nb: {error}", file=sys.stderr)
        return USAGE
    except (DurableError, OSError) as error:
        print(f"durable-nb: {error}", file=sys.stderr)
        return NOT_POSSIBLE
    print(report.to_json() if as_json else repr(report))
    return OK if report.ok else SAYS_NO


def _help() -> str:
    lines = ["usage: durable-nb VERB [NOTEBOOK or FOLDER] [arguments] [--json]", "", "verbs:"]
    for name, action in VERBS.items():
        lines.append(f"  {usage(name).removesuffix(' [--json]'):46} {(action.__doc__ or '').splitlines()[0]}")
    return "\n".join(lines)


def _demo(words: Sequence[str]) -> Report:
    from durable_nb.kernel.demo import demo

    return demo(words)


def _run(verb: str, words: list[str]) -> Report:
    clock = SystemClock()
    settings = Settings.from_environment(os.environ)
    target, rest = _target(verb, words)
    place = locate(settings, notebook=target if target.endswith(".ipynb") else "", cwd=_folder(target))
    if verb == "trust" and not rest:
        rest = [str(place.folder)]
    repository = open_repository(settings, place.folder, clock=clock, create=False, trust="--trust" in rest)
    if verb == "trust":
        # The history may be unreadable until it is trusted, so nothing of it is opened here.
        count = accept(settings, place.folder)
        line = f"{count} objects in {place.folder} are trusted from now on." if count else "It was trusted already."
        return Report(lines=[line], data={"folder": str(place.folder), "accepted": count})
    workflow_id = only_workflow(repository, place.workflow_id if place.named else None)
    workflow = repository.workflow(workflow_id, kernel_id="command", owner=None)

    def take_lease() -> Workflow:
        owner = this_process("command", clock)
        return repository.workflow(workflow_id, kernel_id="command", owner=owner)

    context = Context(
        folder=place.folder,
        repository=repository,
        workflow=workflow,
        state=fold(workflow.events()),
        clock=clock,
        settings=settings,
        projection=open_projection(repository, place.folder, workflow),
        engine=None,
        prefix="durable-nb",
        take_lease=take_lease,
        new_run_id=lambda: new_run_id(clock),
        trust=lambda folder: accept(settings, folder),
        demo=_demo,
        checks=lambda: run_checks(repository, place.folder, clock, key_path_of(settings)),
    )
    return run(verb, rest, context)


def _target(verb: str, words: list[str]) -> tuple[str, list[str]]:
    """Tell the notebook or folder from the verb's own arguments: it is the first word that is one on disk."""
    if verb in FLAGS:
        for i, word in enumerate(words):
            path = Path(word)
            if word.endswith(".ipynb") or (not word.startswith("--") and path.is_dir()):
                return word, words[:i] + words[i + 1 :]
    return "", words


def _folder(target: str) -> Path:
    path = Path(target) if target else Path.cwd()
    if path.is_dir():
        path = path.absolute()
        return path.parent if path.name == FOLDER else path
    return Path.cwd()


if __name__ == "__main__":
    sys.exit(main())
