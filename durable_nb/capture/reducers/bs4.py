"""A document comes back as the tree that it was, with every element that a variable holds still a part of it.

Merged into the plug-in by `load` once bs4 is imported. The library's own pickling writes a document out and reads it
again, which makes new elements, and follows an element's links one inside the other.
"""

from __future__ import annotations

from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "bs4"

# What the position in the tree gives, and what only a parser at work needs.
_LINKS = ("parent", "previous_element", "next_element", "next_sibling", "previous_sibling", "contents")
_LEFT_OUT = frozenset({*_LINKS, "_most_recent_element"})


def _make_element(cls: Any) -> Any:
    return object.__new__(cls)


def _make_text(cls: Any, text: str) -> Any:
    return str.__new__(cls, text)


def _fill_element(element: Any, state: tuple[dict[str, Any], Any]) -> None:
    """Give an element what it has for itself; the root, which is in its state, gives it its place."""
    vars(element).update(state[0])
    builder = vars(element).get("builder")
    if isinstance(builder, type):
        vars(element)["builder"] = builder()


def _fill_root(root: Any, state: tuple[dict[str, Any], list[Any], list[int]]) -> None:
    """Link the elements of a document, given in its order with the place of each one's parent."""
    own, elements, parents = state
    _fill_element(root, (own, None))
    everything = [root, *elements]
    for element in everything:
        vars(element).update(dict.fromkeys(_LINKS[:-1]))
        if not isinstance(element, str):
            vars(element)["contents"] = []
    for before, element, parent in zip(everything, elements, parents, strict=False):
        link = vars(element)
        link["parent"], link["previous_element"] = everything[parent], before
        vars(before)["next_element"] = element
        siblings = vars(everything[parent])["contents"]
        if siblings:
            link["previous_sibling"] = siblings[-1]
            vars(siblings[-1])["next_sibling"] = element
        siblings.append(element)


def _below(root: Any) -> tuple[list[Any], list[int]]:
    """Return what is below an element in the order of the document, and the place of each one's parent."""
    elements: list[Any] = []
    parents: list[int] = []
    stack = [(0, iter(vars(root).get("contents", ())))]
    while stack:
        parent, rest = stack[-1]
        child = next(rest, None)
        if child is None:
            stack.pop()
            continue
        elements.append(child)
        parents.append(parent)
        if not isinstance(child, str):
            stack.append((len(elements), iter(vars(child).get("contents", ()))))
    return elements, parents


@promise("exact")
def _element(element: Any) -> tuple[Any, ...]:
    own = {name: value for name, value in vars(element).items() if name not in _LEFT_OUT}
    if "builder" in own and not getattr(own["builder"], "picklable", True):
        own["builder"] = type(own["builder"])
    text = isinstance(element, str)
    made = (_make_text, (type(element), str.__str__(element))) if text else (_make_element, (type(element),))
    root = element
    while (above := vars(root).get("parent")) is not None:
        root = above
    if root is element:
        return *made, (own, *_below(root)), None, None, _fill_root
    return *made, (own, root), None, None, _fill_element


def plugin() -> Plugin:
    """Return what bs4 needs."""
    return Plugin(subclasses=((named("bs4.element.PageElement"), _element),))
