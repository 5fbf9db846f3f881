"""What people keep of h5py in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "h5py"
SETUP = """\
import h5py
import numpy as np

with h5py.File("kept.h5", "w") as made:
    made.create_group("g").create_dataset("d", data=np.arange(3))
"""
VALUES = [
    Value(
        cls="h5py.File",
        make="h5py.File('kept.h5', 'r')",
        check="list(x) == ['g']",
        keeps="reported",
        note="a handle into a file; open it again in a cell",
    ),
    Value(
        cls="h5py.Dataset",
        make="h5py.File('kept.h5', 'r')['g/d']",
        check="x[:].tolist() == [0, 1, 2]",
        keeps="reported",
        note="a handle into a file; keep x[:]",
    ),
    Value(
        cls="h5py.Group",
        make="h5py.File('kept.h5', 'r')['g']",
        check="list(x) == ['d']",
        keeps="reported",
        note="a handle into a file",
    ),
    Value(
        cls="h5py.AttributeManager",
        make="h5py.File('kept.h5', 'r')['g'].attrs",
        check="len(x) == 0",
        keeps="reported",
        note="a handle into a file; keep dict(x)",
    ),
    Value(
        cls="h5py.Reference",
        make="h5py.File('kept.h5', 'r')['g'].ref",
        check="bool(x)",
        keeps="reported",
        note="a handle into a file",
    ),
    Value(
        cls="h5py.File",
        make="with h5py.File('kept.h5', 'r') as closed:\n    pass\nclosed",
        check="not x and 'Closed' in repr(x)",
        keeps="exact",
        note="closed",
    ),
    Value(
        cls="numpy.dtype",
        make="h5py.string_dtype('utf-8')",
        check="h5py.check_string_dtype(x).encoding == 'utf-8'",
        keeps="exact",
    ),
    Value(cls="h5py.Empty", make="h5py.Empty('f4')", check="x.dtype == 'f4' and x == h5py.Empty('f4')", keeps="exact"),
]
