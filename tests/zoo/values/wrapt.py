"""Values of wrapt."""

from __future__ import annotations

from durable_nb.testing.zoo import Value

LIBRARY = "wrapt"
SETUP = "import wrapt"
VALUES = [
    Value(
        cls="wrapt.ObjectProxy",
        make="wrapt.ObjectProxy([1])",
        check="x == [1]",
        keeps="reported",
        note="a proxy does not say how it is made again",
    ),
    Value(
        cls="wrapt.FunctionWrapper",
        make="wrapt.FunctionWrapper(len, lambda wrapped, instance, args, kwargs: wrapped(*args) * 2)",
        check="x('a') == 2",
        keeps="reported",
        note="a proxy does not say how it is made again",
    ),
]
