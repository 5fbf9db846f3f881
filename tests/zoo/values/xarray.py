"""What people keep of xarray in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "xarray"
SETUP = """\
import numpy as np
import xarray as xr

numbers = np.arange(6.0).reshape(2, 3)
array = xr.DataArray(numbers, dims=("x", "y"), coords={"x": [10, 20]}, attrs={"units": "m"}, name="n")
"""
VALUES = [
    Value(
        cls="xarray.DataArray",
        make="array",
        check="x.name == 'n' and x.attrs == {'units': 'm'} and x.dims == ('x', 'y')"
        " and x.sel(x=20).values.tolist() == [3, 4, 5]",
        keeps="exact",
    ),
    Value(
        cls="xarray.DataArray",
        make="xr.DataArray(numbers, dims=('x', 'y'))",
        check="np.shares_memory(x.values, numbers) and [numbers.__setitem__((0, 0), 8), float(x[0, 0])][1] == 8",
        keeps="exact",
        note="on the memory of an array in another variable",
    ),
    Value(
        cls="xarray.Dataset",
        make="xr.Dataset({'n': array, 'm': ('y', [1, 2, 3])}, attrs={'made': 'here'})",
        check="list(x.data_vars) == ['n', 'm'] and x.attrs == {'made': 'here'} and x.m.sum() == 6"
        " and dict(x.sizes) == {'x': 2, 'y': 3}",
        keeps="exact",
    ),
    Value(
        cls="xarray.Variable",
        make="array.variable",
        check="x.dims == ('x', 'y') and x.attrs['units'] == 'm'",
        keeps="exact",
    ),
    Value(
        cls="xarray.DataTree",
        make="xr.DataTree.from_dict({'/a': array.to_dataset(), '/a/b': xr.Dataset()})",
        check="list(x.children) == ['a'] and x['a'].parent is x",
        keeps="exact",
    ),
    Value(
        cls="xarray.core.groupby.DataArrayGroupBy",
        make="array.groupby('x')",
        check="float(x.sum('y').sel(x=20)) == 12",
        keeps="exact",
    ),
    Value(
        cls="xarray.computation.rolling.DataArrayRolling",
        make="array.rolling(y=2)",
        check="x.mean().shape == (2, 3)",
        keeps="exact",
    ),
    Value(
        cls="xarray.computation.weighted.DataArrayWeighted",
        make="array.weighted(xr.DataArray([1, 3], dims='x'))",
        check="x.mean('x').shape == (3,)",
        keeps="exact",
    ),
    Value(
        cls="xarray.core.coordinates.DataArrayCoordinates",
        make="array.coords",
        check="list(x) == ['x'] and x['x'].values.tolist() == [10, 20]",
        keeps="exact",
    ),
]
