"""A look at process state that ends early still sees every change, also those that keep sizes and names."""

from __future__ import annotations

import builtins
import copy
import hashlib
import importlib.metadata
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from durable_nb.capture.files_read import FileReads
from durable_nb.capture.process_formatters import Formatters
from durable_nb.capture.process_held import Held
from durable_nb.capture.process_hooks import Builtins
from durable_nb.capture.process_plots import Units
from durable_nb.capture.process_registered import ArrowFunctions
from durable_nb.capture.process_shell import Callbacks, FutureFeatures, ShellConfig
from durable_nb.capture.process_stdlib import Environ
from durable_nb.engine import processes, versions
from durable_nb.kernel.shell import IPythonShell


def function(name: str) -> Callable[..., None]:
    """Return a function that passes for one of the notebook."""

    def made() -> None:
        return None

    made.__name__ = made.__qualname__ = name
    made.__module__ = "__main__"
    return made


class Configurable:
    """What is looked at of an object of IPython with options."""

    def __init__(self, **values: Any) -> None:
        self._trait_values = values

    @classmethod
    def class_traits(cls, config: bool) -> tuple[str, ...]:
        """Return the names of all options."""
        return ("colors", "paths")

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["_trait_values"][name]


Configurable.__module__ = "IPython.testing"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A shell with what the components look at."""
    tables: dict[str, Any] = {"type_printers": {int: function("a")}, "singleton_printers": {}, "deferred_printers": {}}
    formatter = SimpleNamespace(_trait_values=tables, **tables)
    found = SimpleNamespace(
        display_formatter=SimpleNamespace(formatters={"text/html": formatter}),
        events=SimpleNamespace(callbacks={"pre_run_cell": [function("a")]}),
        input_transformers_cleanup=[],
        input_transformers_post=[],
        input_transformer_manager=SimpleNamespace(line_transforms=[], token_transformers=[]),
        ast_transformers=[],
        configurables=[Configurable(colors="neutral", paths=["a"])],
        _trait_values={},
        InteractiveTB=SimpleNamespace(mode="Context"),
        call_pdb=False,
        user_ns={},
        compile=SimpleNamespace(flags=0, _filename_map={}),
        displayhook=SimpleNamespace(prompt_count=1),
        execution_count=2,
        push=lambda names, interactive: None,
        history_manager=SimpleNamespace(input_hist_raw=[""], input_hist_parsed=[""]),
    )
    monkeypatch.setitem(sys.modules, "IPython.core.interactiveshell", ModuleType("interactiveshell"))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: found))  # type: ignore[arg-type]
    return found


def test_a_formatter_that_moves_to_another_type_is_seen(shell: SimpleNamespace) -> None:
    """The same function under another type, and another one under the same type, are other entries."""
    tracker = Formatters(Held({}))
    table = shell.display_formatter.formatters["text/html"]._trait_values["type_printers"]
    assert ["int"] == [key.rpartition("\t")[2] for key in tracker.entries()]
    table[str] = table.pop(int)
    assert ["str"] == [key.rpartition("\t")[2] for key in tracker.entries()]
    table[str] = other = function("b")
    assert [other] == [value[-1] if isinstance(value, tuple) else value for value in tracker.entries().values()]


def test_a_callback_in_the_place_of_another_is_seen(shell: SimpleNamespace) -> None:
    """Neither the number of callbacks nor their order tells that nothing changed."""
    tracker = Callbacks(Held({}))
    before = dict(tracker.entries())
    shell.events.callbacks["pre_run_cell"][0] = other = function("b")
    assert {"pre_run_cell 0": other} == tracker.entries() != before
    shell.ast_transformers.append(third := function("c"))
    assert {"pre_run_cell 0": other, "ast_transformers 0": third} == tracker.entries()


def test_an_option_that_is_changed_in_place_is_seen(shell: SimpleNamespace) -> None:
    """A list among the options is compared by its content, and what is told of it is a copy."""
    tracker = ShellConfig()
    assert {} == tracker.mark()
    shell.configurables[0]._trait_values["paths"].append("b")
    changed = tracker.mark()
    assert {"Configurable.paths": ["a", "b"]} == changed
    shell.configurables[0]._trait_values["paths"].append("c")
    assert ({"Configurable.paths": ["a", "b"]}, {"Configurable.paths": ["a", "b", "c"]}) == (changed, tracker.mark())
    shell.configurables[0]._trait_values["paths"] = ["a"]
    shell.configurables[0]._trait_values["colors"] = "dark"
    assert {"Configurable.colors": "dark"} == tracker.mark()


def test_features_are_read_from_all_flags(shell: SimpleNamespace) -> None:
    """A flag that is no feature turns nothing on, a feature's flag turns that on."""
    tracker = FutureFeatures()
    shell.compile.flags = 0x200  # PyCF_DONT_IMPLY_DEDENT
    assert [] == tracker.mark()
    shell.compile.flags |= 0x1000000
    assert ["annotations"] == tracker.mark()


def test_inputs_are_told_once_and_again_when_they_change(shell: SimpleNamespace) -> None:
    """What is new, what was put in the place of an earlier input, and what follows an emptied history is told."""
    history = shell.history_manager
    port = IPythonShell(shell)

    def told() -> dict[str, Any]:
        inputs: dict[str, Any] = port.state()["inputs"]
        return inputs

    history.input_hist_raw += ["one", "two"]
    history.input_hist_parsed += ["ONE", "TWO"]
    assert {"1": ["one", "ONE"], "2": ["two", "TWO"]} == told()
    assert {} == told()
    history.input_hist_raw[1] = "other"
    history.input_hist_raw.append("three")
    history.input_hist_parsed.append("THREE")
    assert {"1": ["other", "ONE"], "3": ["three", "THREE"]} == told()
    history.input_hist_raw[:] = ["", "anew"]
    history.input_hist_parsed[:] = ["", "ANEW"]
    assert {"1": ["anew", "ANEW"]} == told()
    port.restore_state({"execution_count": 5, "inputs": {"1": ["back", "BACK"], "4": ["four", "FOUR"]}})
    assert {} == told()


def test_sources_are_told_in_the_order_in_which_they_came(
    shell: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the names of compiled cells only those behind the last call are new."""
    import linecache

    port, names = IPythonShell(shell), shell.compile._filename_map
    for n in (1, 2, 3):
        monkeypatch.setitem(linecache.cache, f"<cell {n}>", (1, None, [f"x = {n}\n"], f"<cell {n}>"))
    names["<cell 1>"] = 1
    assert {"<cell 1>": [1, "x = 1\n"]} == port.cell_sources()
    names.update({"<cell 2>": 2, "<cell 3>": 3})
    assert ["<cell 2>", "<cell 3>"] == list(port.cell_sources())
    assert {} == port.cell_sources()


def test_a_builtin_that_is_replaced_or_renamed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many names as before, and as many objects, are not the same names for the same objects."""
    tracker = Builtins(Held({}))
    assert {} == tracker.entries()
    mine = function("len")
    monkeypatch.setattr(builtins, "len", mine)
    assert {"len": mine} == tracker.entries()
    monkeypatch.undo()
    assert {} == tracker.entries()
    monkeypatch.setattr(builtins, "more", mine, raising=False)
    assert {"more": mine} == tracker.entries()
    monkeypatch.delattr(builtins, "more")
    monkeypatch.setattr(builtins, "other", mine, raising=False)
    assert {"other": mine} == tracker.entries()


def test_a_converter_of_units_that_is_replaced_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another converter for the same type, and the same one for another type, are seen; nobody's `==` is asked."""

    class Agreeable(type):
        def __eq__(cls, other: object) -> bool:
            return True

        __hash__ = type.__hash__

    one, other = (Agreeable(name, (), {"__module__": "__main__"}) for name in ("One", "Other"))
    module = ModuleType("matplotlib.units")
    registry: dict[Any, Any] = {one: "converter"}
    module.registry = registry  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib.units", module)
    tracker = Units(Held({}))
    assert {"__main__.One": (one, "converter")} == tracker.entries()
    registry[one] = "another"
    assert {"__main__.One": (one, "another")} == tracker.entries()
    module.registry = {other: "another"}  # type: ignore[attr-defined]
    assert ["__main__.Other"] == list(tracker.entries())


def test_functions_of_arrow_without_a_namesake_are_the_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the registry has and the module does not is named, also where the module makes attributes when asked."""
    module = ModuleType("pyarrow.compute")
    listed = ["add", "hash_sum", "lazy"]
    module.add = None  # type: ignore[attr-defined]
    module.function_registry = lambda: SimpleNamespace(list_functions=lambda: listed)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow.compute", module)
    tracker = ArrowFunctions()
    assert ["lazy"] == tracker.mark()

    def lazily(name: str) -> int:
        if name != "lazy":
            raise AttributeError(name)
        return 1

    monkeypatch.setattr(module, "__getattr__", lazily, raising=False)
    assert [] == tracker.mark()
    listed.append("mine")
    assert ["mine"] == tracker.mark()


def test_an_environment_variable_that_changes_back_and_forth_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at an unchanged environment answers as the last one did, and a changed value is seen at once."""
    monkeypatch.setenv("DURABLE_NB_TEST_ONE", "a")
    environ = Environ()
    assert [] == environ.reported() == environ.reported()
    monkeypatch.setenv("DURABLE_NB_TEST_ONE", "b")
    told = [item.name for item in environ.reported()]
    assert ["os.environ[DURABLE_NB_TEST_ONE]"] == told == [item.name for item in environ.reported()]
    monkeypatch.setenv("DURABLE_NB_TEST_ONE", "a")
    assert [] == environ.reported()
    del os.environ["DURABLE_NB_TEST_ONE"]
    assert ["os.environ[DURABLE_NB_TEST_ONE]"] == [item.name for item in environ.reported()]


def test_folders_that_are_no_ones_data_are_those_of_the_moment(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a variable names another folder, or the home is another one, files there count or no longer count."""
    data = tmp_path / "tools" / "data.txt"
    data.parent.mkdir()
    data.write_text("x")

    def seen() -> list[str]:
        with FileReads().recording() as files:
            data.read_text()
        return [mark.path for mark in files.reads]

    assert [str(data)] == seen()
    monkeypatch.setenv("IPYTHONDIR", str(data.parent))
    assert [] == seen()
    monkeypatch.setenv("IPYTHONDIR", "tools")
    assert [str(data)] == seen()
    monkeypatch.chdir(tmp_path)
    assert [] == seen()


def test_the_version_of_a_package_is_read_once_for_each_time_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another module, or the same one after a reload, is asked anew; what says its version is believed."""
    installed = {"silent": "1"}
    monkeypatch.setattr(importlib.metadata, "version", installed.__getitem__)
    module = ModuleType("silent")
    module.__file__, module.__spec__ = "silent.py", ModuleSpec("silent", None)
    engine: Any = SimpleNamespace(modules={"silent": module}, installed={}, head=None)

    def version() -> str | None:
        engine.shell = SimpleNamespace(namespace={"silent": module})
        changed = {"silent": SimpleNamespace(type="module")}
        return versions.new_versions(engine, changed).get("silent")  # type: ignore[arg-type]

    assert "1" == version()
    installed["silent"] = "2"
    assert "1" == version()  # what is installed now is not what runs
    module.__spec__ = ModuleSpec("silent", None)
    assert "2" == version()
    installed["silent"] = "3"
    engine.modules["silent"] = module = ModuleType("silent")
    module.__file__ = "silent.py"
    assert "3" == version()
    module.__version__ = "4"  # type: ignore[attr-defined]
    assert "4" == version()


def test_what_the_shell_has_switched_on_is_seen_at_once() -> None:
    """An answer like the last one has its digest, another has its own, and one with inline figures is never assumed."""
    state: dict[str, Any] = {"extensions": []}
    engine: Any = SimpleNamespace(shell=SimpleNamespace(gui_state=lambda: copy.deepcopy(state)), gui_seen={})
    first = processes.gui_entry(engine)
    assert first == processes.gui_entry(engine)
    state["extensions"].append("autoreload")
    second = processes.gui_entry(engine)
    assert (second["value"], first["digest"]) == (state, hashlib.sha256(b'{"extensions": []}').hexdigest())
    assert first["digest"] != second["digest"]
    state["inline"] = {"rc": {"figure.dpi": 72}}
    third = processes.gui_entry(engine)
    third["value"]["inline"]["rc"]["figure.dpi"] = 100  # as a library does it that changes its options in place
    state["inline"]["rc"]["figure.dpi"] = 100
    assert third["digest"] != processes.gui_entry(engine)["digest"]
