"""Every case is one test; the cases are shared out to the files here, because a file stays in one worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from durable_nb.testing.cases import Case, Verdict, counted, load_cases, run_case

ALL = load_cases(Path(__file__).parent)
# What no file names here belongs to the libraries.
PARTS = {
    "test_cases_definitions": ("cls-", "fn-", "id-"),
    "test_cases_session": ("imp-", "inc-", "ps-", "sh-", "v-"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes `case` the cases of its file, and one that takes `limit` those that nothing can pass."""
    if "case" in metafunc.fixturenames:
        named = PARTS.get(metafunc.module.__name__.rpartition(".")[2])
        others = tuple(prefix for prefixes in PARTS.values() for prefix in prefixes)
        cases = [case for case in counted(ALL) if case.id.startswith(named or others) is (named is not None)]
        metafunc.parametrize("case", cases, ids=[case.id for case in cases])
    if "limit" in metafunc.fixturenames:
        limits = [case for case in ALL if case.known_limit]
        metafunc.parametrize("limit", limits, ids=[case.id for case in limits])


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Case], Verdict]:
    """Run a case in a folder of its own, or skip it when a library that it needs is not installed."""

    def judged(case: Case) -> Verdict:
        if case.missing_packages:
            pytest.skip(f"{case.id} was NOT run: {', '.join(case.missing_packages)} is not installed")
        folder = tmp_path / "case"
        folder.mkdir()
        return run_case(case, folder)

    return judged
