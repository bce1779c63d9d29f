"""How benchmark results are written: Markdown tables, JSON, and plots."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cells import DNF, Cell
from viewlet.bench.suites import results_folder


def results(suite: str) -> Path:
    """Where this run of a suite writes what it measured, unless it is told otherwise."""
    return results_folder(Path(__file__).parent, suite, quick="--quick" in sys.argv)


def arguments(
    doc: str, quick: str, queries: Sequence[str], seconds: float, out: Path
) -> argparse.ArgumentParser:
    """The options that every suite of queries has; ``quick`` says what is less in a quick run."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{quick}: shows that it works")
    parser.add_argument("--seconds", type=float, default=seconds, help="CPU seconds per measurement")
    parser.add_argument("--queries", nargs="*", default=list(queries))
    parser.add_argument("--out", type=Path, default=out)
    return parser


def header() -> str:
    """The command, the day, the machine, and whether the figures are to be trusted."""
    script = f"python benchmarks/{Path(sys.argv[0]).name}"
    command = " ".join([script, *sys.argv[1:]])
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    load = os.getloadavg()[0]
    busy = " **Preliminary: others were using the machine.**" if load > (os.cpu_count() or 1) else ""
    return f"`{command}`, {datetime.now(UTC):%Y-%m-%d}, {machine}, load {load:.1f}.{busy}"


def rate(value: float) -> str:
    """Events per second with three digits.

    >>> rate(12_345_678), rate(0.123), rate(1_200)
    ('12.3 M', '0.123', '1.2 k')
    """
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}" if value < 100 * size else f"{value / size:,.0f}{letter}"
    return f"{value:.3g}"


def shown(cell: Cell) -> str:
    """A cell of a table."""
    if cell.rate is None:
        reason = cell.failed or "nothing"
        return reason if reason.startswith(DNF) else f"failed: {reason}"
    return rate(cell.rate) + ("\\*" if cell.partial else "")


def times(ours: float | None, theirs: float | None) -> str:
    """How many times more the first is."""
    if not ours or not theirs:
        return ""
    ratio = ours / theirs
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def plain(cell: Cell) -> dict[str, Any]:
    """A cell without its answer, for JSON."""
    return {"rate": cell.rate, "events": cell.events, "partial": cell.partial, "failed": cell.failed}


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table, and an empty one."""
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return [*head, *("| " + " | ".join(row) + " |" for row in rows), ""]


def write(folder: Path, lines: Sequence[str], figures: Mapping[str, Any]) -> None:
    """``README.md`` and ``figures.json`` of a suite; the text is printed too."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines).rstrip() + "\n"
    print(text)
    (folder / "README.md").write_text(text, encoding="utf-8")
    document = {"about": header(), **figures}
    (folder / "figures.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _axes(width: float = 9, height: float = 4.5) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height))


def bars(path: Path, names: Sequence[str], series: Mapping[str, Sequence[float | None]], label: str) -> None:
    """Bars side by side on a logarithmic scale, one group per name; what is missing is left out."""
    figure, axes = _axes(max(6, 0.9 * len(names)))
    width = 0.8 / max(len(series), 1)
    for i, (title, values) in enumerate(series.items()):
        known = [(k + width * i, value) for k, value in enumerate(values) if value]
        if known:
            axes.bar(*zip(*known, strict=True), width, label=title)
    axes.set(yscale="log", ylabel=label)
    axes.set_xticks([k + 0.4 - width / 2 for k in range(len(names))], names, rotation=45)
    axes.axhline(1, color="black", linewidth=0.5)
    if series:
        axes.legend(fontsize="small")
    _save(figure, path)


def curves(
    path: Path, series: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str, *, log: bool = True
) -> None:
    """Lines over a logarithmic axis, one per name."""
    figure, axes = _axes(7, 5)
    for title, points in series.items():
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=title)
    axes.set(xscale="log", yscale="log" if log else "linear", xlabel=x, ylabel=y)
    if any(series.values()):
        axes.legend(fontsize="small", ncols=2)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=100)
