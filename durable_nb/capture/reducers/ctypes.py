"""Pointers and C functions are addresses of one process; array types are made again from item type and length.

Merged into the plug-in by `load` once ctypes is imported.
"""

from __future__ import annotations

import ctypes
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = "ctypes"


def _make_array_type(item: Any, length: int) -> Any:
    return item * length


@promise("exact")
def _array_type(cls: Any) -> Any:
    # `c_int * 3` is made on the fly and cached; a class statement is a definition of somebody's.
    if "_type_" in vars(cls) and cls is cls._type_ * cls._length_:
        return _make_array_type, (cls._type_, cls._length_)
    return NotImplemented


@promise("reported", "an address in the memory of the lost kernel")
def _address(obj: Any) -> tuple[Any, ...]:
    raise Unstorable(f"a ctypes {type(obj).__name__} is an address in the memory of the lost kernel")


@promise("reported", "the library is loaded in the lost kernel")
def _library(obj: Any) -> tuple[Any, ...]:
    raise Unstorable(f"a C library loaded by ctypes ({obj._name!r}); load it again in a cell")


def plugin() -> Plugin:
    """Return what ctypes needs."""
    addresses = (ctypes._Pointer, ctypes._CFuncPtr)  # type: ignore[attr-defined]
    return Plugin(
        exact={
            type(ctypes.c_int * 1): _array_type,
            ctypes.c_void_p: _address,
            ctypes.c_char_p: _address,
            ctypes.c_wchar_p: _address,
            ctypes.py_object: _address,
        },
        subclasses=(*((base, _address) for base in addresses), (ctypes.CDLL, _library)),
    )
