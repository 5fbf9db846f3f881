"""Process state of libraries: streams, options and backends come back, also when set in the cell that imported them."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from durable_nb.capture.process import ProcessState
from durable_nb.engine.processes import EARLY


def _value(state: ProcessState, name: str) -> Any:
    value = state.capture()[name].value
    if not isinstance(value, bytes):
        assert value == json.loads(json.dumps(value))
    return value


@pytest.fixture
def np() -> Iterator[Any]:
    """Numpy, with its stream and options as they were."""
    numpy = pytest.importorskip("numpy")
    state, options, errors = numpy.random.get_state(), numpy.get_printoptions(), numpy.geterr()
    yield numpy
    numpy.random.set_state(state)
    numpy.set_printoptions(**options)
    numpy.seterr(**errors)


def test_numpy_stream_goes_on_where_it_was(np: Any) -> None:
    """Also inside a pair of normal numbers, of which the second one waits."""
    np.random.seed(0)
    np.random.randn(1)
    value = _value(ProcessState(), "numpy.random")
    expected = np.random.randn(3).tolist()
    np.random.seed(9)
    assert ProcessState().restore({"numpy.random": value}) == []
    assert expected == np.random.randn(3).tolist()


def test_numpy_stream_seeded_before_the_first_look_counts_and_a_fresh_one_does_not(np: Any) -> None:
    """A cell may import and seed at once; what the system seeded and nobody drew from is base state."""
    np.random.seed(0)
    assert "numpy.random" in ProcessState().capture()
    np.random.set_state(np.random.RandomState(np.random.MT19937()).get_state())
    state = ProcessState()
    assert "numpy.random" not in state.capture()
    assert state.touched("numpy.random") is False
    np.random.rand()
    assert "numpy.random" in state.capture()
    assert state.touched("numpy.random") is True


def test_numpy_stream_of_another_kind_comes_back(np: Any) -> None:
    """`set_bit_generator` puts another algorithm behind the global functions."""
    before = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(3))
        value = _value(ProcessState(), "numpy.random")
        expected = np.random.rand(2).tolist()
        np.random.rand()
        assert ProcessState().restore({"numpy.random": value}) == []
        assert expected == np.random.rand(2).tolist()
    finally:
        np.random.set_bit_generator(before)


def test_numpy_print_options_and_error_state_come_back(np: Any) -> None:
    """Options set before the first look count against the library's defaults."""
    np.set_printoptions(precision=3, suppress=True)
    np.seterr(divide="raise")
    state = ProcessState()
    values = {name: _value(state, name) for name in ("numpy.printoptions", "numpy.errstate")}
    np.set_printoptions(precision=8, suppress=False, threshold=7)
    np.seterr(divide="warn")
    assert ProcessState().restore(values) == []
    assert (str(np.array([1 / 3])), 1000) == ("[0.333]", np.get_printoptions()["threshold"])
    assert np.geterr()["divide"] == "raise"


def test_option_that_is_a_function_of_the_notebook_comes_back_with_the_same_digest(np: Any) -> None:
    """Functions among options are stored by what they do: a cell that sets the same again changes nothing."""
    code = "lambda x: f'{x:.1f}'"
    np.set_printoptions(formatter={"float": eval(code, {"__name__": "__main__"})}, precision=4)
    state = ProcessState()
    first = state.capture()["numpy.printoptions"]
    assert [item for item in state.reported() if item.name == "numpy.printoptions"] == []
    np.set_printoptions(formatter=None, precision=8)
    other = ProcessState()
    assert other.restore({"numpy.printoptions": first.value}) == []
    assert (np.get_printoptions()["precision"], str(np.array([1.25]))) == (4, "[1.2]")
    assert first.digest == other.capture()["numpy.printoptions"].digest
    again = compile(code, "another file name", "eval")
    np.set_printoptions(formatter={"float": eval(again, {"__name__": "__main__"})})
    assert first.digest == other.capture()["numpy.printoptions"].digest


def test_option_that_cannot_be_stored_is_reported_and_costs_no_other(np: Any, tmp_path: Path) -> None:
    """A function that holds an open file is named, with the key of its option."""
    with (tmp_path / "log").open("w") as file:
        shorten = eval("lambda x, file=file: f'{x:.1f}'", {"__name__": "__main__", "file": file})
        np.set_printoptions(formatter={"float": shorten}, precision=4)
        state = ProcessState()
        value = _value(state, "numpy.printoptions")
        found = [item for item in state.reported() if item.name == "numpy.printoptions"]
        assert [item.path for item in found] == ["['formatter']"]
        np.set_printoptions(formatter=None, precision=8)
        ProcessState().restore({"numpy.printoptions": value})
        assert np.get_printoptions()["precision"] == 4


def test_torch_stream_and_defaults_come_back() -> None:
    """The processor's stream goes on; default type and deterministic mode return."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    torch.rand(2)
    torch.set_default_dtype(torch.float64)
    try:
        state = ProcessState()
        values = {name: _value(state, name) for name in ("torch.random", "torch.defaults")}
        expected = torch.rand(3).tolist()
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(6)
        assert ProcessState().restore(values) == []
        assert (torch.float64, expected) == (torch.get_default_dtype(), torch.rand(3).tolist())
    finally:
        torch.set_default_dtype(torch.float32)


def test_pandas_options_come_back() -> None:
    """A changed option returns, another one goes back to its default, a bound format method is plain enough."""
    pd = pytest.importorskip("pandas")
    try:
        pd.set_option("display.max_rows", 7)
        pd.set_option("display.float_format", "{:.2f}".format)
        state = ProcessState()
        value = _value(state, "pandas.options")
        assert [item for item in state.reported() if item.name == "pandas.options"] == []
        pd.reset_option("display.max_rows")
        pd.reset_option("display.float_format")
        pd.set_option("display.max_columns", 3)
        assert ProcessState().restore({"pandas.options": value}) == []
        assert pd.get_option("display.max_rows") == 7
        assert pd.get_option("display.float_format")(1.234) == "1.23"
        assert pd.get_option("display.max_columns") != 3
    finally:
        for name in ("display.max_rows", "display.float_format", "display.max_columns"):
            pd.reset_option(name)


def test_pandas_lambda_format_comes_back() -> None:
    """The commonest option that is a function."""
    pd = pytest.importorskip("pandas")
    pd.set_option("display.float_format", eval("lambda x: '%.1f' % x", {"__name__": "__main__"}))
    try:
        state = ProcessState()
        value = state.capture()["pandas.options"].value
        assert [i for i in state.reported() if i.name == "pandas.options"] == []
        pd.reset_option("display.float_format")
        assert ProcessState().restore({"pandas.options": value}) == []
        assert pd.get_option("display.float_format")(1.25) == "1.2"
    finally:
        pd.reset_option("display.float_format")


def test_polars_configuration_comes_back_and_its_variables_are_not_reported() -> None:
    """polars keeps options in the environment; they are a component, not lost variables."""
    pl = pytest.importorskip("polars")
    state = ProcessState()
    try:
        pl.Config.set_tbl_rows(5)
        pl.Config.set_fmt_float("full")
        value = _value(state, "polars.config")
        assert [i.name for i in state.reported() if "POLARS" in i.name] == []
        pl.Config.restore_defaults()
        assert ProcessState().restore({"polars.config": value}) == []
        assert os.environ["POLARS_FMT_MAX_ROWS"] == "5"
        assert pl.Config.state(if_set=True)["set_fmt_float"] == "full"
    finally:
        pl.Config.restore_defaults()


def test_sklearn_configuration_comes_back() -> None:
    """`set_config` is for the process."""
    sklearn = pytest.importorskip("sklearn")
    before = sklearn.get_config()
    try:
        sklearn.set_config(transform_output="pandas", assume_finite=True)
        value = _value(ProcessState(), "sklearn.config")
        sklearn.set_config(**before)
        assert ProcessState().restore({"sklearn.config": value}) == []
        assert (sklearn.get_config()["transform_output"], sklearn.get_config()["assume_finite"]) == ("pandas", True)
    finally:
        sklearn.set_config(**before)


@pytest.fixture
def mpl(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Matplotlib without a screen, with its settings as they were."""
    monkeypatch.delenv("MPLBACKEND", raising=False)
    found = pytest.importorskip("matplotlib")
    found.use("Agg")
    before = dict(dict.items(found.rcParams))
    yield found
    dict.update(found.rcParams, before)


def test_rcparams_and_style_come_back(mpl: Any) -> None:
    """Sizes, colours and the cycle of a style return; what was changed since goes back to the user's matplotlibrc."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.style.use("ggplot")
    mpl.rcParams["figure.figsize"] = (3, 2)
    cycle = mpl.rcParams["axes.prop_cycle"]
    value = _value(ProcessState(), "matplotlib.rcParams")
    mpl.rcdefaults()
    mpl.rcParams["lines.linewidth"] = 77
    assert ProcessState().restore({"matplotlib.rcParams": value}) == []
    assert (list(mpl.rcParams["figure.figsize"]), mpl.rcParams["axes.facecolor"]) == ([3.0, 2.0], "#E5E5E5")
    assert cycle == mpl.rcParams["axes.prop_cycle"]
    assert mpl.rcParams["lines.linewidth"] == mpl.rcParamsOrig["lines.linewidth"]


def test_rcparam_list_changed_in_place_counts(mpl: Any) -> None:
    """A list that was changed without an assignment is seen."""
    mpl.rcParams["figure.figsize"] = [3, 2]
    state = ProcessState()
    first = state.capture()["matplotlib.rcParams"].digest
    mpl.rcParams["figure.figsize"][0] = 9
    assert first != state.capture()["matplotlib.rcParams"].digest


def test_backend_comes_back_and_inline_goes_to_the_shell(mpl: Any) -> None:
    """A backend by name is used again; the inline backend is wired up by whoever knows the shell."""
    assert _value(ProcessState(), "matplotlib.backend") == {"backend": "agg"}
    mpl.use("svg")
    assert ProcessState().restore({"matplotlib.backend": {"backend": "agg"}}) == []
    assert mpl.get_backend().lower() == "agg"
    asked: list[str] = []
    state = ProcessState(enable_backend=asked.append)
    assert state.restore({"matplotlib.backend": {"backend": "inline"}}) == []
    assert asked == ["inline"]


def test_open_figures_of_pyplot_come_back_with_number_order_and_current_one(mpl: Any) -> None:
    """A figure in a variable is that figure again, one without is as it was drawn."""
    plt = pytest.importorskip("matplotlib.pyplot")
    namespace: dict[str, Any] = {}
    state = ProcessState(namespace=namespace)
    namespace["axes"] = plt.figure(3).subplots(2)
    plt.figure(5)
    plt.plot([1, 2])
    plt.figure(3)
    value = state.capture()["matplotlib.pyplot"].value
    assert [i for i in state.reported() if "pyplot" in i.name] == []
    plt.close("all")
    assert ProcessState(namespace=namespace).restore({"matplotlib.pyplot": value}) == []
    assert (plt.get_fignums(), plt.gcf() is namespace["axes"][0].figure) == ([3, 5], True)
    assert len(plt.figure(5).axes[0].lines) == 1
    state.capture()
    plt.close("all")
    assert [] == state.capture()["matplotlib.pyplot"].value


def test_callbacks_of_a_figure_in_a_variable_are_reported(mpl: Any) -> None:
    """A figure comes back deaf; the loss is named, and only if the user connected something."""
    figure = pytest.importorskip("matplotlib.figure")
    plain, busy = figure.Figure(), figure.Figure()
    busy.canvas.mpl_connect("button_press_event", print)
    state = ProcessState()
    found = state.partial({"plain": plain, "busy": busy, "n": 1}, {type(plain), int})
    assert [(i.name, i.path) for i in found] == [("busy", ".canvas.callbacks")]


def test_graph_of_a_computed_tensor_is_reported() -> None:
    """A computed tensor comes back as a value; that its graph is gone is named."""
    torch = pytest.importorskip("torch")
    leaf = torch.ones(2, requires_grad=True)
    found = ProcessState().partial({"leaf": leaf, "loss": leaf.sum(), "flat": torch.ones(1)}, [torch.Tensor])
    assert [(i.name, i.path) for i in found] == [("loss", ".grad_fn")]


def test_component_of_a_missing_library_is_reported_and_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this environment cannot apply is still in the next checkpoint."""
    monkeypatch.setitem(sys.modules, "polars", None)
    state = ProcessState()
    found = state.restore({"polars.config": {"environment": {"A": "1"}, "direct": {}}})
    assert [item.name for item in found] == ["polars.config"]
    assert state.capture()["polars.config"].value == {"environment": {"A": "1"}, "direct": {}}


def test_reading_options_warns_nobody(mpl: Any) -> None:
    """Deprecated options of pandas and matplotlib are not touched by looking."""
    pytest.importorskip("pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = ProcessState()
        state.capture()
        state.reported()
    assert "pandas.options" not in {item.name for item in state.reported()}


def test_inline_backend_that_nothing_has_drawn_with_yet_is_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first figure shown in a cell has no picture then, as in the kernel that was lost."""
    matplotlib = pytest.importorskip("matplotlib")
    inline = "module://matplotlib_inline.backend_inline"
    monkeypatch.setitem(os.environ, "MPLBACKEND", inline)
    monkeypatch.setattr(matplotlib, "rcParams", {**dict(matplotlib.rcParams), "backend": inline})
    monkeypatch.delitem(sys.modules, "matplotlib_inline.backend_inline", raising=False)
    state = ProcessState()
    assert "matplotlib.backend" not in state.capture()
    monkeypatch.setitem(sys.modules, "matplotlib_inline.backend_inline", ModuleType("backend_inline"))
    assert {"backend": "inline"} == _value(state, "matplotlib.backend")


@pytest.fixture
def dummy() -> Iterator[Any]:
    """The class of sympy's dummy symbols, with its counters as they were."""
    pytest.importorskip("sympy")
    cls = sys.modules["sympy.core.symbol"].Dummy
    base, count = cls._base_dummy_index, cls._count
    yield cls
    cls._base_dummy_index, cls._count = base, count


def test_dummies_of_sympy_get_the_numbers_that_they_would_have_had(dummy: Any) -> None:
    """Their names are shown and are in generated code, and the base of their numbers keeps them apart."""
    dummy()
    value = _value(ProcessState(), "sympy.numbers")
    expected = dummy()
    dummy._base_dummy_index, dummy._count = 1_000_000, 3
    assert [] == ProcessState().restore({"sympy.numbers": value})
    assert expected == dummy()


def test_dummies_of_sympy_are_never_counted_twice(dummy: Any) -> None:
    """A kernel that goes back to an earlier cell has later dummies still; the count stays and is what is stored."""
    state = ProcessState()
    value = _value(state, "sympy.numbers")
    later = dummy()
    assert [] == state.restore({"sympy.numbers": value})
    assert later.dummy_index + 1 == value["base"] + _value(state, "sympy.numbers")["dummies"]
    assert later != dummy()


def test_sources_that_lambdify_writes_are_never_numbered_twice(dummy: Any) -> None:
    """The number is the name under which the source of a function is found."""
    written = pytest.importorskip("sympy.utilities.lambdify")
    state = ProcessState()
    value = _value(state, "sympy.numbers")
    further = {**value, "sources": value["sources"] + 40}
    assert [] == state.restore({"sympy.numbers": further})
    assert [] == state.restore({"sympy.numbers": value})
    assert value["sources"] + 40 == written._lambdify_generated_counter


def test_units_that_sympys_printing_imports_are_imported_before_symbols_come_back() -> None:
    """The import fills sympy's cache of symbols: made before and after it, two symbols `x` are not one object."""
    pytest.importorskip("sympy.physics.units")
    assert ["sympy.physics.units", ""] in _value(ProcessState(), "imports")
    assert "imports" in EARLY
