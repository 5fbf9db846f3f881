"""Ask the state cases of other ways to save a session as well, and print what each got right, told, or lost silently.

Run by `make bench`, or `python tests/benchmarks/fidelity.py [--only ID …] [--systems NAME …] [--jobs N] [--write]`;
`--write` puts the table into FIDELITY.md beside this file. Every system saves after every cell, the kernel is killed,
and a fresh kernel in the same folder loads once.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from durable_nb.testing.cases import Case, counted, execute, kernel_for, load_cases, run_case
from durable_nb.testing.kernels import Kernel

CASES = Path(__file__).resolve().parents[1] / "cases"
DOCUMENT = Path(__file__).with_name("FIDELITY.md")

# Each defines `save` and `load`. Only names that the user made take part: not the shell's, nor its history.
_USER_NAMES = """
import re
_shell = re.compile(r"_+|_i+|_\\d+|_i\\d+|_[oid]h|In|Out")
def _users():
    space = get_ipython().user_ns
    return {k: v for k, v in space.items() if not _shell.fullmatch(k) and _at_start.get(k, _users) is not v}
_at_start = dict(get_ipython().user_ns)
"""
_DICTIONARY = (
    _USER_NAMES
    + """
import {library}
def save():
    with open({path!r}, "wb") as file:
        file.write({library}.dumps(_users()))
def load():
    with open({path!r}, "rb") as file:
        get_ipython().user_ns.update({library}.loads(file.read()))
"""
)
_SESSION = """
import dill
def save():
    dill.dump_session({path!r})
def load():
    dill.load_session({path!r})
"""
PEERS: Mapping[str, str] = {
    "dill.dump_session": _SESSION,
    "dill of one dict": _DICTIONARY.replace("{library}", "dill"),
    "cloudpickle of one dict": _DICTIONARY.replace("{library}", "cloudpickle"),
}
OURS = "durable_nb"
# What the runner says, in the words of the table: to be wrong in a way that nobody says is the worst.
_OURS = {
    "right": "right",
    "lost, but reported": "reported",
    "over-reported": "reported",
    "unclear": "reported",
    "silent": "silent",
    "wrong": "silent",
    "broken": "failed",
}


def main() -> None:
    """Run every system on every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=(), metavar="ID")
    parser.add_argument("--systems", nargs="*", default=(OURS, *PEERS), choices=(OURS, *PEERS), metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"put the table into {DOCUMENT.name}")
    args = parser.parse_args()
    cases = [c for c in counted(load_cases(CASES)) if not args.only or c.id in args.only]
    absent = [case.id for case in cases if case.missing_packages]
    cases = [case for case in cases if not case.missing_packages]
    if absent:
        print(f"NOT run, a library is missing: {', '.join(absent)}\n")
    asked = [(system, case) for case in cases for system in args.systems]
    with ThreadPoolExecutor(args.jobs) as pool:
        outcomes = dict(zip(asked, pool.map(lambda pair: outcome(*pair), asked), strict=True))
    text = "\n".join([*totals(args.systems, cases, outcomes), "", *by_case(args.systems, cases, outcomes)])
    print(text)
    if args.write:
        DOCUMENT.write_text(document(text, len(cases)), encoding="utf-8")


def outcome(system: str, case: Case) -> str:
    """Return what became of one case with one system."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = Path(place, "case")
        folder.mkdir()
        if system == OURS:
            return _OURS[run_case(case, folder).outcome]
        return with_peer(PEERS[system].replace("{path!r}", repr(str(Path(place, "saved")))), case, folder)


def with_peer(source: str, case: Case, folder: Path) -> str:
    """Save after every cell and load once in a fresh kernel. Loud is a dump or a load that raised, or a dead kernel."""
    told = ""
    with kernel_for(folder) as kernel:
        aside(kernel, source)
        for cell in case.cells:
            error, _ = execute(kernel, cell)
            if error:
                return "failed"
            told = aside(kernel, "save()")
        kernel.sigkill()
    if told:
        return "reported"
    with kernel_for(folder) as kernel:
        aside(kernel, source)
        if aside(kernel, "load()"):
            return "reported"
        error, _ = execute(kernel, case.check)
        return "silent" if error else "right"


def aside(kernel: Kernel, source: str) -> str:
    """Run source in a namespace that is not the user's and leave no trace in the history; return the error, if any."""
    code = (
        "exec(compile({!r}, 'aside', 'exec'), get_ipython().__dict__.setdefault('_aside', "
        "{{'__name__': 'aside', 'get_ipython': get_ipython}}))"
    )
    try:
        reply = kernel.run(code.format(source), store_history=False, timeout_s=120)
    except (TimeoutError, ChildProcessError) as error:
        return str(error)
    return "" if reply.status == "ok" else f"{reply.ename}: {reply.evalue}"


def totals(systems: Sequence[str], cases: Sequence[Case], outcomes: Mapping[tuple[str, Case], str]) -> list[str]:
    """Return the table of totals, one system in a line."""
    lines = [
        f"| {len(cases)} cases | right | silently wrong | lost loudly | did not run |",
        "|---|---|---|---|---|",
    ]
    for system in systems:
        tally = Counter(outcomes[system, case] for case in cases)
        numbers = (tally["right"], tally["silent"], tally["reported"], tally["failed"])
        lines.append(f"| {system} | {' | '.join(map(str, numbers))} |")
    return lines


def by_case(systems: Sequence[str], cases: Sequence[Case], outcomes: Mapping[tuple[str, Case], str]) -> list[str]:
    """Return the table of the cases that not every system gets right."""
    lines = [f"| case | {' | '.join(systems)} |", "|---" * (len(systems) + 1) + "|"]
    for case in cases:
        found = [outcomes[system, case] for system in systems]
        if set(found) != {"right"}:
            lines.append(f"| {case.id}: {case.title.replace('|', '/')} | {' | '.join(found)} |")
    return lines


def document(text: str, number: int) -> str:
    """Return the page around the tables."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("dill", "cloudpickle"))
    return f"""# What comes back: durable_nb beside other ways of saving a session

Made by `python tests/benchmarks/fidelity.py --write`; {number} cases of [tests/cases](../cases/README.md), {versions}.

Each system saves after every cell; then the kernel is killed, and a fresh kernel in the same folder loads once. For
the others a case is *right* when its check passes, *reported* when the dump or the load raised, and *silent* when both
went well and the check fails. Of a case about a resource they need only keep what lies around it: no report is asked
of them. durable_nb is judged as its tests are: it must also name what it cannot hold, with the reason, and no more.

{text}
"""


if __name__ == "__main__":
    main()
