"""Values of tqdm."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "tqdm"
SETUP = "import io\n\nimport tqdm"
VALUES = [
    Value(
        cls="tqdm.std.tqdm",
        make="bar = tqdm.tqdm(total=4, file=io.StringIO())\nbar.update(3)\nbar.close()\nbar",
        check="x.n == 3 and x.total == 4 and x.disable",
        keeps="exact",
        note="one that has ended",
    ),
    Value(
        cls="tqdm.std.tqdm",
        make="tqdm.tqdm([1, 2, 3], file=io.StringIO())",
        check="x.total == 3 and list(x) == [1, 2, 3]",
        keeps="exact",
        note="one that writes into memory",
    ),
]
