"""The boundaries of the architecture, read from the source: layers, ownership, sizes."""

# The expected value stands on the left in every test.

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import durable_nb

ROOT = Path(durable_nb.__file__).parent
MAX_LINES = 450

# Lowest first. Packages and modules of one row are siblings: they never import each other.
LAYERS = (
    ("errors",),
    ("model",),
    ("history", "retry", "config", "ports", "clock", "resources", "chunking"),
    ("reuse",),
    ("capture", "store", "projection"),
    ("reducers",),
    ("activities",),
    ("engine",),
    ("panel",),
    ("verbs",),
    ("kernel", "runner", "server", "executors"),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
# `testing` holds fakes of every layer and is imported by tests only; the package's own module only forwards, lazily.
OUTSIDE = frozenset({"testing", "__init__"})
# These modules forward to higher or heavier ones only when they are asked, so that importing them stays cheap.
FORWARDERS = frozenset({"__init__.py", "cli.py"})

# Only these may import what is named, wherever in the file.
OWNERS = {
    "duckdb": ("projection/",),
    "dill": ("capture/codec.py", "capture/definitions.py", "capture/reducers/"),
    "cloudpickle": ("capture/codec.py", "capture/definitions.py", "capture/reducers/"),
    "IPython": ("kernel/",),
    "ipykernel": ("kernel/",),
    "ipywidgets": ("panel.py",),
    "jupyter_server": ("server.py", "server/"),
    "nbclient": ("runner.py", "runner/", "testing/"),
}
# Modules of the standard library that not every platform has.
PLATFORM = frozenset({"_abc", "ctypes", "fcntl", "msvcrt", "pwd", "resource", "winreg"})
HEAVY = frozenset({"torch", "numpy", "pandas", "duckdb", "dill", "cloudpickle", "IPython", "matplotlib"})
EDGES_THAT_WRITE = {
    "store/files.py": "it is the one that does",
    "kernel/demo.py": "writes the notebook that it shows",
    "testing/": "prepares folders for tests",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module, where it is imported and whether that is inside a function."""

    file: str
    line: int
    module: str
    in_function: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def files() -> list[str]:
    """Return the package's source files, relative to it."""
    return sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.py") if "__pycache__" not in p.parts)


@cache
def tree(file: str) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def nodes(parent: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every node with whether it is inside a function."""
    for node in ast.iter_child_nodes(parent):
        yield node, in_function
        inside = in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from nodes(node, inside)


@cache
def imports() -> tuple[Import, ...]:
    """Return every import of the package."""
    found = []
    for file in files():
        for node, inside in nodes(tree(file)):
            modules: list[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                whole = base == "durable_nb"
                modules = [f"{base}.{alias.name}" for alias in node.names] if whole else [base]
            found += [Import(file=file, line=node.lineno, module=m, in_function=inside) for m in modules]
    return tuple(found)


def part(file: str) -> str:
    """Return the package or module directly below the root that a file belongs to."""
    return file.partition("/")[0].removesuffix(".py")


def target(module: str) -> str | None:
    """Return the part of our package that an import names, None for other packages."""
    names = module.split(".")
    # `from durable_nb import __version__` names a value of the package itself.
    return names[1] if names[0] == "durable_nb" and len(names) > 1 and not names[1].startswith("__") else None


def owned(file: str, owners: tuple[str, ...]) -> bool:
    """Tell whether a file is one of the owners or in one of their folders."""
    return any(file == owner or (owner.endswith("/") and file.startswith(owner)) for owner in owners)


def test_every_part_has_a_layer() -> None:
    """A new module says where it belongs."""
    expected: set[str] = set()
    assert expected == {part(f) for f in files()} - set(RANK) - OUTSIDE


def test_imports_point_downward() -> None:
    """No part imports a higher one or a sibling."""
    wrong = []
    for found in imports():
        here, there = part(found.file), target(found.module)
        if there is None or here in OUTSIDE or here == there:
            continue
        if there not in RANK or RANK[there] >= RANK[here]:
            wrong.append(str(found))
    expected: list[str] = []
    assert expected == wrong


def test_only_tests_import_the_fakes() -> None:
    """No part of the package depends on `testing`."""
    expected: list[str] = []
    assert expected == [str(i) for i in imports() if target(i.module) == "testing" and part(i.file) != "testing"]


def test_imports_are_absolute() -> None:
    """Relative imports hide which layer they reach."""
    expected: list[str] = []
    assert expected == [str(i) for i in imports() if i.module.startswith(".")]


def test_errors_and_model_stand_on_the_standard_library() -> None:
    """The bottom of the chain needs nothing that is to be installed."""
    bottom = [i for i in imports() if i.file in ("errors.py", "model.py", "ports.py", "history.py")]
    wrong = [
        i for i in bottom if i.module.partition(".")[0] not in sys.stdlib_module_names and target(i.module) is None
    ]
    expected: list[str] = []
    assert expected == [str(i) for i in wrong]


@pytest.mark.parametrize("library", sorted(OWNERS))
def test_libraries_are_imported_by_their_owners_only(library: str) -> None:
    """Each heavy or edge library is known to one place."""
    wrong = [i for i in imports() if i.module.partition(".")[0] == library and not owned(i.file, OWNERS[library])]
    expected: list[str] = []
    assert expected == [str(i) for i in wrong]


def test_imports_inside_functions_are_of_optional_libraries() -> None:
    """An import in a function is for a heavy optional package or a platform's module, never to hide a cycle."""
    wrong = []
    for found in imports():
        root = found.module.partition(".")[0]
        if not found.in_function or found.file in FORWARDERS or root in PLATFORM:
            continue
        if root in sys.stdlib_module_names or root == "durable_nb":
            wrong.append(str(found))
    expected: list[str] = []
    assert expected == wrong


def test_heavy_libraries_are_imported_inside_functions() -> None:
    """Importing durable_nb does not import what a notebook may not need."""
    # A reducer's file is itself imported only once its library is.
    late = ("kernel/", "testing/", "capture/reducers/")
    heavy = [i for i in imports() if i.module.partition(".")[0] in HEAVY]
    wrong = [i for i in heavy if not i.in_function and not i.file.startswith(late)]
    expected: list[str] = []
    assert expected == [str(i) for i in wrong]


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a chain of names, empty for anything else."""
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return node.id if isinstance(node, ast.Name) else ""


def writes(call: ast.Call) -> bool:
    """Tell whether a call syncs, renames or opens a file for writing."""
    name = dotted(call.func)
    last = call.func.attr if isinstance(call.func, ast.Attribute) else name
    if name in (
        "os.fsync",
        "os.fdatasync",
        "os.sync",
        "os.rename",
        "os.replace",
        "os.truncate",
        "os.link",
        "shutil.move",
    ):
        return True
    if last in ("write_text", "write_bytes", "touch", "mkstemp", "NamedTemporaryFile"):
        return True
    if name == "os.open":
        flags = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
        return "devnull" not in ast.unparse(call.args[0]) and any(f in flags for f in ("WRONLY", "RDWR", "CREAT"))
    if last != "open":
        return False
    position = 1 if name in ("open", "io.open") else 0
    mode = next((k.value for k in call.keywords if k.arg == "mode"), None)
    if mode is None and len(call.args) > position:
        mode = call.args[position]
    if not (isinstance(mode, ast.Constant) and isinstance(mode.value, str)):
        return False
    return mode.value[:1] in ("w", "a", "x") or (mode.value[:1] == "r" and "+" in mode.value)


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call of the package with its file."""
    for file in files():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Call):
                yield file, node


def test_only_the_store_files_module_writes() -> None:
    """Syncs, renames and files opened for writing are in one module, which the simulated disk replaces."""
    wrong = [f"{f}:{c.lineno}" for f, c in calls() if writes(c) and not owned(f, tuple(EDGES_THAT_WRITE))]
    expected: list[str] = []
    assert expected == wrong


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("open('p', 'w')", True), ("open('p', mode='ab')", True), ("open('p', 'r+b')", True), ("open('p')", False),
        ("open('p', 'rb')", False), ("path.open('x')", True), ("path.open()", False), ("os.replace(a, b)", True),
        ("os.open(p, os.O_WRONLY | os.O_CREAT)", True), ("os.open(p, os.O_RDONLY)", False),
        ("text.replace(a, b)", False),
        ("os.open(os.devnull, os.O_WRONLY)", False), ("path.write_text('')", True), ("os.fsync(d)", True),
    ],
)  # fmt: skip
def test_the_check_for_writing_finds_it(source: str, expected: bool) -> None:
    """The check above can fail."""
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call)
    assert expected is writes(call)


def test_only_the_clock_knows_the_time() -> None:
    """The wall clock is read in one place, which tests replace."""
    names = {"time.time", "time.time_ns", "datetime.now", "datetime.datetime.now", "datetime.utcnow", "datetime.today"}
    wrong = [f"{f}:{c.lineno}" for f, c in calls() if dotted(c.func) in names and f != "clock.py"]
    expected: list[str] = []
    assert expected == wrong


def test_below_the_kernel_nobody_asks_for_the_shell() -> None:
    """The shell is handed down through the port, never looked up."""
    wrong = [f"{f}:{c.lineno}" for f, c in calls() if dotted(c.func) == "get_ipython" and not f.startswith("kernel/")]
    expected: list[str] = []
    assert expected == wrong


def test_files_stay_readable_in_one_sitting() -> None:
    """No source file is longer than the limit."""
    lines = {f: len((ROOT / f).read_text(encoding="utf-8").splitlines()) for f in files()}
    expected: dict[str, int] = {}
    assert expected == {f: n for f, n in lines.items() if n > MAX_LINES}


def test_every_module_says_what_it_is_for() -> None:
    """Each module that has code begins with a docstring and asks for postponed annotations."""
    silent = [f for f in files() if tree(f).body and not ast.get_docstring(tree(f))]
    eager = []
    for file in files():
        froms = [n for n in tree(file).body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
        if any(isinstance(n, ast.FunctionDef | ast.ClassDef) for n in tree(file).body) and not froms:
            eager.append(file)
    expected: list[str] = []
    assert (expected, expected) == (silent, eager)
