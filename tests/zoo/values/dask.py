"""What people keep of dask in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "dask"
SETUP = """\
import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask import delayed

dask.config.set(scheduler="synchronous")
frame = pd.DataFrame({"k": list("aab"), "v": [1, 2, 3]})
bonus = 10

def add(value):
    return value + bonus
"""
VALUES = [
    Value(
        cls="dask.array.Array",
        make="da.from_array(np.arange(6.0), chunks=2) * 2",
        check="x.chunks == ((2, 2, 2),) and x.sum().compute() == 30",
        keeps="exact",
    ),
    Value(
        cls="dask.array.Array",
        make="da.random.default_rng(1).random(4, chunks=2)",
        check="x.compute().tolist() == da.random.default_rng(1).random(4, chunks=2).compute().tolist()",
        keeps="exact",
        note="random numbers that are drawn when it is computed",
    ),
    Value(
        cls="dask.bag.Bag",
        make="db.from_sequence([1, 2, 3], npartitions=2).map(add)",
        check="x.compute() == [11, 12, 13] and x.npartitions == 2",
        keeps="exact",
        note="with a function of the notebook",
    ),
    Value(
        cls="dask.delayed.Delayed",
        make="delayed(add)(delayed(add)(1))",
        check="x.compute() == 21 and len(x.dask) == 2",
        keeps="exact",
    ),
    Value(cls="dask.delayed.DelayedLeaf", make="delayed(add)", check="x(2).compute() == 12", keeps="exact"),
    Value(
        cls="dask.dataframe.DataFrame",
        make="dd.from_pandas(frame, npartitions=2)",
        check="x.npartitions == 2 and x.v.sum().compute() == 6 and list(x.columns) == ['k', 'v']",
        keeps="exact",
    ),
    Value(
        cls="dask.dataframe.Series",
        make="dd.from_pandas(frame, npartitions=1).v.map(add, meta=('v', 'i8'))",
        check="x.compute().tolist() == [11, 12, 13]",
        keeps="exact",
    ),
    Value(cls="dask.bag.Item", make="db.from_sequence([1, 2]).sum()", check="x.compute() == 3", keeps="exact"),
]
