"""What the experiments with sketches share: the synthetic table, following against capturing, and mixes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sketches_harness import LONG, Database, Report, best
from viewlet.sketches import Sketch, Store

DELTAS = (10, 100, 1000)
RANGES = 400
MANY = 10_000
INSERTED = (5, 1)
"""How often a batch is inserted, unless it takes long, and one of more than ``MANY`` rows."""
WRITTEN, WRITES = 1000, 20
"""How many rows are written with and without a sketch that follows at once, and how often."""


# Data: a is the group, the others are measures whose mean grows with it.


def grouped(rows: int, groups: int, seed: int = 0, measures: int = 3) -> pa.Table:
    """Rows of the synthetic table."""
    random = np.random.default_rng(seed)
    a = random.integers(0, groups, rows)
    columns = {"a": a, "b": random.integers(0, 2000, rows)}
    for place in range(measures):
        columns["cdefghijkl"[place]] = a * 2000 // groups + random.integers(-50, 51, rows)
    return pa.table(columns)


def synthetic(
    database: Database, rows: int, groups: int, measures: int = 3, order: str | None = None
) -> Callable[[int], pa.Table]:
    """Have the synthetic table as r, and give the changes of it.

    It is loaded once for experiments that follow one another: each leaves a few thousand rows more in it.
    """
    wanted = (rows, groups, measures, order)
    if database.holds != wanted:
        database.load("r", grouped(rows, groups, measures=measures), order=order)
        database.holds = wanted
    return lambda n: grouped(n, groups, n, measures)


@dataclass
class Measured:
    """How long capturing again takes, finding the fragments alone, and following changes of each size.

    To follow is to bring a sketch up to date that was left behind by a batch. What a sketch that follows at
    once ``adds`` to a write is more: all that the batch takes longer than without it, versions included.
    CPU seconds count what a capture does on several cores. Both are known of databases in this process only.
    """

    capture: float
    light: float
    follow: dict[int, float]
    entries: int
    capture_cpu: float | None
    follow_cpu: float | None
    adds: float | None

    @property
    def ratios(self) -> dict[int, float]:
        """How many times following is quicker."""
        return {size: self.capture / seconds for size, seconds in self.follow.items()}


def measure(
    database: Database,
    text: str,
    on: str,
    changes: Callable[[int], pa.Table],
    sizes: tuple[int, ...],
    repeats: int,
    ranges: int = RANGES,
    table: str = "r",
    earlier: Measured | None = None,
    **options: Any,
) -> Measured:
    """Insert batches of each size, delete some of them, and time the sketch's part of it.

    The captures of an ``earlier`` case of the same query, kept otherwise, are not made again.
    """
    store = database.fresh_store()
    options = {"on": on, "ranges": ranges, "eager": False, **options}
    sketch = store.capture(text, maintain="incremental", **options)
    if earlier is None:
        capture, light, cpu = _captures(store, sketch, text, options, repeats, database.in_process)
    else:
        capture, light, cpu = earlier.capture, earlier.light, earlier.capture_cpu
    store.sketches[:] = [sketch]
    captures = sketch.costs.captures
    follow, follow_cpu = {}, {}
    for size in sizes:
        batch = changes(size)
        weights = [1] * INSERTED[size > MANY]
        # To delete is dear for a database without an index, and for files, which is no matter here: so once,
        # and where so much was inserted that the table would be another one.
        if size == min(sizes) or size > MANY:
            weights.append(-1)
        taken = _followed_often(store, sketch, table, batch, weights)
        follow[size], follow_cpu[size] = (min(times) for times in zip(*taken, strict=True))
    assert sketch.incremental, sketch.explain()
    assert sketch.costs.captures == captures, sketch.explain()
    own = follow_cpu.get(WRITTEN) if database.in_process else None
    adds = _added(store, sketch, database, table, changes(WRITTEN)) if database.in_process else None
    return Measured(capture, light, follow, sketch.entries(), cpu, own, adds)


def _captures(
    store: Store, sketch: Sketch, text: str, options: dict[str, Any], repeats: int, in_process: bool
) -> tuple[float, float, float | None]:
    """How long a capture takes, with what is needed to follow changes, and finding the fragments alone.

    Last come the CPU seconds of the quicker capture, those of all cores, if the database is in this process.
    """
    instrumented = sketch
    if "by operators" not in sketch.explain():
        instrumented = store.capture(text, maintain="incremental", **{**options, "keep": "operators"})
    two_pass = store.capture(text, way="two_pass", **options)
    light = store.capture(text, maintain="recapture", **options)
    capture, _, quicker = min(
        (_again(of, repeats), place, of) for place, of in enumerate((instrumented, two_pass))
    )
    cpu = None
    if in_process:
        began = time.process_time()
        quicker.recapture()
        cpu = time.process_time() - began
    return capture, min(_again(light, repeats), capture), cpu


def _followed_often(
    store: Store, sketch: Sketch, table: str, batch: pa.Table, weights: list[int]
) -> list[tuple[float, float]]:
    """The same batch with each of these weights; once inserted if that takes long, but deleted anyway."""
    taken: list[tuple[float, float]] = []
    began = time.perf_counter()
    for weight in weights:
        if not taken or weight < 0 or time.perf_counter() - began < LONG:
            taken.append(_followed(store, sketch, table, batch, weight))
    return taken


def _followed(store: Store, sketch: Sketch, table: str, batch: pa.Table, weight: int) -> tuple[float, float]:
    """How long the sketch takes to follow a batch that is inserted or deleted, and its CPU seconds."""
    store.apply({table: batch.append_column("_weight", pa.array([weight] * len(batch)))})
    began, cpu = time.perf_counter(), time.process_time()
    sketch.refresh()
    return time.perf_counter() - began, time.process_time() - cpu


def _added(store: Store, sketch: Sketch, database: Database, table: str, batch: pa.Table) -> float:
    """How much longer it takes to write a batch if a sketch follows it at once.

    Plain writes come last: to the sketch they are changes behind its back.
    """
    sketch.eager = True
    weighted = batch.append_column("_weight", pa.array([1] * len(batch)))
    followed = best(lambda: store.apply({table: weighted}), WRITES)
    assert sketch.version == store._backend.version(), sketch.explain()
    return followed - best(lambda: database.write(table, batch), WRITES)


def _again(sketch: Sketch, repeats: int) -> float:
    """How long its capture takes: the first one counts, and is repeated if it was short."""
    first = sketch.costs.capture.value
    return first if repeats == 1 or first > LONG else min(first, best(sketch.recapture, repeats - 1))


def sweep(
    report: Report,
    title: str,
    cases: dict[str, Measured],
    sizes: tuple[int, ...] = DELTAS,
    paper: Mapping[str, float] | None = None,
) -> None:
    """One row per case, one line of the plot each; beside the ratios the paper's factor, where it has one."""
    columns = ["case", "capture again, s", "fragments alone, s", *(f"follow {size}, s" for size in sizes)]
    columns += [*(f"ratio at {size}" for size in sizes), "paper's", "reached"]
    columns += ["capture again, CPU s", f"follow {WRITTEN}, CPU s", "ratio of CPU"]
    columns += [f"added to a write of {WRITTEN}, s", "ratio to that"]
    rows: list[list[Any]] = []
    for case, m in cases.items():
        ratios = [m.ratios[s] for s in sizes]
        factor = (paper or {}).get(case)
        told = ["NULL", ""] if factor is None else [factor, "yes" if min(ratios) >= factor else "lower"]
        cpu = [m.capture_cpu, m.follow_cpu, _ratio(m.capture_cpu, m.follow_cpu)]
        beside = [*cpu, m.adds, _ratio(m.capture, m.adds)]
        told += ["NULL" if number is None else number for number in beside]
        rows.append([case, m.capture, m.light, *(m.follow[s] for s in sizes), *ratios, *told])
    series = {case: [(size, m.ratios[size]) for size in sizes] for case, m in cases.items()}
    report.table(title, columns, rows, {"x": "changed rows", "y": "capture again / follow", "series": series})


def _ratio(whole: float | None, part: float | None) -> float | None:
    return None if whole is None or part is None else whole / part


class Mix:
    """Updates and queries, each query answered in three ways, one right after the other.

    So the three share their updates and whatever else the machine is doing. The time of a way is that of
    its queries and of keeping its sketch; updates cost all of them the same.
    """

    TEXT = "SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING avg(c) < 40"

    def __init__(self, database: Database) -> None:
        self.database, self.store = database, database.fresh_store()
        capture = self.store.capture
        self.anew = capture(self.TEXT, on="r.a", ranges=RANGES, eager=False, maintain="recapture")
        self.store.sketches.clear()  # the store chooses among the others
        self.own = capture(self.TEXT, on="r.a", ranges=RANGES, eager=False)
        self._captured = deepcopy(self.own.costs)
        self.seconds: dict[str, float] = {}

    def begin(self) -> None:
        """Forget what was measured so far, also by the cost model; the sketches are captured once for all."""
        self.own.refresh()
        if self.own.costs.behind:
            self.own.recapture()
        self.own.costs = deepcopy(self._captured)
        self.seconds = {"without": 0.0, "captured anew": 0.0, "by itself": 0.0}

    def run(self, updates: int, queries: int, rows: int, operations: int) -> None:
        """So many operations, after one query each way to warm up."""
        self.store.query(self.TEXT, use="never")
        self.store.query(self.TEXT, use="always")
        self.store.answer(self.TEXT, self.anew)
        for operation in range(operations):
            if operation % (updates + queries) < updates:
                self.store.apply({"r": grouped(rows, 5000, operation)})
            else:
                self._time("without", lambda: self.database.run(self.TEXT))
                self._time("captured anew", lambda: self.store.answer(self.TEXT, self.anew))
                self._time("by itself", lambda: self.store.query(self.TEXT))

    def _time(self, way: str, query: Callable[[], object]) -> None:
        began = time.perf_counter()
        query()
        self.seconds[way] += time.perf_counter() - began

    def said(self) -> str:
        """What the cost model said before most queries: it decides before each."""
        costs = self.own.costs
        return "use it" if costs.use.count > costs.full.count else "do without"

    def told(self) -> str:
        """How often the store used the sketch, and how often it found its fragments anew."""
        costs = self.own.costs
        uses = f"{costs.use.count} of {costs.use.count + costs.full.count}"
        return f"{uses}, {costs.refreshes} followed, {costs.light.count} captured"
