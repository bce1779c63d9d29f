"""run benchmarks.

Without SUITE: list the suites. Each suite is a script under benchmarks/ of the source tree; it prints
its tables and writes them, with figures and plots, to benchmarks/results/SUITE. 'all' is every suite.
Unless --quick is given, the index benchmarks/results/README.md and the figures in docs/ are updated too.
Exit code 1 if a suite fails; the others still run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from viewlet.bench.runner import Outcome, note_outcome, regenerate_docs, run_suite, write_index
from viewlet.bench.suites import BenchmarkError, Suite, choose, find_benchmarks, find_suites
from viewlet.cli.outcome import DONE, FAILED, UnavailableError, UsageError

NAME = "bench"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("suites", metavar="SUITE", nargs="*", help="names of suites, or all")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to check that a suite works; figures mean nothing"
    )
    parser.add_argument("--json", action="store_true", help="a JSON document; tables go to standard error")


def run(options: argparse.Namespace) -> int:
    """List the suites, or run some."""
    root = find_benchmarks(Path.cwd())
    if root is None:
        raise UnavailableError(
            "benchmarks come with the source tree, not with the installed package: run this in a checkout."
        )
    suites = find_suites(root)
    if not options.suites:
        _list(list(suites.values()), as_json=options.json)
        return DONE
    try:
        chosen = choose(suites, options.suites)
    except BenchmarkError as unknown:
        raise UsageError(str(unknown)) from None
    outcomes = []
    for number, suite in enumerate(chosen, 1):
        outcomes.append(_run(suite, number, len(chosen), options))
        if not outcomes[-1].quick:
            note_outcome(root, outcomes[-1])
    if options.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    failed = any(outcome.exit_code for outcome in outcomes)
    if not options.quick:
        print(f"wrote {write_index(root, suites.values())}", file=sys.stderr)
        failed |= regenerate_docs(root) != 0
    return FAILED if failed else DONE


def _run(suite: Suite, number: int, total: int, options: argparse.Namespace) -> Outcome:
    note = " (no quick form: full size)" if options.quick and not suite.has_quick else ""
    print(f"[{number}/{total}] {suite.name}{note}", file=sys.stderr, flush=True)
    outcome = run_suite(suite, quick=options.quick, output=sys.stderr if options.json else None)
    state = "done" if outcome.exit_code == 0 else f"failed with exit code {outcome.exit_code}"
    print(f"[{number}/{total}] {suite.name}: {state}, {outcome.seconds:.1f} s", file=sys.stderr, flush=True)
    return outcome


def _list(suites: Sequence[Suite], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"suite": s.name, "summary": s.summary, "quick": s.has_quick} for s in suites]))
        return
    width = max((len(suite.name) for suite in suites), default=0)
    for suite in suites:
        print(f"{suite.name:<{width}}  {suite.summary}")
