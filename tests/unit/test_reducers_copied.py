"""What polars would copy of the notebook together with a function is told; what is as good copied is not."""

from __future__ import annotations

import pickle
import sys
import types
from typing import Any

import pytest

from durable_nb.capture.reducers import Unstorable
from durable_nb.capture.reducers.polars import _lazy

pl = pytest.importorskip("polars")

SETUP = """
import functools, math
import polars as pl

class Thing:
    def __call__(self, column):
        return column

    def method(self, column):
        return column

def held(value):
    return pl.col("a").map_batches(lambda column: (value, column + more)[1], return_dtype=pl.Int64)

more = 1
"""
COPIED = (
    "held([1])",
    "held(Thing)",
    "held([].append)",
    "pl.col('a').map_batches(Thing())",
    "pl.col('a').map_batches(Thing().method)",
    "pl.col('a').map_batches(functools.partial(held, Thing()))",
    "pl.LazyFrame({'a': [1]}).map_batches(Thing())",
)
SAME = ("held(1)", "held(math)", "held(math.sin)", "held(int)", "held(held)", "pl.col('a') + 1 + held(None)")


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of a notebook: those of `__main__`, as in a kernel."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(compile(SETUP, "<cell>", "exec", dont_inherit=True), vars(module))
    return vars(module)


@pytest.mark.parametrize("expression", COPIED)
def test_objects_of_the_notebook_are_not_copied(expression: str, main: dict[str, Any]) -> None:
    """Another object in place of the notebook's would be a silent loss."""
    with pytest.raises(Unstorable, match="copy; make it again in a cell"):
        _lazy(eval(expression, main))


@pytest.mark.parametrize("expression", SAME)
def test_functions_go_on_with_the_variables_of_the_notebook(expression: str, main: dict[str, Any]) -> None:
    """What is made again reads the variable that is there when it is used, as before; also when it is stored again."""
    make, args, state, *_ = _lazy(eval(expression, main))
    again = make(*args)
    again.__setstate__(pickle.loads(pickle.dumps(state)))
    main["more"] = 10
    expected = pl.DataFrame({"a": [1]}).select(eval(expression, main))
    assert expected.equals(pl.DataFrame({"a": [1]}).select(again))
    assert state == _lazy(again)[2]
