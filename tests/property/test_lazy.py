"""Nothing but the moment is different when variables are loaded later: they may be asked for in any order."""

from __future__ import annotations

import builtins
import sys
import threading
import types
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from durable_nb.config import Settings
from durable_nb.engine import pending
from durable_nb.testing.canon import canonical, first_difference
from durable_nb.testing.equivalence import difference
from durable_nb.testing.grammar import Book, books
from durable_nb.testing.nursery import Nursery
from durable_nb.testing.simfiles import SimFiles
from durable_nb.testing.workbench import Workbench

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

# ---- any notebook ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nurseries() -> Iterator[Sequence[Nursery]]:
    """Two servers of lives in which every restore leaves as much for later as it may."""
    environ = {"DURABLE_NB_EAGER_BYTES": "0"}
    with Nursery(hash_seed=1, environ=environ) as one, Nursery(hash_seed=2, environ=environ) as two:
        yield one, two


@pytest.mark.timeout(900)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=SLOW,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)
@given(book=books())
def test_restored_lazily_equals_never_killed(nurseries: Sequence[Nursery], book: Book) -> None:
    """Whatever is loaded when, the namespace is the one of a process that was never killed."""
    found = difference(book, nurseries)
    assert found is None, f"\n{book}\n\n{found}"


# ---- any order of asking ---------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d", "e", "p", "q", "s")
MADE = (
    "class P:\n    def __init__(self, v): self.v = v\n    def get(self): return self.v",
    "a = [1]; b = [a, 2]; c = {'k': 3}; d = (c,); e = [4]",
    "p = P(a); q = P(e); s = 'text'",
    "def look(name): return eval(name)\ndef hold(): return c, d\ndef one(): return [n.v for n in (p, q)]",
    "import numpy as np\nm = np.arange(12.0); view = m[2:5]; fs = [lambda: s, lambda: view]",
)
# Each leaves a trace in `seen`, and some change what they find.
TOUCHES = (
    *(f"seen.append({name!r} if {name} is not None else 0)" for name in NAMES),
    "seen.append(look('b'))",
    "seen.append(hold())",
    "seen.append(one())",
    "seen.append([f() for f in fs])",
    "a.append(9)",
    "c['new'] = q",
    "view[0] = -1.0",
    "e = [a]",
    "del s\ns = 'again'",
    "class P:\n    later = True",
    "r = P.__new__(P)",
)


def life(files: SimFiles, name: str, chosen: Settings) -> Workbench:
    """A kernel over the files whose namespace is that of `__main__`."""
    main = types.ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return Workbench(files, life=name, main=main, settings=chosen)


def told(files: SimFiles, name: str, touches: Sequence[tuple[str, bool]], chosen: Settings) -> list[tuple[str, str]]:
    """Restore, touch the variables in this order, some of them in threads; return what the namespace is then."""
    bench = life(files, name, chosen)
    bench.run("seen = []")
    for number, (source, in_thread) in enumerate(touches):
        # A name that is not loaded can be deleted by a cell only, of which one knows that it will.
        if in_thread and not source.startswith("del "):
            code = compile(source, f"<touch {number}>", "exec", dont_inherit=True)
            thread = threading.Thread(target=exec, args=(code, bench.namespace))
            thread.start()
            thread.join(30)
            bench.engine.reached.touched = None  # no cell has begun it, so nothing tells what it leads to
        else:
            bench.run(source, filename=f"<touch {number}>")
    pending.load_all(bench.engine)
    form = [(path, text) for path, text in canonical(bench.namespace, ["__builtins__"])]
    bench.workflow.close()
    return form


@pytest.fixture(scope="module")
def lost() -> Iterator[SimFiles]:
    """What a kernel left that had made the variables."""
    before = sys.modules["__main__"]
    files = SimFiles()
    first = life(files, "first", Settings())
    for number, source in enumerate(MADE):
        assert first.run(source, filename=f"<made {number}>")
        assert first.failed is None
    first.workflow.close()
    yield files
    sys.modules["__main__"] = before


@pytest.mark.timeout(600)
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=SLOW,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)
@given(touches=st.lists(st.tuples(st.sampled_from(TOUCHES), st.booleans()), min_size=1, max_size=8))
def test_any_order_of_asking(lost: SimFiles, touches: Sequence[tuple[str, bool]]) -> None:
    """Cells, functions and threads that ask in any order leave what they leave when all was loaded at once.

    And the kernel after that, which loads at once, finds the same.
    """
    eager, lazily = lost.copy(), lost.copy()
    expected = told(eager, "second", touches, Settings(lazy="off"))
    assert first_difference(expected, told(lazily, "second", touches, Settings(eager_bytes=0))) is None
    # What a thread did last is saved by the next cell, in both.
    again = [("seen.append(0)", False)]
    expected = told(eager, "third", again, Settings(lazy="off"))
    assert first_difference(expected, told(lazily, "third", again, Settings(lazy="off"))) is None
