"""Groups to bytes and back: references by name, buffers out of band, refusals with a reason."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

from durable_nb.capture.codec import Codec, Failed
from durable_nb.capture.definitions import Definitions
from durable_nb.capture.groups import partition
from durable_nb.capture.reducers import load


def codec(names: dict[str, Any]) -> Codec:
    """Return a codec that knows the definitions and the shared memory of a namespace."""
    made = Codec(names, load(sys.modules))
    definitions = Definitions(names)
    made.bind(definitions, partition(names, definitions, made.plugin, never=[names]))
    return made


def nothing(name: str) -> object:
    """Resolve no name."""
    raise Failed(f"nobody has {name}")


def test_large_data_is_out_of_band_and_small_data_is_not() -> None:
    """An array of a megabyte is a buffer of the live memory itself; one of 80 bytes rides in the pickle."""
    large, small = np.zeros(1 << 17), np.zeros(10)
    dumped = codec({}).dump(["large", "small"], {"large": large, "small": small})
    assert [b.nbytes for b in dumped.buffers] == [1 << 20]
    assert len(dumped.pickle) < 1000
    large[5] = 1
    assert np.frombuffer(dumped.buffers[0])[5] == 1


def test_a_definition_of_another_group_is_a_name() -> None:
    """An instance refers to its class by name, and loads with whatever class the resolver gives."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("class A:\n    pass\na = A()\na.x = 1", names)
    made = codec(names)
    dumped = made.dump(["a"], names)
    assert dumped.deps == ("A",)
    other = type("A", (), {})
    loaded = made.load(dumped.pickle, [], {"A": other}.__getitem__)
    assert (type(loaded["a"]), loaded["a"].x) == (other, 1)
    with pytest.raises(Failed, match="nobody has A"):
        made.load(dumped.pickle, [], nothing)


def test_names_of_main_go_through_the_resolver() -> None:
    """A global of `__main__` in a pickle never reads the live module."""
    data = b"\x80\x04c__main__\nthing\n."
    made = codec({})
    assert made.load(pickle.dumps({"k": 1}), [], nothing) == {"k": 1}
    assert made.load(data, [], lambda name: {"it": name}) == {"it": "thing"}


def test_the_same_value_gives_the_same_bytes() -> None:
    """Dumping twice gives equal digests; a change gives another."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def f(x, y=[1]):\n    return x\nclass A:\n    z = {1: 2}\nd = {'f': [f], 'A': A}", names)
    made = codec(names)
    for name in ("f", "A", "d"):
        assert made.dump([name], names).digest == made.dump([name], names).digest
    before = made.dump(["f"], names).digest
    names["f"].__defaults__[0].append(2)
    assert made.dump(["f"], names).digest != before


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("(i for i in range(3))", "generator"),
        ("__import__('hashlib').sha256()", "HASH"),
        ("__import__('re').match('a', 'a')", "Match"),
        ("__import__('contextvars').Context()", "Context"),
        ("__import__('threading').Thread()", "Thread"),
        ("__import__('concurrent.futures').futures.Future()", "[Ff]uture"),
        ("__import__('weakref').finalize({1}.__class__, print)", "finalize"),
        ("__import__('sys')._getframe()", "frame"),
    ],
)
def test_what_belongs_to_the_process_is_refused_with_a_reason(source: str, word: str) -> None:
    """Things that only live in one process raise `Failed` with a sentence that names them."""
    with pytest.raises(Failed, match=word):
        codec({}).dump(["x"], {"x": eval(source)})


def test_sentinels_of_a_library_stay_the_same_object() -> None:
    """A stateless object that its module offers is a reference, so that `is` still works."""
    import dataclasses

    made = codec({})
    dumped = made.dump(["x"], {"x": [dataclasses.MISSING, dataclasses.KW_ONLY]})
    assert made.load(dumped.pickle, [], nothing)["x"][0] is dataclasses.MISSING


def test_the_global_random_stream_stays_global() -> None:
    """A reference to numpy's process-wide RandomState is not a copy of it, a private one is."""
    made = codec({})
    own = np.random.RandomState(3)
    dumped = made.dump(["g", "own"], {"g": np.random.mtrand._rand, "own": own})
    loaded = made.load(dumped.pickle, [bytearray(b) for b in dumped.buffers], nothing)
    assert loaded["g"] is np.random.mtrand._rand
    assert loaded["own"] is not own
    assert loaded["own"].rand() == own.rand()


def test_a_memory_map_is_a_path_and_writes_through(tmp_path: Any) -> None:
    """A memmap and its view come back on the file, which is neither copied nor emptied."""
    mapped = np.memmap(tmp_path / "m.bin", dtype="<f4", mode="w+", shape=(400, 300))
    mapped[:] = 1
    mapped.flush()
    names = {"mapped": mapped, "part": mapped[2:, 1:]}
    made = codec(names)
    dumped = made.dump(["mapped", "part"], names)
    assert len(dumped.pickle) + sum(b.nbytes for b in dumped.buffers) < 2000
    loaded = made.load(dumped.pickle, [], nothing)
    loaded["mapped"][3, 3] = 7
    loaded["mapped"].flush()
    assert (loaded["part"][1, 2], mapped[3, 3], loaded["mapped"].mode) == (7, 7, "r+")
    (tmp_path / "m.bin").unlink()
    with pytest.raises(Failed, match=r"m\.bin is gone"):
        made.load(dumped.pickle, [], nothing)
