"""Settings: one frozen value, read once when the extension loads or a command starts.

Precedence: cell option > environment > default. Called by the composition roots.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from durable_nb.errors import UsageError

__all__ = ["Settings"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "skip": ("after-restore", "always", "never"),
    "on_restart": ("fresh", "continue"),
    "unknown_inputs": ("skip", "run"),
    "restore": ("auto", "ask", "off"),
    "durability": ("sync", "async"),
    "lazy": ("auto", "off"),
}
_NUMBERS = frozenset({"eager_bytes"})
_SIZE = re.compile(r"(\d{1,15})\s*(B|KiB|MiB|GiB)?")
_UNITS = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_PREFIX = "DURABLE_NB_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set, with its default.

    skip: when a finished, unchanged cell is skipped: in a later kernel life, always, or never.
    on_restart: whether a person's restart starts a fresh run or continues the last one.
    unknown_inputs: whether a finished cell whose inputs cannot all be seen is skipped or run.
    restore: whether the namespace comes back by itself after a lost kernel (auto), is offered (ask) or left (off).
    lazy: whether the largest variables of a restored checkpoint are loaded when they are needed (auto), or all at once
    (off). eager_bytes: how much is loaded at once in any case.
    dir: folder of the data, default `.durable` beside the notebook. key_file: the signing key. workflow: its id.
    durability: whether a cell is committed before its reply (sync) or handed to a process that commits it (async).
    inflight: how much may be handed over and not yet on disk, such as 512MiB; the next cell waits beyond that.
    env: names of environment variables, separated by commas, that are stored with their values.
    """

    skip: str = "after-restore"
    on_restart: str = "fresh"
    unknown_inputs: str = "skip"
    restore: str = "auto"
    dir: str = ""
    key_file: str = ""
    workflow: str = ""
    env: str = ""
    durability: str = "async"
    inflight: str = "512MiB"
    lazy: str = "auto"
    eager_bytes: int = 64 * 1024 * 1024

    @property
    def budget_bytes(self) -> int:
        """The size that `inflight` says."""
        found = _SIZE.fullmatch(self.inflight)
        assert found is not None  # checked when it was read
        return int(found[1]) * _UNITS[found[2]]

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Read `DURABLE_NB_*`; a wrong value is a UsageError that names the right ones."""
        known = {field.name for field in fields(cls)}
        found: dict[str, Any] = {}
        for variable, value in environ.items():
            if not variable.startswith(_PREFIX) or not value:
                continue
            name = variable[len(_PREFIX) :].lower()
            if name not in known:
                continue
            if name in _CHOICES and value not in _CHOICES[name]:
                raise UsageError(_wrong(variable, value, _CHOICES[name]))
            if name == "inflight" and not _SIZE.fullmatch(value):
                raise UsageError(f"{variable}={value} is not a size.", hint="Write it as 512MiB or 2GiB.")
            found[name] = _number(variable, value) if name in _NUMBERS else value
        return cls(**found)


def _number(variable: str, value: str) -> int:
    if not value.isdecimal():
        raise UsageError(f"{variable}={value} is not a number of bytes, such as 67108864.")
    return int(value)


def _wrong(variable: str, value: str, choices: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(value, choices, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"{variable}={value} is not one of {', '.join(choices)}.{meant}"
