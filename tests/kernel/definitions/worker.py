"""One life of many small notebooks: `python worker.py plain|save|restore FOLDER < cases.json`.

Run by the tests that take definitions through a loss; `save` ends by SIGKILL, as a lost kernel does. Each notebook has
a `__main__` module and a history of its own; prints {case: {"unsaved": {name: reason}, "error": traceback}} as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import os
import signal
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from durable_nb.store.files import LocalFiles
from durable_nb.testing.workbench import Workbench


def fresh_main() -> ModuleType:
    """Make the module that notebooks take for `__main__`, with what IPython keeps in it."""
    main = ModuleType("__main__")
    main.__dict__["_ih"] = [""]
    sys.modules["__main__"] = main
    return main


def execute(source: str, filename: str, namespace: dict[str, Any]) -> None:
    """Run a cell as a kernel does, its source on record."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)


def life(verb: str, name: str, case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Live one case; return what was reported and how it failed."""
    said: dict[str, Any] = {"unsaved": {}, "error": ""}
    work = folder / name / "work"
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    main = fresh_main()
    unsaved: dict[str, str] = {}
    try:
        if verb == "plain":
            for number, cell in enumerate([*case["cells"], case["check"]]):
                execute(cell, f"<{name} {number}>", vars(main))
            return said
        bench = Workbench(LocalFiles(folder / name / "durable"), life=verb, main=main)
        if verb == "save":
            for number, cell in enumerate(case["cells"]):
                bench.run(cell, filename=f"<{name} {number}>")
                assert bench.failed is None, (cell, bench.failed)
            unsaved = {u.name + u.path: u.reason for u in bench.engine.head.unsaved}
        else:
            unsaved = {u.name + u.path: u.reason for u in bench.engine.missing}
            lost = set(unsaved) & set(case.get("reported", {}))
            execute(case.get("survivors", "pass") if lost else case["check"], f"<{name} check>", vars(main))
        bench.engine.detach("shutdown") if verb == "restore" else None
    except BaseException:
        said["error"] = traceback.format_exc()
    said["unsaved"] = unsaved
    return said


def main(verb: str, folder: Path) -> None:
    """Live all cases that come in, and print what became of them."""
    cases = json.load(sys.stdin)
    if importlib.util.find_spec("IPython"):
        import IPython  # noqa: F401  # process state asks for its shell, and there is none
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    said = {}
    for name, case in cases.items():
        before = list(sys.meta_path), list(sys.path_hooks), list(sys.path)
        said[name] = life(verb, name, case, folder.resolve())
        # What a notebook hung into the interpreter is its own, what it imported from libraries stays.
        for module in [m for m in sys.modules if m.startswith("dnb_") or m.endswith("_dnb") or m == "mynotebook"]:
            del sys.modules[module]
        sys.meta_path[:], sys.path_hooks[:], sys.path[:] = before
    out.write(json.dumps(said) + "\n")
    out.flush()
    if verb == "save":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
