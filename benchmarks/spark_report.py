"""Pages and pictures of ``benchmarks/spark.py``; a quick run writes nothing."""

from __future__ import annotations

import argparse
import sys
from os import getloadavg

import plots

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
    if not options.quick:
        points = {label: list(zip(sizes, times, strict=True)) for label, times in series.items()}
        plots.curves(options.results / name, points, "rows per batch", "ms per batch")


def plot_ratios(
    name: str, names: list[str], series: dict[str, list[float]], options: argparse.Namespace
) -> None:
    """How many times longer re-evaluation takes, query by query; 1 is as long."""
    if not options.quick:
        plots.leads(options.results / name, names, series, "Spark SQL again / viewlet")
