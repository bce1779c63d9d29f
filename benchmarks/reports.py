"""How benchmark results are written: Markdown tables and JSON; ``plots.py`` has the pictures."""

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
