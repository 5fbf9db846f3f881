"""Tells when an import of local modules is over, so that what code does to them afterwards can be told from it.

Used by `process_modules`. One finder stands before Python's own in `sys.meta_path`; it finds what that one finds, and
a loader that it watched is the plain one again once its module has run. It goes when nobody listens any more.
"""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, Protocol, TypeVar

__all__ = ["Listener", "watch_imports"]

_log = logging.getLogger(__name__)
_F = TypeVar("_F", bound=Callable[..., None])


class Listener(Protocol):
    """What wants to know of the imports of local modules; those inside another one belong to the outermost."""

    def is_local(self, file: str) -> bool:
        """Tell whether a file is one whose imports matter."""
        ...

    def import_begins(self) -> Any:
        """Take note of the state before; what is returned is handed to `import_ends`."""
        ...

    def import_ends(self, before: Any, modules: Sequence[ModuleType]) -> None:
        """Take note of the state after; `modules` ran meanwhile, the outermost one last."""
        ...


def _unseen(function: _F) -> _F:
    """Let Python leave a function out of the tracebacks of failed imports, as it does with its own import system."""
    code = function.__code__
    function.__code__ = code.replace(co_filename="<frozen importlib._bootstrap_external>")
    return function


def _told(tell: Callable[[], Any]) -> Any:
    """Tell a listener; None if that fails: the import is the user's, and nothing of ours may stop it."""
    try:
        return tell()
    except Exception:
        _log.debug("An import of local modules was not taken note of.", exc_info=True)
        return None


class _Loader(SourceFileLoader):
    """The loader of a local module until it has run."""

    watch: _Watch

    @_unseen
    def exec_module(self, module: ModuleType) -> None:
        watch = self.watch
        del self.watch
        self.__class__ = SourceFileLoader  # type: ignore[assignment]
        watch.run(self, module)


class _Watch:
    """The finder."""

    def __init__(self, listener: Listener) -> None:
        self._listener = weakref.ref(listener, self._remove)
        self._thread = threading.local()

    def _remove(self, _: object) -> None:
        # The interpreter takes its own lists away when it ends.
        if self in (entries := sys.meta_path or []):
            entries.remove(self)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        listener = self._listener()
        if spec is None or listener is None or type(spec.loader) is not SourceFileLoader:
            return spec
        if listener.is_local(spec.loader.path):
            spec.loader.__class__ = _Loader
            spec.loader.watch = self  # type: ignore[attr-defined]
        return spec

    @_unseen
    def run(self, loader: SourceFileLoader, module: ModuleType) -> None:
        """Run a module; the outermost of this thread's local modules tells the listener."""
        listener = self._listener()
        running: list[ModuleType] | None = getattr(self._thread, "running", None)
        if listener is None or running is not None:
            loader.exec_module(module)
            if running is not None:
                running.append(module)
            return
        before = _told(listener.import_begins)
        self._thread.running = list[ModuleType]()
        try:
            loader.exec_module(module)
            self._thread.running.append(module)
        finally:
            ran, self._thread.running = self._thread.running, None
            if before is not None:
                _told(lambda: listener.import_ends(before, ran))


def watch_imports(listener: Listener) -> None:
    """Tell the listener of imports from now on, as long as it lives."""
    for index, finder in enumerate(sys.meta_path):
        if finder is PathFinder or isinstance(finder, _Watch):
            sys.meta_path.insert(index, _Watch(listener))
            return
