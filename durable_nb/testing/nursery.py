"""Processes that live and die quickly: a warmed-up server forks a child per life of a notebook; SIGKILL ends it.

Used by the property tests of crash equivalence. A life is a list of steps: attach to a folder, run a cell, look at the
canonical form of the namespace, die in the middle of a cell. What a life reports before its end comes back.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import io
import json
import linecache
import logging
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from durable_nb.config import Settings
from durable_nb.engine import BodyOutcome, CellRequest
from durable_nb.engine.pending import load_all
from durable_nb.store.files import LocalFiles
from durable_nb.testing.canon import canonical, streams
from durable_nb.testing.workbench import Workbench

__all__ = ["Nursery", "Report", "Step", "leads_to_lost_hash"]

Step = dict[str, Any]
Report = dict[str, Any]

_LIFE_SECONDS = 60
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Nursery:
    """A server process with everything imported. Two with different seeds never agree on hashes or addresses."""

    def __init__(self, *, hash_seed: int, prepare: str = "", environ: Mapping[str, str] | None = None) -> None:
        """`prepare` is Python that the server runs once: how a test plants a defect; `environ` may hold settings."""
        package = str(Path(__file__).resolve().parents[2])
        inherited = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from durable_nb.testing.nursery import serve; serve({prepare!r})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": inherited, **(environ or {})},
            text=True,
        )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def live(self, steps: list[Step]) -> list[Report]:
        """Let one child live through the steps and return what it reported."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(steps) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the server of lives ended with {self._process.wait()}")
        reports: list[Report] = json.loads(answer)
        return reports


def serve(prepare: str) -> None:
    """Answer requests on standard input until it ends; called in the server process."""
    import numpy as np
    import pandas as pd

    # What a first use loads or builds is loaded and built once, here.
    repr(pd.DataFrame({"a": np.arange(2.0), "s": ["x", "y"], "c": pd.Categorical(["u", "u"])}).iloc[0])
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    # A kill loses nothing that was written, and nobody pulls a plug here.
    setattr(os, "fsync", lambda descriptor: None)  # noqa: B010
    setattr(os, "fdatasync", lambda descriptor: None)  # noqa: B010
    exec(prepare, {"__name__": "prepare"})
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    gc.collect()
    gc.freeze()
    for line in requests:
        steps = json.loads(line)
        said, status = _forked(functools.partial(_live, steps))
        reports = [json.loads(part) for part in said.splitlines()]
        answers.write(json.dumps([*reports, {"kind": "end", "status": status}]) + "\n")
        answers.flush()


def _forked(act: Callable[[io.TextIOWrapper], None]) -> tuple[str, int]:
    """Run `act` in a child that dies at its end; return what it wrote, up to its last whole line, and its status."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        with os.fdopen(writable, "w") as report:
            try:
                act(report)
                report.flush()
            except BaseException as error:
                where = "".join(traceback.format_exception(error))
                report.write(json.dumps({"kind": "broken", "error": where}) + "\n")
                report.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writable)
    with os.fdopen(readable) as said:
        text = said.read()
    return text, os.waitpid(child, 0)[1]


def _live(steps: list[Step], report: io.TextIOWrapper) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_LIFE_SECONDS)
    life = _Life()
    for step in steps:
        began_s = time.perf_counter()
        said = life.step(step)
        took_ms = round((time.perf_counter() - began_s) * 1000, 1)
        report.write(json.dumps({"kind": step["do"], "ms": took_ms, **said}) + "\n")
        report.flush()


def leads_to_lost_hash(value: object) -> bool:
    """Tell whether a value leads to a set, dictionary or weak set with a member that cannot be asked for its hash."""
    seen: dict[int, object] = {}
    todo = [value]
    while todo:
        obj = todo.pop()
        if isinstance(obj, types.ModuleType) or id(obj) in seen or (isinstance(obj, dict) and "__spec__" in obj):
            continue  # what a module holds is not the variable's
        if isinstance(obj, type) and obj.__module__ != "__main__":
            continue
        seen[id(obj)] = obj
        if isinstance(obj, (set, frozenset, dict)):
            for member in list(obj):
                try:
                    hash(member() if isinstance(member, weakref.ref) else member)
                except Exception:
                    return True
        todo += gc.get_referents(obj)
        if isinstance(obj, weakref.ref):
            todo.append(obj())
    return False


class _Life:
    """One process that runs cells, with durable_nb once it was attached, without before."""

    def __init__(self) -> None:
        self.main = types.ModuleType("__main__")
        sys.modules["__main__"] = self.main
        self.bench: Any = None

    def step(self, step: Step) -> Report:
        """Do one step and return what is to be reported of it."""
        match step["do"]:
            case "attach":
                return self.attach(step["folder"], step["life"])
            case "cell" | "die":
                return self.cell(step["number"], step["source"], step["durable"], cut=step.get("cut"))
            case "look":
                namespace = vars(self.main)
                exclude = step["exclude"]

                def look(report: io.TextIOWrapper) -> None:
                    # In the child only: what is pending in this life stays so.
                    if self.bench is not None:
                        load_all(self.bench.engine)
                    report.write(json.dumps(canonical(namespace, exclude)) + "\n")

                global_streams = streams()
                form = [*json.loads(_forked(look)[0]), *global_streams]
                return {"form": form, "missing": self.missing(), "names": self.names()}
            case "hashless":
                return {"names": sorted(n for n, value in vars(self.main).items() if leads_to_lost_hash(value))}
        raise ValueError(step)

    def attach(self, folder: str, life: str) -> Report:
        """Attach durable_nb; what is in the folder comes back."""
        # A life that dies leaves nothing to a writer, which would still be at work when the next one begins.
        settings = Settings.from_environment({"DURABLE_NB_DURABILITY": "sync", **os.environ})
        self.bench = Workbench(LocalFiles(folder), life=life, main=self.main, settings=settings)
        return {"said": self.bench.lines, "missing": self.missing()}

    def names(self) -> list[str]:
        """Return the names that are there, or come when they are asked for."""
        pending = () if self.bench is None else self.bench.engine.capture.lazy.names
        return sorted({*vars(self.main), *pending})

    def missing(self) -> list[tuple[str, str]]:
        """Return the names that durable_nb reported as not saved or not back, with what it said."""
        if self.bench is None:
            return []
        return [(u.name, f"{u.path} {u.type}: {u.reason}") for u in self.bench.engine.missing]

    def cell(self, number: int, source: str, durable: bool, *, cut: str | None = None) -> Report:
        """Run a cell and tell whether its body ran, its error and its output; with `cut` only that much runs, and death
        follows."""
        name = f"<cell {number}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        flow, before = None, 0
        if self.bench is not None:
            flow, before = self._begin(number, name, source, durable), len(self.bench.shell.said)
            if flow is None:
                return {"ran": False, "trouble": self.bench.shell.said[before:]}
        error, output = self._execute(name, source if cut is None else cut)
        if cut is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        words = "" if error is None else _ADDRESS.sub("0x", f"{type(error).__name__}: {error}")
        if flow is not None:
            with contextlib.suppress(StopIteration):
                flow.send(BodyOutcome(error=error))
        if error is not None:
            # It and its frames hold each other; what is alive through them alone is so by chance.
            error = flow = None
            gc.collect()
        trouble = [] if self.bench is None else self.bench.shell.said[before:]
        return {"ran": True, "error": words, "output": _ADDRESS.sub("0x", output), "trouble": trouble}

    def _begin(self, number: int, name: str, source: str, durable: bool) -> Any:
        """Ask the engine; return the flow that waits for the body's outcome, None when the cell was skipped."""
        bench = self.bench
        bench.count += 1
        bench.shell.sources[name] = (bench.count, source)
        flow = bench.engine.run_cell(
            CellRequest(
                source=source,
                transformed=source,
                tree=ast.parse(source),
                execution_count=bench.count,
                durable=durable,
            )
        )
        try:
            next(flow)
        except StopIteration:
            return None
        return flow

    def _execute(self, name: str, source: str) -> tuple[Exception | None, str]:
        printed = io.StringIO()
        error: Exception | None = None
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(source, name, "exec", dont_inherit=True), vars(self.main))
            except Exception as raised:
                error = raised
        return error, printed.getvalue()
