"""Whatever graph of built-in containers a namespace holds, it comes back with the same content and the same aliases."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_nb.capture import compare
from durable_nb.testing.notebook import Notebook

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.just(float("nan")),
)


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw up to eight mutable nodes, fill them with each other, and bind some of them to names."""
    nodes: list[Any] = [draw(st.sampled_from([list, dict, set]))() for _ in range(draw(st.integers(1, 8)))]
    root = np.arange(40.0)
    pool = [*nodes, root, root[draw(st.integers(0, 20)) :], bytearray(b"ab")]
    hashable = st.one_of(ATOMS, st.tuples(ATOMS, ATOMS))
    for node in nodes:
        for _ in range(draw(st.integers(0, 4))):
            value = draw(st.one_of(ATOMS, st.sampled_from(pool), st.tuples(ATOMS, st.sampled_from(pool))))
            if isinstance(node, list):
                node.append(value)
            elif isinstance(node, dict):
                node[draw(hashable)] = value
            else:
                node.add(draw(hashable))
    return {f"v{i}": draw(st.one_of(st.sampled_from(pool), ATOMS)) for i in range(draw(st.integers(1, 6)))}


@settings(max_examples=70, deadline=None)
@given(graphs())
def test_content_and_aliases_come_back(names: dict[str, Any]) -> None:
    """The restored namespace differs in nothing, and a second look finds nothing changed."""
    first = Notebook(names)
    first.look()
    assert first.unsaved == {}
    second = first.restored()
    assert compare.difference({n: first[n] for n in names}, {n: second[n] for n in names}) is None
    again = second.look()
    assert (again.changed, list(again.groups)) == ((), [])


@settings(max_examples=50, deadline=None)
@given(graphs(), st.data())
def test_a_change_anywhere_is_seen(names: dict[str, Any], data: st.DataObject) -> None:
    """After a list reachable from a name grew, that name has a new version and the restored value has the item."""
    names["grows"] = [1]
    names["holder"] = {"k": names["grows"], "o": data.draw(st.sampled_from([names[n] for n in names]))}
    notebook = Notebook(names)
    notebook.look()
    notebook["grows"].append("new")
    captured = notebook.look()
    assert {"grows", "holder"} <= set(captured.changed)
    assert notebook.restored()["holder"]["k"] == [1, "new"]
