"""Names that are loaded when they are asked for, by cells, functions, classes and threads; what is left in the end."""

from __future__ import annotations

import builtins
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

from durable_nb.config import Settings
from durable_nb.engine import pending
from durable_nb.engine.restoring import restore_names
from durable_nb.model import CheckpointId
from durable_nb.testing.simfiles import SimFiles
from durable_nb.testing.workbench import Workbench

LAZY = Settings(eager_bytes=0)


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """The module that classes of the notebook say they are of is put back."""
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


def life(files: SimFiles, name: str, settings: Settings = LAZY) -> Workbench:
    """The next kernel over the same files; the one before is lost."""
    main = types.ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return Workbench(files, life=name, main=main, settings=settings)


def after_loss(*cells: str, settings: Settings = LAZY) -> Workbench:
    """A kernel that has restored, with nothing loaded, what these cells had made before the last one was lost."""
    files = SimFiles()
    first = life(files, "one")
    for number, cell in enumerate(cells):
        assert first.run(cell, filename=f"<cell one {number}>"), cell
    return next_life(first, settings)


def next_life(bench: Workbench, settings: Settings = LAZY) -> Workbench:
    """The kernel after one that is lost without having said anything."""
    bench.workflow.close()
    files = bench.repository.files
    assert isinstance(files, SimFiles)
    return life(files, f"{bench.engine.kernel_id}-next", settings)


def waiting(bench: Workbench) -> set[str]:
    """The names that are still to be loaded."""
    return set(bench.engine.capture.lazy.names)


def versions(bench: Workbench) -> dict[str, str]:
    """The version of every variable of the head."""
    assert bench.engine.head is not None
    return {name: variable.version for name, variable in bench.engine.head.names.items()}


# ---- cells -----------------------------------------------------------------------------------------------------------


def test_a_cell_loads_what_it_reads_and_no_more() -> None:
    """The names that a cell reaches are there before it runs; the others wait."""
    bench = after_loss("lst_a = [1]\nlst_b = [2]\nlst_c = [3]", "def total_of(): return sum(lst_b)")
    assert {"lst_a", "lst_b", "lst_c", "total_of"} <= waiting(bench)
    bench.run("n = total_of()")
    assert (2, {"lst_a", "lst_c"}) == (bench.namespace["n"], waiting(bench))


def test_groups_are_loaded_whole() -> None:
    """Names that share an object come together and share it."""
    bench = after_loss("a = [1]", "d = {'k': a}")
    bench.run("a.append(2)")
    assert [1, 2] == bench.namespace["d"]["k"]
    assert bench.namespace["d"]["k"] is bench.namespace["a"]
    assert set() == waiting(bench)


def test_everything_loads_all() -> None:
    """A cell that may look at the namespace as a whole finds it whole."""
    bench = after_loss("a = [1]\nb = [2]")
    bench.run("seen = sorted(n for n in globals() if len(n) == 1)")
    assert (["a", "b"], set()) == (bench.namespace["seen"], waiting(bench))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("x += [1]", [1, 1]),
        ("x = 5", 5),
        ("del x", None),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as x:\n    pass", None),
        ("if False:\n    x = 3", [1]),
        ("y = 'x' in dir()", [1]),
        ("def f():\n    global x\n    del x\nf()", None),
    ],
)
def test_binding_a_pending_name(cell: str, expected: object) -> None:
    """A pending name that is changed, bound or deleted is what it would be had it been loaded."""
    bench = after_loss("x = [1]\nz = [2]")
    bench.run(cell)
    pending.load_all(bench.engine)
    assert expected == bench.namespace.get("x")
    third = next_life(bench, Settings())
    assert expected == third.namespace.get("x")


def test_what_was_bound_meanwhile_is_not_overwritten() -> None:
    """When its group loads for another name's sake, a name that was bound anew stays as it is bound."""
    bench = after_loss("a = [1]\nb = [a]")
    bench.run("a = 'mine'")
    bench.run("n = len(b)")
    assert ("mine", [[1]]) == (bench.namespace["a"], bench.namespace["b"])


def test_a_look_neither_loads_nor_loses() -> None:
    """A cell that touches nothing pending commits, and what is pending stays at its version."""
    bench = after_loss("a = [1]\nb = [2]")
    version = bench.engine.head.names["a"].version  # type: ignore[union-attr]
    bench.run("n = 1")
    bench.engine.commit_outside()
    head = bench.engine.head
    assert head is not None
    assert ({"a", "b"}, version) == (waiting(bench), head.names["a"].version)


def test_a_change_after_a_late_load_is_seen() -> None:
    """What a cell changes in a variable that came for it is committed with it; what only came is not."""
    bench = after_loss("a = [1]\nb = [2]")
    before = versions(bench)
    bench.run("n = len(b)")
    assert (before["a"], before["b"]) == (versions(bench)["a"], versions(bench)["b"])
    bench.run("a.append(n)")
    assert before["a"] != versions(bench)["a"]
    assert before["b"] == versions(bench)["b"]


def test_classes_are_the_same_whenever_instances_come() -> None:
    """Instances that load at different times are of one class, also after the notebook has defined it anew."""
    bench = after_loss("class C:\n    pass", "one = C()", "two = C()", "three = C()")
    bench.run("kind = type(one)")
    bench.run("class C:\n    new = True")
    bench.run("same = type(two) is kind and type(three) is kind and kind is not C")
    assert bench.namespace["same"]


@pytest.mark.parametrize("cell", ["class C:\n    new = True", "del C", "class C:\n    pass", "n = 1"])
def test_instances_of_a_class_that_is_another_one_now_stay_what_they_were(cell: str) -> None:
    """What is pending when its class is bound anew is after the next loss what it is when all was loaded at once."""
    kinds = "kinds = type(one).__name__, type(two[0]).__name__, isinstance(one, globals().get('C', int))"
    found = []
    for settings in (LAZY, Settings()):
        bench = after_loss("class C:\n    pass", "one = C()", "two = [C()]", settings=settings)
        bench.run(cell, filename="<cell two>")
        third = next_life(bench)
        third.run(kinds)
        found.append((third.namespace["kinds"], third.engine.state.checkpoints.keys()))
    assert found[0] == found[1]


def test_a_loss_while_pending_loses_nothing() -> None:
    """A kernel that is killed with names pending leaves all of them to the next."""
    bench = after_loss("a = [1]\nb = [2]")
    bench.run("b.append(3)")
    third = next_life(bench)
    third.run("total = a + b")
    assert [1, 2, 3] == third.namespace["total"]


def test_builtin_names_are_there_from_the_start() -> None:
    """A variable that hides a builtin is never found to be the builtin."""
    bench = after_loss("max = [1]\na = [2]")
    assert {"a"} == waiting(bench)
    assert [1] == bench.namespace["max"]


def test_hooks_that_read_the_notebook_run_at_the_restore() -> None:
    """What asks for variables while it loads is loaded at once: later they are others."""
    reads = "class R:\n    def __setstate__(self, state):\n        self.v = scale"
    plain = "class P:\n    def __setstate__(self, state):\n        self.v = state['v']"
    bench = after_loss("scale = 7", reads, plain, "r, p = R(), P()\nr.v = p.v = 7", "rs, ps = [r], [p]\ndel r, p")
    assert "rs" not in waiting(bench)
    assert "ps" in waiting(bench)
    bench.run("scale = 8")
    bench.run("got = rs[0].v, ps[0].v")
    assert (7, 7) == bench.namespace["got"]


# ---- skipped cells ---------------------------------------------------------------------------------------------------

MADE = ("class C:\n    pass", "big = [C(), 'old']\nother = [big]\nn = 1", "big = ['new']", "n = 2\nlast = C()")


def test_skipped_cells_load_nothing() -> None:
    """Run All to the end of what is finished loads nothing; a new cell loads what it reads."""
    bench = after_loss(*MADE)
    before = waiting(bench)
    assert [bench.run(cell, filename=f"<again {k}>") for k, cell in enumerate(MADE)] == [False] * 4
    assert before == waiting(bench)
    bench.run("got = big")
    assert (["new"], before - {"big"}) == (bench.namespace["got"], waiting(bench))


def test_where_skipped_cells_stand_is_loaded_later_too() -> None:
    """A cell in the middle that really runs finds what the cells above had left, loaded as it asks for it."""
    bench = after_loss(*MADE)
    assert [bench.run(cell, filename=f"<again {k}>") for k, cell in enumerate(MADE[:2])] == [False, False]
    bench.run("edited = n")
    assert 1 == bench.namespace["edited"]
    assert {"big", "other"} <= waiting(bench)
    bench.run("same = other[0] is big and type(big[0]) is C and big[1] == 'old'")
    assert bench.namespace["same"]
    third = next_life(bench)
    third.run("same = other[0] is big and type(big[0]) is C and big[1] == 'old' and edited == 1")
    assert third.namespace["same"]


def test_a_class_that_waits_is_one_with_its_instances_from_an_earlier_checkpoint() -> None:
    """Where skipped cells stand, an instance that comes later is of the class that its name means, not of a twin."""
    made = (
        "import functools\nclass A:\n    @functools.cache\n    def twice(self, n):\n        return [n, n]",
        "a = A()",
        "two = a.twice(2)",
        "last = 1",
    )
    bench = after_loss(*made)
    assert [bench.run(cell, filename=f"<again {k}>") for k, cell in enumerate(made[:2])] == [False, False]
    bench.run("b = a.twice(3)")
    assert type(bench.namespace["a"]) is bench.namespace["A"]


def test_what_a_hook_asks_for_is_made_of_the_classes_that_are_being_loaded() -> None:
    """An object that reads a pending variable while a restore loads it gets instances of the one class there is."""
    bench = after_loss(
        "class D: pass",
        "big = [D(), 'x' * 200_000]",
        "class C:\n    def __setstate__(self, state):\n        self.seen = type(big[0])",
        "h = C()\nh.seen = D",
        settings=Settings(eager_bytes=100_000),
    )
    found = bench.namespace["h"].seen, bench.namespace["big"][0]
    assert (bench.namespace["D"], bench.namespace["D"]) == (found[0], type(found[1]))


def test_single_names_come_back_from_another_checkpoint() -> None:
    """`restore NAME` of an earlier checkpoint takes the place of what is pending, for that name only."""
    bench = after_loss(*MADE)
    workflow = bench.engine.workflow
    then = next(one.id for one in workflow.checkpoints() if "n" in workflow.manifest(one.id).names)
    restore_names(bench.engine, then, ["n"])
    assert 1 == bench.namespace["n"]
    assert "n" not in waiting(bench)
    bench.run("got = n, big")
    assert (1, ["new"]) == bench.namespace["got"]


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_threads_ask_at_the_same_time() -> None:
    """Many threads that ask for the same names get the same objects, each loaded once."""
    bench = after_loss(*(f"v{n} = [{n}]" for n in range(8)))
    lazy = bench.engine.capture.lazy
    loaded: list[str] = []
    read = bench.engine.workflow.read_group
    for source in lazy._sources.values():
        source.read._read = lambda group: (loaded.append(group.group_id), read(group))[1]  # type: ignore[misc]
    exec("def ask(n): return [globals_[f'v{k}']() for k in range(n, n + 8)]", bench.namespace)
    exec("globals_ = {f'v{k % 8}': None for k in range(16)}", bench.namespace)
    for k in range(16):
        bench.namespace["globals_"][f"v{k}"] = eval(f"lambda: v{k % 8}", bench.namespace)
    barrier, got = threading.Barrier(8), {}

    def ask(n: int) -> None:
        barrier.wait()
        got[n] = bench.namespace["ask"](n)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [[(n + k) % 8] for n in range(8) for k in range(8)] == [v for n in range(8) for v in got[n]]
    assert len(loaded) == len(set(loaded)) <= 8  # one may have been fetched before anybody asked
    assert all(got[n][k] is bench.namespace[f"v{(n + k) % 8}"] for n in range(8) for k in range(8))


def test_a_thread_asks_while_the_notebook_loads() -> None:
    """A thread that asks for another name than the one that is being loaded waits for its turn and gets it."""
    bench = after_loss("a = [1]\nb = [2]")
    lazy = bench.engine.capture.lazy
    entered, released, got = threading.Event(), threading.Event(), []
    read = bench.engine.workflow.read_group

    def slowly(group: Any) -> Any:
        if "a" in group.names:
            entered.set()
            assert released.wait(30)
        return read(group)

    for source in lazy._sources.values():
        source.read._read = slowly  # type: ignore[assignment]
    exec("def ask(): return b", bench.namespace)
    main = threading.Thread(target=lambda: lazy.load(["a"]))
    main.start()
    assert entered.wait(30)
    other = threading.Thread(target=lambda: got.append(bench.namespace["ask"]()))
    other.start()
    released.set()
    main.join(30)
    other.join(30)
    assert [[2]] == got
    assert [1] == bench.namespace["a"]


def test_a_forked_child_asks() -> None:
    """A child that is forked while another thread loads, and while one reads ahead, finds what is pending."""
    bench = after_loss("a = [1]\nb = [2]")
    lazy = bench.engine.capture.lazy
    entered, released = threading.Event(), threading.Event()
    read = bench.engine.workflow.read_group
    parent = os.getpid()

    def slowly(group: Any) -> Any:
        if os.getpid() == parent:
            entered.set()
            assert released.wait(30)
        return read(group)

    for source in lazy._sources.values():
        source.read._read = slowly
    ahead = threading.Thread(target=lambda: lazy.fetch("b"))
    ahead.start()
    loading = threading.Thread(target=lambda: lazy.load(["a"]))
    loading.start()
    assert entered.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if eval("a + b", bench.namespace) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    released.set()
    loading.join(30)
    ahead.join(30)
    assert [1, 2] == eval("a + b", bench.namespace)


def test_an_interrupt_leaves_names_pending() -> None:
    """What was interrupted while it loaded is loaded when it is asked for again."""
    bench = after_loss("a = [1]")
    lazy = bench.engine.capture.lazy
    source = lazy._sources["a"]
    read = source.read._read

    def interrupted(group: Any) -> Any:
        raise KeyboardInterrupt

    source.read._read = interrupted
    with pytest.raises(KeyboardInterrupt):
        lazy.load(["a"])
    assert {"a"} == waiting(bench)
    source.read._read = read
    assert [1] == eval("a", bench.namespace)


def test_hooks_ask_while_the_rest_is_restored() -> None:
    """What a hook asks for during the restore is made of the same classes as what is restored beside it."""
    bench = after_loss(
        "class C:\n    pass",
        "class H:\n    def __setstate__(self, state):\n        self.__dict__.update(state, table=len(table))",
        "table = [C() for _ in range(40)]\none = C()",
        "h = H()\nh.table = 40",
        settings=Settings(eager_bytes=9000),
    )
    assert {"table"} >= waiting(bench)
    bench.run("same = type(table[0]) is type(one) is C and h.table == 40")
    assert bench.namespace["same"]


# ---- what does not load ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", ["list(range(100000))", "np.random.default_rng(1).random(300_000)"])
def test_what_fails_late_fails_by_name(made: str) -> None:
    """A name whose content is damaged is told and missing; its neighbours come, and the kernel goes on."""
    bench = after_loss(f"import numpy as np\na = {made}\nb = [2]")
    lazy = bench.engine.capture.lazy
    files = bench.repository.files
    assert isinstance(files, SimFiles)
    for name, _ in files.list("packs"):
        files.damage(f"packs/{name}", len(files.read(f"packs/{name}")) // 2)
    lazy.load(["a"])
    assert ("a" not in bench.namespace, "a" in bench.engine.absent) == (True, True)
    assert any("`a` could not be loaded" in line for line in bench.shell.said), bench.shell.said
    bench.run("n = b[0]")
    assert 2 == bench.namespace["n"]


def test_what_has_come_is_at_its_version_at_once() -> None:
    """Who asks before the next look whether a variable is what the checkpoint has is told that it is."""
    bench = after_loss("class C: pass", "a = [C()]")
    pending.load_all(bench.engine)
    now = versions(bench)
    assert [True, True] == [bench.engine.capture.is_at(name, CheckpointId(now[name])) for name in ("a", "C")]
    bench.namespace["a"] = [bench.namespace["C"]()]
    assert not bench.engine.capture.is_at("a", CheckpointId(now["a"]))


def test_names_that_share_are_proved_by_a_fingerprint_as_well() -> None:
    """A group of several names comes on the proof of its own fingerprint, and is checked by its digests later."""
    bench = after_loss("import numpy as np\na = np.arange(300_000.0)\nb = [a]", "c = 1")
    bench.engine.capture.lazy.load(["a"])
    assert [["a", "b"]] == [sorted(group.names) for group in bench.engine.capture.lazy.unchecked]
    assert bench.namespace["b"][0] is bench.namespace["a"]


def test_what_a_hook_changes_while_it_loads_is_looked_at() -> None:
    """The marks of what was read are not taken for those of memory that a class of the notebook has written to."""
    bench = after_loss(
        "import numpy as np\n"
        "class Scaled:\n"
        "    def __setstate__(self, state):\n"
        "        self.__dict__.update(state)\n"
        "        self.data[0] = 5.0\n"
        "s = Scaled()\ns.data = np.zeros(1_000_000)",
    )
    before = versions(bench)["s"]
    assert bench.run("x = s.data[0]")
    assert (5.0, before) == (bench.namespace["x"], versions(bench)["s"])


def test_what_a_forger_has_changed_is_told() -> None:
    """Content whose fingerprint fits and whose digests do not is told by name in the first idle moment."""
    bench = after_loss("import numpy as np\na = np.arange(300_000.0)\nb = np.arange(300_000.0) + 0.5")
    lazy = bench.engine.capture.lazy
    lazy.load(["a", "b"])
    idle = pending.Idle(bench.engine)
    assert {("a",), ("b",)} == {group.names for group in lazy.unchecked}
    (forged,) = [group for group in lazy.unchecked if group.names == ("a",)]
    files = bench.repository.files
    assert isinstance(files, SimFiles)
    (entry,) = bench.repository.chunks.entries(forged.buffers[0].chunks[1])
    files.damage(f"packs/{entry.pack}", entry.offset + 100)
    while idle.more():
        idle.fetch()
        idle.take()
    told = [line for line in bench.shell.said if "is not what was saved" in line]
    assert ["`a`" in line and "`b`" not in line for line in told] == [True]


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_with_all_loaded_the_namespace_is_plain() -> None:
    """When nothing is pending any more, the builtins are those of any notebook."""
    bench = after_loss("a = [1]", "def f(): return a")
    pending.load_all(bench.engine)
    assert bench.namespace["__builtins__"] is builtins
    assert bench.namespace["f"].__builtins__ is vars(builtins)


def test_small_states_are_loaded_at_once() -> None:
    """Below the budget nothing waits, and with `lazy` off nothing does."""
    assert set() == waiting(after_loss("a = [1]", settings=Settings()))
    assert set() == waiting(after_loss("a = [1]", settings=Settings(eager_bytes=0, lazy="off")))


def test_idle_moments_load_the_rest() -> None:
    """Reading ahead and taking turn by turn brings everything, the smallest first."""
    bench = after_loss("a = [0] * 1000\nb = [2]")
    idle = pending.Idle(bench.engine)
    idle.fetch()
    assert {"a", "b"} == waiting(bench)
    idle.take()
    assert {"a"} == waiting(bench)
    while idle.more():
        idle.fetch()
        idle.take()
    assert [2] == bench.namespace["b"]
    assert bench.namespace["__builtins__"] is builtins
