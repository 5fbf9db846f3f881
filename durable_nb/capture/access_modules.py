"""Which modules are local files of the user, and a digest of what they contain.

Called by the access analysis and, for digests, by the engine; reads source files, changes nothing, imports nothing.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from types import ModuleType

from durable_nb.capture import plainly

__all__ = ["installed_folders", "local_file", "module_digest", "reads_notebook", "with_imports"]

_MAX_PACKAGE_FILES = 5_000
# Attributes by which a module's code comes to the names of whoever called it, or to those of the shell.
_LOOKING_UP = ("f_globals", "f_locals", "user_ns", "user_global_ns", "user_module")
_INSTALLED_PARTS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@functools.cache
def installed_folders() -> tuple[str, ...]:
    """Return the folders of the standard library and of installed packages, each with a trailing separator."""
    paths = sysconfig.get_paths()
    found = {paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib") if paths.get(k)}
    found |= {os.path.realpath(p) for p in found}
    return tuple(sorted(p.rstrip(os.sep) + os.sep for p in found))


def _own_folder() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _is_local_path(path: str, installed: tuple[str, ...]) -> bool:
    if any(part in path for part in _INSTALLED_PARTS):
        return False
    # Notebook cells and frozen modules have names such as `<frozen os>` or files of the kernel that do not last.
    return not path.startswith((*installed, _own_folder(), "<"))


def _find(name: str) -> str | None:
    """Find the file of a module that is not loaded, without importing its parents."""
    relative = name.replace(".", os.sep)
    for entry in sys.path:
        base = os.path.join(entry or os.curdir, relative)
        for candidate in (os.path.join(base, "__init__.py"), base + ".py"):
            if os.path.isfile(candidate):
                return candidate
    return None


def local_file(name: str, *, installed: tuple[str, ...] | None = None) -> str | None:
    """Return the source file of a local module, None when it is built in, installed, or not to be found."""
    module = sys.modules.get(name)
    # Not asked by itself: a lazy module would be loaded.
    path = (plainly.own_dict(module) or {}).get("__file__") if plainly.is_a(module, ModuleType) else None
    if module is None:
        root = name.partition(".")[0]
        if root in sys.stdlib_module_names or root in sys.builtin_module_names:
            return None
        path = _find(name)
    if not isinstance(path, str):
        return None
    path = os.path.abspath(path)
    return path if _is_local_path(path, installed_folders() if installed is None else installed) else None


def _package_files(path: str) -> Iterator[str]:
    if os.path.basename(path) != "__init__.py":
        yield path
        return
    for folder, folders, names in os.walk(os.path.dirname(path)):
        # Sorted, so that the digest does not depend on the order in which the file system lists them.
        folders[:] = sorted(f for f in folders if f != "__pycache__" and not f.startswith("."))
        yield from (os.path.join(folder, n) for n in sorted(names) if n.endswith(".py"))


def module_digest(name: str) -> str | None:
    """Return a digest of a local module's source (of all `.py` files for a package), None if it is not local."""
    path = local_file(name)
    if path is None:
        return None
    base, digest = os.path.dirname(path), hashlib.sha256()
    for count, file in enumerate(_package_files(path)):
        if count >= _MAX_PACKAGE_FILES:
            digest.update(b"more files")
            break
        try:
            with open(file, "rb") as stream:
                content = stream.read()
        except OSError as error:
            content = f"unreadable: {error.strerror}".encode()
        digest.update(os.path.relpath(file, base).encode("utf-8", "surrogateescape") + b"\0")
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def _imports_of_source(path: str, name: str) -> set[str]:
    try:
        with open(path, "rb") as stream:
            tree = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError):
        # The digest of the file is input all the same; what it would import cannot be known and did not run.
        return set()
    package = name if os.path.basename(path) == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, node.module] if node.module else parts)
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def _imports_of_loaded(module: ModuleType) -> set[str]:
    found: set[str] = set()
    for value in list(vars(module).values()):
        # Not asked by itself: what is worked out when it is first used (a proxy, lazy settings) stays as it is.
        owner = vars(value).get("__name__") if plainly.is_a(value, ModuleType) else plainly.home(value)
        if type(owner) is str and owner != module.__name__:
            found.add(owner)
    return found


def with_imports(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of `names` that are local modules, and the local modules they import in turn, sorted."""
    installed = installed_folders()
    found: set[str] = set()
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if not name or name in seen or name == "__main__":
            continue
        seen.add(name)
        path = local_file(name, installed=installed)
        if path is None:
            continue
        found.add(name)
        module = sys.modules.get(name)
        todo.extend(_imports_of_source(path, name))
        if module is not None and plainly.is_a(module, ModuleType):
            # Star imports and modules made known at run time are not in the source under their own name.
            todo.extend(_imports_of_loaded(module))
        if "." in name:
            todo.append(name.rpartition(".")[0])
    return tuple(sorted(found))


def reads_notebook(modules: Iterable[str]) -> list[str]:
    """Return a reason for each of these local modules whose code may look at the notebook's own names."""
    return [f"module {name} may read any name of the notebook" for name in modules if _asks_for_main(local_file(name))]


def _asks_for_main(path: str | None) -> bool:
    try:
        with open(path or "", "rb") as stream:
            source = stream.read()
        if not any(word.encode() in source for word in ("__main__", *_LOOKING_UP)):
            return False
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return False  # It did not run either; its digest is input all the same.
    # `if __name__ == "__main__":` asks for nothing.
    compared = {
        id(n) for node in ast.walk(tree) if isinstance(node, ast.Compare) for n in [node.left, *node.comparators]
    }
    return any(
        (isinstance(node, ast.Import) and any(alias.name == "__main__" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "__main__" and not node.level)
        or (isinstance(node, ast.Constant) and node.value == "__main__" and id(node) not in compared)
        or (isinstance(node, ast.Attribute) and node.attr in _LOOKING_UP)
        for node in ast.walk(tree)
    )
