"""Memoryviews and iterators over dicts come back looking at the object that came back, from where they were."""

from __future__ import annotations

import pytest

from durable_nb.testing.notebook import Notebook


def restored(*cells: str) -> Notebook:
    """Run cells, restore, and make sure that nothing was reported."""
    notebook = Notebook()
    for cell in cells:
        notebook.run(cell)
    assert notebook.unsaved == {}
    return notebook.restored()


@pytest.mark.parametrize(
    "view",
    [
        "memoryview(a)", "memoryview(a)[1:4]", "memoryview(a)[::2]", "memoryview(a)[::-1]", "memoryview(a)[5:0:-2]",
        "memoryview(a)[2:2]", "memoryview(a).cast('H')", "memoryview(a).cast('H')[1:]",
        "memoryview(a).cast('B', (2, 3))",
        "memoryview(a).toreadonly()", "memoryview(a).toreadonly()[1:]",
    ],
)  # fmt: skip
def test_memoryview_looks_at_the_restored_buffer(view: str) -> None:
    """A memoryview has the same shape and content, and sees what is written to its buffer afterwards."""
    book = restored("a = bytearray(b'abcdef')", f"v = {view}; w = [v]")
    book.check(
        f"e = {view}\n"
        "assert (e.format, e.shape, e.strides, e.readonly) == (v.format, v.shape, v.strides, v.readonly)\n"
        "assert v.obj is a and w[0] is v\n"
        "a[1] = a[2] = 9\n"
        "assert v.tobytes() == e.tobytes()"
    )


@pytest.mark.parametrize("source", ["np.arange(4.0)", "np.arange(6).reshape(2, 3)", "array.array('d', [1, 2, 3])"])
def test_memoryview_of_an_array(source: str) -> None:
    """A memoryview of an array looks at that array."""
    book = restored("import array, numpy as np", f"a = {source}", "v = memoryview(a)")
    book.check("assert v.obj is a and v.tobytes() == a.tobytes() and v.shape == memoryview(a).shape")


def test_memoryview_of_what_is_only_in_the_view() -> None:
    """A view whose buffer has no name brings its buffer along; one of bytes stays read-only."""
    book = restored("v = memoryview(bytearray(b'abc'))[1:]", "r = memoryview(b'xyz')")
    book.check("v[0] = 1\nassert bytes(v.obj) == b'a\\x01c' and r.readonly and r.tobytes() == b'xyz'")


@pytest.mark.parametrize("way", ["iter", "reversed"])
@pytest.mark.parametrize("kind", ["keys", "values", "items"])
@pytest.mark.parametrize("taken", [0, 1, 3])
def test_iterator_over_a_dict_goes_on_where_it_was(way: str, kind: str, taken: int) -> None:
    """The iterator has its type and place, and notices that the dict has grown."""
    book = restored(f"d = {{1: 'a', 2: 'b', 3: 'c'}}\nit = {way}(d.{kind}())\nfor _ in range({taken}): next(it)")
    book.check(f"e = {way}(d.{kind}())\nassert type(it) is type(e)\nimport copy\nrest = list(copy.copy(it))")
    book.check(f"assert rest == list({way}(d.{kind}()))[{taken}:]")
    book.check("d[4] = 'new'\ntry:\n    next(it)\nexcept RuntimeError:\n    pass\nelse:\n    raise AssertionError(it)")


def test_used_up_iterator_stays_used_up() -> None:
    """An iterator that came to its end gives nothing more, whatever becomes of the dict."""
    book = restored("d = {1: 2}\nit = iter(d)\nassert list(it) == [1]")
    book.check("d[3] = 4\nassert list(it) == [] and type(it) is type(iter({}))")


def test_iterator_that_can_only_fail_is_reported() -> None:
    """An iterator whose dict changed size since is no value any more, and the report says so."""
    notebook = Notebook()
    notebook.run("d = {1: 2}\nit = iter(d)\nd[3] = 4")
    assert "can only raise an error" in notebook.unsaved["it"].reason
