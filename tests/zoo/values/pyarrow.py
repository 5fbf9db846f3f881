"""What people keep of Arrow in notebooks, with what must be true of it before the crash and after the restore."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "pyarrow"
SETUP = """\
import decimal
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq

table = pa.table({"a": [1, 2, None], "b": ["x", "y", "x"]}).replace_schema_metadata({"from": "here"})
pq.write_table(table, "table.parquet")
"""
_ARRAYS = (
    ("pyarrow.Int64Array", "pa.array([1, None])", "x.to_pylist() == [1, None]"),
    (
        "pyarrow.DictionaryArray",
        "pa.array(['a', 'b', 'a']).dictionary_encode()",
        "x.indices.to_pylist() == [0, 1, 0] and x.dictionary[1].as_py() == 'b'",
    ),
    (
        "pyarrow.ListArray",
        "pa.array([[1], None, []])",
        "x.to_pylist() == [[1], None, []] and x.offsets.to_pylist() == [0, 1, 1, 1]",
    ),
    ("pyarrow.StructArray", "pa.array([{'a': 1}, None])", "x.field('a')[0].as_py() == 1 and x.null_count == 1"),
    (
        "pyarrow.TimestampArray",
        "pa.array([0], pa.timestamp('us', 'UTC'))",
        "x.type.tz == 'UTC' and x[0].as_py().year == 1970",
    ),
    (
        "pyarrow.ExtensionArray",
        "pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b'0' * 16], pa.binary(16)))",
        "x.type == pa.uuid() and len(x) == 1",
    ),
    ("pyarrow.ChunkedArray", "pa.chunked_array([[1, 2], [3]])", "x.num_chunks == 2 and x.to_pylist() == [1, 2, 3]"),
)
VALUES = [
    Value(
        cls="pyarrow.Table",
        make="table.append_column('c', pa.array([0.5, 1.5, 2.5]))",
        check="x.schema.metadata == {b'from': b'here'} and x['a'].to_pylist() == [1, 2, None]"
        " and x.column_names == ['a', 'b', 'c']",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.Table",
        make="numbers = np.arange(4.0)\npa.table({'n': pa.array(numbers)})",
        check="numbers.__setitem__(1, 9) is None and x['n'][1].as_py() == 9",
        keeps="exact",
        note="sees the array that it was made of, as before",
    ),
    Value(
        cls="pyarrow.RecordBatch",
        make="table.to_batches()[0]",
        check="x.num_rows == 3 and x.schema.names == ['a', 'b']",
        keeps="exact",
    ),
    *(Value(cls=cls, make=made, check=check, keeps="exact") for cls, made, check in _ARRAYS),
    Value(
        cls="pyarrow.Schema",
        make="table.schema",
        check="x.names == ['a', 'b'] and x.metadata == {b'from': b'here'}",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.Field",
        make="pa.field('n', pa.int8(), nullable=False, metadata={'u': 'm'})",
        check="not x.nullable and x.metadata == {b'u': b'm'}",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.DataType",
        make="pa.dictionary(pa.int8(), pa.string(), ordered=True)",
        check="x.ordered and x.index_type == pa.int8()",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.Scalar",
        make="pa.scalar(decimal.Decimal('1.10'))",
        check="str(x.as_py()) == '1.10' and x.type == pa.decimal128(3, 2)",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.Scalar",
        make="pa.scalar({'a': [1, 2]})",
        check="x.as_py() == {'a': [1, 2]}",
        keeps="exact",
        note="nested",
    ),
    Value(cls="pyarrow.Buffer", make="pa.py_buffer(b'abc')", check="x.to_pybytes() == b'abc'", keeps="exact"),
    Value(
        cls="pyarrow.compute.Expression",
        make="(pc.field('a') > 1) & pc.is_in(pc.field('b'), pa.array(['x', 'y']))",
        check="table.filter(x)['a'].to_pylist() == [2]",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.dataset.Dataset",
        make="ds.dataset('table.parquet')",
        check="x.to_table().equals(table) and x.count_rows() == 3 and len(x.files) == 1",
        keeps="exact",
        note="of files, which it reads when it is scanned",
    ),
    Value(
        cls="pyarrow.dataset.InMemoryDataset",
        make="ds.dataset(table)",
        check="x.to_table().equals(table)",
        keeps="equal",
        note="a dataset in memory comes back as one of its table",
    ),
    Value(
        cls="pyarrow.dataset.Scanner",
        make="ds.dataset('table.parquet').scanner(columns=['a'])",
        check="x.count_rows() == 3",
        keeps="reported",
        note="keep the dataset and scan it again in a cell",
    ),
    Value(
        cls="pyarrow.parquet.ParquetFile",
        make="pq.ParquetFile('table.parquet')",
        check="x.num_row_groups == 1",
        keeps="reported",
        note="a handle into a file; open it again in a cell",
    ),
    Value(
        cls="pyarrow.parquet.FileMetaData",
        make="pq.read_metadata('table.parquet')",
        check="x.num_rows == 3 and x.schema.names == ['a', 'b']",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.fs.LocalFileSystem",
        make="fs.LocalFileSystem()",
        check="x.get_file_info('table.parquet').size > 0",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.fs.SubTreeFileSystem",
        make="fs.SubTreeFileSystem('.', fs.LocalFileSystem())",
        check="x.get_file_info('table.parquet').is_file",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.fs.FileSelector",
        make="fs.FileSelector('.', recursive=True)",
        check="x.recursive and x.base_dir == '.'",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.fs.FileInfo",
        make="info = fs.LocalFileSystem().get_file_info('table.parquet')\ninfo",
        check="x.is_file and x.size > 0 and x.path == 'table.parquet' and x.mtime_ns > 0",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.TableGroupBy",
        make="table.group_by('b')",
        check="x.aggregate([('a', 'sum')]).num_rows == 2",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.csv.ReadOptions",
        make="pyarrow.csv.ReadOptions(skip_rows=1, column_names=['u'])",
        check="x.skip_rows == 1 and x.column_names == ['u']",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.dataset.FileFormat",
        make="ds.ParquetFileFormat()",
        check="x == ds.ParquetFileFormat()",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.RecordBatchReader",
        make="table.to_reader()",
        check="x.schema == table.schema",
        keeps="reported",
        note="a stream that is read once; keep the table",
    ),
    Value(
        cls="pyarrow.MemoryMappedFile",
        make="pa.memory_map('table.parquet')",
        check="x.size() > 0",
        keeps="reported",
        note="an open file; open it again in a cell",
    ),
    Value(
        cls="pyarrow.Codec",
        make="pa.Codec('gzip')",
        check="x.decompress(x.compress(b'abc'), 3).to_pybytes() == b'abc'",
        keeps="exact",
    ),
    Value(
        cls="pyarrow.compute.ScalarFunction",
        make="pc.get_function('add')",
        check="x.call([1, 2]).as_py() == 3",
        keeps="exact",
    ),
]
