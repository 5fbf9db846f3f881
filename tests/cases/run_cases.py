#!/usr/bin/env python3
"""Run state cases through durable_nb's public door: save, SIGKILL, restore, check. See README.md beside this file.

Needs durable_nb with its extra `test`, and the packages that the cases name under setup.pip.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path

from durable_nb.testing.cases import Case, Verdict, counted, load_cases, run_case, run_plain


def main() -> int:
    """Run the cases that were asked for, print what is not right, and return 0 if everything that counts is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=Path, default=Path(__file__).parent, metavar="FOLDER")
    parser.add_argument("--only", nargs="*", default=(), metavar="ID")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--plain", action="store_true", help="cells and check in one uninterrupted kernel")
    args = parser.parse_args()

    def run(case: Case) -> Verdict:
        if case.missing_packages:
            return Verdict(outcome="not run", detail=f"not installed: {', '.join(case.missing_packages)}")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            place = Path(folder, "case")
            place.mkdir()
            return (run_plain if args.plain else run_case)(case, place)

    cases = [case for case in load_cases(args.cases) if not args.only or case.id in args.only]
    with ThreadPoolExecutor(args.jobs) as pool:
        verdicts = dict(zip((case.id for case in cases), pool.map(run, cases), strict=True))
    for case in cases:
        verdict = verdicts[case.id]
        if verdict.outcome != "right":
            limit = " (known limit)" if case.known_limit else ""
            print(f"{verdict.outcome:20s} {case.id}{limit}: {verdict.detail[:150]}")
    if args.json:
        args.json.write_text(json.dumps({name: astuple(v) for name, v in verdicts.items()}, indent=1))
    tally = Counter(verdicts[case.id].outcome for case in counted(cases))
    print(", ".join(f"{number} {outcome}" for outcome, number in sorted(tally.items())) + f" of {tally.total()}")
    return 0 if tally["right"] == tally.total() else 1


if __name__ == "__main__":
    sys.exit(main())
