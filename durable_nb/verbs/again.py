"""The verb `recompute`: make again what could not be stored, on request.

It acts in a kernel only. What it says it made again is in the namespace and in the history when it returns.
"""

from __future__ import annotations

import difflib

from durable_nb.engine.missing import RAN_AGAIN, Remade
from durable_nb.engine.recomputing import recompute as make_again
from durable_nb.engine.words import counted_names
from durable_nb.errors import RestoreError, UnknownName, UsageError
from durable_nb.verbs.arguments import Arguments
from durable_nb.verbs.context import Context
from durable_nb.verbs.report import Report

__all__ = ["recomputable", "recompute"]


def recompute(context: Context, args: Arguments) -> Report:
    """Make variables again that could not be stored: the cell that made each runs again, with its inputs as of then."""
    names = list(dict.fromkeys(args.words))
    if not names:
        raise UsageError(f"`recompute` needs the names of variables that are not back. {_there_are(context)}")
    engine = context.engine
    if engine is None:
        raise UsageError(
            f"Variables are made again in a live kernel: type `%durable recompute {' '.join(names)}` in the notebook."
        )
    here = [n for n in names if n in engine.shell.namespace or n in engine.capture.lazy.names]
    if unknown := [n for n in names if n not in here and n not in engine.absent]:
        near = difflib.get_close_matches(unknown[0], [*engine.absent, *engine.capture.names()], n=1)
        meant = f"Did you mean `{near[0]}`? " if near else ""
        raise UnknownName(
            f"There is no variable {counted_names(unknown)}, and none of that name is missing; nothing ran.",
            hint=f"{meant}{_there_are(context)}",
        )
    if odd := [n for n in names if n not in here and not n.isidentifier()]:
        raise UsageError(f"{counted_names(odd)} is the result of a cell, not a variable: run that cell. Nothing ran.")
    wanted = [n for n in names if n not in here]
    lines = [f"`{n}` is there already; nothing ran for it." for n in here]
    done = make_again(engine, wanted, force=args.has("--force")) if wanted else []
    failed = [remade for remade in done if remade.problem]
    if failed and len(failed) == len(done) and not here:
        raise RestoreError(f"{' '.join(r.sentence for r in failed)} Everything else is as it was.")
    after = [RAN_AGAIN] if any(r.names for r in done) else []
    return Report(lines=[*lines, *(r.sentence for r in done)], after=after, data=_data(done, here), ok=not failed)


def _data(done: list[Remade], here: list[str]) -> dict[str, object]:
    return {
        "recomputed": [name for remade in done for name in remade.names],
        "there_already": here,
        "cells": [
            {"cell": r.label, "names": list(r.names), "wanted": list(r.wanted), "as_of": r.as_of,
             "problem": r.problem, "notes": list(r.notes)}
            for r in done
        ],
    }  # fmt: skip


def _there_are(context: Context) -> str:
    known = recomputable(context)
    return f"Not back: {counted_names(known)}." if known else "Everything is back."


def recomputable(context: Context) -> list[str]:
    """Return the variables that are not back."""
    engine = context.engine
    if engine is None:
        return []
    return sorted(n for n in engine.absent if n.isidentifier() and n not in engine.shell.namespace)
