"""Which part of a value cannot be stored: the path inside it and the native reason.

Called by `namespace` for a name whose pickle failed; it only tries to pickle parts, within a fixed number of attempts.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from durable_nb.capture import plainly
from durable_nb.capture.codec import Codec, Failed

__all__ = ["type_name", "where"]

ATTEMPTS = 300
DEPTH = 20
BUDGET_BYTES = 64 << 20
SHOWN_LINKS = 10  # of a long path, at either end
LOOKED_AT = 10_000


def type_name(obj: object) -> str:
    """Return the full name of an object's type, built-in ones without a module."""
    module, name = plainly.module(type(obj)), plainly.qualname(type(obj))
    return name if module in ("builtins", "") else f"{module}.{name}"


def where(codec: Codec, name: str, value: Any, reason: str) -> tuple[str, str, str]:
    """Return (path, type, reason) of the innermost part that fails by itself, as far as attempts reach."""
    path, left, budget = "", ATTEMPTS, BUDGET_BYTES
    if _is_deep(codec, name, value):
        return _at_the_end(codec.trail(name, value), reason)
    on_path: set[int] = set()
    for _ in range(DEPTH):
        refused = codec.refusal(value)
        if refused is not None:
            return path, type_name(value), refused
        on_path.add(id(value))
        for label, part in _parts(value):
            if id(part) in on_path:
                continue
            left -= 1
            failure, size = _failure(codec, name, part)
            budget -= size
            if failure is not None:
                path, value, reason = path + label, part, failure
                break
            if left <= 0 or budget <= 0:
                return path, type_name(value), reason
        else:
            return path, type_name(value), reason
    rest, kind, reason = _at_the_end(codec.trail(name, value) or [value], reason)
    return path + rest, kind, reason


def _is_deep(codec: Codec, name: str, value: Any) -> bool:
    try:
        codec.dump([name], {name: value})
    except Failed as failure:
        return failure.deep
    return False


def _at_the_end(trail: Sequence[Any], reason: str) -> tuple[str, str, str]:
    return _spell(trail), type_name(trail[-1]), reason


def _spell(trail: Sequence[Any]) -> str:
    """Return the path along a trail, whose middle is only counted; what pickling puts in between has no word."""
    if len(trail) <= 8 * SHOWN_LINKS:
        return "".join(_links(trail))
    first, last = _links(trail[: 4 * SHOWN_LINKS]), _links(trail[-4 * SHOWN_LINKS :])
    return f"{''.join(first[:SHOWN_LINKS])}…{''.join(last[-SHOWN_LINKS:])}"


def _links(trail: Sequence[Any]) -> list[str]:
    links, at = [], 0
    while at < len(trail) - 1:
        following = {id(obj): at + step for step, obj in enumerate(trail[at + 1 : at + 5], 1)}
        found = next(
            ((word, following[id(p)]) for word, p in islice(_parts(trail[at]), LOOKED_AT) if id(p) in following), None
        )
        if found is not None:
            links.append(found[0])
        at = at + 1 if found is None else found[1]
    return links


def _failure(codec: Codec, name: str, part: Any) -> tuple[str | None, int]:
    try:
        return None, len(codec.dump([name], {name: part}).pickle)
    except Failed as failure:
        return str(failure.args[0]), 0


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value holds under the words a person would use to reach it."""
    kind = type(value)  # not `isinstance`, which asks the value: a class of the user's may have no answer
    if issubclass(kind, dict):
        yield from ((f"[{_short(k)}]", v) for k, v in list(dict.items(value)))
    elif issubclass(kind, list | tuple):
        yield from ((f"[{i}]", v) for i, v in enumerate(list(value)))
    elif issubclass(kind, set | frozenset):
        yield from (("{…}", v) for v in list(value))
    if not issubclass(kind, type):
        yield from ((f".{k}", v) for k, v in list((plainly.own_dict(value) or {}).items()))
    for cls in plainly.lineage(kind):
        for slot in plainly.slots(cls):
            member: Any = plainly.members(cls).get(slot)
            if type(member) is types.MemberDescriptorType:
                try:
                    yield f".{slot}", member.__get__(value)
                except AttributeError:
                    continue
    for label in ("__self__", "__func__", "func", "__wrapped__"):
        if plainly.module(kind) in ("builtins", "functools") and not issubclass(kind, type):
            held = getattr(value, label, None)
            if held is not None:
                yield f".{label}", held
    cells = getattr(value, "__closure__", None) if kind is types.FunctionType else None
    for cell, free in zip(cells or (), _free_names(value) if cells else (), strict=False):
        try:
            yield f".<{free}>", cell.cell_contents
        except ValueError:
            continue


def _free_names(value: Any) -> tuple[str, ...]:
    code = getattr(value, "__code__", None)
    return tuple(code.co_freevars) if code is not None else ()


def _short(key: Any) -> str:
    # repr() of a user's object runs the user's code, of a huge number takes for ever.
    if type(key) is str:
        return repr(key if len(key) <= 40 else key[:39] + "…")
    if type(key) is int and -(10**18) < key < 10**18:
        return str(key)
    return f"<{type_name(key)}>"
