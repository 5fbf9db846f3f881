"""A class whose pickling hook hands on nothing loses no attribute without a word."""

from __future__ import annotations

import pytest

from durable_nb.testing.notebook import Notebook


@pytest.mark.parametrize(
    "hook",
    [
        "def __reduce__(self): return (Cp, ())",
        "def __reduce_ex__(self, protocol): return (Cp, (), None)",
        "def __reduce__(self): return (Cp.__new__, (Cp,))",
        "def __getstate__(self): return None",
        "__slots__ = ('x', '__dict__')\n    def __reduce__(self): return (Cp, ())",
    ],
)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("size", [0, 100_000])
def test_what_is_handed_on_by_nobody_is_reported(hook: str, apart: bool, size: int) -> None:
    """However the class says so, whatever it lies beside and whatever of the class was stored before."""
    notebook = Notebook()
    cells = [f"class Cp:\n    {hook}", "empty = Cp()", "cp = Cp()", f"cp.x = 5; held = [cp, bytes({size})]"]
    for cell in cells if apart else ["\n".join(cells)]:
        notebook.run(cell)
    assert {"cp", "held"} == set(notebook.unsaved)
    assert "class Cp stores nothing of its objects, and what it makes instead lacks x" in notebook.unsaved["cp"].reason
    assert "empty" in notebook.restored().ns


@pytest.mark.parametrize(
    "made",
    [
        "class A:\n    def __init__(self): self.lock = threading.Lock()\n    def __reduce__(self): return A, ()\n"
        "a = A()",
        "class A:\n    def __init__(self): self.at = time.time_ns()\n    def __reduce__(self): return (A, ())\na = A()",
        "class A:\n    def __reduce__(self): return A, ()\n    @functools.cached_property\n    def x(self): return 5\n"
        "a = A(); a.x",
        "class A:\n    def __init__(self, n): self.n = n\n    def __reduce__(self): return (A, (self.n,))\n"
        "a = A(2); a.cache = {1: 2}",
        "class A:\n    def __getstate__(self): return {k: v for k, v in vars(self).items() if k != 'lock'}\n"
        "    def __setstate__(self, state): vars(self).update(state, lock=threading.Lock())\n"
        "a = A(); a.lock = threading.Lock()",
        "class A:\n    def __getstate__(self): return {k: v for k, v in vars(self).items() if k != 'cache'}\n"
        "a = A(); a.cache = {}",
        "class A:\n    __slots__ = ('x', 'y')\n    def __init__(self): self.x = 1\n"
        "    def __reduce__(self): return A, ()\na = A()",
    ],
)
def test_what_a_class_makes_again_or_leaves_out_on_purpose_is_not_reported(made: str) -> None:
    """Locks, times, caches and computed attributes of a class that sees to them itself are no loss."""
    notebook = Notebook()
    notebook.run(f"import functools, threading, time\n{made}")
    assert {} == notebook.unsaved
    assert "A" == type(notebook.restored()["a"]).__name__


def test_what_was_added_is_no_longer_reported_once_it_is_gone() -> None:
    """The report goes by what the object holds now."""
    notebook = Notebook()
    notebook.run("class Cp:\n    def __reduce__(self): return (Cp, ())\ncp = Cp()")
    notebook.run("cp.x = 5")
    assert {"cp"} == set(notebook.unsaved)
    notebook.run("del cp.x")
    assert {} == notebook.unsaved


@pytest.mark.parametrize("wrong", ["5", "(Cp,)", "(Cp, None)", "(Cp, 'x')"])
def test_a_hook_that_returns_nonsense_is_reported_in_words_of_pickle(wrong: str) -> None:
    """What is no reduction at all is refused by pickle itself."""
    notebook = Notebook()
    notebook.run(f"class Cp:\n    def __reduce__(self): return {wrong}\ncp = Cp(); cp.x = 5")
    assert {"cp"} == set(notebook.unsaved)
    assert "__reduce__" in notebook.unsaved["cp"].reason or "tuple" in notebook.unsaved["cp"].reason
