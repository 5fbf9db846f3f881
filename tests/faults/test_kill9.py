"""kill -9 of a real kernel at random instants, over a notebook with frames, arrays, classes, closures and plots.

`make test` takes 20 instants, `make nightly` 200. A failure prints its seed; DURABLE_NB_TEST_SEED repeats it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest

from durable_nb.testing.kernels import Kernel
from durable_nb.testing.lives import Lives, skipped

CELLS = [
    "%matplotlib inline\nimport numpy as np, pandas as pd, random\nimport matplotlib.pyplot as plt\n"
    "np.random.seed(7); random.seed(7)",
    "frame = pd.DataFrame({'k': list('abcab') * 400, 'v': np.random.rand(2000)})",
    "class Account:\n    rate = 0.5\n    def __init__(self, owner):\n        self.owner, self.log = owner, []\n"
    "    def add(self, x):\n        self.log.append(round(x * type(self).rate, 6))\n        return self",
    "accounts = {k: Account(k) for k in 'abc'}\nshared = [accounts['a'], accounts['b']]",
    "def counter(start):\n    n = start\n    def inc(by=1):\n        nonlocal n\n        n += by\n        return n\n"
    "    return inc\ninc = counter(10)\nhistory = [inc(), inc(5)]",
    "for k, v in frame.groupby('k')['v'].sum().items():\n    accounts[k].add(v)\nprint('added')",
    "big = np.arange(400_000, dtype=float)\nview = big[100:200]\nview *= 2",
    "import time\nfor i in range(4):\n    history.append(inc(i))\n    time.sleep(0.05)\ndisplay(frame.head(2))",
    "frame['w'] = frame['v'].rank() + np.random.rand(len(frame))\nframe.loc[3, 'v'] = 0.25",
    "fig, ax = plt.subplots(figsize=(2, 2))\nax.plot(frame['w'].head(50))\nplt.show()",
    "Account.rate = 2.0\nfor one in shared:\n    one.add(inc())\ntotals = frame.groupby('k')[['v', 'w']].sum()",
    "final = (round(float(totals['w'].sum()), 6), history[-1], random.random())\nfinal",
]

FINGERPRINT = """
import hashlib as _dnb_h, json as _dnb_j
def _dnb_f():
    g, out = globals(), {}
    def put(name, make):
        if name in g:
            out[name] = _dnb_h.sha256(make(g[name])).hexdigest()[:12]
    text = lambda v: repr(v).encode()
    put('frame', lambda f: f.to_csv().encode() + text(f.dtypes.tolist()))
    put('totals', lambda f: f.to_csv().encode())
    put('accounts', lambda a: text([(k, x.owner, x.log, type(x) is g['Account']) for k, x in a.items()]))
    put('Account', lambda c: text((c.rate, c('z').add(1).log)))
    put('shared', lambda s: text([x is g['accounts'][x.owner] for x in s]))
    put('inc', lambda f: text(f.__closure__[0].cell_contents))
    put('history', text); put('final', text); put('k', text); put('i', text)
    put('big', lambda b: b.tobytes()); put('view', lambda v: v.tobytes() + text(np.shares_memory(v, g['big'])))
    put('fig', lambda f: text([len(a.lines) for a in f.axes]))
    put('np', lambda n: text(n.random.get_state()[1].tolist())); put('random', lambda r: text(r.getstate()))
    return out
print(_dnb_j.dumps(_dnb_f()))
del _dnb_h, _dnb_j, _dnb_f
"""


def fingerprint(kernel: Kernel) -> str:
    """Return what the namespace holds, without a trace in it."""
    reply = kernel.run(FINGERPRINT, store_history=False)
    assert reply.status == "ok", reply
    return reply.text()


class Notebook:
    """Runs the cells in life after life, and knows what an uninterrupted run looks like after each cell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.reference = [""]
        began = time.monotonic()
        with Lives(folder) as lives:
            self.reference[0] = fingerprint(lives.kernel)
            for cell in CELLS:
                lives.run(cell)
                self.reference.append(fingerprint(lives.kernel))
        self.duration_s = time.monotonic() - began

    def run_until_killed(self, lives: Lives, delay_s: float) -> int:
        """Run All, with a SIGKILL after the delay; return the number of acknowledged cells."""
        kernel, acknowledged = lives.kernel, 0
        timer = threading.Timer(delay_s, os.kill, (kernel.pid, 9))
        timer.start()
        try:
            for cell in CELLS:
                reply = kernel.run(cell)
                assert reply.status == "ok", reply
                acknowledged += 1
        except (ChildProcessError, StopIteration):
            pass
        timer.join()
        return acknowledged


def survive(tmp_path: Path, instants: int) -> None:
    """Kill the kernel at random instants; after each, everything acknowledged is there."""
    seed = int(os.environ.get("DURABLE_NB_TEST_SEED", random.SystemRandom().randrange(10**6)))
    print(f"seed {seed}")
    rng = random.Random(seed)
    reference = Notebook(tmp_path / "reference")
    killed, runs = 0, 0
    while killed < instants:
        runs += 1
        folder = tmp_path / f"run{runs}"
        folder.mkdir()
        lives, done = Lives(folder), 0
        for _ in range(min(4, instants - killed)):
            acknowledged = reference.run_until_killed(lives, rng.uniform(0, reference.duration_s * 0.6))
            done = max(done, acknowledged)
            killed += 1
            lives.kill()
            found = fingerprint(lives.kernel)
            expected = reference.reference[done : done + 2]
            assert found in expected, (
                f"seed {seed}, kill {killed}: {done} acknowledged\n{found}\n{expected}\n{lives.loaded}\n"
                f"{lives.kernel.run('%durable status', store_history=False)}"
            )
            done += found != expected[0]
        skips = [skipped(lives.run(cell)) for cell in CELLS]
        assert skips == [True] * done + [False] * (len(CELLS) - done), f"seed {seed}: {done} were acknowledged"
        assert fingerprint(lives.kernel) == reference.reference[-1], f"seed {seed}"
        assert lives.verb("verify")["problems"] == [], f"seed {seed}"
        lives.kernel.stop()


@pytest.mark.timeout(900)
def test_kill_9_at_random_instants(tmp_path: Path) -> None:
    """No acknowledged cell is lost, no variable differs, no repository is unreadable, at 20 random instants."""
    survive(tmp_path, 20)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_kill_9_at_200_random_instants(tmp_path: Path) -> None:
    """The long form: 200 random instants."""
    survive(tmp_path, 200)
