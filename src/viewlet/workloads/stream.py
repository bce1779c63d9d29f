"""Streams of changes: what happens to several tables, in one order.

A stream holds, per table, its changes as one Arrow table with the integer column ``_weight``, and the place
of each change in the whole. Cutting it into batches is slicing, so a stream replays at any batch size without
copying.

>>> r = pa.table({"a": [1, 2, 3], "_weight": [1, 1, -1]})
>>> s = pa.table({"b": [9], "_weight": [1]})
>>> stream = interleave({"r": (r, np.array([0.0, 2.0, 3.0])), "s": (s, np.array([1.0]))})
>>> [{table: rows["_weight"].to_pylist() for table, rows in batch.items()} for batch in stream.batches(2)]
[{'r': [1], 's': [1]}, {'r': [1, -1]}]
>>> list(stream.rows())[:2]
[('r', (1,), 1), ('s', (9,), 1)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from viewlet.workloads import WorkloadError
from viewlet.workloads.draws import chance, integers, uniform

WEIGHT = "_weight"
Batch: TypeAlias = dict[str, pa.Table]
Tables: TypeAlias = Mapping[str, pa.Table]
Times: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.int64]

_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Stream:
    """Changes of several tables in one order; ``places[t][i]`` is the place of change i of table t."""

    changes: Tables
    places: Mapping[str, Places]

    def __len__(self) -> int:
        return sum(len(places) for places in self.places.values())

    def batches(self, size: int) -> Iterator[Batch]:
        """Every ``size`` changes as a batch ``{table: rows with _weight}``; unchanged tables are left out."""
        for spans in self._spans(size):
            yield {table: self.changes[table].slice(start, stop - start) for table, start, stop in spans}

    def whole(self) -> Batch:
        """All changes as one batch."""
        return {table: rows for table, rows in self.changes.items() if rows.num_rows}

    def rows(self) -> Iterator[tuple[str, tuple[Any, ...], int]]:
        """One change at a time: the table, the row as Python values, the weight."""
        for spans in self._spans(_CHUNK):
            places = np.concatenate([self.places[table][start:stop] for table, start, stop in spans])
            changes = [
                (table, row, weight)
                for table, start, stop in spans
                for row, weight in weighted_rows(self.changes[table].slice(start, stop - start))
            ]
            for i in np.argsort(places):
                yield changes[i]

    def then(self, other: Stream) -> Stream:
        """This stream, and after it the other."""
        changes: dict[str, pa.Table] = dict(self.changes)
        places: dict[str, Places] = dict(self.places)
        for table, rows in other.changes.items():
            later = other.places[table] + len(self)
            if table in changes:
                rows, later = pa.concat_tables([changes[table], rows]), np.concatenate([places[table], later])
            changes[table], places[table] = rows, later
        return Stream(changes, places)

    def first(self, count: int) -> Stream:
        """The first ``count`` changes."""
        cut = {table: int(np.searchsorted(places, count)) for table, places in self.places.items()}
        return Stream(
            {table: self.changes[table].slice(0, n) for table, n in cut.items()},
            {table: self.places[table][:n] for table, n in cut.items()},
        )

    def after(self, count: int) -> Stream:
        """All but the first ``count`` changes."""
        cut = {table: int(np.searchsorted(places, count)) for table, places in self.places.items()}
        return Stream(
            {table: self.changes[table].slice(n) for table, n in cut.items()},
            {table: self.places[table][n:] - count for table, n in cut.items()},
        )

    def _spans(self, size: int) -> Iterator[list[tuple[str, int, int]]]:
        """Per batch, the tables that change and which of their changes belong to it."""
        if size < 1:
            raise WorkloadError(f"a batch holds at least one change, not {size}")
        bounds = np.arange(0, len(self) + size, size)
        cuts = {table: np.searchsorted(places, bounds).tolist() for table, places in self.places.items()}
        for i in range(len(bounds) - 1):
            yield [(table, cut[i], cut[i + 1]) for table, cut in cuts.items() if cut[i + 1] > cut[i]]


def weighted_rows(changes: pa.Table) -> Iterator[tuple[tuple[Any, ...], int]]:
    """The rows of a table of changes as Python values, each with its weight."""
    columns = [changes[name].to_pylist() for name in changes.column_names if name != WEIGHT]
    return zip(zip(*columns, strict=True), changes[WEIGHT].to_pylist(), strict=True)


def interleave(timed: Mapping[str, tuple[pa.Table, Times]]) -> Stream:
    """Put the changes of several tables into one order, by time; equal times keep the order given."""
    tables = list(timed)
    times = np.concatenate([timed[table][1] for table in tables])
    ranks = np.empty(len(times), dtype=np.int64)
    ranks[np.argsort(times, kind="stable")] = np.arange(len(times))
    changes: dict[str, pa.Table] = {}
    places: dict[str, Places] = {}
    start = 0
    for table in tables:
        rows, own = timed[table]
        place = ranks[start : start + len(own)]
        order = np.argsort(place)
        in_order = bool((order == np.arange(len(order))).all())
        changes[table] = rows if in_order else rows.take(pa.array(order))
        places[table] = place[order]
        start += len(own)
    return Stream(changes, places)


def weighted(rows: pa.Table, weights: int | NDArray[np.int64] = 1) -> pa.Table:
    """The rows as changes: the column ``_weight`` comes last."""
    column = np.broadcast_to(np.asarray(weights, dtype=np.int64), (rows.num_rows,))
    return rows.append_column(WEIGHT, pa.array(np.ascontiguousarray(column)))


def load(tables: Tables) -> Stream:
    """Insert the tables whole, one after the other."""
    return interleave(
        {t: (weighted(rows), np.full(rows.num_rows, float(i))) for i, (t, rows) in enumerate(tables.items())}
    )


def round_robin(tables: Tables) -> Stream:
    """Insert the rows of all tables, interleaved in proportion: row i of n comes at the time (i + 1/2) / n.

    Nothing is said about foreign keys: a child may come before its parent, as in the published benchmarks.
    """
    return interleave(
        {
            t: (weighted(rows), (np.arange(rows.num_rows) + 0.5) / max(rows.num_rows, 1))
            for t, rows in tables.items()
        }
    )


def churn(
    tables: Tables,
    seed: int = 0,
    *,
    deletions: float = 0.4,
    duplicates: float = 0.2,
    cancelling: float = 0.1,
) -> Stream:
    """Insert the rows in random order, with all that breaks an engine which only expects inserts.

    A share ``duplicates`` of the rows appears again, at another time or with weight 2; a share ``deletions``
    of all is deleted later (1.0: the stream ends with empty tables); a share ``cancelling`` comes and goes at
    once, so that in a batch its weights cancel. Weights never make a row's count negative. Foreign keys are
    not respected.
    """
    return interleave(
        {
            table: _lives(rows, f"{seed}/{table}", deletions, duplicates, cancelling)
            for table, rows in tables.items()
            if rows.num_rows
        }
    )


def _lives(
    rows: pa.Table, salt: str, deletions: float, duplicates: float, cancelling: float
) -> tuple[pa.Table, Times]:
    """A life is (row, birth, death, multiplicity); each gives an insertion and perhaps a deletion."""
    n = rows.num_rows
    extra = round(n * (duplicates + cancelling))
    life = np.arange(n + extra, dtype=np.int64)
    row = np.where(life < n, life, integers(0, salt + "row", life, 0, n))
    multiplicity = 1 + (chance(0, salt + "multiplicity", life, duplicates / 2)).astype(np.int64)
    birth = uniform(0, salt + "birth", life)
    death = birth + (1 - birth) * uniform(0, salt + "death", life)
    at_once = life >= n + round(n * duplicates)
    death[at_once] = birth[at_once]
    dies = at_once | chance(0, salt + "dies", life, deletions)
    taken = rows.take(pa.array(np.concatenate([row, row[dies]])))
    weights = np.concatenate([multiplicity, -multiplicity[dies]])
    return weighted(taken, weights), np.concatenate([birth, death[dies]])


def with_nulls(tables: Tables, rate: float, seed: int = 0) -> dict[str, pa.Table]:
    """The tables with a share ``rate`` of the values of every column replaced by NULL."""
    return {table: _pierced(rows, rate, f"{seed}/{table}") for table, rows in tables.items()}


def _pierced(rows: pa.Table, rate: float, salt: str) -> pa.Table:
    index = np.arange(rows.num_rows)
    columns = [
        pc.if_else(
            pa.array(chance(0, f"{salt}/{name}", index, rate)), pa.scalar(None, rows[name].type), rows[name]
        )
        for name in rows.column_names
    ]
    return pa.table(columns, names=rows.column_names)
