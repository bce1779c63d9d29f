"""Systems that are asked for a fresh result after every event: each holds the tables, and one query.

Viewlet keeps the result; the others run the query again. A rival is given rows to begin with, then events one
by one (a table, a row, and whether it comes or goes) or in batches. Rows that go are named by a key column,
as one would write the DELETE.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import sqlglot

import viewlet
from viewlet.sql.catalog import Catalog
from viewlet.workloads import schema

Rows = list[tuple[Any, ...]]
GIVEN_UP = "10s"
KEYS = {"finance": "id"}
"""The column that names a row of a suite whose rows go."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query of a suite, the tables that it reads, its catalog, and the rows of tables that never change."""

    suite: str
    name: str
    text: str
    tables: tuple[str, ...]
    catalog: Catalog
    static: Mapping[str, dict[tuple[Any, ...], int]] = field(default_factory=dict)

    def columns(self, table: str) -> tuple[str, ...]:
        """The columns of a table."""
        return tuple(self.catalog[table].column_names)

    def in_dialect(self, dialect: str) -> str:
        """The query as another system reads it."""
        return sqlglot.transpile(self.text.strip().rstrip(";"), read="spark", write=dialect)[0]


Start = Mapping[str, pa.Table]


class Rival(Protocol):
    """Holds tables and answers one query."""

    def change(self, table: str, row: tuple[Any, ...], weight: int) -> None:
        """A row comes (1) or goes (-1)."""

    def apply(self, batch: Start) -> None:
        """Changes of several tables, with ``_weight``."""

    def rows(self) -> Rows:
        """The result, fresh."""


Make = Callable[[Question, Start], Rival]


class Kept:
    """A database of our own, by one of its strategies."""

    def __init__(self, question: Question, start: Start, strategy: str = "auto") -> None:
        db = viewlet.connect(strategy=strategy)
        db.execute(schema(question.suite))
        db.apply(dict(start))
        db.execute(f"CREATE MATERIALIZED VIEW result AS {question.text}")
        self._hold(db, question)

    def _hold(self, db: viewlet.Database, question: Question) -> None:
        self._db = db
        self._tables = {name: db.table(name) for name in question.tables}
        self._view = db.view("result")

    def change(self, table: str, row: tuple[Any, ...], weight: int) -> None:
        handle = self._tables[table]
        (handle.add if weight > 0 else handle.remove)(*row)

    def apply(self, batch: Start) -> None:
        self._db.apply(dict(batch))

    def rows(self) -> Rows:
        return self._view.rows()


class Streamed(Kept):
    """The same over streams: only what the view needs is kept."""

    def __init__(self, question: Question, start: Start) -> None:
        db = viewlet.connect()
        db.execute(schema(question.suite).replace("CREATE TABLE", "CREATE STREAM"))
        db.execute(f"CREATE MATERIALIZED VIEW result AS {question.text}")
        db.apply(dict(start))
        self._hold(db, question)


class DuckDB:
    """One thread, so that its CPU time compares."""

    def __init__(self, question: Question, start: Start, text: str | None = None) -> None:
        import duckdb

        self._question, self._connection = question, duckdb.connect()
        self._text = text or question.in_dialect("duckdb")
        self._connection.execute("SET threads = 1")
        for table in question.tables:
            self._connection.register("rows_", _net(start[table], question))
            self._connection.execute(f"CREATE TABLE {table} AS SELECT * FROM rows_")

    def apply(self, batch: Start) -> None:
        for table, changes in batch.items():
            coming, going = _parted(changes, self._question)
            self._connection.register("rows_", coming)
            self._connection.execute(f"INSERT INTO {table} SELECT * FROM rows_")
            if going.num_rows:
                key = KEYS[self._question.suite]
                self._connection.register("rows_", going)
                self._connection.execute(f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM rows_)")

    def change(self, table: str, row: tuple[Any, ...], weight: int) -> None:
        self._connection.execute(*_statement(self._question, table, row, weight, "?"))

    def rows(self) -> Rows:
        return self._connection.execute(self._text).fetchall()


class SQLite:
    """In memory, with an index on what names a row."""

    def __init__(self, question: Question, start: Start) -> None:
        self._question, self._connection = question, sqlite3.connect(":memory:")
        self._text = question.in_dialect("sqlite")
        for table in question.tables:
            columns = question.columns(table)
            self._connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            self._connection.execute(f"CREATE INDEX {table}_key ON {table} ({KEYS[question.suite]})")
            self._insert(table, _net(start[table], question))

    def _insert(self, table: str, rows: pa.Table) -> None:
        columns = rows.select(list(self._question.columns(table))).to_pydict()
        holes = ", ".join("?" * len(columns))
        self._connection.executemany(
            f"INSERT INTO {table} VALUES ({holes})", zip(*columns.values(), strict=True)
        )

    def apply(self, batch: Start) -> None:
        for table, changes in batch.items():
            coming, going = _parted(changes, self._question)
            self._insert(table, coming)
            key = KEYS[self._question.suite]
            keys = [(value,) for value in going[key].to_pylist()]
            self._connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", keys)

    def change(self, table: str, row: tuple[Any, ...], weight: int) -> None:
        self._connection.execute(*_statement(self._question, table, row, weight, "?"))

    def rows(self) -> Rows:
        return self._connection.execute(self._text).fetchall()


class PostgreSQL:
    """A server on the same machine, analyzed, with an index on what names a row."""

    def __init__(self, question: Question, start: Start, address: str) -> None:
        import psycopg

        self._question = question
        self._text = question.in_dialect("postgres")
        self._connection = psycopg.connect(address, autocommit=True)
        run = self._connection.execute
        run(f"SET statement_timeout = '{GIVEN_UP}'")  # the server would go on when its client is given up
        for table in question.tables:
            rows = _net(start[table], question)
            columns = (f"{field.name} {_postgres_type(field.type)}" for field in rows.schema)
            run(f"DROP TABLE IF EXISTS {table}")
            run(f"CREATE TABLE {table} ({', '.join(columns)})")
            self._copy(table, rows)
            run(f"CREATE INDEX ON {table} ({KEYS.get(question.suite, question.columns(table)[0])})")
        run("ANALYZE")

    def _copy(self, table: str, rows: pa.Table) -> None:
        import pyarrow.csv

        sink = pa.BufferOutputStream()
        columns = list(self._question.columns(table))
        pyarrow.csv.write_csv(rows.select(columns), sink, pyarrow.csv.WriteOptions(include_header=False))
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)") as out:
            out.write(sink.getvalue().to_pybytes())

    def apply(self, batch: Start) -> None:
        for table, changes in batch.items():
            coming, going = _parted(changes, self._question)
            self._copy(table, coming)
            if going.num_rows:
                key = KEYS[self._question.suite]
                gone = going[key].to_pylist()
                self._connection.execute(f"DELETE FROM {table} WHERE {key} = ANY (%s)", (gone,))

    def change(self, table: str, row: tuple[Any, ...], weight: int) -> None:
        self._connection.execute(*_statement(self._question, table, row, weight, "%s"))

    def rows(self) -> Rows:
        return list(self._connection.execute(self._text).fetchall())


class Refreshed(PostgreSQL):
    """The same with a materialized view, refreshed after each batch."""

    def __init__(self, question: Question, start: Start, address: str) -> None:
        import psycopg

        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("DROP MATERIALIZED VIEW IF EXISTS result")
        super().__init__(question, start, address)
        self._connection.execute(f"CREATE MATERIALIZED VIEW result AS {self._text}")
        self._text = "SELECT * FROM result"

    def apply(self, batch: Start) -> None:
        with self._connection.transaction():
            super().apply(batch)
            self._connection.execute("REFRESH MATERIALIZED VIEW result")


def _postgres_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"NUMERIC({kind.precision}, {kind.scale})"
    if pa.types.is_date(kind):
        return "DATE"
    if pa.types.is_floating(kind):
        return "DOUBLE PRECISION"
    return "BIGINT" if pa.types.is_integer(kind) else "TEXT"


def _statement(
    question: Question, table: str, row: tuple[Any, ...], weight: int, hole: str
) -> tuple[str, tuple[Any, ...]]:
    """The INSERT or DELETE of one row, with its parameters."""
    if weight > 0:
        return f"INSERT INTO {table} VALUES ({', '.join([hole] * len(row))})", row
    key = KEYS[question.suite]
    return f"DELETE FROM {table} WHERE {key} = {hole}", (row[question.columns(table).index(key)],)


def _parted(changes: pa.Table, question: Question) -> tuple[pa.Table, pa.Table]:
    """The rows that come and the rows that go; one that does both within a batch does neither."""
    rows, weights = changes.drop(["_weight"]), changes["_weight"].to_numpy()
    coming, going = rows.filter(pa.array(weights > 0)), rows.filter(pa.array(weights < 0))
    if not going.num_rows:
        return coming, going
    key = KEYS[question.suite]
    here, gone = coming[key].to_numpy(), going[key].to_numpy()
    return coming.filter(pa.array(~np.isin(here, gone))), going.filter(pa.array(~np.isin(gone, here)))


def _net(changes: pa.Table, question: Question) -> pa.Table:
    """The rows that are there after the first changes of a stream."""
    return _parted(changes, question)[0]


# The finance queries, as an expert would recompute them.


class NumPy:
    """The live orders as arrays of their columns; a result is recomputed with sorts and cumulated sums."""

    ANSWERED = ("axf", "bsp", "bsv", "mst", "psp", "vwap")

    def __init__(self, question: Question, start: Start) -> None:
        self._answer = getattr(self, f"_{question.name}")
        self._sides: dict[str, tuple[np.ndarray, list[int], dict[int, int]]] = {}
        for table in question.tables:
            rows = _net(start[table], question)
            columns = np.array([rows[name].to_numpy() for name in question.columns(table)])
            room = np.zeros((len(columns), 2 * columns.shape[1] + 1_000), np.int64)
            room[:, : columns.shape[1]] = columns
            places = {int(key): i for i, key in enumerate(columns[1])}
            self._sides[table] = (room, [columns.shape[1]], places)

    def change(self, table: str, row: tuple[Any, ...], weight: int) -> None:
        room, (used,), places = self._sides[table]
        if weight > 0:
            room[:, used] = row
            places[row[1]] = used
            self._sides[table][1][0] = used + 1
            return
        gap, last = places.pop(row[1]), used - 1
        if gap != last:  # the last one moves into the gap
            room[:, gap] = room[:, last]
            places[int(room[1, last])] = gap
        self._sides[table][1][0] = last

    def rows(self) -> Rows:
        return self._answer()

    def _side(self, table: str) -> np.ndarray:
        room, (used,), _ = self._sides[table]
        return room[:, :used]

    def _top(self, table: str) -> np.ndarray:
        """The orders in the top quarter of a side by volume, without its best price: above it is NULL."""
        side = self._side(table)
        by_price = np.bincount(side[4], side[3])
        above = by_price.sum() - np.cumsum(by_price)
        chosen = (0.25 * by_price.sum() > above) & (np.arange(len(by_price)) < side[4].max())
        return side[:, chosen[side[4]]]

    def _vwap(self) -> Rows:
        top = self._top("bids")
        return [(int((top[3] * top[4]).sum()) if top.shape[1] else None,)]

    def _mst(self) -> Rows:
        bids, asks = self._top("bids"), self._top("asks")
        number, turnover = asks.shape[1], int((asks[3] * asks[4]).sum())
        counts = np.bincount(bids[2])
        own = np.bincount(bids[2], bids[3] * bids[4])
        found = np.flatnonzero(counts) if number else ()
        return [(int(b), int(counts[b]) * turnover - number * int(own[b])) for b in found]

    def _psp(self) -> Rows:
        sides = (self._side("bids"), self._side("asks"))
        bids, asks = (side[4][side[3] > 0.0001 * side[3].sum()] for side in sides)
        pairs = len(bids) * len(asks)
        return [(int(asks.sum()) * len(bids) - int(bids.sum()) * len(asks) if pairs else None,)]

    def _bsv(self) -> Rows:
        bids = self._side("bids")
        own = np.bincount(bids[2], bids[3] * bids[4])
        return [(int(b), own[b] * own[b] * 0.5) for b in np.flatnonzero(np.bincount(bids[2]))]

    def _bsp(self) -> Rows:
        found = []
        bids = self._side("bids")
        for broker in np.unique(bids[2]):
            own = bids[:, bids[2] == broker]
            turnover = (own[3] * own[4])[np.argsort(own[0])]
            before = np.arange(len(turnover))
            earlier = np.cumsum(turnover) - turnover
            if len(turnover) > 1:
                found.append((int(broker), int((turnover * before - earlier).sum())))
        return found

    def _axf(self) -> Rows:
        found = []
        bids, asks = self._side("bids"), self._side("asks")
        for broker in np.intersect1d(bids[2], asks[2]):
            bid, ask = (side[:, side[2] == broker] for side in (bids, asks))
            ask = ask[:, np.argsort(ask[4])]
            volumes = np.concatenate([[0], np.cumsum(ask[3])])
            low = np.searchsorted(ask[4], bid[4] - 1_000, "left")
            high = np.searchsorted(ask[4], bid[4] + 1_000, "right")
            number = low + ask.shape[1] - high
            volume = volumes[low] + volumes[-1] - volumes[high]
            if number.sum():
                found.append((int(broker), int((volume - number * bid[3]).sum())))
        return found


REWRITTEN = {
    "vwap": """
        SELECT SUM(price * v) FROM (
            SELECT price, SUM(volume) AS v, (SELECT SUM(volume) FROM bids) AS total,
                   SUM(SUM(volume)) OVER (ORDER BY price DESC
                                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
            FROM bids GROUP BY price)
        WHERE 0.25 * total > above""",
    "mst": """
        WITH orders AS (SELECT 0 AS side, * FROM bids UNION ALL SELECT 1, * FROM asks),
             ranked AS (SELECT *, SUM(volume) OVER (PARTITION BY side) AS total,
                            SUM(volume) OVER (PARTITION BY side ORDER BY price DESC) AS upto,
                            SUM(volume) OVER (PARTITION BY side, price) AS own,
                            MAX(price) OVER (PARTITION BY side) AS best FROM orders),
             top AS (SELECT * FROM ranked WHERE 0.25 * total > upto - own AND price < best),
             asked AS (SELECT COUNT(*) AS n, SUM(price * volume) AS turnover FROM top WHERE side = 1)
        SELECT broker_id, COUNT(*) * ANY_VALUE(turnover) - ANY_VALUE(n) * SUM(price * volume)
        FROM top, asked WHERE side = 0 AND n > 0 GROUP BY broker_id""",
    "psp": """
        WITH b AS (SELECT COUNT(*) AS n, SUM(price) AS p FROM bids
                   WHERE volume > 0.0001 * (SELECT SUM(volume) FROM bids)),
             a AS (SELECT COUNT(*) AS n, SUM(price) AS p FROM asks
                   WHERE volume > 0.0001 * (SELECT SUM(volume) FROM asks))
        SELECT a.p * b.n - b.p * a.n FROM a, b""",
    "bsv": """
        SELECT broker_id, s * s * 0.5 FROM (
            SELECT broker_id, SUM(volume * price) AS s FROM bids GROUP BY broker_id)""",
    "bsp": """
        SELECT broker_id, SUM(v * before - coalesce(earlier, 0)) FROM (
            SELECT broker_id, volume * price AS v,
                   ROW_NUMBER() OVER (PARTITION BY broker_id ORDER BY t) - 1 AS before,
                   SUM(volume * price) OVER (PARTITION BY broker_id ORDER BY t
                                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier
            FROM bids) GROUP BY broker_id HAVING COUNT(*) > 1""",
}
"""The same results as one would write them for DuckDB: window functions in place of nested queries."""
