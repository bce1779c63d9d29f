"""How often a result can be fresh: what the suites ``finance`` and ``tpch`` share.

Two measurements per query. The *whole stream* runs through compiled triggers in batches of 10,000 events, all
effects of one event before the next, against the hand-written limit programs and DBToaster's published rates.
*At the end of the stream* every system has all but the last events and is then given those one by one, the
result read after each: the protocol of a user who wants it fresh. All must hold the same rows then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import native
import plots
import reports
from cells import Cell, measured, paced
from rivals import Make, Question
from streaming import is_known, through_pathway
from viewlet.backends.native.engine import NativeEngine
from viewlet.demo.reevaluation import same_rows
from viewlet.plan.scope import tables_of
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog, TableKind
from viewlet.sql.parse import parse
from viewlet.workloads import queries, schema, tpch
from viewlet.workloads.stream import Stream, weighted_rows

COMPILING = 20.0
CHECKED = 3
"""After so many of the last events, the rows of all systems are compared."""
RUNS = 5
"""A stream that is over soon is run so many times, and the best counts."""


def question(suite: str, name: str, static: Mapping[str, pa.Table] | None = None) -> Question:
    """A query of a suite with its tables in their order; ``static`` ones hold rows that never change."""
    held = static or {}
    given = (statement.table for statement in parse(schema(suite)))
    catalog = Catalog(replace(t, kind=TableKind.STATIC) if t.name in held else t for t in given)
    read = tables_of(compile_query(queries(suite)[name], catalog).plan)
    bags = {t: dict.fromkeys(zip(*rows.to_pydict().values(), strict=True), 1) for t, rows in held.items()}
    return Question(suite, name, queries(suite)[name], tuple(t for t in catalog if t in read), catalog, bags)


def tpch_stream(scale: float) -> tuple[Stream, dict[str, pa.Table]]:
    """All rows of TPC-H, first those of the tables that are static, as for DBToaster; and these tables."""
    tables = tpch.tables(scale)
    return tpch.round_robin(tables), {name: tables[name] for name in tpch.STATIC}


def batches_for(asked: Question, stream: Stream, size: int = native.BATCH) -> native.Batches:
    """The events of the tables that a query reads, as the engine takes them."""
    return [
        (
            table,
            native.canonical(rows, asked.catalog[table]),
            np.ascontiguousarray(rows["_weight"].to_numpy()),
        )
        for batch in stream.batches(size)
        for table, rows in batch.items()
        if table in asked.tables
    ]


def engine_for(asked: Question, strategy: str = "auto", **options: Any) -> NativeEngine:
    """A compiled engine with the one view, over tables that are empty but for static ones."""
    engine = NativeEngine(**options)
    query = compile_query(asked.text, asked.catalog)
    contents = {t: asked.static.get(t, {}) for t in asked.catalog}
    engine.create(asked.name, query, asked.catalog, contents, strategy)
    engine.tables()
    return engine


def through_triggers(asked: Question, batches: native.Batches, seconds: float) -> Cell:
    """The whole stream through the compiled code, ingest excluded, for so many CPU seconds at most.

    Memory to grow into is present, as for the limit programs; of a short stream the best of some runs counts.
    """
    best, spent, runs = Cell(0.0), 0.0, 0
    while runs < RUNS and spent < seconds / 2:
        cell = _through_triggers(asked, batches, seconds)
        assert cell.rate is not None
        best = max(best, cell, key=lambda each: each.rate or 0.0)
        spent, runs = spent + cell.events / cell.rate, runs + 1
    return best


def _through_triggers(asked: Question, batches: native.Batches, seconds: float) -> Cell:
    running = engine_for(asked)._run()  # below the boundary, which is left out here
    running.opened.present(native.PRESENT)
    moving = [part for part in batches if part[0] in running.source.tables]

    def step(number: int, start: int, stop: int) -> float:
        table, batch, weights = moving[number]
        part, own = batch.slice(start, stop - start), weights[start:stop]
        native.in_cache(part)
        own.sum()
        schema_, array = part.__arrow_c_array__()
        at = running.source.tables.index(table)
        began = time.thread_time()
        failed = running.opened.apply_arrow(at, schema_, array, own, False)
        taken = time.thread_time() - began
        assert failed is None, f"refused: {failed}"
        return taken

    return _rate(moving, step, seconds)


def from_python(
    asked: Question, batches: native.Batches, seconds: float, trigger: str = "tuple", **options: Any
) -> Cell:
    """The same from Python, everything counted."""
    engine = engine_for(asked, **options)
    moving = [part for part in batches if part[0] in engine.tables()]

    def step(number: int, start: int, stop: int) -> float:
        table, batch, weights = moving[number]
        began = time.process_time()
        engine.apply_arrow(table, batch.slice(start, stop - start), weights[start:stop], trigger)
        return time.process_time() - began

    return _rate(moving, step, seconds)


def _rate(moving: native.Batches, step: Callable[[int, int, int], float], seconds: float) -> Cell:
    lengths = [batch.num_rows for _, batch, _ in moving]
    done, spent = paced(lengths, step, seconds)
    return Cell(done / spent, done, partial=done < sum(lengths))


def at_the_end(
    make: Make,
    asked: Question,
    start: Mapping[str, pa.Table],
    last: Sequence[Any],
    seconds: float,
    wall: bool,
) -> Cell:
    """Events one by one, the result read after each."""
    system = make(asked, start)
    for table, row, weight in last[:CHECKED]:
        system.change(table, row, weight)
    answer = system.rows()
    clock: Callable[[], float] = time.perf_counter if wall else time.process_time
    done, began = 0, clock()
    for table, row, weight in last[CHECKED:]:
        system.change(table, row, weight)
        system.rows()
        done += 1
        if clock() - began > seconds:
            break
    return Cell(done / (clock() - began), done, answer=answer)


@dataclass
class Run:
    """All cells of a suite."""

    suite: str
    seconds: float
    patience: float
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)

    def measure(self, name: str, system: str, task: Callable[[], Cell]) -> None:
        """Run one cell, and say so; our own way is given time to compile."""
        own = system in ("triggers", "from Python", "viewlet")
        patience = self.patience + COMPILING if own else self.patience
        cell = measured(task, patience, waits=system == "PostgreSQL")
        self.cells[name, system] = cell
        print(f"{name:6} {system:18} {reports.shown(cell)}", flush=True)

    def whole_stream(
        self,
        name: str,
        stream: Stream,
        case: native.Case | None,
        static: Mapping[str, pa.Table] | None = None,
    ) -> None:
        """A query against its limit program, if it has one; ``static`` tables are there beforehand."""
        asked = question(self.suite, name, static)
        batches = batches_for(asked, stream)
        engine_for(asked)  # compiled once for the processes that come
        self.measure(name, "triggers", lambda: through_triggers(asked, batches, self.seconds))
        self.measure(name, "from Python", lambda: from_python(asked, batches, self.seconds))
        if case is not None:
            self.limits[name], _ = native.limit(name, case.rows(batches), 3)
            self.cells[name, "limit"] = Cell(1e9 / self.limits[name], sum(b.num_rows for _, b, _ in batches))
            if is_known(name):
                rows = case.rows(batches)
                self.measure(name, "Pathway", lambda: through_pathway(name, rows))

    def last_events(self, name: str, stream: Stream, last: int, systems: Mapping[str, Make]) -> None:
        """A query on every system; notes who disagrees with us."""
        asked = question(self.suite, name)
        start = stream.first(len(stream) - last)
        given = {table: start.changes[table] for table in asked.tables}
        events = _in_order(stream.after(len(stream) - last), asked.tables)
        for system, make in systems.items():
            wall = system == "PostgreSQL"
            self.measure(
                name,
                system,
                lambda make=make, wall=wall: at_the_end(make, asked, given, events, self.seconds, wall),
            )
        ours = self.cells[name, "viewlet"].answer
        for system in systems:
            theirs = self.cells[name, system].answer
            if ours is not None and theirs is not None and not same_rows(ours, theirs):
                self.differing.append(f"{name}: {system} and viewlet differ")

    def speed(self, anchors: Mapping[str, float]) -> float:
        """How much faster the limit programs are here than where the published rates were measured."""
        ratios = [anchors[name] / self.limits[name] for name in self.limits if name in anchors]
        return geometric_mean(ratios) if ratios else 1.0


def _in_order(stream: Stream, tables: Iterable[str]) -> list[tuple[str, tuple[Any, ...], int]]:
    """The events of some tables, row by row, in the order of the stream."""
    found = [
        (place, (table, row, weight))
        for table in tables
        for place, (row, weight) in zip(
            stream.places[table], weighted_rows(stream.changes[table]), strict=True
        )
    ]
    return [event for _, event in sorted(found, key=lambda pair: pair[0])]


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    return math.exp(sum(map(math.log, values)) / len(values))


def against_limits(run: Run, names: Sequence[str], published: Mapping[str, float], speed: float) -> list[str]:
    """The table of the whole stream, and the geometric mean against the published rates."""
    rows, ratios = [], []
    for name in names:
        own, python = run.cells[name, "triggers"], run.cells[name, "from Python"]
        limit, other = run.cells.get((name, "limit")), published.get(name)
        scaled = other * speed if other else None
        if scaled and own.rate:
            ratios.append(own.rate / scaled)
        rows.append(
            [
                name.upper(),
                reports.shown(own),
                reports.shown(python),
                reports.shown(limit) if limit else "",
                reports.times(limit.rate, own.rate) if limit else "",
                f"{reports.rate(scaled)}" if scaled else "did not finish",
                reports.times(own.rate, scaled),
            ]
        )
    columns = [
        "query",
        "triggers",
        "from Python",
        "hand-written C",
        "C / triggers",
        "DBToaster, scaled",
        "triggers / DBToaster",
    ]
    asked = [name for name in names if (name, "Pathway") in run.cells]
    for name, row in zip(names, rows, strict=True):
        if asked:
            cell = run.cells.get((name, "Pathway"))
            lead = f" ({reports.times(run.cells[name, 'triggers'].rate, cell.rate)})" if cell else ""
            row.append(reports.shown(cell) + lead if cell else "")
    columns += ["Pathway (triggers / Pathway)"] * bool(asked)
    mean = (
        [f"The triggers are faster than DBToaster by a geometric mean of {geometric_mean(ratios):.2f} times."]
        if ratios
        else []
    )
    return [*reports.table(columns, rows), *mean, ""]


def against_rivals(run: Run, names: Sequence[str], systems: Sequence[str]) -> list[str]:
    """The table of the last events, each rival with our lead over it."""
    rows = []
    for name in names:
        own, row = run.cells[name, "viewlet"], [name.upper()]
        for system in systems:
            cell = run.cells.get((name, system))
            lead = (
                f" ({reports.times(own.rate, cell.rate)})" if cell and cell.rate and cell is not own else ""
            )
            row.append(reports.shown(cell) + lead if cell else "")
        rows.append(row)
    return reports.table(["query", *systems], rows)


def write(
    run: Run,
    names: Sequence[str],
    systems: Sequence[str],
    published: Mapping[str, float],
    anchors: Mapping[str, float],
    folder: Path,
    title: str,
    words: str,
) -> None:
    """Tables, figures and a plot; refuses a run in which systems disagree."""
    speed = run.speed(anchors)
    scaled = (
        "DBToaster's rates were measured on another machine, with its generated C++. They are multiplied by "
        f"{speed:.2f} here: the speed of this machine relative to that one, by the hand-written C programs."
    )
    limited = ", ".join(f"{name} {ns:.1f} ns" for name, ns in run.limits.items())
    lines = [
        f"# {title}",
        "",
        reports.header(),
        "",
        words,
        "",
        "## The whole stream",
        "",
        "Events per CPU second. Every event takes full effect before the next one, and only events of tables "
        "that the query reads count. *Triggers* is the compiled code alone, *from Python* is everything. The "
        "columns *C / triggers* and *triggers / DBToaster* say how many times as fast the first is as the "
        "second. \\* marks a run that was stopped for its time before the end of the stream.",
        "",
        scaled,
        "",
        *against_limits(run, names, published, speed),
        "## At the end of the stream: refreshes per second",
        "",
        "Fresh results per second: after each event, the result is read. In brackets: how many times as many "
        "Viewlet delivers. All by CPU time, except PostgreSQL: its server is another process, so wall time.",
        "",
        *against_rivals(run, names, systems),
        f"Hand-written C, time per event: {limited or 'none'}.",
        *(f"**{text}**" for text in run.differing),
    ]
    figures = {
        "machine speed against the published": speed,
        "limits, ns": run.limits,
        "cells": [
            {"query": name, "system": system, **reports.plain(cell)}
            for (name, system), cell in run.cells.items()
        ],
    }
    leads = {
        system: [_lead(run, name, system) for name in names] for system in systems if system != "viewlet"
    }
    leads["DBToaster, scaled"] = [
        None
        if not published.get(name) or not run.cells[name, "triggers"].rate
        else run.cells[name, "triggers"].rate / (published[name] * speed)
        for name in names
    ]
    lines += ["![Times more refreshes per second than the rivals, by query](leads.png)", ""]
    reports.write(folder, lines, figures)
    plots.leads(folder / "leads.png", names, leads, "times more refreshes per second than")
    if run.differing:
        raise SystemExit("; ".join(run.differing))


def _lead(run: Run, name: str, system: str) -> float | None:
    own, other = run.cells[name, "viewlet"], run.cells.get((name, system))
    return own.rate / other.rate if other and own.rate and other.rate else None
