"""What the speed benchmark does inside a kernel: answer what its values are, and sample where its time goes.

Called by silent cells of `speed_measuring.py`, in every kernel, also in one whose environment holds another system and
not durable_nb: standard library only. Files that it writes are complete when the calls return.
"""

from __future__ import annotations

import hashlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["answer", "digest", "sample", "stop_sampling", "time_yardsticks"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_BATCH = 10_000


def answer(space: dict[str, Any], checks: Mapping[str, str], path: str) -> None:
    """Evaluate expressions in the namespace and write a digest of each value; of an error, what it says."""
    found = {}
    for label, expression in checks.items():
        try:
            found[label] = digest(eval(expression, space))
        except Exception as error:
            found[label] = f"{type(error).__name__}: {error}"
    Path(path).write_text(json.dumps(found))


def digest(value: object) -> str:
    """Return a digest of all of a value: equal for equal values of the same types, whichever process asks."""
    into = hashlib.sha256()
    for part in _parts(value):
        into.update(part)
    return into.hexdigest()[:24]


def _parts(value: object) -> Iterator[bytes]:
    kind = type(value)
    yield f"<{kind.__module__}.{kind.__qualname__}>".encode()
    if isinstance(value, _PLAIN):
        yield repr(value).encode()
    elif kind in (list, tuple):
        assert isinstance(value, (list, tuple))
        yield from _sequence(value)
    elif kind is dict:
        assert isinstance(value, dict)
        for key, one in value.items():
            yield from _parts(key)
            yield from _parts(one)
    elif kind.__module__.partition(".")[0] == "numpy":
        yield from _array(value)
    elif kind.__module__.partition(".")[0] == "pandas":
        yield from _table(value)
    elif kind.__qualname__ == "Figure":
        yield _drawn(value)
    else:
        raise TypeError(f"the benchmark cannot tell whether two values of type {kind.__qualname__} are equal")


def _sequence(value: Any) -> Iterator[bytes]:
    # Elements of builtin types are told by their repr, which C writes; that of the rest need not tell all.
    for start in range(0, len(value), _BATCH):
        batch = value[start : start + _BATCH]
        if _is_plain(batch, 3):
            yield repr(batch).encode()
        else:
            for one in batch:
                yield from _parts(one)


def _is_plain(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return True
    if depth == 0 or kind not in (list, tuple, dict):
        return False
    parts = value.values() if kind is dict else value
    keys = set(map(type, value)) <= {str, int} if kind is dict else True
    return keys and all(_is_plain(one, depth - 1) for one in parts)


def _array(value: Any) -> Iterator[bytes]:
    import numpy as np

    array = np.ascontiguousarray(value)
    if array.dtype.hasobject:
        yield from _sequence([str(array.shape), *array.ravel().tolist()])
        return
    yield f"{array.dtype.str}{np.shape(value)}".encode()
    yield memoryview(array).cast("B") if array.size else b""


def _table(value: Any) -> Iterator[bytes]:
    import numpy as np

    if value.ndim == 1:
        yield repr((str(value.dtype), str(value.name))).encode()
        yield from _array(np.asarray(value))
        columns = []
    else:
        yield repr([str(name) for name in value.columns]).encode()
        columns = [value.iloc[:, at] for at in range(value.shape[1])]
    for column in columns:
        yield str(column.dtype).encode()
        yield from _array(np.asarray(column))
    if hasattr(value, "index"):
        yield from _array(np.asarray(value.index))


def _drawn(figure: Any) -> bytes:
    import io

    into = io.BytesIO()
    figure.savefig(into, format="raw", dpi=40)
    return into.getvalue()


def time_yardsticks(space: dict[str, Any], expressions: Mapping[str, str], path: str) -> None:
    """Write how many seconds each expression takes, the least of three, and the length of what it returns, if bytes."""
    found = {}
    for label, expression in expressions.items():
        code, times = compile(expression, label, "eval"), []
        for _ in range(3):
            began = time.perf_counter()
            value = eval(code, space)
            times.append(time.perf_counter() - began)
        found[label] = {"seconds": min(times), "bytes": len(value) if isinstance(value, bytes) else 0}
    Path(path).write_text(json.dumps(found))


# -- where the time goes


class _Sampler:
    """Counts, by processor time, the stacks that the main thread is in."""

    def __init__(self, marker: str) -> None:
        self.marker = marker
        self.own: Counter[str] = Counter()
        self.below: Counter[str] = Counter()
        self.leaves: Counter[str] = Counter()
        self.total_s = 0.0
        self.seen_s = time.thread_time()
        self.before: Any = None

    def take(self, _number: int, frame: FrameType | None) -> None:
        """Add the time since the last sample to where the thread is now."""
        # Signals wait while C code runs, so a sample is worth the time that it stands for, not one tick.
        now = time.thread_time()
        took, self.seen_s = now - self.seen_s, now
        names, deepest, leaf = set(), "", ""
        while frame is not None:
            code = frame.f_code
            if self.marker in code.co_filename:
                name = f"{code.co_filename.rsplit(self.marker, 1)[1]}:{code.co_qualname}"
                names.add(name)
                deepest = deepest or name
            leaf = leaf or f"{code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno} {code.co_qualname}"
            frame = frame.f_back
        # Below this one is the person's own code.
        if deepest and not deepest.endswith("Interceptor._execute"):
            self.total_s += took
            self.own[deepest] += took  # type: ignore[assignment]
            self.leaves[leaf] += took  # type: ignore[assignment]
            for name in names:
                self.below[name] += took  # type: ignore[assignment]


def sample(marker: str) -> None:
    """Begin to sample the main thread; only stacks with a file below `marker` count."""
    sampler = _Sampler(marker)
    sampler.before = signal.signal(signal.SIGPROF, sampler.take)
    sys.modules[__name__].__dict__["_sampler"] = sampler
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)


def stop_sampling(path: str) -> None:
    """End sampling and write what was found: seconds in all, and the functions that took most of them."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    sampler = sys.modules[__name__].__dict__.pop("_sampler")
    signal.signal(signal.SIGPROF, sampler.before)
    found = {
        "total_s": sampler.total_s,
        "own": sampler.own.most_common(25),
        "below": sampler.below.most_common(45),
        "leaves": sampler.leaves.most_common(25),
    }
    Path(path).write_text(json.dumps(found))
