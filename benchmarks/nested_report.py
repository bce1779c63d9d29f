"""The tables and plots of the benchmark ``nested``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nested_data import CASES, SCALE
from reports import header, table

MOST = 5
"""A logarithmic query may take so many times longer at the largest size than at the smallest."""

RIVALS = ("scans", "first_order", "reevaluate", "duckdb", "duckdb rewritten")

PAPER = {"q17": "1.3", "q17_skewed": "over 30", "q17_fine": "over 30", "q18": "about 1"}
PAPER |= dict.fromkeys(("vwap", "mst", "psp", "sq1", "sq2", "nq1", "nq2"), "up to 1,100")
"""How far ahead of DBToaster the RPAI paper says to be in figure 7, where its text tells."""


def shown(result: dict[str, Any] | None) -> str:
    """Time per event as text."""
    if result is None:
        return ""
    if "failed" in result:
        return str(result["failed"])
    ns = result["ns"]
    return f"{ns:.0f} ns" if ns < 1e4 else f"{ns / 1e3:.0f} µs" if ns < 1e7 else f"{ns / 1e6:.0f} ms"


def _times(slow: float | None, fast: float | None) -> str:
    if not slow or not fast:
        return ""
    ratio = slow / fast
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


class Report:
    """All measurements of a run, by system, query, size and kind of data."""

    def __init__(self, sizes: Sequence[int], names: list[str]) -> None:
        self.sizes, self.names = tuple(sizes), names
        self.results: list[dict[str, Any]] = []
        self.traces: list[dict[str, Any]] = []

    def find(self, system: str, query: str, n: int, tick: int = 1, adversarial: bool = False) -> Any:
        """A measurement, if it was made."""
        key = (system, query, n, tick, adversarial)
        own = ("system", "query", "n", "tick", "adversarial")
        return next((r for r in self.results if tuple(r[name] for name in own) == key), None)

    def ns(self, *key: Any, **options: Any) -> float | None:
        """Its time per event."""
        found = self.find(*key, **options)
        return found.get("ns") if found else None

    def sizes_of(self, name: str) -> list[int]:
        """The sizes at which a query was measured."""
        return sorted({r["n"] for r in self.results if r["query"] == name and r["system"] == "viewlet"})

    def complexities(self) -> list[str]:
        """The generated table: what a change costs, and how that grows."""
        rows = []
        for name in self.names:
            case, sizes = CASES[name], self.sizes_of(name)
            if not sizes:
                continue
            first, last = self.ns("viewlet", name, sizes[0]), self.ns("viewlet", name, sizes[-1])
            growth = last / first if first and last else None
            most = MOST * (sizes[-1] / sizes[0] if case.grows else 1)
            kept = "" if growth is None or len(sizes) < 2 else "yes" if growth <= most else "NO"
            memory = (self.find("viewlet", name, sizes[-1]) or {}).get("bytes")
            times = " → ".join(shown(self.find("viewlet", name, n)) for n in sizes)
            spread = f"{sizes[0]:,} → {sizes[-1]:,}"
            size = f"{memory / 1e6:.1f} MB" if memory else ""
            rows.append([name, case.goal, spread, times, f"{growth:.1f}" if growth else "", kept, size])
        columns = ["query", "per change", "rows", "time per change", "growth", "as it should be", "state"]
        return table(columns, rows)

    def limits(self) -> list[str]:
        """Against hand-written programs, with the ratios that are allowed."""
        rows = []
        for name in self.names:
            for system, tick, most in (("fenwick", 1, 2), ("tree", 17, 3)):
                for n in self.sizes:
                    ours, theirs = self.find("viewlet", name, n, tick), self.find(system, name, n, tick)
                    if not ours or not theirs:
                        continue
                    both = [r["answer"] for r in (ours, theirs) if "answer" in r]
                    same = "not compared" if len(both) < 2 else "yes" if both[0] == both[1] else "NO"
                    ratio = ours["ns"] / theirs["ns"] if "ns" in ours and "ns" in theirs else 0.0
                    kept = "yes" if ratio <= most else "NO"
                    cells = [shown(ours), shown(theirs), f"{ratio:.1f}", f"{kept} ({most})", same]
                    rows.append([name, system, f"{n:,}", *cells])
        columns = ["query", "limit", "n", "viewlet", "limit's time", "ratio", "within", "same answer"]
        return table(columns, rows)

    def rivals(self) -> list[str]:
        """Figure 7 as a table."""
        n = self.sizes[0]
        rows = []
        for name in self.names:
            own = self.ns("viewlet", name, n)
            cells = []
            for system in RIVALS:
                found = self.find(system, name, n)
                more = _times(found.get("ns"), own) if found else ""
                cells.append(f"{shown(found)} ({more}x)" if more else shown(found))
            rows.append([name, shown(self.find("viewlet", name, n)), *cells])
        return table(["query", "viewlet", *RIVALS], rows)

    def paper(self) -> list[str]:
        """How many times faster than the same program without ordered indexes, beside the paper's figures."""
        rows = []
        for name in (name for name in self.names if name in PAPER):
            for found in (r for r in self.results if (r["system"], r["query"]) == ("scans", name)):
                ahead = _times(found.get("ns"), self.ns("viewlet", name, found["n"])) or shown(found)
                rows.append([name, f"{found['n']:,}", ahead, PAPER[name]])
        return table(["query", "n", "viewlet ahead of scans", "paper ahead of DBToaster"], rows)

    def real(self) -> list[str]:
        """Q11 and Q15 on TPC-H's own data."""
        rows = []
        for name in (name for name, case in CASES.items() if case.real):
            ours, theirs = self.find("viewlet", name, 0), self.find("first_order", name, 0)
            if ours and theirs:
                ratio = _times(theirs.get("ns"), ours.get("ns"))
                rows.append([CASES[name].name, shown(ours), shown(theirs), ratio])
        return table(["query", "viewlet", "first_order", "times faster"], rows)

    def jumps(self) -> list[str]:
        """The adversarial stream against the benign one."""
        rows = []
        for name in self.names:
            for n in self.sizes:
                benign, hard = self.ns("viewlet", name, n), self.ns("viewlet", name, n, adversarial=True)
                if benign and hard:
                    times = [f"{benign:.0f} ns", f"{hard:.0f} ns", f"{hard / benign:.1f}"]
                    rows.append([name, f"{n:,}", *times])
        return table(["query", "n", "benign", "edge over the whole book", "ratio (at most 4)"], rows)


def write(report: Report, folder: Path) -> None:
    """Tables, plots and all figures."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [
        (
            "Complexities",
            "CPU time per single change; the last size against the first.",
            report.complexities(),
        ),
        ("Against hand-written C", "", report.limits()),
        (f"Against other strategies and DuckDB, n = {report.sizes[0]:,} (figure 7)", "", report.rivals()),
        (
            "As far ahead as the paper (figure 7)",
            "`scans` is our own higher-order program without ordered indexes; the paper compares with "
            "DBToaster on its own data (10,000 events; TPC-H at scale factor 1). It does not tell how its "
            "lines of Q17 are skewed. Both rivals go through the quantities of a part: 50 at most as TPC-H "
            "draws them (`q17_skewed`), as many as there are lines otherwise (`q17_fine`: 5,000).",
            report.paper(),
        ),
        (f"TPC-H at scale factor {SCALE}", "One line or stock of a part at a time.", report.real()),
        ("An edge that jumps", "", report.jumps()),
    ]
    lines = ["# Nested aggregates", "", header(), ""]
    for title, note, rows in parts:
        if len(rows) > 3:
            lines += [f"## {title}", "", *([note, ""] if note else []), *rows]
    if report.traces:
        lines += ["## Over a stream (figure 9)", "", "![memory and rate](figure9_stream.png)", ""]
    (folder / "README.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    data = {"sizes": report.sizes, "results": report.results, "traces": report.traces}
    (folder / "results.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    plot(report, folder)


def plot(report: Report, folder: Path) -> None:
    """The figures of the RPAI paper: rivals and growth by query, Q17 on two kinds of data, a stream."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n, names = report.sizes[0], report.names
    figure, axes = plt.subplots(figsize=(11, 4))
    for i, system in enumerate(RIVALS):
        pairs = [
            (k, report.ns(system, name, n), report.ns("viewlet", name, n)) for k, name in enumerate(names)
        ]
        known = [(k, theirs / own) for k, theirs, own in pairs if theirs and own]
        axes.bar([k + 0.16 * i for k, _ in known], [ratio for _, ratio in known], 0.16, label=system)
    axes.set(yscale="log", ylabel="time per change relative to viewlet", title=f"n = {n:,}")
    axes.set_xticks([k + 0.3 for k in range(len(names))], names, rotation=45)
    axes.axhline(1, color="black", linewidth=0.5)
    axes.legend()
    _save(figure, folder / "figure7_rivals.png")
    for title, chosen in (("figure8_growth", names), ("figure8_q17", ["q17", "q17_skewed", "q17_fine"])):
        figure, axes = plt.subplots(figsize=(7, 5))
        for name in chosen:
            points = [(n, report.ns("viewlet", name, n)) for n in report.sizes_of(name)]
            known = [(n, ns) for n, ns in points if ns]
            if known:
                axes.plot(*zip(*known, strict=True), marker="o", label=name)
        axes.set(xscale="log", yscale="log", xlabel="rows per table that changes", ylabel="ns per change")
        if axes.has_data():
            axes.legend(fontsize="small", ncols=2)
            _save(figure, folder / f"{title}.png")
    if report.traces:
        _save(_streams(report.traces, plt), folder / "figure9_stream.png")


def _streams(traces: list[dict[str, Any]], plt: Any) -> Any:
    """A column per query: memory above, rate below."""
    names = list(dict.fromkeys(trace["query"] for trace in traces))
    figure, axes = plt.subplots(2, len(names), figsize=(4 * len(names), 6), squeeze=False)
    for column, name in enumerate(names):
        for trace in (t for t in traces if t["query"] == name and "points" in t):
            events, seconds, size = (list(part) for part in zip(*trace["points"], strict=True))
            axes[0][column].plot(events, [s / 1e6 for s in size], label=trace["system"])
            steps = zip(events, seconds, [0, *events], [0.0, *seconds], strict=False)
            rates = [(e, (e - e0) / (s - s0)) for e, s, e0, s0 in steps if s > s0]
            axes[1][column].plot(*zip(*rates, strict=True), label=trace["system"])
        axes[0][column].set(title=name, xscale="log", ylabel="MB")
        axes[1][column].set(xscale="log", yscale="log", xlabel="events", ylabel="events per second")
        axes[0][column].legend(fontsize="small")
    return figure


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=100)
