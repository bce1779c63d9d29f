"""The same benchmarks at two commits, on this machine, one after the other: a table of ratios.

    python benchmarks/compare.py BEFORE [AFTER] [--suite NAME ...] [--repeat 3] [--full] [--fail-above 1.2]

BEFORE and AFTER name commits; without AFTER, the files as they are now. Each is checked out into a worktree
of its own, and its own benchmark scripts run there against its own package. Suites are taken in turn (before,
after, before, after, ...), so that a machine that slows down slows both. What is compared are the numbers in
the JSON files that a suite writes, and how long it took; of several repetitions the least counts. The quick
form of a suite may write none: then only its time is compared. A ratio above 1 says that a figure has grown:
worse for times, better for rates.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewlet.bench.suites import find_suites

PROJECT = Path(__file__).parents[1]
TIME = "seconds, whole suite"


@dataclass(frozen=True)
class Tree:
    """A version of the project in a folder."""

    name: str
    folder: Path


@contextmanager
def checked_out(commit: str | None) -> Iterator[Tree]:
    """A commit in a worktree that goes away again; ``None`` is the project as it is."""
    if commit is None:
        yield Tree("now", PROJECT)
        return
    short = _git("rev-parse", "--short", commit)
    with tempfile.TemporaryDirectory(prefix="viewlet-compare-") as scratch:
        folder = Path(scratch) / short
        _git("worktree", "add", "--quiet", "--detach", str(folder), commit)
        try:
            yield Tree(short, folder)
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(PROJECT), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def measure(tree: Tree, suite: str, full: bool) -> dict[str, float]:
    """Run a suite of a tree; its figures by name."""
    found = find_suites(tree.folder / "benchmarks").get(suite)
    if found is None:
        return {}
    quick = ["--quick"] if found.has_quick and not full else []
    began, clock = time.perf_counter(), time.time()
    done = subprocess.run(
        [sys.executable, str(found.script), *quick],
        cwd=tree.folder,
        env={**os.environ, "PYTHONPATH": str(tree.folder / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SystemExit(f"{suite} fails at {tree.name}: {last}")
    figures = {TIME: time.perf_counter() - began}
    # Commits of before quick runs had a folder of their own wrote all to one.
    written = {*found.results().rglob("*.json"), *found.results(quick=True).rglob("*.json")}
    for path in sorted(written):
        if path.stat().st_mtime >= clock - 1:
            figures |= dict(numbers(json.loads(path.read_text(encoding="utf-8")), path.stem))
    return figures


def numbers(document: Any, path: str) -> Iterator[tuple[str, float]]:
    """The numbers in a JSON document, each under the way to it; texts beside a number are part of its name.

    >>> dict(numbers({"runs": [{"engine": "a", "ms": 2.5}, {"engine": "b", "ms": 4}]}, "f"))
    {'f runs engine=a ms': 2.5, 'f runs engine=b ms': 4.0}
    """
    match document:
        case dict():
            label = "".join(f" {key}={value}" for key, value in document.items() if isinstance(value, str))
            for key, value in document.items():
                if isinstance(value, bool | str) or value is None:
                    continue
                if isinstance(value, int | float):
                    yield f"{path}{label} {key}", float(value)
                else:
                    yield from numbers(value, f"{path} {key}")
        case list():
            for place, value in enumerate(document):
                named = isinstance(value, dict) and any(isinstance(v, str) for v in value.values())
                yield from numbers(value, path if named else f"{path} {place}")
        case int() | float():
            yield path, float(document)


def least(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each figure the least over the runs that have it.

    >>> least([{"a": 2.0}, {"a": 1.0, "b": 3.0}])
    {'a': 1.0, 'b': 3.0}
    """
    return {
        name: min(run[name] for run in runs if name in run) for name in {n: None for run in runs for n in run}
    }


def ratios(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """After divided by before, for the figures that both have and that are not zero.

    >>> ratios({"a": 2.0, "b": 0.0, "c": 1.0}, {"a": 3.0, "b": 1.0})
    {'a': 1.5}
    """
    return {name: after[name] / value for name, value in before.items() if value and name in after}


def table(suite: str, names: tuple[str, str], before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """A suite's figures side by side, the largest change first."""
    found = ratios(before, after)
    ordered = sorted(found, key=lambda name: -abs(math.log(abs(found[name])) if found[name] else math.inf))
    lines = [f"| {suite} | {names[0]} | {names[1]} | ratio |", "|---|---|---|---|"]
    lines += [f"| {name} | {before[name]:.4g} | {after[name]:.4g} | {found[name]:.2f} |" for name in ordered]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", help="another; without it, the files as they are now")
    parser.add_argument(
        "--suite", action="append", help="a script under benchmarks/ (default: durability, peers)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, in turn (default: 3)")
    parser.add_argument("--full", action="store_true", help="not the quick form of the suites")
    parser.add_argument(
        "--fail-above", type=float, metavar="RATIO", help="exit with 1 if a whole suite grows more"
    )
    options = parser.parse_args(arguments)
    failed = False
    with ExitStack() as stack:
        trees = [stack.enter_context(checked_out(commit)) for commit in (options.before, options.after)]
        for suite in options.suite or ["durability", "peers"]:
            runs: tuple[list[dict[str, float]], ...] = ([], [])
            for _ in range(options.repeat):
                for tree, found in zip(trees, runs, strict=True):
                    found.append(measure(tree, suite, options.full))
            before, after = map(least, runs)
            if not before or not after:
                missing = trees[0].name if not before else trees[1].name
                print(f"{suite}: not there at {missing}\n")
                continue
            print(table(suite, (trees[0].name, trees[1].name), before, after), flush=True)
            print()
            limit = options.fail_above
            failed |= limit is not None and ratios(before, after).get(TIME, 0.0) > limit
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
