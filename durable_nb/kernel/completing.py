"""What Tab offers on a line of ours: options, verbs with their flags, and what the verbs are about.

Installed and removed by `magics`. IPython's own completions are left out where a word of ours is expected, and left
alone where an expression is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from durable_nb.kernel.options import OPTIONS, working_options
from durable_nb.verbs.arguments import FLAGS

__all__ = ["Completing", "words_for"]

SWITCHES = ("on", "off")
Subjects = Callable[[str], Sequence[str]]


def words_for(line: str, *, verbs: Sequence[str], subjects: Subjects) -> tuple[str, list[str]] | None:
    """Return the word that is being typed and what it can become, for a line up to the cursor; None: not ours to say.

    `subjects(verb)` are the cells or checkpoints that a verb can be given.
    """
    words = line.split()
    typed = "" if not words or line[-1:].isspace() else words.pop()
    magic = words[0] if words else ""
    if magic == "%%durable_sql":
        known: Sequence[str] = ("--save",)
    elif magic == "%%durable":
        last = next((o for o in OPTIONS if o.name == words[-1]), None)
        if last is not None and last.kind not in ("flag", "choice"):
            return None
        known = last.choices if last is not None and last.choices else [o.name for o in working_options()]
    elif magic == "%durable":
        known = _of_verb(words[1:], typed, verbs, subjects)
    else:
        return None
    return typed, [word for word in known if word.startswith(typed)]


def _of_verb(words: Sequence[str], typed: str, verbs: Sequence[str], subjects: Subjects) -> Sequence[str]:
    if not words:
        return (*verbs, *SWITCHES, "help")
    if words[0] in SWITCHES:
        return ()
    if words[0] == "help":
        return verbs
    flags = (*FLAGS.get(words[0], ("", 0, {}))[2], "--json")
    return flags if typed.startswith("-") else (*subjects(words[0]), *flags)


class Completing:
    """A matcher of IPython's completer."""

    def __init__(self, shell: Any, *, verbs: Sequence[str], subjects: Subjects) -> None:
        self._matchers: list[Any] | None = getattr(getattr(shell, "Completer", None), "custom_matchers", None)

        @context_matcher(priority=1000, identifier="durable_nb")  # type: ignore[untyped-decorator]
        def matcher(context: Any) -> dict[str, Any]:
            found = words_for(context.text_until_cursor.lstrip(), verbs=verbs, subjects=subjects)
            if found is None:
                return {"completions": []}
            typed, words = found
            completions = [SimpleCompletion(text=word, type="durable") for word in words]
            return {"completions": completions, "suppress": True, "ordered": True, "matched_fragment": typed}

        self._matcher = matcher

    def install(self) -> None:
        """Begin to complete."""
        if self._matchers is not None and self._matcher not in self._matchers:
            self._matchers.append(self._matcher)

    def remove(self) -> None:
        """Leave no trace."""
        if self._matchers is not None and self._matcher in self._matchers:
            self._matchers.remove(self._matcher)
