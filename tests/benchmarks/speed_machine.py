"""Measure what the machine can do at all: copy, hash, compress, write, read and map, in GB/s.

Called by `speed.py --machine`; the figures of systems mean little without it.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import xxhash
import zstandard

__all__ = ["machine"]


def machine(folder: Path, *, small: bool) -> dict[str, str]:
    """Return what was measured and how fast it was."""
    size = (64 if small else 512) * 2**20
    rng = np.random.default_rng(0)
    random = rng.random(size // 8)
    halves = [memoryview(random).cast("B")[: size // 2], memoryview(random).cast("B")[size // 2 :]]
    ordered = memoryview(np.sort(rng.integers(0, 2**40, size // 32))).cast("B")
    target = np.ones_like(random)
    found = {
        "memcpy": rate(size, lambda: ctypes.memmove(target.ctypes.data, random.ctypes.data, size)),
        "memcpy into fresh memory": rate(size, lambda: random.copy()),
        "SHA-256": rate(size // 2, lambda: hashlib.sha256(halves[0]).digest()),
        "BLAKE2b": rate(size // 2, lambda: hashlib.blake2b(halves[0]).digest()),
    }
    hashes: dict[str, Callable[[memoryview], object]] = {
        "XXH3-128": lambda part: xxhash.xxh3_128_digest(part),
        "XXH3-64": lambda part: xxhash.xxh3_64_digest(part),
        "SHA-256": lambda part: hashlib.sha256(part).digest(),
    }
    if blake3 := blake3_hash():
        hashes["BLAKE3"] = blake3
    with ThreadPoolExecutor(2) as pool:
        for name, function in hashes.items():
            found[f"{name}, one thread"] = rate(size, lambda f=function: [f(part) for part in halves])
            found[f"{name}, two threads"] = rate(size, lambda f=function: list(pool.map(f, halves)))
            chunks = [part[at : at + 65536] for part in halves for at in range(0, len(part), 65536)]
            found[f"{name}, chunks of 64 KiB"] = rate(size, lambda f=function, c=chunks: [f(part) for part in c])
    for level in (-5, 1, 3):
        packer = zstandard.ZstdCompressor(level=level)
        for name, part in (("random floats", halves[0]), ("sorted integers", ordered)):
            share = len(packer.compress(part)) / len(part)
            found[f"zstd {level}, {name} to {share:.0%}"] = rate(len(part), lambda p=part, z=packer: z.compress(p), 1)
    return found | disk(folder / "disk", memoryview(random).cast("B"))


def blake3_hash() -> Callable[[memoryview], object] | None:
    """Return BLAKE3 where its package is installed."""
    try:
        import blake3
    except ImportError:
        return None
    return lambda part: blake3.blake3(part).digest()


def disk(path: Path, data: memoryview) -> dict[str, str]:
    """Return how fast a file is written, read and mapped."""
    size = len(data)

    def write(*, sync: bool) -> None:
        with path.open("wb") as file:
            file.write(data)
            if sync:
                os.fsync(file.fileno())

    def mapped() -> mmap.mmap:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    into = bytearray(size)

    def read_again() -> None:
        with path.open("rb", buffering=0) as file:
            file.readinto(into)

    def write_mapped() -> None:
        np.frombuffer(mapped(), dtype=np.uint8)[::4096] = 1

    found = {
        "write": rate(size, lambda: write(sync=False), 2),
        "write and fsync": rate(size, lambda: write(sync=True), 2),
        "read from the page cache, fresh memory": rate(size, path.read_bytes),
        "read from the page cache, used memory": rate(size, read_again),
    }
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    found["read from the disk"] = rate(size, path.read_bytes, 1)
    began = time.perf_counter()
    held = mapped()
    found["private mmap"] = f"{(time.perf_counter() - began) * 1e6:.0f} µs"
    found["private mmap, summed for the first time"] = rate(size, lambda: np.frombuffer(held).sum(), 1)
    found["private mmap, summed again"] = rate(size, lambda: np.frombuffer(held).sum())
    found["private mmap, every page written"] = rate(size, write_mapped)
    path.unlink()
    return found


def rate(size: int, work: Callable[[], object], times: int = 3) -> str:
    """Return the speed of the best of some tries."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return f"{size / min(took) / 1e9:.2f} GB/s"
