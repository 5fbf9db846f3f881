"""Values of libraries and resources: what the cells of a case made is right after a crash and a restore."""

from __future__ import annotations

from collections.abc import Callable

from durable_nb.testing.cases import Case, Verdict


def test_case_of_libraries(case: Case, run: Callable[[Case], Verdict]) -> None:
    """After SIGKILL and a restore the case's values of libraries are as they were, or reported where that is fair."""
    verdict = run(case)
    assert verdict.outcome == "right", (case.title, verdict)
