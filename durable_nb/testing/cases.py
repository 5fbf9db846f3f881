"""State cases through the public door: cells in a real kernel, SIGKILL, a new kernel, restore, one checking cell.

Called by the tests of tests/cases, by its command line, and by the comparison with other ways of saving a session.
What a case file holds is told in tests/cases/README.md.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from durable_nb.testing.kernels import Kernel

__all__ = ["Case", "Verdict", "counted", "execute", "kernel_for", "load_cases", "run_case", "run_plain"]

_TIMEOUT_S = 120
_REPORT = (
    "import json as _j, durable_nb as _d; "
    "print('UNSAVED' + _j.dumps([[u.name, u.reason] for u in _d.unsaved()])); del _j, _d"
)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one file says."""

    id: str
    title: str
    cells: tuple[str, ...]
    check: str
    expected: str
    acceptable: frozenset[str]
    reported: frozenset[str]
    check_survivors: str
    reason_hint: str
    packages: tuple[str, ...]
    known_limit: bool

    @property
    def missing_packages(self) -> list[str]:
        """The packages that the case needs and that are not installed."""
        return [name for name in self.packages if not _is_installed(name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`right`, or how it went wrong: `silent` is the worst, `broken` says that the case itself did not run."""

    outcome: str
    detail: str = ""


def _is_installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def load_cases(folder: Path, *prefixes: str) -> list[Case]:
    """Return the cases of a folder whose names begin with one of the prefixes, or all of them."""
    import yaml

    return [
        _case(yaml.safe_load(path.read_text(encoding="utf-8")))
        for path in sorted(folder.glob("*.yaml"))
        if not prefixes or path.name.startswith(prefixes)
    ]


def _case(raw: dict[str, Any]) -> Case:
    return Case(
        id=raw["id"],
        title=raw["title"],
        cells=tuple(raw["cells"]),
        check=raw["check"],
        expected=raw["expected"],
        acceptable=frozenset(raw.get("acceptable", ())),
        reported=frozenset(raw.get("reported", ())),
        check_survivors=raw.get("check_survivors", ""),
        reason_hint=raw.get("reason_hint", ""),
        packages=tuple(raw["setup"]["pip"]),
        known_limit=raw.get("known_limit", False),
    )


def counted(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that count: all but those that nothing can pass."""
    return [case for case in cases if not case.known_limit]


@contextmanager
def kernel_for(folder: Path) -> Iterator[Kernel]:
    """Start a kernel in a folder as an ordinary user has it: no setting, a hash seed of its own, a key beside it."""
    told = {name: "" for name in os.environ if name.startswith("DURABLE_NB_")}
    told |= {"DURABLE_NB_KEY_FILE": str(folder.parent / f"{folder.name}.key"), "PYTHONHASHSEED": "random"}
    with Kernel(folder, environ=told, start_timeout_s=120) as kernel:
        yield kernel
        kernel.sigkill()  # an orderly end takes longer, and nothing is left to be lost


def execute(kernel: Kernel, *cells: str) -> tuple[str, str]:
    """Run cells up to the first error; return its text, empty if there was none, and what was printed."""
    printed: list[str] = []
    for cell in cells:
        try:
            reply = kernel.run(cell, timeout_s=_TIMEOUT_S)
        except (TimeoutError, ChildProcessError) as error:
            return f"{type(error).__name__}: {error}", "".join(printed)
        printed.append(reply.text())
        if reply.status != "ok":
            return f"{cell.splitlines()[0][:60]} -> {reply.ename}: {reply.evalue}", "".join(printed)
    return "", "".join(printed)


def run_plain(case: Case, folder: Path) -> Verdict:
    """Run cells and check in one kernel without durable_nb: every case has to be right there."""
    with kernel_for(folder) as kernel:
        error, _ = execute(kernel, *case.cells)
        if error:
            return Verdict(outcome="broken", detail=error)
        error, _ = execute(kernel, case.check)
        return Verdict(outcome="wrong", detail=error) if error else Verdict(outcome="right")


def run_case(case: Case, folder: Path) -> Verdict:
    """Run the cells durably in an empty folder, kill the kernel, restore in a new one and judge what is there."""
    with kernel_for(folder) as kernel:
        error, _ = execute(kernel, "%load_ext durable_nb", "%durable on", *case.cells)
        if error:
            return Verdict(outcome="broken", detail=error)
        kernel.sigkill()
    with kernel_for(folder) as kernel:
        error, _ = execute(kernel, "%load_ext durable_nb", "%durable restore")
        if error:
            return Verdict(outcome="broken", detail=error)
        error, printed = execute(kernel, _REPORT)
        found = re.search(r"UNSAVED(\[.*\])", printed)
        if error or found is None:
            return Verdict(outcome="broken", detail=f"durable_nb.unsaved(): {error or printed[:80]}")
        return _judge(kernel, case, dict(json.loads(found[1])))


def _judge(kernel: Kernel, case: Case, reasons: dict[str, str]) -> Verdict:
    """Judge a restored kernel by the checking cell and by what durable_nb says that it could not hold."""
    if case.expected == "reported":
        return _judge_reported(kernel, case, reasons)
    if case.reported & set(reasons) and "reported" in case.acceptable and case.check_survivors:
        error, _ = execute(kernel, case.check_survivors)
        return Verdict(outcome="wrong", detail=error) if error else Verdict(outcome="right", detail="fairly reported")
    error, _ = execute(kernel, case.check)
    if error:
        used = set(_WORD.findall(case.check))
        fair = any(name in used or re.split(r"[.\[]", name)[0] in used for name in reasons)
        outcome = "lost, but reported" if fair else "silent"
        return Verdict(outcome=outcome, detail=f"{error} (reported: {sorted(reasons)})")
    known = set(_WORD.findall("\n".join([*case.cells, case.check])))
    false_alarms = sorted(name for name in reasons if name.isidentifier() and name in known - case.reported)
    if false_alarms:
        return Verdict(outcome="over-reported", detail=f"works, yet reported: {false_alarms}")
    return Verdict(outcome="right", detail="restored")


def _judge_reported(kernel: Kernel, case: Case, reasons: dict[str, str]) -> Verdict:
    missing = sorted(case.reported - set(reasons))
    if missing and "restored" not in case.acceptable:
        return Verdict(outcome="silent", detail=f"not reported: {missing}")
    for name in sorted(case.reported & set(reasons)):
        if case.reason_hint and not re.search(case.reason_hint, reasons[name], re.IGNORECASE):
            return Verdict(outcome="unclear", detail=f"reason of {name}: {reasons[name]}")
    error, _ = execute(kernel, case.check)
    return Verdict(outcome="wrong", detail=error) if error else Verdict(outcome="right", detail="reported")
