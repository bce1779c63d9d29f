"""PostgreSQL tables, changed by anyone.

Triggers write every change into a log beside the table, with the transaction that made it. A version is a
snapshot: the changes that a sketch has not seen are those of transactions that are visible now and were not
visible in the sketch's snapshot, whatever order they committed in. A query and its sketch are read in one
REPEATABLE READ transaction, so that no change comes between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from sqlglot import exp

from viewlet.backends.base import Change
from viewlet.core.types import BIGINT, Column, Kind, Type, Value
from viewlet.errors import BackendError
from viewlet.sketches.backends import postgres_log as log
from viewlet.sketches.backends.base import Version, catalog_of, missing_rows, weighted_batch
from viewlet.sketches.backends.postgres_lines import as_lines, has_lines, read_lines
from viewlet.sketches.cost import Skipping
from viewlet.sketches.errors import SketchError
from viewlet.sketches.lineage import by_fragment
from viewlet.sketches.operators.base import Row
from viewlet.sketches.partition import NULL_FRAGMENT, Partition
from viewlet.sketches.plan_to_sql import literal, type_to_sql
from viewlet.sketches.scans import WEIGHT
from viewlet.sketches.use import in_ranges
from viewlet.sql.catalog import Catalog, Table
from viewlet.values import read_column

SAMPLE = 200_000
LINES, FEW = 5_000, 500_000
"""So many rows come as one value; of fewer changes than the second number all: a value has 1 GB at most."""


class Postgres:
    """A psycopg connection."""

    dialect = "postgres"
    text_is_bytes = False
    small = 20_000
    large = 100_000

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._nested = False
        self._described: object = None
        self._catalog = Catalog()
        self._version: Version = None
        self._unseen: dict[str, str] = {}
        self._copied: set[str] = set()
        self._few = True
        with self.snapshot():
            for statement in log.TABLES:
                self._run(statement)

    def _run(self, text: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(text, values or None)

    def _fetch(self, text: str, values: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self._run(text, values).fetchall()
        return rows

    # Reading.

    def catalog(self) -> Catalog:
        """The tables of the current schema whose columns have types that Viewlet knows."""
        with self.snapshot():
            found = self._fetch(
                "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull "
                "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
                "WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace "
                "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum"
            )
            keys = self._fetch(
                "SELECT i.indrelid::regclass::text, array_agg(a.attname ORDER BY a.attnum) FROM pg_index i "
                "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
                "WHERE i.indisprimary GROUP BY 1"
            )
        described = (found, keys)
        if described != self._described:
            self._described, self._catalog = described, catalog_of(found, dict(keys), self.dialect)
        return self._catalog

    def described(self, name: str) -> Table:
        """From the catalog."""
        return self.catalog()[name]

    def table(self, name: str) -> exp.Table:
        """The table as it is."""
        return exp.to_table(name)

    def staged(self, name: str) -> exp.Subquery:
        """What the sketch has not seen of the log."""
        return exp.select("*").from_(log.copy_of(name)).subquery(f"staged_{name}")

    def condition(self, partition: Partition, fragments: frozenset[int]) -> exp.Expr:
        """An OR of ranges: index scans, combined as bitmaps."""
        return in_ranges(partition, fragments, _attribute(partition))

    def reduced(self, restrictions: Sequence[tuple[Partition, frozenset[int]]]) -> exp.Table | None:
        """The table itself."""
        return None

    def skipping(self, partition: Partition, fragments: frozenset[int]) -> Skipping:
        """By an index on the column and by how far the table is stored in its order."""
        kept = len(fragments) / partition.size
        with self.snapshot():
            ((indexed,),) = self._fetch(
                "SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
                "AND a.attnum = i.indkey[0] WHERE i.indrelid = %s::regclass AND a.attname = %s",
                [partition.table, partition.column],
            )
            known = self._fetch(
                "SELECT correlation FROM pg_stats WHERE schemaname = current_schema() "
                "AND tablename = %s AND attname = %s",
                [partition.table, partition.column],
            )
        order = abs(known[0][0] or 0.0) if known else 0.0
        if not indexed:
            return Skipping(kept, 1.0, 0.02 * len(partition.intervals(fragments)))
        # A page holds some hundred rows: without order, five times the kept share of pages or more is read.
        return Skipping(kept, kept + (1 - order * order) * min(1.0, 5 * kept), 0.1)

    def mark(self, partition: Partition) -> tuple[str, Type]:
        """The server searches among the bounds."""
        return by_fragment(partition)

    def fragment(self, partition: Partition) -> exp.Expr:
        """``width_bucket`` over an array of bounds is a binary search; text compares byte by byte."""
        bounds: exp.Expr = exp.Array(
            expressions=[literal(bound, partition.type) for bound in partition.bounds]
        )
        array = exp.cast(
            bounds, exp.DataType.build(f"{type_to_sql(partition.type).sql('postgres')}[]", "postgres")
        )
        return exp.Coalesce(
            this=exp.Anonymous(this="width_bucket", expressions=[_attribute(partition), array]),
            expressions=[exp.Literal.number(NULL_FRAGMENT)],
        )

    staged_fragment = fragment

    def sql(self, query: exp.Query) -> str:
        """The query in PostgreSQL's SQL; equality of NULLs in a form that it can hash."""
        return query.transform(_hashable).sql("postgres")

    def run(self, text: str) -> pa.Table:
        """The result of a query."""
        with self.snapshot():
            self._copy_unseen(text)
            cursor = self._run(text)
            names = [column.name for column in cursor.description]
            rows = cursor.fetchall()
        columns = list(zip(*rows, strict=True)) or [() for _ in names]
        return pa.Table.from_arrays([pa.array(list(column)) for column in columns], names=names)

    def arrow(self, text: str, kinds: Sequence[Type]) -> pa.Table:
        """As text that Arrow reads, where its meaning is certain."""
        return self._arrow(text, kinds, f"row_number() OVER () / {LINES}")

    def _arrow(self, text: str, kinds: Sequence[Type], part: str) -> pa.Table:
        """The rows of the same ``part`` as one value, if they can be lines."""
        if not has_lines(kinds):
            return self.run(text)
        table = read_lines((part for (part,) in self._fetch(as_lines(text, kinds, part))), kinds)
        return self.run(text) if table is None else table

    def rows(self, text: str, kinds: Sequence[Type]) -> list[Row]:
        """The rows of a query as physical values."""
        self._copy_unseen(text)
        columns = [list(column) for column in zip(*self._fetch(text), strict=True)] or [[] for _ in kinds]
        return list(zip(*map(_physical, columns, kinds), strict=True))

    def limits(self, table: str, column: Column) -> tuple[Value, Value]:
        """From an index where there is one."""
        with self.snapshot():
            text = f'SELECT min("{column.name}"), max("{column.name}") FROM "{table}"'
            ((low, high),) = self.rows(text, [column.type] * 2)
        return low, high

    def quantiles(self, table: str, column: Column, ranges: int) -> list[Value]:
        """Of a sample of pages: the histogram of ``pg_stats`` leaves out the most common values."""
        steps = ", ".join(str(place / ranges) for place in range(1, ranges))
        share = min(100.0, 100.0 * SAMPLE / max(self.count(table), 1))
        collation = ' COLLATE "C"' if column.type.kind is Kind.VARCHAR else ""
        text = (
            f"SELECT unnest(percentile_disc(ARRAY[{steps}]::float8[]) WITHIN GROUP (ORDER BY x{collation})) "
            f'FROM (SELECT "{column.name}" AS x FROM "{table}" TABLESAMPLE SYSTEM ({share}) REPEATABLE (1)) t'
        )
        with self.snapshot():
            return [row[0] for row in self.rows(text, [column.type]) if row[0] is not None]

    def count(self, table: str) -> int:
        """The server's estimate, or exact for a table that was never analyzed."""
        with self.snapshot():
            ((count,),) = self._fetch(
                "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [table]
            )
            if count < 0:
                ((count,),) = self._fetch(f'SELECT count(*) FROM "{table}"')
        return int(count)

    # Versions.

    def track(self, tables: Iterable[Table]) -> None:
        """Give each table a log and the triggers that write it."""
        for table in tables:
            ((known,),) = self._fetch("SELECT to_regclass(%s) IS NOT NULL", [log.log_of(table.name)])
            if not known:
                columns = ", ".join(f'"{name}"' for name in table.column_names)
                for statement in log.tracking(table.name, columns):
                    self._run(statement)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A REPEATABLE READ transaction."""
        if self._nested:
            yield
            return
        try:
            import psycopg
        except ImportError:
            raise BackendError("PostgreSQL needs psycopg: pip install 'viewlet[postgres]'") from None
        status = self._connection.info.transaction_status
        if status != psycopg.pq.TransactionStatus.IDLE:
            raise SketchError("a transaction is open on the connection: commit it first")
        usual = self._connection.isolation_level
        self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._nested, self._version = True, None
        self._copied.clear()
        try:
            with self._connection.transaction():
                yield
        finally:
            self._nested, self._version = False, None
            self._connection.isolation_level = usual

    def version(self) -> Version:
        """The snapshot, and how much of the own transaction's changes: its number and the last entry.

        Read once for a snapshot and its changes: a transaction gets its number also by other writing.
        """
        with self.snapshot():
            if self._version is None:
                (found,) = self._fetch(f"SELECT {log.VERSION} FROM {log.SCHEMA}.entries")
                self._version = log.version(*found)
            return self._version

    def apply(self, changes: Mapping[Table, Sequence[Change]], lagging: bool) -> None:
        """Change the tables; the triggers write the log."""
        with self.snapshot():
            for table, part in changes.items():
                self._apply(table, part)
            self._version = None

    def _apply(self, table: Table, changes: Sequence[Change]) -> None:
        batch = weighted_batch(table, changes)
        rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        columns = ", ".join(f'"{name}"' for name in table.column_names)
        batch_name = "_viewlet_batch"
        self._run(
            f'CREATE TEMP TABLE {batch_name} ON COMMIT DROP AS SELECT {columns} FROM "{table.name}" LIMIT 0'
        )
        self._run(f"ALTER TABLE {batch_name} ADD COLUMN {WEIGHT} bigint")
        with self._connection.cursor().copy(f"COPY {batch_name} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        deleted = sum(row[-1] < 0 for row in rows)
        if deleted:
            same = " AND ".join(
                f'ARRAY[t."{name}"] = ARRAY[b."{name}"]' if values.null_count else f't."{name}" = b."{name}"'
                for name, values in zip(table.column_names, batch.columns, strict=False)
            )
            listed = ", ".join(f't."{c}"' for c in table.column_names)
            found = self._run(
                f'DELETE FROM "{table.name}" WHERE ctid = ANY (ARRAY(SELECT _id FROM ('
                f"SELECT t.ctid AS _id, b._copies, row_number() OVER (PARTITION BY {listed}) AS _place "
                f'FROM "{table.name}" t JOIN (SELECT {columns}, count(*) AS _copies FROM {batch_name} '
                f"WHERE {WEIGHT} < 0 GROUP BY {columns}) b ON {same}) found WHERE _place <= _copies))"
            ).rowcount
            if found != deleted:
                raise missing_rows(table, deleted, found)
        self._run(
            f'INSERT INTO "{table.name}" ({columns}) SELECT {columns} FROM {batch_name} WHERE {WEIGHT} > 0'
        )
        self._run(f"DROP TABLE {batch_name}")

    def stage(self, since: Version, tables: Iterable[Table]) -> dict[str, int] | None:
        """Count in the logs; what a query reads of them is copied, so that joins are planned for its size."""
        self._unseen = {table.name: log.unseen(table.name, since) for table in tables}
        for name in self._copied:
            self._run(f"DROP TABLE {log.copy_of(name)}")
        self._copied.clear()
        # All in one query: a round trip takes longer than what it asks for.
        counted = "".join(f", (SELECT count(*) {unseen})" for unseen in self._unseen.values())
        ((lost, *found),) = self._fetch(
            f"SELECT ({log.lost(since)}), {log.VERSION}{counted} FROM {log.SCHEMA}.entries"
        )
        self._version, counts = self._version or log.version(*found[:3]), found[3:]
        self._few = max(counts, default=0) < FEW
        return None if lost else {n: count for n, count in zip(self._unseen, counts, strict=True) if count}

    def _copy_unseen(self, text: str) -> None:
        """Copy the staged changes that a query reads and that no query has read yet.

        For a join they are analyzed. Else the server may think that a condition leaves one row of a hundred
        where it leaves thirty, and reads what they are joined with, if that has no index, thirty times.
        """
        for name, unseen in self._unseen.items():
            if name not in self._copied and log.copy_of(name) in text:
                self._run(f"CREATE TEMP TABLE {log.copy_of(name)} ON COMMIT DROP AS SELECT * {unseen}")
                if " JOIN " in text:
                    self._run(f"ANALYZE {log.copy_of(name)}")
                self._copied.add(name)

    def at_hand(self, since: Version, tables: Iterable[Table]) -> None:
        """Nothing is: changes of any client are in the server's logs."""

    def pending(self, since: Version, tables: Iterable[Table]) -> int | None:
        """Counted in the logs."""
        counted = " + ".join(f"(SELECT count(*) {log.unseen(table.name, since)})" for table in tables)
        with self.snapshot():
            ((lost, count),) = self._fetch(f"SELECT ({log.lost(since)}), {counted}")
        return None if lost else int(count)

    def staged_columns(
        self, table: Table, columns: Sequence[Column], selection: exp.Expr | None
    ) -> pa.Table | None:
        """From the log itself, without a copy of it."""
        listed = ", ".join(f'"{column.name}"' for column in columns)
        selected = "" if selection is None else f" AND ({selection.transform(_hashable).sql('postgres')})"
        text = f"SELECT {listed}, {WEIGHT} {self._unseen[table.name]}{selected}"
        kinds = [*(column.type for column in columns), BIGINT]
        return self._arrow(text, kinds, "0") if self._few else self.arrow(text, kinds)

    def staged_limits(self, table: Table, column: Column) -> tuple[Value, Value]:
        """From the log itself, without a copy of it."""
        least, greatest = (f'{end}("{column.name}")' for end in ("min", "max"))
        unseen = f"{self._unseen[table.name]} AND {WEIGHT} > 0"
        ((low, high),) = self.rows(f"SELECT {least}, {greatest} {unseen}", [column.type] * 2)
        return low, high

    def forget(self, versions: Sequence[Version]) -> None:
        """Shorten the logs to what some sketch still has to see, but remember whose changes are gone."""
        with self.snapshot():
            for (name,) in self._fetch(log.LOGS):
                self._run(log.forgetting(name, len(versions)), [version[0] for version in versions])
            ((count,),) = self._fetch(f"SELECT count(*) FROM {log.SCHEMA}.forgotten")
            if count > log.MAX_FORGOTTEN:
                self._run(log.shortening(count // 2))

    # States of sketches.

    def save(self, name: str, content: bytes | None) -> None:
        """A row of a table of its own."""
        with self.snapshot():
            self._run(f"DELETE FROM {log.SCHEMA}.saved WHERE name = %s", [name])
            if content is not None:
                self._run(f"INSERT INTO {log.SCHEMA}.saved VALUES (%s, %s)", [name, content])

    def saved(self) -> Mapping[str, bytes]:
        """The rows of that table."""
        with self.snapshot():
            return {
                name: bytes(c) for name, c in self._fetch(f"SELECT name, content FROM {log.SCHEMA}.saved")
            }


def _physical(values: list[Any], kind: Type) -> Sequence[Value]:
    """What the driver gives as physical values; whole numbers, of which there are most, without detours."""
    if kind.is_integer:
        return values
    if kind.kind is Kind.DECIMAL and kind.scale == 0:
        return [None if value is None else int(value) for value in values]
    return read_column(values, Column("column", kind), "result")


def _attribute(partition: Partition) -> exp.Expr:
    """The column; text byte by byte, as its ranges are."""
    column = exp.column(partition.column, quoted=True)
    if partition.type.kind is not Kind.VARCHAR:
        return column
    return exp.Collate(this=column, expression=exp.to_identifier("C", quoted=True))


def _hashable(node: exp.Expr) -> exp.Expr:
    """``a IS NOT DISTINCT FROM b`` as ``ARRAY[a] = ARRAY[b]``, where NULL equals NULL and joins can hash."""
    if isinstance(node, exp.NullSafeEQ):
        sides = (exp.Array(expressions=[node.this]), exp.Array(expressions=[node.expression]))
        return exp.EQ(this=sides[0], expression=sides[1])
    return node
