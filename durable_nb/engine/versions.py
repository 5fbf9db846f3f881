"""Versions of Python and of the libraries that variables are made of: noted at every commit, compared at every restore.

Called by `session` and `restoring`. Nothing is refused because of a version: what differs is said once, by name.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from durable_nb.model import Manifest, Unsaved, Variable

if TYPE_CHECKING:
    from durable_nb.engine.session import Engine

__all__ = ["explained", "new_versions", "version_warnings"]

_NAMED = 6  # so many affected names are spelt out
_DEFINITIONS = frozenset({"function", "type", "abc.ABCMeta", "enum.EnumType"})


def _root(variable: Variable) -> str:
    return variable.type.partition(".")[0]


def _version(engine: Engine, library: str) -> str | None:
    """Return the version of a loaded library as it says itself, else as it was installed; None: it has none."""
    module = engine.modules.get(library)
    if module is None or library in sys.stdlib_module_names or library in ("__main__", "durable_nb"):
        return None
    version = vars(module).get("__version__") if isinstance(module, ModuleType) else None
    if isinstance(version, str):
        return version
    if getattr(module, "__file__", None) is None:
        return None
    # Reading a package's metadata takes half a millisecond. It is as of the import: a package that is installed anew
    # meanwhile is not the one that runs, until a reload gives the module another spec.
    spec = getattr(module, "__spec__", None)
    known = engine.installed.get(library)
    if known is None or known[0] is not module or known[1] is not spec:
        known = engine.installed[library] = (module, spec, _installed(library))
    return known[2]


def _installed(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


def _libraries(engine: Engine, changed: Mapping[str, Variable | None]) -> Iterator[str]:
    """Yield the libraries that variables are of, and those that the notebook imported by name.

    Only those that are new since the head: the head has noted what its own variables and imports are of.
    """
    namespace = engine.shell.namespace
    for name, variable in changed.items():
        if variable is not None:
            yield _root(variable)
            value: Any = namespace.get(name)
            if issubclass(type(value), ModuleType):
                yield value.__name__.partition(".")[0]


def new_versions(engine: Engine, changed: Mapping[str, Variable | None]) -> dict[str, str]:
    """Return the versions of Python and of the libraries in use that differ from what the head has noted."""
    known = engine.head.versions if engine.head else {}
    found = {"python": sys.version.split()[0]}
    for name in dict.fromkeys((*known, *_libraries(engine, changed))):
        if name != "python" and (version := _version(engine, name)) is not None:
            found[name] = version
    return {name: version for name, version in found.items() if known.get(name) != version}


def _differing(engine: Engine, manifest: Manifest) -> dict[str, tuple[str, str]]:
    """Return {library: (version then, version now)} of those that differ; of Python the minor version counts."""
    found = {}
    for name, then in manifest.versions.items():
        now = sys.version.split()[0] if name == "python" else _version(engine, name) or then
        same = then.split(".")[:2] == now.split(".")[:2] if name == "python" else then == now
        if not same:
            found[name] = (then, now)
    return found


def version_warnings(engine: Engine, manifest: Manifest) -> tuple[str, ...]:
    """Return one sentence per library that has another version now, with the variables that are made of it."""
    sentences = []
    for library, (then, now) in _differing(engine, manifest).items():
        names = [n for n, v in manifest.names.items() if n.isidentifier() and _is_of(v, library)]
        shown = ", ".join(f"`{n}`" for n in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        of_it = f" ({shown}{more})" if names else ""
        sentences.append(f"{library} was {then} when this was saved, and is {now} now{of_it}")
    return tuple(sentences)


def _is_of(variable: Variable, library: str) -> bool:
    return variable.type in _DEFINITIONS if library == "python" else _root(variable) == library


def explained(engine: Engine, manifest: Manifest, unsaved: Iterable[Unsaved]) -> tuple[Unsaved, ...]:
    """Return what did not load with the versions of its library in the reason, where they differ."""
    differing = _differing(engine, manifest)
    found = []
    for item in unsaved:
        variable = manifest.names.get(item.name)
        root = _root(variable) if variable is not None else ""
        # What a variable holds may be of another library than it is itself; the reason names that then.
        library = root if root in differing else next((n for n in differing if _names(item.reason, n)), "")
        if library and library != "python":
            then, now = differing[library]
            reason = f"{item.reason} ({library} was {then} when it was saved and is {now} now)"
            item = dataclasses.replace(item, reason=reason)
        found.append(item)
    return tuple(found)


def _names(reason: str, library: str) -> bool:
    return any(f"{before}{library}{after}" in reason for before in "'\" `" for after in "'\". `")
