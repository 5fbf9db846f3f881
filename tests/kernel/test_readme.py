"""Every command and snippet of README.md is executed, in order, as a reader would."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import durable_nb
from durable_nb.kernel.options import working_options
from durable_nb.testing.kernels import Kernel
from durable_nb.verbs import VERBS
from durable_nb.verbs.arguments import FLAGS

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_BLOCK = re.compile(
    r"^```(?P<kind>\w*)\n(?P<body>.*?)^```$|^<!-- (?P<mark>killed|stopped) -->$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block, or a mark (kind «killed»: the block before kills; «stopped»: the kernel ends here)."""

    kind: str
    body: str
    line: int


def blocks() -> list[Block]:
    """Return the blocks and marks of README.md in order."""
    text = README.read_text(encoding="utf-8")
    return [
        Block(kind=m["mark"] or m["kind"], body=m["body"] or "", line=text[: m.start()].count("\n") + 1)
        for m in _BLOCK.finditer(text)
    ]


class Reader:
    """Somebody who follows README.md: a notebook with its kernel, and a shell in the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notebook = folder / "analysis.ipynb"
        self.notebook.write_text("{}")
        self.environ = {"DURABLE_NB_KEY_FILE": str(folder / "key")}
        self.kernel: Kernel | None = None

    def cell(self, block: Block, *, dies: bool) -> None:
        """Run a cell; it must end well, or the kernel must die in it."""
        if self.kernel is None:
            self.kernel = Kernel(self.folder, environ={**self.environ, "JPY_SESSION_NAME": str(self.notebook)})
        if dies:
            with pytest.raises(ChildProcessError):
                self.kernel.run(block.body)
            self.stop()
            return
        reply = self.kernel.run(block.body)
        assert reply.status == "ok", f"README.md line {block.line}: {reply.ename}: {reply.evalue}\n{reply.traceback}"

    def query(self, block: Block) -> None:
        """Run a query in the notebook, or from the shell when the kernel has ended."""
        if self.kernel is not None:
            self.cell(Block(kind="python", body=f"%%durable_sql\n{block.body}", line=block.line), dies=False)
        else:
            command = f"durable-nb sql analysis.ipynb {shlex.quote(block.body)}"
            self.shell(Block(kind="bash", body=command, line=block.line))

    def stop(self) -> None:
        """End the kernel, if there is one."""
        if self.kernel is not None:
            self.kernel.stop()
            self.kernel = None

    def shell(self, block: Block) -> None:
        """Run a block of commands; each must succeed."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        package = str(ROOT)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.body],
            cwd=self.folder,
            env={**os.environ, **self.environ, "PATH": path, "PYTHONPATH": package},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"README.md line {block.line}: {done.stdout}{done.stderr}"


@pytest.mark.timeout(400)
def test_every_snippet_runs(tmp_path: Path) -> None:
    """Cells run in a real kernel, which is killed where README.md says so; queries and commands run as written."""
    reader = Reader(tmp_path)
    found = blocks()
    try:
        for at, block in enumerate(found):
            dies = at + 1 < len(found) and found[at + 1].kind == "killed"
            if block.kind == "python":
                reader.cell(block, dies=dies)
            elif block.kind == "sql":
                reader.query(block)
            elif block.kind == "bash":
                reader.shell(block)
            elif block.kind == "stopped":
                reader.stop()
    finally:
        reader.stop()
    kinds = {block.kind for block in found}
    assert kinds == {"python", "bash", "sql", "text", "killed", "stopped"}


def test_every_block_says_what_it_is() -> None:
    """Each fence names its language, so that none escapes the test above unseen; `text` is for what cannot run."""
    fences = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("```")]
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= {"```python", "```bash", "```sql", "```text"}
    assert set(fences[1::2]) == {"```"}
    # Installing and `make` would set a second environment up; the tree of the data folder is no command.
    assert sum(fence == "```text" for fence in fences) == 3


def test_readme_names_every_verb_option_and_setting() -> None:
    """The reference is complete: verbs with their flags, working options, settings, views."""
    text = README.read_text(encoding="utf-8")
    missing = [verb for verb in [*VERBS, "demo"] if not re.search(rf"^\| `{verb}\b", text, re.MULTILINE)]
    missing += [f"{verb} {flag}" for verb, (_, _, flags) in FLAGS.items() for flag in flags if flag not in text]
    missing += [option.name for option in working_options() if f"`{option.name}" not in text]
    settings = ("SKIP", "ON_RESTART", "RESTORE", "UNKNOWN_INPUTS", "DIR", "WORKFLOW", "KEY_FILE")
    missing += [name for name in settings if f"`DURABLE_NB_{name}`" not in text]
    views = (ROOT / "durable_nb" / "projection" / "views.sql").read_text(encoding="utf-8")
    missing += [view for view in re.findall(r"^CREATE VIEW (\w+)", views, re.MULTILINE) if f"| `{view}` |" not in text]
    assert missing == []


def test_links_of_the_documents_lead_somewhere() -> None:
    """Every relative link in a document of the repository names a file, and every anchor a heading."""
    broken = []
    documents = [README, *ROOT.glob("*.md"), *(ROOT / "durable_nb").rglob("*.md"), *(ROOT / "tests").glob("*.md")]
    for document in documents:
        text = document.read_text(encoding="utf-8")
        headings = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            place, _, anchor = target.partition("#")
            if "://" in place:
                continue
            if place and not (document.parent / place).exists():
                broken.append(f"{document.name}: {target}")
            if not place and anchor not in headings:
                broken.append(f"{document.name}: {target}")
    assert broken == []


def test_the_version_is_one() -> None:
    """The package, its metadata and the changelog name the same version."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{durable_nb.__version__}"' in project
    assert f"## {durable_nb.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
