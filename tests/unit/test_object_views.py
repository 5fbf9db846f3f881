"""Views of arrays of objects, which pandas makes of every column of text, stay views of the same array."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from durable_nb.capture.codec import Codec
from durable_nb.capture.definitions import Definitions
from durable_nb.capture.groups import partition
from durable_nb.capture.reducers import load

np = pytest.importorskip("numpy")


def again(values: dict[str, Any]) -> dict[str, Any]:
    """Dump the values as one group and load them."""
    codec = Codec(values, load(sys.modules))
    definitions = Definitions(values)
    codec.bind(definitions, partition(values, definitions, codec.plugin, never=[values]))
    dumped = codec.dump(list(values), values)
    buffers = [bytearray(b) for b in dumped.buffers]
    return codec.load(dumped.pickle, buffers, lambda name: values[name], codec=dumped.codec)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda a: a[1],
    "column": lambda a: a[:, 2],
    "backwards": lambda a: a[::-1, ::-2],
    "turned": lambda a: a.T,
    "flat": lambda a: a.reshape(-1)[3:9],
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a[0], 2, writeable=True),
}


# numpy copies when it flattens columns, so there is no view to keep.
CASES = [(name, order) for name in VIEWS for order in "CF" if (name, order) != ("flat", "F")]


@pytest.mark.parametrize(("name", "order"), CASES)
def test_view_of_an_array_of_objects_stays_a_view(name: str, order: str) -> None:
    """A view and its array come back equal and share their cells; so does what comes back of those."""
    root = np.array([[f"text {i} {j}" for j in range(4)] for i in range(3)], dtype=object, order=order)
    values = {"root": root, "view": VIEWS[name](root)}
    for _ in range(2):
        values = again(values)
        assert values["view"].tolist() == VIEWS[name](values["root"]).tolist()
        place = np.argwhere(VIEWS[name](values["root"]) != None)[1]  # noqa: E711 elementwise
        values["view"][tuple(place)] = "changed"
        assert VIEWS[name](values["root"])[tuple(place)] == "changed"


def test_columns_of_text_that_share_memory_come_back() -> None:
    """A column, the index made of it and the frame come back equal where pandas keeps text as objects."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": ["a", "b", "c"], "town": ["x", "y", "z"], "n": [1, 2, 3]}, dtype=object)
    column = frame["name"]
    series = pandas.Series([1.0, 2.0, 3.0], index=pandas.Index(column.to_numpy(), dtype=object))
    back = again({"frame": frame, "column": column, "series": series, "cells": frame["town"].to_numpy()})
    assert back["frame"].equals(frame)
    assert back["column"].equals(column)
    assert back["series"].equals(series)
    assert back["cells"].tolist() == ["x", "y", "z"]
