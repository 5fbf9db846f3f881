"""What counts as only looking at tables and arrays, and that nothing which writes does."""

from __future__ import annotations

import ast

import numpy as np
import pandas as pd
import pytest

from durable_nb.capture import settled
from durable_nb.capture.access import analyse
from durable_nb.capture.access_pure import only_reads
from durable_nb.capture.settled import Touched
from durable_nb.testing.notebook import Notebook

SETUP = """
import numpy as np, pandas as pd
df = pd.DataFrame({'k': [1, 2, 1], 'v': [1.5, 2.5, 3.5], 's': ['a', 'b', 'c']})
arr = np.arange(6.0)
xs = [[1]]
def f(x): return x
"""
LOOKS = [
    "df.head()", "df", "df.v.mean()", "df['v'].sum()", "df.groupby('k')['v'].agg(['mean', 'max'])",
    "df.groupby('k').v.mean()", "df[df.v > 2]", "df.describe().T.round(1)", "m = df.v.mean()\nm * 2",
    "for name, part in df.groupby('k'):\n    print(name, len(part))", "df.s.str.upper().value_counts()",
    "arr.mean()", "np.mean(arr[1:])", "print(df.shape, arr.dtype)", "pd.concat([df, df])", "y = arr[2:]",
    "f'{df.v.max():.1f}'", "[c for c in df.columns]", "df.merge(df, on='k')", "df.assign(w=df.v * 2)",
    "df.groupby('k').agg(total=('v', 'sum'))", "df.agg({'v': ['mean', 'std']})", "df.rename(columns={'v': 'w'})",
    "np.where(arr > 2, arr, 0)", "arr.clip(0, 1)", "np.maximum(arr, arr)", "df.sort_values('v', ascending=False)",
    "df.pivot_table('v', 'k', 's')",
]  # fmt: skip
WRITES = [
    "df['w'] = 1", "df.v = 2", "df.loc[0, 'v'] = 3", "df.at[0, 'v'] = 3", "df.pop('v')", "df.insert(0, 'w', 1)",
    "df.sort_values('v', inplace=True)", "df.dropna(**{'inplace': True})", "arr[0] = 1", "arr += 1", "arr.sort()",
    "arr.fill(0)", "np.add.at(arr, 0, 1)", "np.copyto(arr, 0)", "np.sin(arr, out=arr)", "arr.flags.writeable = False",
    "y = arr[1:]\ny[0] = 9", "y = arr[1:]\ny += 9", "f(arr)", "list(map(f, arr))", "df.apply(f)", "df.pipe(f)",
    "df.v.map(lambda v: arr.fill(v))", "xs[0]", "xs[0].append(2)", "del df['v']", "exec('arr[0] = 1')",
    "df.index.name = 'i'", "df.columns = ['a', 'b', 'c']", "(lambda: arr.fill(1))()", "with open('x') as h: pass",
    "import os\ndf.head()", "df.eval('w = v', inplace=True)", "def g(): pass\ndf.head()", "getattr(arr, 'fill')(1)",
    "df.head", "print = f\nprint(arr)", "arr.view().fill(1)", "df.update(df)",
    "np.median(arr, overwrite_input=True)", "np.percentile(arr, 30, None, None, True)",
    "np.concatenate((arr,), 0, arr)",
    "df.agg('pop', 0, 'v')", "df.agg('pop')", "df.agg({'v': 'pop'})", "np.sqrt = f\nnp.sqrt(arr)",
    "np.mean(arr, None, None, arr)", "pd.NamedAgg('v', 'pop')",
    "import builtins\nbuiltins.abs = f\nabs(arr)",
    "np.sin(arr, arr)", "arr.clip(0, 1, arr)", "np.maximum(arr, arr, arr)", "arr.round(1, arr)", "arr.max(0, arr)",
    "y = arr[1:]\nnp.sqrt(4.0, y)",
]  # fmt: skip


@pytest.fixture
def namespace() -> dict[str, object]:
    """Return a namespace with a table, an array, a list and a function."""
    made: dict[str, object] = {"__name__": "__main__"}
    exec(SETUP, made)
    return made


@pytest.mark.parametrize("cell", LOOKS)
def test_these_only_look(cell: str, namespace: dict[str, object]) -> None:
    """Everyday cells that look at tables and arrays are known as such, and leave them as they were."""
    found = only_reads(ast.parse(cell), namespace)
    assert found == {n for n in ("df", "arr") if n in cell}
    before = (namespace["df"].copy(deep=True), namespace["arr"].copy())  # type: ignore[attr-defined]
    exec(cell, namespace)
    pd.testing.assert_frame_equal(before[0], namespace["df"])  # type: ignore[arg-type]
    np.testing.assert_array_equal(before[1], namespace["arr"])  # type: ignore[arg-type]


@pytest.mark.parametrize("cell", [c for c in WRITES if c != "df.head"])
def test_these_may_write(cell: str, namespace: dict[str, object]) -> None:
    """Whatever writes, or calls what is not on the list, makes the cell one that may change all it names."""
    assert only_reads(ast.parse(cell), namespace) == frozenset()


def test_what_is_only_looked_at_is_not_stored_again_and_new_views_join_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look after such a cell takes the table as it is; a view that it made is stored with its array."""
    monkeypatch.setattr(settled, "CHEAP_S", 0.0)
    notebook = Notebook()
    notebook.run(SETUP)
    notebook.ns["arr"][0] = 7.0  # behind its back: only who reads the bytes again can know
    for cell, changed in [("df.head()\narr.mean()", ()), ("y = arr[2:]", ("arr", "y"))]:
        tree = ast.parse(cell)
        access = analyse(tree, cell, notebook.ns)
        exec(cell, notebook.ns)
        assert access.may_change is not None
        touched = Touched(names=access.may_change - access.only_read, read=access.only_read)
        assert set(changed) == set(notebook.look(touched=touched).changed)
    restored = notebook.restored()
    restored["y"][0] = 99.0
    assert restored["arr"][2] == 99.0


def test_a_table_of_the_notebooks_own_objects_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at it may run their code, which may change anything it leads to."""
    monkeypatch.setattr(settled, "CHEAP_S", 0.0)
    notebook = Notebook()
    notebook.run(
        "import pandas as pd\nseen = []\nclass A:\n"
        "    def __repr__(self):\n        seen.append(1)\n        return 'A'\n"
        "df = pd.DataFrame({'a': [A()]}, dtype=object)"
    )
    cell = "print(df)"
    access = analyse(ast.parse(cell), cell, notebook.ns)
    exec(cell, notebook.ns)
    assert access.only_read == {"df"}
    assert notebook.look(touched=Touched(read=access.only_read)).changed == ("seen",)
