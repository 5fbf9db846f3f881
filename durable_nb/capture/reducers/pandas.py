"""Tables share values until one is written to, as before; the options object of pandas stays the one of the process.

Merged into the plug-in by `load` once pandas is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from durable_nb.capture.reducers import Plugin, promise

LIBRARY = "pandas"


def _make_options(path: str) -> Any:
    import pandas

    options = pandas.options
    for part in path.split(".") if path else ():
        options = getattr(options, part)
    return options


@promise("exact")
def _options(options: Any) -> tuple[Any, ...]:
    # It is a window on the global settings; a copy of them would be set without any effect.
    return _make_options, (vars(options)["prefix"],)


def _referents(options: Any) -> Iterable[Any] | None:
    # Of the whole there is one; a part is made anew whenever somebody asks for it.
    return () if vars(options)["prefix"] else None


def _index_referents(index: Any) -> Iterable[Any]:
    # Looking something up fills caches, which are not stored and whose views of the data must not count as sharing.
    return [value for name, value in vars(index).items() if name not in ("_cache", "_id")]


def _make_refs() -> Any:
    """Return a list, still empty, of the columns and indexes that share values until one of them is written to."""
    from pandas._libs.internals import BlockValuesRefs

    return BlockValuesRefs()


def _link_block(block: Any, refs: Any) -> None:
    block.refs = refs
    refs.add_reference(block)


def _make_column(cls: Any) -> Any:
    """Return the inside of a column, still empty: its values may lead back to it."""
    return cls.__new__(cls)


def _fill_column(manager: Any, state: tuple[Any, Any]) -> None:
    manager.__init__(*state)


def _link_index(index: Any, refs: Any) -> None:
    index._references = refs
    refs.add_index_reference(index)


@promise("exact")
def _refs(refs: Any) -> tuple[Any, ...]:
    # Its weak references are made again by those that they lead to, as far as these are stored.
    return _make_refs, ()


@promise("exact")
def _block(block: Any) -> Any:
    # pandas leaves out with whom the values are shared; the next write would then reach the others, too.
    function, arguments = block.__reduce__()[:2]
    return function, arguments, block.refs, None, None, _link_block


@promise("exact")
def _column(manager: Any) -> tuple[Any, ...]:
    # Its own way stores bare values instead of the block, and with that, with whom they are shared.
    return _make_column, (type(manager),), (manager.blocks[0], manager.axes[0]), None, None, _fill_column


@promise("exact")
def _index(index: Any) -> Any:
    refs = index._references
    if refs is None:
        return NotImplemented
    function, arguments = index.__reduce__()[:2]
    return function, arguments, refs, None, None, _link_index


def plugin() -> Plugin:
    """Return what pandas needs."""
    pandas = sys.modules["pandas"]
    kind = type(pandas.options)
    internals = sys.modules["pandas._libs.internals"]
    indexes = (
        pandas.Index,
        pandas.CategoricalIndex,
        pandas.DatetimeIndex,
        pandas.IntervalIndex,
        pandas.PeriodIndex,
        pandas.TimedeltaIndex,
    )
    refs = internals.BlockValuesRefs
    column = sys.modules["pandas.core.internals.managers"].SingleBlockManager
    return Plugin(
        exact={kind: _options, refs: _refs, column: _column, **dict.fromkeys(indexes, _index)},
        subclasses=((internals.Block, _block),),
        # Who shares values is one object; whom it leads to may have been made in passing and is not followed.
        referents={kind: _referents, pandas.Index: _index_referents, refs: lambda refs: ()},
    )
