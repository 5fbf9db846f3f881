"""Columns of polars go on seeing the numpy array that they were made of; columns of Python objects keep the objects.

Expressions and lazy frames go on calling functions of the notebook, which polars itself would copy with their globals.
Merged into the plug-in by `load` once polars is imported. Everything else pickles by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import SHARING, Plugin, promise
from durable_nb.capture.reducers._copied import written
from durable_nb.capture.reducers._memory import keeper

LIBRARY = "polars"


def _polars() -> Any:
    return sys.modules["polars"]


def _view(series: Any) -> Any:
    """Return the numbers of a column as an array on its memory, None if it has no such."""
    if not series.dtype.is_numeric() or series.dtype.is_decimal() or series.null_count() or not len(series):
        return None
    if series.n_chunks() != 1:
        return None
    try:
        return series.to_numpy(allow_copy=False)
    except RuntimeError:  # the only way to learn that its numbers are not an array's
        return None


def address_range(series: Any) -> tuple[int, int] | None:
    """Return where the numbers of a column are, None where it has none that an array may see."""
    view = _view(series)
    if view is None:
        return None
    start = int(view.__array_interface__["data"][0])
    return start, start + view.nbytes


def _seen_from_outside(series: Any) -> bool:
    """Tell whether something that can write looks at the memory of a column."""
    sharing = SHARING.get()
    where = None if sharing is None or not sharing.members else address_range(series)
    return sharing is not None and where in sharing.memory and keeper(sharing, where) is not None


def _make_objects(name: str, values: list[Any]) -> Any:
    polars = _polars()
    return polars.Series(name, values, dtype=polars.Object)


def _make_on_array(name: str, array: Any) -> Any:
    return _polars().Series(name, array)


@promise("exact")
def _series(series: Any) -> Any:
    if series.dtype == _polars().Object:
        return _make_objects, (series.name, series.to_list())
    if _seen_from_outside(series):
        return _make_on_array, (series.name, _view(series))
    return NotImplemented


def _make_frame(columns: list[Any]) -> Any:
    return _polars().DataFrame(columns)


@promise("exact")
def _frame(frame: Any) -> Any:
    columns = frame.get_columns()
    if any(column.dtype == _polars().Object or _seen_from_outside(column) for column in columns):
        return _make_frame, (columns,)
    return NotImplemented


@promise("exact")
def _lazy(lazy: Any) -> Any:
    return written(lambda: lazy.__reduce_ex__(5))


def _series_referents(series: Any) -> Iterable[Any]:
    return series.to_list() if series.dtype == _polars().Object else ()


def _frame_referents(frame: Any) -> Iterable[Any]:
    return list(frame.get_columns())


def plugin() -> Plugin:
    """Return what polars needs."""
    polars = _polars()
    return Plugin(
        exact={polars.Series: _series, polars.DataFrame: _frame},
        subclasses=((polars.Expr, _lazy), (polars.LazyFrame, _lazy)),
        referents={polars.Series: _series_referents, polars.DataFrame: _frame_referents},
        memory={polars.Series: address_range},
    )
