"""The arguments of the verbs: one table of flags, read the same way from a magic line and from the command line.

Called by `verbs.run`; whatever is wrong is a UsageError with the nearest flag.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from durable_nb.errors import UsageError

__all__ = ["FLAGS", "Arguments", "usage"]

# verb → (positional usage, most positionals, flag → takes a value)
FLAGS: Mapping[str, tuple[str, int, Mapping[str, bool]]] = MappingProxyType(
    {
        "status": ("", 0, {}),
        "why": ("CELL", 1, {}),
        "checkpoints": ("", 0, {}),
        "restore": ("[CHECKPOINT] [NAME…]", 999, {"--trust": False, "--eager": False}),
        "events": ("[TYPE…]", 99, {"--activity": True, "--run": True, "--last": True}),
        "sql": ('"SELECT …"', 999, {}),
        "recompute": ("NAME [NAME…]", 999, {"--force": False}),
        "verify": ("", 0, {"--repair": False}),
        "gc": ("", 0, {"--dry-run": False}),
        "new": ("", 0, {}),
        "list": ("", 0, {}),
        "doctor": ("", 0, {}),
        "trust": ("[FOLDER]", 1, {}),
        "demo": ("[NOTEBOOK]", 1, {}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What stands behind a verb: words in order, and flags with their values."""

    words: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)

    def has(self, flag: str) -> bool:
        return flag in self.flags

    def number(self, flag: str, default: int) -> int:
        text = self.flags.get(flag)
        if text is None:
            return default
        if not text.isdigit():
            raise UsageError(f"{flag} takes a whole number, not {text!r}.")
        return int(text)

    @classmethod
    def parse(cls, verb: str, args: Sequence[str]) -> Arguments:
        _, most, flags = FLAGS[verb]
        words: list[str] = []
        found: dict[str, str] = {}
        rest = list(args)
        while rest:
            word = rest.pop(0)
            if verb == "sql" or not word.startswith("-") or word == "-":
                words.append(word)
                continue
            name, given, value = word.partition("=")
            if name not in flags:
                near = difflib.get_close_matches("--" + name.lstrip("-"), [*flags, "--json"], n=1)
                meant = f" Did you mean {near[0]}?" if near else ""
                raise UsageError(f"`{verb}` has no option {name}.{meant} Usage: {usage(verb)}")
            if given and not flags[name]:
                raise UsageError(f"{name} takes no value, but {value!r} was given. Usage: {usage(verb)}")
            if flags[name] and not given:
                if not rest:
                    raise UsageError(f"{name} needs a value. Usage: {usage(verb)}")
                value = rest.pop(0)
            found[name] = value
        if len(words) > most:
            raise UsageError(f"`{verb}` takes no {words[most]!r}. Usage: {usage(verb)}", word=words[most])
        return cls(words=tuple(words), flags=found)


def usage(verb: str) -> str:
    """Return the usage line of a verb, without the word before it."""
    words, _, flags = FLAGS[verb]
    shown = [f"[{flag}{' …' if takes else ''}]" for flag, takes in flags.items()]
    return " ".join(filter(None, [verb, words, *shown, "[--json]"]))
