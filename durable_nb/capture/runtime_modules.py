"""Modules that no import brings back, and the finders and path hooks of the notebook: found, named, put in place.

Called by `namespace`, which keeps them beside the variables under the names `sys.modules[NAME]`, `sys.meta_path[N]` and
`sys.path_hooks[N]`, so that what they share with variables stays shared; by `groups` and `pickler` for modules inside
values. Looking changes nothing and runs no code of a lazy module; `place` and `remove` change the interpreter's lists,
and `of_library` imports what a library says its class is in.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import logging
import re
import sys
import types
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from durable_nb.capture import plainly

__all__ = ["Elsewhere", "by_value", "is_made", "is_place", "of_library", "place", "reads", "remove"]

_log = logging.getLogger(__name__)
_PLACE = re.compile(r"sys\.(modules|meta_path|path_hooks)\[(.+)\]")
_MAINS = frozenset({"__main__", "__mp_main__"})


def _origin(module: Any) -> tuple[dict[str, Any], bool | None]:
    """Return a module's dictionary and whether a loader made it that every process has; None: no loader is known."""
    held: dict[str, Any] = object.__getattribute__(module, "__dict__")
    spec = held.get("__spec__")
    loader = getattr(spec, "loader", None) or held.get("__loader__")
    if loader is not None:
        return held, not _mine(loader if plainly.is_a(loader, type) else type(loader)) or _is_librarys(held)
    return held, True if getattr(spec, "submodule_search_locations", None) is not None else None


def _is_librarys(held: Mapping[str, Any]) -> bool:
    """Tell whether a module is source of a library: a loader of the notebook around all imports does not change it."""
    name, file = held.get("__name__"), held.get("__file__")
    if not isinstance(name, str) or not isinstance(file, str):
        return False
    installed = not {"site-packages", "dist-packages"}.isdisjoint(file.split("/"))
    package = name.partition(".")[0]
    known = package in sys.stdlib_module_names or package == "durable_nb"  # which may be used from where it is written
    return (installed or known) and file.endswith((".py", ".pyc", ".so"))


def _mine(obj: Any) -> bool:
    """Tell whether a function or class is of the notebook or of a module that it made."""
    module = plainly.home(obj)
    if module == "__main__":
        return True
    found = sys.modules.get(module)
    return found is not None and module not in sys.stdlib_module_names and is_made(found)


def is_made(module: Any, *, named: bool = False) -> bool:
    """Tell whether the notebook made a module: no file and no library has it, code of the notebook ran in it.

    Libraries register modules without a loader, too, inside their own package or from C; one that a variable `named`
    is the notebook's.
    """
    if type(module) is not types.ModuleType:
        return isinstance(module, types.ModuleType) and type(module).__module__ == "__main__"
    held, real = _origin(module)
    name = held.get("__name__")
    if real or not isinstance(name, str) or name in _MAINS:
        return False
    if real is False:
        return True
    root = sys.modules.get(name.partition(".")[0])
    if isinstance(root, types.ModuleType) and root is not module and _origin(root)[1]:
        return False
    return named or "__builtins__" in held


def of_library(name: str) -> types.ModuleType | None:
    """Return a module that a loaded package of a library has and nobody has imported yet, None if there is none.

    Libraries say of a class where to find it (`numpy.rec.recarray`) and load that place when it is first asked for.
    No finder of the notebook is asked whether there is one.
    """
    above, _, own = name.rpartition(".")
    package = (sys.modules.get(above) or of_library(above)) if above else None
    # What has been imported is there in its package, too: then somebody has removed it from `sys.modules` on purpose.
    if type(package) is not types.ModuleType or own in (held := vars(package)) or not _is_librarys(held):
        return None
    spec = importlib.machinery.PathFinder.find_spec(name, held.get("__path__"))
    if spec is None or not _is_librarys({"__name__": name, "__file__": spec.origin}):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except Exception:  # what it needs may not be installed; then no import finds anything in there
        return None


def by_value(module: types.ModuleType) -> bool:
    """Tell whether a module is stored with what it holds, because importing its name does not give it."""
    name = vars(module).get("__name__") if type(module) is types.ModuleType else module.__name__
    if name == "__main__" or not isinstance(name, str):
        return False
    if sys.modules.get(name) is module:
        return is_made(module, named=True)
    if type(module) is not types.ModuleType and type(module).__module__ != "__main__":
        return False
    # What was loaded by hand from a file of the user's; not a library that was imported twice.
    file = vars(module).get("__file__")
    return file is None or (str(file).endswith(".py") and not _is_librarys(vars(module)))


class Elsewhere:
    """What of the notebook hangs in `sys.modules`, `sys.meta_path` and `sys.path_hooks`, by name."""

    def __init__(self) -> None:
        self._count = -1
        self._made: dict[str, Any] = {}

    def names(self, variables: Iterable[Any]) -> dict[str, Any]:
        """Return it as of now; `variables` are the values of the namespace."""
        named = {id(v): v for v in variables if issubclass(type(v), types.ModuleType)}
        if len(sys.modules) != self._count:
            self._count = len(sys.modules)
            loaded = [(n, m) for n, m in list(sys.modules.items()) if n not in _MAINS]
            self._made = {n: m for n, m in loaded if self._is_ours(m)}
        found = {f"sys.modules[{n}]": m for n, m in self._now(named)}
        for attribute in ("meta_path", "path_hooks"):
            found.update(_hooks(attribute))
        return found

    def _is_ours(self, module: Any) -> bool:
        if plainly.is_a(module, types.ModuleType):
            return is_made(module)
        # Anything may be registered as a module; what is of a library's class is the library's.
        return module is not None and _mine(module if plainly.is_a(module, type) else type(module))

    def _now(self, named: Mapping[int, types.ModuleType]) -> Iterable[tuple[str, Any]]:
        found = {n: sys.modules[n] for n in self._made if n in sys.modules and self._is_ours(sys.modules[n])}
        for module in named.values():
            name = vars(module).get("__name__")
            if isinstance(name, str) and sys.modules.get(name) is module and is_made(module, named=True):
                found[name] = module
        return found.items()


def _hooks(attribute: str) -> dict[str, Any]:
    """Return the notebook's entries of a list: those before all others by their place, the rest from the end."""
    entries = getattr(sys, attribute)
    kinds = [e if plainly.is_a(e, type | types.FunctionType) else type(e) for e in entries]
    ours = [_mine(kind) for kind in kinds]
    first = ours.index(False) if False in ours else 0
    return {
        f"sys.{attribute}[{i if i < first else i - len(entries)}]": entry
        for i, (entry, mine) in enumerate(zip(entries, ours, strict=True))
        if mine
    }


def reads(modules: Iterable[str]) -> frozenset[str]:
    """Return the names under which what an import of these modules uses is kept."""
    wanted = set(modules)
    if not wanted:
        return frozenset()
    found = {f"sys.modules[{n}]" for n in wanted if n in sys.modules and is_made(sys.modules[n], named=True)}
    return frozenset(found.union(_hooks("meta_path"), _hooks("path_hooks")))


# --- putting in place -------------------------------------------------------------------------------------------------


def is_place(name: str) -> bool:
    """Tell whether a name stands for a place in the interpreter and not for a variable."""
    return name.startswith("sys.") and _PLACE.fullmatch(name) is not None


def place(values: Mapping[str, Any]) -> None:
    """Put values where their names say, in the order in which they were there."""
    for attribute in ("meta_path", "path_hooks"):
        wanted = {int(m[2]): v for n, v in values.items() if (m := _PLACE.fullmatch(n)) and m[1] == attribute}
        if not wanted:
            continue
        entries = getattr(sys, attribute)
        kept = [e for e in entries if not any(e is v for v in wanted.values())]
        for index in sorted(i for i in wanted if i >= 0):
            kept.insert(index, wanted[index])
        for index in sorted(i for i in wanted if i < 0):
            kept.insert(max(0, len(kept) + index + 1 + sum(1 for i in wanted if index < i < 0)), wanted[index])
        entries[:] = kept
        if attribute == "path_hooks":
            sys.path_importer_cache.clear()
    modules = {m[2]: v for n, v in values.items() if (m := _PLACE.fullmatch(n)) and m[1] == "modules"}
    sys.modules.update(modules)
    if values:
        importlib.invalidate_caches()
    for name, module in modules.items():
        package, _, last = name.rpartition(".")
        # An import says this to the package; one that is stored itself holds it already.
        if package and package not in modules:
            _tell(package, last, module)


def _tell(package: str, last: str, module: Any) -> None:
    try:
        setattr(importlib.import_module(package), last, module)
    except Exception:  # code of a package: the module is there all the same, and its package says why it is not
        _log.warning("%s.%s is back, but its package %s could not be imported", package, last, package, exc_info=True)


def remove(names: Iterable[str], values: Mapping[str, Any]) -> None:
    """Take away what is in these places, as `Elsewhere.names` found it."""
    for name in names:
        found = _PLACE.fullmatch(name)
        if found is None or name not in values:
            continue
        if found[1] == "modules":
            sys.modules.pop(found[2], None)
            package, _, last = found[2].rpartition(".")
            held = vars(sys.modules[package]) if isinstance(sys.modules.get(package), types.ModuleType) else {}
            if held.get(last) is values[name]:
                del held[last]
        else:
            entries = getattr(sys, found[1])
            entries[:] = [e for e in entries if e is not values[name]]
