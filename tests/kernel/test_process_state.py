"""State outside the namespace: each row of the table of promises, set, killed and looked at in real kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import durable_nb
from durable_nb.testing.lives import Lives
from durable_nb.testing.process_kinds import REPORTED, RESTORED, Kind, document, libraries
from durable_nb.testing.process_kinds_libs import LIBRARIES
from durable_nb.testing.process_kinds_python import PYTHON
from durable_nb.testing.process_kinds_shell import SHELL

KINDS = (*PYTHON, *SHELL, *LIBRARIES)
GROUPS = tuple(dict.fromkeys(kind.group for kind in KINDS))
SAVED = "sorted({u.name for u in __import__('durable_nb').unsaved()})"


def _there(kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    absent = {name for name in libraries(kinds) if importlib.util.find_spec(name) is None}
    return tuple(kind for kind in kinds if absent.isdisjoint(kind.needs))


def _broken(lives: Lives, kinds: tuple[Kind, ...], *, made: bool) -> list[str]:
    broken = []
    for kind in kinds:
        if made or kind.promise == RESTORED:
            reply = lives.kernel.run(f"print(bool({kind.holds}))", store_history=False)
            if reply.status != "ok" or reply.text().splitlines()[-1:] != ["True"]:
                broken.append(f"{kind.what}: {reply.ename} {reply.evalue} {reply.text()}")
    return broken


@pytest.fixture(params=["restore", "skips"])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    """All comes back at the load, or cell by cell while Run All skips."""
    mode = {"restore": "auto", "skips": "off"}[request.param]
    return {"DURABLE_NB_ENV": "MY_FLAG,TZ", "DURABLE_NB_RESTORE": mode}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("group", GROUPS)
def test_every_kind_of_state_is_restored_or_reported(group: str, environ: dict[str, str], tmp_path: Path) -> None:
    """After SIGKILL what is promised holds again, what is not is in `unsaved()` by name, and nothing else is."""
    kinds = _there(tuple(kind for kind in KINDS if kind.group == group))
    named = sorted({name for kind in kinds for name in kind.reported})
    with Lives(tmp_path, environ=environ) as lives:
        for kind in kinds:
            lives.run(kind.makes)
        assert [] == _broken(lives, kinds, made=True)
        assert named == lives.value(SAVED)
        lives.kill()
        if environ["DURABLE_NB_RESTORE"] == "off":
            for kind in kinds:
                lives.run(kind.makes)
            lives.run("pass")
        assert [] == _broken(lives, kinds, made=False)
        assert named == lives.value(SAVED)


def test_the_table_says_what_is_tested() -> None:
    """`capture/PROCESS.md` holds the table that the rows above make."""
    text = (Path(durable_nb.__file__).parent / "capture" / "PROCESS.md").read_text()
    begin, end = "<!-- table of kinds: begin -->\n\n", "\n<!-- table of kinds: end -->"
    assert text.partition(begin)[2].partition(end)[0] == document(KINDS)
    assert {kind.promise for kind in KINDS} == {RESTORED, REPORTED}
