"""Which names of a namespace are the user's, found out at the speed of C where nothing but values moved.

Called by `namespace` at every look, in one thread. There are as many names of IPython's history as there were cells, so
what is known of a name is kept, and only new names are looked at one by one. Nothing here changes the namespace.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from durable_nb.capture import plainly, runtime_modules
from durable_nb.capture.codec import Failed
from durable_nb.capture.isolate import type_name

__all__ = ["OUT", "LiveNames", "UserNames", "wanted"]

OUT: Final = re.compile(r"Out\[(\d+)\]")

# What IPython and Python keep in every namespace, whatever it is bound to.
_SHELLS: Final = frozenset(
    {"_oh", "_dh", "_ih", "_i", "_ii", "_iii", "__name__", "__package__", "__loader__", "__spec__"}
    | {"__builtin__", "__builtins__", "__warningregistry__"}
)
_CALLED: Final = frozenset({"exit", "quit", "get_ipython"})
_HISTORY: Final = re.compile(r"_i?\d+")
_LAST: Final = frozenset({"_", "__", "___"})


class LiveNames:
    """The user's names and values, entries of `Out` under `Out[n]`, made modules under `sys.modules[n]`."""

    def __init__(
        self,
        namespace: dict[str, Any],
        hidden: Callable[[], Mapping[str, Any]],
        out: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._namespace, self._hidden, self._out = namespace, hidden, out
        self._users = UserNames(namespace)
        self._elsewhere = runtime_modules.Elsewhere()

    def now(self) -> dict[str, Any]:
        chosen = self._users.now(self._hidden(), self._out)
        places = self._elsewhere.names(chosen.values())
        chosen.update(self._out())
        chosen.update(places)
        return chosen

    def value(self, name: str) -> Any:
        """Return the live value of a name; Failed if there is none."""
        try:
            if runtime_modules.is_place(name):
                return self._elsewhere.names(self._namespace.values())[name]
            return self._out()[name] if OUT.fullmatch(name) else self._namespace[name]
        except KeyError:
            raise Failed(f"it needs {name}, which is not defined") from None


class UserNames:
    """The names in a namespace that are neither the shell's nor Python's."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._keys: list[Any] = []  # all keys of the namespace, as they were sorted last
        self._names: list[str] = []  # those that may be the user's, in the same order
        self._get: Callable[[Mapping[str, Any]], tuple[Any, ...]] = lambda namespace: ()
        self._odd: list[str] = []  # those of them where the value decides

    def now(self, hidden: Mapping[str, Any], results: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return the user's names and values; `hidden` are the shell's, with the values that it gave them.

        A name that the shell hides is the user's as soon as it is bound to another value. `results` gives `Out`.
        """
        while True:
            self._sort()
            try:
                values = self._get(self._namespace)
            except KeyError:  # a thread of the user's has removed a name since; the next turn finds it gone
                continue
            break
        chosen = dict(zip(self._names, values, strict=True))
        for part in hidden.maps if isinstance(hidden, ChainMap) else (hidden,):
            for name in list(part) if len(part) < len(chosen) else list(filter(part.__contains__, self._names)):
                if name in chosen and chosen[name] is part[name]:
                    del chosen[name]
        for name in self._odd:
            if name in chosen and _is_shells(name, chosen[name], results):
                del chosen[name]
        return chosen

    def _sort(self) -> None:
        """Take in the names that are new; of all others it is known whose they are."""
        keys = list(self._namespace)
        known = len(self._keys)
        try:
            kept = keys[:known] == self._keys
        except Exception:  # keys that are no names may have been exchanged, and refuse to be compared
            kept = False
        if kept and len(keys) == known:
            return
        if not kept:
            # Something was removed: names may have come back at the end, and others have taken their places.
            known, self._names, self._odd = 0, [], []
        # What the class of a key says of itself may be anything; only plain strings are names of variables.
        new = [key for key in keys[known:] if type(key) is str and not _is_always_shells(key)]
        self._keys = keys
        if new or not known:
            self._names += new
            self._odd += [name for name in new if name[0:1] == "_" or name in _CALLED]
            self._get = _getter(self._names)


def _getter(names: list[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    if len(names) < 2:
        return lambda namespace: tuple(namespace[name] for name in names)
    return operator.itemgetter(*names)


def _is_always_shells(name: str) -> bool:
    return name in _SHELLS or (name[0:1] == "_" and _HISTORY.fullmatch(name) is not None)


def _is_shells(name: str, value: Any, results: Callable[[], Mapping[str, Any]]) -> bool:
    if name in _CALLED:
        return plainly.module(type(value)).startswith("IPython.") or type_name(value) == "method"
    if name in _LAST:
        # A person's own `_` (a loop variable, gettext) is a variable; the last results are not.
        return (type(value) is str and not value) or any(value is one for one in results().values())
    return False


def wanted(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Tell whether the patterns ask for a name to be saved."""
    if include and not any(fnmatch.fnmatchcase(name, pattern) for pattern in include):
        return False
    return not any(fnmatch.fnmatchcase(name, pattern) for pattern in exclude)
