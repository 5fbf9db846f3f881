"""The verbs: one implementation for `%durable VERB`, `durable-nb VERB` and `jupyter durable VERB`.

The kernel layer and the command line build a `Context` and call `run`; what comes back is a `Report` that shows itself
as text, as HTML without scripts, and as JSON.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from durable_nb.errors import UsageError
from durable_nb.verbs import act, look
from durable_nb.verbs.arguments import Arguments
from durable_nb.verbs.context import Context
from durable_nb.verbs.report import Report

__all__ = ["LATER", "VERBS", "Context", "Report", "run"]

Verb = Callable[[Context, Arguments], Report]

VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        "status": look.status,
        "why": look.why,
        "checkpoints": look.checkpoints,
        "restore": act.restore,
        "events": look.events,
        "sql": look.sql,
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
        *("lineage", "stale", "refresh", "at", "recompute", "audit", "panel", "plot", "logs", "watch"),
        *("config", "kernel", "worker", "import", "push", "pull", "workflow"),
    }
)


def run(verb: str, args: Sequence[str], context: Context) -> Report:
    """Carry out one verb; raises UsageError for a wrong line and DurableError for what cannot be done."""
    action = VERBS.get(verb)
    if action is None:
        if verb in LATER:
            raise UsageError(f"`{verb}` comes with a later version of durable_nb; nothing was done.")
        near = difflib.get_close_matches(verb, [*VERBS, "on", "off"], n=1)
        meant = f" Did you mean `{near[0]}`?" if near else ""
        raise UsageError(f"There is no verb `{verb}`.{meant} Verbs: {', '.join(VERBS)}.")
    return action(context, Arguments.parse(verb, args))
