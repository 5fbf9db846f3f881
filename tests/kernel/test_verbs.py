"""Every verb through its two doors, the magic and the command: what it tells, its JSON, and how it says no."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_nb.testing.kernels import Kernel, Reply
from durable_nb.testing.lives import Lives, said
from durable_nb.verbs import LATER, VERBS

LOAD = "%load_ext durable_nb"
READS = (
    "status", "why a", "why [2]", "checkpoints", "events", "events ActivityFailed --last 1", "events --activity a",
    'sql "SELECT name, status FROM activities ORDER BY name"', "verify", "gc --dry-run", "list", "doctor",
)  # fmt: skip
ACTS = ("restore", "restore c1", "restore c2 x", "verify --repair", "gc", "trust", "new")
ELSEWHERE = {"demo", "recompute"}  # these have files of their own
# What magic and command tell alike; the others know more in a live kernel.
ALIKE = ("checkpoints", "events", 'sql "SELECT name, status FROM activities ORDER BY name"', "verify", "gc --dry-run")
WRONG = {
    "": ("why", "needs a cell: its name, or the number that stood beside it. Cells: a, bad, b."),
    "unknown cell": ("why aa", "No cell 'aa' in this run. Did you mean a?"),
    "unknown verb": ("stauts", "Did you mean `status`?"),
    "later verb": ("undo", "comes with a later version"),
    "unknown flag": ("verify --repiar", "Did you mean --repair? Usage: verify [--repair] [--json]"),
    "short flag": ("status -x", "`status` has no option -x"),
    "flag with value": ("gc --dry-run=yes", "--dry-run takes no value"),
    "flag without value": ("events --last", "--last needs a value"),
    "no number": ("events --last x", "--last takes a whole number"),
    "too many words": ("status more", "`status` takes no 'more'"),
    "no statement": ("sql", "`sql` needs a statement"),
    "wrong statement": ('sql "SELEC 1"', "The query did not run"),
}


def _strict(text: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def command(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `durable-nb` in a folder."""
    package = str(Path(__file__).parents[2])
    env = {**os.environ, "DURABLE_NB_KEY_FILE": str(folder / "key"), "PYTHONPATH": package, **environ}
    line = [sys.executable, "-m", "durable_nb.cli", *words]
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def words_of(line: str) -> list[str]:
    """Split a verb's line as a shell does."""
    return [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)]


def told(reply: Reply) -> str:
    """Return what a usage error shows."""
    assert (reply.status, reply.ename) == ("error", "UsageError")
    assert reply.text("stderr").rstrip("\n").count("\n") == 0
    return reply.text("stderr")


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """A notebook in its second life, after a loss, with a finished and a failed cell."""
    with Lives(tmp_path_factory.mktemp("ein Ordner é"), durable=False) as notebook:
        notebook.run("%%durable a\nx = 1\nx")
        assert notebook.kernel.run("%%durable bad\n1/0").status == "error"
        notebook.run("%%durable b\nimport threading\nlock = threading.Lock()\nheld = lock.acquire()")
        notebook.kill()
        yield notebook


@pytest.mark.parametrize("line", READS)
def test_a_verb_tells_as_text_and_as_json(lives: Lives, line: str) -> None:
    """The magic displays text and HTML, the command prints text; with --json both print valid JSON."""
    reply = lives.run(f"%durable {line}", store_history=False)
    (shown,) = [output["data"] for output in reply.of("display_data")]
    printed = command(lives.folder, *words_of(line))
    assert (True, True, 0) == (
        bool(shown["text/plain"].strip()),
        "<script" not in shown["text/html"],
        printed.returncode,
    )
    assert printed.stdout.strip()
    in_magic = lives.verb(line)
    from_command = _strict(command(lives.folder, *words_of(line), "--json").stdout)
    assert (type(in_magic), bool(in_magic)) == (type(from_command), bool(from_command))


@pytest.mark.parametrize("line", ALIKE)
def test_magic_and_command_tell_the_same(lives: Lives, line: str) -> None:
    """What is read from the history alone is the same through both doors."""
    assert lives.verb(line) == _strict(command(lives.folder, *words_of(line), "--json").stdout)


def test_every_verb_is_in_these_tests() -> None:
    """A new verb needs a line here, or a file of its own."""
    assert set(VERBS) - ELSEWHERE == {words_of(line)[0] for line in (*READS, *ACTS)}


@pytest.mark.parametrize(("line", "words"), WRONG.values(), ids=[key or "no cell" for key in WRONG])
def test_a_wrong_line_is_one_sentence_and_does_nothing(lives: Lives, line: str, words: str) -> None:
    """A usage error is one line with what to type instead, exit code 2, and leaves no event."""
    before = lives.verb("events --last 1")
    assert words in told(lives.kernel.run(f"%durable {line}", store_history=False))
    asked = command(lives.folder, *words_of(line))
    assert (2, "", True, 1) == (asked.returncode, asked.stdout, words in asked.stderr, asked.stderr.count("\n"))
    assert before == lives.verb("events --last 1")


@pytest.mark.parametrize("verb", sorted(LATER))
def test_verbs_of_later_versions_are_refused_by_name(lives: Lives, verb: str) -> None:
    """Nobody hunts a typo in a verb that is only planned."""
    assert f"`{verb}` comes with a later version of durable_nb; nothing was done." in told(
        lives.kernel.run(f"%durable {verb}", store_history=False)
    )


def test_impossible_things_are_exit_code_3(lives: Lives, tmp_path: Path) -> None:
    """Missing histories, checkpoints and notebooks: one line, exit code 3, and the magic says the same."""
    assert "There is no checkpoint c99; nothing changed." in lives.kernel.run("%durable restore c99").evalue
    assert "There is no history in" in lives.kernel.run(f"%durable trust '{tmp_path}'").evalue
    for words in (("restore", "c99"), ("status", str(tmp_path)), ("status", "nope.ipynb"), ("trust", str(tmp_path))):
        refused = command(lives.folder, *words)
        assert (3, "", 1) == (refused.returncode, refused.stdout, len(refused.stderr.strip().splitlines()))


def test_what_another_key_signed_says_how_to_trust_it(tmp_path: Path) -> None:
    """Load, commands and `verify` name the folder and the one line to type, and after it everything is there."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    with Lives(folder) as theirs:
        theirs.run("secret = 41")
    mine = {"DURABLE_NB_KEY_FILE": str(tmp_path / "mine" / "key")}
    advice = f"durable-nb trust {shlex.quote(str(folder / '.durable'))}"
    with Kernel(folder, environ=mine) as kernel:
        assert advice in kernel.run("%load_ext durable_nb").evalue
        shown = {verb: command(folder, verb, ".", **mine) for verb in ("status", "verify", "list", "doctor")}
        assert [3, 1, 0, 1] == [run.returncode for run in shown.values()], shown
        assert advice in shown["status"].stderr
        assert advice in shown["verify"].stdout
        assert "--repair" not in shown["verify"].stdout
        assert all("durable-nb trust" in shown[verb].stdout for verb in ("list", "doctor"))
        assert 0 == command(folder, *shlex.split(advice)[1:], **mine).returncode
        kernel.run("%load_ext durable_nb")
        assert "41\n" == kernel.run("print(secret)").text()


def test_a_command_beside_a_live_kernel_only_reads(lives: Lives) -> None:
    """What would change the history is refused with the process that owns it; exit code 3, nothing changed."""
    before = lives.verb("events --last 1")
    for words in (("restore",), ("new",), ("gc",), ("verify", "--repair")):
        refused = command(lives.folder, *words)
        assert (3, True) == (refused.returncode, f"process {lives.kernel.pid} " in refused.stderr)
    assert before == lives.verb("events --last 1")


def test_help_of_all_verbs_and_of_one(lives: Lives) -> None:
    """`help`, `help VERB` and `VERB --help` work in both doors and do nothing else."""
    everything = said(lives.run("%durable help"))
    assert [verb for verb in VERBS if verb not in everything] == []
    assert "usage: %durable why CELL [--json]" in said(lives.run("%durable why --help"))
    assert "usage: durable-nb gc [--dry-run] [--json]" in command(lives.folder, "help", "gc").stdout
    assert command(lives.folder).stdout == command(lives.folder, "--help").stdout
    assert "Type %%durable? in a cell" in told(lives.kernel.run("%%durable --help\n1"))


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("%durable ve", ["verify"]),
        ("%durable why ", ["a", "bad", "b", "--json"]),
        ("%durable verify --", ["--repair", "--json"]),
        ("%%durable --re", ["--rerun"]),
        ("%%durable_sql --", ["--save"]),
    ],
)
def test_tab_offers_what_fits_and_nothing_else(lives: Lives, text: str, offered: list[str]) -> None:
    """Python's names are left out where a word of ours is expected."""
    assert offered == lives.kernel.ask("complete", text)["matches"]


def test_json_of_a_query_is_json(lives: Lives) -> None:
    """Not a number, infinities, two columns of one name, maps and bytes: still valid, nothing left out."""
    query = "SELECT 'nan'::DOUBLE AS a, 1 AS a, 'inf'::DOUBLE AS b, MAP {1: 2} AS m, TIMESTAMP '2024-01-02' AS t"
    expected = [{"a": "nan", "a_1": 1, "b": "inf", "m": {"1": 2}, "t": "2024-01-02T00:00:00Z"}]
    assert expected == _strict(command(lives.folder, "sql", query, "--json").stdout)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("--sve x", "Did you mean --save?"),
        ("x", "has no argument x"),
        ("--save 1x", "'1x' is not one"),
        ("--save class", "'class' is not one"),
        ("--save", "'' is not one"),
    ],
)
def test_wrong_lines_of_the_sql_magic_run_nothing(lives: Lives, header: str, words: str) -> None:
    """`%%durable_sql` takes --save NAME and says so."""
    assert words in told(lives.kernel.run(f"%%durable_sql {header}\nSELECT 1"))


def test_sql_shows_a_dataframe_and_keeps_it(lives: Lives) -> None:
    """Both ways to query show pandas' table; --save makes a variable."""
    shown = lives.run("%%durable_sql --save kept\nSELECT name, status FROM activities ORDER BY name").of("display_data")
    assert "dataframe" in shown[0]["data"]["text/html"]
    assert "dataframe" in lives.run("%durable sql SELECT 1 AS one").of("display_data")[0]["data"]["text/html"]
    assert lives.run("list(kept.name), type(kept).__name__").result == "(['a', 'b', 'bad'], 'DataFrame')"


def test_names_that_are_not_back_say_so_when_used(lives: Lives) -> None:
    """A NameError after a restore tells what was missing and which cell makes it."""
    reply = lives.kernel.run("%%durable uses\nlock.locked()")
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply.traceback))
    assert (reply.ename, "`lock` could not be saved and is not back: a lock" in text) == ("NameError", True)
    assert "`%durable recompute lock` runs the cell «b», which makes it, again as of then." in text
    assert "could not be saved" not in "\n".join(lives.kernel.run("%%durable other\nunheard_of").traceback)


def test_acting_verbs_in_a_kernel(tmp_path: Path) -> None:
    """restore, verify --repair, gc, trust and new act at once and tell it as JSON."""
    with Lives(tmp_path, durable=False) as lives:
        lives.run("%%durable a\nx = 1", "%%durable b\nx = 2", "x = 3")
        found = {line: lives.verb(line) for line in ("restore c2 x", "verify --repair", "gc", "trust")}
        assert lives.run("x").result == "2"
        assert (["x"], True, False) == (
            found["restore c2 x"]["names"],
            found["verify --repair"]["ok"],
            found["gc"]["dry_run"],
        )
        assert lives.verb("restore c1")["checkpoint"] == "c1"
        assert lives.run("x").result == "1"
        run_id = lives.verb("new")["run_id"]
        assert (run_id, []) == (lives.verb("status")["run_id"], lives.verb("status")["cells"])


def test_restoring_a_variable_names_what_moves_with_it(tmp_path: Path) -> None:
    """The line and the JSON of `restore c1 b` name the variables that share objects with it, and those alone."""
    with Lives(tmp_path, durable=False) as lives:
        lives.run("%%durable a\ninner = [1]\nb = [inner]\nalone = 1", "%%durable b\ninner.append(2)\nalone = 2")
        line = said(lives.run("%durable restore c1 b"))
        assert line == "b: back as c1 has it; so is inner, which belongs to it."
        assert lives.verb("restore c2 b")["with"] == ["inner"]
        assert lives.verb("restore c2 alone")["with"] == []
        assert lives.run("b, inner, b[0] is inner, alone").result == "([[1, 2]], [1, 2], True, 2)"


def test_acting_commands_are_for_the_next_kernel(tmp_path: Path) -> None:
    """`restore c1` sets where the next kernel begins, `new` makes it a fresh run."""
    with Lives(tmp_path, durable=False) as lives:
        lives.run("%%durable a\nx = 1", "%%durable b\nx = 2")
    assert _strict(command(tmp_path, "restore", "c1", "--json").stdout)["next_kernel"] == "c1"
    with Lives(tmp_path, durable=False) as lives:
        assert lives.run("x").result == "1"
    assert command(tmp_path, "new").returncode == 0
    with Lives(tmp_path, durable=False) as lives:
        assert lives.kernel.run("x").ename == "NameError"


def test_damage_is_exit_code_1(tmp_path: Path) -> None:
    """`verify` of a damaged folder says no, `--repair` sets the damage aside, and then it is whole."""
    with Lives(tmp_path, durable=False) as lives:
        lives.run("%%durable a\nimport os\nx = os.urandom(500_000)", "%%durable b\ny = 2")
    (pack,) = (tmp_path / ".durable" / "packs").glob("*.pack")
    content = bytearray(pack.read_bytes())
    content[1000] ^= 1
    pack.write_bytes(content)
    codes = [command(tmp_path, *words).returncode for words in (("verify",), ("doctor",), ("verify", "--repair"))]
    assert [1, 1] == codes[:2]
    assert "set aside" in command(tmp_path, "verify", "--repair").stdout or command(tmp_path, "verify").returncode == 0


def test_verbs_of_a_folder_need_no_notebook(tmp_path: Path) -> None:
    """Two notebooks in a folder: list, sql, verify, gc and doctor work; the others ask which one."""
    for name in ("one", "zwei 🎉"):
        told_by = {"JPY_SESSION_NAME": str(tmp_path / f"{name}.ipynb")}
        with Lives(tmp_path, durable=False, environ=told_by) as lives:
            lives.run("%%durable a\nx = 1")
    assert ["one", "zwei 🎉"] == [w["workflow_id"] for w in _strict(command(tmp_path, "list", "--json").stdout)]
    for words in (
        ("sql", "SELECT 1"),
        ("verify",),
        ("gc",),
        ("doctor",),
        ("status", "zwei 🎉.ipynb"),
        ("why", "a", "one.ipynb"),
    ):
        assert (words, 0) == (words, command(tmp_path, *words).returncode)
    asked = command(tmp_path, "status")
    assert (2, "Which workflow?" in asked.stderr) == (asked.returncode, True)


def test_notebooks_of_one_name_stay_apart_in_a_shared_folder(tmp_path: Path) -> None:
    """With DURABLE_NB_DIR the histories of a/n.ipynb and b/n.ipynb are two."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        told_by = {"JPY_SESSION_NAME": str(tmp_path / folder / "n.ipynb"), "DURABLE_NB_DIR": str(tmp_path / "shared")}
        with Lives(tmp_path / folder, durable=False, environ=told_by) as lives:
            assert lives.loaded == f"durable_nb: a new history begins in {tmp_path / 'shared'}."
            lives.run(f"%%durable cell\nx = {folder!r}")
    listed = _strict(
        command(
            tmp_path / "b",
            "list",
            "--json",
            DURABLE_NB_DIR=str(tmp_path / "shared"),
            DURABLE_NB_KEY_FILE=str(tmp_path / "b" / "key"),
        ).stdout
    )
    assert ["a/n", "b/n"] == [workflow["workflow_id"] for workflow in listed]


def test_visual_studio_code_tells_the_notebook(tmp_path: Path) -> None:
    """`__vsc_ipynb_file__` names the workflow and the folder."""
    (tmp_path / "sub").mkdir()
    with Kernel(tmp_path, environ={"DURABLE_NB_KEY_FILE": str(tmp_path / "key")}) as kernel:
        kernel.run(f"__vsc_ipynb_file__ = {str(tmp_path / 'sub' / 'My note.ipynb')!r}")
        assert kernel.run(LOAD).status == "ok"
        assert "workflow My note ·" in said(kernel.run("%durable status"))
    assert (tmp_path / "sub" / ".durable" / "FORMAT").is_file()


@pytest.mark.parametrize("name", ["a/b c", "🎉/../x", "..", "x" * 300])
def test_any_text_is_a_workflows_name(tmp_path: Path, name: str) -> None:
    """Slashes, dots, emoji and length do no harm to the disk, and the name comes back whole."""
    with Lives(tmp_path, durable=False, environ={"DURABLE_NB_WORKFLOW": name}) as lives:
        lives.run("%%durable a\nx = 1")
        assert [name] == [workflow["workflow_id"] for workflow in lives.verb("list")]
    assert {"FORMAT", "workflows"} <= {path.name for path in (tmp_path / ".durable").iterdir()}
    assert (name, 1) == (
        _strict(command(tmp_path, "status", "--json").stdout)["workflow_id"],
        len(list((tmp_path / ".durable" / "workflows").iterdir())),
    )


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"DURABLE_NB_SKIP": "alwys"}, "DURABLE_NB_SKIP=alwys is not one of"),
        ({"DURABLE_NB_DIR": "/proc/none"}, "Opening this notebook's history failed"),
        ({"DURABLE_NB_KEY_FILE": "/proc/none/key"}, "Name a writable place in DURABLE_NB_KEY_FILE."),
    ],
)
def test_loading_that_fails_is_one_line(tmp_path: Path, environ: dict[str, str], words: str) -> None:
    """No frames of ours, and the kernel works on as before."""
    with Kernel(tmp_path, environ={"DURABLE_NB_KEY_FILE": str(tmp_path / "key"), **environ}) as kernel:
        reply = kernel.run(LOAD)
        assert (reply.status, words in reply.evalue) == ("error", True)
        assert "durable_nb/" not in "\n".join(reply.traceback)
        assert kernel.run("1 + 1").result == "2"


def test_loading_leaves_the_namespace_and_the_imports_alone(tmp_path: Path) -> None:
    """Nothing of ours in `dir()` and `%whos`; DuckDB, dill and the data libraries wait until they are needed."""
    with Kernel(tmp_path, environ={"DURABLE_NB_KEY_FILE": str(tmp_path / "key")}) as kernel:
        before = kernel.run("print([n for n in dir() if not n.startswith('_i')])").text()
        kernel.run(LOAD)
        assert before == kernel.run("print([n for n in dir() if not n.startswith('_i')])").text()
        assert kernel.run("%whos").text() == "Interactive namespace is empty.\n"
        heavy = (
            "import sys; print([m for m in ('duckdb', 'dill', 'numpy', 'pandas', 'matplotlib') if m in sys.modules])"
        )
        assert kernel.run(heavy).text() == "[]\n"


CONFIGURED = "c.InteractiveShellApp.extensions = ['durable_nb']\n"


def test_loaded_by_ipythons_configuration(tmp_path: Path) -> None:
    """The first cell tells what is back, and variables stay through kernels that never run their cell again."""
    profile = tmp_path / ".ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_config.py").write_text(CONFIGURED)
    environ = {"DURABLE_NB_KEY_FILE": str(tmp_path / "key")}
    with Kernel(tmp_path, environ=environ) as kernel:
        kernel.run("%%durable a\nx = 1")
        kernel.sigkill()
    for how in ("was lost", "was shut down"):
        with Kernel(tmp_path, environ=environ) as kernel:
            reply = kernel.run("x")
            assert (reply.result, how in said(reply)) == ("1", True)
            assert kernel.run("%who").text().split() == ["x"]
            assert kernel.run("%durable status").status == "ok"


def test_ipython_in_a_terminal(tmp_path: Path) -> None:
    """Cells, verbs and skips as text; what a session left in memory at its end is there in the next one."""
    pexpect = pytest.importorskip("pexpect")
    prompt = r"In \[\d+\]: "

    def session(*cells: str) -> list[str]:
        environ = {**os.environ, "DURABLE_NB_KEY_FILE": str(tmp_path / "key"), "IPYTHONDIR": str(tmp_path / ".ipython"),
                   "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "dumb"}  # fmt: skip
        options = ["-m", "IPython", "--no-banner", "--simple-prompt", "--colors=NoColor", "--no-confirm-exit"]
        child = pexpect.spawn(
            sys.executable, options, cwd=str(tmp_path), env=environ, encoding="utf-8", timeout=60, echo=False
        )
        child.expect(prompt)
        shown = []
        for cell in cells:
            lines = [*cell.split("\n"), "", ""]
            at = 2
            while at == 2:
                child.sendline(lines.pop(0))
                at = child.expect([prompt, pexpect.EOF, r"\.\.\.: "])
            shown.append(child.before.replace("\r", ""))
        child.sendline("exit")
        child.expect(pexpect.EOF)
        assert "durable_nb" not in child.before
        return shown

    first = session(LOAD, "%%durable a\nx = 5\nprint('hi')\nx * 2", "%durable status", "z = 7")
    assert (True, True) == ("hi\nOut[2]: 10" in first[1], "a     completed" in first[2])
    second = session(LOAD, "x, z", "%%durable a\nx = 5\nprint('hi')\nx * 2")
    assert (True, True) == ("2 variables of 1 finished cell are back" in second[0], "(5, 7)" in second[1])
    assert (True, True) == ("· skipped ·" in second[2], re.search(r"hi\nOut\[\d+\]: 10", second[2]) is not None)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB; needs the right to mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"NOT TESTED: a full and a read-only disk (mounting needs root: {error})")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_full_and_a_read_only_disk(small_disk: Path, tmp_path: Path, durability: str) -> None:
    """Cells run on, the message says what is safe, the next cell saves; read-only the history can still be read."""
    environ = {"DURABLE_NB_KEY_FILE": str(tmp_path / "key"), "IPYTHONDIR": str(tmp_path / "ipython"),
               "DURABLE_NB_DURABILITY": durability}  # fmt: skip
    with Kernel(small_disk, environ=environ) as kernel:
        kernel.run(LOAD)
        for number in range(200):
            kernel.run(f"%%durable a{number}\nx = 1")
            status = json.loads(kernel.run("%durable status --json").text())
            if durability == "sync" or status["writer_pid"]:
                break
        assert (status["writer_pid"] is not None) is (durability == "async")
        big = kernel.run("%%durable big\nimport os\nb = os.urandom(8 << 20)\nlen(b)")
        assert (big.status, big.result) == ("ok", str(8 << 20))
        assert f"Your variables are in memory as the cell left them and checkpoint c{number + 1} is intact" in said(big)
        cells = json.loads(kernel.run("%durable status --json").text())["cells"]
        assert ["completed", "not saved"] == [cell["status"] for cell in cells][-2:]
        kernel.run("del b")
        assert said(kernel.run("%%durable d\nz = 3")) == ""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with Kernel(small_disk, environ=environ) as kernel:
        line = said(kernel.run(LOAD))
        assert ("Read-only file system" in line, "name a folder that is in DURABLE_NB_DIR" in line) == (True, True)
        assert kernel.run("%%durable new\nx = 1\nx").result == "1"
        assert "3" == (kernel.run("%durable restore"), kernel.run("z"))[1].result
        assert kernel.run("%durable why a0").status == "ok"
