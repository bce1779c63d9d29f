"""Pages and pictures of ``benchmarks/spark.py``; a quick run writes nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import getloadavg
from typing import Any

PARTS = ("again", "all", "growth", "breakeven", "scaling", "fusion")


def save(name: str, lines: list[str], options: argparse.Namespace) -> None:
    """Write a page, and all pages there are as one."""
    if options.quick:
        return
    options.results.mkdir(parents=True, exist_ok=True)
    command = f"`python benchmarks/spark.py {' '.join(sys.argv[1:])}`"
    words = ["", f"{command}; load of the machine at the end {getloadavg()[0]:.1f}.", ""]
    (options.results / name).write_text("\n".join([*lines, *words]), encoding="utf-8")
    pages = [options.results / f"{part}.md" for part in PARTS]
    whole = "\n".join(page.read_text(encoding="utf-8") for page in pages if page.exists())
    (options.results / "README.md").write_text(whole, encoding="utf-8")


def plot(name: str, sizes: list[int], series: dict[str, list[float]], options: argparse.Namespace) -> None:
    """Milliseconds by rows per batch, both on logarithmic scales."""
    with figure(name, options) as axes:
        for label, times in series.items():
            axes.loglog(sizes, times, marker="o", label=label)
        axes.set_xlabel("rows per batch")
        axes.set_ylabel("ms per batch")


def plot_ratios(
    name: str, names: list[str], series: dict[str, list[float]], options: argparse.Namespace
) -> None:
    """How many times longer re-evaluation takes, query by query; 1 is as long."""
    with figure(name, options) as axes:
        for i, (label, ratios) in enumerate(series.items()):
            width = 0.8 / len(series)
            axes.bar([at + i * width for at in range(len(names))], ratios, width, label=label, log=True)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.axhline(1, color="black", linewidth=0.5)
        axes.set_ylabel("Spark SQL again / viewlet")


@contextmanager
def figure(name: str, options: argparse.Namespace) -> Iterator[Any]:
    """Axes that become a picture of the results."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn, axes = plt.subplots(figsize=(6, 4))
    yield axes
    axes.legend()
    drawn.tight_layout()
    if not options.quick:
        drawn.savefig(options.results / name, dpi=120)
    plt.close(drawn)
