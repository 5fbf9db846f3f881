"""Pools of connections come back without the connections: the next request opens one.

Merged into the plug-in by `load` once urllib3 is imported.
"""

from __future__ import annotations

import sys
from typing import Any

from durable_nb.capture.reducers import Plugin, promise
from durable_nb.capture.reducers._named import named

LIBRARY = "urllib3"

_NEW = "its connections are not there; the next request opens one"


def _make_pool(cls: Any) -> Any:
    return cls.__new__(cls)


def _fill_manager(manager: Any, state: tuple[dict[str, Any], int]) -> None:
    attributes, size = state
    vars(manager).update(attributes)
    manager.pools = sys.modules["urllib3._collections"].RecentlyUsedContainer(size)


@promise("equal", _NEW)
def _manager(manager: Any) -> tuple[Any, ...]:
    held = {name: value for name, value in vars(manager).items() if name != "pools"}
    return _make_pool, (type(manager),), (held, manager.pools._maxsize), None, None, _fill_manager


def _fill_pool(pool: Any, state: tuple[dict[str, Any], int | None]) -> None:
    attributes, size = state
    vars(pool).update(attributes)
    if size is None:  # it was closed
        pool.pool = None
        return
    pool.pool = pool.QueueCls(size)
    for _ in range(size):
        pool.pool.put(None)


@promise("equal", _NEW)
def _pool(pool: Any) -> tuple[Any, ...]:
    held = {name: value for name, value in vars(pool).items() if name != "pool"}
    size = None if pool.pool is None else pool.pool.maxsize
    return _make_pool, (type(pool),), (held, size), None, None, _fill_pool


def plugin() -> Plugin:
    """Return what urllib3 needs."""
    return Plugin(
        subclasses=(
            (named("urllib3.poolmanager.PoolManager"), _manager),
            (named("urllib3.connectionpool.HTTPConnectionPool"), _pool),
        ),
    )
