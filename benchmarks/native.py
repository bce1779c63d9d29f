"""Compiled triggers against hand-written C: time per event of the same stream, in one run.

    python benchmarks/native.py [--quick] [--scale 0.05] [--events 300000] [--queries q01 ...] [--out FOLDER]

Times are CPU nanoseconds per event, the smallest of a few repetitions. Events come as Arrow batches of 10,000
rows with all effects of each row before the next (``trigger="tuple"``).

``ns``      in the trigger's C code alone, a batch being in the cache as if it had just been made: this is
            compared with the limit programs of ``benchmarks/limits``, whose rows are integers in memory.
            Both have touched memory for their state before the clock starts; tables of ours still grow in it,
            those of the limits have their final size from the beginning
``arrow``   from Python through ``NativeEngine.apply_arrow``, everything counted
``build``   creating the view with an empty cache: Python's passes, and the compiler; ``warm`` with a full one
``bytes``   of all records, per entry

Where both give the same sums in the end, their checksums are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import reports
from viewlet.backends.native.build import find_compiler
from viewlet.backends.native.engine import NativeEngine
from viewlet.backends.native.library import bridge
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog, Table
from viewlet.sql.parse import parse
from viewlet.values import arrow_type
from viewlet.workloads import order_book, queries, schema, tpch
from viewlet.workloads.stream import Stream, round_robin

LIMITS = Path(__file__).parent / "limits"
RESULTS = reports.results("native")
BATCH = 10_000
PRESENT = 128 << 20
"""Bytes of memory that a program has before the clock starts, as the limit programs have theirs."""

Batches = list[tuple[str, pa.RecordBatch, Any]]


@dataclass(frozen=True)
class Case:
    """A query with the rows that its limit program wants and what that should answer."""

    suite: str
    rows: Callable[[Batches], np.ndarray]
    checksum: Callable[[Iterable[tuple[Any, ...]]], int] | None


@dataclass(frozen=True)
class Figures:
    """One line of the table."""

    query: str
    events: int
    ns: float
    limit: float
    ratio: float
    checked: bool
    arrow: float
    build: float
    warm: float
    entries: int
    bytes: float


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


def columns_of(table: str, *names: str) -> Callable[[Batches], np.ndarray]:
    """Rows of a limit program: the weight, then columns of one table."""

    def rows(batches: Batches) -> np.ndarray:
        parts = [
            np.column_stack([weights, *(integers(batch, name) for name in names)])
            for own, batch, weights in batches
            if own == table
        ]
        return np.concatenate(parts)

    return rows


def tables_of(
    width: int, **columns: Callable[[pa.RecordBatch], list[np.ndarray]]
) -> Callable[..., np.ndarray]:
    """Rows of a limit program: the number of the table, the weight, then that table's columns, padded."""

    def rows(batches: Batches) -> np.ndarray:
        parts = []
        for own, batch, weights in batches:
            zero = np.zeros(batch.num_rows, np.int64)
            found = [zero + list(columns).index(own), weights, *columns[own](batch)]
            parts.append(np.column_stack([*found, *[zero] * (width - len(found))]))
        return np.concatenate(parts)

    return rows


def picked(*names: str) -> Callable[[pa.RecordBatch], list[np.ndarray]]:
    """Columns as integers."""
    return lambda batch: [integers(batch, name) for name in names]


def q03_customer(batch: pa.RecordBatch) -> list[np.ndarray]:
    building = pc.equal(batch["c_mktsegment"], "BUILDING").to_numpy(zero_copy_only=False)
    return [integers(batch, "c_custkey"), building.astype(np.int64)]


def q17_part(batch: pa.RecordBatch) -> list[np.ndarray]:
    chosen = pc.and_(pc.equal(batch["p_brand"], "Brand#23"), pc.equal(batch["p_container"], "MED BOX"))
    return [integers(batch, "p_partkey"), chosen.to_numpy(zero_copy_only=False).astype(np.int64)]


Q01 = ("l_shipdate", "l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax")
CASES = {
    "bsv": Case(
        "finance",
        columns_of("bids", "broker_id", "volume", "price"),
        lambda rows: sum(r[1] // 10 for r in rows),
    ),
    "q01": Case("tpch", columns_of("lineitem", *Q01), lambda rows: sum(r[5] + r[9] for r in rows)),
    "q03": Case(
        "tpch",
        tables_of(
            6,
            customer=q03_customer,
            orders=picked("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"),
            lineitem=picked("l_orderkey", "l_shipdate", "l_extendedprice", "l_discount"),
        ),
        None,  # the view is cut to ten rows
    ),
    "q06": Case(
        "tpch",
        columns_of("lineitem", "l_shipdate", "l_discount", "l_quantity", "l_extendedprice"),
        lambda rows: sum(r[0] for r in rows),
    ),
    "q17": Case(
        "tpch",
        tables_of(5, part=q17_part, lineitem=picked("l_partkey", "l_quantity", "l_extendedprice")),
        None,  # the view divides by 7
    ),
    "q18": Case(
        "tpch",
        tables_of(
            6,
            customer=picked("c_custkey", "c_custkey"),
            orders=picked("o_orderkey", "o_custkey", "o_orderdate", "o_totalprice"),
            lineitem=picked("l_orderkey", "l_quantity"),
        ),
        None,  # the view is cut to a hundred rows
    ),
}


def engine_for(name: str, suite: str, catalog: Catalog) -> NativeEngine:
    """An engine with one view, compiled."""
    engine = NativeEngine()
    query = compile_query(queries(suite)[name], catalog)
    engine.create(name, query, catalog, {table: {} for table in catalog}, "auto")
    engine.tables()
    return engine


def building(make: Callable[[], object]) -> float:
    """CPU seconds of a call and of the compiler that it runs."""

    def spent() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.thread_time() + children.ru_utime + children.ru_stime

    start = spent()
    make()
    return spent() - start


def in_cache(batch: pa.RecordBatch) -> None:
    """Read a batch, as whoever made it would just have written it."""
    for column in batch.columns:
        for buffer in column.buffers():
            if buffer is not None:
                np.frombuffer(buffer, dtype=np.uint8).max()


def in_triggers(engine: NativeEngine, batches: Batches) -> float:
    """Seconds in the compiled code alone."""
    running = engine._run()  # below the boundary, which is left out here
    running.opened.present(PRESENT)
    seconds = 0.0
    for table, batch, weights in batches:
        in_cache(batch)
        weights.sum()
        schema_, array = batch.__arrow_c_array__()
        number = running.source.tables.index(table)
        start = time.thread_time()
        failed = running.opened.apply_arrow(number, schema_, array, weights, False)
        seconds += time.thread_time() - start
        assert failed is None, f"table {table} was refused: {failed}"
    return seconds


def end_to_end(engine: NativeEngine, batches: Batches) -> float:
    """Seconds from Python."""
    start = time.thread_time()
    for table, batch, weights in batches:
        engine.apply_arrow(table, batch, weights, "tuple")
    return time.thread_time() - start


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


def measure(name: str, case: Case, stream: Stream, repetitions: int) -> Figures:
    """Everything about one query."""
    catalog = Catalog(statement.table for statement in parse(schema(case.suite)))
    bridge()  # compiled once for all programs, and not the view's to pay for
    build = building(lambda: engine_for(name, case.suite, catalog))
    warm = building(lambda: engine_for(name, case.suite, catalog))
    tables = set(engine_for(name, case.suite, catalog).tables())
    batches = [
        (table, canonical(rows, catalog[table]), np.ascontiguousarray(rows["_weight"].to_numpy()))
        for batch in stream.batches(BATCH)
        for table, rows in batch.items()
        if table in tables
    ]
    events = sum(batch.num_rows for _, batch, _ in batches)

    def fresh() -> NativeEngine:
        return engine_for(name, case.suite, catalog)

    ours = min(in_triggers(fresh(), batches) for _ in range(repetitions)) / events * 1e9
    engine = fresh()
    arrow = events / min(end_to_end(e, batches) for e in (engine, *(fresh() for _ in range(repetitions - 1))))
    theirs, checksum = limit(name, case.rows(batches), repetitions)
    if case.checksum is not None:
        own = case.checksum(engine.output(name))
        assert own == checksum, f"{name}: the limit program gives {checksum}, the view {own}"
    stats = engine.stats()
    entries, size = sum(s.records for s in stats), sum(s.bytes for s in stats)
    return Figures(
        name,
        events,
        round(ours, 2),
        theirs,
        round(ours / theirs, 2),
        case.checksum is not None,
        round(arrow / 1e6, 2),
        round(build, 3),
        round(warm, 3),
        entries,
        round(size / max(entries, 1), 1),
    )


def one_tuple(rounds: int) -> float:
    """Nanoseconds for one row through a lane and the value of a view after it."""
    catalog = Catalog(
        statement.table for statement in parse("CREATE STREAM bids (price BIGINT, volume BIGINT)")
    )
    engine = NativeEngine()
    query = compile_query("SELECT sum(price * volume) FROM bids", catalog)
    engine.create("total", query, catalog, {"bids": {}}, "auto")
    lane, best = engine.lane("bids", 1), float("inf")
    for _ in range(5):
        start = time.thread_time()
        for i in range(rounds):
            lane(i, 3)
            engine.value("total")
        best = min(best, time.thread_time() - start)
    return best / rounds * 1e9


def show(figures: Figures) -> str:
    """A row of the printed table."""
    f = figures
    return (
        f"{f.query:5} {f.events:9,} {f.ns:8.1f} ns {f.limit:7.1f} ns {f.ratio:6.1f} x "
        f"{'same sums' if f.checked else '':9} {f.arrow:7.2f} M/s {f.build:6.2f} s {1e3 * f.warm:6.0f} ms "
        f"{f.bytes:7.1f} B"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short stream, one repetition")
    parser.add_argument("--scale", type=float, default=0.05, help="TPC-H scale factor")
    parser.add_argument("--events", type=int, default=300_000, help="events of the order book")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--queries", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.quick:
        options.scale, options.events, options.repetitions = 0.01, 50_000, 1
    streams: dict[str, Stream] = {}
    found: list[Figures] = []
    print("query    events  trigger      limit     ratio            arrow     build    warm  per entry")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["VIEWLET_CACHE"] = cache
        for name in options.queries:
            suite = CASES[name].suite
            if suite not in streams:
                streams[suite] = (
                    order_book.stream(options.events, order_book.drawn(1_000))
                    if suite == "finance"
                    else round_robin(tpch.tables(options.scale))
                )
            found.append(measure(name, CASES[name], streams[suite], options.repetitions))
            print(show(found[-1]), flush=True)
        lane = one_tuple(2_000 if options.quick else 50_000)
    print(f"one tuple in and the value out: {lane:.0f} ns")
    options.out.mkdir(parents=True, exist_ok=True)
    report = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "scale": options.scale,
        "order_book_events": options.events,
        "one_tuple_ns": round(lane, 1),
        "queries": [asdict(figures) for figures in found],
    }
    (options.out / "native.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
