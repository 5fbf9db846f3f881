"""Looks at objects and classes without running any code of theirs: what they say of themselves may be anything.

An object may have a `__class__` or a `__dict__` that is worked out when it is asked for (proxies, lazy settings), or
that raises; a metaclass may answer for its classes, or refuse to. Used wherever values of the user are only looked at.
`refusal` and `closed` are for what takes classes at their word: whoever stores one, or an object of one.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = [
    "bases",
    "closed",
    "has",
    "home",
    "is_a",
    "lineage",
    "members",
    "module",
    "name",
    "own_dict",
    "own_dict_of",
    "qualname",
    "refusal",
    "slots",
]

_Kinds: TypeAlias = type | types.UnionType | tuple[type, ...]

# By the descriptors of `type` itself, which no metaclass stands before.
_OF_TYPE: Mapping[str, Any] = vars(type)
_module = _OF_TYPE["__module__"].__get__
_name = _OF_TYPE["__name__"].__get__
_qualname = _OF_TYPE["__qualname__"].__get__
_native = frozenset({types.GetSetDescriptorType, types.MemberDescriptorType})

lineage = _OF_TYPE["__mro__"].__get__
"""The class and its bases in the order in which Python looks names up."""
members = _OF_TYPE["__dict__"].__get__
"""What the class itself has, by name."""
bases = _OF_TYPE["__bases__"].__get__
"""What the class derives from."""

# What of a class is taken for granted when it, or an object of it, is stored and made again.
_WORDS = ("__module__", "__name__", "__qualname__")
_ASKED = (
    *("__class__", "__flags__", "__basicsize__", "__dictoffset__", "__weakrefoffset__", "__doc__", "__hash__"),
    *("__new__", "__init_subclass__", "__reduce_ex__", "__reduce__", "__getstate__", "__setattr__"),
)
_CLOSED = ("__mro__", "__bases__", "__dict__")
_SPOKEN_FOR = frozenset({"__getattribute__", *_WORDS, *_ASKED, *_CLOSED})
_HARMLESS = frozenset({str, type(None)})  # a metaclass has a module, a name and a text of its own, too
_ORDINARY = frozenset({"__new__", "__init_subclass__", "__doc__", "__hash__", "__setattr__", "__reduce_ex__"})


def is_a(value: object, kinds: _Kinds) -> bool:
    """Do what `isinstance` does without asking the value for its class, which is worked out when it is a proxy."""
    return issubclass(type(value), kinds)


def module(cls: type) -> str:
    """Return the name of the module that a class is of, empty where it has none."""
    try:
        found = _module(cls)
    except AttributeError:  # somebody has deleted it
        return ""
    return found if type(found) is str else ""


def name(cls: type) -> str:
    """Return the name of a class."""
    return str(_name(cls))


def qualname(cls: type) -> str:
    """Return the name of a class with those of the classes and functions that it is in."""
    return str(_qualname(cls))


def home(value: object) -> str:
    """Return the `__module__` of a value as far as nothing has to run for it; empty for none."""
    if issubclass(kind := type(value), type):
        return module(value)  # type: ignore[arg-type]
    said = (own_dict(value) or {}).get("__module__")
    if said is None:
        said = next((members(base)["__module__"] for base in lineage(kind) if "__module__" in members(base)), None)
        if type(said) in _native:
            said = said.__get__(value)  # type: ignore[union-attr]
    return said if type(said) is str else ""


def has(cls: type, attribute: str) -> bool:
    """Tell whether objects of a class have an attribute by their class."""
    return any(attribute in held for held in map(members, lineage(cls)))


def slots(cls: type) -> tuple[str, ...]:
    """Return the names of the slots that a class itself lays out, as far as it says."""
    said = members(cls).get("__slots__", ())
    if type(said) is str:
        return (said,)
    return tuple(said) if type(said) in (tuple, list, dict, set, frozenset) else ()


def own_dict_of(cls: type) -> bool:
    """Tell whether the `__dict__` of objects of a class, if they have one, is Python's and not worked out by them."""
    for base in lineage(cls):
        if "__dict__" in (held := members(base)):
            return type(held["__dict__"]) in _native
    return True


def own_dict(value: object) -> dict[str, Any] | None:
    """Return the attributes of an object itself, None if it has none or works them out."""
    if not own_dict_of(type(value)):
        return None
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held if type(held) is dict else None


def refusal(cls: type) -> str | None:
    """Return why no object of a class is stored, if its class is the reason: it is no key, or it is closed; else None.

    What leads to such an object is not stored either, so that everything else is.
    """
    if type(cls) is type:
        return None
    try:
        hash(cls)
    except Exception as error:
        return f"class {name(cls)} cannot be asked for its hash, without which nothing pickles it ({_text(error)})"
    return closed(cls)


def closed(value: object) -> str | None:
    """Return why a value is not stored that is a class which does not say what it is; None of every other value."""
    if type(value) is type or not issubclass(type(value), type):
        return None
    for base in lineage(value):
        if type(base) is not type and _speaks(type(base)) and (word := _unsaid(base)):
            return f"class {name(base)} cannot be asked for its {word}"
    return None


def _speaks(meta: type) -> bool:
    """Tell whether a metaclass has a say in what Python is told of its classes."""
    for base in lineage(meta):
        if base is type:
            return False
        held = members(base)
        for word in _SPOKEN_FOR & held.keys():
            if word not in _ORDINARY and type(held[word]) not in _HARMLESS and type(held[word]) not in _native:
                return True
    return False


def _unsaid(cls: type) -> str:
    """Return the first thing that a class does not say, or says other than it is, with the reason; empty for none."""
    for word in (*_WORDS, *_CLOSED, *_ASKED):
        try:
            said = getattr(cls, word)
        except Exception as error:
            return f"`{word}` ({_text(error)})"
        if word in _WORDS:
            right = type(said) is str
        elif word in _CLOSED:
            real = _OF_TYPE[word].__get__(cls)
            right = said is real or (word == "__dict__" and type(said) is type(real) and _shown(said) is _shown(real))
        else:
            right = True
        if not right:
            return f"`{word}`: it is not what its metaclass says"
    return ""


def _shown(proxy: Any) -> Any:
    """Return the very dictionary that a proxy shows."""
    return gc.get_referents(proxy)[0]


def _text(error: Exception) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # it is of the user's, too
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
