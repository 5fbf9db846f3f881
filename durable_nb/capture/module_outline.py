"""Whether anything of a local module is not what it was at the look before, found out at the speed of C.

Used by `process_modules` alone: modules are looked at after every cell, and a package of one's own has thousands of
functions. A difference here is a reason to look properly; where there is none, nothing that `module_values` tells can
be another. Looking changes nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, repeat
from types import FunctionType, ModuleType
from typing import Any

from durable_nb.capture import module_values, plainly
from durable_nb.capture.trails import OurRef

__all__ = ["Outline"]

_address = object.__hash__  # `id` raises an audit event each time
_CODE, _DEFAULTS, _BY_NAME, _ATTRIBUTES = map(
    operator.attrgetter, ("__code__", "__defaults__", "__kwdefaults__", "__dict__")
)


class Outline:
    """Everything of a module and its classes that can be bound or changed in place, and what it was when made."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module.__name__
        self._spaces: list[Mapping[str, Any]] = [vars(module)]
        self._functions: list[FunctionType] = []
        self._deep: list[Any] = []
        # While something is there, nothing else has its address: what cannot change is held, the rest is watched.
        self._held: list[Any] = []
        self._watched: list[OurRef] = []
        self._collect(vars(module), module.__name__, "")
        self._with_names: list[dict[str, Any]] = [d for d in map(_BY_NAME, self._functions) if d]
        for function in self._functions:
            held = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
            self._deep += [value for value in held if module_values.can_change(value)]
            if vars(function):
                self._deep.append(vars(function))
        self._held += chain(map(_CODE, self._functions), map(_DEFAULTS, self._functions))
        self._seen = self._now()

    def _collect(self, space: Mapping[str, Any], module: str, path: str) -> None:
        for name, value in list(space.items()):
            bare: Any = value.__func__ if plainly.is_a(value, staticmethod | classmethod) else value
            if module_values.is_fixed(value):
                self._held.append(value)
            else:
                with suppress(TypeError):  # what knows no weak references is compared by content, or is a descriptor
                    self._watched.append(OurRef(value))
            if type(bare) is FunctionType:
                if bare.__module__ == module:
                    self._functions.append(bare)
            elif plainly.is_a(bare, type):
                if module_values.defines(bare, module, f"{path}{name}"):
                    self._spaces.append(plainly.members(bare))
                    self._collect(plainly.members(bare), module, f"{path}{name}.")
            elif not name.startswith("__") and (
                module_values.can_change(bare) or module_values.state_of(bare, module) is not None
            ):
                self._deep.append(bare)

    def is_still(self) -> bool:
        """Tell whether all is as it was."""
        try:
            # By identity: what a module holds may not be comparable, as arrays are not.
            gone = any(map(operator.is_, map(operator.call, self._watched), repeat(None)))
            return not gone and self._seen == self._now()
        except RuntimeError:  # a thread binds something right now
            return False

    def _now(self) -> tuple[Any, ...]:
        return tuple(self._parts())

    def _parts(self) -> Iterator[Any]:
        functions = self._functions
        for space in self._spaces:
            yield list(space)
            yield list(map(_address, space.values()))
        for part in (_CODE, _DEFAULTS, _BY_NAME):
            yield list(map(_address, map(part, functions)))
        yield list(map(len, map(_ATTRIBUTES, functions)))
        yield list(chain.from_iterable(self._with_names))
        yield list(map(_address, chain.from_iterable(map(dict.values, self._with_names))))
        yield list(map(module_values.frozen, self._deep, repeat(self._module)))
