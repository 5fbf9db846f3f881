"""Process state: each component comes back or is reported, and an untouched process has none."""

from __future__ import annotations

import ast
import contextvars
import decimal
import importlib
import io
import json
import logging
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_nb.capture.process import Component, ProcessState
from durable_nb.model import Unsaved


@pytest.fixture(autouse=True)
def _same_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Every test starts in a folder of its own and leaves the process as it found it."""
    path, modules, state = list(sys.path), set(sys.modules), random.getstate()
    monkeypatch.chdir(tmp_path)
    yield
    sys.path[:] = path
    random.setstate(state)
    for name in set(sys.modules) - modules:
        if name.startswith("dnb_"):
            del sys.modules[name]


def _cycle(before: ProcessState, name: str) -> Any:
    component = before.capture()[name]
    if not isinstance(component.value, bytes):
        assert json.loads(json.dumps(component.value)) == component.value
    return component.value


def test_untouched_process_has_no_components_of_the_standard_library() -> None:
    """What was there when the extension loaded is not the user's state."""
    state = ProcessState()
    stdlib = {"sys.path", "cwd", "imports", "sys.limits", "warnings.filters", "logging", "decimal.context", "random"}
    assert set() == stdlib & set(state.capture())
    assert [item for item in state.reported() if not item.name.startswith(("numpy", "pandas", "matplotlib"))] == []


def test_random_stream_goes_on_where_it_was() -> None:
    """A seeded and drawn stream continues with the same numbers in another process state."""
    state = ProcessState()
    random.seed(1)
    random.random()
    value = _cycle(state, "random")
    expected = [random.random() for _ in range(3)]
    random.seed(99)
    assert ProcessState().restore({"random": value}) == []
    assert expected == [random.random() for _ in range(3)]


def test_touched_tells_changes_since_load_and_since_restore() -> None:
    """A fresh stream is base state, a drawn one is touched, a restored one is base state again."""
    state = ProcessState()
    assert state.touched("random") is False
    random.random()
    assert state.touched("random") is True
    state.restore({"random": state.capture()["random"].value})
    assert state.touched("random") is False
    random.random()
    assert state.touched("random") is True


def test_unchanged_component_is_the_same_object_and_keeps_its_digest_over_a_restore() -> None:
    """Versions must not change when nothing did, in this kernel or in the next."""
    state = ProcessState()
    random.seed(3)
    first = state.capture()["random"]
    assert state.capture()["random"] is first
    other = ProcessState()
    other.restore({"random": first.value})
    assert first.digest == other.capture()["random"].digest


def test_restore_without_a_component_puts_it_back_to_its_baseline() -> None:
    """Going back to a checkpoint from before a change undoes the change."""
    start = os.getcwd()
    state = ProcessState()
    os.mkdir("inner")
    os.chdir("inner")
    state.capture()
    assert state.restore({}) == []
    assert start == os.getcwd()
    assert "cwd" not in state.capture()


def test_restore_only_leaves_other_components_alone() -> None:
    """`only` limits a restore to the named components."""
    state = ProcessState()
    random.seed(3)
    os.mkdir("inner")
    os.chdir("inner")
    values = {name: c.value for name, c in state.capture().items()}
    os.chdir("..")
    here = os.getcwd()
    ProcessState().restore(values, only={"random"})
    assert here == os.getcwd()


def test_cwd_inside_the_project_moves_with_the_project(tmp_path: Path) -> None:
    """A folder below the notebook's is found again below the notebook's new place."""
    state = ProcessState()
    os.makedirs("a/out")
    os.chdir("a/out")
    value = _cycle(state, "cwd")
    moved = tmp_path / "moved"
    (moved / "a" / "out").mkdir(parents=True)
    os.chdir(moved)
    assert ProcessState().restore({"cwd": value}) == []
    assert str(moved / "a" / "out") == os.getcwd()


def test_missing_cwd_is_reported() -> None:
    """A folder that is gone is a line in the report, not an exception."""
    found = ProcessState().restore({"cwd": {"path": "/nowhere/at/all", "inside": None}})
    assert [item.name for item in found] == ["cwd"]
    assert "/nowhere/at/all" in found[0].reason


def test_sys_path_comes_back_and_keeps_the_other_environments_entries() -> None:
    """User entries return in place; entries that the new environment has by itself stay."""
    base = list(dict.fromkeys(sys.path))
    sys.path[:] = base
    state = ProcessState()
    sys.path.insert(0, os.path.abspath("src"))
    value = _cycle(state, "sys.path")
    sys.path[:] = [*base[1:], "/only/here"]
    assert ProcessState().restore({"sys.path": value}) == []
    assert [os.path.abspath("src"), *base[1:], "/only/here"] == sys.path


def test_imports_of_submodules_come_back() -> None:
    """`import a.b` inside a cell or function is imported again in full; what was never loaded is not."""
    state = ProcessState()
    code = "import wsgiref.simple_server\nfrom xml.dom import minidom\ndef f():\n    import never_there_dnb"
    state.note_cell(ast.parse(code))
    exec(compile(code, "cell", "exec"), {})
    value = _cycle(state, "imports")
    assert {"wsgiref.simple_server", "xml.dom", "xml.dom.minidom"} == {name for name, _ in value}
    removed = {name: sys.modules.pop(name) for name in ("wsgiref.simple_server",)}
    try:
        assert ProcessState().restore({"imports": value}) == []
        assert "wsgiref.simple_server" in sys.modules
    finally:
        sys.modules.update(removed)


def test_variables_bound_by_from_imports_are_known_until_rebound() -> None:
    """Module data that a variable still refers to belongs to the module."""
    state = ProcessState()
    code = "from string import digits as d, ascii_letters\nfrom os import environ"
    state.note_cell(ast.parse(code))
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    namespace["ascii_letters"] = "other"
    owned = {name: (module, attribute) for _, module, attribute, name in state.owned(namespace) if name}
    assert owned == {"d": ("string", "digits"), "environ": ("os", "environ")}


def test_module_imported_through_a_relative_path_is_found_after_chdir() -> None:
    """A local module is importable again although the current folder is another one now."""
    Path("dnb_rel.py").write_text("x = 1\n")
    sys.path.insert(0, "")
    state = ProcessState()
    importlib.invalidate_caches()
    code = "import dnb_rel"
    state.note_cell(ast.parse(code))
    exec(code, {})
    value = _cycle(state, "imports")
    del sys.modules["dnb_rel"]
    os.mkdir("other")
    os.chdir("other")
    path = list(sys.path)
    assert ProcessState().restore({"imports": value}) == []
    assert sys.modules["dnb_rel"].x == 1
    assert path == sys.path


def test_module_that_is_gone_is_reported_and_kept_for_the_next_checkpoint() -> None:
    """A failed import costs neither the others nor the record."""
    state = ProcessState()
    found = state.restore({"imports": [["dnb_gone", ""], ["json", ""]]})
    assert [item.name for item in found] == ["import dnb_gone"]
    assert state.capture()["imports"].value == [["dnb_gone", ""], ["json", ""]]


def test_warning_filters_come_back() -> None:
    """A filter with message and category works again; a filter on a notebook class is reported."""
    with warnings.catch_warnings():
        state = ProcessState()
        warnings.filterwarnings("error", message="dnb special")
        value = _cycle(state, "warnings.filters")
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        assert ProcessState().restore({"warnings.filters": value}) == []
        with pytest.raises(UserWarning, match="dnb special"):
            warnings.warn("dnb special case", stacklevel=1)
        mine = type("Mine", (Warning,), {"__module__": "__main__"})
        warnings.simplefilter("ignore", mine)
        state.capture()
        assert [item.name for item in state.reported() if item.type == "Mine"] == ["warnings.filters"]


def test_warning_category_that_is_gone_is_reported() -> None:
    """The other filters come back."""
    entry = {"action": "ignore", "message": None, "category": "dnb_gone:W", "module": None, "line": 0}
    good = {**entry, "category": "builtins:UserWarning"}
    with warnings.catch_warnings():
        found = ProcessState().restore({"warnings.filters": [entry, good]})
        assert [("ignore", None, UserWarning, None, 0)] == list(warnings.filters)
    assert [item.name for item in found] == ["warnings.filters"]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger that no library knows, left without handlers."""
    found = logging.getLogger("dnb.app")
    yield found
    found.handlers.clear()
    found.setLevel(logging.NOTSET)
    found.propagate = True


def test_logging_levels_and_console_handlers_come_back(logger: logging.Logger) -> None:
    """Level, propagation and a handler on stderr with its format are the same in the next kernel."""
    state = ProcessState()
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("{message}!", style="{"))
    logger.addHandler(handler)
    value = _cycle(state, "logging")
    assert state.reported() == []
    state.restore({})
    assert (logger.level, logger.propagate, logger.handlers) == (logging.NOTSET, True, [])
    assert ProcessState().restore({"logging": value}) == []
    assert (logger.level, logger.propagate, len(logger.handlers)) == (logging.DEBUG, False, 1)
    record = logging.LogRecord("n", 10, "p", 1, "hi", (), None)
    assert logger.handlers[0].format(record) == "hi!"


def test_handler_into_an_object_or_file_is_reported(logger: logging.Logger, tmp_path: Path) -> None:
    """A handler that cannot be made again is named, and no file is opened for it."""
    state = ProcessState()
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    file = logging.FileHandler(tmp_path / "log.txt")
    logger.addHandler(file)
    value = _cycle(state, "logging")
    assert [(u.name, u.type) for u in state.reported()] == [("logging", "StreamHandler"), ("logging", "FileHandler")]
    file.close()
    logger.handlers.clear()
    ProcessState().restore({"logging": value})
    assert logger.handlers == []


def test_library_loggers_are_not_reported() -> None:
    """What a library hangs on its own logger at import is not the user's doing."""
    state = ProcessState()
    own, handler = logging.getLogger("hypothesis.dnb"), logging.StreamHandler(io.StringIO())
    sys.modules.setdefault("hypothesis", importlib.import_module("hypothesis"))
    own.addHandler(handler)
    try:
        state.capture()
        assert [item for item in state.reported() if item.name == "logging"] == []
    finally:
        own.removeHandler(handler)


def test_decimal_context_comes_back() -> None:
    """Precision and traps of the current context and of the template of new ones return."""

    def body() -> None:
        state, template = ProcessState(), decimal.DefaultContext.prec
        try:
            decimal.DefaultContext.prec = 50
            decimal.setcontext(decimal.Context(prec=50, traps=[decimal.Inexact], Emax=decimal.MAX_EMAX))
            value = _cycle(state, "decimal.context")
            decimal.DefaultContext.prec = template
            decimal.setcontext(decimal.Context(prec=28))
            assert ProcessState().restore({"decimal.context": value}) == []
            context = decimal.getcontext()
            assert (context.prec, context.Emax, context.traps[decimal.Inexact]) == (50, decimal.MAX_EMAX, True)
            assert decimal.DefaultContext.prec == 50
        finally:
            decimal.DefaultContext.prec = template

    contextvars.copy_context().run(body)


def test_interpreter_limits_come_back() -> None:
    """The recursion limit is one of them."""
    state, limit = ProcessState(), sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(limit + 77)
        value = _cycle(state, "sys.limits")
        sys.setrecursionlimit(limit)
        assert ProcessState().restore({"sys.limits": value}) == []
        assert limit + 77 == sys.getrecursionlimit()
    finally:
        sys.setrecursionlimit(limit)


def test_environment_variables_are_reported_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set, changed and deleted variables are listed; no value is anywhere."""
    monkeypatch.setenv("DNB_OLD", "hidden-1")
    state = ProcessState()
    monkeypatch.setenv("DNB_NEW", "hidden-2")
    monkeypatch.delenv("DNB_OLD")
    found = [item for item in state.reported() if item.name.startswith("os.environ[DNB")]
    assert [item.name for item in found] == ["os.environ[DNB_NEW]", "os.environ[DNB_OLD]"]
    assert "hidden" not in str(found) + str(state.capture())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import dnb_env", []),
        ("import dnb_env\nos.environ['DNB_MINE'] = '1'", ["os.environ[DNB_MINE]"]),
        ("import dnb_env\nload_dotenv()", ["os.environ[DNB_LIB]"]),
        ("import dnb_env\nos.environ.update({})", ["os.environ[DNB_LIB]"]),
    ],
)
def test_variables_set_by_an_import_are_not_the_users(
    code: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that appears together with new modules counts only if the cell spells it or writes at large."""
    monkeypatch.delenv("DNB_LIB", raising=False)
    monkeypatch.delenv("DNB_MINE", raising=False)
    Path("dnb_env.py").write_text("import os\nos.environ['DNB_LIB'] = '1'\n")
    monkeypatch.syspath_prepend(os.getcwd())
    state = ProcessState()
    state.note_cell(ast.parse(code))
    exec(code, {"os": os, "load_dotenv": lambda: None})
    found = [item.name for item in state.reported() if item.name.startswith("os.environ[DNB")]
    monkeypatch.delenv("DNB_LIB")
    monkeypatch.delenv("DNB_MINE", raising=False)
    assert expected == found


def test_losses_of_a_restored_checkpoint_stay_reported_until_a_cell_mends_them(
    monkeypatch: pytest.MonkeyPatch, logger: logging.Logger
) -> None:
    """A variable that is still not set is still lost after the next checkpoint."""
    monkeypatch.delenv("DNB_LOST", raising=False)
    lost = [Unsaved(name=n, path="", type="", reason="r") for n in ("os.environ[DNB_LOST]", "logging", "df")]
    state = ProcessState()
    state.carry(lost)
    state.capture()
    assert [item.name for item in state.reported()] == ["os.environ[DNB_LOST]", "logging"]
    monkeypatch.setenv("DNB_LOST", "1")
    logger.setLevel(logging.DEBUG)
    state.capture()
    names = [item for item in state.reported() if item.reason == "r"]
    assert names == []


def test_module_that_exits_at_import_costs_nothing_else() -> None:
    """SystemExit while a module is imported is a line of the report."""
    Path("dnb_exit.py").write_text("raise SystemExit(3)\n")
    sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
    found = ProcessState().restore({"imports": [["dnb_exit", ""]]})
    assert [item.name for item in found] == ["import dnb_exit"]


def _local(name: str, text: str) -> Any:
    Path(f"{name}.py").write_text(text)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
    return importlib.import_module(name)


def _of(state: ProcessState, module: str) -> list[str]:
    state.capture()
    return sorted(item.name for item in state.reported() if item.name.startswith(module))


def test_scalar_set_on_a_local_module_comes_back() -> None:
    """Also when the cell that imported the module set it at once; a changed file is not overruled."""
    state = ProcessState()
    module = _local("dnb_conf", "a = 1\ndef read():\n    return a\n")
    module.a = 2
    value = _cycle(state, "modules")
    assert value == {"dnb_conf": {"a": [1, 2]}}
    assert _of(state, "dnb_conf") == []
    del sys.modules["dnb_conf"]
    assert ProcessState().restore({"modules": value}) == []
    assert sys.modules["dnb_conf"].read() == 2
    Path("dnb_conf.py").write_text("a = 7  # edited\n")
    del sys.modules["dnb_conf"]
    found = ProcessState().restore({"modules": value})
    assert [item.name for item in found] == ["dnb_conf.a"]
    assert sys.modules["dnb_conf"].a == 7


def test_other_changes_of_a_local_module_are_reported() -> None:
    """Containers changed in place, new attributes and patched functions are named one by one."""
    state = ProcessState()
    module = _local("dnb_mut", "items = []\ntable = {}\ndef f():\n    return 1\nkept = (1, 2)\n")
    state.capture()
    module.items.append(1)
    module.f = len
    module.extra = {"a": 1}
    assert _of(state, "dnb_mut") == ["dnb_mut.extra", "dnb_mut.f", "dnb_mut.items"]


def test_reload_is_a_new_baseline_and_submodules_are_no_change() -> None:
    """The user's choice to reload a module that was edited is no alarm, nor is importing a part of a package."""
    os.mkdir("dnb_pack")
    Path("dnb_pack/part.py").write_text("")
    Path("dnb_pack/__init__.py").write_text("def f():\n    return 1\n")
    sys.path.insert(0, os.getcwd())
    importlib.invalidate_caches()
    module = importlib.import_module("dnb_pack")
    state = ProcessState()
    importlib.import_module("dnb_pack.part")
    Path("dnb_pack/__init__.py").write_text("def f():\n    return 22\n\ndef g():\n    return 1\n")
    importlib.reload(module)
    assert _of(state, "dnb_pack") == []


def test_component_that_cannot_be_read_is_reported_and_costs_no_other(tmp_path: Path) -> None:
    """A deleted current folder is one line of the report."""
    state = ProcessState()
    random.seed(5)
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir(tmp_path / "gone")
    components = state.capture()
    names = [item.name for item in state.reported()]
    os.chdir(tmp_path)
    assert "random" in components
    assert "cwd" in names


def test_unknown_component_is_reported() -> None:
    """A checkpoint of a newer version restores as far as it goes."""
    assert [item.name for item in ProcessState().restore({"teleport": 1})] == ["teleport"]


COUNTED = """
import sys
from durable_nb.capture.process import ProcessState
state, calls = ProcessState(), 0
state.capture(), state.reported()

def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")

sys.setprofile(count)
state.capture(), state.reported()
sys.setprofile(None)
print(calls)
"""


def test_capture_with_nothing_changed_is_cheap() -> None:
    """A tiny cell does not feel it: counted in calls, because machines are slow and fast."""
    counted = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True)
    assert int(counted.stdout) < 1000


def test_many_unchanged_functions_of_local_modules_cost_little() -> None:
    """A package of one's own is looked at after every cell: not function by function."""
    source = "".join(f"def f{n}(a, b={[2] if n == 8 else 1}, *, c=None):\n    return a\n" for n in range(500))
    state = ProcessState()

    def counted() -> int:
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event == "call" and "module" in frame.f_code.co_filename

        state.capture()
        sys.setprofile(count)
        try:
            state.capture()
        finally:
            sys.setprofile(None)
        return calls

    without = counted()
    module = _local("dnb_many", source)
    assert counted() - without < 100
    module.f7.__kwdefaults__["c"] = 1
    module.f8.__defaults__[0].append(3)
    module.f9.seen = True
    module.f10.__code__ = module.f11.__code__.replace(co_name="f10")
    assert _of(state, "dnb_many") == ["dnb_many.f10", "dnb_many.f7", "dnb_many.f8", "dnb_many.f9"]


@pytest.mark.parametrize("value", ["(n, float(n))", "Model(n)", "lambda: 1"])
def test_what_is_made_at_the_address_of_what_it_replaces_is_a_change(value: str) -> None:
    """What a module had is gone, and something else is where it was."""
    source = (
        f"class Model:\n    def __init__(self, n): pass\ndef make(n):\n    global held\n    held = {value}\nmake(0)\n"
    )
    module = _local(f"dnb_at_{len(value)}", source)
    state = ProcessState()
    state.capture()
    for n in range(1, 4):
        module.make(n)
        assert _of(state, module.__name__) == [f"{module.__name__}.held"]


def test_component_is_a_frozen_value() -> None:
    """Components travel to the store unchanged."""
    with pytest.raises(AttributeError):
        Component(value=1, digest="d").value = 2  # type: ignore[misc]


def test_named_environment_variables_are_stored_while_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are stored of the named ones only, and no longer set or kept once the name is taken back."""
    monkeypatch.delenv("DNB_FLAG", raising=False)
    monkeypatch.delenv("DNB_OTHER", raising=False)
    state = ProcessState(environ=["DNB_FLAG"])
    monkeypatch.setenv("DNB_FLAG", "on")
    monkeypatch.setenv("DNB_OTHER", "secret")
    value = _cycle(state, "os.environ")
    assert {"DNB_FLAG": "on"} == value
    assert ["os.environ[DNB_OTHER]"] == [item.name for item in state.reported()]
    monkeypatch.delenv("DNB_FLAG")
    plain = ProcessState()
    assert [] == plain.restore({"os.environ": value})
    assert ("DNB_FLAG" in os.environ, "os.environ" in plain.capture()) == (False, False)
    assert [] == ProcessState(environ=["DNB_FLAG"]).restore({"os.environ": value})
    assert os.environ["DNB_FLAG"] == "on"


def test_what_compiled_libraries_keep_among_the_builtins_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """pybind11 puts a capsule there when the first of its modules is imported."""
    capsule = __import__("_socket").CAPI
    state = ProcessState()
    monkeypatch.setattr("builtins.__pybind11_internals__", capsule, raising=False)
    state.capture()
    assert [] == [u.name for u in state.reported()]
