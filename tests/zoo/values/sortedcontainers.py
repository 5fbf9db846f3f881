"""Values of sortedcontainers."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "sortedcontainers"
SETUP = "import sortedcontainers"
VALUES = [
    Value(
        cls="sortedcontainers.sortedlist.SortedList",
        make="sortedcontainers.SortedList([3, 1, 2])",
        check="list(x) == [1, 2, 3] and [x.add(0), x[0]][1] == 0 and x.bisect(2) == 3",
        keeps="exact",
    ),
    Value(
        cls="sortedcontainers.sortedlist.SortedKeyList",
        make="sortedcontainers.SortedKeyList([1, 2], key=lambda v: -v)",
        check="list(x) == [2, 1] and [x.add(3), x[0]][1] == 3",
        keeps="exact",
        note="with a key of the notebook",
    ),
    Value(
        cls="sortedcontainers.sorteddict.SortedDict",
        make="sortedcontainers.SortedDict(b=1, a=2)",
        check="list(x) == ['a', 'b'] and x.peekitem(0) == ('a', 2)",
        keeps="exact",
    ),
    Value(
        cls="sortedcontainers.sortedset.SortedSet",
        make="sortedcontainers.SortedSet('ba')",
        check="list(x) == ['a', 'b'] and 'a' in x",
        keeps="exact",
    ),
]
