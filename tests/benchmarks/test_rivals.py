"""What the benchmarks compare with answers the same questions, and a measurement has an end."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from viewlet.demo.reevaluation import same_rows
from viewlet.workloads import order_book, queries

pytest.importorskip("duckdb")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LAST = 12


@pytest.fixture(scope="module", autouse=True)
def importable() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    tests = sys.modules.pop("native", None)  # the folder of tests has the name of a benchmark
    yield
    sys.path.remove(str(BENCHMARKS))
    sys.modules.pop("native", None)
    if tests is not None:
        sys.modules["native"] = tests


@pytest.mark.parametrize("query", list(queries("finance")))
def test_rivals_agree_after_every_event(query: str) -> None:
    import rates
    import rivals

    asked = rates.question("finance", query)
    stream = order_book.stream(250, order_book.drawn(40), tick=50, deletions=0.4, lifetime=80, seed=3)
    start = stream.first(len(stream) - LAST).changes
    makes = [rivals.DuckDB, rivals.NumPy] + [rivals.SQLite] * (query not in ("mst", "axf"))
    if query in rivals.REWRITTEN:
        makes.append(partial(rivals.DuckDB, text=rivals.REWRITTEN[query]))
    first, *others = (make(asked, start) for make in makes)
    for table, row, weight in rates._in_order(stream.after(len(stream) - LAST), asked.tables):
        for system in (first, *others):
            system.change(table, row, weight)
        for system in others:
            assert same_rows(first.rows(), system.rows()), type(system)


def test_batches_are_the_events_in_them() -> None:
    import rates
    import rivals

    asked = rates.question("finance", "bsv")
    stream = order_book.stream(300, order_book.drawn(20), deletions=0.4, lifetime=30, seed=5)
    whole = rivals.DuckDB(asked, stream.changes).rows()
    for make in (rivals.DuckDB, rivals.SQLite):
        system = make(asked, {table: rows.slice(0, 0) for table, rows in stream.changes.items()})
        for batch in stream.batches(50):
            system.apply({table: rows for table, rows in batch.items() if table in asked.tables})
        assert same_rows(whole, system.rows())


def test_a_measurement_has_an_end() -> None:
    from cells import Cell, measured

    def forever() -> Cell:
        while True:
            pass

    def wrong() -> Cell:
        raise ValueError("no such query")

    assert measured(lambda: Cell(rate=2.0, events=3), 5) == Cell(rate=2.0, events=3)
    assert measured(wrong, 5).failed == "ValueError: no such query"
    began = time.process_time()
    assert measured(forever, 0.3).failed == "did not finish in 0 s"
    assert measured(lambda: Cell(events=int(time.sleep(20) or 0)), 0.3, waits=True).rate is None
    assert time.process_time() - began < 5


def test_a_slow_system_is_stopped_in_time_and_a_fast_one_is_asked_for_much() -> None:
    from cells import paced

    parts: list[tuple[int, int, int]] = []

    def fast(batch: int, start: int, stop: int) -> float:
        parts.append((batch, start, stop))
        return 1e-6

    done, spent = paced([1_000, 1_000], fast, 1.0)
    assert (done, round(spent * 1e6)) == (2_000, len(parts))
    assert [stop - start for _, start, stop in parts[:3]] == [64, 256, 680]
    done, spent = paced([1_000], lambda batch, start, stop: 0.2 * (stop - start), 1.0)
    assert (done, round(spent, 1)) == (64, 12.8)


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.parametrize("suite", ["finance", "tpch", "batch", "scale", "memory"])
def test_a_suite_runs(suite: str, tmp_path: Path) -> None:
    import subprocess

    query = "vwap" if suite == "finance" else "q06"
    command = [sys.executable, BENCHMARKS / f"{suite}.py", "--quick", "--queries", query, "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert query.upper() in (tmp_path / "README.md").read_text()
    assert (tmp_path / "figures.json").exists()
