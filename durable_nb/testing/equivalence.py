"""Crash equivalence of a random notebook: what its kernels restore and end with is what one process would have.

Used by the property tests and by long runs. `difference` lets a notebook live as its plan says, lets a process without
durable_nb run the same cells, and returns in words where the two differ first.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from durable_nb.testing.canon import first_difference
from durable_nb.testing.grammar import REPORTABLE, Book, Cell
from durable_nb.testing.nursery import Nursery, Report, Step

__all__ = ["Figures", "difference"]

# A view of memory is there again and compared like everything else; the report says what cannot be seen from Python.
_BACK_ALL_THE_SAME = "a view made again"
# What a cell makes of another kind of variable than it was meant for (`zip` over a table iterates by a generator of
# pandas) may be what no checkpoint can hold; that was said, and nothing is promised of what comes after.
_RIGHTLY_REPORTED = "cannot pickle 'generator' object"


@dataclass(slots=True)
class Figures:
    """What a run of the property did, for a report that says whether it tried anything."""

    examples: int = 0
    lives: int = 0
    cells: int = 0
    failed_cells: int = 0
    skipped: int = 0
    again: int = 0  # cells of a Run All that had been finished and ran all the same
    reported: int = 0
    slowest_ms: float = 0.0
    by_kind_ms: dict[str, float] = field(default_factory=dict)


# The same is true of a set (or a dictionary, or a weak set) of which a member lost its hash after it was put in: an
# attribute that it hashes by is a list now, say, and no program could put it into a new one. Such a group is stored and
# does not load; whether a name really leads to such a member is asked of a process without durable_nb.
_DOES_NOT_LOAD = "it was stored but does not load"


class _OutOfReach(Exception):
    """The notebook made what no checkpoint can hold, and durable_nb said so."""


@dataclass(slots=True, kw_only=True)
class _Look:
    """A canonical form that a life reported, and after which cell a plain process has to have the same."""

    after: int
    report: Report
    when: str


def difference(book: Book, nurseries: Sequence[Nursery], figures: Figures | None = None) -> str | None:
    """Return where the notebook's lives differ from a plain process, None: nowhere."""
    figures = figures or Figures()
    with tempfile.TemporaryDirectory(prefix="dnb-random-") as folder:
        told = _Telling(book=book, nurseries=nurseries, figures=figures, folder=folder)
        told.book = told.without_hindsight()
        try:
            looks, problem = told.lives()
        except _OutOfReach:
            return None
    if problem is not None:
        return problem
    expected = told.plain(sorted({look.after for look in looks}))
    for look in looks:
        silent = _silently_gone(expected[look.after], look.report)
        if silent:
            return f"{look.when}: gone without a word: {silent}"
        found = first_difference(map(_line, expected[look.after]["form"]), map(_line, look.report["form"]))
        if found is not None:
            return f"{look.when}: {found}"
    return told.outcomes()


def _silently_gone(expected: Report, got: Report) -> list[str]:
    """Return the variables that are neither there nor reported."""
    names = {name for name in expected["names"] if not name.startswith("__")}
    return sorted(names - {*got["names"]} - {name for name, _ in got["missing"]})


def _line(pair: list[str]) -> tuple[str, str]:
    return pair[0], pair[1]


@dataclass(slots=True, kw_only=True)
class _Telling:
    """One notebook being lived."""

    book: Book
    nurseries: Sequence[Nursery]
    figures: Figures
    folder: str
    ran: list[tuple[int, Report]] = field(default_factory=list)
    plainly: dict[int, Report] = field(default_factory=dict)

    def lives(self) -> tuple[list[_Look], str | None]:
        """Let the kernels live and die; return what they looked like after each restore and at the end."""
        looks: list[_Look] = []
        saved, run_all = -1, False
        self.figures.examples += 1
        for number, death in enumerate([*self.book.deaths, None]):
            first = 0 if run_all else saved + 1
            last = len(self.book.cells) - 1 if death is None else death.at
            steps: list[Step] = [{"do": "attach", "folder": self.folder, "life": f"life{number}"}]
            if saved >= 0:
                steps.append({"do": "look", "exclude": REPORTABLE})
            steps += [self._cell(n) for n in range(first, last + 1)]
            if death is None:
                # Reading the namespace is what a plain cell does: the variables are where the skipped cells left them.
                steps += [{"do": "cell", "number": 999, "source": "pass", "durable": False}]
                steps += [{"do": "look", "exclude": REPORTABLE}]
            elif death.middle:
                steps[-1] = self._cut(last)
            reports = self.nurseries[number % len(self.nurseries)].live(steps)
            problem = self._note(steps, reports, number, saved, last, looks)
            if problem is not None:
                return looks, f"life {number}: {problem}"
            if death is not None:
                saved = self._saved(saved, first, last - 1 if death.middle else last, middle=death.middle)
                run_all = death.run_all
        return looks, None

    def _cell(self, number: int) -> Step:
        cell = self.book.cells[number]
        return {"do": "cell", "number": number, "source": cell.source, "durable": cell.durable}

    def _cut(self, number: int) -> Step:
        return {**self._cell(number), "do": "die", "cut": _first_half(self.book.cells[number])}

    def _saved(self, before: int, first: int, done: int, *, middle: bool) -> int:
        """Return the last cell whose effects a restore brings back: a plain cell's wait for the next durable one."""
        if middle and self.book.cells[done + 1].durable:
            return max(before, done)
        durable = [n for n in range(first, done + 1) if self.book.cells[n].durable]
        return max([before, *durable])

    def _note(
        self, steps: list[Step], reports: list[Report], life: int, saved: int, last: int, looks: list[_Look]
    ) -> str | None:
        """Take the reports of a life; return what is wrong with the life itself."""
        self.figures.lives += 1
        for step, report in zip(steps, reports, strict=False):
            kind = report["kind"]
            if kind in ("broken", "end"):
                break
            self.figures.slowest_ms = max(self.figures.slowest_ms, report["ms"])
            self.figures.by_kind_ms[kind] = self.figures.by_kind_ms.get(kind, 0.0) + report["ms"]
            if kind == "attach" and life > 0 and saved >= 0 and any("could not" in line for line in report["said"]):
                return f"attaching said {report['said']}"
            if kind in ("attach", "look"):
                said = [(name, why) for name, why in report["missing"] if _BACK_ALL_THE_SAME not in why]
                if any(name not in REPORTABLE and _RIGHTLY_REPORTED in why for name, why in said):
                    raise _OutOfReach
                over = [f"{name}: {why}" for name, why in said if name not in REPORTABLE]
                then = last if kind == "look" and step is not steps[1] else saved
                if over and all(_DOES_NOT_LOAD in why for why in over) and self._have_lost_hashes(then, said):
                    raise _OutOfReach
                if over:
                    return f"reported as not saved, though it can be: {over}"
            if kind == "look":
                self.figures.reported += len(report["missing"])
                restored = step is steps[1]
                when = f"life {life}, restored" if restored else "at the end"
                looks.append(_Look(after=saved if restored else last, report=report, when=when))
            if kind == "cell":
                self._count(step, report, saved)
                if report["trouble"]:
                    return f"cell {step['number']}: durable_nb said {report['trouble']}"
        return self._ending(steps, reports)

    def _have_lost_hashes(self, after: int, said: list[tuple[str, str]]) -> bool:
        """Do all these names lead to a member without a hash, after that cell of a process without durable_nb?"""
        steps = [self._cell(number) for number in range(after + 1)]
        reports = self.nurseries[0].live([*steps, {"do": "hashless"}])
        return {name for name, _ in said}.difference(REPORTABLE) <= set(reports[-2]["names"])

    def _ending(self, steps: list[Step], reports: list[Report]) -> str | None:
        broken = next((r for r in reports if r["kind"] == "broken"), None)
        if broken is not None:
            return f"the engine raised\n{broken['error']}"
        whole = len(steps) - (steps[-1]["do"] == "die")
        if len(reports) - 1 < whole or reports[-1]["status"] != 9:
            return f"the process ended with {reports[-1]['status']} before step {steps[len(reports) - 1]}"
        return None

    def _count(self, step: Step, report: Report, saved: int) -> None:
        if step["number"] == 999:
            return
        self.figures.cells += 1
        if not report["ran"]:
            self.figures.skipped += 1
            return
        self.ran.append((step["number"], report))
        self.figures.failed_cells += bool(report["error"])
        self.figures.again += step["number"] <= saved and step["durable"] and not report["error"]

    def plain(self, after: list[int]) -> dict[int, Report]:
        """Run the cells in a process without durable_nb; return what it looked like after the cells asked for."""
        steps: list[Step] = []
        for number in range(len(self.book.cells)):
            steps.append(self._cell(number))
            if number in after:
                steps.append({"do": "look", "exclude": REPORTABLE, "after": number})
        reports = self.nurseries[0].live(steps)
        if reports[-1]["status"] != 9 or len(reports) - 1 != len(steps):
            raise AssertionError(f"the plain process did not come to its end: {reports[-2:]}\n{self.book}")
        pairs = list(zip(steps, reports, strict=False))
        self.plainly = {s["number"]: r for s, r in pairs if s["do"] == "cell"}
        return {s["after"]: r for s, r in pairs if s["do"] == "look"}

    def without_hindsight(self) -> Book:
        """Return the book with fewer times Run All: not over cells to which it would make a difference that it is one.

        A cell that failed for want of a name finds it when all runs again and a later cell has made it; and what is an
        instance of a class of a plain cell, which is made anew then, is one of the class before. So it is in every
        notebook whose cells run again while later ones have left their variables.
        """
        if not any(death.run_all for death in self.book.deaths):
            return self.book
        self.plain([])
        wanting = {n for n, report in self.plainly.items() if "NameError" in str(report["error"])}
        wanting |= {n for n, cell in enumerate(self.book.cells) if not cell.durable and "class " in cell.source}
        deaths = [replace(d, run_all=d.run_all and not any(n <= d.at for n in wanting)) for d in self.book.deaths]
        return replace(self.book, deaths=tuple(deaths))

    def outcomes(self) -> str | None:
        """Return the first cell that ended or printed otherwise than in the plain process."""
        for number, report in self.ran:
            for what in ("error", "output"):
                if report[what] != self.plainly[number][what]:
                    return f"cell {number}: {what} {report[what]!r}, without durable_nb {self.plainly[number][what]!r}"
        return None


def _first_half(cell: Cell) -> str:
    """Return the first statements of a cell, as far as a kernel gets that dies in it."""
    body = ast.parse(cell.source).body
    half = body[: (len(body) + 1) // 2]
    return "\n".join(ast.unparse(statement) for statement in half)
