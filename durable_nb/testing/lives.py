"""Notebook lives for tests: a folder, kernels that follow each other in it, and what a person sees of skips.

`Lives` starts real kernels with the extension loaded and every cell durable; `kill` ends one with SIGKILL and starts
the next. Used by the tests of reuse and recovery.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from durable_nb.testing.kernels import Kernel, Reply

__all__ = ["Lives", "said", "skipped"]


def said(reply: Reply) -> str:
    """Return the lines of durable_nb in a reply."""
    return "\n".join(o["data"].get("text/plain", "") for o in reply.of("display_data"))


def skipped(reply: Reply) -> bool:
    """Tell whether the cell was skipped: its one line says so."""
    return "· skipped" in said(reply)


class Lives:
    """One notebook across as many kernels as it takes."""

    def __init__(self, folder: Path, *, environ: Mapping[str, str] | None = None, durable: bool = True) -> None:
        self.folder = folder
        self.durable = durable
        self.environ = {"DURABLE_NB_KEY_FILE": str(folder / "key"), **(environ or {})}
        self.kernel = Kernel(folder, environ=self.environ)
        self.loaded = self._load()

    def _load(self) -> str:
        reply = self.kernel.run("%load_ext durable_nb")
        assert reply.status == "ok", reply
        if self.durable:
            assert self.kernel.run("%durable on").status == "ok"
        return said(reply)

    def __enter__(self) -> Lives:
        return self

    def __exit__(self, *_: object) -> None:
        self.kernel.stop()

    def run(self, *cells: str, **how: Any) -> Reply:
        """Run cells in order, each of which must succeed; return the reply of the last one."""
        reply = None
        for cell in cells:
            reply = self.kernel.run(cell, **how)
            assert reply.status == "ok", (cell, reply)
        assert reply is not None
        return reply

    def kill(self) -> str:
        """SIGKILL the kernel and start the next one; return what loading the extension said."""
        self.kernel.sigkill()
        self.kernel = Kernel(self.folder, environ=self.environ)
        self.loaded = self._load()
        return self.loaded

    def restart(self) -> str:
        """Restart as a person does; return what loading the extension said."""
        self.kernel.restart()
        self.loaded = self._load()
        return self.loaded

    def run_all(self, cells: Sequence[str]) -> list[bool]:
        """Run the cells from the top and tell for each whether it was skipped."""
        return [skipped(self.run(cell)) for cell in cells]

    def value(self, expression: str) -> Any:
        """Return the JSON value of an expression, evaluated beside the history and the engine."""
        code = f"import json as _dnb_json\nprint(_dnb_json.dumps({expression}))\ndel _dnb_json"
        reply = self.kernel.run(code, store_history=False)
        assert reply.status == "ok", (expression, reply)
        return json.loads(reply.text())

    def status(self) -> Any:
        """Return what `%durable status` tells when nothing is on its way to the disk any more."""
        self.verb("checkpoints")  # which waits for that
        return self.verb("status")

    def verb(self, line: str) -> Any:
        """Return the JSON answer of a verb."""
        reply = self.kernel.run(f"%durable {line} --json", store_history=False)
        assert reply.status == "ok", (line, reply)
        return json.loads(reply.text())
