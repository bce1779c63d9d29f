"""What the parts of the linear algebra benchmark share: tables, plots, timing, changes of rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import plots
import reports
import viewlet.linalg as vl

RESULTS = reports.results("linalg")
K = 16


@dataclass
class Report:
    """Tables in the order in which they were measured; every plot is drawn from a table."""

    lines: list[str] = field(default_factory=list)
    folder: Path = RESULTS

    def table(self, title: str, note: str, columns: list[str], rows: list[list[Any]]) -> None:
        """Add a table and print it."""
        text = [f"## {title}", "", note, "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        text += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
        self.lines += [*text, ""]
        print("\n".join(text), flush=True)

    def plot(
        self, name: str, title: str, x: str, y: str, series: dict[str, list[tuple[float, float]]]
    ) -> None:
        """Draw lines on logarithmic axes into a PNG file and link it."""
        plots.curves(self.folder / f"{name}.png", series, x, y, title=title)
        self.lines += [f"![{title}]({name}.png)", ""]


def cell(value: Any) -> str:
    if isinstance(value, float):
        return "not run" if math.isnan(value) else f"{value:.3g}"
    return str(value)


def milliseconds(work: Callable[[], Any], repeats: int) -> float:
    """CPU time of the quickest repetition."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * min(times)


def contraction(n: int, rng: np.random.Generator) -> np.ndarray:
    """A random matrix of spectral radius about 0.9, so that powers neither vanish nor explode."""
    return 0.9 * rng.standard_normal((n, n)) / np.sqrt(n)


def row_changes(view: vl.MatrixView, name: str, scale: float, rng: np.random.Generator) -> Iterator[None]:
    """Replace one row after the other; each ``next`` is one update."""
    rows, columns = view.program.shapes[name]
    for row in rng.permutation(rows):
        view.update(name, rows={int(row): scale * rng.standard_normal(columns)})
        yield


def update_time(view: vl.MatrixView, name: str, scale: float, repeats: int) -> float:
    changes = row_changes(view, name, scale, np.random.default_rng(7))
    next(changes)  # compiles the trigger
    return milliseconds(lambda: next(changes), repeats)


def held_megabytes(model: Any) -> float:
    """The arrays that an object holds."""
    return 1e-6 * sum(part.nbytes for part in vars(model).values() if isinstance(part, np.ndarray))


def stored_megabytes(view: vl.MatrixView) -> float:
    return view.program.stored_numbers() * view.arrays.itemsize / 1e6
