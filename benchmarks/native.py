"""Compiled triggers against hand-written C: time per event of the same stream, in one run.

    python benchmarks/native.py [--scale 0.05] [--events 300000] [--queries q01 q06 ...]

Times are CPU nanoseconds per event, the smallest of a few repetitions. Events come as Arrow batches of 10,000
rows with all effects of each row before the next (``trigger="tuple"``). The limit programs in
``benchmarks/limits`` get the same rows as integers; reading them is not counted. Where both give the same
sums in the end, their checksums are compared.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewlet.backends.native.build import find_compiler
from viewlet.backends.native.engine import NativeEngine
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog, Table
from viewlet.sql.parse import parse
from viewlet.values import arrow_type
from viewlet.workloads import order_book, queries, schema, tpch
from viewlet.workloads.stream import Stream, round_robin

LIMITS = Path(__file__).parent / "limits"
BATCH = 10_000


@dataclass(frozen=True)
class Case:
    """A query with the rows that its limit program wants and what that should answer."""

    suite: str
    rows: Callable[[Catalog, list[tuple[str, pa.RecordBatch, Any]]], np.ndarray] | None
    checksum: Callable[[Iterable[tuple[Any, ...]]], int] | None


def canonical(rows: pa.Table, table: Table) -> pa.RecordBatch:
    """All columns of a table in its order and types, so that nothing is converted while the clock runs."""
    columns = [rows[c.name].cast(arrow_type(c.type)).combine_chunks() for c in table.columns]
    return pa.record_batch(columns, names=[c.name for c in table.columns])


def integers(batch: pa.RecordBatch, name: str) -> np.ndarray:
    """A column as integers: decimals in hundredths, dates in days, text by its first character."""
    column = batch[name]
    if pa.types.is_decimal(column.type):
        return np.frombuffer(column.buffers()[1], dtype=np.int64)[2 * column.offset :: 2][: len(column)]
    if pa.types.is_date(column.type):
        return column.cast(pa.int32()).to_numpy().astype(np.int64)
    if pa.types.is_string(column.type):
        return np.array([ord(text[0]) for text in column.to_pylist()], dtype=np.int64)
    return column.to_numpy().astype(np.int64)


def columns_of(table: str, *names: str) -> Callable[..., np.ndarray]:
    """Rows of a limit program: the weight, then columns of one table."""

    def rows(catalog: Catalog, batches: list[tuple[str, pa.RecordBatch, Any]]) -> np.ndarray:
        parts = [
            np.column_stack([weights, *(integers(batch, name) for name in names)])
            for own, batch, weights in batches
            if own == table
        ]
        return np.concatenate(parts)

    return rows


def q03_rows(catalog: Catalog, batches: list[tuple[str, pa.RecordBatch, Any]]) -> np.ndarray:
    """Rows of three tables, padded."""
    parts = []
    for own, batch, weights in batches:
        zero = np.zeros(batch.num_rows, np.int64)
        match own:
            case "customer":
                building = pc.equal(batch["c_mktsegment"], "BUILDING").to_numpy(zero_copy_only=False)
                columns = [zero, weights, integers(batch, "c_custkey"), building.astype(np.int64), zero, zero]
            case "orders":
                names = ("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority")
                columns = [zero + 1, weights, *(integers(batch, name) for name in names)]
            case _:
                names = ("l_orderkey", "l_shipdate", "l_extendedprice", "l_discount")
                columns = [zero + 2, weights, *(integers(batch, name) for name in names)]
        parts.append(np.column_stack(columns))
    return np.concatenate(parts)


Q01 = ("l_shipdate", "l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax")
CASES = {
    "bsv": Case(
        "finance",
        columns_of("bids", "broker_id", "volume", "price"),
        lambda rows: sum(r[1] // 10 for r in rows),
    ),
    "q01": Case("tpch", columns_of("lineitem", *Q01), lambda rows: sum(r[5] + r[9] for r in rows)),
    "q03": Case("tpch", q03_rows, None),
    "q06": Case(
        "tpch",
        columns_of("lineitem", "l_shipdate", "l_discount", "l_quantity", "l_extendedprice"),
        lambda rows: sum(r[0] for r in rows),
    ),
    "q17": Case("tpch", None, None),
    "q18": Case("tpch", columns_of("lineitem", "l_orderkey", "l_quantity"), None),
}


def engine_for(name: str, suite: str, catalog: Catalog) -> NativeEngine:
    engine = NativeEngine()
    query = compile_query(queries(suite)[name], catalog)
    engine.create(name, query, catalog, {table: {} for table in catalog}, "auto")
    return engine


def limit(name: str, rows: np.ndarray, repetitions: int) -> tuple[float, int]:
    """Nanoseconds per event of the limit program, and its checksum."""
    compiler = find_compiler()
    assert compiler is not None, "the limit programs need a C compiler"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / name
        source = LIMITS / f"{name}.c"
        subprocess.run([*compiler.command, "-O2", "-march=native", "-o", program, source], check=True)
        data = np.int64(len(rows)).tobytes() + np.ascontiguousarray(rows, dtype=np.int64).tobytes()
        answers = [
            subprocess.run([program], input=data, capture_output=True, check=True).stdout.split()
            for _ in range(repetitions)
        ]
    return min(float(answer[0]) for answer in answers), int(answers[0][1])


def measure(name: str, case: Case, stream: Stream, repetitions: int) -> str:
    """One line of the table."""
    catalog = Catalog(statement.table for statement in parse(schema(case.suite)))
    children, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.thread_time()
    tables = set(engine_for(name, case.suite, catalog).tables())
    building = time.thread_time() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    building += after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    batches = [
        (table, canonical(rows, catalog[table]), np.ascontiguousarray(rows["_weight"].to_numpy()))
        for batch in stream.batches(BATCH)
        for table, rows in batch.items()
        if table in tables
    ]
    events = sum(batch.num_rows for _, batch, _ in batches)
    best = float("inf")
    for _ in range(repetitions):
        engine = engine_for(name, case.suite, catalog)
        engine.tables()
        start = time.thread_time()
        for table, batch, weights in batches:
            engine.apply_arrow(table, batch, weights, "tuple")
        best = min(best, time.thread_time() - start)
    ours = best / events * 1e9
    line = f"{name:5} {events:9,} events {ours:9.1f} ns/event {1e3 / ours:7.2f} M/s  build {building:5.2f} s"
    if case.rows is None:
        return line
    theirs, checksum = limit(name, case.rows(catalog, batches), repetitions)
    if case.checksum is not None:
        own = case.checksum(engine.output(name))
        assert own == checksum, f"{name}: the limit program gives {checksum}, the view {own}"
        line += "  same sums"
    return f"{line}  limit {theirs:6.1f} ns  ratio {ours / theirs:5.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.05, help="TPC-H scale factor")
    parser.add_argument("--events", type=int, default=300_000, help="events of the order book")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--queries", nargs="*", default=list(CASES), choices=CASES)
    options = parser.parse_args()
    streams: dict[str, Stream] = {}
    for name in options.queries:
        suite = CASES[name].suite
        if suite not in streams:
            streams[suite] = (
                order_book.stream(options.events, order_book.drawn(1_000))
                if suite == "finance"
                else round_robin(tpch.tables(options.scale))
            )
        print(measure(name, CASES[name], streams[suite], options.repetitions), flush=True)


if __name__ == "__main__":
    main()
