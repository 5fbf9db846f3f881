"""Random notebooks: a hypothesis strategy for cells of Python, what they do to each other, and where the kernel dies.

Used by the property tests of crash equivalence. What hypothesis draws are template numbers and choices; `write` turns
them into source from the top, and makes the kind of variable that a statement needs where there is none, so that any
part of a notebook can be taken away and what is left is a notebook: that is what makes failures shrink.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from durable_nb.testing.templates import ATOMS, DATA, FUNCTIONS, PREAMBLE, REPORTED
from durable_nb.testing.templates_classes import CLASSES

__all__ = ["REPORTABLE", "Book", "Cell", "Death", "books", "write"]

_SLOT = re.compile(r"\$(arr2|call[01]|[a-zA-Z]+)(\d?)")
# Variables whose values no checkpoint can hold; nothing else depends on them.
REPORTABLE = ("r0", "r1")
_POOLS = {"n": "abcdefgh", "m": "abcdefgh", "C": "ABCD", "F": "fgk", "r": REPORTABLE}
# Variables of these kinds will do where another one is asked for.
_ALSO = {
    "call1": ("call1", "fn"),
    "dict": ("dict", "od", "dd"),
    "inst": ("inst", "key"),
    # No instance that may be a key of what it holds: whose dict is a variable, too, is reported then.
    "solid": ("inst",),
    "cls": ("cls", "keycls"),
    "arr": ("arr",),
}
_CHOICES = st.lists(st.integers(0, 11), min_size=6, max_size=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One statement: the kinds that it gives to `$n` and `$m`, what it takes away, its text."""

    gives: tuple[str, ...]
    takes: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a notebook; `durable` says whether it runs as an activity."""

    source: str
    durable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The kernel dies when cell `at` is done, or in its middle; the next one goes on from there or runs all again."""

    at: int
    middle: bool = False
    run_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """A notebook and the deaths of its kernels, in order."""

    cells: tuple[Cell, ...]
    deaths: tuple[Death, ...] = field(default=())

    def __str__(self) -> str:
        lines = []
        for number, cell in enumerate(self.cells):
            kind = "" if cell.durable else " (plain)"
            lines += [f"# --- [{number}]{kind}", cell.source]
            for death in self.deaths:
                if death.at == number:
                    how = "in the middle of it" if death.middle else "after it"
                    then = "Run All" if death.run_all else "going on"
                    lines.append(f"# === the kernel dies {how}; the next one restores, then: {then}")
        return "\n".join(lines)

    __repr__ = __str__


def _parse(block: str) -> list[Template]:
    found: list[Template] = []
    for line in block.strip().splitlines():
        kinds, _, text = line.partition(" | ")
        words = tuple(k.strip() for k in kinds.split(",") if k.strip())
        if not words:
            found[-1] = replace(found[-1], text=f"{found[-1].text}\n{text}")
            continue
        takes = words[0][1:] if words[0].startswith("!") else ""
        gives = () if takes or words == ("-",) else words
        found.append(Template(gives=gives, takes=takes, text=text))
    return found


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Which variable holds what kind of thing, as far as one can tell without running anything."""

    makers: dict[str, Template]
    kinds: dict[str, str] = field(default_factory=dict)

    def statement(self, template: Template, choices: Sequence[int]) -> str:
        """Return the source with names filled in; what it needs and is not there is made first."""
        chosen: dict[str, str] = {}
        made: list[str] = []
        for word, number in _SLOT.findall(template.text):
            slot = word + number
            if slot not in chosen:
                candidates = self._candidates(word)
                if not candidates:
                    # Under another name than the one that this statement will bind.
                    made.append(
                        self.statement(self.makers["inst" if word == "solid" else word], [*choices[1:], choices[0] + 1])
                    )
                    candidates = self._candidates(word)
                pick = choices[len(chosen) % len(choices)]
                if slot == "m":
                    candidates = [c for c in candidates if c != chosen.get("n")]
                chosen[slot] = candidates[pick % len(candidates)]
        if template.takes and chosen[template.takes] not in self.kinds:
            return "\n".join(made)  # there is no variable yet that could be deleted
        self._note(template, chosen)
        return "\n".join([*made, _SLOT.sub(lambda m: chosen[m[1] + m[2]], template.text)])

    def _candidates(self, word: str) -> Sequence[str]:
        if word in _POOLS:
            return list(_POOLS[word])
        if word == "atom":
            return ATOMS
        if word == "any":
            return list(self.kinds) or ATOMS
        wanted = _ALSO.get(word, (word,))
        return [name for name, kind in self.kinds.items() if kind in wanted]

    def _note(self, template: Template, chosen: dict[str, str]) -> None:
        if template.takes:
            self.kinds.pop(chosen[template.takes], None)
        targets = [chosen[slot] for slot in ("C", "F", "n", "m") if slot in chosen]
        kinds = template.gives or ("val",)
        for number, target in enumerate(targets):
            # Last in the order: the newest is the least simple choice.
            self.kinds.pop(target, None)
            self.kinds[target] = kinds[min(number, len(kinds) - 1)]


Draft = tuple[Sequence[tuple[Template, Sequence[int]]], bool]


def write(drafts: Iterable[Draft]) -> tuple[Cell, ...]:
    """Turn drawn statements into cells, after one that imports; no two cells are the same."""
    makers: dict[str, Template] = {}
    for template in [t for block in (DATA, FUNCTIONS, CLASSES) for t in _parse(block)]:
        for kind in template.gives:
            makers.setdefault(kind, template)
    writer = _Writer(makers=makers)
    sources = [PREAMBLE]
    cells = [Cell(source=PREAMBLE)]
    for statements, durable in drafts:
        source = "\n".join(writer.statement(template, choices) for template, choices in statements)
        if source and source not in sources:
            sources.append(source)
            cells.append(Cell(source=source, durable=durable))
    return tuple(cells)


@st.composite
def books(draw: st.DrawFn, *, cells: int = 8, statements: int = 4, deaths: int = 3) -> Book:
    """Draw a notebook of up to so many cells, and up to so many deaths, at least one."""
    blocks = [DATA, DATA, FUNCTIONS, CLASSES, CLASSES]
    if draw(st.integers(0, 3)) == 3:
        blocks.append(REPORTED)
    template = st.one_of(*(st.sampled_from(_parse(block)) for block in blocks))
    statement = st.tuples(template, _CHOICES)
    cell = st.tuples(st.lists(statement, min_size=1, max_size=statements), st.integers(0, 7).map(lambda n: n < 7))
    written = write(draw(st.lists(cell, min_size=min(3, cells), max_size=cells)))
    death = st.tuples(st.integers(1, cells), st.integers(0, 3), st.booleans())
    planned = draw(st.lists(death, min_size=1, max_size=deaths))
    return Book(cells=written, deaths=tuple(_deaths(planned, len(written))))


def _deaths(planned: Iterable[tuple[int, int, bool]], count: int) -> list[Death]:
    """Put deaths into the order of the notebook, at most one per cell."""
    last = count - 1
    at = {min(where, last): (middle == 3, run_all) for where, middle, run_all in planned}
    return [Death(at=n, middle=middle, run_all=run_all) for n, (middle, run_all) in sorted(at.items())]
