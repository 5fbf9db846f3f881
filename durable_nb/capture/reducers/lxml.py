"""A document of lxml is written out and read again as a whole; elements that variables hold are its elements again.

Merged into the plug-in by `load` once lxml is imported. Elements are views of a tree in C: what they are part of is not
to be seen by the garbage collector, so it is told here.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, Unstorable, promise

LIBRARY = "lxml"

_NEW = "its document was written out and read again: line numbers are new"


def _make_root(kind: str, text: bytes) -> Any:
    etree: Any = importlib.import_module("lxml.etree")
    options = {"huge_tree": True, "remove_blank_text": False, "resolve_entities": False, "strip_cdata": False}
    if kind == "objectify":
        parser = importlib.import_module("lxml.objectify").makeparser(**options)
    else:
        parser = etree.XMLParser(**options)
        if kind == "html":
            parser.set_element_class_lookup(importlib.import_module("lxml.html").HtmlElementClassLookup())
    return etree.fromstring(text, parser)


def _make_inner(root: Any, number: int) -> Any:
    return next(itertools.islice(root.iter(), number, None))


def _make_tree(root: Any) -> Any:
    return root.getroottree()


def _kind(root: Any) -> str:
    for base in type(root).__mro__:
        if base.__module__ in ("lxml.html", "lxml.objectify"):
            return str(base.__module__).rpartition(".")[2]
        if base.__module__ == "lxml.etree":
            return "etree"
    raise Unstorable("an element of a class that its own parser makes; keep the text of the document instead")


def _written(tree: Any, kind: str) -> bytes:
    """Return a document as text, if reading that gives the same document: HTML may hold what XML cannot say."""
    etree: Any = importlib.import_module("lxml.etree")
    text: bytes = etree.tostring(tree, encoding="utf-8")
    try:
        again = etree.tostring(_make_root(kind, text).getroottree(), encoding="utf-8")
    except (etree.LxmlError, SyntaxError, ValueError) as error:
        raise Unstorable(f"a document that cannot be read again when it is written out ({error})") from error
    if again != text:
        raise Unstorable("a document that is another one when it is written out and read again")
    return text


@promise("equal", _NEW)
def _element(element: Any) -> tuple[Any, ...]:
    tree = element.getroottree()
    root = tree.getroot()
    if root is element:
        return _make_root, (_kind(root), _written(tree, _kind(root)))
    for number, one in enumerate(root.iter()):
        if one is element:
            return _make_inner, (root, number)
    raise Unstorable("an element beside the root of its document")


@promise("equal", _NEW)
def _tree(tree: Any) -> tuple[Any, ...]:
    if tree.getroot() is None:
        raise Unstorable("an empty tree")
    if tree.getroot().getparent() is not None:
        raise Unstorable("a tree over a part of a document; keep the element instead")
    return _make_tree, (tree.getroot(),)


def _root_of(element: Any) -> Iterable[Any]:
    root = element.getroottree().getroot()
    return () if root is element else (root,)


def _root_of_tree(tree: Any) -> Iterable[Any]:
    root = tree.getroot()
    return () if root is None else (root,)


def plugin() -> Plugin:
    """Return what lxml needs."""
    etree: Any = importlib.import_module("lxml.etree")
    return Plugin(
        exact={etree._ElementTree: _tree},
        subclasses=((etree._Element, _element),),
        referents={etree._Element: _root_of, etree._ElementTree: _root_of_tree},
    )
