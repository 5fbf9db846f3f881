"""What a newcomer reads: names that do not exist, what is not saved, where the history is, and why a cell runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.kernels import Kernel, Reply
from durable_nb.testing.lives import Lives, said, skipped


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """A notebook in its second life, with a lock that cannot be stored and a name that was left out."""
    with Lives(tmp_path_factory.mktemp("words"), durable=False) as notebook:
        notebook.run("%%durable a\nvalue = 1", "%%durable f\ndef f():\n    return 1")
        notebook.run("%%durable b --exclude password\nimport threading\nm = threading.Lock()\nheld = m.acquire()\n"
                     "password = 'x'")  # fmt: skip
        notebook.kill()
        yield notebook


def _refused(lives: Lives, line: str) -> tuple[str, str]:
    reply = lives.kernel.run(f"%durable {line}", store_history=False)
    return reply.ename, reply.evalue


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("restore valeu", "has no variable `valeu`; nothing changed. Did you mean `value`? It has: "),
        ("restore c99", "There is no checkpoint c99; nothing changed."),
        ("recompute zzz", "There is no variable `zzz`"),
    ],
)
def test_a_name_that_does_not_exist(lives: Lives, line: str, words: str) -> None:
    """A mistyped variable or checkpoint is an UnknownName, not a repository that is not there."""
    name, text = _refused(lives, line)
    assert (name, words in text) == ("UnknownName", True), text


def test_what_a_checkpoint_could_not_hold_is_told_when_it_is_asked_for(lives: Lives) -> None:
    """`restore m` says why `m` was not stored and what makes it again; one left out on request is told as that."""
    name, text = _refused(lives, "restore m")
    assert (name, "`m` could not be saved in c3: a lock" in text) == ("RestoreError", True), text
    assert "`%durable recompute m` runs the cell «b», which makes it, again as of then." in text
    name, text = _refused(lives, "restore password")
    assert (name, text.startswith("`password` was left out on request")) == ("RestoreError", True), text


def test_a_name_left_out_on_request_is_not_called_unsavable(lives: Lives) -> None:
    """The note at its NameError says that it was left out, and what makes it."""
    notes = "\n".join(lives.kernel.run("password").traceback)
    assert "`password` is not back: it was left out on request" in notes
    assert ("could not be saved" in notes, "%durable recompute password" in notes) == (False, True)
