"""What objects outside a notebook's names mean for the inputs of a cell: readers in C, the notebook's own module.

Asked by the access analysis about live objects, however they are called in the code. Pure: no code of theirs runs.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from durable_nb.capture import access_rules as rules
from durable_nb.capture import plainly

__all__ = [
    "EVERY_VARIABLE",
    "MAIN_REASON",
    "METADATA",
    "environment_ids",
    "is_environment",
    "is_main",
    "is_metadata",
    "readers_named",
    "unseen_reader",
]

MAIN_REASON: Final = "the module of the notebook may give any name"
EVERY_VARIABLE: Final = "*"  # among the names of environment variables that are read

METADATA: Final = "file metadata"  # the reason where it cannot be said which file's

# By top-level package: functions and classes that open files where no audit event shows it. A name that ends in `_` is
# a beginning.
_READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "pyarrow": (
        "read_", "open_", "iter_", "dataset", "parquet_dataset", "ParquetFile", "ParquetDataset", "FeatherDataset",
        "memory_map", "OSFile", "MemoryMappedFile", "input_stream", "LocalFileSystem", "SubTreeFileSystem",
        "S3FileSystem", "GcsFileSystem", "AzureFileSystem", "HadoopFileSystem", "ORCFile", "FileSystemDataset",
    ),
    "lxml": ("parse", "iterparse", "DTD", "RelaxNG", "Schematron", "XMLSchema"),
    "polars": ("read_", "scan_"),
    "safetensors": ("safe_open", "load_file"),
    "soundfile": ("read", "info", "blocks", "SoundFile"),
    "pyogrio": ("read_", "open_", "list_"),
    "geopandas": ("read_",),
    "onnxruntime": ("InferenceSession",),
    "torchvision": ("read_",),
}  # fmt: skip


def is_main(value: Any) -> bool:
    """Tell whether an object is the module whose names are the notebook's."""
    # Past the class: asked by itself, a lazy module would be loaded.
    return (
        issubclass(type(value), ModuleType) and object.__getattribute__(value, "__dict__").get("__name__") == "__main__"
    )


def environment_ids() -> frozenset[int]:
    """Return the ids of the objects that `is_environment` knows now, for a walk over many."""
    return frozenset(id(found) for name in rules.ENVIRONMENT if (found := vars(os).get(name)) is not None)


def is_environment(value: Any) -> bool:
    """Tell whether an object gives environment variables: `os.environ`, `os.environb`, `os.getenv`, `os.getenvb`."""
    # Asked of every name and attribute of a cell, so without a generator; a system may have no `environb`.
    known = map(vars(os).get, rules.ENVIRONMENT)
    return value is not None and any(map(functools.partial(operator.is_, value), known))


def is_metadata(value: Any) -> bool:
    """Tell whether an object is a function of `os` or `os.path` that asks whether a file is there, or how it is."""
    if not issubclass(type(value), (FunctionType, BuiltinFunctionType)):
        return False
    return any(
        value is vars(owner).get(name)
        for owner, names in ((os.path, rules.METADATA_OF_PATHS), (os, rules.METADATA_OF_OS))
        for name in names
    )


def _home(value: Any) -> tuple[str, str]:
    kind = type(value)
    if issubclass(kind, type):
        module, name = plainly.module(value), plainly.name(value)
    elif issubclass(kind, (FunctionType, BuiltinFunctionType)) or plainly.name(kind) == "cython_function_or_method":
        module, name = value.__module__, value.__name__
    else:
        return "", ""
    return (module, name) if isinstance(module, str) and isinstance(name, str) else ("", "")


def unseen_reader(value: Any) -> str:
    """Return the name of a function or class of a library that may read files unseen, empty for all other objects."""
    module, name = _home(value)
    root = module.partition(".")[0]
    if root in ("", "__main__", "builtins"):
        return ""
    return name if _is_reader(root, name) or (name in rules.C_READERS and root != "urllib") else ""


def _is_reader(root: str, name: str) -> bool:
    return any(name == text or (text.endswith("_") and name.startswith(text)) for text in _READERS.get(root, ()))


def readers_named(modules: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return those of `names` that a function which itself imports `modules` may mean as readers of theirs."""
    roots = {module.partition(".")[0] for module in modules} & _READERS.keys()
    return sorted(name for name in names if any(_is_reader(root, name) for root in roots)) if roots else []
