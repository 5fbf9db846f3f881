"""Real kernels with the interception over a fake engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_nb.testing.kernels import Kernel

FAKE = "%load_ext durable_nb.testing.fakeengine"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel per test file, with the fake engine loaded."""
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        assert kernel.run(FAKE).status == "ok"
        yield kernel


@pytest.fixture
def kernel(shared: Kernel) -> Kernel:
    """The file's kernel, its namespace and fake engine as at the start."""
    reset = (
        "from IPython import get_ipython as _gi\n"
        "_e = _gi().fake_engine\n"
        "_e.requests.clear(); _e.outcomes.clear(); _e.plain.clear(); _e.finished.clear()\n"
        "_e.skip = False; _e.failure = None; _e.fail_after_body = False\n"
        "del _e, _gi"
    )
    assert shared.run("%durable off").status == "ok"
    assert shared.run(reset, silent=True).status == "ok"
    return shared


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel of its own, without any extension."""
    with Kernel(tmp_path) as kernel:
        yield kernel


@pytest.fixture
def look(kernel: Kernel) -> Callable[[str], Any]:
    """Evaluate an expression in the kernel, beside the engine, and return its JSON value; `e` is the fake engine."""

    def evaluate(expression: str) -> Any:
        code = f"import json as _j\ne = get_ipython().fake_engine\nprint(_j.dumps({expression}))\ndel e, _j"
        reply = kernel.run(code, silent=False, store_history=False)
        assert reply.status == "ok", reply
        return json.loads(reply.text())

    return evaluate
