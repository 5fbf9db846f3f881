"""Code that runs beside the cells is found by the next look: a front end's own, in subshells, of widgets and timers.

Every test runs real kernels.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_nb.testing.kernels import Kernel
from durable_nb.testing.lives import Lives

SLIDER = "import ipywidgets\nslider = ipywidgets.IntSlider()\nslider.observe(lambda change: xs.append(2), 'value')\n"
SOON = "import asyncio\n_ = asyncio.get_event_loop().call_later(0.2, lambda: xs.append(2))"


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook whose every cell is durable."""
    with Lives(tmp_path) as started:
        yield started


def expression(kernel: Kernel) -> None:
    """Ask for the value of an expression along with a cell that does nothing."""
    assert kernel.finish(kernel.begin("pass", expressions={"found": "xs.append(2)"})).status == "ok"


def subshell(kernel: Kernel) -> None:
    """Run code in a thread of its own, as JupyterLab does for what is not to wait."""
    made = kernel.control("create_subshell_request", {})
    assert kernel.run("xs.append(2)", subshell=made["subshell_id"]).status == "ok"


def debugger(kernel: Kernel) -> None:
    """Have the debugger evaluate an expression while a cell has stopped at a breakpoint."""
    numbers = itertools.count(1)

    def ask(command: str, **arguments: Any) -> Any:
        message = {"type": "request", "seq": next(numbers), "command": command, "arguments": arguments}
        return kernel.control("debug_request", message).get("body", {})

    ask("initialize", clientID="test", adapterID="", pathFormat="path")
    ask("attach", justMyCode=False)
    ask("configurationDone")
    code = "print('here', flush=True)\nz = 2"
    source = {"path": ask("dumpCell", code=code)["sourcePath"]}
    ask("setBreakpoints", source=source, breakpoints=[{"line": 2}], sourceModified=False)
    ask("configurationDone")
    cell = kernel.begin(code)
    kernel.wait_for_text(cell, "here")
    time.sleep(1)  # asked before the cell has stopped, the debugger never answers
    frames = ask("stackTrace", threadId=1)["stackFrames"]
    ask("evaluate", expression="xs.append(2)", context="repl", frameId=frames[0]["id"])
    ask("continue", threadId=1)
    assert kernel.finish(cell).status == "ok"
    ask("disconnect", restart=False, terminateDebuggee=False)


def widget(kernel: Kernel) -> None:
    """Move a slider, as a person does in the browser."""
    at = kernel.run("print(slider.model_id)", store_history=False).text().strip()
    kernel.tell("comm_msg", {"comm_id": at, "data": {"method": "update", "state": {"value": 3}, "buffer_paths": []}})


CHANGES: dict[str, tuple[str, Callable[[Kernel], object]]] = {
    "silent": ("", lambda kernel: kernel.run("xs.append(2)", silent=True)),
    "no history": ("", lambda kernel: kernel.run("xs.append(2)", store_history=False)),
    "named anew": ("", lambda kernel: kernel.run("ys = xs; ys.append(2); del ys", silent=True)),
    "expression": ("", expression),
    "subshell": ("", subshell),
    "debugger": ("", debugger),
    "widget": (SLIDER, widget),
    "timer": (SOON, lambda kernel: kernel.run("import time, asyncio; await asyncio.sleep(0.4)", silent=True)),
}


@pytest.mark.parametrize("by", CHANGES)
def test_what_other_code_changes_is_saved_with_the_next_cell(lives: Lives, by: str) -> None:
    """A change that no cell made is in the checkpoint after the next durable cell, whatever that cell is about."""
    cell, change = CHANGES[by]
    # Smaller ones are looked at now and then whatever ran.
    lives.run("xs = [[n] for n in range(50_000)]", *filter(None, [cell]), "y = 1", "y = 2", "y = 3")
    change(lives.kernel)
    assert lives.kernel.run("len(xs)", store_history=False).result == "50001"
    lives.run("y = 4")
    assert lives.verb('sql "SELECT max(len(name)) AS n FROM variables"')  # waits for the writer
    lives.kill()
    assert lives.value("[len(xs), y]") == [50_001, 4]


def test_what_a_timer_does_to_the_process_is_no_cells_doing(lives: Lives) -> None:
    """A stream that was seeded between two cells is another input: without the timer the reader runs again."""
    cells = ["import random, threading", "random.seed(1)", "threading.Timer(0.2, random.seed, [5]).start()"]
    lives.run(*cells)
    time.sleep(1)
    lives.run("v = random.random()")
    lives.kill()
    assert lives.run_all([*cells[:2], "pass", "v = random.random()"])[-1] is False
    assert lives.value("v == random.Random(1).random()")
