"""What random notebooks found, each as the shortest program that shows it."""

from __future__ import annotations

import gc
import signal
from collections.abc import Sequence

import pytest

from durable_nb.testing.notebook import Notebook
from durable_nb.testing.simfiles import SimFiles
from durable_nb.testing.workbench import Workbench


def two_lives(*cells: str, then: Sequence[str] | None = None) -> Workbench:
    """Run cells in one life, and again from the top in the next; return the second, in which nothing is pending.

    `then` are the cells of the second, where they are others.
    """
    files = SimFiles()
    first = Workbench(files, life="one")
    for cell in cells:
        first.run(cell)
    first.workflow.close(release=True)
    second = Workbench(files, life="two")
    for cell in then or cells:
        second.run(cell)
    second.run("'settled'")
    return second


@pytest.mark.parametrize(
    ("made", "right"),
    [
        ("a = C()", "type(a) is C"),
        ("a = [C()]", "type(a[0]) is C"),
        ("class D(C): pass", "D.__base__ is C"),
        ("def a(x=C): return x", "a() is C"),
        ("a = [C]", "a[0] is C"),
    ],
)
def test_skipped_cell_uses_the_class_that_ran_again(made: str, right: str) -> None:
    """A class cell that is not skipped defines the class anew; what a skipped cell made is of that class."""
    life = two_lives("x = 1", "class C:\n    def get(self): return 1\nraise ValueError('never skipped')", made)
    assert eval(right, life.namespace), made


HASHED = """
class K:
    def __init__(self, v):
        self.v, self.peers, self.last = v, {}, (v, 1)
    def __hash__(self):
        return hash((self.v, self.last))
    def __eq__(self, other):
        return self.v == other.v
"""
SLOTTED = HASHED.replace("    def __init__", "    __slots__ = ('v', 'peers', 'last')\n    def __init__", 1)


@pytest.mark.parametrize("source", [HASHED, SLOTTED])
@pytest.mark.parametrize(
    ("linked", "right"),
    [
        ("k.peers[k] = j = [k]", "k.peers[k] is j and j[0] is k and list(k.peers) == [k]"),
        ("k.peers = {k}; j = 0", "k in k.peers and len(k.peers) == 1"),
        (
            "j = K(2); k.peers[j] = 1; j.peers[k] = 2",
            "k.peers[j] == 1 and j.peers[k] == 2 and next(iter(k.peers)) is j",
        ),
    ],
)
def test_key_of_a_dict_that_it_holds_itself(source: str, linked: str, right: str) -> None:
    """An instance that hashes by its attributes comes back as a key of what it holds, its attributes in their order."""
    notebook = Notebook()
    notebook.run(source)
    notebook.run(f"k = K('key')\n{linked}")
    assert notebook.unsaved == {}
    again = notebook.restored()
    again.check(f"assert {right}\nassert list(getattr(k, '__dict__', 'vpl')) in (['v', 'peers', 'last'], list('vpl'))")


def test_hashed_instance_keeps_a_shared_dict() -> None:
    """A variable that is the `__dict__` of an instance with a hash stays that."""
    notebook = Notebook()
    notebook.run(HASHED)
    notebook.run("k = K('key'); d = vars(k); k.peers[k] = k")
    notebook.restored().check("assert vars(k) is d and d['peers'][k] is k")


@pytest.mark.parametrize("base", ["enum.Enum", "enum.Flag"])
def test_what_hangs_on_an_enum_member_stays_shared(base: str) -> None:
    """A list and a view that hang on members of an enum stay those of the variables."""
    notebook = Notebook()
    notebook.run(f"import enum, numpy as np\nclass E({base}):\n    X = 1\n    Y = 2")
    notebook.run("a = [1]; b = np.arange(4.0)\nE.X.tag = a; E.Y.view = b[1:]")
    notebook.run("a.append(2)")
    notebook.restored().check("assert E.X.tag is a and a == [1, 2] and np.shares_memory(E.Y.view, b)")
    assert notebook.unsaved == {}


@pytest.mark.parametrize("base", ["enum.Enum", "enum.IntEnum", "enum.Flag"])
@pytest.mark.parametrize("held", ["{E.X: 1}", "{E.X, E.Y}"])
def test_what_hangs_on_an_enum_member_may_have_it_as_a_key(base: str, held: str) -> None:
    """A dict that hangs on a member of an enum, and has it as a key, comes back with it."""
    notebook = Notebook()
    notebook.run(f"import enum\nclass E({base}):\n    X = 1\n    Y = 2\na = {held}\nE.X.tag = a")
    assert notebook.unsaved == {}
    again = notebook.restored()
    again.check("assert E.X.tag is a and E.X in a and E(1) is E.X")
    assert list(vars(again["E"].X)) == list(vars(notebook["E"].X))


def test_a_value_of_an_enum_is_the_variable() -> None:
    """The list that is a member's value stays the variable it was taken from."""
    notebook = Notebook()
    notebook.run("import enum\na = [1]\nclass E(enum.Enum):\n    X = a")
    notebook.restored().check("assert E.X.value is a and E([1]) is E.X")


@pytest.mark.parametrize("first", ["c", "f"])
@pytest.mark.parametrize(
    "hooks",
    [
        "    def __getstate__(self):\n        return {'kept': self.v}\n"
        "    def __setstate__(self, s):\n        self.v = s['kept']\n",
        "    def __getstate__(self):\n        return self.__dict__\n",
        "    def __getstate__(self):\n        return dict(self.__dict__)\n",
        "    def __reduce__(self):\n        return A, (self.v,)\n",
    ],
)
def test_an_instance_with_a_state_of_its_own_keeps_the_dict_that_others_hold(hooks: str, first: str) -> None:
    """`vars(c)` held by a closure is still `c`'s own after a loss, whatever the class says of its state."""
    source = f"class A:\n    def __init__(self, v=0):\n        self.v = v\n{hooks}"
    second = two_lives(f"{first} = None", source, "c = A(1)\na = vars(c)", "def f(s=a):\n    return s", "del a")
    second.run("c.w = 5")
    assert {"v": 1, "w": 5} == eval("f()", second.namespace)
    assert eval("vars(c) is f()", second.namespace)


@pytest.mark.parametrize("links", ["h = vars(a)", "h = lambda s=vars(a): s"])
@pytest.mark.parametrize(
    "made",
    [
        "class L(list): pass\na = L([1])",
        "class L(dict): pass\na = L(x=1)",
        "class L(tuple): pass\na = L([1])",
        "class L(str): pass\na = L('x')",
        "from collections import deque\nclass L(deque): pass\na = L([1])",
        "from collections import Counter\na = Counter('abc')",
        "from collections import OrderedDict\na = OrderedDict(x=1)",
        "from datetime import date\nclass L(date): pass\na = L(2020, 1, 1)",
        "a = ValueError(1)",
        "class L(Exception): pass\na = L(1)",
        "def a(): pass",
        "import functools\n@functools.lru_cache\ndef a(): pass",
        "import functools\na = functools.partial(print)",
    ],
)
def test_a_dict_that_others_hold_stays_that_of_its_object(made: str, links: str) -> None:
    """What holds `vars(a)` sees the attributes of `a` after a restore, whatever kind of object it is."""
    notebook = Notebook()
    notebook.run(f"{made}\na.v = 1\n{links}")
    again = notebook.restored()
    again.check("held = h if type(h) is dict else h()\nassert vars(a) is held and a.v == 1")
    again.run("a.w = 2")
    again.check("assert (h if type(h) is dict else h())['w'] == 2")


def test_a_dict_that_cannot_be_given_to_its_object_is_reported() -> None:
    """A namespace object whose `__dict__` is a variable is reported when it is saved, not when it is missed."""
    notebook = Notebook()
    notebook.run("import types\na = types.SimpleNamespace(v=1)\nh = vars(a)")
    assert list(notebook.unsaved) == ["a"]
    assert "`__dict__`" in notebook.unsaved["a"].reason


def test_what_skipped_cells_made_is_of_the_class_as_a_later_one_left_it() -> None:
    """The cell that changed `a` is gone: `a` is what it was before, and of the class that another skip has changed."""
    kept = ["class B:\n    shared = []\na = {'k': B}", "B.shared.append(1)"]
    second = two_lives(*kept, "a['z'] = 1", then=kept)
    assert eval("a['k'] is B and list(a) == ['k'] and B.shared == [1]", second.namespace)


def test_a_skipped_import_makes_nothing_look_changed() -> None:
    """What refers to an imported class is no change when the cell that imports it was skipped."""
    cells = ["from collections import OrderedDict", "a = OrderedDict(b=float('nan'))", "c = a"]
    second = two_lives(*cells)
    head = second.engine.head
    assert head is not None
    made, bound = head.names["a"], head.names["c"]
    # As the first life left them: made by one cell, bound once more and stored together by the next.
    assert int(bound.version[1:]) - int(made.version[1:]) == 1
    assert {made.group_id, bound.group_id} == {f"{bound.version}.0"}


@pytest.mark.parametrize(
    "made",
    [
        "from collections import Counter\na = Counter('abc')",
        "from datetime import date\nclass L(date): pass\na = L(2020, 1, 1)",
        "from decimal import Decimal\nclass L(Decimal): pass\na = L('1.5')",
        "from fractions import Fraction\nclass L(Fraction): pass\na = L('1/3')",
        "from pathlib import PurePosixPath\nclass L(PurePosixPath): pass\na = L('x')",
        "from itertools import chain\nclass L(chain): pass\na = L([1])",
        "import pandas as pd\na = pd.DataFrame({'q': [1]})",
        "import pandas as pd\na = pd.Series([1])",
        "import pandas as pd\nclass L(pd.DataFrame):\n"
        "    _metadata = ['w']\na = L({'q': [1]})\nobject.__setattr__(a, 'w', [2])",
    ],
)
def test_attributes_that_pickle_leaves_out_are_kept(made: str) -> None:
    """What somebody has set on a Counter, a table or a subclass of a date is there after a restore."""
    notebook = Notebook()
    notebook.run(f"{made}\nb = [1]\nobject.__setattr__(a, 'v', b)")
    again = notebook.restored()
    again.check("assert a.v == [1] and a.v is b and getattr(a, 'w', [2]) == [2]")


@pytest.mark.parametrize("way", ["iter(d)", "reversed(d)", "iter(d.values())", "iter(d.items())"])
@pytest.mark.parametrize("lost", ["", "del d"])
def test_an_iterator_over_a_dict_that_leads_back_to_it(way: str, lost: str) -> None:
    """A value of the dict holds the iterator over it, which goes on where it was."""
    notebook = Notebook()
    notebook.run(f"class A: pass\ng = A()\nd = {{'k': g, 'l': 0, 'm': 2}}\ng.e = e = {way}\nnext(e)\n{lost}")
    assert notebook.unsaved == {}
    again = notebook.restored()
    again.check("assert g.e is e")
    for life in (notebook, again):
        life.check("left = [x if isinstance(x, int | str) else x is g or str(x[0]) for x in e]")
    assert notebook["left"] == again["left"]


@pytest.mark.parametrize("made", ["islice(iter([1, 2]), 5)", "islice(reversed([]), 3)", "chain([1], [2])", "chain()"])
def test_used_up_slices_and_chains_are_saved(made: str) -> None:
    """One that has come to its end is there again, of its type, and has come to its end."""
    notebook = Notebook()
    notebook.run(f"from itertools import chain, islice\na = {made}\nfor _ in range(3): next(a, None)")
    assert notebook.unsaved == {}
    again = notebook.restored()
    assert type(notebook["a"]) is type(again["a"])
    again.check("assert list(a) == []")


def test_a_copy_of_an_error_shares_its_arguments() -> None:
    """What `copy.copy` makes of an error has the very tuple of arguments, and may hold on to what is in it."""
    notebook = Notebook()
    notebook.run("import copy\nf = ValueError([1], 'x')\ne = copy.copy(f)")
    notebook.restored().check("assert f.args is e.args and f.args == ([1], 'x')")


def test_attributes_of_a_cached_function_keep_their_order() -> None:
    """`vars(f)` of a function whose cache remembers calls is in the order in which it was."""
    notebook = Notebook()
    notebook.run("import functools\n@functools.lru_cache\ndef f(x=0):\n    return [x]\nf.tag = 1\nf(1)")
    assert list(vars(notebook["f"])) == list(vars(notebook.restored()["f"]))


def test_iterators_over_dictionaries_that_share_a_list_stay_joined() -> None:
    """A skip finds that the variables are apart although what is left of the iterators is the same."""
    failing = "class C: n = 0\nC.shared.append('k')"
    cells = ["a = []\nd = iter({1: a})", failing, "b = iter({1: a})", "def make():\n    return make\na = make()"]
    life = two_lives(*cells)
    one, other = (gc.get_referents(life.namespace[name])[0] for name in "db")
    assert one[1] is other[1]


@pytest.mark.parametrize(
    ("hooks", "held", "right"),
    [
        (
            "def __getstate__(self): return {'kept': self.v}\n    def __setstate__(self, kept): self.v = kept['kept']",
            "B(7)",
            "B.shared.v == 7",
        ),
        (
            "def __hash__(self): return hash(self.v)\n    def __eq__(self, other): return self.v == other.v",
            "{B(7)}",
            "B(7) in B.shared and B(8) not in B.shared",
        ),
        ("def __setattr__(self, name, value): object.__setattr__(self, name, value)", "B(7)", "B.shared.v == 7"),
    ],
    ids=["state", "hash", "setattr"],
)
@pytest.mark.parametrize("slots", ["", "__slots__ = ('v',)"], ids=["dict", "slots"])
def test_a_class_that_holds_its_own_objects(hooks: str, held: str, right: str, slots: str) -> None:
    """What the class holds is loaded before the class has its members; those that loading asks for come first."""
    notebook = Notebook()
    notebook.run(
        f"class B:\n    {slots}\n    def __init__(self, v=0):\n        object.__setattr__(self, 'v', v)\n    {hooks}\n"
        f"B.shared = {held}"
    )
    assert notebook.unsaved == {}
    notebook.restored().check(f"assert {right}")


def test_a_function_that_wraps_a_class() -> None:
    """`functools.wraps` hands a class's places of attributes to the function; they are those of the class again."""
    notebook = Notebook()
    notebook.run(
        "import functools\ndef singleton(cls):\n    @functools.wraps(cls)\n    def get(*a):\n        return cls(*a)\n"
        "    return get\n@singleton\nclass Config:\n    n = 1\n"
        "class S:\n    __slots__ = ('v',)\nplace = S.v"
    )
    assert notebook.unsaved == {}
    again = notebook.restored()
    again.check("assert Config.__dict__['__dict__'] is vars(Config.__wrapped__)['__dict__'] and Config().n == 1")
    again.check("s = S(); place.__set__(s, 3); assert s.v == 3 and place is vars(S)['v']")


def test_a_set_whose_member_has_lost_its_hash() -> None:
    """It cannot be built again: that is said at each save, also when all of its types have come back before."""
    notebook = Notebook()
    notebook.run(
        "class K:\n    def __init__(self): self.name = 'k'\n    def __hash__(self): return hash(self.name)\n"
        "    def __eq__(self, other): return self is other\nk = K(); other = [[]]\ng = iter({1: {k}})"
    )
    assert notebook.unsaved == {}
    notebook.run("k.name = []")
    assert "unhashable" in notebook.unsaved["g"].reason
    notebook.run("k = 0; other = 1")
    assert "unhashable" in notebook.unsaved["g"].reason


def test_proofs_in_a_process_that_throws_the_ends_of_its_children_away() -> None:
    """With SIGCHLD ignored nobody can be asked how a child ended; what it has said counts."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        notebook = Notebook()
        notebook.run("class Fresh: pass\nx = Fresh()\nx.a = [1]")
        assert notebook.unsaved == {}
    finally:
        signal.signal(signal.SIGCHLD, before)
    notebook.restored().check("assert x.a == [1]")
