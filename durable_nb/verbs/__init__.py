"""The verbs: one implementation for `%durable VERB`, `durable-nb VERB` and `jupyter durable VERB`.

The kernel layer and the command line build a `Context` and call `run`; what comes back is a `Report` that shows itself
as text, as HTML without scripts, and as JSON.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from durable_nb.errors import UsageError
from durable_nb.verbs import act, again, look
from durable_nb.verbs.arguments import Arguments, usage
from durable_nb.verbs.context import Context
from durable_nb.verbs.report import Report

__all__ = ["LATER", "VERBS", "Context", "Report", "check", "help_on", "run", "subjects"]

Verb = Callable[[Context, Arguments], Report]

VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        "status": look.status,
        "why": look.why,
        "checkpoints": look.checkpoints,
        "restore": act.restore,
        "events": look.events,
        "sql": look.sql,
        "recompute": again.recompute,
        "verify": act.verify,
        "gc": act.gc,
        "new": act.new,
        "list": look.list_workflows,
        "doctor": act.doctor,
        "trust": act.trust,
        "demo": act.demo,
    }
)
# Verbs that the interface promises and that come with later versions: refused by name, so that nobody hunts a typo.
LATER = frozenset(
    {
        *("checkpoint", "tag", "diff", "show", "undo", "redo", "reset", "fork", "switch", "export"),
        *("pause", "resume", "cancel", "terminate", "signal", "approve", "deny", "retry", "run", "retain", "forget"),
        *("lineage", "stale", "refresh", "at", "audit", "panel", "plot", "logs", "watch"),
        *("config", "kernel", "worker", "import", "push", "pull", "workflow"),
    }
)


_HELP = frozenset({"-h", "--help"})


def check(verb: str, args: Sequence[str]) -> Arguments:
    """Return the arguments of a verb, read; UsageError when the line is wrong, before anything is opened or done."""
    if verb in VERBS:
        return Arguments.parse(verb, args)
    if verb in LATER:
        raise UsageError(f"`{verb}` comes with a later version of durable_nb; nothing was done.")
    if verb in ("on", "off"):
        raise UsageError(f"`%durable {verb}` is typed in a notebook and takes nothing more; nothing was done.")
    near = difflib.get_close_matches(verb, [*VERBS, "on", "off", "help"], n=1)
    meant = f" Did you mean `{near[0]}`?" if near else f" Verbs: {', '.join(VERBS)}."
    raise UsageError(f"There is no verb `{verb}`; nothing was done.{meant}")


def help_on(verb: str, args: Sequence[str], prefix: str) -> Report | None:
    """Return the help that a line asks for (`help`, `help VERB`, `VERB --help`), or None if it asks for none."""
    if verb == "help" or verb in _HELP:
        asked = args[0] if args else ""
    elif _HELP & set(args[:1] if verb == "sql" else args):
        asked = verb
    else:
        return None
    if asked:
        check(asked, ())
    wanted = [asked] if asked else list(VERBS)
    shown = {name: (usage(name), (VERBS[name].__doc__ or "").splitlines()[0]) for name in wanted}
    if len(shown) == 1:
        lines = [f"usage: {prefix} {line}\n{text}" for line, text in shown.values()]
    else:
        width = max(len(line.removesuffix(" [--json]")) for line, _ in shown.values()) + 1
        lines = [f"  {line.removesuffix(' [--json]'):{width}} {text}" for line, text in shown.values()]
    return Report(lines=lines, data={name: {"usage": line, "does": text} for name, (line, text) in shown.items()})


def subjects(context: Context, verb: str) -> list[str]:
    """Return the words that a verb can be given here, for Tab: cells, or checkpoints (the newest first) and names."""
    if verb == "why":
        return look.cells(context)
    if verb == "restore":
        return act.restorable(context)
    if verb == "recompute":
        return again.recomputable(context)
    if verb == "events":
        return sorted({event.event_type for event in context.workflow.events()})
    return []


def run(verb: str, args: Sequence[str], context: Context) -> Report:
    """Carry out one verb; raises UsageError for a wrong line and DurableError for what cannot be done."""
    told = help_on(verb, args, context.prefix)
    if told is not None:
        return told
    arguments = check(verb, args)
    return VERBS[verb](context, arguments)
