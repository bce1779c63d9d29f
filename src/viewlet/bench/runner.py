"""Running benchmark scripts, each in a process of its own, and noting what they wrote."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from viewlet.bench.suites import Suite

NOTES = Path("results") / "runs.json"


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
    seconds, results = time.perf_counter() - began, suite.results(quick=is_quick)
    files = tuple(
        path.relative_to(results).as_posix()
        for path in sorted(results.rglob("*"))
        if path.is_file() and path.stat().st_mtime >= started - 1
    )
    return Outcome(suite.name, next(filter(None, codes), 0), seconds, is_quick, str(results), files)


def note_outcome(root: Path, outcome: Outcome) -> None:
    """Remember under ``results/`` when a suite was last run in full, and how that went.

    Suites take minutes to half an hour: each is noted as it ends, so that the index holds what was run last,
    by ``viewlet bench all`` or a few suites at a time.
    """
    runs = _runs_noted(root)
    note = {"measured": f"{datetime.now(UTC):%Y-%m-%d}", "version": version("viewlet"), "machine": _machine()}
    runs[outcome.suite] = note | {
        "seconds": round(outcome.seconds),
        "exit_code": outcome.exit_code,
        "files": list(outcome.files),
    }
    path = root / NOTES
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n", encoding="utf-8")


def _runs_noted(root: Path) -> dict[str, Any]:
    path = root / NOTES
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _machine() -> str:
    return f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def write_index(root: Path, suites: Iterable[Suite]) -> Path:
    """Write ``results/README.md``: where each suite's figures are, when and where measured."""
    lines = [
        "# Results, suite by suite",
        "",
        "`viewlet bench SUITE ...` measures some of them anew, `viewlet bench all` every one.",
        "",
        "| suite | measures | measured | machine | time | files |",
        "|---|---|---|---|---|---|",
    ]
    runs = _runs_noted(root)
    for suite in suites:
        lines.append(f"| {suite.name} | {suite.summary} | {_cells(root, suite, runs.get(suite.name))} |")
    index = root / "results" / "README.md"
    index.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return index


def _cells(root: Path, suite: Suite, run: Mapping[str, Any] | None) -> str:
    where = suite.results().relative_to(root / "results")
    if run is None:
        page = suite.results() / "README.md"
        return (
            f"earlier | | | [README.md]({(where / page.name).as_posix()})"
            if page.exists()
            else "not yet | | |"
        )
    files = ", ".join(f"[{name}]({(where / name).as_posix()})" for name in run["files"])
    state = f"{run['seconds']} s" if run["exit_code"] == 0 else f"failed ({run['exit_code']})"
    return f"{run['measured']}, {run['version']} | {run['machine']} | {state} | {files or 'printed only'}"


def regenerate_docs(root: Path) -> int:
    """Let the pages take over the new figures, if the tree has such pages; the exit code of that."""
    script = root.parent / "docs" / "generated.py"
    return subprocess.run([sys.executable, str(script)], check=False).returncode if script.exists() else 0
