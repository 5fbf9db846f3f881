"""What tables, columns and indexes of pandas share until one of them is written to, they share so after a restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from durable_nb.testing.notebook import Notebook

pytest.importorskip("pandas")


def _restored(*cells: str) -> Notebook:
    notebook = Notebook()
    for cell in cells:
        notebook.run(cell)
    assert {} == notebook.unsaved
    return notebook.restored()


def _switched(on: bool) -> AbstractContextManager[Any]:
    """Choose whether pandas copies on write; from 3.0 on it always does."""
    import pandas as pd

    older = int(pd.__version__.partition(".")[0]) < 3
    return pd.option_context("mode.copy_on_write", on) if older else nullcontext()


@pytest.fixture
def _copies_on_write() -> Iterator[None]:
    with _switched(True):
        yield


FRAME = "import numpy as np, pandas as pd; df = pd.DataFrame({'a': range(5), 'b': range(5), 'k': list('vwxyz')})"
WRITE = "{name}.iloc[(0,) * {name}.ndim] = {value}"


@pytest.mark.usefixtures("_copies_on_write")
@pytest.mark.parametrize(
    ("other", "value"),
    [
        ("o = df['a']", 100),
        ("df = df[['k']].copy(); o = df['k']", "'W'"),
        ("o = df[['a', 'b']]", 100),
        ("o = df[1:]", 100),
        ("o = df.iloc[:, 0:1]", 100),
        ("o = df.copy(deep=False)", 100),
        ("o = df.assign(c=1)", 100),
        ("o = df.rename(columns={'a': 'z'})", 100),
        ("o = df.set_index('b')", 100),
        ("o = df.astype({'a': 'int64'})", 100),
        ("o = df['a'].astype('int64')[:3]", 100),
        ("o = df.T.T", 100),
        ("o = df.reset_index(drop=True)", 100),
        ("s = pd.Series([1, 2, 3]); df = s; o = s[1:]", 100),
        ("df = pd.Series(pd.date_range('2020', periods=3)); o = df[:]", "pd.Timestamp('1999')"),
        ("df = pd.Series(list('aba'), dtype='category'); o = df[:]", "'b'"),
        ("df = pd.Series([1, 2, None], dtype='Int64'); o = df[:]", 100),
    ],
)
@pytest.mark.parametrize("written", ["df", "o"])
def test_a_write_to_one_table_does_not_reach_another(other: str, value: object, written: str) -> None:
    """Tables and columns that share their values come back so that the one that is written to is copied first."""
    notebook = _restored(FRAME, other)
    unwritten = "o" if written == "df" else "df"
    notebook.check(f"before = {unwritten}.copy()")
    notebook.check(WRITE.format(name=written, value=value))
    notebook.check(f"assert {unwritten}.equals(before), {unwritten}")
    notebook.check(f"assert {written}.iloc[(0,) * {written}.ndim] == {value}")


@pytest.mark.usefixtures("_copies_on_write")
@pytest.mark.parametrize(
    "cell",
    [
        "i = pd.Index([1, 2, 3]); s = pd.Series(i)",
        "i = pd.Index(list('abc')); s = i.to_series(index=range(3))",
        "i = pd.date_range('2020', periods=3); s = pd.Series(i)",
        "s = pd.Series([1, 2, 3]); i = pd.Index(s)",
        "s = pd.Series(list('abc')); i = s.to_frame().set_index(0).index",
    ],
)
def test_a_write_to_a_column_does_not_reach_an_index(cell: str) -> None:
    """An index stays what it is when the column that it was made of, or that was made of it, is written to."""
    notebook = _restored("import pandas as pd", cell)
    notebook.check("before = list(i); s.iloc[0] = s.iloc[2]; assert list(i) == before, i")


@pytest.mark.usefixtures("_copies_on_write")
def test_what_is_shared_with_an_array_stays_shared() -> None:
    """A read-only array of a table's values and a table around an array behave after a restore as before."""
    around = "import numpy as np, pandas as pd; a = np.zeros(3); df = pd.DataFrame(a, copy=False); v = df.to_numpy()"
    notebook = _restored(around)
    notebook.check("a[0] = 7; assert df.iloc[0, 0] == 7")
    notebook.check("assert not v.flags.writeable and v[0, 0] == 7 and np.shares_memory(v, a)")


@pytest.mark.usefixtures("_copies_on_write")
def test_a_table_that_nobody_shares_is_written_to_in_place() -> None:
    """A write after a restore copies nothing when there is nobody to copy for."""
    notebook = _restored("import numpy as np, pandas as pd; df = pd.DataFrame({'a': range(5)})")
    notebook.check("v = df['a'].to_numpy(); df.iloc[0, 0] = 7; assert v[0] == 7")


@pytest.mark.usefixtures("_copies_on_write")
def test_what_is_deleted_is_not_copied_for() -> None:
    """A column whose name is deleted after the restore leaves the table alone again."""
    notebook = _restored(FRAME, "o = df['a']")
    notebook.check("import gc; v = df['a'].to_numpy(); del o; gc.collect(); df.loc[0, 'a'] = 7; assert v[0] == 7")


def test_without_it_a_column_is_a_window_on_its_table() -> None:
    """Where copying on write is a choice that was not made, a column and its table go on to share what is written."""
    import pandas as pd

    if int(pd.__version__.partition(".")[0]) >= 3:
        pytest.skip("from pandas 3.0 on it is no choice")
    with _switched(False):
        notebook = _restored("import pandas as pd; df = pd.DataFrame({'a': range(5), 'b': range(5)}); col = df['a']")
        notebook.check("df.loc[0, 'a'] = 100; assert col[0] == 100")
