"""Write `notebook-v1/`: the history of a small notebook, as this version stores functions, classes and values.

Run by hand when the format gets a new version: `python tests/compat/make_notebook.py`. The committed folder is never
made again for an old version: `test_old_notebook.py` shows that later code still brings it back.
"""

from __future__ import annotations

import linecache
import shutil
import socket
from pathlib import Path

from durable_nb.store.files import LocalFiles
from durable_nb.testing.workbench import Workbench

HERE = Path(__file__).parent
CELLS = [
    "import math, enum, dataclasses, collections\nfrom decimal import Decimal",
    "def area(r, *, scale=2):\n    return round(math.pi * r**2 * scale, 3)\nrate = 3",
    "class Level(enum.IntEnum):\n    LOW = 1\n    HIGH = 10",
    "@dataclasses.dataclass\nclass Point:\n    x: int\n    y: int = 0\n"
    "    def norm(self):\n        return self.x + self.y * rate",
    "class Base:\n    seen = []\n    def add(self, x):\n        self.seen.append(x)\n        return self\n"
    "class Child(Base):\n    __slots__ = ('tag',)\n    def add(self, x):\n        return super().add(x * 10)",
    "def counter():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n        return n\n    return inc\n"
    "inc = counter()\ninc()",
    "p = Point(1, 2)\nchild = Child().add(4)\nshared = [p, {'p': p}]\nlevel = Level.HIGH",
    "data = bytes(range(256)) * 600\nqueue = collections.deque([1, 2], maxlen=5)\nmoney = Decimal('1.10')",
    "double = lambda v: v * rate\ngone = 1",
    "del gone\nshared.append(shared)",
]


def main() -> None:
    """Make the folder from nothing."""
    target = HERE / "notebook-v1"
    shutil.rmtree(target, ignore_errors=True)
    # The name of the machine that this runs on is nobody's business.
    socket.gethostname = lambda: "example"  # type: ignore[assignment]
    bench = Workbench(LocalFiles(target))
    for number, cell in enumerate(CELLS, 1):
        name = f"<cell {number}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        bench.run(cell)
    bench.engine.detach("shutdown")
    (target / ".gitignore").unlink()
    shutil.rmtree(target / "tmp", ignore_errors=True)


if __name__ == "__main__":
    main()
