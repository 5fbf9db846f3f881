"""A durable cell in a real kernel behaves as the same cell without its first line."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from durable_nb.testing.kernels import Kernel, Reply

Look = Callable[[str], Any]
FAKE = "%load_ext durable_nb.testing.fakeengine"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def plain_text(lines: tuple[str, ...] | list[str]) -> str:
    """Return a traceback without its colours."""
    return _COLOURS.sub("", "\n".join(lines))


def shown(reply: Reply) -> list[tuple[Any, ...]]:
    """Return what a person saw, without numbers and timings."""
    seen = []
    for output in reply.outputs:
        data = output.get("data", {}).get("text/plain", output.get("text", output.get("evalue")))
        # On a busy machine `%%time` has more to tell.
        data = re.sub(r"(Compiler|Parser)\s*: .*\n", "", data)
        seen.append((output["output_type"], output.get("name"), re.sub(r"[\d.e+]+ [µμmn]?s", "TIME", data)))
    return seen


BODIES = {
    "result": "41 + 1",
    "print": "print('a'); import sys; print('b', file=sys.stderr); print('c')",
    "silenced": "41 + 1;",
    "silenced-comment": "41 + 1;  # said quietly",
    "display": "from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))\n'end'",
    "line-magic": "%pwd",
    "magic-assign": "x = %pwd\nlen(x) > 0",
    "automagic": "pwd",
    "help-assign": "y = !echo hi\ny",
    "shell": "!echo hi",
    "time": "%%time\n6 * 7",
    "capture": "%%capture got\nprint('hidden')",
    "bash": "%%bash\necho from bash",
    "await": "import asyncio\nawait asyncio.sleep(0)\n'awaited'",
    "async-for": "async def agen():\n    yield 1\n[i async for i in agen()]",
    "underscore": "_",
    "none": "None",
    "indented": "  u = 1\n  u",
    "string-with-header": "t = '''\n%%durable\n'''\nt",
    "windows": "w = 1\r\nw + 1\r\n",
    "comment-only": "# nothing",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_body_shows_what_it_shows_without_the_header(kernel: Kernel, body: str) -> None:
    """Status, outputs, order and streams are those of the plain cell."""
    assert kernel.run("'before'").status == "ok"
    plain = kernel.run(body)
    assert kernel.run("'before'").status == "ok"
    durable = kernel.run("%%durable a-name --rerun\n" + body)
    assert (plain.status, shown(plain)) == (durable.status, shown(durable))


@pytest.mark.parametrize("name", [n for n in BODIES if n != "comment-only"])
def test_every_kind_of_body_reaches_the_engine(kernel: Kernel, look: Look, name: str) -> None:
    """The engine is asked once, with the body as typed, its plain Python and its name."""
    kernel.run(f"%%durable cell\n{BODIES[name]}", cell_id="id-7")
    assert look("[(q.source, q.name, q.cell_id, q.durable) for q in e.requests]") == [
        [BODIES[name], "cell", "id-7", True]
    ]
    assert look("[compile(q.transformed, 'f', 'exec', 0x2000) is not None for q in e.requests]") == [True]
    assert look("len(e.outcomes)") == 1


def test_tree_and_text_of_a_request_have_the_same_lines(kernel: Kernel, look: Look) -> None:
    """Whoever analyses the request finds the text of each node in `transformed`."""
    kernel.run("%%durable\n\n# first\na = 1\nprint(a)")
    expression = "[__import__('ast').get_source_segment(q.transformed, n) for q in e.requests for n in q.tree.body]"
    assert look(expression) == ["a = 1", "print(a)"]


def test_in_out_and_underscore_are_those_of_the_body(kernel: Kernel, look: Look) -> None:
    """`In[n]` is the body, the raw history what was typed, `Out[n]`, `_n` and `_` the value, and the engine sees it."""
    reply = kernel.run("%%durable\n6 * 7")
    n = reply.execution_count
    assert look(f"[In[{n}], Out[{n}], _{n}, _, _i{n}]") == ["6 * 7", 42, 42, 42, "%%durable\n6 * 7"]
    assert look("[o.result for o in e.outcomes]") == [42]
    assert look("e.requests[0].execution_count") == n


def test_no_result_is_told_apart_from_a_result(kernel: Kernel, look: Look) -> None:
    """A silenced or missing value is no result for the engine either."""
    kernel.run("%%durable\n5;")
    kernel.run("%%durable\nq = 5")
    assert look("[repr(o.result) for o in e.outcomes]") == ["NO_RESULT", "NO_RESULT"]


def test_error_is_the_users_own_shown_once_with_cell_line_numbers(kernel: Kernel, look: Look) -> None:
    """The exception comes out unwrapped, once, with the line numbers of the cell and no frames of ours."""
    reply = kernel.run("%%durable load\n\ndef half(x):\n    return x / 0\n\nhalf(1)")
    assert (reply.status, reply.ename, reply.evalue) == ("error", "ZeroDivisionError", "division by zero")
    errors = reply.of("error")
    assert len(errors) == 1
    text = plain_text(errors[0]["traceback"])
    assert re.findall(r"In\[\d+\], line (\d+)", text) == ["6", "4"]
    assert "----> 6 half(1)" in text
    assert "----> 4     return x / 0" in text
    assert "durable_nb" not in text
    assert "intercept" not in text
    assert look("[type(o.error).__name__ for o in e.outcomes]") == ["ZeroDivisionError"]
    assert plain_text(reply.traceback) == text


@pytest.mark.parametrize(
    ("cell", "line"), [("%%durable\nx = = 1", 2), ("%%durable a\n\n\nx = 1\ny = (", 5), ("%%durable\nreturn 3", 2)]
)
def test_syntax_errors_name_the_line_of_the_cell(kernel: Kernel, cell: str, line: int) -> None:
    """IPython shows the syntax error, with the line as the person counts it."""
    reply = kernel.run(cell)
    # From Python 3.13 on IPython calls an unfinished cell by a subclass of SyntaxError.
    assert (reply.status, reply.ename.endswith(("SyntaxError", "IncompleteInputError"))) == ("error", True)
    assert f"line {line}" in plain_text(reply.of("error")[0]["traceback"])
    assert len(reply.of("error")) == 1


def test_a_syntax_error_does_not_reach_the_engine(kernel: Kernel, look: Look) -> None:
    """Nothing of ours happens when the body cannot be parsed."""
    kernel.run("%%durable\nx = = 1")
    assert look("len(e.requests)") == 0


def test_warnings_and_getsource_use_the_cell_lines(kernel: Kernel) -> None:
    """A warning points at the cell's line and the source of a function is found."""
    reply = kernel.run("%%durable\nimport warnings, inspect\ndef f():\n    return 1  # one\nwarnings.warn('look')")
    assert ":5: UserWarning: look" in reply.text("stderr")
    assert kernel.run("print(inspect.getsource(f))").text() == "def f():\n    return 1  # one\n\n"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "  \n\n"])
def test_empty_body_is_one_usage_line(kernel: Kernel, look: Look, ending: str) -> None:
    """A header alone does nothing and says so."""
    reply = kernel.run("%%durable x" + ending)
    assert (reply.status, reply.ename) == ("error", "UsageError")
    assert reply.text("stderr").count("\n") == 1
    assert look("len(e.requests)") == 0


@pytest.mark.parametrize("line", ["--rerrun", "--max-attempts 3", "--durability exit", "a b", "'open"])
def test_wrong_option_runs_nothing(kernel: Kernel, look: Look, line: str) -> None:
    """A wrong option line is one line on stderr, the reply is `error`, the body does not run."""
    kernel.run("1/0")
    reply = kernel.run(f"%%durable {line}\nran = True")
    assert (reply.status, reply.ename, reply.of("error")) == ("error", "UsageError", [])
    assert reply.text("stderr").startswith("UsageError: ")
    assert reply.text("stderr").count("\n") == 1
    assert "ZeroDivisionError" not in plain_text(reply.traceback)
    assert look("['ran' in globals(), len(e.requests)]") == [False, 0]


@pytest.mark.parametrize("before", ["\n\n", "   \n", "\r\n"])
def test_blank_lines_before_the_header_are_fine(kernel: Kernel, look: Look, before: str) -> None:
    """Only blank lines may precede the header, and they count for line numbers."""
    reply = kernel.run(f"{before}%%durable\n1/0")
    assert f"line {before.count(chr(10)) + 2}" in plain_text(reply.of("error")[0]["traceback"])
    assert look("len(e.requests)") == 1


def test_a_comment_before_the_header_is_refused_as_for_every_cell_magic(kernel: Kernel, look: Look) -> None:
    """IPython wants a cell magic first; ours is no exception."""
    assert kernel.run("# why\n%%durable\nz = 1").status == kernel.run("# why\n%%time\nz = 1").status == "error"
    assert look("len(e.requests)") == 0


def test_completeness_is_that_of_a_cell_magic(kernel: Kernel) -> None:
    """A front end that asks whether a typed cell is complete hears what it hears for `%%time`."""
    for ending in ["", "\n", "\nx = 1", "\nx = 1\n", "\nx = 1\n\n", "\nfor i in x:\n"]:
        durable = kernel.ask("is_complete", "%%durable" + ending)
        other = kernel.ask("is_complete", "%%time" + ending)
        assert durable == other


def test_below_another_magic_the_body_alone_is_durable(kernel: Kernel, look: Look) -> None:
    """`%%time` above `%%durable`: shown and timed as usual, the inner body is the durable cell."""
    reply = kernel.run("%%time\n%%durable inner\nv = 20\nv + 1")
    assert reply.result == "21"
    assert "Wall time" in reply.text()
    assert look("[(q.source, q.name) for q in e.requests]") == [["v = 20\nv + 1\n", "inner"]]
    assert look("[o.result for o in e.outcomes]") == [21]
    assert look("[o.kind for o in e.outcomes[0].outputs]") == ["execute_result"]


def test_run_cell_magic_raises_the_users_exception(kernel: Kernel, look: Look) -> None:
    """Called as a magic, the body's exception can be caught by the caller as itself."""
    code = (
        "try:\n    get_ipython().run_cell_magic('durable', 'inner', 'k = 1\\n1/0')\n"
        "except ZeroDivisionError as error:\n    print('caught', error, k)"
    )
    assert kernel.run(code).text() == "caught division by zero 1\n"
    reply = kernel.run("get_ipython().run_cell_magic('durable', 'inner', '1/0')")
    text = plain_text(reply.of("error")[0]["traceback"])
    assert (reply.ename, len(reply.of("error"))) == ("ZeroDivisionError", 1)
    assert "durable_nb" not in text


def test_await_below_another_magic_is_a_clear_refusal(kernel: Kernel, look: Look) -> None:
    """A nested body with top-level await does not run and says what to do."""
    reply = kernel.run("get_ipython().run_cell_magic('durable', '', 'import asyncio\\nawait asyncio.sleep(0)')")
    assert (reply.status, reply.ename) == ("error", "UsageError")
    assert "first line of its cell" in reply.text("stderr")
    assert look("len(e.requests)") == 0


@pytest.mark.parametrize(
    "cell", ["%%durable a\n%%durable b\nx = 1", "%%durable\nget_ipython().run_cell_magic('durable', '', 'x = 1')"]
)
def test_durable_in_durable_is_refused(kernel: Kernel, look: Look, cell: str) -> None:
    """A durable cell cannot be nested in another."""
    reply = kernel.run(cell)
    assert (reply.status, reply.ename) == ("error", "UsageError")
    assert "cannot be nested" in reply.text("stderr")


def test_durable_on_covers_persons_cells_only(kernel: Kernel, look: Look) -> None:
    """`%durable on` makes every cell durable except silent ones and those made of our own verbs."""
    kernel.run("%durable on")
    kernel.run("a1 = 1")
    kernel.run("a2 = 2", silent=True)
    kernel.run("a3 = 3", store_history=False)
    kernel.run("%durable status")
    kernel.run("# a note\n%durable why x\n%durable status")
    kernel.run("%durable status\na4 = 4")
    kernel.run("%%time\na5 = 5")
    kernel.run("%%time\n%%durable six\na6 = 6")
    kernel.run("%durable off")
    kernel.run("a7 = 7")
    assert look("[(q.source, q.name) for q in e.requests]") == [
        ["a1 = 1", ""],
        ["%durable status\na4 = 4", ""],
        ["%%time\na5 = 5", ""],
        ["a6 = 6\n", "six"],
    ]
    assert look("[q.source for q in e.plain if 'a' + str(7) in q.source]")[0] == "a7 = 7"


def test_plain_cells_are_announced_as_plain(kernel: Kernel, look: Look) -> None:
    """The engine hears of plain cells too, marked as not durable, and not of silent ones."""
    kernel.run("p = 1")
    kernel.run("p = 2", silent=True)
    assert look("[(q.source, q.durable) for q in e.plain]")[0] == ["p = 1", False]
    assert look("len([q for q in e.plain if q.source == 'p = 2'])") == 0


@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(30)"], ids=["loop", "sleep"])
@pytest.mark.parametrize("header", ["%%durable\n", "%%time\n%%durable\n"], ids=["first", "nested"])
def test_interrupt_ends_a_sync_body_at_once(kernel: Kernel, look: Look, header: str, body: str) -> None:
    """The stop button works within 0.2 s, the reply is KeyboardInterrupt, and the engine sees it."""
    took_s = []
    # `%%time` of IPython 8 shows every error of its body and tells the front end that all is well.
    swallowed = header.startswith("%%time") and kernel.run("%%time\n1 / 0").status == "ok"
    # Another process on a busy machine may hold a kernel up; what takes long by itself takes long every time.
    for _ in range(5):
        request = kernel.begin(f"{header}print('started', flush=True)\n{body}")
        kernel.wait_for_text(request, "started")
        time.sleep(0.05)
        before_s = time.monotonic()
        kernel.interrupt()
        reply = kernel.finish(request, timeout_s=20)
        took_s.append(time.monotonic() - before_s)
        assert (reply.status, reply.ename) == (("ok", "") if swallowed else ("error", "KeyboardInterrupt"))
        if took_s[-1] < 0.2:
            break
    assert look("[type(o.error).__name__ for o in e.outcomes]") == ["KeyboardInterrupt"] * len(took_s)
    assert min(took_s) < 0.2


def test_interrupt_of_an_awaiting_body_is_that_of_a_plain_cell(kernel: Kernel, look: Look) -> None:
    """A body that awaits is cancelled with the reply it has without us."""
    replies = []
    for header in ("", "%%durable\n"):
        request = kernel.begin(f"{header}import asyncio\nprint('started', flush=True)\nawait asyncio.sleep(1)")
        kernel.wait_for_text(request, "started")
        kernel.interrupt()
        replies.append(kernel.finish(request, timeout_s=20))
    assert [(r.status, r.ename) for r in replies] == [("error", "CancelledError")] * 2
    assert look("[type(o.error).__name__ for o in e.outcomes]") == ["CancelledError"]


@pytest.mark.parametrize("body", ["r = 1", "import asyncio\nawait asyncio.sleep(0)\nr = 1"], ids=["sync", "async"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_refusal_of_the_engine_is_one_line_and_an_error(kernel: Kernel, look: Look, body: str, after: bool) -> None:
    """A DurableError of the engine is shown as one line without frames, and fails the cell."""
    kernel.run(
        "from durable_nb.errors import LeaseHeld\n"
        "get_ipython().fake_engine.failure = LeaseHeld('Another kernel writes.', hint='Close it.')\n"
        f"get_ipython().fake_engine.fail_after_body = {after}"
    )
    reply = kernel.run("%%durable\n" + body)
    assert (reply.status, reply.ename) == ("error", "LeaseHeld")
    assert [plain_text(o["traceback"]) for o in reply.of("error")] == ["LeaseHeld: Another kernel writes. Close it."]
    assert look("'r' in globals()") is after
    kernel.run("globals().pop('r', None);")


def test_a_bug_of_ours_still_gets_a_reply(kernel: Kernel) -> None:
    """Any other exception of the engine is shown with its traceback, also for a body that awaits."""
    kernel.run("get_ipython().fake_engine.failure = RuntimeError('bug')")
    for body in ("s = 1", "import asyncio\nawait asyncio.sleep(0)"):
        reply = kernel.run("%%durable\n" + body, timeout_s=10)
        assert (reply.status, reply.ename, len(reply.of("error"))) == ("error", "RuntimeError", 1)


def test_verbs_show_json_and_refuse_unknown_words(kernel: Kernel) -> None:
    """`%durable VERB` displays a result, `--json` prints JSON, a wrong verb is one line with the nearest."""
    assert (
        kernel.run("%durable why 'two words'").of("display_data")[0]["data"]["text/plain"] == "fake why ['two words']"
    )
    assert '"verb": "status"' in kernel.run("%durable --json").text()
    reply = kernel.run("%durable stauts")
    assert (reply.status, "Did you mean `status`?" in reply.text("stderr")) == ("error", True)


def test_sql_magic_saves_its_result(kernel: Kernel) -> None:
    """`%%durable_sql --save NAME` keeps the result as a variable, and refuses what is no name."""
    assert kernel.run("%%durable_sql --save got\nSELECT 1").status == "ok"
    assert kernel.run("got").result == "'SELECT 1\\n'"
    assert kernel.run("%%durable_sql --save 1x\nSELECT 1").ename == "UsageError"


def test_help_completion_and_lsmagic_know_the_magics(kernel: Kernel) -> None:
    """`%%durable?` lists what works and nothing that is refused; Tab completes options and verbs."""
    (documentation,) = kernel.run("%%durable?").pages
    assert all(option in documentation for option in ("--rerun", "--skip-if", "--depends", "NAME"))
    assert "--max-attempts" not in documentation
    assert "--rerun" in kernel.ask("complete", "%%durable --re")["matches"]
    assert "status" in kernel.ask("complete", "%durable sta")["matches"]
    listed = kernel.run("%lsmagic").result or ""
    assert all(magic in listed for magic in ("%durable ", "%%durable ", "%%durable_sql"))


LEFT_BEHIND = """
ip = get_ipython()
def state():
    return repr((
        [repr(t) for t in ip.input_transformers_cleanup], sorted(vars(ip)), sorted(vars(ip.compile)),
        sorted(vars(ip.kernel)), sorted(ip.kernel.session.__dict__), sorted(ip.display_pub.__dict__),
        sorted(ip.magics_manager.magics['line']), sorted(ip.magics_manager.magics['cell']),
        sorted(ip.magics_manager.registry), sorted(ip.strdispatchers['complete_command'].strs),
        {k: [repr(f) for f in v] for k, v in ip.events.callbacks.items()},
    ))
"""


def test_unload_leaves_no_trace(fresh: Kernel) -> None:
    """After `%unload_ext` everything that was hooked is as before, and `%%durable` is unknown again."""
    fresh.run(LEFT_BEHIND)
    fresh.run("get_ipython().find_line_magic('load_ext')")  # IPython loads its own magics at their first use
    fresh.run("before = state()")
    assert fresh.run(FAKE).status == "ok"
    assert fresh.run("before == state()").result == "False"
    assert fresh.run("%%durable\n1").status == "ok"
    assert fresh.run(FAKE).status == "ok"
    assert fresh.run("%unload_ext durable_nb.testing.fakeengine").status == "ok"
    assert fresh.run("(before == state()) or print(before, state())").result == "True"
    assert fresh.run("%%durable\n1").ename == "UsageError"


@pytest.mark.parametrize(("restart", "reason"), [(True, "restart"), (False, "shutdown")])
def test_the_wish_to_end_is_heard(fresh: Kernel, tmp_path: Path, restart: bool, reason: str) -> None:
    """A person's restart and a shutdown are told apart, at once and again when the process ends."""
    fresh.run(FAKE)
    fresh.run(
        "import pathlib\nshell = get_ipython().fake_engine.shell\nlog = pathlib.Path('log.txt').resolve()\n"
        "def note(text):\n    with log.open('a') as f: f.write(text + '\\n')\n"
        "shell.on_shutdown(lambda restart: note(f'asked {restart}'))\n"
        "shell.on_exit(lambda: note('exit ' + shell.detach_reason))"
    )
    if restart:
        fresh.restart()
    else:
        fresh.stop()
    assert (tmp_path / "log.txt").read_text() == f"asked {restart}\nexit {reason}\n"


def test_nbclient_stops_at_a_failing_durable_cell(tmp_path: Path) -> None:
    """A headless run ends at the cell that failed; the next one does not run."""
    notebook = nbformat.v4.new_notebook()
    for source in (FAKE, "%%durable bad\nprint('x')\n1/0", "print('never')"):
        notebook.cells.append(nbformat.v4.new_code_cell(source))
    client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}, timeout=60)
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        client.execute()
    assert notebook.cells[2].outputs == []
