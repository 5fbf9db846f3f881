"""What cannot be stored: failed at once, made again by itself, or made again on request, with its inputs as of then."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_nb.testing.kernels import Kernel, Reply
from durable_nb.testing.lives import Lives, said, skipped

MARK = "--on-unserializable recompute"
UNSAVED = "sorted(u.name for u in __import__('durable_nb').unsaved())"
ENGINE = "get_ipython()._durable_nb_extension.engine"


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    """A notebook in a folder of its own."""
    with Lives(tmp_path) as found:
        yield found


def told(reply: Reply) -> str:
    """Return the whole error that a person sees, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join([*reply.traceback, reply.evalue, reply.text("stderr")]))


def test_a_result_that_was_the_value_before_does_not_stand_in_the_way(lives: Lives) -> None:
    """A generator was shown, used up and made anew: the result shown is no input of the cell that makes it."""
    cell = f"%%durable stream {MARK}\nnumbers = (n * n for n in range(3))"
    lives.run("%durable off", cell, "numbers", "list(numbers)", cell)
    assert "`numbers` is back: the cell «stream» ran again" in lives.kill()
    assert [0, 1, 4] == lives.value("list(numbers)")


def test_marked_cells_run_again_by_themselves_with_their_inputs_as_of_then(lives: Lives) -> None:
    """Connection, cursor, generator, sockets, thread and held lock are back; nothing else moved, twice in a row."""
    cells = [
        "import os, random, socket, sqlite3, threading\nfrom pathlib import Path",
        f"%%durable connect {MARK}\nconn = sqlite3.connect('t.db')",
        f"%%durable cursor {MARK}\ncur = conn.cursor()\nprint('loud')",
        "n = 3",
        f"%%durable counts {MARK}\ng = (i for i in range(n))",
        f"%%durable pair {MARK}\na, b = socket.socketpair()",
        f"%%durable locked {MARK}\nlock = threading.Lock()\nlock.acquire();",
        f"%%durable thread {MARK}\nt = threading.Thread(target=print)\nt.start()\nt.join()",
        "random.seed(1)\nos.mkdir('sub')",
        f"%%durable drawn {MARK}\nh = (x for x in [random.random()])",
        "n = 5\nos.chdir('sub')\nz = random.random()",
    ]
    lives.run(*cells)
    stream = lives.value("sum(random.getstate()[1])")
    first = lives.value("__import__('random').Random(1).random()")
    for _ in range(2):
        line = lives.kill()
        assert re.search(r"`conn` is back: the cell «connect» ran again, with its inputs as of c\d", line)
        assert "not back:" not in line
        assert "loud" not in line
        assert lives.value(UNSAVED) == []
        state = lives.value(
            "[sum(random.getstate()[1]), n, os.path.basename(os.getcwd()), sorted(os.listdir('..'))[-1]]"
        )
        assert state == [stream, 5, "sub", "t.db"]
        assert lives.value("[cur.connection is conn, lock.locked(), t.is_alive()]") == [True, True, False]
        assert lives.run("a.send(b'x')\n[b.recv(1), next(g), next(h) == random.Random(1).random()]").result == (
            "[b'x', 0, True]"
        )
    assert isinstance(first, float)
    attempts = lives.verb('sql "SELECT count(*) AS n FROM attempts WHERE recompute"')
    assert attempts == [{"n": 14}]


def test_run_all_after_it_runs_such_cells_and_skips_the_others(lives: Lives) -> None:
    """A cell that makes what cannot be stored runs again under Run All, for what comes below it; others are skipped."""
    cells = [
        "import sqlite3\nn = 3",
        f"%%durable connect {MARK}\nconn = sqlite3.connect(':memory:')",
        f"%%durable counts {MARK}\ng = (i for i in range(n))",
        "first = next(g)",
        "n = 5",
        "x = [n]",
    ]
    lives.run(*cells)
    for _ in range(2):
        assert re.search(r"`g` is as «counts» left it; used since by \[\d+\]\.", lives.kill())
        assert lives.value("[list(g), n]") == [[0, 1, 2], 5]
        assert lives.run_all(cells) == [True, False, False, False, True, True]
        assert lives.value("[list(g), n, x]") == [[1, 2], 5, [5]]


def test_nothing_of_such_a_run_is_shown(lives: Lives) -> None:
    """Prints, displays, results, shell lines and figures stay away; streams that it keeps are the real ones."""
    lives.run(
        "import sys\n%matplotlib inline\nimport matplotlib.pyplot as plt\nfrom IPython.display import display",
        f"%%durable shows {MARK}\nprint('loud')\nprint('loud', file=sys.stderr)\ndisplay('loud')\n!echo loud\n"
        "plt.plot([1])\nlate = (print('late', file=s) for s in [sys.stdout])\n'loud'",
    )
    lives.kernel.sigkill()
    lives.kernel = Kernel(lives.folder, environ={"DURABLE_NB_KEY_FILE": str(lives.folder / "key")})
    reply = lives.kernel.run("%load_ext durable_nb")
    assert "`late` is back" in said(reply)
    assert "loud" not in str(reply.outputs)
    assert "image/png" not in str(reply.outputs)
    spoken = lives.run("list(late)")
    assert ("late\n", "[None]") == (spoken.text(), spoken.result)
    assert lives.value("plt.get_fignums()") == []


def test_the_verb_makes_again_what_it_is_given(lives: Lives) -> None:
    """The verb is the permission: chains are told, errors leave everything as it is, the history says what ran."""
    lives.run("import sqlite3\nx = 1", "%%durable connect\nconn = sqlite3.connect(':memory:')\nkeep = [1]")
    lives.run("cur = conn.cursor()")
    lives.kernel.run("%durable off")
    lives.run("loose = (i for i in 'ab')")
    lives.run("%%durable after\ny = 2")
    line = lives.kill()
    rows = [row.split() for row in line.splitlines() if "%durable recompute" in row]
    assert [["conn", "sqlite3.Connection", "«connect»"], ["cur", "sqlite3.Cursor", "[5]"]] == [r[:3] for r in rows]
    assert "loose" in line
    note = told(lives.kernel.run("conn"))
    assert "`conn` could not be saved and is not back: a sqlite3.Connection is open only in the process" in note
    assert "`%durable recompute conn` runs the cell «connect», which makes it, again as of then." in note
    before = lives.value(f"len({ENGINE}.state.attempts)")
    wrong = {
        "recompute cur": "type `%durable recompute conn cur`",
        "recompute con": "none of that name is missing; nothing ran. Did you mean `conn`?",
        "recompute loose": "it was made outside of the durable cells",
        "recompute": "Not back: `conn`, `cur`, `loose`.",
    }
    assert {} == {v: told(r) for v, w in wrong.items() if w not in told(r := lives.kernel.run(f"%durable {v}"))}
    assert lives.verb("recompute x") == {"recomputed": [], "there_already": ["x"], "cells": []}
    assert before == lives.value(f"len({ENGINE}.state.attempts)")
    inside = told(lives.kernel.run("%%durable inner\nget_ipython().run_line_magic('durable', 'recompute conn')"))
    assert "typed in a cell of its own" in inside
    done = lives.verb("recompute cur conn")
    assert done["recomputed"] == ["conn", "cur"]
    assert lives.value("[cur.connection is conn, keep, 'conn' in dir()]") == [True, [1], True]
    assert lives.value(UNSAVED) == ["loose"]
    started = [e["payload"]["recompute"] for e in lives.verb("events ActivityStarted") if "recompute" in e["payload"]]
    assert [["conn"], ["cur"]] == [s["names"] for s in started]
    assert {"verb"} == {s["asked_by"] for s in started}
    assert lives.status()["cells"][1]["status"] == "completed"
    # The life after the next knows as much as this one.
    lives.run("%%durable last\nw = 1")
    assert "%durable recompute conn" in lives.kill()
    assert lives.verb("recompute conn")["recomputed"] == ["conn"]


def test_files_are_left_alone(lives: Lives, tmp_path: Path) -> None:
    """A cell that writes a file does not run again by itself, nor for the verb without --force."""
    lives.run(
        f"%%durable log {MARK}\nhandle = open('log.txt', 'w')\nhandle.write('kept')\nhandle.flush();",
        f"%%durable later {MARK}\nimport os\nif os.path.exists('flag'):\n    open('other.txt', 'w').close()\n"
        "made = (i for i in 'x')",
        f"%%durable own {MARK}\nimport tempfile\nspool = tempfile.NamedTemporaryFile()",
    )
    (tmp_path / "flag").write_text("")
    (tmp_path / "other.txt").write_text("mine")
    line = lives.kill()
    assert f"`handle` is not made again: the cell «log» opens {tmp_path}/log.txt for writing" in line
    assert f"`made` is not made again: the cell «later» raised FileRefused: durable_nb: {tmp_path}/other.txt" in line
    assert lives.value("os.path.exists(spool.name)") is True
    assert ("kept", "mine") == ((tmp_path / "log.txt").read_text(), (tmp_path / "other.txt").read_text())
    assert "`%durable recompute handle --force` runs it" in told(lives.kernel.run("%durable recompute handle"))
    assert (tmp_path / "log.txt").read_text() == "kept"
    assert lives.verb("recompute handle --force")["recomputed"] == ["handle"]
    assert lives.value("handle.mode") == "w"


def test_a_restore_opens_no_file_of_the_users_for_writing(lives: Lives, tmp_path: Path) -> None:
    """While a kernel restores, the audit hook sees no open for writing outside of our own folders."""
    lives.run(
        "%%durable files\nlog = open('log.txt', 'w')\nlog.write('kept')\nlog.flush()\nmore = open('more.txt', 'a+')",
        "import socket, sqlite3\nserver = socket.socket()\ndb = sqlite3.connect('t.db')\nx = 1",
    )
    lives.kernel.sigkill()
    watch = (
        "import os as _os, sys as _sys\n_seen = []\n"
        "_flags = _os.O_WRONLY | _os.O_RDWR | _os.O_APPEND | _os.O_TRUNC | _os.O_CREAT\n"
        "def _hook(event, args):\n"
        "    if event in ('os.truncate', 'os.remove', 'os.rename', 'socket.bind', 'socket.connect'):\n"
        "        _seen.append((event, str(args[0])))\n"
        "    if event == 'open' and isinstance(args[2], int) and args[2] & _flags:\n"
        "        _seen.append((event, str(args[0])))\n"
        "_sys.addaudithook(_hook)"
    )
    lives.kernel = Kernel(tmp_path, environ={"DURABLE_NB_KEY_FILE": str(tmp_path / "key")})
    assert lives.kernel.run(watch, silent=True).status == "ok"
    assert "log" in said(lives.kernel.run("%load_ext durable_nb"))
    assert lives.value("x") == 1
    own = f"[s for s in _seen if not s[1].startswith(({str(tmp_path / '.durable')!r}, {str(tmp_path / '.ipython')!r}))]"
    seen = [s for s in lives.value(own) if s[1].startswith(str(tmp_path)) or s[1].endswith(".txt")]
    assert [["open", str(tmp_path / "key")]] == seen, "the signing key is ours, and made if it is not there"
    assert (tmp_path / "log.txt").read_text() == "kept"


def test_fail_fails_the_cell_at_its_end(lives: Lives) -> None:
    """The reply is an error that names value, path, type, reason and what to do; the rest of it is saved."""
    reply = lives.kernel.run(
        "%%durable strict --on-unserializable fail\nd = {'k': (i for i in 'ab'), 'v': 1}\nkept = 1"
    )
    text = told(reply)
    assert reply.status == "error"
    assert "`d`['k'] (generator): TypeError: cannot pickle 'generator' object" in text
    assert "`del d`" in text
    assert "--exclude" in text
    assert "--on-unserializable recompute" in text
    assert lives.status()["cells"][0]["status"] == "failed"
    assert lives.value("[d['v'], kept]") == [1, 1]
    lives.run(
        "%%durable --on-unserializable fail\nlen(d)",
        "%%durable closed --on-unserializable fail\nq = (i for i in 'c')\ndel q",
    )
    line = lives.kill()
    assert lives.value("kept") == 1
    assert "%durable recompute" not in line
    assert "made outside of the durable cells, or by one that failed" in told(lives.kernel.run("%durable recompute d"))


def test_a_cell_that_raises_or_ends_the_kernel_costs_nothing_else(lives: Lives, tmp_path: Path) -> None:
    """An error is told and the restore goes on; a cell that took the kernel with it is not run again by itself."""
    lives.run(
        "x = [1]",
        "import os",
        f"%%durable bad {MARK}\nassert not os.path.exists('flag'), 'the flag is up'\nbad = (i for i in 'a')",
        f"%%durable good {MARK}\ngood = (i for i in 'b')",
        f"%%durable deadly {MARK}\nif os.path.exists('die'):\n    os._exit(1)\nlast = (i for i in 'c')",
    )
    (tmp_path / "flag").write_text("")
    line = lives.kill()
    assert "`bad` is not made again: the cell «bad» raised AssertionError: the flag is up." in line
    assert lives.value("[x, next(good), next(last)]") == [[1], "b", "c"]
    assert "recompute bad" in told(lives.kernel.run("bad"))
    assert lives.status()["cells"][2]["status"] == "completed"
    (tmp_path / "flag").unlink()
    assert lives.verb("recompute bad")["recomputed"] == ["bad"]
    (tmp_path / "die").write_text("")
    lives.kernel.sigkill()
    lives.kernel = Kernel(tmp_path, environ={"DURABLE_NB_KEY_FILE": str(tmp_path / "key")})
    with pytest.raises(ChildProcessError):
        lives.kernel.run("%load_ext durable_nb")
    line = lives.kill()
    assert "`last` is not made again: a kernel was lost when the cell «deadly» ran again" in line
    assert lives.value("[x, list(good)]") == [[1], ["b"]]


def test_what_shares_objects_with_it_comes_along(lives: Lives) -> None:
    """Aliases, classes and containers are as they were; inputs that the cell changed are those of before it."""
    lives.run(
        "import sqlite3\nitems = [1, 2]\nseed = [7]",
        f"%%durable many {MARK}\n"
        "class Holder:\n    def __init__(self, what):\n        self.what = what\n"
        "lst = [1]\nh = Holder((x for x in lst))\npair = {'c': lst, 'h': h}\nfree = [5]",
        f"%%durable appended {MARK}\nitems.append(3)\ng = (x for x in items)",
        f"%%durable lazy {MARK}\nlazy = (x for x in seed)\nown = iter([0])",
        "seed.append(8)",
        "d = {'v': [1]}",
        f"%%durable filled {MARK}\nd['k'] = sqlite3.connect(':memory:')",
        "other = Holder(1)",
    )
    line = lives.kill()
    assert "It works on a copy of `seed` as of then, because `seed` is another one now." in line
    assert lives.value("[items, seed, lst, d['v'], free]") == [[1, 2, 3], [7, 8], [1], [1], [5]]
    assert (
        lives.value("[pair['c'] is lst, pair['h'] is h, isinstance(h, Holder), isinstance(other, Holder)]")
        == [True] * 4
    )
    assert lives.value("type(d['k']).__name__") == "Connection"
    lives.run("lst.append(2)\nitems.append(4)\nfound = [list(h.what), list(g), list(lazy)]")
    assert lives.value("found") == [[1, 2], [1, 2, 3, 4], [7]]


def test_a_value_of_then_that_is_another_one_now_is_made_aside(lives: Lives) -> None:
    """A cursor of an earlier connection comes back with one like it, and the later connection stays the live one."""
    lives.run(
        "import sqlite3",
        f"%%durable one {MARK}\nconn = sqlite3.connect(':memory:')\nconn.execute('create table first (x)');",
        f"%%durable cursor {MARK}\ncur = conn.cursor()",
        f"%%durable two {MARK}\nconn = sqlite3.connect(':memory:')",
    )
    lives.kill()
    names = "[r[0] for r in {}.execute('select name from sqlite_master')]"
    assert lives.value(f"[{names.format('cur')}, {names.format('conn')}, cur.connection is conn]") == [
        ["first"],
        [],
        False,
    ]


def test_what_the_cell_spoils_is_put_back(lives: Lives, tmp_path: Path) -> None:
    """Variables that a cell changes only when it runs again are as they were restored, and it says so."""
    lives.run(
        "import os\nshared = [1]\nalso = shared",
        f"%%durable spoils {MARK}\nif os.path.exists('flag'):\n    os.environ['SPOILT'] = '1'\n    shared.append(2)\n"
        "g = (x for x in shared)",
    )
    (tmp_path / "flag").write_text("")
    line = lives.kill()
    assert lives.value("[shared, also is shared, 'SPOILT' in os.environ]") == [[1], True, False]
    assert "put back" in line or "not made again" in line


def test_inputs_that_are_gone_are_told(lives: Lives) -> None:
    """When the checkpoint with the inputs is no longer there, nothing runs and the reason is told."""
    lives.run("n = 3", "%%durable makes\nprint('ran')\ng = (i for i in range(n))", "n = 4", "m = 1")
    lives.kill()
    base = lives.value(f"{ENGINE}.state.run.records[1].inputs.base")
    lives.run(f"{ENGINE}.workflow.delete_checkpoint({base!r});")
    text = told(lives.kernel.run("%durable recompute g"))
    assert f"its inputs as of {base} are gone" in text
    assert lives.value("['g' in dir(), n]") == [False, 4]


def test_what_was_left_out_keeps_its_hint(lives: Lives) -> None:
    """A name left out on request is explained after a skip, and in the life after the next."""
    cells = ["%%durable big --exclude big\nbig = [1]\nx = 2", "del big", "y = 1"]
    lives.run(*cells)
    assert "big" not in lives.kill()
    assert skipped(lives.run(cells[0]))
    assert "`%durable recompute big` runs the cell «big»" in told(lives.kernel.run("big"))
    lives.run("%%durable more\nz = 1")
    assert "%durable recompute big" in lives.kill()
    lives.run("%%durable still\nzz = 1")
    assert "%durable recompute big" in lives.kill()
    assert "left out on request" in told(lives.kernel.run("big"))
    assert lives.verb("recompute big")["recomputed"] == ["big"]
    assert lives.value("[big, x]") == [[1], 2]


def test_setup_cells_and_marked_cells_take_their_turns(lives: Lives) -> None:
    """A marked cell finds the connection of the `--setup` cell above it, as it was made again."""
    lives.run(
        "%%durable connect --setup\nimport sqlite3\nconn = sqlite3.connect(':memory:')",
        f"%%durable cursor {MARK}\ncur = conn.cursor()",
    )
    line = lives.kill()
    assert "--setup cells ran again: «connect»" in line
    assert lives.value("cur.connection is conn") is True
    assert lives.value(UNSAVED) == []
    checkpoint = lives.value(f"{ENGINE}.head.checkpoint_id")
    assert lives.verb(f"restore {checkpoint}")["recomputed"] == ["cur"]
    assert lives.value("cur.connection is conn") is True


def test_the_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`durable-nb recompute` has no kernel to act in, and says where to type it."""
    from durable_nb import cli

    monkeypatch.setenv("DURABLE_NB_KEY_FILE", str(tmp_path / "key"))
    with Lives(tmp_path) as lives:
        lives.run("x = 1")
    assert cli.main(["recompute", "conn", str(tmp_path)]) == cli.USAGE
    assert "type `%durable recompute conn` in the notebook" in capsys.readouterr().err
