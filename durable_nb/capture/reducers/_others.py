"""Plug-ins of other packages: found by their entry points, imported when their library is, and never trusted to work.

Called by `load`. One that is broken is logged and named, and costs nothing else. The list of entry points is read once
per process: a package that is installed later is found by the next kernel.
"""

from __future__ import annotations

import gc
import importlib.metadata
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_nb.capture.reducers import Plugin

__all__ = ["GROUP", "Offer", "Outcome", "offers", "outcome", "over"]

GROUP = "durable_nb.reducers"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One entry point: the top-level module that it is about, `module:callable`, and the package that it is from."""

    library: str
    value: str
    package: str


class Guarded:
    """A function of somebody else's that answers for the walk over values: when it raises, it is not asked again."""

    def __init__(self, call: Callable[[Any], Any], instead: Callable[[Any], Any], about: str) -> None:
        self.call, self.instead, self.about, self.failed = call, instead, about, ""

    def __call__(self, obj: Any) -> Any:
        if not self.failed:
            try:
                return self.call(obj)
            except Exception as error:
                self.failed = f"{self.about} raised {type(error).__name__}: {error}"
                _log.warning("%s; it is not asked again", self.failed)
                _log.debug("where it was raised", exc_info=True)
        return self.instead(obj)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an offer: a plug-in, or the reason why there is none; `guards` may fail later."""

    offer: Offer
    plugin: Plugin | None
    reason: str = ""
    guards: tuple[Guarded, ...] = ()

    @property
    def trouble(self) -> str:
        """What does not work of it, now; empty: everything works."""
        return self.reason or next((guard.failed for guard in self.guards if guard.failed), "")


@lru_cache(maxsize=1)
def offers() -> tuple[Offer, ...]:
    """Return what the installed packages offer, in order of library and package."""
    found = [
        Offer(library=entry.name, value=entry.value, package=entry.dist.name if entry.dist is not None else "")
        for entry in importlib.metadata.entry_points(group=GROUP)
    ]
    return tuple(sorted(set(found), key=lambda o: (o.library, o.package, o.value)))


@lru_cache(maxsize=64)
def outcome(offer: Offer, kind: type[Plugin]) -> Outcome:
    """Import a plug-in and look whether it keeps the rules; each offer once per process. `kind` is `Plugin`."""
    try:
        made = importlib.metadata.EntryPoint(name=offer.library, value=offer.value, group=GROUP).load()()
        if not isinstance(made, kind):
            raise TypeError(f"it returned a {type(made).__name__} instead of a Plugin")
        _check(made)
    except (Exception, SystemExit) as error:
        reason = f"{offer.value} of {offer.package or 'a package'} does not work: {type(error).__name__}: {error}"
        _log.warning("the plug-in for %s is left out: %s", offer.library, reason)
        _log.debug("where it was raised", exc_info=True)
        return Outcome(offer=offer, plugin=None, reason=reason)
    return _guarded(offer, made)


def _check(made: Plugin) -> None:
    keys = (*made.exact, *(base for base, _ in made.subclasses), *made.referents, *made.memory)
    for key in keys:
        if not isinstance(key, type):
            raise TypeError(f"{key!r} is no class")
    for reducer in (*made.exact.values(), *(reducer for _, reducer in made.subclasses)):
        if not hasattr(getattr(reducer, "promise", None), "kept"):
            raise TypeError(f"{getattr(reducer, '__qualname__', reducer)!r} makes no promise (@promise)")
    for asked in (*made.referents.values(), *made.memory.values()):
        if not callable(asked):
            raise TypeError(f"{asked!r} cannot be called")


def _guarded(offer: Offer, made: Plugin) -> Outcome:
    about = f"the plug-in for {offer.library} ({offer.package})"
    referents = {cls: Guarded(ask, gc.get_referents, about) for cls, ask in made.referents.items()}
    memory = {cls: Guarded(ask, lambda _: None, about) for cls, ask in made.memory.items()}
    guards = (*referents.values(), *memory.values())
    return Outcome(offer=offer, plugin=replace(made, referents=referents, memory=memory), guards=guards)


def over(ours: Plugin, theirs: Iterable[Outcome]) -> Plugin:
    """Return both together: theirs win for exact types and for classes of their library, ours for all else."""
    exact, referents, memory = dict(ours.exact), dict(ours.referents), dict(ours.memory)
    first: list[tuple[type, Any]] = []
    last: list[tuple[type, Any]] = []
    for one in reversed(list(theirs)):
        if one.plugin is None:
            continue
        exact.update(one.plugin.exact)
        own = [pair for pair in one.plugin.subclasses if _owns(one.offer.library, pair[0])]
        first[:0] = own
        last[:0] = [pair for pair in one.plugin.subclasses if pair not in own]
        _take(referents, one.plugin.referents, one.offer.library)
        _take(memory, one.plugin.memory, one.offer.library)
    return replace(ours, exact=exact, subclasses=(*first, *ours.subclasses, *last), referents=referents, memory=memory)


def _take(into: dict[type, Any], theirs: Mapping[type, Any], library: str) -> None:
    into.update({cls: ask for cls, ask in theirs.items() if cls not in into or _owns(library, cls)})


def _owns(library: str, cls: Any) -> bool:
    # What `named` makes stands for the classes whose names it was given.
    names = getattr(cls, "names", None) if cls.__module__.startswith("durable_nb.") else None
    modules = names if isinstance(names, frozenset) else {f"{cls.__module__}."}
    return bool(modules) and all(module.partition(".")[0] == library for module in modules)
