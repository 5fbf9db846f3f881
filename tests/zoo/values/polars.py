"""What people keep of polars in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "polars"
SETUP = """\
import datetime
import numpy as np
import polars as pl
import polars.selectors as cs

frame = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"]})
frame.write_csv("frame.csv")

class Thing:
    pass

things = []
"""
_SERIES = (
    (
        "pl.Series('e', ['b', 'a'], dtype=pl.Enum(['a', 'b']))",
        "x.dtype == pl.Enum(['a', 'b']) and x.to_physical().to_list() == [1, 0]",
        "an enum",
    ),
    (
        "pl.Series(['b', None], dtype=pl.Categorical)",
        "x.to_list() == ['b', None] and x.dtype == pl.Categorical",
        "categories",
    ),
    ("pl.Series([[1], [2, 3], None])", "x.list.len().to_list() == [1, 2, None]", "lists"),
    ("pl.Series([[1, 2]], dtype=pl.Array(pl.Int8, 2))", "x.arr.sum().to_list() == [3]", "arrays"),
    ("pl.Series([{'a': 1, 'b': 'u'}])", "x.struct.field('b').to_list() == ['u']", "structs"),
    ("pl.Series(['1.10']).cast(pl.Decimal(10, 2))", "str(x[0]) == '1.10' and x.dtype == pl.Decimal(10, 2)", "decimals"),
    (
        "pl.Series([datetime.datetime(2024, 1, 1)]).dt.replace_time_zone('Europe/Berlin')",
        "x.dtype.time_zone == 'Europe/Berlin' and x[0].utcoffset().total_seconds() == 3600",
        "times with a zone",
    ),
)
VALUES = [
    Value(
        cls="polars.DataFrame",
        make="pl.DataFrame({'a': [1, None], 'b': [0.5, 1.5], 'c': ['x', 'y']}, schema_overrides={'a': pl.Int8})",
        check="x.schema == {'a': pl.Int8, 'b': pl.Float64, 'c': pl.String}"
        " and x.rows() == [(1, 0.5, 'x'), (None, 1.5, 'y')]",
        keeps="exact",
    ),
    Value(
        cls="polars.DataFrame",
        make="column = np.arange(3.0)\npl.DataFrame({'n': column, 's': ['a', 'b', 'c']})",
        check="column.__setitem__(0, 9) is None and x['n'][0] == 9 and x['s'].to_list() == ['a', 'b', 'c']",
        keeps="exact",
        note="sees the array that it was made of, as before",
    ),
    Value(
        cls="polars.Series",
        make="pl.Series('n', [1, 2, None], dtype=pl.UInt16)",
        check="x.name == 'n' and x.dtype == pl.UInt16 and x.to_list() == [1, 2, None]",
        keeps="exact",
    ),
    *(Value(cls="polars.Series", make=made, check=check, keeps="exact", note=note) for made, check, note in _SERIES),
    Value(
        cls="polars.Series",
        make="thing = Thing()\npl.Series('o', [thing, None], dtype=pl.Object)",
        check="x[0] is thing and x[1] is None and x.dtype == pl.Object and x.name == 'o'",
        keeps="exact",
        note="of Python objects that other variables hold too",
    ),
    Value(
        cls="polars.LazyFrame",
        make="frame.lazy().filter(pl.col('a') > 1).select(pl.col('a') * 2)",
        check="x.collect()['a'].to_list() == [4, 6] and x.collect_schema() == {'a': pl.Int64}",
        keeps="exact",
    ),
    Value(
        cls="polars.LazyFrame",
        make="pl.scan_csv('frame.csv').with_columns(c=pl.lit(1))",
        check="x.collect().shape == (3, 3)",
        keeps="exact",
        note="of a file, which it reads when it is collected",
    ),
    Value(
        cls="polars.Expr",
        make="pl.col('a').sum().over('b').alias('t')",
        check="frame.select(x)['t'].to_list() == [4, 2, 4]",
        keeps="exact",
    ),
    Value(
        cls="polars.Expr",
        make="bonus = 10\npl.col('a').map_batches(lambda s: s + bonus, return_dtype=pl.Int64)",
        check="frame.select(x)['a'].to_list() == [11, 12, 13]",
        keeps="exact",
        note="with a function of the notebook",
    ),
    Value(
        cls="polars.LazyFrame",
        make="frame.lazy().select(pl.col('a').map_elements(lambda v: v + len(things), return_dtype=pl.Int64))",
        check="things.append(x) is None and x.collect()['a'].to_list() == [v + len(things) for v in (1, 2, 3)]",
        keeps="exact",
        note="with a function of the notebook, which goes on seeing its variables",
    ),
    Value(
        cls="polars.Expr",
        make="(lambda seen: pl.col('a').map_batches(lambda s: seen.append(1) or s, return_dtype=pl.Int64))([])",
        check="frame.select(x)['a'].to_list() == [1, 2, 3]",
        keeps="reported",
        note="with a function that holds an object of the notebook, of which polars would make a copy",
    ),
    Value(
        cls="polars.selectors.Selector", make="cs.numeric()", check="frame.select(x).columns == ['a']", keeps="exact"
    ),
    Value(
        cls="polars.expr.whenthen.Then",
        make="pl.when(pl.col('a') > 1).then(pl.lit('big'))",
        check="frame.select(x.otherwise(pl.lit('small')).alias('s'))['s'][0] == 'small'",
        keeps="exact",
    ),
    Value(
        cls="polars.dataframe.group_by.GroupBy",
        make="frame.group_by('b', maintain_order=True)",
        check="x.agg(pl.col('a').sum())['a'].to_list() == [4, 2]",
        keeps="exact",
    ),
    Value(
        cls="polars.dataframe.group_by.RollingGroupBy",
        make="frame.rolling('a', period='2i')",
        check="x.agg(pl.len())['len'].to_list() == [1, 2, 2]",
        keeps="exact",
    ),
    Value(
        cls="polars.Schema",
        make="frame.schema",
        check="x == {'a': pl.Int64, 'b': pl.String} and x.names() == ['a', 'b']",
        keeps="exact",
    ),
    Value(cls="polars.datatypes.DataTypeClass", make="pl.Int64", check="x is pl.Int64", keeps="exact"),
    Value(cls="polars.Enum", make="pl.Enum(['a', 'b'])", check="x.categories.to_list() == ['a', 'b']", keeps="exact"),
    Value(
        cls="polars.List",
        make="pl.List(pl.Datetime('us', 'UTC'))",
        check="x.inner == pl.Datetime('us', 'UTC')",
        keeps="exact",
    ),
    Value(
        cls="polars.lazyframe.group_by.LazyGroupBy",
        make="frame.lazy().group_by('b')",
        check="x.agg(pl.len()).collect().height == 2",
        keeps="reported",
        note="a grouping in the making; group again in a cell",
    ),
    Value(
        cls="polars.SQLContext",
        make="pl.SQLContext(frame=frame)",
        check="x.tables() == ['frame']",
        keeps="reported",
        note="its tables are in memory of polars; register them again in a cell",
    ),
    Value(
        cls="generator",
        make="frame.iter_rows()",
        check="next(x) == (1, 'x')",
        keeps="reported",
        note="an iterator over rows; begin it again in a cell",
    ),
]
