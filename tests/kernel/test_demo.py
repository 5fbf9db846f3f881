"""The demonstration of a survived crash, and what it compares by."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from durable_nb.cli import OK, SAYS_NO, USAGE, main
from durable_nb.errors import UsageError
from durable_nb.kernel.demo_cells import comparable, first_difference, read_cells, skipped, timeless
from durable_nb.kernel.fingerprint import fingerprints


def notebook(*sources: str) -> str:
    """Return a notebook of these code cells as text."""
    cells = [
        {"cell_type": "code", "id": f"id-{n}", "source": source, "outputs": []} for n, source in enumerate(sources)
    ]
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


@pytest.mark.timeout(300)
def test_the_built_in_notebook_survives_a_kill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`durable-nb demo` skips exactly what was finished, runs the rest, and all outputs and variables are equal."""
    code = main(["demo", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["differing"], code) == ([], OK)
    cells = ["setup", "readings", "station", "counter", "primes", "resample", "correct", "report"]
    assert cells == told["skipped"] + told["ran"]
    assert 2 <= len(told["skipped"]) < len(cells)
    by_cell = {row["cell"]: row for row in told["history"]}
    killed = told["ran"][0]
    assert {name: (2 if name == killed else 1) for name in cells} == {n: by_cell[n]["attempts"] for n in cells}
    assert {name: int(name == killed) for name in cells} == {n: by_cell[n]["lost"] for n in cells}


@pytest.mark.timeout(300)
def test_a_notebook_that_differs_by_itself_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook whose outputs depend on the process makes the demonstration say no, and name the cell."""
    path = tmp_path / "mine.ipynb"
    path.write_text(notebook("import os, time", "x = 1", "time.sleep(0.5)", "print(os.getpid())"))
    code = main(["demo", str(path), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["differing"], code) == (["cell cell-4 shows something else"], SAYS_NO)


def test_what_differs_is_shown_and_times_of_day_are_no_loss() -> None:
    """The first line that differs is told; outputs that only tell the time, a duration or a run's id are as good."""
    one = [["stream", "stdout", "start\nsaved 12:00:01 in 4 ms (r6b0c6e91-fd925a)\n7\n"]]
    other = [["stream", "stdout", "start\nsaved 12:10:09 in 5.2 ms (r6b0c6fff-000000)\n7\n"]]
    assert timeless(one) == timeless(other)
    assert first_difference(one, other) == tuple(lines[0][2].splitlines()[1] for lines in (one, other))
    third = [["stream", "stdout", other[0][2].replace("\n7", "\n8")]]
    assert (timeless(one) != timeless(third), first_difference(one, third)) == (True, ("7", "8"))
    assert first_difference(one, []) == ("start", "(nothing)")
    images = [[["display_data", {"image/png": text, "text/plain": "<Figure>"}]] for text in ("abc", "xyz")]
    assert [found.startswith("(image/png, content ") for found in first_difference(*images)] == [True, True]


@pytest.mark.timeout(300)
def test_a_notebook_with_an_error_stops_the_demonstration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The notebook's own error is named, and the exit code says no."""
    path = tmp_path / "mine.ipynb"
    path.write_text(notebook("x = 1", "1 / 0"))
    assert main(["demo", str(path)]) == SAYS_NO
    assert "Cell cell-2 ended with ZeroDivisionError: division by zero." in capsys.readouterr().out


def test_wrong_arguments_run_nothing(tmp_path: Path) -> None:
    """A missing notebook, a file that is none, two words and an option are wrong usage."""
    text = tmp_path / "text.ipynb"
    text.write_text("hello")
    for words in (["missing.ipynb"], [str(text)], ["a", "b"], ["--fast"]):
        assert main(["demo", *words]) == USAGE, words


def test_the_command_does_not_start_a_kernel_for_its_help() -> None:
    """`durable-nb --help` names every verb and imports neither IPython nor DuckDB."""
    code = (
        "import sys\nfrom durable_nb.cli import main\nmain(['--help'])\n"
        "print(sorted({'IPython', 'duckdb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for verb in ("status", "why", "restore", "demo"):
        assert f"\n  {verb}" in done.stdout


def test_cells_become_durable_and_named() -> None:
    """A plain cell gets a header, a nameless header a name; magics and views of the history stay as they are."""
    cells = read_cells(
        notebook("x = 1", "%%durable\ny = 2", "%%durable --rerun\ny = 3", "%%durable fit --rerun\nz = 3", "%%time\n1",
                 "%durable status", "%%durable_sql\nSELECT 1", "   ", "%durable"),
        where="x",
    )  # fmt: skip
    assert [(cell.source, cell.durable, cell.compared) for cell in cells] == [
        ("%load_ext durable_nb", False, False),
        ("%%durable cell-1\nx = 1", True, True),
        ("%%durable cell-2\ny = 2", True, True),
        ("%%durable cell-3 --rerun\ny = 3", True, True),
        ("%%durable fit --rerun\nz = 3", True, True),
        ("%%time\n1", False, True),
        ("%durable status", False, False),
        ("%%durable_sql\nSELECT 1", False, False),
        ("%durable", False, False),
    ]
    assert [cell.name for cell in cells if cell.durable] == ["cell-1", "cell-2", "cell-3", "fit"]


def test_a_notebook_that_loads_the_extension_is_not_given_a_second_load() -> None:
    """Where the notebook loads the extension, its own cell is the only one that does."""
    cells = read_cells(notebook("%load_ext durable_nb\nimport json", "x = 1"), where="x")
    assert [cell.durable for cell in cells] == [False, True]


def test_what_is_no_notebook_is_refused() -> None:
    """Text, other JSON and old formats are refused by name."""
    for text in ("hello", "[]", "{}", '{"worksheets": []}', '{"cells": [{"cell_type": "code"}]}'):
        with pytest.raises(UsageError, match=r"mine\.ipynb is not a notebook of format 4"):
            read_cells(text, where="mine.ipynb")


def test_outputs_compare_without_ids_counts_and_our_lines() -> None:
    """Two runs compare equal when a reader sees the same; a skip line is recognised and left out."""
    line = {"text/plain": "finished 14:02:03 in 3 ms · skipped · `%%durable --rerun` runs it again"}
    skip = {"output_type": "display_data", "data": line, "metadata": {}}
    first = {"output_type": "stream", "name": "stdout", "text": "a"}
    second = {"output_type": "stream", "name": "stdout", "text": "b"}
    result = {"output_type": "execute_result", "data": {"text/plain": "1"}, "metadata": {}, "execution_count": 3}
    assert comparable([skip, first, second, result]) == [
        ["stream", "stdout", "ab"],
        ["execute_result", {"text/plain": "1"}],
    ]
    assert (skipped([skip, first]), skipped([first, result])) == (True, False)


class Thing:
    """An instance to compare."""

    def __init__(self, inside: object) -> None:
        self.inside = inside


def differing() -> list[tuple[object, object]]:
    """Return pairs of values that differ in one respect."""
    shared = [1]
    return [
        (1, 1.0), (1, True), ("a", b"a"), ([1, 2], (1, 2)), ([1, 2], [2, 1]), ({1: 2}, {1: 3}), ({1, 2}, {1, 3}),
        (0.1 + 0.2, 0.3), (0.0, -0.0), (Thing(1), Thing(2)), ([shared, shared], [[1], [1]]), (Thing, object),
    ]  # fmt: skip


@pytest.mark.parametrize("at", range(len(differing())))
def test_different_values_have_different_fingerprints(at: int) -> None:
    """A difference in type, content, order or sharing shows in the fingerprint."""
    pair = differing()[at]
    one, other = (fingerprints({"x": value})["x"] for value in pair)
    assert one != other


def test_equal_values_have_equal_fingerprints() -> None:
    """Values made twice, with cycles, sets and instances, have the same fingerprints; hidden names are left out."""

    def make() -> dict[str, object]:
        cycle: list[object] = [1, {"b", "a"}]
        cycle.append(cycle)
        thing = Thing(cycle)
        return {"thing": thing, "also": thing, "n": float("nan"), "_x": 1, "In": [], "f": json.dumps}

    one, other = fingerprints(make()), fingerprints(make())
    assert one == other
    assert sorted(one) == ["also", "f", "n", "thing"]
    assert one["thing"] == "is also"
