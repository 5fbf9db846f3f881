"""Arrays of Arrow go on seeing the numpy array that they were made of; handles into files and streams are reported.

Merged into the plug-in by `load` once pyarrow is imported. Tables, schemas, expressions and file systems pickle by
themselves.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

from durable_nb.capture.reducers import SHARING, Plugin, Unstorable, promise
from durable_nb.capture.reducers._memory import keeper
from durable_nb.capture.reducers._named import named

LIBRARY = "pyarrow"

_HANDLES = {
    "pyarrow.lib.NativeFile": "an open file or stream of Arrow; open it again in a cell",
    "pyarrow.parquet.core.ParquetFile": "a handle into a Parquet file; open it again in a cell",
    "pyarrow.parquet.core.ParquetWriter": "a handle into a Parquet file that is being written",
    "pyarrow.lib.RecordBatchReader": "a stream that is read once; keep the table, or make the reader again in a cell",
    "pyarrow.lib._CRecordBatchWriter": "a handle into a stream that is being written",
    "pyarrow._dataset.Scanner": "a scan in the making; keep the dataset and scan it again in a cell",
    "pyarrow.lib.MemoryPool": "the memory pool of the process; ask pyarrow for it in a cell",
}


def _pyarrow() -> Any:
    return sys.modules["pyarrow"]


def _memory(buffer: Any) -> tuple[int, int] | None:
    # Memory that nobody can write to may be copied unseen.
    if not buffer.is_mutable or not buffer.is_cpu or not buffer.size:
        return None
    return buffer.address, buffer.address + buffer.size


def _make_buffer(array: Any) -> Any:
    return _pyarrow().py_buffer(array)


@promise("exact")
def _buffer(buffer: Any) -> Any:
    sharing = SHARING.get()
    where = None if sharing is None or not sharing.members else _memory(buffer)
    if sharing is None or where not in sharing.memory or keeper(sharing, where) is None:
        return NotImplemented
    return _make_buffer, (sys.modules["numpy"].frombuffer(buffer, dtype="u1"),)


def _chunks(column: Any) -> Iterable[Any]:
    return list(column.chunks)


def _columns(table: Any) -> Iterable[Any]:
    return list(table.columns)


def _buffers(array: Any) -> Iterable[Any]:
    return [buffer for buffer in array.buffers() if buffer is not None]


def _make_dataset(table: Any) -> Any:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(table)


@promise("equal", "a dataset in memory comes back as one of its table")
def _dataset(dataset: Any) -> Any:
    return _make_dataset, (dataset.to_table(),)


def _make_value(module: str, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(module), name)(*args, **options)


@promise("exact")
def _file_info(info: Any) -> Any:
    options = {"mtime_ns": info.mtime_ns, "size": info.size}
    return _make_value, ("pyarrow.fs", "FileInfo", (info.path, info.type), options)


@promise("exact")
def _file_selector(selector: Any) -> Any:
    return _make_value, (
        "pyarrow.fs",
        "FileSelector",
        (selector.base_dir, selector.allow_not_found, selector.recursive),
        {},
    )


@promise("exact")
def _codec(codec: Any) -> Any:
    return _make_value, ("pyarrow", "Codec", (codec.name, codec.compression_level), {})


def _refusing(reason: str) -> Callable[[Any], tuple[Any, ...]]:
    @promise("reported", reason)
    def reduce(obj: Any) -> tuple[Any, ...]:
        raise Unstorable(f"a {type(obj).__name__} is {reason}")

    return reduce


def plugin() -> Plugin:
    """Return what Arrow needs."""
    lib = _pyarrow().lib
    return Plugin(
        exact={lib.Buffer: _buffer, lib.Codec: _codec},
        subclasses=(
            (named("pyarrow._dataset.InMemoryDataset"), _dataset),
            (named("pyarrow._fs.FileInfo"), _file_info),
            (named("pyarrow._fs.FileSelector"), _file_selector),
            *((named(name), _refusing(reason)) for name, reason in _HANDLES.items()),
        ),
        referents={lib.Array: _buffers, lib.ChunkedArray: _chunks, lib.Table: _columns, lib.RecordBatch: _columns},
        memory={lib.Buffer: _memory},
    )
