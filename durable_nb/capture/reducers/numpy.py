"""Arrays that share memory stay sharing it, memory-mapped files stay files, the global random stream stays global.

Merged into the plug-in by `load` once numpy is imported. Plain arrays keep pickle's own way, with their data out of
band; a memory-mapped file is stored as its path and is never copied into the store.
"""

from __future__ import annotations

import itertools
import os
import pickle
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np

from durable_nb.capture.borrowing import BORROWED
from durable_nb.capture.reducers import SHARING, Plugin, Sharing, Unstorable, promise
from durable_nb.capture.reducers._memory import BUFFERS, chain, in_order, keeper, span, unprotected
from durable_nb.capture.reducers.builtins import _make_attribute

LIBRARY = "numpy"

DIGEST_BYTES = 64 << 20
_RAW = frozenset("?biufcmMSUV")  # kinds of dtypes whose items are nothing but their bytes


def _range(root: Any) -> tuple[int, int] | None:
    start = stop = int(root.__array_interface__["data"][0])
    if root.flags.forc:
        return (start, start + root.nbytes) if root.nbytes else None
    for length, stride in zip(root.shape, root.strides, strict=True):
        if length == 0:
            return None
        start, stop = start + min(0, (length - 1) * stride), stop + max(0, (length - 1) * stride)
    return start, stop + root.itemsize


def _memory(a: Any) -> int | tuple[int, int] | None:
    root, below = chain(a)
    if below is None:
        # Others know addresses only, so beside them arrays are told apart by address too.
        loaded = sys.modules
        return _range(root) if "torch" in loaded or "polars" in loaded or "pyarrow" in loaded else id(root)
    if type(below) in BUFFERS:
        return _range(root) if "torch" in sys.modules and type(below) is not bytes else id(below)
    return _range(root)


def _is_shared(a: Any, sharing: Sharing | None) -> bool:
    return sharing is not None and bool(sharing.memory) and _memory(a) in sharing.memory


def _referents(a: Any) -> Iterable[Any]:
    held: list[Any] = []
    if a.dtype.hasobject:
        # A structured dtype may hide objects in fields, which tolist() shows too.
        held.append(a.tolist())
    if type(a) is not np.ndarray:
        held.append(getattr(a, "__dict__", None))
    return held


def _offset(a: Any, start: int) -> int:
    return int(a.__array_interface__["data"][0]) - start


def _make_ordered(data: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool) -> Any:
    """Return an array whose axes lie in memory in an order of their own, as copies of transposed arrays have it."""
    made = np.ndarray(shape, dtype, data, 0, strides)
    if not writeable:
        made.flags.writeable = False
    return made


def _make_owned(data: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool) -> Any:
    """Return an array that owns its memory (it has no base and can be resized), its axes in memory as they were."""
    made = np.ndarray(shape, dtype, data, 0, strides)
    if not BORROWED.get():
        mine = _taken_over(data, made)
        made = made.copy(order="K") if mine is None else mine
    if made.flags.writeable != writeable:
        made.flags.writeable = writeable
    return made


def _taken_over(data: Any, wanted: Any) -> Any:
    """Return the array that `data` was read into, changed in place into the wanted one, or None where it cannot be."""
    if type(data) is not np.ndarray or not data.flags.owndata or not wanted.flags.c_contiguous:
        return None
    data.dtype = wanted.dtype  # type: ignore[misc]
    data.resize(wanted.shape, refcheck=False)  # of the same size, so that only the shape is another one
    return data


def _make_view(
    root: Any, dtype: Any, shape: tuple[int, ...], offset: int, strides: tuple[int, ...], writeable: bool, cls: Any
) -> Any:
    """Return an array on the memory of `root` (an array or a buffer)."""
    if not isinstance(root, np.ndarray):
        made = np.ndarray.__new__(np.ndarray, shape, dtype, root, offset, strides)
    else:
        with unprotected(root) if writeable else nullcontext():
            made = _part_of(root, dtype, shape, offset, strides)
    if not writeable:
        made.flags.writeable = False
    return made if cls is None else made.view(cls)


def _part_of(root: Any, dtype: Any, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> Any:
    if dtype.hasobject:
        # numpy makes no array of objects from a buffer, but it does from another array of objects.
        flat: Any = in_order(root).reshape(-1)[offset // dtype.itemsize :]
        made = np.lib.stride_tricks.as_strided(flat, shape, strides)
    else:
        made = np.ndarray.__new__(np.ndarray, shape, dtype, in_order(root), offset, strides)
    return made[...]  # its base is now the array that owns the memory, and none of the helpers above


def _make_on_export(
    buffer: Any, dtype: Any, shape: tuple[int, ...], offset: int, strides: tuple[int, ...], writeable: bool, cls: Any
) -> Any:
    """Return an array that holds on to the memory of a bytearray or the like, which cannot be resized meanwhile."""
    if strides != (dtype.itemsize,):
        return _make_view(np.frombuffer(buffer, np.uint8), dtype, shape, offset, strides, writeable, cls)
    made = np.frombuffer(buffer, dtype, shape[0], offset)
    if not writeable:
        made.flags.writeable = False
    return made if cls is None else made.view(cls)


def _make_on_storage(storage: Any, *place: Any) -> Any:
    """Return an array on the memory of a storage of torch."""
    torch: Any = sys.modules["torch"]
    flat = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,)).numpy()
    return _make_view(flat, *place)


def _fill_attributes(made: Any, state: dict[str, Any]) -> None:
    made.__dict__.update(state)


@promise("exact")
def _array(a: Any) -> Any:
    sharing = SHARING.get()
    if sharing is None or not _is_shared(a, sharing):
        return _alone(a)
    root, below = chain(a)
    cls = None if type(a) is np.ndarray else type(a)
    kept = below if type(below) in BUFFERS else keeper(sharing, _memory(a))
    if isinstance(kept, BUFFERS):
        start, _ = span(kept) or (0, 0)
        # `np.frombuffer` holds on to the buffer, `np.ndarray(buffer=…)` does not.
        make = _make_on_export if type(root.base) is memoryview else _make_view
        return make, (kept, a.dtype, a.shape, _offset(a, start), a.strides, a.flags.writeable, cls)
    if kept is not None and not isinstance(kept, np.ndarray):
        place = a.dtype, a.shape, _offset(a, kept.untyped_storage().data_ptr()), a.strides, a.flags.writeable, cls
        return _make_on_storage, (kept.untyped_storage(), *place)
    root = root if kept is None else kept
    if root is a:
        return _root(a)
    if a.dtype != root.dtype and (a.dtype.hasobject or root.dtype.hasobject):
        raise Unstorable("a view of one field of an array of objects; store a copy of it")
    if in_order(root) is None or not (root.flags.forc or _is_plain(root)):
        raise Unstorable("a view of an array in an unusual memory order; store a copy of it")
    start = int(root.__array_interface__["data"][0])
    return _make_view, (root, a.dtype, a.shape, _offset(a, start), a.strides, a.flags.writeable, cls)


def _alone(a: Any) -> Any:
    owned = _owned(a)
    if owned is not NotImplemented:
        return owned
    if _is_protected(a):
        return _described(a)
    if a.base is None or a.flags.forc or type(a) is not np.ndarray or a.dtype.hasobject:
        return NotImplemented
    root, _ = chain(a)
    if a.flags.writeable or root is a or type(root) is not np.ndarray or root.nbytes > a.nbytes:
        return _spread(a)
    if in_order(root) is None:
        return _spread(a)
    return _make_view, (root, a.dtype, a.shape, _offset(a, _range_start(root)), a.strides, False, None)


def _spread(a: Any) -> Any:
    """Describe a view of nothing else by its items and where they lie; pickle's own way makes a copy in C order."""
    if a.dtype.kind not in _RAW or not a.dtype.itemsize:
        return NotImplemented if a.flags.writeable else (_make_readonly, (a.copy(),))
    start, stop = _range(a) or (0, 0)
    if stop - start > a.nbytes:  # the gaps between the items are nobody's, so that they need no room in the store
        items: Any = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
    else:
        lowest = a[tuple(slice(-1, None) if stride < 0 else slice(1) for stride in a.strides)].reshape(-1)
        items = np.lib.stride_tricks.as_strided(lowest.view(np.uint8), (stop - start,), (1,)).copy()
    place = a.dtype, a.shape, a.strides, bool(a.flags.writeable)
    return _make_spread, (pickle.PickleBuffer(items), stop - start, _offset(a, start), *place)


def _make_spread(
    data: Any, span: int, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool
) -> Any:
    """Return a view whose items lie as they were, on memory that nothing else looks at."""
    items = np.frombuffer(data, np.uint8)
    memory = items.copy() if items.nbytes == span else np.zeros(span, np.uint8)
    made = np.ndarray.__new__(np.ndarray, shape, dtype, memory, offset, strides)
    if items.nbytes != span:
        made[...] = items.view(dtype).reshape(shape)
    if not writeable:
        made.flags.writeable = False
    return made


def _range_start(root: Any) -> int:
    return int(root.__array_interface__["data"][0])


def _make_readonly(a: Any) -> Any:
    a.flags.writeable = False
    return a


def _owned(a: Any) -> Any:
    """Describe an array that owns its memory; NotImplemented for all that pickle's own way suits as well."""
    if a.base is not None or type(a) is not np.ndarray or a.dtype.hasobject or a.dtype.kind not in _RAW:
        return NotImplemented
    return _described(a)


def _described(a: Any) -> Any:
    ordered = in_order(a)
    if ordered is None or not a.dtype.itemsize:
        return NotImplemented
    data = pickle.PickleBuffer(ordered.reshape(-1).view(np.uint8))
    return _make_owned, (data, a.dtype, a.shape, a.strides, bool(a.flags.writeable))


def _is_protected(a: Any) -> bool:
    """Tell whether an array lies on memory that may change, and only it is not to: that can be taken back."""
    if a.base is None or a.flags.writeable or not a.flags.forc or type(a) is not np.ndarray:
        return False
    if a.dtype.hasobject or a.dtype.kind not in _RAW:
        return False
    _, below = chain(a)
    return below is None or (type(below) in BUFFERS and type(below) is not bytes)


def _is_plain(root: Any) -> bool:
    return type(root) is np.ndarray and not root.dtype.hasobject


def _root(a: Any) -> Any:
    owned = _owned(a)
    if owned is not NotImplemented:
        return owned
    # Pickle's own way brings the numbers back in C order, where views would find others at their places.
    ordered = None if a.flags.forc or not _is_plain(a) else in_order(a)
    if ordered is None:
        return NotImplemented
    data = pickle.PickleBuffer(ordered.reshape(-1).view(np.uint8))
    return _make_ordered, (data, a.dtype, a.shape, a.strides, a.flags.writeable)


@promise("exact")
def _subclass(a: Any) -> Any:
    sharing = SHARING.get()
    own_way: Any = type(a).__reduce__
    attributes = {n: v for n, v in (getattr(a, "__dict__", None) or {}).items() if n != "_mmap"}
    if _is_shared(a, sharing) and chain(a)[0] is not a:
        if own_way not in (np.ndarray.__reduce__, np.ma.MaskedArray.__reduce__):
            raise Unstorable(f"a {type(a).__qualname__} that shares its memory with another array; store a copy of it")
        made = _array(a)
    elif own_way is np.ndarray.__reduce__ and attributes:
        # numpy's own way leaves out what a subclass keeps beside the numbers.
        made = _make_subclass, (type(a), np.array(a, copy=True, order="K", subok=False))
    else:
        return NotImplemented
    return made if made is NotImplemented or not attributes else (*made, attributes, None, None, _fill_attributes)


def _make_subclass(cls: Any, data: Any) -> Any:
    return data.view(cls)


def _make_memmap(path: str, dtype: Any, mode: str, offset: int, shape: tuple[int, ...], order: str, look: str) -> Any:
    """Open the file again where it is, read-only or as it was; it must hold what it held."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"the memory-mapped file {path} is gone")
    wanted = offset + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if os.path.getsize(path) < wanted:
        raise ValueError(f"the memory-mapped file {path} is shorter than it was ({wanted} bytes)")
    opened: Any = np.memmap
    made = opened(path, dtype=dtype, mode=mode, offset=offset, shape=shape, order=order)
    if _look(made, path) != look:
        raise ValueError(f"the memory-mapped file {path} was changed after it was saved; open it again in a cell")
    return made


@promise("exact")
def _memmap(a: Any) -> Any:
    root: Any = chain(a)[0]
    mapped = isinstance(root, np.memmap) and getattr(root, "_mmap", None) is not None
    if not mapped or root.filename is None or root.mode == "c":
        # Results of arithmetic are memmaps in name only; a copy-on-write map has contents of its own.
        return _subclass(a)
    if root is not a:
        start = int(root.__array_interface__["data"][0])
        return _make_view, (root, a.dtype, a.shape, _offset(a, start), a.strides, a.flags.writeable, type(a))
    order = "C" if a.flags.c_contiguous else "F"
    mode = "r" if a.mode == "r" else "r+"
    path = os.path.abspath(os.fspath(a.filename))
    return _make_memmap, (path, a.dtype, mode, a.offset, a.shape, order, _look(a, path))


def _look(a: Any, path: str) -> str:
    """Return what tells one content of the file from another."""
    if a.nbytes <= DIGEST_BYTES:
        import xxhash

        return str(xxhash.xxh3_128_hexdigest(np.ndarray.view(a, np.ndarray).tobytes(order="K")))
    stat = os.stat(path)
    return f"{stat.st_size}:{stat.st_mtime_ns}"


def _make_npz(path: str | None, options: dict[str, Any], look: str) -> Any:
    """Open an archive of arrays again for reading; it must be what it was. Without a path it is a closed one."""
    if path is not None and (not os.path.exists(path) or _look_at(path) != look):
        raise ValueError(f"the archive {path} is gone or was changed after it was saved; load it again in a cell")
    cls: Any = np.lib.npyio.NpzFile
    if path is not None:
        return cls(open(path, "rb"), own_fid=True, **options)
    made = cls.__new__(cls)
    vars(made).update(options)
    return made


@promise("exact")
def _npz(archive: Any) -> Any:
    if archive.zip is None:
        return _make_npz, (None, dict(vars(archive)), "")
    file = archive.fid
    path = None if file is None or file.mode != "rb" else os.path.abspath(file.name)
    if path is None or not os.path.exists(path) or not os.path.samestat(os.stat(path), os.fstat(file.fileno())):
        raise Unstorable("an archive of arrays that was not opened by its path; load it again in a cell")
    options = {name: getattr(archive, name) for name in ("allow_pickle", "pickle_kwargs")}
    return _make_npz, (path, {**options, "max_header_size": archive.max_header_size}, _look_at(path))


def _look_at(path: str) -> str:
    if os.path.getsize(path) > DIGEST_BYTES:
        stat = os.stat(path)
        return f"{stat.st_size}:{stat.st_mtime_ns}"
    import xxhash

    with open(path, "rb") as file:
        return str(xxhash.xxh3_128_hexdigest(file.read()))


def _make_info(cls: Any, dtype: Any) -> Any:
    return cls(dtype)


@promise("exact")
def _info(info: Any) -> Any:
    return _make_info, (type(info), info.dtype)


@promise("exact", "not of a Python function: such a ufunc does not say of which")
def _ufunc(ufunc: Any) -> Any:
    # Pickle looks for it under modules that do not offer it; scipy keeps many in modules of its own.
    names = ["numpy", *sorted(n for n in list(sys.modules) if n.startswith("scipy.special"))]
    for module in names:
        name = str(ufunc.__name__)
        if getattr(sys.modules[module], name, None) is ufunc:
            return _make_attribute, (module, name)
    return NotImplemented


def _make_flat(a: Any, index: int) -> Any:
    made = a.flat
    next(itertools.islice(made, index, index), None)
    return made


@promise("exact")
def _flat(iterator: Any) -> Any:
    return _make_flat, (iterator.base, iterator.index)


@promise("exact")
def _random_state(state: Any) -> Any:
    if state is np.random.mtrand._rand:
        return _make_attribute, ("numpy.random.mtrand", "_rand")
    return NotImplemented


def _global_stream(state: Any) -> Iterable[Any] | None:
    return None if state is np.random.mtrand._rand else (state._bit_generator,)


def plugin() -> Plugin:
    """Return what numpy needs."""
    return Plugin(
        exact={
            np.ndarray: _array,
            np.memmap: _memmap,
            np.flatiter: _flat,
            np.finfo: _info,
            np.ufunc: _ufunc,
            np.lib.npyio.NpzFile: _npz,
            np.random.RandomState: _random_state,
        },
        subclasses=((np.memmap, _memmap), (np.ndarray, _subclass)),
        referents={
            np.ndarray: _referents,
            np.flatiter: lambda flat: (flat.base,),
            np.random.RandomState: _global_stream,
        },
        memory={np.ndarray: _memory},
    )
