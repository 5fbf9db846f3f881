"""Whose names are whose, found again without looking at each; a look at other threads leaves nothing behind."""

from __future__ import annotations

import gc
import threading
from collections import ChainMap
from collections.abc import Mapping
from sys import getrefcount
from typing import Any

from durable_nb.capture.naming import UserNames
from durable_nb.capture.running import runs_elsewhere


def names(found: UserNames, hidden: Mapping[str, Any] | None = None, out: Mapping[str, Any] | None = None) -> list[str]:
    """Return the user's names, in order."""
    return list(found.now(hidden or {}, lambda: out or {}))


def test_the_shells_names_are_not_the_users() -> None:
    """Inputs, outputs and what the shell hides are left out; what is bound to another value is the user's again."""
    space: dict[str, Any] = {
        "In": [],
        "_i1": "x",
        "_1": 5,
        "_ih": [],
        "x": 1,
        "_own": 2,
        "pi": 3,
        "__name__": "__main__",
        "_": 7,
    }
    found = UserNames(space)
    hidden: ChainMap[str, Any] = ChainMap({"pi": space["pi"]}, {"_hidden": 1, "In": space["In"]})
    assert ["x", "_own"] == names(found, hidden, {"Out[1]": space["_"]})
    space["pi"] = "mine"
    assert ["x", "_own", "pi"] == names(found, hidden, {"Out[1]": space["_"]})
    assert ["x", "_own", "pi", "_"] == names(found, hidden)
    space["In"] = [[1, 0], [0, 1]]
    assert ["In", "x", "_own", "pi", "_"] == names(found, hidden)


def test_names_come_and_go_in_the_order_of_the_namespace() -> None:
    """New names are found behind the known ones, removed ones are gone, and what comes back is where it is now."""
    space: dict[Any, Any] = {"a": 1, "b": 2}
    found = UserNames(space)
    assert ["a", "b"] == names(found)
    space["_i1"] = "text"
    space["c"] = None
    assert ["a", "b", "c"] == names(found)
    del space["a"], space["c"]
    space["d"] = 4
    space["c"] = 5
    assert ["b", "d", "c"] == names(found)
    assert {"b": 2, "d": 4, "c": 5} == found.now({}, dict)
    space["a"] = space.pop("b")
    assert ["d", "c", "a"] == names(found)


def test_the_last_key_that_came_back_hides_no_new_one() -> None:
    """A name that was removed and bound again stands behind one that is new, although there are as many as before."""
    space = {"gone": 0, "last": 1}
    found = UserNames(space)
    assert ["gone", "last"] == names(found)
    del space["gone"], space["last"]
    space.update(new=2, last=3)
    assert ["new", "last"] == names(found)


class Untold:
    """A key that is no name and cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    __hash__ = object.__hash__


def test_keys_that_are_no_names_are_passed_over() -> None:
    """Whatever else is in the namespace, and whether it can be compared, the names are found."""
    space: dict[Any, Any] = {"a": 1, 5: 2, Untold(): 3}
    found = UserNames(space)
    assert ["a"] == names(found)
    space.clear()
    space.update({Untold(): 1, 6: 2, "b": 3})
    assert ["b"] == names(found)


def test_looking_at_other_threads_keeps_nothing_alive() -> None:
    """However often it is asked, nobody holds the namespace afterwards, also where nothing is collected."""
    space: dict[str, Any] = {}
    before = getrefcount(space)
    gc.disable()
    try:
        assert [False, False, False] == [runs_elsewhere(space) for _ in range(3)]
    finally:
        gc.enable()
    assert before == getrefcount(space)


def test_code_in_another_thread_is_seen() -> None:
    """A function of the namespace on the stack of another thread counts, below what it has called."""
    go, ready = threading.Event(), threading.Event()
    space: dict[str, Any] = {"go": go, "ready": ready}
    exec("def wait():\n    ready.set()\n    go.wait(10)", space)
    thread = threading.Thread(target=space["wait"])
    thread.start()
    ready.wait(10)
    try:
        assert runs_elsewhere(space)
    finally:
        go.set()
        thread.join(10)
    assert not runs_elsewhere(space)
