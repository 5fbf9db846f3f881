"""The systems that the speed benchmark compares: how each is switched on, and how it brings a namespace back.

Read by `speed.py`. Kishu needs other versions of libraries than durable_nb has; it gets an environment of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

__all__ = ["SYSTEMS", "System", "kishu_python"]

KISHU = "kishu==0.3.4"
# What the workloads import, in the versions that everyone else has.
LIBRARIES = ("numpy", "pandas", "scikit-learn", "matplotlib", "ipykernel", "ipython")


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A way to keep a namespace: cells to run before the others and, in a new kernel, to bring it back.

    `{folder}` in the texts is the kernel's folder. `stores` are patterns of the files that the system keeps there.
    `silent`: the cells do not count as a person's. `files` are made in the folder at the start. `restores`: there is
    something to bring back.
    """

    name: str
    install: Sequence[str] = ()
    restore: Sequence[str] = ()
    stores: Sequence[str] = ()
    silent: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    restores: bool = True
    own_python: bool = False


_LOAD = "%load_ext durable_nb"
_ON = "%durable on"

_DILL = """
def _install():
    import dill
    get_ipython().events.register("post_run_cell", lambda *_: dill.dump_session({folder!r} + "/session.pkl"))
_install()
del _install
"""

# Only names that the person made: not the shell's, nor its history.
_CLOUDPICKLE = """
def _install():
    import os, re
    import cloudpickle
    shell = get_ipython()
    at_start = dict(shell.user_ns)
    own = re.compile(r"_+|_i+|_\\d+|_i\\d+|_[oid]h|In|Out")
    path = {folder!r} + "/namespace.pkl"
    def save(*_):
        space = {{k: v for k, v in shell.user_ns.items() if not own.fullmatch(k) and at_start.get(k, own) is not v}}
        with open(path + ".new", "wb") as file:
            cloudpickle.dump(space, file)
        os.replace(path + ".new", path)
    shell.events.register("post_run_cell", save)
_install()
del _install
"""
_UNPICKLE = """
import cloudpickle
with open({folder!r} + "/namespace.pkl", "rb") as _file:
    get_ipython().user_ns.update(cloudpickle.load(_file))
"""

# As its own command does, in a silent cell. Attaching forgets where the notebook was, so that is asked before.
_ATTACH = "from kishu import init_kishu; init_kishu({folder!r} + '/notebook.ipynb')"
_CHECKOUT = """
from pathlib import Path as _Path
from kishu.storage.branch import KishuBranch as _Branch
from kishu.storage.path import KishuPath as _KishuPath
_notebook = _Path({folder!r} + '/notebook.ipynb')
_head = _Branch(_KishuPath.database_path(_notebook)).get_head().commit_id
from kishu import init_kishu
init_kishu(str(_notebook))
get_ipython().user_ns["_kishu"].checkout(_head)
"""
_EMPTY_NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})

SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System(name="plain", restores=False),
        System(name="durable_nb", install=(_LOAD, _ON), restore=(_LOAD, _ON), stores=(".durable/**/*",)),
        System(
            name="dill",
            install=(_DILL,),
            restore=("import dill; dill.load_session({folder!r} + '/session.pkl')",),
            stores=("session.pkl",),
        ),
        System(name="cloudpickle", install=(_CLOUDPICKLE,), restore=(_UNPICKLE,), stores=("namespace.pkl*",)),
        System(
            name="kishu",
            install=(_ATTACH,),
            restore=(_CHECKOUT,),
            stores=("notebook.kishudb*",),
            silent=True,
            # No front end saves the notebook here, and waiting for it would be added to the time of every cell.
            environ={
                "ENV_KISHU_TEST_MODE": "1",
                "TEST_NOTEBOOK_PATH": "{folder}/notebook.ipynb",
                "KISHU_PATH_ROOT": "{folder}",
            },
            files={"notebook.ipynb": _EMPTY_NOTEBOOK},
            own_python=True,
        ),
    )
}


def kishu_python(scratch: Path) -> Path:
    """Return the Python of an environment with Kishu, which is made below `scratch` if it is not there."""
    # Kernels start in folders of their own, so a relative path would not do.
    folder = scratch.resolve() / f"speed-{KISHU.replace('==', '-')}-{sys.version_info.major}.{sys.version_info.minor}"
    python, done = folder / "bin" / "python", folder / "complete"
    if not done.exists():
        print(f"making an environment with {KISHU} in {folder} …", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        same = [f"{name}=={metadata.version(name)}" for name in LIBRARIES]
        ran = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", KISHU, *same],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise SystemExit(f"{KISHU} could not be installed:\n{ran.stderr}")
        done.write_text("")
    return python
