"""What is around the namespace goes from one kernel to the next."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import IPython
import pytest

from durable_nb.testing.kernels import Kernel

FAKE = "%load_ext durable_nb.testing.fakeengine"
SHELL = "get_ipython().fake_engine.shell"


def ask(kernel: Kernel, expression: str) -> Any:
    """Evaluate an expression in a kernel without touching its history and return its JSON value."""
    reply = kernel.run(f"import json as _j\nprint(_j.dumps({expression}))", store_history=False)
    assert reply.status == "ok", reply
    return json.loads(reply.text().splitlines()[-1])


def test_inputs_are_told_once(kernel: Kernel) -> None:
    """`state()` returns the execution count and only inputs that are new since the last call."""
    ask(kernel, f"{SHELL}.state()")
    n = kernel.run("%%durable a\nx = !echo hi").execution_count
    state = ask(kernel, f"{SHELL}.state()")
    # In a cell that is not kept IPython before 9.1 has counted on already.
    assert state == {
        "execution_count": n + (1 if IPython.version_info >= (9, 1) else 2),
        "inputs": {str(n): ["%%durable a\nx = !echo hi", "x = get_ipython().getoutput('echo hi')"]},
    }
    assert ask(kernel, f"{SHELL}.state()")["inputs"] == {}


def test_numbers_inputs_and_outs_go_on(fresh: Kernel) -> None:
    """After a restore the next cell has the next number, and In, Out, _n, _in and _ are those of the old kernel."""
    fresh.run(FAKE)
    state = {"execution_count": 9, "inputs": {"1": ["6*7", "6*7"], "7": ["%pwd", "get_ipython()"], "8": ["y", "y"]}}
    reply = fresh.run(
        f"s = {SHELL}\ns.restore_state({state!r})\ns.set_out(1, 42)\ns.set_out(7, 'seven', latest=True)\n"
        "s.set_out(8, 'eight', latest=True)"
    )
    assert reply.status == "ok"
    looked = fresh.run("print([In[1], In[7], In[8], Out[1], Out[7], _7, _i7, _i, _ii, _, __])")
    assert looked.execution_count == 9
    found = "['6*7', 'get_ipython()', 'y', 42, 'seven', 'seven', '%pwd', 'y', '%pwd', 'eight', 'seven']\n"
    assert found == looked.text()
    assert fresh.run("In[9][:6]").result == "'print('"
    assert ask(fresh, f"sorted({SHELL}.state()['inputs'])") == ["10", "2", "9"]
    assert fresh.run("len(In), get_ipython().displayhook.prompt_count").result == "(12, 11)"


def test_a_users_own_underscore_is_left_alone(kernel: Kernel) -> None:
    """A person who assigned `_` keeps it, as in IPython."""
    kernel.run("_ = 'mine'")
    assert kernel.run(f"{SHELL}.set_out(3, 'theirs', latest=True)\nprint(_, Out[3])").text() == "mine theirs\n"
    kernel.run("del _")


def test_sources_of_restored_functions_are_found(fresh: Kernel) -> None:
    """`inspect.getsource` and tracebacks show the source of a function whose cell ran in another kernel."""
    fresh.run(FAKE)
    text = "def double(x):\n    return x * 2 / 0  # twice\n"
    fresh.run(f"{SHELL}.restore_sources({{'/tmp/ipykernel_1/77.py': [3, {text!r}]}})")
    fresh.run(f"exec(compile({text!r}, '/tmp/ipykernel_1/77.py', 'exec'))\nimport inspect, linecache")
    assert "# twice" in (fresh.run("linecache.checkcache(); inspect.getsource(double)").result or "")
    traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(fresh.run("double(4)").traceback))
    assert "----> 2     return x * 2 / 0" in traceback
    assert "[3]" in traceback


def test_sources_are_told_once_with_the_lines_of_the_cell(kernel: Kernel) -> None:
    """`cell_sources()` returns each cell's text once, placed so that line numbers fit."""
    ask(kernel, f"len({SHELL}.cell_sources())")
    n = kernel.run("%%durable\ndef f():\n    return 1").execution_count
    sources = ask(kernel, f"{SHELL}.cell_sources()")
    assert [source for source in sources.values() if source[0] == n] == [[n, "\ndef f():\n    return 1\n"]]
    again = ask(kernel, f"{SHELL}.cell_sources()")
    assert [source for source in again.values() if source[0] == n and "def f" in source[1]] == []


def test_inline_figures_stay_in_force(fresh: Kernel) -> None:
    """After a restore the first figure of a plain cell appears below that cell, in the wanted format."""
    fresh.run(FAKE)
    assert fresh.run("%matplotlib inline\n%config InlineBackend.figure_formats = ['svg']").status == "ok"
    state = ask(fresh, f"{SHELL}.gui_state()")
    assert state["inline"] == {"figure_formats": ["svg"], "close_figures": True}
    fresh.restart()
    fresh.run(FAKE)
    assert fresh.run(f"print({SHELL}.restore_gui_state({state!r}))").text() == "[]\n"
    drawn = fresh.run("import matplotlib.pyplot as plt\nplt.plot([1]);")
    assert [sorted(o["data"]) for o in drawn.of("display_data")] == [["image/svg+xml", "text/plain"]]


@pytest.mark.parametrize("mode", ["0", "1", "2", "3"])
def test_autoreload_comes_back_in_its_mode(kernel: Kernel, mode: str) -> None:
    """autoreload is loaded again and has the mode it had."""
    kernel.run(f"%load_ext autoreload\n%autoreload {mode}")
    state = ask(kernel, f"{SHELL}.gui_state()")
    assert (state["autoreload"], "autoreload" in " ".join(state["extensions"])) == (mode, True)
    kernel.run("%autoreload 0")
    kernel.run(f"{SHELL}.restore_gui_state({state!r})")
    assert ask(kernel, f"{SHELL}.gui_state()['autoreload']") == mode
    kernel.run("%autoreload 0")


def test_an_extension_that_cannot_come_back_is_told(kernel: Kernel) -> None:
    """One extension that fails costs a sentence and not the others."""
    problems = ask(kernel, f"{SHELL}.restore_gui_state({{'extensions': ['no_such_ext', 'autoreload']}})")
    assert len(problems) == 1
    assert problems[0].startswith("extension no_such_ext was not loaded again: ModuleNotFoundError")
    assert ask(kernel, "get_ipython().find_line_magic('autoreload') is not None") is True


def test_hidden_names_are_the_shells_and_nothing_of_ours(fresh: Kernel) -> None:
    """What IPython put into the namespace is told, all of it and nothing else; we add no name."""
    kernel = fresh
    kernel.run(FAKE)
    kernel.run("%%durable\n5")
    kernel.run("%%durable\nmine = 1")
    expression = f"sorted(n for n in globals() if n not in {SHELL}.hidden() and n != '_j')"
    assert ask(kernel, expression) == ["mine"]
    names = [
        "In",
        "Out",
        "_",
        "__",
        "___",
        "_i",
        "_ih",
        "_oh",
        "_dh",
        "get_ipython",
        "exit",
        "quit",
        "open",
        "__name__",
    ]
    assert ask(kernel, f"[n for n in {names!r} if n not in {SHELL}.hidden()]") == []
    assert ask(kernel, "[n for n in globals() if 'durable' in n.lower()]") == []


def test_say_is_one_display_with_a_plain_and_a_safe_rich_form(kernel: Kernel) -> None:
    """A line of ours is a display, its HTML escaped and without scripts."""
    (said,) = kernel.run(f"{SHELL}.say('finished <14:02> & safe')").of("display_data")
    assert said["data"]["text/plain"] == "finished <14:02> & safe"
    assert "finished &lt;14:02&gt; &amp; safe</div>" in said["data"]["text/html"]


def test_exit_callbacks_do_not_run_in_forked_children(fresh: Kernel, look_at: Callable[[str], str]) -> None:
    """A forked child that ends normally does not close what belongs to the kernel."""
    fresh.run(FAKE)
    fresh.run(
        "import os, pathlib, sys\nlog = pathlib.Path('exit.txt').resolve()\n"
        f"{SHELL}.on_exit(lambda: log.open('a').write(f'{{os.getpid()}}\\n'))"
    )
    pid = fresh.pid
    forked = "child = os.fork()\nif child == 0:\n    get_ipython().fake_parts[2]._exiting()\n    os._exit(0)\n"
    assert fresh.run(forked + "os.waitpid(child, 0)[1]").result == "0"
    fresh.stop()
    assert look_at("exit.txt") == f"{pid}\n"


@pytest.fixture
def look_at(tmp_path: Any) -> Callable[[str], str]:
    """Read a file of the test's folder."""
    return lambda name: (tmp_path / name).read_text()
