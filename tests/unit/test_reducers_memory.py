"""Memory that several libraries look at stays one after a restore; what was written to one is seen by the others."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from durable_nb.testing.notebook import Notebook


def _restored(*cells: str) -> Notebook:
    notebook = Notebook()
    for cell in cells:
        notebook.run(cell)
    assert {} == notebook.unsaved
    return notebook.restored()


@pytest.fixture(autouse=True)
def _numpy() -> None:
    pytest.importorskip("numpy")


@pytest.mark.parametrize(
    "cell",
    [
        "a = np.zeros(4); b = torch.from_numpy(a)",
        "b = torch.zeros(4); a = b.numpy()",
        "b = torch.zeros(8)[4:]; a = b.numpy()",
        "a = np.zeros((2, 2), order='F'); b = torch.from_numpy(a).T.reshape(-1); a = a.reshape(-1, order='F')",
        "a = np.zeros(4, 'f4'); b = torch.nn.Parameter(torch.from_numpy(a), requires_grad=False)",
        "a = np.zeros(4); b = torch.from_dlpack(a)",
        "a = torch.from_numpy(np.zeros(4)); b = torch.from_numpy(a.numpy())",
    ],
)
def test_tensors_and_arrays_on_one_memory_share_it_again(cell: str) -> None:
    """Whoever owned the memory: what is written through one name is read through the other, in both directions."""
    pytest.importorskip("torch")
    found = _restored("import numpy as np, torch", cell)
    found.check("a[1] = 5\nassert b[1] == 5, (a, b)\nb[2] = 7\nassert a[2] == 7, (a, b)")


def test_two_tensors_of_one_array_that_is_gone_share_their_memory_again() -> None:
    """torch gives each of them a storage of its own, which tells nothing of the other."""
    pytest.importorskip("torch")
    found = _restored(
        "import numpy as np, torch", "a = np.zeros(4)\nt, u = torch.from_numpy(a), torch.from_numpy(a[1:])\ndel a"
    )
    found.check("t[2] = 5\nassert u[1] == 5")


def test_tensors_in_a_data_set_share_with_the_frame_that_holds_the_array() -> None:
    """The objects that share may be deep inside others."""
    pytest.importorskip("torch")
    pytest.importorskip("pandas")
    found = _restored(
        "import numpy as np, pandas as pd, torch",
        "array = np.zeros((3, 2))\nframe = pd.DataFrame(array, copy=False)\n"
        "data = torch.utils.data.TensorDataset(torch.from_numpy(array))",
    )
    found.check("array[0, 0] = 5\nassert (data[0][0][0].item(), frame.iloc[0, 0]) == (5, 5)")


def test_tensor_on_a_bytearray_is_on_it_again() -> None:
    """Beside an array on the same one."""
    pytest.importorskip("torch")
    found = _restored(
        "import numpy as np, torch",
        "b = bytearray(8)\nt, a = torch.frombuffer(b, dtype=torch.uint8, offset=4), np.frombuffer(b, 'u1')",
    )
    found.check("b[5] = 7\nassert (t[1].item(), a[5]) == (7, 7)")


def test_tensor_on_a_memory_mapped_file_is_on_the_file_again(tmp_path: Path) -> None:
    """The file is not copied into the checkpoint."""
    pytest.importorskip("torch")
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(32))
    found = _restored(
        "import numpy as np, torch",
        f"m = np.memmap({str(path)!r}, dtype='f8', mode='r+')\nt = torch.from_numpy(m)",
    )
    found.check("t[0] = 3\nassert m[0] == 3\nm.flush()")
    assert path.read_bytes()[:8] != bytes(8)


@pytest.mark.parametrize(
    ("library", "cell", "look"),
    [
        ("polars", "s = polars.Series('n', a)", "s[1]"),
        ("polars", "s = polars.DataFrame({'n': a, 't': list('abcd')})", "s['n'][1]"),
        ("polars", "s = polars.Series('n', a[1:])", "s[0]"),
        ("pyarrow", "s = pyarrow.table({'n': pyarrow.array(a)})", "s['n'][1].as_py()"),
        ("pyarrow", "s = pyarrow.array(a)[1:]", "s[0].as_py()"),
    ],
)
def test_columns_made_of_an_array_go_on_seeing_it(library: str, cell: str, look: str) -> None:
    """polars and Arrow take numbers from an array without copying them."""
    pytest.importorskip(library)
    found = _restored(f"import numpy as np, {library}", "a = np.arange(4.0)", cell)
    found.check(f"a[1] = 99\nassert {look} == 99, {look}")


def test_read_only_views_of_columns_come_back_without_a_word() -> None:
    """What nobody can write to may be copied: reporting it would cost a variable for nothing."""
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    found = _restored(
        "import polars, pyarrow",
        "s = polars.Series([1.0, 2.0])\na = s.to_numpy()\n"
        "b = pyarrow.array([1.0, 2.0])\nc, d = b.to_numpy(), b[1:].to_numpy()",
    )
    found.check("assert (a.tolist(), c.tolist(), d.tolist()) == ([1, 2], [1, 2], [2])\nassert not a.flags.writeable")


def test_arrays_on_one_buffer_that_is_gone_share_it_again() -> None:
    """Neither array is the base of the other."""
    found = _restored(
        "import numpy as np",
        "buffer = bytearray(8)\na, b = np.frombuffer(buffer, 'u1'), np.frombuffer(buffer, 'u2')\ndel buffer",
    )
    found.check("a[0] = 5\nassert b[0] == 5")


def test_arrays_on_a_map_that_cannot_be_stored_are_reported() -> None:
    """Two arrays on an anonymous map would come back apart from each other."""
    notebook = Notebook({"memory": mmap.mmap(-1, 64)})
    notebook.run("import numpy as np\na, b = np.frombuffer(memory, 'u1'), np.frombuffer(memory, 'u2')\ndel memory")
    assert {"a", "b"} == set(notebook.unsaved)


def test_columns_of_objects_keep_the_objects() -> None:
    """polars itself cannot store them."""
    pytest.importorskip("polars")
    found = _restored(
        "import polars as pl", "o = [1]\ns = pl.Series('o', [o, None], dtype=pl.Object)\nd = s.to_frame()"
    )
    found.check("assert s[0] is o and d['o'][0] is o and s[1] is None and d.schema == {'o': pl.Object}")
