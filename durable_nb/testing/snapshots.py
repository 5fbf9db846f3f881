"""Snapshots of a whole kernel: every variable with its identity, and the state outside the namespace, to be compared.

Used by the tests that kill notebooks: `CELL` is a cell that writes a snapshot to a file and changes nothing in the
kernel, `differences` says where two of them differ. Variables are described by `canon` in a forked child, since that
may use iterators up; what a child would see otherwise (random streams) is described before.
"""

from __future__ import annotations

import decimal
import hashlib
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from durable_nb.testing.canon import canonical, streams

__all__ = ["CELL", "Snapshot", "differences", "load", "outside", "take"]

Snapshot = dict[str, str]  # where something is, and what it is

# Format it with a path and whether the shell's history counts. It leaves no name behind and has no result.
CELL = "__import__('durable_nb.testing.snapshots', fromlist=['take']).take(globals(), {!r}, history={})"
# They belong to the shell of one process and lead to everything in it.
_SHELL = frozenset({"exit", "quit", "get_ipython", "open"})
_HISTORY = re.compile(r"_+|_i+|_i?\d+|_[oid]h|In|Out|<execution count>")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def take(namespace: Mapping[str, Any], path: str, *, history: bool = True) -> None:
    """Write a snapshot of this process to a file; wait until it is there.

    Without `history` the numbers, inputs and results of cells are left out: Run All counts on and has them twice.
    """
    found = {place: what for place, what in outside(namespace) if history or not _HISTORY.fullmatch(place)}
    with warnings.catch_warnings():
        # Python 3.12 warns of a fork beside threads; the child only reads what its one thread can see.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        _describe(namespace, found, path, {n for n in namespace if not history and _HISTORY.fullmatch(n)})
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError(f"the variables could not be described: {Path(path).read_text(encoding='utf-8')}")


def _describe(namespace: Mapping[str, Any], found: Snapshot, path: str, left_out: set[str]) -> None:
    """Finish a snapshot in the child, and end it: nothing may be flushed or finalised twice."""
    status = 1
    try:
        warnings.simplefilter("ignore")
        found |= dict(canonical(namespace, exclude=_SHELL | left_out))
        Path(path).write_text(json.dumps(found), encoding="utf-8")
        status = 0
    except BaseException as error:
        Path(path).write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
    finally:
        os._exit(status)


def load(path: Path) -> Snapshot:
    """Read a snapshot."""
    found: Snapshot = json.loads(path.read_text(encoding="utf-8"))
    return found


def differences(expected: Snapshot, got: Snapshot, *, but: Iterable[str] = ()) -> list[str]:
    """Return in words where two snapshots differ; places that begin with one of `but` are left out."""
    left_out = tuple(but)
    return [
        f"{place}\n    expected {expected.get(place, 'nothing')}\n    got      {got.get(place, 'nothing')}"
        for place in dict.fromkeys([*expected, *got])
        if expected.get(place) != got.get(place) and not place.startswith(left_out)
    ]


def outside(namespace: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what later cells can depend on and no variable holds. Libraries are looked at where they are imported."""
    yield from streams()
    yield "<working folder>", os.getcwd()
    yield "<search path>", repr(sys.path)
    yield "<warnings filters>", repr([_filter(entry) for entry in warnings.filters])
    yield "<recursion limit>", str(sys.getrecursionlimit())
    yield "<decimal context>", repr(decimal.getcontext())
    yield "<environment>", repr(sorted(name for name in os.environ if not name.startswith(("JPY_", "DURABLE_NB_"))))
    yield "<logging levels>", repr(_levels())
    for name, describe in _LIBRARIES.items():
        if (library := sys.modules.get(name)) is not None:
            yield f"<{name}>", describe(library)
    shell = getattr(namespace.get("get_ipython"), "__self__", None)
    if shell is not None:
        yield from _of_shell(shell)


def _filter(entry: Any) -> tuple[object, ...]:
    action, message, category, module, line = entry
    patterns = (getattr(message, "pattern", message), getattr(module, "pattern", module))
    return (action, patterns[0], category.__qualname__, patterns[1], line)


def _levels() -> dict[str, int]:
    """Return the levels that somebody set, apart from those of the machinery that runs cells."""
    found = {"root": logging.root.level}
    for name, logger in sorted(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and logger.level and not name.startswith(("traitlets", "durable_nb")):
            found[name] = logger.level
    return found


def _numpy(numpy: Any) -> str:
    return repr((sorted(numpy.get_printoptions().items(), key=str), numpy.geterr()))


def _pandas(pandas: Any) -> str:
    # Asking for each option would warn of those that are deprecated.
    return _ADDRESS.sub("", repr(pandas._config.config._global_config))


def _matplotlib(matplotlib: Any) -> str:
    # `dict.get`: asking an rcParams for its backend may choose one.
    return repr([(key, dict.get(matplotlib.rcParams, key)) for key in sorted(matplotlib.rcParams)])


def _torch(torch: Any) -> str:
    return hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()[:12]


_LIBRARIES: Mapping[str, Callable[[Any], str]] = {
    "numpy": _numpy,
    "pandas": _pandas,
    "matplotlib": _matplotlib,
    "matplotlib.pyplot": lambda pyplot: repr(pyplot.get_fignums()),
    "torch": _torch,
}


def _of_shell(shell: Any) -> Iterator[tuple[str, str]]:
    yield "<execution count>", str(shell.execution_count)
    yield "<extensions>", repr(sorted(shell.extension_manager.loaded))
    mine = [
        (kind, name)
        for kind, magics in shell.magics_manager.magics.items()
        for name, magic in magics.items()
        if getattr(getattr(magic, "__func__", magic), "__module__", "") == "__main__"
    ]
    yield "<magics of the notebook>", repr(sorted(mine))
    for mime, formatter in shell.display_formatter.formatters.items():
        known = [getattr(kind, "__name__", str(kind)) for kind in formatter.type_printers]
        yield f"<formatters of {mime}>", repr((sorted(known), sorted(map(str, formatter.deferred_printers))))
