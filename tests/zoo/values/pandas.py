"""What people keep of pandas in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "pandas"
SETUP = """\
import datetime
import numpy as np
import pandas as pd

frame = pd.DataFrame({"k": list("aab"), "v": [1.0, 2.0, 3.0], "d": pd.date_range("2024-01-01", periods=3)})

class Wells(pd.DataFrame):
    _metadata = ["field"]

    @property
    def _constructor(self):
        return Wells

@pd.api.extensions.register_dataframe_accessor("tally")
class Tally:
    def __init__(self, held):
        self.held = held

    def rows(self):
        return len(self.held)
"""
_ARRAYS = (
    ("IntegerArray", "[1, None]", "Int64"),
    ("FloatingArray", "[1.5, None]", "Float64"),
    ("BooleanArray", "[True, None]", "boolean"),
    ("StringArray", "['a', None]", "string[python]"),
    ("ArrowStringArray", "['a', None]", "string[pyarrow]"),
    ("ArrowExtensionArray", "[1, None]", "int64[pyarrow]"),
    ("SparseArray", "[0, 0, 1]", "Sparse[int64]"),
    ("DatetimeArray", "['2024-01-01', None]", "datetime64[ns, UTC]"),
    ("TimedeltaArray", "['1 day', None]", "timedelta64[s]"),
    ("PeriodArray", "['2024-01', None]", "period[M]"),
)
_INDEXES = (
    ("Index", "pd.Index(['b', 'a'], name='n')", "x.get_loc('a') == 1 and x.name == 'n'"),
    ("RangeIndex", "pd.RangeIndex(2, 10, 3)", "(x.start, x.stop, x.step) == (2, 10, 3) and len(x) == 3"),
    (
        "MultiIndex",
        "pd.MultiIndex.from_product([[1, 2], ['a', 'b']], names=['x', 'y'])",
        "x.names == ['x', 'y'] and x.get_loc((2, 'a')) == 2 and x.levels[1].tolist() == ['a', 'b']",
    ),
    (
        "CategoricalIndex",
        "pd.CategoricalIndex(list('ab'), ordered=True)",
        "x.ordered and x.categories.tolist() == ['a', 'b']",
    ),
    (
        "IntervalIndex",
        "pd.IntervalIndex.from_breaks([0, 1, 2], closed='left')",
        "x.get_loc(0.5) == 0 and x.closed == 'left'",
    ),
    (
        "DatetimeIndex",
        "pd.date_range('2024-03-30', periods=3, freq='D', tz='Europe/Berlin')",
        "x.freqstr == 'D' and str(x.tz) == 'Europe/Berlin' and x[1].utcoffset() != x[2].utcoffset()",
    ),
    (
        "TimedeltaIndex",
        "pd.timedelta_range('1D', periods=2)",
        "x.total_seconds().tolist() == [86400, 172800] and x.freqstr == 'D'",
    ),
    ("PeriodIndex", "pd.period_range('2024-01', periods=2, freq='M')", "x.freqstr == 'M' and str(x[1]) == '2024-02'"),
)
VALUES = [
    Value(
        cls="pandas.DataFrame",
        make="pd.DataFrame({'a': [1, 2], 'b': ['x', None], 'c': pd.Categorical(['u', 'v'])}, index=['r', 's'])",
        check="x.loc['s', 'a'] == 2 and x.b.isna().tolist() == [False, True] and x.c.dtype == 'category'"
        " and x.index.tolist() == ['r', 's'] and x.a.dtype == 'int64'",
        keeps="exact",
    ),
    Value(
        cls="pandas.DataFrame",
        make="noted = pd.DataFrame({'a': [1]})\nnoted.attrs['from'] = {'file': 'x.csv'}\n"
        "noted.flags.allows_duplicate_labels = False\n"
        "noted",
        check="x.attrs == {'from': {'file': 'x.csv'}} and not x.flags.allows_duplicate_labels",
        keeps="exact",
        note="with attrs and flags",
    ),
    Value(
        cls="pandas.DataFrame",
        make="block = np.ones((2, 2))\npd.DataFrame(block, copy=False)",
        check="block.__setitem__((0, 0), 7) is None and x.iloc[0, 0] == 7",
        keeps="exact",
        note="on the memory of an array in another variable",
    ),
    Value(
        cls="pandas.DataFrame",
        make="wells = Wells({'depth': [1, 2]})\nwells.field = 'north'\nwells",
        check="type(x) is Wells and x.field == 'north' and type(x[:1]) is Wells and x[:1].field == 'north'",
        keeps="exact",
        note="of a subclass with metadata",
    ),
    Value(
        cls="pandas.DataFrame",
        make="frame.pivot_table(index='k', columns='d', values='v')",
        check="x.columns.name == 'd' and x.index.name == 'k' and x.shape == (2, 3)",
        keeps="exact",
        note="a pivot table",
    ),
    Value(
        cls="pandas.Series",
        make="pd.Series([1, 2], index=['a', 'b'], name='n')",
        check="x.name == 'n' and x['b'] == 2 and x.dtype == 'int64'",
        keeps="exact",
    ),
    Value(
        cls="pandas.Series",
        make="cell = [1]\npd.Series([cell, None])",
        check="x[0] is cell and x.dtype == object",
        keeps="exact",
        note="of objects that other variables hold too",
    ),
    *(
        Value(
            cls=f"pandas.{cls}",
            make=made,
            check=check,
            keeps="exact",
        )
        for cls, made, check in _INDEXES
    ),
    *(
        Value(
            cls=f"pandas.arrays.{cls}",
            make=f"pd.array({data}, dtype={dtype!r})",
            check=f"type(x) is pd.arrays.{cls} and x.dtype == {dtype!r}"
            f" and x.isna().tolist() == pd.isna({data}).tolist()"
            if cls != "SparseArray"
            else "x.dtype == 'Sparse[int64]' and x.to_dense().tolist() == [0, 0, 1] and x.fill_value == 0",
            keeps="exact",
        )
        for cls, data, dtype in _ARRAYS
    ),
    Value(
        cls="pandas.Categorical",
        make="pd.Categorical(['b', 'a', None], categories=['a', 'b', 'c'], ordered=True)",
        check="x.codes.tolist() == [1, 0, -1] and x.ordered and x.categories.tolist() == ['a', 'b', 'c']"
        " and x.min() == 'a'",
        keeps="exact",
    ),
    Value(
        cls="pandas.CategoricalDtype",
        make="pd.CategoricalDtype(['a'], ordered=True)",
        check="x.ordered and x.categories[0] == 'a'",
        keeps="exact",
    ),
    Value(
        cls="pandas.DatetimeTZDtype",
        make="pd.DatetimeTZDtype(tz='UTC')",
        check="x == 'datetime64[ns, UTC]'",
        keeps="exact",
    ),
    Value(
        cls="pandas.Timestamp",
        make="pd.Timestamp('2024-02-29 12:00', tz='Europe/Berlin')",
        check="x.utcoffset().total_seconds() == 3600 and x.is_leap_year"
        " and x.unit == pd.Timestamp('2024-02-29 12:00').unit",
        keeps="exact",
    ),
    Value(cls="pandas.Timedelta", make="pd.Timedelta('1 day 2 min')", check="x.components.minutes == 2", keeps="exact"),
    Value(cls="pandas.Period", make="pd.Period('2024-02', freq='M')", check="x.end_time.day == 29", keeps="exact"),
    Value(
        cls="pandas.Interval",
        make="pd.Interval(0, 1, closed='both')",
        check="0 in x and x.closed == 'both'",
        keeps="exact",
    ),
    Value(cls="pandas.api.typing.NaTType", make="pd.NaT", check="x is pd.NaT", keeps="exact"),
    Value(cls="pandas.api.typing.NAType", make="pd.NA", check="x is pd.NA", keeps="exact"),
    Value(
        cls="pandas._libs.tslibs.offsets.BusinessDay",
        make="pd.offsets.BDay(2)",
        check="pd.Timestamp('2024-02-09') + x == pd.Timestamp('2024-02-13')",
        keeps="exact",
    ),
    Value(
        cls="pandas._libs.tslibs.offsets.CustomBusinessDay",
        make="pd.offsets.CustomBusinessDay(holidays=['2024-01-02'])",
        check="pd.Timestamp('2024-01-01') + x == pd.Timestamp('2024-01-03')",
        keeps="exact",
    ),
    Value(
        cls="pandas.DateOffset",
        make="pd.DateOffset(months=1, day=31)",
        check="pd.Timestamp('2024-01-15') + x == pd.Timestamp('2024-02-29')",
        keeps="exact",
    ),
    Value(
        cls="pandas.api.typing.DataFrameGroupBy",
        make="frame.groupby('k')",
        check="x.obj is frame and x['v'].sum().to_dict() == {'a': 3, 'b': 3} and x.ngroups == 2",
        keeps="exact",
        note="of the frame in another variable",
    ),
    Value(
        cls="pandas.api.typing.SeriesGroupBy",
        make="frame.groupby(lambda i: i % 2)['v']",
        check="x.sum().tolist() == [4, 2]",
        keeps="exact",
        note="by a function of the notebook",
    ),
    Value(
        cls="pandas.api.typing.Rolling",
        make="frame['v'].rolling(2)",
        check="x.sum().tolist()[1:] == [3, 5]",
        keeps="exact",
    ),
    Value(
        cls="pandas.api.typing.Expanding",
        make="frame['v'].expanding()",
        check="x.sum().tolist() == [1, 3, 6]",
        keeps="exact",
    ),
    Value(
        cls="pandas.api.typing.ExponentialMovingWindow",
        make="frame['v'].ewm(span=2)",
        check="x.mean()[0] == 1",
        keeps="exact",
    ),
    Value(
        cls="pandas.api.typing.Resampler",
        make="frame.set_index('d').resample('2D')",
        check="x['v'].sum().tolist() == [3, 3]",
        keeps="exact",
    ),
    Value(
        cls="pandas.io.formats.style.Styler",
        make="limit = 2\nframe.style.format({'v': lambda v: f'<{v}>'}).map(lambda v: 'color: red'"
        " if v > limit else '', subset=['v'])"
        ".set_caption('t')",
        check="x.data is frame and '<3.0>' in x.to_html() and 'color: red' in x.to_html() and 'caption' in x.to_html()",
        keeps="exact",
        note="with functions of the notebook",
    ),
    Value(
        cls="pandas.core.strings.accessor.StringMethods",
        make="frame['k'].str",
        check="x.upper().tolist() == ['A', 'A', 'B']",
        keeps="exact",
    ),
    Value(
        cls="pandas.Grouper",
        make="pd.Grouper(key='d', freq='2D')",
        check="frame.groupby(x)['v'].sum().tolist() == [3, 3]",
        keeps="exact",
    ),
    Value(cls="pandas.NamedAgg", make="pd.NamedAgg('v', 'sum')", check="x.column == 'v'", keeps="exact"),
    Value(
        cls="pandas.api.indexers.FixedForwardWindowIndexer",
        make="pd.api.indexers.FixedForwardWindowIndexer(window_size=2)",
        check="frame['v'].rolling(x).sum().tolist()[:2] == [3, 5]",
        keeps="exact",
    ),
    Value(
        cls="pandas.tseries.holiday.USFederalHolidayCalendar",
        make="from pandas.tseries.holiday import USFederalHolidayCalendar\nUSFederalHolidayCalendar()",
        check="len(x.holidays('2024-01-01', '2024-12-31')) == 11",
        keeps="exact",
    ),
    Value(
        cls="pandas.core.indexing._LocIndexer",
        make="frame.loc",
        check="x.obj is frame and x[0, 'k'] == 'a'",
        keeps="exact",
    ),
    Value(
        cls="pandas._config.config.DictWrapper",
        make="pd.options.display",
        check="x.max_rows == pd.get_option('display.max_rows')",
        keeps="exact",
        note="a window on the settings of the process",
    ),
    Value(
        cls="generator",
        make="frame.iterrows()",
        check="next(x)[0] == 0",
        keeps="reported",
        note="an iterator over rows; begin it again in a cell",
    ),
]
