"""Inputs that a cell does not spell as names: the notebook as a module, readers in C, file metadata, the environment.

Each cell is met again in the next life with the input changed in between: it runs, or its skip line says that there
are inputs which cannot be seen. With the input as it was it is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.lives import Lives, said, skipped


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook whose every cell is durable."""
    with Lives(tmp_path) as started:
        yield started


def test_reads_of_the_notebook_as_a_module(lives: Lives) -> None:
    """A name read through `__main__`, in a cell or in a local module, is an input like the name itself."""
    (lives.folder / "asking.py").write_text("def f():\n    import __main__\n    return __main__.v\n")
    readers = [
        "import __main__\na = __main__.v",
        "from __main__ import v as w\nb = w",
        "import sys\nc = sys.modules[__name__].v",
        "import asking\nd = asking.f()",
    ]
    lives.run("v = 1", *readers)
    lives.kill()
    assert [True] * 5 == lives.run_all(["v = 1", *readers])
    lives.kill()
    assert [False] * 5 == lives.run_all(["v = 2", *readers])
    assert [2, 2, 2, 2] == lives.value("[a, b, c, d]")


def test_readers_in_c_are_told(lives: Lives) -> None:
    """A table read by a library in C or Rust is no input that can be seen, and the skip line says so."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("polars")
    lives.run("import polars; polars.DataFrame({'a': [1]}).write_parquet('t.parquet')")
    cells = [
        "import pyarrow.parquet as pq\nn = pq.read_table('t.parquet').num_rows",
        "import pyarrow as pa\nwith pa.memory_map('t.parquet') as m:\n    size = m.size()",
        "from polars import read_parquet as rp\nk = len(rp('t.parquet'))",
    ]
    lives.run(*cells)
    lives.kill()
    replies = [lives.run(cell) for cell in cells]
    assert [True] * 3 == [not skipped(r) or "inputs it cannot see" in said(r) for r in replies]


def test_environment_variables_are_inputs(lives: Lives) -> None:
    """A cell that read a variable runs when its value is another one, however it asked; the value is not recorded."""
    first, second = "a-secret-from-the-first-life", "a-secret-from-the-second"
    lives.environ["MY_INPUT"] = first
    lives.kill()
    cells = [
        "import os\na = os.environ['MY_INPUT'][-3:]",
        "b = os.environ.get('MY_INPUT')[-3:]",
        "c = dict(os.environ)['MY_INPUT'][-3:]",
        "d = os.getenv('MY_INPUT')[-3:]",
        "def f():\n    return os.environ['MY_INPUT']",
        "e = f()[-3:]",
        "f2 = 'MY_OTHER' in os.environ",
    ]
    lives.run(*cells)
    lives.kill()
    assert [True] * 7 == lives.run_all(cells)
    lives.environ["MY_INPUT"] = second
    lives.kill()
    assert [False, False, False, False, True, False, True] == lives.run_all(cells)
    assert ["ond"] * 5 == lives.value("[a, b, c, d, e]")
    stored = [path.read_bytes() for path in (lives.folder / ".durable").rglob("*") if path.is_file()]
    assert not any(secret.encode() in content for secret in (first, second) for content in stored)


def test_questions_about_files_are_inputs(lives: Lives) -> None:
    """A cell that asked whether a file is there runs when that is another answer, not when the file only grew."""
    (lives.folder / "there").write_text("a")
    cells = [
        "import os\na = os.path.exists('there')",
        "from pathlib import Path\nb = Path('there').is_file()",
        "import os\nif not os.path.exists('out'):\n    os.makedirs('out')",
        "_ = open('out/file', 'w').write('1')",
        "c = os.stat('there').st_size",
        "if not os.path.exists('cache'):\n    kept = open('cache', 'w').write('12')\nd = open('cache').read()",
    ]
    lives.run(*cells)
    (lives.folder / "there").write_text("abc")
    lives.kill()
    replies = [lives.run(cell) for cell in cells]
    assert [True] * 6 == [skipped(r) for r in replies]
    assert [False, False, False, False, True, False] == ["file metadata" in said(r) for r in replies]
    (lives.folder / "there").unlink()
    (lives.folder / "cache").write_text("other")
    lives.kill()
    assert [False, False, True, True] == lives.run_all(cells[:4])
    assert not skipped(lives.run(cells[5]))
    assert [False, False, "other"] == lives.value("[a, b, d]")


def test_a_variable_that_a_cell_sets_is_as_the_cell_left_it(tmp_path: Path) -> None:
    """The cell that set it runs again, or it comes back because it is named; its readers are skipped either way."""
    with Lives(tmp_path, environ={"DURABLE_NB_ENV": "NAMED"}) as lives:
        cells = [
            "import os",
            "os.environ['OTHER'] = '1'",
            "os.environ['NAMED'] = '2'",
            "a = os.environ['OTHER'] + os.environ['NAMED']",
        ]
        lives.run(*cells)
        lives.kill()
        assert [True, False, True, True] == lives.run_all(cells)
        assert "12" == lives.value("a")
