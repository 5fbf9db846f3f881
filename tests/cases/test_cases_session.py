"""The session around the values: what the cells of a case did to it is right after a crash and a restore."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from durable_nb.testing.cases import Case, Verdict, counted, load_cases, run_plain

FOLDER = Path(__file__).parent
# How README's section on limits words what nothing can bring back.
WORDS = {
    "v-id-keyed": "dictionaries keyed by `id()`",
    "v-user-cached-hash": "cached `hash()` values of text",
}


def test_case_of_session(case: Case, run: Callable[[Case], Verdict]) -> None:
    """After SIGKILL and a restore the session of the case is as it was, or reported where that is fair."""
    verdict = run(case)
    assert verdict.outcome == "right", (case.title, verdict)


def test_known_limit_is_one_and_is_documented(limit: Case, run: Callable[[Case], Verdict]) -> None:
    """What holds inside one process only is still lost, and README says so under «Limits»."""
    readme = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    limits = readme.split("\n## Limits\n")[1].split("\n## ")[0]
    assert WORDS[limit.id] in limits
    verdict = run(limit)
    assert verdict.outcome == "silent", (limit.title, verdict)


def test_all_cases_are_there() -> None:
    """There are 103 cases with different names, of which 101 count."""
    cases = load_cases(FOLDER)
    assert (103, 101, 103) == (len(cases), len(counted(cases)), len({case.id for case in cases}))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_cases_are_right_without_a_crash(tmp_path: Path) -> None:
    """In one kernel that nobody kills, without durable_nb, every check passes: the cases ask for nothing else."""
    wrong = {}
    for case in load_cases(FOLDER):
        if not case.missing_packages:
            (tmp_path / case.id).mkdir()
            verdict = run_plain(case, tmp_path / case.id)
            if verdict.outcome != "right":
                wrong[case.id] = verdict
    assert {} == wrong
