"""Nested aggregates and inequality joins: time per change as the data grows, against rivals and limits.

    python benchmarks/nested.py [--quick] [--queries vwap mst ..] [--limit-seconds 20]

Each measurement is a process of its own. It fills the tables with n orders per side, then times single
changes (half insertions, half deletions, all effects of one before the next) in CPU nanoseconds. What is not
through within the time limit is reported as such; nothing is extrapolated. The limits in
``benchmarks/limits`` are C programs for one query each, over dense prices (Fenwick array) or any prices
(wide-node tree); their answers are compared with the view's. Writes tables, plots and ``results.json`` to
``results/nested``.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import viewlet.backends.native
from viewlet.backends.native.build import find_compiler
from viewlet.backends.native.engine import NativeEngine
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.values import arrow_type
from viewlet.workloads import draws, queries, schema

LIMITS = Path(__file__).parent / "limits"
RUNTIME = Path(viewlet.backends.native.__file__).parent / "runtime"
RESULTS = Path(__file__).parent / "results" / "nested"
SIZES = (10_000, 100_000, 1_000_000)
SPARSE = 17
BROKERS = 10

LINES = """
CREATE TABLE lineitem (l_partkey BIGINT NOT NULL, l_quantity DECIMAL(15,2) NOT NULL,
                       l_extendedprice DECIMAL(15,2) NOT NULL);
CREATE TABLE part (p_partkey BIGINT NOT NULL, p_brand VARCHAR NOT NULL, p_container VARCHAR NOT NULL)
"""

REWRITTEN = {
    "vwap": """SELECT SUM(price * v) FROM (SELECT price, SUM(volume) AS v,
        (SELECT SUM(volume) FROM bids) AS total,
        SUM(SUM(volume)) OVER (ORDER BY price DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
        FROM bids GROUP BY price) WHERE 0.25 * total > above""",
    "vwap75": """SELECT SUM(price * v) FROM (SELECT price, SUM(volume) AS v,
        (SELECT SUM(volume) FROM bids) AS total, SUM(SUM(volume)) OVER (ORDER BY price) AS upto
        FROM bids GROUP BY price) WHERE 0.75 * total < upto""",
}
"""The same results by window functions, as one would write them for DuckDB."""


@dataclass(frozen=True)
class Case:
    """A query: what its growth is said to be, and the limit programs' columns if there are such programs."""

    suite: str
    said: str
    columns: tuple[str, ...] = ()


LOG = "O(log n)"
CASES = {
    "vwap": Case("finance", LOG, ("price", "volume")),
    "mst": Case("finance", f"{LOG} per broker", ("broker_id", "price", "volume")),
    "psp": Case("finance", LOG, ("price", "volume")),
    "bsp": Case("finance", LOG),
    "axf": Case("finance", LOG),
    "bsv": Case("finance", "O(1)"),
    "vwap75": Case("nested", LOG),
    "nq1": Case("nested", "O(log² n)"),
    "sq2": Case("nested", "O(log² n) while monotone"),
    "max_ineq": Case("nested", "scan"),
    "sq1": Case("nested", "scan"),
    "nq2": Case("nested", "scan"),
    "q17": Case("lines", LOG),
    "q17_skewed": Case("lines", LOG),
}
SIDES = ("bids", "asks")


@dataclass(frozen=True)
class Task:
    """One measurement."""

    system: str
    query: str
    n: int
    events: int
    seconds: float
    tick: int = 1
    adversarial: bool = False


# Data


def orders(index: np.ndarray, task: Task) -> pa.Table:
    """Orders by number; PSP's volumes, not its prices, are what it searches among."""
    wide = task.query == "psp"
    return pa.table(
        {
            "t": index,
            "id": index,
            "broker_id": draws.integers(0, "broker", index, 0, BROKERS),
            "volume": draws.integers(0, "volume", index, 1, (task.n if wide else 100) + 1),
            "price": task.tick * draws.integers(0, "price", index, 1, task.n + 1),
        }
    )


def lines(index: np.ndarray, task: Task) -> pa.Table:
    """Lines of parts, 30 per part on average; skewed: most of few parts."""
    parts = max(task.n // 30, 1)
    keys = draws.zipf(0, "part", index, parts, 1.0 if task.query == "q17_skewed" else 0.0)
    return pa.table(
        {
            "l_partkey": keys,
            "l_quantity": _decimals(draws.integers(0, "quantity", index, 1, 51)),
            "l_extendedprice": _decimals(draws.integers(0, "price", index, 1_000, 100_000)),
        }
    )


def _decimals(values: np.ndarray) -> pa.Array:
    return pa.array(values).cast(pa.decimal128(21, 2)).cast(pa.decimal128(15, 2))


def fill_and_changes(task: Task) -> tuple[dict[str, pa.Table], list[tuple[str, pa.Table, np.ndarray]]]:
    """The rows to begin with, and changes by table: rows of the beginning go, new ones come, and back."""
    half = min(task.events // 2, task.n)
    gone = draws.integers(0, "gone", np.arange(2 * half), 0, task.n)
    gone = np.unique(gone)[:half]
    sides = SIDES if task.query in ("mst", "psp", "axf") else ("bids",)
    if task.query.startswith("q17"):
        sides = ("lineitem",)
    fill, changes = {}, []
    for i, side in enumerate(sides):
        make = lines if side == "lineitem" else orders
        own = np.arange(task.n) * len(sides) + i
        new = (task.n + np.arange(len(gone))) * len(sides) + i
        fill[side] = make(own, task)
        index = np.column_stack([own[gone], new]).reshape(-1)
        weights = np.tile([-1, 1], len(gone))
        there_and_back = np.concatenate([index, index[::-1]]), np.concatenate([weights, -weights[::-1]])
        index, weights = (np.resize(part, task.events) for part in there_and_back)
        changes.append((side, make(index, task), weights.astype(np.int64)))
        if task.adversarial:
            heavy = pa.table({"t": [0], "id": [0], "broker_id": [0], "volume": [400 * task.n], "price": [1]})
            fill[side] = pa.concat_tables([fill[side], heavy.cast(fill[side].schema)])
            top = heavy.set_column(3, "volume", [[4_000 * task.n]]).set_column(4, "price", [[task.n + 1]])
            rows = pa.concat_tables([top] * task.events).combine_chunks().cast(fill[side].schema)
            changes[-1] = (side, rows, np.resize([1, -1], task.events).astype(np.int64))
    if "lineitem" in fill:
        keys = np.arange(max(task.n // 30, 1))
        fill["part"] = pa.table(
            {"p_partkey": keys, "p_brand": ["Brand#23"] * len(keys), "p_container": ["MED BOX"] * len(keys)}
        )
    return fill, changes


def typed(rows: pa.Table, catalog: Catalog, table: str) -> pa.RecordBatch:
    """All columns of a table in its order and types."""
    columns = [rows[c.name].combine_chunks().cast(arrow_type(c.type)) for c in catalog[table].columns]
    return pa.record_batch(columns, names=[c.name for c in catalog[table].columns])


# Systems


def view(task: Task) -> dict[str, Any]:
    """One of the strategies on compiled triggers."""
    suite = CASES[task.query].suite
    name = task.query.split("_")[0] if suite == "lines" else task.query
    catalog = Catalog(s.table for s in parse(LINES if suite == "lines" else schema(suite)))
    text = queries("tpch" if suite == "lines" else suite)[name]
    engine = NativeEngine()
    strategy = "higher_order" if task.system == "viewlet" else task.system
    began = _compile_seconds()
    engine.create(name, compile_query(text, catalog), catalog, {t: {} for t in catalog}, strategy)
    tables = set(engine.tables())
    building = _compile_seconds() - began
    fill, changes = fill_and_changes(task)
    for table, rows in fill.items():
        if table in tables:
            engine.apply_arrow(table, typed(rows, catalog, table), None, "batch")
    blocks = [(t, typed(rows, catalog, t), weights) for t, rows, weights in changes if t in tables]
    done, spent, size = 0, 0.0, 1
    longest = max(batch.num_rows for _, batch, _ in blocks)
    while done < longest and spent < task.seconds:
        start = time.process_time()
        for table, batch, weights in blocks:
            engine.apply_arrow(table, batch.slice(done, size), weights[done : done + size], "tuple")
        taken = time.process_time() - start
        done, spent = done + size, spent + taken
        size = min(size * 8 if taken < task.seconds / 16 else 1, 4096, longest - done) or 1
    events = done * len(blocks)
    answer = sum(value for row in engine.output(name) for value in row[-1:] if value is not None)
    stats = {"ns": spent / events * 1e9, "events": events, "building": building}
    if done == longest:
        stats["answer"] = int(answer)
    return stats | {"bytes": sum(m.bytes for m in engine.stats())}


def _compile_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def duckdb_again(task: Task) -> dict[str, Any]:
    """The query asked again after every change."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    fill, changes = fill_and_changes(task)
    suite = CASES[task.query].suite
    text = REWRITTEN[task.query] if task.system == "duckdb rewritten" else queries(suite)[task.query]
    for table in SIDES:
        rows = fill.get(table, fill["bids"].slice(0, 0))
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM rows")
    done, start = 0, time.process_time()
    while time.process_time() - start < task.seconds and done < len(changes[0][2]):
        for table, rows, weights in changes:
            row = rows.slice(done, 1)
            verb = f"INSERT INTO {table} SELECT * FROM row"
            connection.execute(
                verb if weights[done] > 0 else f"DELETE FROM {table} WHERE id = {row['id'][0].as_py()}"
            )
            connection.execute(text).fetchall()
        done += 1
    events = done * len(changes)
    return {"ns": (time.process_time() - start) / events * 1e9, "events": events}


def limit(task: Task) -> dict[str, Any]:
    """The hand-written program for the query."""
    compiler = find_compiler()
    assert compiler is not None, "the limit programs need a C compiler"
    fill, changes = fill_and_changes(task)
    columns = CASES[task.query].columns
    parts, skipped = [], 0
    longest = max(len(weights) for _, _, weights in changes)
    sides = [side for side, _, _ in changes]
    for side, rows in fill.items():
        parts.append((sides.index(side), rows, np.ones(rows.num_rows, np.int64)))
        skipped += rows.num_rows
    parts += [
        (sides.index(side), rows.slice(at, 4096), weights[at : at + 4096])
        for at in range(0, longest, 4096)
        for side, rows, weights in changes
    ]
    data = []
    for side, rows, weights in parts:
        first = [np.full(rows.num_rows, side)] if len(sides) > 1 else []
        data.append(np.column_stack([*first, weights, *(rows[c].to_numpy() for c in columns)]))
    table = np.ascontiguousarray(np.concatenate(data), dtype=np.int64)
    tree = ["-std=gnu11", "-DTREE", f"-I{RUNTIME}"] if task.system == "tree" else []
    with tempfile.TemporaryDirectory() as folder:
        program, source = Path(folder) / "limit", LIMITS / f"{task.query}.c"
        subprocess.run([*compiler.command, "-O2", "-march=native", *tree, "-o", program, source], check=True)
        given = np.int64(len(table)).tobytes() + table.tobytes()
        answer = subprocess.run([program, str(skipped)], input=given, capture_output=True, check=True)
    ns, checksum = answer.stdout.split()
    return {"ns": float(ns), "events": len(table) - skipped, "answer": int(checksum)}


SYSTEMS = {
    "viewlet": view,
    "first_order": view,
    "reevaluate": view,
    "duckdb": duckdb_again,
    "duckdb rewritten": duckdb_again,
    "fenwick": limit,
    "tree": limit,
}


def measured(task: Task) -> dict[str, Any]:
    """A measurement in a process of its own; without figures if it was not through in time."""
    command = [sys.executable, __file__, "--child", json.dumps(asdict(task))]
    patience = 60 + 10 * task.seconds + task.n / 20_000
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return asdict(task) | {"failed": f"did not finish in {patience:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return asdict(task) | {"failed": last[:200]}
    return asdict(task) | json.loads(done.stdout)


# Reports


def shown(result: dict[str, Any] | None) -> str:
    """Time per event as text."""
    if result is None:
        return ""
    if "failed" in result:
        return result["failed"]
    ns = result["ns"]
    return f"{ns:.0f} ns" if ns < 1e4 else f"{ns / 1e3:.0f} µs" if ns < 1e7 else f"{ns / 1e6:.0f} ms"


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return [*head, *("| " + " | ".join(row) + " |" for row in rows), ""]


class Report:
    """All measurements of a run, by system, query, size and kind of data."""

    def __init__(self, sizes: tuple[int, ...], seconds: float, events: int, systems: list[str]) -> None:
        self.sizes, self.seconds, self.events, self.systems = sizes, seconds, events, systems
        self.results: list[dict[str, Any]] = []

    def run(self, system: str, query: str, n: int, **options: Any) -> None:
        """Measure, unless the system was not asked for."""
        if system not in self.systems:
            return
        self.results.append(measured(Task(system, query, n, self.events, self.seconds, **options)))
        print(f"{system:17} {query:11} {n:9,} {options or ''} {shown(self.results[-1])}", flush=True)

    def find(self, system: str, query: str, n: int, tick: int = 1, adversarial: bool = False) -> Any:
        key = (system, query, n, tick, adversarial)
        return next(
            (
                r
                for r in self.results
                if (r["system"], r["query"], r["n"], r["tick"], r["adversarial"]) == key
            ),
            None,
        )

    def ns(self, *key: Any, **options: Any) -> float | None:
        found = self.find(*key, **options)
        return found.get("ns") if found else None

    def growth(self, names: list[str]) -> list[str]:
        rows = []
        for name in names:
            first, last = (self.ns("viewlet", name, n) for n in (self.sizes[0], self.sizes[-1]))
            ratio = f"{last / first:.1f}" if first and last else ""
            times = [shown(self.find("viewlet", name, n)) for n in self.sizes]
            found = self.find("viewlet", name, self.sizes[-1]) or {}
            memory = f"{found['bytes'] / 1e6:.1f} MB" if "bytes" in found else ""
            rows.append([name, CASES[name].said, *times, ratio, memory])
        columns = ["query", "per change", *(f"n = {n:,}" for n in self.sizes), "growth", "state at the end"]
        return table(columns, rows)

    def limits(self, names: list[str]) -> list[str]:
        rows = []
        for name in names:
            for system, tick in (("fenwick", 1), ("tree", SPARSE)):
                for n in self.sizes:
                    ours, theirs = self.find("viewlet", name, n, tick), self.find(system, name, n, tick)
                    if not ours or not theirs:
                        continue
                    both = [r["answer"] for r in (ours, theirs) if "answer" in r]
                    same = "not compared" if len(both) < 2 else "yes" if both[0] == both[1] else "NO"
                    ratio = f"{ours['ns'] / theirs['ns']:.1f}" if "ns" in ours and "ns" in theirs else ""
                    rows.append([name, system, f"{n:,}", shown(ours), shown(theirs), ratio, same])
        return table(["query", "limit", "n", "viewlet", "limit", "ratio", "same answer"], rows)

    def rivals(self, names: list[str]) -> list[str]:
        systems = ["viewlet", "first_order", "reevaluate", "duckdb", "duckdb rewritten"]
        n = self.sizes[0]
        rows = [[name, *(shown(self.find(system, name, n)) for system in systems)] for name in names]
        return table(["query", *systems], rows)

    def jumps(self, names: list[str]) -> list[str]:
        rows = []
        for name in names:
            for n in self.sizes:
                benign, hard = self.ns("viewlet", name, n), self.ns("viewlet", name, n, adversarial=True)
                if benign and hard:
                    rows.append(
                        [name, f"{n:,}", f"{benign:.0f} ns", f"{hard:.0f} ns", f"{hard / benign:.1f}"]
                    )
        return table(["query", "n", "benign", "edge over the whole book", "ratio"], rows)


def write(report: Report, names: list[str], folder: Path, note: str) -> None:
    """Tables, plots and all figures."""
    folder.mkdir(parents=True, exist_ok=True)
    limited = [name for name in names if CASES[name].columns]
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    lines = [
        "# Nested aggregates",
        "",
        f"Measured on {machine}. CPU time per single change; see `benchmarks/nested.py`. {note}".rstrip(),
        "",
        "## Growth",
        "",
        *report.growth(names),
        "## Against hand-written C",
        "",
        *report.limits(limited),
        f"## Against other strategies and DuckDB, n = {report.sizes[0]:,}",
        "",
        *report.rivals(names),
        "## An edge that jumps",
        "",
        *report.jumps([name for name in names if name in ("vwap", "mst")]),
    ]
    (folder / "README.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    (folder / "results.json").write_text(json.dumps(report.results, indent=1) + "\n", encoding="utf-8")
    plot(report, names, folder)


def plot(report: Report, names: list[str], folder: Path) -> None:
    """The figures of the RPAI paper: rivals per query, growth per query, Q17 on two kinds of data."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = report.sizes[0]
    figure, axes = plt.subplots(figsize=(9, 4))
    rivals = ("first_order", "reevaluate", "duckdb", "duckdb rewritten")
    for i, system in enumerate(rivals):
        pairs = [
            (k, report.ns(system, name, n), report.ns("viewlet", name, n)) for k, name in enumerate(names)
        ]
        known = [(k, theirs / own) for k, theirs, own in pairs if theirs and own]
        axes.bar([k + 0.2 * i for k, _ in known], [ratio for _, ratio in known], 0.2, label=system)
    axes.set(yscale="log", ylabel="time per change relative to viewlet", title=f"n = {n:,}")
    axes.set_xticks([k + 0.3 for k in range(len(names))], names, rotation=45)
    axes.axhline(1, color="black", linewidth=0.5)
    axes.legend()
    _save(figure, folder / "figure7_rivals.png")
    for title, chosen in (("figure8_growth", names), ("figure8_q17", ["q17", "q17_skewed"])):
        figure, axes = plt.subplots(figsize=(7, 5))
        for name in chosen:
            points = [(n, report.ns("viewlet", name, n)) for n in report.sizes]
            known = [(n, ns) for n, ns in points if ns]
            if known:
                axes.plot(*zip(*known, strict=True), marker="o", label=name)
        axes.set(xscale="log", yscale="log", xlabel="orders per side", ylabel="ns per change")
        if axes.has_data():
            axes.legend(fontsize="small")
            _save(figure, folder / f"{title}.png")


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, less time for rivals")
    parser.add_argument("--queries", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--sizes", nargs="*", type=int, help="orders per side")
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--limit-seconds", type=float, default=5.0, help="CPU seconds per measurement")
    parser.add_argument("--note", default="", help="a remark on the run, for the report")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.child:
        task = Task(**json.loads(options.child))
        print(json.dumps(SYSTEMS[task.system](task)))
        return
    sizes = tuple(options.sizes or ((10_000, 100_000) if options.quick else SIZES))
    seconds = 1.0 if options.quick else options.limit_seconds
    report = Report(sizes, seconds, 20_000 if options.quick else 100_000, options.systems)
    for name in options.queries:
        limited, suite = bool(CASES[name].columns), CASES[name].suite
        for n in sizes:
            report.run("viewlet", name, n)
            if limited:
                report.run("fenwick", name, n)
                for system in ("viewlet", "tree"):
                    report.run(system, name, n, tick=SPARSE)
            if name in ("vwap", "mst"):
                report.run("viewlet", name, n, adversarial=True)
        rivals = ["first_order", "reevaluate"] + ["duckdb"] * (suite != "lines")
        for system in rivals + ["duckdb rewritten"] * (name in REWRITTEN):
            report.run(system, name, sizes[0])
    note = " ".join(["Quick run: indicative only."] * options.quick + [options.note] * bool(options.note))
    write(report, options.queries, options.results, note)


if __name__ == "__main__":
    main()
