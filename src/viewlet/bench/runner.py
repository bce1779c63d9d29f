"""Running benchmark scripts, each in a process of its own, and noting what they wrote."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO

from viewlet.bench.suites import Suite


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a suite: its exit code, its time, and the files that it wrote to its results."""

    suite: str
    exit_code: int
    seconds: float
    quick: bool
    results: str
    files: tuple[str, ...]


def run_suite(suite: Suite, *, quick: bool, output: IO[str] | None) -> Outcome:
    """Run one suite, all its runs; what they print goes to ``output``.

    A suite that has no quick form is run in full: the outcome says so. A run that fails does not keep the
    others from running; the exit code is the first that is not zero.
    """
    is_quick = quick and suite.has_quick
    started, began = time.time(), time.perf_counter()
    codes = [
        subprocess.run([sys.executable, str(suite.script), *run], stdout=output, check=False).returncode
        for run in ([("--quick",)] if is_quick else suite.runs)
    ]
    seconds = time.perf_counter() - began
    files = tuple(
        path.relative_to(suite.results).as_posix()
        for path in sorted(suite.results.rglob("*"))
        if path.is_file() and path.stat().st_mtime >= started - 1
    )
    return Outcome(suite.name, next(filter(None, codes), 0), seconds, is_quick, str(suite.results), files)


def write_index(root: Path, suites: Sequence[Suite], outcomes: Sequence[Outcome]) -> Path:
    """Write ``results/README.md``: where each suite's figures are, and on what they were measured."""
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    lines = [
        "# Results, suite by suite",
        "",
        f"Measured {datetime.now(UTC):%Y-%m-%d} with viewlet {version('viewlet')} on {machine}.",
        "Regenerate with `viewlet bench all`.",
        "",
        "| suite | measures | time | files |",
        "|---|---|---|---|",
    ]
    for suite, outcome in zip(suites, outcomes, strict=True):
        where = suite.results.relative_to(root / "results")
        files = ", ".join(f"[{name}]({(where / name).as_posix()})" for name in outcome.files)
        state = f"{outcome.seconds:.0f} s" if outcome.exit_code == 0 else f"failed ({outcome.exit_code})"
        lines.append(f"| {suite.name} | {suite.summary} | {state} | {files or 'printed only'} |")
    index = root / "results" / "README.md"
    index.parent.mkdir(exist_ok=True)
    index.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return index


def regenerate_docs(root: Path) -> int:
    """Let the pages take over the new figures, if the tree has such pages; the exit code of that."""
    script = root.parent / "docs" / "generated.py"
    return subprocess.run([sys.executable, str(script)], check=False).returncode if script.exists() else 0
