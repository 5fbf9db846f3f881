"""Every kind of state outside the namespace, as data: the cell that sets it, what must hold after a loss, the promise.

Used by the tests of process state, which prove each row in real kernels and make `capture/PROCESS.md` of them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REPORTED", "RESTORED", "Kind", "document", "libraries"]

RESTORED = "restored"
REPORTED = "reported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of state: a row of the table and its proof.

    `group` kinds run in one kernel; `makes` is the cell that sets it, `holds` an expression that is true right after it
    and, if the promise is `RESTORED`, after a loss too. `reported` are the names that `unsaved()` says, each once.
    """

    group: str
    what: str
    promise: str
    makes: str
    holds: str = "True"
    reported: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    note: str = ""


def libraries(kinds: tuple[Kind, ...]) -> tuple[str, ...]:
    """Return the libraries that these kinds need, each once."""
    return tuple(dict.fromkeys(name for kind in kinds for name in kind.needs))


def document(kinds: tuple[Kind, ...]) -> str:
    """Return the table of promises as Markdown."""
    titles = dict.fromkeys(kind.group for kind in kinds)
    lines = []
    for title in titles:
        lines += [f"### {title}", "", "| state | after a loss |", "|---|---|"]
        for kind in (k for k in kinds if k.group == title):
            names = ", ".join(f"`{name}`" for name in kind.reported)
            said = f"reported as {names}" if kind.promise == REPORTED else "restored"
            lines.append(f"| {kind.what} | {said}{f'; {kind.note}' if kind.note else ''} |")
        lines.append("")
    return "\n".join(lines)
