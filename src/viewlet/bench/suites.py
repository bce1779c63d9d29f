"""Which benchmarks there are: every script under ``benchmarks/`` that can be run by itself.

``benchmarks/linalg.py`` is the suite ``linalg``, ``benchmarks/structures/run.py`` is ``structures``, and any
other ``benchmarks/runtime/maps.py`` is ``runtime/maps``. A file without a main guard is a part of others.

A script of which one command does not make all figures lists its commands as ``RUNS``, a tuple of texts.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import viewlet
from viewlet.errors import ViewletError, choices

COMPARE = "compare"  # benchmarks/compare.py compares the results of two commits: a tool, not a suite


class BenchmarkError(ViewletError):
    """There is no benchmark of that name."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A benchmark script. ``runs``: options of each run; ``has_quick``: do its words tell of ``--quick``?"""

    name: str
    script: Path
    summary: str
    has_quick: bool
    runs: tuple[tuple[str, ...], ...] = ((),)

    def results(self, *, quick: bool = False) -> Path:
        """Where the suite writes what it measured."""
        root = self.script.parents[self.name.count("/") + (self.script.name == "run.py")]
        return results_folder(root, self.name, quick=quick)


def results_folder(root: Path, name: str, *, quick: bool) -> Path:
    """Where a suite under a ``benchmarks`` folder writes: quick runs elsewhere, since they make no figures.

    >>> results_folder(Path("benchmarks"), "tpch", quick=False).as_posix()
    'benchmarks/results/tpch'
    >>> results_folder(Path("benchmarks"), "tpch", quick=True).as_posix()
    'build/quick/tpch'
    """
    return (root.parent / "build" / "quick" if quick else root / "results") / name


def find_benchmarks(start: Path) -> Path | None:
    """The ``benchmarks`` folder of the source tree around ``start``, else of the one Viewlet runs from."""
    own = Path(viewlet.__file__).parents[2]
    for folder in (start, *start.parents, own):
        if (folder / "benchmarks").is_dir() and (folder / "pyproject.toml").is_file():
            return folder / "benchmarks"
    return None


def find_suites(root: Path) -> dict[str, Suite]:
    """The suites under a ``benchmarks`` folder, by name."""
    found = {}
    for script in sorted(root.rglob("*.py")):
        name = script.relative_to(root).with_suffix("").as_posix().removesuffix("/run")
        text = script.read_text(encoding="utf-8")
        if name != COMPARE and not name.startswith("results/") and "__main__" in text:
            module = ast.parse(text)
            told = ast.get_docstring(module) or "no description"
            found[name] = Suite(name, script, told.splitlines()[0], "--quick" in told, _runs(module))
    return dict(sorted(found.items()))


def _runs(module: ast.Module) -> tuple[tuple[str, ...], ...]:
    """The options of each run, split as a shell would: one run without any unless ``RUNS`` says otherwise.

    >>> _runs(ast.parse('RUNS = ("--rows 10", "--spark")'))
    (('--rows', '10'), ('--spark',))
    >>> _runs(ast.parse("pass"))
    ((),)
    """
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name("RUNS")], value=value):
                return tuple(tuple(shlex.split(run)) for run in ast.literal_eval(value))
    return ((),)


def choose(suites: Mapping[str, Suite], names: Sequence[str]) -> list[Suite]:
    """The suites of some names, each once and in the order named; ``all`` is every suite.

    >>> every = {n: Suite(n, Path(n), "", False) for n in ("finance", "tpch")}
    >>> [suite.name for suite in choose(every, ["tpch", "all"])]
    ['tpch', 'finance']
    """
    chosen: dict[str, Suite] = {}
    for name in names:
        if name != "all" and name not in suites:
            raise BenchmarkError(f"there is no suite {name!r}; {choices(name, [*suites, 'all'])}")
        chosen |= {n: suite for n, suite in suites.items() if name in (n, "all")}
    return list(chosen.values())
