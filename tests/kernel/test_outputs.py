"""What a durable cell shows is recorded as it was seen, and shown again on a skip."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from durable_nb.kernel.outputs import OutputLog, outputs_from_json, outputs_to_json
from durable_nb.model import Output
from durable_nb.testing.kernels import Kernel, Reply

Look = Callable[[str], Any]
SKIP = "get_ipython().fake_engine.skip = True"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def stream(text: str, name: str = "stdout") -> dict[str, str]:
    """Return the content of a stream message."""
    return {"name": name, "text": text}


def display(text: str, display_id: str | None = None) -> dict[str, Any]:
    """Return the content of a display message."""
    transient = {} if display_id is None else {"display_id": display_id}
    return {"data": {"text/plain": text}, "metadata": {}, "transient": transient}


def kept(log: OutputLog) -> list[tuple[str, str]]:
    """Return kind and text of what a log holds."""
    return [(o.kind, o.content.get("text") or o.content["data"]["text/plain"]) for o in log.finish()]


def seen(reply: Reply) -> list[Any]:
    """Return what a notebook would hold after this reply: streams joined, clears and updates applied."""
    log = OutputLog()
    for output in reply.outputs:
        content = {key: value for key, value in output.items() if key not in ("output_type", "execution_count")}
        log.add(output["output_type"], content)
    return outputs_to_json(log.finish())


def test_streams_are_joined_and_order_is_kept() -> None:
    """Neighbouring pieces of one stream are one output; another stream or a display ends it."""
    log = OutputLog()
    for kind, content in [
        ("stream", stream("a")),
        ("stream", stream("b")),
        ("stream", stream("!", "stderr")),
        ("stream", stream("c")),
        ("display_data", display("d")),
        ("stream", stream("e")),
    ]:
        log.add(kind, content)
    assert kept(log) == [("stream", "ab"), ("stream", "!"), ("stream", "c"), ("display_data", "d"), ("stream", "e")]


def test_clear_output_clears_now_or_with_the_next_output() -> None:
    """`clear_output()` empties at once, `wait=True` only when something new comes."""
    log = OutputLog()
    log.add("stream", stream("a"))
    log.add("clear_output", {"wait": True})
    assert kept(log) == [("stream", "a")]
    log.add("stream", stream("b"))
    assert kept(log) == [("stream", "b")]
    log.add("clear_output", {"wait": False})
    assert kept(log) == []


def test_update_replaces_own_displays_and_keeps_those_of_other_cells() -> None:
    """An update changes the display it names; one that names another cell's display is kept, the last per display."""
    log = OutputLog()
    log.add("display_data", display("0 %", "mine"))
    for percent in ("50 %", "100 %"):
        log.add("update_display_data", display(percent, "mine"))
        log.add("update_display_data", display(percent, "other"))
    assert kept(log) == [("display_data", "100 %"), ("update_display_data", "100 %")]


def test_too_much_output_is_cut_with_a_note() -> None:
    """Above the limit nothing more is kept and the record says so; a clear begins anew."""
    log = OutputLog(limit_bytes=1 << 20)
    for _ in range(3):
        log.add("stream", stream("x" * 500_000))
    first, note = log.finish()
    assert len(first.content["text"]) == 1_000_000
    assert note.content["text"].startswith("[durable_nb kept the first 1 MiB of this cell's outputs; 1 more")
    log.add("clear_output", {"wait": False})
    log.add("stream", stream("new"))
    assert kept(log) == [("stream", "new")]


def test_outputs_survive_json_and_odd_numbers() -> None:
    """Outputs go through JSON unchanged; numbers that strict JSON or 53 bits cannot say become text."""
    log = OutputLog()
    log.add("display_data", {"data": {"application/json": {"big": 2**60, "nan": float("nan"), "n": 1}}, "metadata": {}})
    log.add("error", {"ename": "E", "evalue": "v", "traceback": ["t"]})
    outputs = log.finish()
    through = json.loads(json.dumps(outputs_to_json(outputs), allow_nan=False))
    assert outputs_from_json(through) == outputs
    assert outputs[0].content["data"]["application/json"] == {"big": str(2**60), "nan": "nan", "n": 1}


BODIES = {
    "streams": "import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')",
    "no-newline": "print('a', end='')",
    "result": "41 + 1",
    "mixed": "from IPython.display import display, HTML\nprint(1)\ndisplay(HTML('<b>x</b>'))\nprint(2)\n'end'",
    "image": f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{PNG}'), width=7)",
    "metadata": "from IPython.display import display\ndisplay({'text/plain': 'p', 'text/latex': '$x$'}, raw=True,"
    " metadata={'text/latex': {'k': 1}})",
    "clear": "from IPython.display import clear_output\nfor i in range(3):\n    clear_output(wait=True)\n    print(i)",
    "update": "from IPython.display import display\nh = display('0 %', display_id=True)\nh.update('100 %')",
    "thread": "import threading\nt = threading.Thread(target=lambda: print('from a thread'))\nt.start(); t.join()",
    "descriptor": "import os\nos.write(1, b'from C\\n');",
    "child": "import subprocess\nsubprocess.run(['echo', 'from a child'], check=True);",
    "shell": "!echo hi",
    "bash": "%%bash\necho out\necho err >&2",
    "capture": "%%capture got\nprint('hidden')",
    "time": "%%time\nprint('in')\n5",
    "caught": "try:\n    1/0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()\nprint('on')",
    "figure": "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn')",
    "two-figures": "import matplotlib.pyplot as plt\nfor i in range(2):\n    plt.figure(); plt.plot([i]); plt.show()",
    "dataframe": "import pandas as pd\npd.DataFrame({'a': [1]})",
    "await": "import asyncio\nprint('a')\nawait asyncio.sleep(0)\nprint('b')\n'c'",
    "logging": "import logging, sys\nlog = logging.getLogger('x'); log.addHandler(logging.StreamHandler(sys.stderr))\n"
    "log.warning('logged')",
    "nothing": "q = 1",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_skip_shows_what_the_run_showed(kernel: Kernel, look: Look, body: str) -> None:
    """The record equals what the person saw, and a skip shows it again: order, streams, MIME types, metadata."""
    ran = kernel.run("%%durable\n" + body)
    assert ran.status == "ok", ran
    assert body in ("q = 1", BODIES["capture"]) or ran.outputs
    kernel.run(SKIP)
    skipped = kernel.run("%%durable\n" + body)
    assert skipped.status == "ok", skipped
    first, *again = seen(skipped)
    assert first["data"]["text/plain"] == "skipped"
    assert seen(ran) == again
    assert look("len(e.outcomes)") == 1


def test_figure_is_recorded_and_shown_once(kernel: Kernel, look: Look) -> None:
    """An inline figure, which IPython shows behind the cell, is inside the record, once, as a PNG."""
    reply = kernel.run("%%durable\n%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert [sorted(o["data"]) for o in reply.of("display_data")] == [["image/png", "text/plain"]]
    assert look("[o.kind for o in e.outcomes[0].outputs]") == ["display_data"]


def test_figures_are_shown_behind_the_traceback_of_a_failed_cell(kernel: Kernel) -> None:
    """A failing cell still shows what was drawn, where it is shown without us."""
    code = "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1])\n1/0"
    kinds = [[o["output_type"] for o in kernel.run(header + code).outputs] for header in ("", "%%durable\n")]
    assert kinds == [["error", "display_data"]] * 2


def test_result_is_shown_under_the_number_of_the_skipping_cell(kernel: Kernel, look: Look) -> None:
    """A skipped cell's result carries the new number, and `Out`, `_n`, `_` hold it."""
    kernel.run("%%durable\n6 * 7")
    kernel.run(SKIP)
    kernel.run("'between'")
    reply = kernel.run("%%durable\n6 * 7")
    n = reply.execution_count
    assert [o["execution_count"] for o in reply.of("execute_result")] == [n]
    assert look(f"[Out[{n}], _{n}, _, __]") == [42, 42, 42, "between"]


def test_display_ids_stay_usable(kernel: Kernel) -> None:
    """After a skip a display handle still updates the display that the skip showed."""
    cell = "%%durable\nfrom IPython.display import display\nh = display('old', display_id='fixed-id')"
    kernel.run(cell)
    kernel.run(SKIP)
    assert kernel.run(cell).outputs[1]["transient"] == {"display_id": "fixed-id"}
    (update,) = kernel.run("h.update('new')").of("update_display_data")
    assert (update["transient"]["display_id"], update["data"]["text/plain"]) == ("fixed-id", "'new'")


def test_update_of_another_cells_display_is_sent_again(kernel: Kernel) -> None:
    """A cell that updates a display of an earlier cell does so again when it is skipped."""
    kernel.run("%%durable\nfrom IPython.display import display\nh = display('old', display_id='elsewhere')")
    kernel.run("%%durable\nh.update('new')")
    kernel.run(SKIP)
    (update,) = kernel.run("%%durable\nh.update('new')").of("update_display_data")
    assert (update["transient"], update["data"]["text/plain"]) == ({"display_id": "elsewhere"}, "'new'")


def test_widget_views_come_back_as_text(kernel: Kernel) -> None:
    """The model of a widget is gone with its kernel: a skip shows the text of the view."""
    pytest.importorskip("ipywidgets")
    cell = "%%durable\nimport ipywidgets\ns = ipywidgets.IntSlider(3)\ns"
    view = "application/vnd.jupyter.widget-view+json"
    assert view in kernel.run(cell).of("execute_result")[0]["data"]
    kernel.run("s.close()\n" + SKIP)
    data = kernel.run(cell).of("execute_result")[0]["data"]
    assert (view in data, data["text/plain"].startswith("IntSlider(value=3")) == (False, True)


def test_prints_of_another_cells_thread_are_not_recorded(kernel: Kernel, look: Look) -> None:
    """What a front end shows below another cell does not belong to this one's record."""
    kernel.run(
        "import threading, sys\ngo, done = threading.Event(), threading.Event()\nparent = sys.stdout.parent_header\n"
        "def late():\n    sys.stdout._parent_header.set(parent)\n    go.wait(10)\n    print('late')\n    done.set()\n"
        "t = threading.Thread(target=late); t.start()"
    )
    kernel.run("%%durable\ngo.set(); done.wait(10)\nprint('mine')")
    assert look("[o.content['text'] for o in e.outcomes[0].outputs]") == ["mine\n"]
    kernel.run("t.join()")


def test_recording_ends_with_the_cell(kernel: Kernel, look: Look) -> None:
    """Between cells nothing listens: the session's `send` is its own again, also after an error."""
    for body in ("print(1)", "1/0"):
        kernel.run("%%durable\n" + body)
        assert look("'send' in vars(get_ipython().kernel.session)") is False


def test_error_of_a_failed_cell_is_part_of_its_record(kernel: Kernel, look: Look) -> None:
    """The record of a failed attempt ends with the error as it was shown."""
    reply = kernel.run("%%durable\nprint('before')\n1/0")
    recorded = look("[[o.kind, dict(o.content)] for o in e.outcomes[0].outputs]")
    shown = {key: value for key, value in reply.of("error")[0].items() if key != "output_type"}
    assert recorded == [["stream", {"name": "stdout", "text": "before\n"}], ["error", shown]]


TERMINAL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from durable_nb.kernel.outputs import outputs_to_json
shell = InteractiveShell.instance(colors='nocolor')
shell.run_line_magic('load_ext', 'durable_nb.testing.fakeengine')
engine = shell.fake_engine
cell = '''%%durable
import sys
from IPython.display import display
print('a'); print('b', file=sys.stderr)
display('shown')
6 * 7'''
shell.run_cell(cell, store_history=True)
shell.run_cell('%%durable\\n1/0', store_history=True)
recorded = [outputs_to_json(o.outputs) for o in engine.outcomes]
engine.skip = True
print('--- again')
shell.run_cell(cell, store_history=True)
print('--- record')
print(json.dumps([recorded, shell.user_ns['Out'], shell.user_ns['_']]))
shell.history_manager.end_session()
"""


def test_terminal_records_and_shows_again(tmp_path: Any) -> None:
    """In a terminal IPython streams, displays, results and errors are recorded once each and printed again."""
    run = subprocess.run(
        [sys.executable, "-c", TERMINAL], capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "IPYTHONDIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))},
    )  # fmt: skip
    first, rest = run.stdout.split("--- again\n")
    again, record = rest.split("--- record\n")
    assert first.startswith("a\n'shown'\nOut[1]: 42\n")
    assert again == "skipped\na\n'shown'\nOut[3]: 42\n"
    assert run.stderr == "b\nb\n"
    (good, bad), out, last = json.loads(record)
    assert [(o["output_type"], o.get("text") or o["data"]["text/plain"]) for o in good] == [
        ("stream", "a\n"),
        ("stream", "b\n"),
        ("display_data", "'shown'"),
        ("execute_result", "42"),
    ]
    assert [(o["output_type"], o["ename"]) for o in bad] == [("error", "ZeroDivisionError")]
    assert (out, last) == ({"1": 42, "3": 42}, 42)


def test_output_equality_is_by_value() -> None:
    """Two records of the same outputs are equal, so that tests and `audit` can compare them."""
    assert Output(kind="stream", content=stream("a")) == Output(kind="stream", content=stream("a"))
