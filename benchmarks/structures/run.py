"""Nanoseconds per operation of the native ordered structures, by size and pattern, with a growth plot.

    python benchmarks/structures/run.py                  sizes 1e3 .. 1e6, random and clustered
    python benchmarks/structures/run.py --quick          sizes 1e3 and 1e4, few events: does it work?

Prints one table per pattern and writes them, ``results.csv`` and ``growth.png``, as all suites do. Times are
processor time, the best of three passes; other work on the machine still shows through shared caches, so
compare rows of one run.
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from viewlet.backends.native.build import RUNTIME, find_compiler
from viewlet.bench.suites import results_folder

HERE = Path(__file__).parent
PATTERNS = ("random", "clustered")
CLAIMED = (
    ("B16/32 plain", "VWAP descent"),
    ("B16/32 plain", "VWAP cursor"),
    ("B16/32 plain + RPAI B16/32", "VWAP key shift"),
    ("Fenwick", "VWAP descent"),
    ("B16/32 plain", "add+range"),
    ("RPAI B16/32", "shift+ and shift-, each"),
    ("subtree max B16/32", "first over"),
)
"""What the plot shows: the operations behind the access paths said to be logarithmic."""


class Figure(NamedTuple):
    pattern: str
    size: int
    structure: str
    operation: str
    nanoseconds: float


def measure(sizes: list[int], events: int) -> list[Figure]:
    compiler = find_compiler()
    if compiler is None:
        raise SystemExit("this benchmark needs a C compiler (cc, gcc or clang)")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "ordered"
        flags = ("-std=gnu11", "-O2", "-march=native", "-iquote", str(RUNTIME))
        subprocess.run([*compiler.command, *flags, str(HERE / "ordered.c"), "-o", str(program)], check=True)
        for pattern in PATTERNS:
            for size in sizes:
                command = [str(program), pattern, str(size), str(events)]
                answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                for row in csv.reader(io.StringIO(answer), delimiter=";"):
                    figures.append(Figure(row[0], int(row[1]), row[2], row[3], float(row[4])))
    return figures


def table(figures: list[Figure], pattern: str) -> str:
    """One row per structure and operation, one column per size, the growth from first to last at the end."""
    rows: dict[tuple[str, str], dict[int, float]] = {}
    for figure in figures:
        if figure.pattern == pattern:
            rows.setdefault((figure.structure, figure.operation), {})[figure.size] = figure.nanoseconds
    sizes = sorted({figure.size for figure in figures})
    lines = [
        f"## {pattern.capitalize()} keys, ns per operation\n",
        "| structure | operation | " + " | ".join(f"{size:.0e}" for size in sizes) + " | growth |",
        "|---|---|" + "---:|" * (len(sizes) + 1),
    ]
    for (structure, operation), by_size in rows.items():
        cells = " | ".join(f"{by_size[size]:.0f}" for size in sizes)
        growth = by_size[sizes[-1]] / by_size[sizes[0]]
        lines.append(f"| {structure} | {operation} | {cells} | {growth:.1f}x |")
    return "\n".join(lines)


def plot(figures: list[Figure], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    canvas, axes = pyplot.subplots(1, len(PATTERNS), figsize=(11, 4.5), sharey=True)
    for axis, pattern in zip(axes, PATTERNS, strict=True):
        for structure, operation in CLAIMED:
            points = [
                (f.size, f.nanoseconds)
                for f in figures
                if (f.pattern, f.structure, f.operation) == (pattern, structure, operation)
            ]
            axis.plot(*zip(*points, strict=True), marker="o", label=f"{structure}: {operation}")
        axis.set(xscale="log", yscale="log", title=f"{pattern} keys", xlabel="live keys")
        axis.grid(visible=True, which="both", alpha=0.3)
    axes[0].set_ylabel("ns per event")
    axes[0].legend(fontsize=7)
    canvas.tight_layout()
    canvas.savefig(path, dpi=120)


def write(figures: list[Figure], folder: Path) -> None:
    """The tables as a page with the plot, and all figures."""
    folder.mkdir(parents=True, exist_ok=True)
    plot(figures, folder / "growth.png")
    with (folder / "results.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Figure._fields)
        writer.writerows(figures)
    parts = ["# Ordered structures", "`python benchmarks/structures/run.py`", "![growth](growth.png)"]
    page = "\n\n".join([*parts, *(table(figures, pattern) for pattern in PATTERNS)])
    (folder / "README.md").write_text(page + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two sizes, few events")
    parser.add_argument("--events", type=int, default=1_000_000, help="events per pass (default: 1000000)")
    arguments = parser.parse_args()
    quick = arguments.quick
    sizes = [1_000, 10_000] if quick else [1_000, 10_000, 100_000, 1_000_000]
    figures = measure(sizes, events=50_000 if quick else arguments.events)
    for pattern in PATTERNS:
        print(table(figures, pattern), end="\n\n")
    write(figures, results_folder(HERE.parent, "structures", quick=quick))


if __name__ == "__main__":
    main()
