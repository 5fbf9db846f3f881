"""The options of IPython as they were told last, kept so that C finds out whether they are so still.

Used by `process_shell` at every look. What changed in place counts as changed: of lists and dicts copies are kept.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

__all__ = ["Told"]

_NO_VALUE = object()


class Told:
    """The options as they are, in the form in which C finds out whether they are so still."""

    def __init__(self, shell: Any, at: list[tuple[Any, list[tuple[str, str]]]]) -> None:
        self._count = len(shell.configurables)
        self._ones = [one for one, _ in at if one is not shell]
        self._values = [_as_now(one._trait_values) for one in self._ones]
        traits = [trait for one, traits in at if one is shell for trait, _ in traits]
        values = shell._trait_values
        self._shells = _as_now({trait: values[trait] for trait in traits if trait in values})
        self._absent = [trait for trait in traits if trait not in values]
        # People set options of the shell on its classes, too: what is declared there has to be what it was.
        self._classes: list[tuple[Mapping[str, Any], dict[str, Any], list[str]]] = []
        for cls in type(shell).__mro__:
            held = vars(cls)
            declared = {trait: held[trait] for trait in traits if trait in held}
            self._classes.append((held, declared, [trait for trait in traits if trait not in declared]))
            traits = [trait for trait in traits if trait not in declared]
            if not traits:
                break
        self._rest = _beside(shell)

    def is_so(self, shell: Any) -> bool:
        """Tell whether nothing is another than it was."""
        values = shell._trait_values
        return (
            len(shell.configurables) == self._count
            and [one._trait_values for one in self._ones] == self._values
            and all(values.get(trait, _NO_VALUE) == value for trait, value in self._shells.items())
            and values.keys().isdisjoint(self._absent)
            and all(
                held.keys().isdisjoint(others) and all(map(operator.is_, map(held.get, was), was.values()))
                for held, was, others in self._classes
            )
            and _beside(shell) == self._rest
        )


def _as_now(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v.copy() if type(v) in (list, dict) else v for k, v in values.items()}


def _beside(shell: Any) -> tuple[Any, ...]:
    return shell.InteractiveTB.mode, shell.call_pdb, tuple(shell.user_ns.get("_dh", ()))
