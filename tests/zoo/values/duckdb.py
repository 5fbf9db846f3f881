"""What people keep of DuckDB in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "duckdb"
SETUP = """\
import duckdb

connection = None
"""
VALUES = [
    Value(
        cls="duckdb.DuckDBPyConnection",
        make="duckdb.connect()",
        check="x.sql('select 1').fetchall() == [(1,)]",
        keeps="reported",
        note="an open connection; connect again in a cell",
    ),
    Value(
        cls="duckdb.DuckDBPyRelation",
        make="duckdb.sql('select 1 as a')",
        check="x.fetchall() == [(1,)]",
        keeps="reported",
        note="belongs to a connection; keep .df() of it",
    ),
    Value(
        cls="pandas.DataFrame",
        make="duckdb.sql('select 1 as a').df()",
        check="x.a.tolist() == [1]",
        keeps="exact",
        note="a result",
    ),
    Value(
        cls="_duckdb._sqltypes.DuckDBPyType",
        make="duckdb.sqltype('DECIMAL(10, 2)')",
        check="str(x) == 'DECIMAL(10,2)' and x == duckdb.sqltype('DECIMAL(10, 2)')",
        keeps="exact",
        note="a type",
    ),
    Value(
        cls="duckdb.Expression",
        make="duckdb.ColumnExpression('a')",
        check="duckdb.sql('select 7 as a').select(x).fetchall() == [(7,)]",
        keeps="exact",
    ),
]
