"""The order of the tests: files that take longest begin first, so that no worker is left alone with one at the end."""

from __future__ import annotations

import pytest

# Seconds, as seen on a small machine; all others take less than a minute.
LONG = {
    "kernel/test_notebooks.py": 200,
    "property/test_random_notebooks.py": 170,
    "zoo/test_zoo_more.py": 120,
    "zoo/test_zoo.py": 110,
    "kernel/test_process_state.py": 100,
    "property/test_deep.py": 90,
    "property/test_lazy.py": 80,
    "kernel/test_install.py": 70,
    "faults/test_kill9.py": 65,
    "faults/test_engine_io_fails.py": 60,
    "property/test_tracked.py": 60,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by file, the longest first; within a file the order stays."""
    items.sort(key=lambda item: -next((s for name, s in LONG.items() if item.nodeid.split("::")[0].endswith(name)), 0))
