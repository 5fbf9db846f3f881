"""What numpy's own pickling loses: attributes of subclasses, positions, files that were mapped or opened."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from durable_nb.capture.borrowing import fresh
from durable_nb.testing.notebook import Notebook

np: Any = pytest.importorskip("numpy")
_make_owned: Any = importlib.import_module("durable_nb.capture.reducers.numpy")._make_owned


def _lost(notebook: Notebook) -> dict[str, str]:
    other = Notebook()
    other.head, other.stored, other.cells = notebook.head, notebook.stored, 1000
    return {unsaved.name: unsaved.reason for unsaved in other.restore().unsaved}


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_memory_map_of_a_file_that_was_changed_is_told(tmp_path: Path, mode: str) -> None:
    """The numbers of the checkpoint are gone: another content under the old name would be a silent loss."""
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(32))
    notebook = Notebook()
    notebook.run(f"import numpy as np\nm = np.memmap({str(path)!r}, dtype='f8', mode={mode!r})")
    assert {} == _lost(notebook)
    path.write_bytes(bytes(31) + b"x")
    assert ["m"] == list(_lost(notebook))
    assert "changed" in _lost(notebook)["m"]
    assert bytes(31) + b"x" == path.read_bytes()


def test_archive_is_opened_again_by_path_only_when_it_is_what_it_was(tmp_path: Path) -> None:
    """For reading, and only the very file."""
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(3))
    notebook = Notebook()
    notebook.run(
        f"import numpy as np\nz = np.load({str(path)!r})\nfile = open({str(path)!r}, 'rb')\nown = np.load(file)"
    )
    assert {"file", "own"} == set(notebook.unsaved)
    other = Notebook()
    other.head, other.stored = notebook.head, notebook.stored
    other.restore()
    other.check("assert z['a'].tolist() == [0, 1, 2]\nz.close()")
    np.savez(path, a=np.arange(4))
    assert ["z"] == list(_lost(notebook))
    notebook.check("z.close(); file.close(); own.close()")


def test_attributes_of_a_subclass_come_back_with_it_and_its_views() -> None:
    """numpy leaves out what `__array_finalize__` keeps."""
    notebook = Notebook()
    notebook.run(
        "import numpy as np\n"
        "class Tagged(np.ndarray):\n"
        "    def __array_finalize__(self, other):\n        self.tag = getattr(other, 'tag', None)\n"
        "whole = np.zeros(4).view(Tagged)\nwhole.tag = note = ['m']\npart = whole[1:]\npart.tag = 'other'"
    )
    found = notebook.restored()
    found.check("assert type(whole) is Tagged and whole.tag is note and part.tag == 'other'")
    found.check("whole[1] = 5\nassert part[0] == 5")


def test_masked_array_stays_on_the_memory_of_its_array() -> None:
    """Mask and fill value are its own."""
    notebook = Notebook()
    notebook.run("import numpy as np\na = np.arange(3.0)\nm = np.ma.array(a, mask=[1, 0, 0], fill_value=-1)")
    found = notebook.restored()
    found.check("a[1] = 9\nassert m[1] == 9 and m.mask.tolist() == [True, False, False] and m.fill_value == -1")


def test_broadcast_array_stays_narrow_and_read_only() -> None:
    """A copy would be writable and as large as it looks."""
    notebook = Notebook()
    notebook.run("import numpy as np\nb = np.broadcast_to(np.arange(1000.0), (1000, 1000))")
    assert sum(len(data) + sum(map(len, buffers)) for data, buffers in notebook.stored.values()) < 100_000
    notebook.restored().check("assert b.strides == (0, 8) and not b.flags.writeable and b[7, 9] == 9")


def test_flat_iterator_goes_on_where_it_was() -> None:
    """Over the array in the other variable."""
    notebook = Notebook()
    notebook.run("import numpy as np\na = np.arange(4)\nwalk = a.flat\nnext(walk)")
    notebook.restored().check("a[1] = 7\nassert next(walk) == 7")


@pytest.mark.parametrize(
    "source",
    [
        "a = np.arange(8.0)\nd = a[1:]\na.flags.writeable = False",
        "b = bytearray(b'abcdef')\na = np.frombuffer(b, 'u1')\nd = a[1:]\na.flags.writeable = False",
        "a = np.arange(8.0)\nd = a[1:]\na.flags.writeable = False\ndel a\na = d[:2]",
        "a = np.arange(8.0)\nd = memoryview(a)\na.flags.writeable = False",
        "b = bytearray(b'abcdef')\na = np.frombuffer(b, 'u1')\nd = memoryview(a)[1:]\na.flags.writeable = False\ndel b",
        "b = bytearray(b'abcdef')\na = np.frombuffer(b, 'u1')\na.flags.writeable = False\ndel b\nd = a[:0]",
    ],
)
def test_what_looked_at_an_array_before_it_was_protected_may_still_write(source: str) -> None:
    """A view and its array are each as writable as they were, and the protection can be taken back."""
    notebook = Notebook()
    notebook.run(f"import numpy as np\n{source}")
    assert notebook.unsaved.keys() <= {"d"}
    again = notebook.restored()
    for life in (notebook, again):
        life.check("can = [a.flags.writeable, not memoryview(d).readonly]")
        life.check("try:\n    a.flags.writeable = True\n    can += ['back']\nexcept ValueError: pass")
    assert notebook["can"] == again["can"]


def test_a_restored_array_holds_on_to_the_bytes_it_looks_at() -> None:
    """As long as the array is there its bytearray cannot be resized, as before."""
    notebook = Notebook()
    notebook.run("import numpy as np\nb = bytearray(b'abcdef')\na = np.frombuffer(b, 'u1')\nd = a[::-1]")
    again = notebook.restored()
    for name in ("a", "d"):
        with pytest.raises(BufferError):
            again.check("b.append(1)")
        again.check(f"del {name}")
    again.check("b.append(1)")


@pytest.mark.parametrize(
    ("shape", "dtype", "order"),
    [((600_000,), "f8", "C"), ((3, 200_000), "f8", "C"), ((3, 200_000), "f8", "F"), ((600_000,), "i4,f8", "C"),
     ((400_000,), "U3", "C"), ((600_000,), "M8[ns]", "C")],
)  # fmt: skip
def test_an_array_takes_over_the_memory_it_was_read_into(shape: tuple[int, ...], dtype: str, order: str) -> None:
    """A large array that owned its memory does so again, with its shape, type and order, read-only ones included."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.frombuffer(np.random.default_rng(1).bytes(count), np.uint8) & 0x3F
    wanted = np.ndarray(shape, dtype, raw.tobytes(), order=order)  # type: ignore[call-overload]
    for writeable in (True, False):
        memory = fresh(count)
        memory[:] = raw
        made = _make_owned(memory, wanted.dtype, wanted.shape, wanted.strides, writeable)
        assert (made.dtype, made.shape, made.strides) == (wanted.dtype, wanted.shape, wanted.strides)
        assert (made.flags.owndata, made.base is None, made.flags.writeable) == (True, True, writeable)
        assert made.tobytes() == wanted.tobytes()
        assert (made is memory) == (order == "C")


@pytest.mark.parametrize(
    ("source", "stored"),
    [
        ("np.arange(6, dtype='u1')[::-1]", 6),
        ("np.arange(4096.0)[::1024]", 4 * 8),
        ("np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2)[:, ::-1]", 24 * 8),
        ("np.arange(24)[4:20].reshape(4, 4)[::-2, 1:3]", 4 * 8),
        ("np.lib.stride_tricks.as_strided(np.arange(5), (3, 3), (8, 8))", 5 * 8),
        ("np.frombuffer(bytes(range(8)), 'u2')[::-1]", 8),
        ("np.array([(1, 2.5), (3, 4.5)], dtype=[('a', 'i4'), ('b', 'f8')])['b'][::-1]", 2 * 8),
    ],
)
def test_the_only_view_of_an_array_keeps_its_order_in_memory(source: str, stored: int) -> None:
    """A memory view of it tells its strides; the gaps between its items, which nobody sees, are not stored."""
    live = eval(source, {"np": np})
    reduced = importlib.import_module("durable_nb.capture.reducers.numpy")._alone(live)
    assert stored == memoryview(reduced[1][0]).nbytes
    notebook = Notebook()
    notebook.run(f"import numpy as np\na = {source}")
    found = notebook.restored()
    restored = found["a"]
    assert (live.strides, live.dtype, live.tolist()) == (restored.strides, restored.dtype, restored.tolist())
    assert live.flags.writeable == restored.flags.writeable
