"""The whole extension in a real kernel: cells behave as without it, and a skip shows what the run showed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from durable_nb.kernel.outputs import OutputLog, outputs_to_json
from durable_nb.testing.kernels import Kernel, Reply
from durable_nb.testing.lives import Lives, skipped

LOAD = "%load_ext durable_nb"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

CELLS = {
    "streams": "import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')",
    "result": "six = 6\nsix * 7",
    "silenced": "six * 7;",
    "display": "from IPython.display import display, HTML\nprint(1)\ndisplay(HTML('<b>x</b>'))\nprint(2)\n'end'",
    "shell": "!echo hi",
    "time": "%%time\nseven = 7\nseven",
    "capture": "%%capture got\nprint('hidden')",
    "bash": "%%bash\necho from bash",
    "await": "import asyncio\nawait asyncio.sleep(0)\n'awaited'",
    "update": "h = display('0 %', display_id='progress')\nh.update('100 %')",
    "figure": "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn')",
    "dataframe": "import pandas as pd\npd.DataFrame({'a': [1]})",
}


def seen(reply: Reply) -> list[Any]:
    """Return what a notebook would hold after this reply."""
    log = OutputLog()
    for output in reply.outputs:
        content = {key: value for key, value in output.items() if key not in ("output_type", "execution_count")}
        log.add(output["output_type"], content)
    return outputs_to_json(log.finish())


# Another process on a busy machine may hold a kernel up; what takes long by itself takes long every time.
MOST_TRIES = 5


def without_times(outputs: list[Any]) -> str:
    """Return outputs as text, without measured times; `%%time` tells of slow compiling only when it was slow."""
    text = re.sub(r"(user|sys:|total:|Wall time:) [\d.e+]+ [µμmn]?s", r"\1 TIME", repr(outputs))
    return re.sub(r"(Compiler|Parser)\s*: [\d.]+ [µμmn]?s\\\\n", "", text)


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook whose cells are durable when they say so."""
    with Lives(tmp_path, durable=False) as notebook:
        yield notebook


def test_cells_show_the_same_plain_durable_and_skipped(tmp_path: Path) -> None:
    """Each cell shows the same without the extension, as a durable cell, and when it is skipped after a SIGKILL."""
    (tmp_path / "plain").mkdir()
    with Kernel(tmp_path / "plain") as kernel:
        plain = {name: seen(kernel.run(cell)) for name, cell in CELLS.items()}
    (tmp_path / "durable").mkdir()
    with Lives(tmp_path / "durable", durable=False) as lives:
        ran = {name: seen(lives.run(f"%%durable {name}\n{cell}")) for name, cell in CELLS.items()}
        lives.kill()
        again = {name: lives.run(f"%%durable {name}\n{cell}") for name, cell in CELLS.items()}
    assert {n: without_times(o) for n, o in plain.items()} == {n: without_times(o) for n, o in ran.items()}
    shown = {name: seen(reply)[1:] for name, reply in again.items() if skipped(reply)}
    assert shown == {name: ran[name] for name in shown}
    assert sorted(set(CELLS) - set(shown)) == []


def test_error_is_shown_once_with_the_cells_lines(lives: Lives) -> None:
    """A failing durable cell replies `error` with the user's exception, once, without frames of ours."""
    reply = lives.kernel.run("%%durable\n\ndef half(x):\n    return x / 0\nhalf(1)")
    (error,) = reply.of("error")
    text = _COLOURS.sub("", "\n".join(error["traceback"]))
    assert (reply.status, reply.ename) == ("error", "ZeroDivisionError")
    assert re.findall(r"In\[\d+\], line (\d+)", text) == ["5", "4"]
    assert "durable_nb" not in text


@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(30)"], ids=["loop", "sleep"])
def test_interrupt_ends_the_body_at_once(lives: Lives, body: str) -> None:
    """The stop button stops a sync body within 0.2 s of its raising; `status` tells it."""
    cell = (
        f"%%durable long\nimport time\ntry:\n    print('started', flush=True)\n    {body}\n"
        "except KeyboardInterrupt:\n    stopped = time.time()\n    raise"
    )
    took_s = []
    for _ in range(MOST_TRIES):
        request = lives.kernel.begin(cell)
        lives.kernel.wait_for_text(request, "started")
        time.sleep(0.05)
        pressed = time.time()
        lives.kernel.interrupt()
        reply = lives.kernel.finish(request, timeout_s=20)
        assert (reply.status, reply.ename) == ("error", "KeyboardInterrupt")
        took_s.append(lives.value("stopped") - pressed)
        if took_s[-1] < 0.2:
            break
    assert min(took_s) < 0.2
    assert "KeyboardInterrupt" in str(lives.kernel.run("%durable status").outputs)


def test_an_error_that_a_magic_shows_and_swallows_is_a_failure(lives: Lives) -> None:
    """`%run` of a script that fails lets the cell go on, as without us; after a restart the cell runs again."""
    (lives.folder / "script.py").write_text("made = 1\nraise ValueError('in the script')\n")
    cell = "%%durable runs\n%run script.py\nprint('after it')"
    reply = lives.kernel.run(cell)
    assert (reply.status, reply.text(), len(reply.of("error"))) == ("ok", "after it\n", 1)
    assert [(c["status"], c["error"]) for c in lives.status()["cells"]] == [("failed", "ValueError: in the script")]
    lives.kill()
    assert not skipped(lives.kernel.run(cell))


def test_wrong_option_runs_nothing(lives: Lives) -> None:
    """A wrong option is one usage line and leaves no attempt in the history."""
    reply = lives.kernel.run("%%durable --rerrun\nran = True")
    assert (reply.status, reply.ename) == ("error", "UsageError")
    assert reply.text("stderr").count("\n") == 1
    assert lives.value("'ran' in globals()") is False
    assert '"ActivityStarted"' not in lives.kernel.run("%durable events --json").text()


STATE = """
ip = get_ipython()
def state():
    return repr((
        [repr(t) for t in ip.input_transformers_cleanup], sorted(vars(ip)), sorted(vars(ip.compile)),
        sorted(vars(ip.kernel)), sorted(vars(ip.kernel.session)), sorted(vars(ip.display_pub)),
        sorted(vars(ip.displayhook)), sorted(ip.magics_manager.magics['line']),
        sorted(ip.magics_manager.magics['cell']), sorted(ip.magics_manager.registry),
        sorted(ip.strdispatchers['complete_command'].strs), [repr(t) for t in ip.ast_transformers],
        {k: [repr(f) for f in v] for k, v in ip.events.callbacks.items()}, sorted(globals()),
    ))
ip.find_line_magic('load_ext')  # IPython loads its own magics at their first use
before = ''
"""


def test_unload_leaves_no_trace(tmp_path: Path) -> None:
    """After `%unload_ext durable_nb` the shell is as before, and loading again works."""
    with Kernel(tmp_path, environ={"DURABLE_NB_KEY_FILE": str(tmp_path / "key")}) as kernel:
        kernel.run(STATE, store_history=False)
        kernel.run("before = state()", store_history=False)
        for _ in range(2):
            for cell in (LOAD, "%durable on", "1 / 0", "%durable off", "%unload_ext durable_nb"):
                kernel.run(cell, store_history=False)
            assert kernel.run("print(before == state() or (before, state()))", store_history=False).text() == "True\n"
        assert kernel.run("%%durable\n1").ename == "UsageError"


def test_nbclient_stops_at_a_failing_durable_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A headless run ends at the durable cell that failed; the next one does not run."""
    monkeypatch.setenv("DURABLE_NB_KEY_FILE", str(tmp_path / "key"))
    notebook = nbformat.v4.new_notebook()
    for source in (LOAD, "%%durable bad\nprint('x')\n1/0", "print('never')"):
        notebook.cells.append(nbformat.v4.new_code_cell(source))
    client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}, timeout=60)
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        client.execute()
    assert notebook.cells[2].outputs == []
