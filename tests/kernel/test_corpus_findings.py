"""What real notebooks, killed and carried on, have shown: each test is one finding, reduced to its cells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.store.files import LocalFiles
from durable_nb.testing.lives import Lives
from durable_nb.testing.workbench import Workbench


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook of its own, with a first kernel."""
    with Lives(tmp_path) as made:
        yield made


def test_names_that_a_later_cell_joined_stay_joined_when_the_next_cell_runs(lives: Lives) -> None:
    """Run All over cells of which a later one puts the objects of earlier ones together keeps them together."""
    cells = ["x = ['x']", "s, t = ['s'], ['t']", "Y = [s, x]\nU = [t, x]"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True, True, True]
    lives.run("x.append(1)")
    assert lives.value("[Y[0] is s, Y[1] is x, U[0] is t, U[1] is x]") == [True] * 4


def test_views_of_an_array_in_an_order_of_its_own_keep_their_memory(tmp_path: Path) -> None:
    """A copy of a transposed array, whose axes lie in memory in another order, comes back with its views, twice."""
    bench = Workbench(LocalFiles(tmp_path))
    bench.run(
        "import numpy\na = numpy.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2).copy('K')\nview = a[1:, :, ::2]"
    )
    assert not bench.namespace["a"].flags.forc
    for life in ("two", "three"):
        bench.workflow.close()
        bench = Workbench(LocalFiles(tmp_path), life=life)
        bench.run(f"view[0, 0, 0] = {len(life)}")
        assert (float(len(life)), 12.0) == (bench.namespace["a"][1, 0, 0], bench.namespace["a"][0, 1, 0])


def test_the_shell_and_its_formatters_are_those_of_the_new_kernel(lives: Lives) -> None:
    """`ip = get_ipython()` is no loss: after one it is the shell that runs, and a formatter is the one in use."""
    lives.run("ip = get_ipython()\nlatex = ip.display_formatter.formatters['text/latex']", "mine = [ip, latex]")
    assert "not back" not in lives.kill()
    assert lives.value("[ip is get_ipython(), latex is ip.display_formatter.formatters['text/latex']]") == [True, True]
    assert lives.value("mine[0] is ip and mine[1] is latex")


def test_display_formatters_of_the_notebook_are_registered_again(lives: Lives) -> None:
    """A function registered for a type shows its values after a loss, with a name of its own or without."""
    cells = [
        "def shout(text):\n    return '$' + str(text).upper() + '$'",
        "class Word(str): pass",
        "latex = get_ipython().display_formatter.formatters['text/latex']\nprevious = latex.for_type(Word, shout)",
        "latex.for_type_by_name('fractions', 'Fraction', shout)",
        "ignored = latex.for_type(frozenset, lambda value: '$set$')",
    ]
    lives.run(*cells)
    assert "shell.formatters" not in lives.kill()
    assert "$set$" == lives.run("frozenset()").of("execute_result")[0]["data"]["text/latex"]
    assert "$A$" == lives.run("Word('a')").of("execute_result")[0]["data"]["text/latex"]
    assert (
        "$1/2$"
        == lives.run("from fractions import Fraction\nFraction(1, 2)").of("execute_result")[0]["data"]["text/latex"]
    )
    assert lives.run_all(cells) == [True] * 5


def test_a_look_at_variables_after_skips_sees_what_the_skipped_cells_made(lives: Lives) -> None:
    """A failing cell runs again between skipped ones; a variable inspector then sees what the last of them left."""
    cells = ["x = 10", "def later(): return x", "x = 'no'"]
    lives.run(cells[0])
    assert "error" == lives.kernel.run("1 / 0").status
    lives.run(*cells[1:])
    lives.kill()
    assert lives.run_all(cells[:1]) == [True]
    assert "error" == lives.kernel.run("1 / 0").status
    assert lives.run_all(cells[1:]) == [True, True]
    assert "no" == lives.kernel.run("print(later())", silent=True).text().strip()


def test_a_leading_string_of_a_cell_is_a_variable(lives: Lives) -> None:
    """Python binds a string at the top of a cell to `__doc__`; the shell's own is no variable."""
    lives.run("x = 1")
    assert "1 variable of 1 finished cell" in lives.kill()
    lives.run('"What this cell is about."\ny = 2')
    lives.kill()
    assert lives.value("[__doc__, y]") == ["What this cell is about.", 2]


def test_what_a_failing_cell_had_changed_is_there_after_a_loss(lives: Lives) -> None:
    """A cell that fails half-way leaves what it did in memory, and so in the next kernel; Run All starts before it."""
    cells = ["done = []", "for n in range(3):\n    done.append(n)\n    assert n < 1"]
    lives.run(cells[0])
    assert "error" == lives.kernel.run(cells[1]).status
    lives.kill()
    assert lives.value("done") == [0, 1]
    assert lives.run_all(cells[:1]) == [True]
    assert "error" == lives.kernel.run(cells[1]).status
    assert lives.value("done") == [0, 1]


def test_lexers_and_formatters_of_pygments_work_again(lives: Lives) -> None:
    """A lexer has the tables of its class, which only making one makes; a kind of token is the one object it was."""
    lives.run(
        "from pygments.lexers import PythonLexer\nfrom pygments.formatters import HtmlFormatter",
        "from pygments.token import Token\nlexer, formatter = PythonLexer(stripall=True), HtmlFormatter()",
        "kind = Token.Name.Builtin",
    )
    lives.kill()
    tokens = "[text for _, text in lexer.get_tokens('x = 1')]"
    assert lives.value(f"[lexer.stripall, {tokens}]") == [True, ["x", " ", "=", " ", "1", "\n"]]
    assert lives.value("[kind is Token.Name.Builtin, any(key is kind for key in formatter.ttype2class)]") == [
        True,
        True,
    ]


def test_a_cell_that_removes_a_file_runs_when_the_file_was_made_again(lives: Lives) -> None:
    """Where a cell further up had to run and made the file again, the cell that removes it is not skipped."""
    cells = [
        # A connection is not stored: this cell runs again.
        "import sqlite3\ncon = sqlite3.connect(':memory:')\nwith open('scratch.txt', 'w') as f:\n    n = f.write('x')",
        "import os\nos.remove('scratch.txt')",
        "with open('kept.txt', 'w') as kept:\n    count = kept.write('kept')",
        "os.path.exists('gone.txt') and os.remove('gone.txt')",
    ]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [False, False, True, True]
    assert ["kept.txt"] == sorted(path.name for path in lives.folder.glob("*.txt"))


def test_a_function_shown_by_interact_comes_back_with_its_widget(lives: Lives) -> None:
    """`interact` hangs a widget on the function: both come back, and Run All skips the cells that showed it."""
    cells = [
        "from ipywidgets import interact\ndef f(x): return x",
        "_ = interact(f, x=3)",
        "table = [f]",
        "_ = interact(f, x=True)",
    ]
    lives.run(*cells)
    told = lives.kill()
    assert "widget" not in told
    assert lives.value("[f(1), table[0] is f]") == [1, True]
    assert lives.value("[f.widget.f is f, type(f.widget.children[0]).__name__]") == [True, "Checkbox"]
    assert lives.run_all(cells) == [True, True, True, True]
    assert lives.value("type(f.widget.children[0]).__name__") == "Checkbox"


def test_a_shown_value_whose_name_is_bound_anew_later_does_not_cost_the_skip(lives: Lives) -> None:
    """`x = C(); x` shares its object with `Out`; a later cell that takes the name away is no reason to run it again."""
    cells = ["import random", "x = [random.random()]\nx", "y = x[0]", "x = 1"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells[:3]) == [True, True, True]
    assert lives.value("[x == [y], [out for out in Out.values() if out is x] == [x]]") == [True, True]
    assert lives.run_all(cells[3:]) == [True]
    assert lives.value("x") == 1


def test_a_class_without_a_module_costs_no_checkpoint(lives: Lives) -> None:
    """A class may say that it is of no module, as those do that sympy makes for `Function('f')`."""
    lives.run("Odd = type('Odd', (), {'__module__': None})\nheld = [Odd()]", "x = 1")
    lives.kill()
    assert lives.value("x") == 1


def test_expressions_of_sympy_do_not_tie_each_other_together(lives: Lives) -> None:
    """One symbol is in every expression: binding it anew is no reason to run the cells that used it before."""
    pytest.importorskip("sympy")
    cells = ["import sympy", "x = sympy.Symbol('x')", "square = x ** 2\nsame = square", "x = sympy.Symbol('other')"]
    lives.run(*cells)
    lives.kill()
    assert lives.run_all(cells) == [True] * 4
    lives.run("check = [same is square, str(square.diff(sympy.Symbol('x'))), str(x)]")
    assert lives.value("check") == [True, "2*x", "other"]


def test_plots_of_sympy_come_back_with_their_series(lives: Lives) -> None:
    """A plot holds functions that lambdify wrote, over all that numpy offers; after the loss it can be drawn again."""
    pytest.importorskip("sympy")
    pytest.importorskip("matplotlib")
    cells = [
        "from sympy import *\nfrom sympy.plotting import plot",
        "x = symbols('x')\nfresh = Dummy()",
        "p = plot(sin(2 * x), (x, -10, 10), show=False)\np.show()\nf = lambdify(x, sin(2 * x))",
    ]
    lives.run(*cells)
    assert "not back" not in lives.kill()
    assert lives.value("[float(f(0.0)), p[0].expr == sin(2 * x), Dummy().name == fresh.name]") == [0.0, True, False]
    assert "image/png" in lives.run("p.show()").of("display_data")[0]["data"]
    lives.kill()
    assert lives.run_all(cells) == [True] * len(cells)


def test_a_symbol_made_after_a_loss_is_the_one_made_before_what_was_printed(lives: Lives) -> None:
    """Printing a fraction imports all units once, which pushes every other symbol out of sympy's cache."""
    pytest.importorskip("sympy")
    lives.run("from sympy import *\ninit_printing(use_latex='mathjax')", "symbols('p') / symbols('q')")
    assert "not back" not in lives.kill()
    lives.run("x, y = symbols('x y')\nlower = x", "(y**x - 1) / lower", "n, x = symbols('n x')")
    assert lives.value("lower is x") is True
    assert "not back" not in lives.kill()
    assert lives.value("lower is x") is True


def test_the_first_figure_after_a_loss_is_shown_as_it_would_have_been(lives: Lives) -> None:
    """Pyplot takes the inline backend up when it first needs it: a kernel that only imported pyplot has not yet."""
    pytest.importorskip("matplotlib")
    draw = "from IPython.display import display\ndisplay(plt.figure())\nplt.close()"
    lives.run("import matplotlib.pyplot as plt")
    assert "not back" not in lives.kill()
    shown = [sorted(one["data"]) for one in lives.run(draw).of("display_data")]
    other = lives.folder / "other"
    other.mkdir()
    with Lives(other) as unbroken:
        unbroken.run("import matplotlib.pyplot as plt")
        assert shown == [sorted(one["data"]) for one in unbroken.run(draw).of("display_data")]
