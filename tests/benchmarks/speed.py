"""Measure what keeping a notebook costs: the same cells in real kernels, plain, durable, and with other systems.

Run by `make bench`, or `python tests/benchmarks/speed.py [--small] [--workloads c,d] [--systems plain,durable_nb,dill]
[--write] [--json PATH] [--profile]`. Prints tables and never fails because of a time; a system that fails, or brings
back wrong values, has that in its row. `--write` puts the tables into SPEED.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from speed_goals import goals
from speed_machine import machine
from speed_measuring import Limits, Measured, measured, removed
from speed_systems import SYSTEMS, System, kishu_python
from speed_tables import Compared, document, profiles, tables
from speed_workloads import Workload, workloads

DOCUMENT = Path(__file__).with_name("SPEED.md")
PLAIN = "plain"


def main() -> None:
    """Measure what was asked for and print it."""
    args = arguments()
    if not sys.platform.startswith("linux"):
        print("The figures of speed.py come from /proc, so it runs on Linux only; nothing was measured.")
        return
    # Asked to end, it ends its kernels and removes its folders.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    form = "small" if args.small else "full"
    known = workloads(form)
    chosen = [known[key] for key in args.workloads.split(",")] if args.workloads else list(known.values())
    limits = Limits(cells_s=300, cell_s=120) if args.small else Limits()
    if args.cells_s:
        limits = replace(limits, cells_s=args.cells_s)
    about = described(form)
    print(about, "\n", flush=True)
    compared = []
    with tempfile.TemporaryDirectory(prefix="speed-", dir=args.scratch) as name:
        systems = [SYSTEMS[key] for key in args.systems.split(",")]
        kishu = kishu_python(args.environments or Path(name)) if any(s.own_python for s in systems) else None
        for workload in chosen:
            compared.append(compare(workload, systems, Path(name), kishu, limits, profile=args.profile))
            if args.json is not None:
                args.json.write_text(json.dumps([one.to_json() for one in compared], indent=1))
        speeds = machine(Path(name), small=args.small) if args.machine else {}
    text = tables(compared, goals(compared), speeds)
    print(text)
    if args.profile:
        print(profiles(compared))
    if args.write:
        DOCUMENT.write_text(document(text, about), encoding="utf-8")


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="sizes that take seconds, for work on the code")
    parser.add_argument("--workloads", default="", metavar="a,b,…", help=f"of {','.join(workloads('small'))}")
    parser.add_argument("--systems", default=",".join(SYSTEMS), metavar="NAME,…", help="default: %(default)s")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {DOCUMENT.name}")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all single figures here")
    parser.add_argument("--profile", action="store_true", help="tell where durable_nb's time goes; blurs its times")
    parser.add_argument("--machine", action="store_true", help="also measure hashing, copying and the disk")
    parser.add_argument("--cells-s", type=float, metavar="S", help="give up on a system after so many seconds of cells")
    parser.add_argument("--scratch", type=Path, metavar="FOLDER", help="where the systems store, default: temporary")
    parser.add_argument("--environments", type=Path, metavar="FOLDER", help="where Kishu's environment is kept")
    return parser.parse_args()


def compare(
    workload: Workload, systems: Sequence[System], scratch: Path, kishu: Path | None, limits: Limits, *, profile: bool
) -> Compared:
    """Run a workload under each system, and plain before and after them, one kernel at a time."""
    asked = [s for s in systems if s.name != PLAIN and (not workload.systems or s.name in workload.systems)]
    plain = [one(workload, SYSTEMS[PLAIN], scratch, kishu, limits)]
    found = [
        one(workload, s, scratch, kishu, limits, plain=plain[0], profile=profile and s.name == "durable_nb")
        for s in asked
    ]
    if asked:
        # A busy machine is busy for some time: what it did to the first plain kernel, it does not do to the second.
        plain.append(one(workload, SYSTEMS[PLAIN], scratch, kishu, limits))
    return Compared(workload=workload.key, title=workload.title, plain=plain, found=found)


def one(
    workload: Workload,
    system: System,
    scratch: Path,
    kishu: Path | None,
    limits: Limits,
    *,
    plain: Measured | None = None,
    profile: bool = False,
) -> Measured:
    """Run a workload under one system in a folder of its own, and remove that."""
    folder = scratch / f"{workload.key}-{system.name}"
    python = kishu if system.own_python else None
    shared = scratch / ("own" if python else "shared")
    prepare(shared, python)
    began = time.perf_counter()
    try:
        found = measured(
            workload,
            system,
            folder=folder,
            shared=shared,
            python=python,
            expected=plain.answers if plain else None,
            limits=limits,
            profile=profile,
        )
    except (RuntimeError, ChildProcessError, TimeoutError) as error:
        if plain is None:
            raise
        found = Measured(workload=workload.key, system=system.name, stopped=f"{type(error).__name__}: {error}"[:200])
    finally:
        removed(folder)
    print(f"{workload.key} {system.name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def prepare(shared: Path, python: Path | None) -> None:
    """Import once what the workloads import, so that no cell that is measured is the first to read it from the disk."""
    if not shared.exists():
        shared.mkdir()
        environ = {**os.environ, "MPLCONFIGDIR": str(shared)}
        imports = "import matplotlib.pyplot, pandas, sklearn.ensemble, sklearn.pipeline"
        subprocess.run([str(python or sys.executable), "-c", imports], env=environ, check=True, capture_output=True)


def described(form: str) -> str:
    """Return one sentence about the machine and what is installed."""
    packages = ("ipykernel", "ipython", "numpy", "pandas", "scikit-learn", "dill", "cloudpickle")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    load, system = os.getloadavg()[0], f"{platform.system()} {platform.release().split('-')[0]}"
    return (
        f"The {form} form, on {os.cpu_count()} cores, {memory_gb():.0f} GB of memory (load {load:.1f} at the start), "
        f"{system}, Python {platform.python_version()}, {versions}."
    )


def memory_gb() -> float:
    """Return the memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


if __name__ == "__main__":
    main()
