"""Durable execution for Jupyter: `%load_ext durable_nb`, `%%durable` on a cell, and a crash costs nothing.

The public names are forwarded lazily, so that `import durable_nb` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_nb.errors import DurableError as DurableError
    from durable_nb.errors import NonRetryable as NonRetryable
    from durable_nb.model import Unsaved

__version__ = "0.1.0"
__all__ = [
    "DurableError",
    "NonRetryable",
    "__version__",
    "load_ipython_extension",
    "unload_ipython_extension",
    "unsaved",
]

_ERRORS = frozenset({"DurableError", "NonRetryable"})


def __getattr__(name: str) -> Any:
    if name in _ERRORS:
        import durable_nb.errors

        return getattr(durable_nb.errors, name)
    raise AttributeError(f"module 'durable_nb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Attach durable_nb to this IPython shell; called by `%load_ext durable_nb`."""
    from durable_nb.resources import uncollected

    with uncollected():  # a quarter of the time that it takes
        from durable_nb.kernel.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take every hook, magic and transformer away again; called by `%unload_ext durable_nb`."""
    from durable_nb.kernel.extension import unload

    unload(shell)


def unsaved() -> list[Unsaved]:
    """Return what the last checkpoint, or after a restore the restored one, could not hold.

    Each entry has `name` (a variable, or spelt-out process state such as `os.environ[X]`), `path` inside the object,
    `type` and `reason`. Empty outside a kernel that has loaded the extension.
    """
    from durable_nb.kernel.extension import current_unsaved

    return current_unsaved()
