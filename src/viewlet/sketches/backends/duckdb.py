"""DuckDB tables.

DuckDB has no triggers: changes must go through the store, which writes them and their versions in one
transaction. The number of rows of each table is remembered, so that most changes behind the store's back are
noticed; then sketches are captured again, because what changed is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewlet.backends.base import Change
from viewlet.core.types import Column, Type, Value
from viewlet.sketches.backends.base import Version, arrow_rows, catalog_of, missing_rows, weighted_batch
from viewlet.sketches.cost import Skipping, is_enumerable
from viewlet.sketches.lineage import by_value
from viewlet.sketches.operators.base import Row
from viewlet.sketches.partition import NULL_FRAGMENT, Partition
from viewlet.sketches.plan_to_sql import literal
from viewlet.sketches.scans import WEIGHT
from viewlet.sketches.use import in_ranges
from viewlet.sql.catalog import Catalog, Table

SCHEMA = "viewlet_sketches"
SAMPLE = 200_000
MAX_VALUES = 20_000
VERSION = "_version"
SINCE = "viewlet_sketches_since"


class DuckDB:
    """A DuckDB connection."""

    dialect = "duckdb"
    text_is_bytes = True
    small = 5_000_000
    large = 500_000

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._described: object = None
        self._catalog = Catalog()
        self._nested = False
        self._applied: list[tuple[int, str, pa.Table]] = []
        self._since, self._since_is_set = 0, True
        self._at_hand = False
        self._number: int | None = None
        self._parsed: dict[tuple[str, ...], Any] = {}
        for statement in (
            f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
            f"CREATE TABLE IF NOT EXISTS {SCHEMA}.version (number BIGINT)",
            f"INSERT INTO {SCHEMA}.version SELECT 0 WHERE NOT EXISTS (FROM {SCHEMA}.version)",
            f"CREATE TABLE IF NOT EXISTS {SCHEMA}.tracked (name VARCHAR, count BIGINT, since BIGINT)",
            f"CREATE TABLE IF NOT EXISTS {SCHEMA}.saved (name VARCHAR, content BLOB)",
        ):
            connection.execute(statement)

    def _fetch(self, text: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows: an unfinished result would block the connection."""
        rows: list[Any] = self._connection.execute(text, list(values)).fetchall()
        return rows

    # Reading.

    def catalog(self) -> Catalog:
        """The tables of the current schema whose columns have types that Viewlet knows."""
        found = self._fetch(
            "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
            "WHERE schema_name = current_schema() AND database_name = current_database() "
            "AND NOT internal ORDER BY table_name, column_index"
        )
        keys = dict(
            self._fetch(
                "SELECT table_name, constraint_column_names FROM duckdb_constraints() "
                "WHERE constraint_type = 'PRIMARY KEY' AND schema_name = current_schema()"
            )
        )
        described = (found, keys)
        if described != self._described:
            self._described, self._catalog = described, catalog_of(found, keys, self.dialect)
        return self._catalog

    def table(self, name: str) -> exp.Table:
        """The table as it is."""
        return exp.to_table(name)

    def staged(self, name: str) -> exp.Subquery:
        """The rows of the table's log after the version that the sketch is of.

        That version is a variable of the connection: texts of queries are made once and run for any version.
        """
        known = exp.Anonymous(this="getvariable", expressions=[exp.Literal.string(SINCE)])
        since = exp.column(VERSION) > known
        return exp.select("*").from_(_log(name)).where(since).subquery(f"staged_{name}")

    def condition(self, partition: Partition, fragments: frozenset[int]) -> exp.Expr:
        """A semi-join with the values of the ranges where they can be listed, else an OR of ranges.

        Each disjunct of an OR costs half a scan of its own here; a semi-join costs the same for any number.
        """
        column = exp.column(partition.column, quoted=True)
        values = self._values(partition, fragments)
        if values is None:
            return in_ranges(partition, fragments, column)
        # As one piece of text: a tree of a thousand literals takes longer to write than the query to run.
        whole = partition.type.is_integer
        texts = map(str, values) if whole else (literal(v, partition.type).sql("duckdb") for v in values)
        listed = exp.Var(this=f"[{', '.join(texts)}]")
        inside = exp.In(this=column, query=exp.select(exp.Unnest(expressions=[listed])).subquery())
        if NULL_FRAGMENT not in fragments:
            return inside
        return exp.or_(inside, exp.Is(this=column.copy(), expression=exp.Null()))

    def _values(self, partition: Partition, fragments: frozenset[int]) -> list[int] | None:
        """The values in the ranges; open ends are those of the data, which has the sketch's version."""
        intervals = partition.intervals(fragments)
        if len(intervals) < 2 or not is_enumerable(partition.type):
            return None
        ends: tuple[Value, Value] = (None, None)
        if intervals[0][0] is None or intervals[-1][1] is None:
            ends = self.limits(partition.table, Column(partition.column, partition.type))
            if ends[0] is None or ends[1] is None:
                return None
        edges = [
            (cast(int, ends[0] if low is None else low), cast(int, ends[1] if high is None else high - 1))
            for low, high in cast("list[tuple[Any, Any]]", intervals)
        ]
        if sum(max(high - low + 1, 0) for low, high in edges) > MAX_VALUES:
            return None
        return [value for low, high in edges for value in range(low, high + 1)]

    def reduced(self, restrictions: Sequence[tuple[Partition, frozenset[int]]]) -> exp.Table | None:
        """The table itself."""
        return None

    def skipping(self, partition: Partition, fragments: frozenset[int]) -> Skipping:
        """By the least and greatest value of every row group."""
        kept = len(fragments) / partition.size
        check = (
            0.2
            if self._values(partition, fragments) is not None
            else 0.14 * len(partition.intervals(fragments))
        )
        return Skipping(kept, max(self._touched(partition, fragments), kept), check)

    def _touched(self, partition: Partition, fragments: frozenset[int]) -> float:
        """The share of row groups that may hold rows of the fragments; 1 where that is not known."""
        if not is_enumerable(partition.type):
            return 1.0
        segments = self._fetch(
            f"SELECT any_value(stats) FROM pragma_storage_info('{partition.table}') "
            f"WHERE column_name = ? AND segment_type <> 'VALIDITY' GROUP BY row_group_id, segment_id",
            [partition.column],
        )
        touched = 0
        for (stats,) in segments:
            low, high = (stats or {}).get("min"), (stats or {}).get("max")
            if not isinstance(low, int) or not isinstance(high, int):
                return 1.0
            first, last = partition.fragment_of(low), partition.fragment_of(high)
            touched += any(first <= fragment <= last for fragment in fragments)
        return touched / len(segments) if segments else 1.0

    def mark(self, partition: Partition) -> tuple[str, Type]:
        """Values tell fragments: grouping by a value is quick here, a search among many bounds is not."""
        return by_value(partition)

    def fragment(self, partition: Partition) -> exp.Expr:
        """Never asked for: values tell fragments."""
        raise AssertionError(f"{partition.name} is marked by value")

    staged_fragment = fragment

    def sql(self, query: exp.Query) -> str:
        """The query in DuckDB's SQL."""
        return query.sql("duckdb")

    def run(self, text: str) -> pa.Table:
        """The result of a query; the variable that texts over changes read is set for the first of them."""
        if not self._since_is_set and SINCE in text:
            self._fetch(f"SET VARIABLE {SINCE} = {self._since}::BIGINT")
            self._since_is_set = True
        return self._connection.sql(text).to_arrow_table()

    def arrow(self, text: str, kinds: Sequence[Type]) -> pa.Table:
        """Results come in columns."""
        return self.run(text)

    def rows(self, text: str, kinds: Sequence[Type]) -> list[Row]:
        """The rows of a query as physical values."""
        return arrow_rows(self.run(text), kinds)

    def limits(self, table: str, column: Column) -> tuple[Value, Value]:
        """From the column's statistics, mostly."""
        ((low, high),) = self.rows(
            f'SELECT min("{column.name}"), max("{column.name}") FROM "{table}"', [column.type] * 2
        )
        return low, high

    def quantiles(self, table: str, column: Column, ranges: int) -> list[Value]:
        """Of a sample, by rank."""
        steps = [place / ranges for place in range(1, ranges)]
        sample = f"USING SAMPLE reservoir({SAMPLE} ROWS) REPEATABLE (1)"
        sampled = f'(SELECT "{column.name}" AS x FROM "{table}" {sample})'
        text = f"SELECT unnest(quantile_disc(x, {steps})) AS q FROM {sampled} WHERE x IS NOT NULL"
        return [row[0] for row in self.rows(text, [column.type])]

    def count(self, table: str) -> int:
        """Exact, from the table's metadata."""
        ((count,),) = self._fetch(f'SELECT count(*) FROM "{table}"')
        return int(count)

    # Versions.

    def track(self, tables: Iterable[Table]) -> None:
        """Give each table a log of changes."""
        for table in tables:
            if self._tracked(table.name):
                continue
            self._fetch(
                f"CREATE TABLE {_log(table.name)} AS SELECT *, 0::BIGINT AS {WEIGHT}, 0::BIGINT AS {VERSION} "
                f'FROM "{table.name}" LIMIT 0'
            )
            self._reset(table.name)

    def _tracked(self, name: str) -> list[Any]:
        return self._fetch(f"SELECT count, since FROM {SCHEMA}.tracked WHERE name = ?", [name])

    def _reset(self, name: str) -> None:
        """What the log of a table knows begins now."""
        self._fetch(f"DELETE FROM {SCHEMA}.tracked WHERE name = ?", [name])
        self._fetch(
            f"INSERT INTO {SCHEMA}.tracked VALUES (?, ?, ?)", [name, self.count(name), self.version()]
        )

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction."""
        if self._nested:
            yield
            return
        self._connection.begin()
        self._nested, self._number = True, None
        applied = list(self._applied)
        try:
            yield
            self._connection.commit()
        except BaseException:
            self._applied = applied
            self._connection.rollback()
            raise
        finally:
            self._nested, self._number = False, None

    def version(self) -> Version:
        """A number that grows by one with every batch; within a transaction it is read once."""
        if self._number is None or not self._nested:
            ((self._number,),) = self._fetch(f"SELECT number FROM {SCHEMA}.version")
        return self._number

    def _next_version(self) -> None:
        self._fetch(f"UPDATE {SCHEMA}.version SET number = number + 1")
        self._number = None

    def apply(self, changes: Mapping[Table, Sequence[Change]]) -> None:
        """Write the log, then the table."""
        with self.snapshot():
            self._next_version()
            version = self.version()
            batches = {table: weighted_batch(table, part) for table, part in changes.items()}
            for table, batch in batches.items():
                self._connection.register("_viewlet_batch", batch)
                try:
                    self._apply(table, version)
                finally:
                    self._connection.unregister("_viewlet_batch")
        self._applied += [(version, table.name, batch) for table, batch in batches.items()]

    def _apply(self, table: Table, version: int) -> None:
        columns = ", ".join(f'"{name}"' for name in table.column_names)
        run = self._fetch
        tracked = self._tracked(table.name)
        if tracked:
            log = _log(table.name)
            run(f"INSERT INTO {log} SELECT {columns}, {WEIGHT}, {version} FROM _viewlet_batch")
        ((inserted, deleted),) = run(
            f"SELECT count(*) FILTER ({WEIGHT} > 0), count(*) FILTER ({WEIGHT} < 0) FROM _viewlet_batch"
        )
        if deleted:
            same = " AND ".join(f't."{c}" IS NOT DISTINCT FROM b."{c}"' for c in table.column_names)
            grouped = (
                f"SELECT {columns}, count(*) AS _copies FROM _viewlet_batch WHERE {WEIGHT} < 0 GROUP BY ALL"
            )
            partition = ", ".join(f't."{c}"' for c in table.column_names)
            ((found,),) = run(
                f'DELETE FROM "{table.name}" WHERE rowid IN (SELECT _id FROM ('
                f"SELECT t.rowid AS _id, b._copies, row_number() OVER (PARTITION BY {partition}) AS _place "
                f'FROM "{table.name}" t '
                f"JOIN ({grouped}) b ON {same}) WHERE _place <= _copies)"
            )
            if found != deleted:
                raise missing_rows(table, deleted, found)
        if inserted:
            run(
                f'INSERT INTO "{table.name}" ({columns}) '
                f"SELECT {columns} FROM _viewlet_batch WHERE {WEIGHT} > 0"
            )
        if tracked:
            run(
                f"UPDATE {SCHEMA}.tracked SET count = count + ? WHERE name = ?",
                [inserted - deleted, table.name],
            )

    def stage(self, since: Version, tables: Iterable[Table]) -> dict[str, int] | None:
        """The logs after a version, unless a table changed behind the store's back."""
        names = tuple(table.name for table in tables)
        self._since, self._since_is_set = since, False
        self._number, known = self._look(names)
        for name, (is_expected, first) in known.items():
            if not is_expected:
                self._next_version()
                self._reset(name)
                return None
            if since < first:
                return None
        counts = self._counts_at_hand(since, self._number, names)
        if counts is None:
            after = f"WHERE {VERSION} > {since}"
            counts = {name: self._fetch(f"SELECT count(*) FROM {_log(name)} {after}")[0][0] for name in names}
        return {name: count for name, count in counts.items() if count}

    def at_hand(self, since: Version, tables: Iterable[Table]) -> tuple[Version, dict[str, int]] | None:
        """Those that went through this object, if no others did: a single look tells, of one moment."""
        names = tuple(table.name for table in tables)
        self._since, self._since_is_set = since, False
        version, known = self._look(names)
        counts = self._counts_at_hand(since, version, names)
        if counts is None or not all(is_expected for is_expected, _ in known.values()):
            return None
        return version, {name: count for name, count in counts.items() if count}

    def _look(self, names: tuple[str, ...]) -> tuple[int, dict[str, tuple[bool, int]]]:
        """The version; of each table whether it has as many rows as expected, and since when it is known."""
        rows = {name: rest for name, *rest in self._connection.execute(self._state_of(names)).fetchall()}
        known, number = {}, 0
        for place, name in enumerate(names):
            expected, first, number, *counts = rows[name]
            known[name] = counts[place] == expected, first
        return number, known

    def _state_of(self, names: tuple[str, ...]) -> Any:
        """The query for what is known of all tables and how many rows these have, parsed once.

        One query, since most of its time is spent before it runs, and it is all that a refresh asks for.
        """
        if names not in self._parsed:
            counted = "".join(f', (SELECT count(*) FROM "{name}")' for name in names)
            text = f"SELECT name, count, since, number{counted} FROM {SCHEMA}.tracked, {SCHEMA}.version"
            (self._parsed[names],) = self._connection.extract_statements(text)
        return self._parsed[names]

    def _counts_at_hand(self, since: int, until: int, names: Sequence[str]) -> dict[str, int] | None:
        """How many changes came between versions, if all of them went through this object."""
        recent = [entry for entry in self._applied if since < entry[0] <= until]
        self._at_hand = {version for version, _, _ in recent} == set(range(since + 1, until + 1))
        if not self._at_hand:
            return None
        return {name: sum(len(rows) for _, of, rows in recent if of == name) for name in names}

    def pending(self, since: Version, tables: Iterable[Table]) -> int | None:
        """By what went through this object: whether to use a sketch is decided for every query."""
        names = {table.name for table in tables}
        return sum(len(rows) for version, name, rows in self._applied if version > since and name in names)

    def staged_columns(
        self, table: Table, columns: Sequence[Column], selection: exp.Expr | None
    ) -> pa.Table | None:
        """The batches that went through this object, if there were no others; triggers select among them."""
        if not self._at_hand:
            return None
        parts = [
            rows for version, name, rows in self._applied if version > self._since and name == table.name
        ]
        return pa.concat_tables(parts).select([*(column.name for column in columns), WEIGHT])

    def staged_rows(self, table: Table, columns: Sequence[Column]) -> list[Row]:
        """Some columns of the staged insertions."""
        kinds = [column.type for column in columns]
        at_hand = self.staged_columns(table, columns, None)
        if at_hand is not None:
            return arrow_rows(at_hand.filter(pc.greater(at_hand[WEIGHT], 0)).drop_columns([WEIGHT]), kinds)
        listed = ", ".join(f'"{column.name}"' for column in columns)
        appeared = f"{VERSION} > getvariable('{SINCE}') AND {WEIGHT} > 0"
        text = f"SELECT DISTINCT {listed} FROM {_log(table.name)} WHERE {appeared}"
        return self.rows(text, kinds)

    def forget(self, versions: Sequence[Version]) -> None:
        """Shorten the logs to what some sketch still has to see."""
        oldest = min(versions, default=self.version())
        self._applied = [entry for entry in self._applied if entry[0] > oldest]
        for (name,) in self._fetch(f"SELECT name FROM {SCHEMA}.tracked"):
            self._fetch(f"DELETE FROM {_log(name)} WHERE {VERSION} <= ?", [oldest])
            # A sketch that is older, saved or of another store, must not take the silence for no change.
            self._fetch(
                f"UPDATE {SCHEMA}.tracked SET since = greatest(since, ?) WHERE name = ?", [oldest, name]
            )

    # States of sketches.

    def save(self, name: str, content: bytes | None) -> None:
        """A row of a table of its own."""
        self._fetch(f"DELETE FROM {SCHEMA}.saved WHERE name = ?", [name])
        if content is not None:
            self._fetch(f"INSERT INTO {SCHEMA}.saved VALUES (?, ?)", [name, content])

    def saved(self) -> Mapping[str, bytes]:
        """The rows of that table."""
        return dict(self._fetch(f"SELECT name, content FROM {SCHEMA}.saved"))


def _log(name: str) -> str:
    return f'{SCHEMA}."changes_{name}"'
