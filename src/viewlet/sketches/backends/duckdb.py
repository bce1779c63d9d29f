"""DuckDB tables.

Changes go through the store, which writes them and their version in one transaction. Those behind its back
are noticed (``duckdb_watch.py``); then sketches are captured again, because what changed is not known.

A statement takes DuckDB longer than a sketch takes to follow a thousand rows, so few are sent: what a store
knows of the database is one row, which it writes only if that is as it left it, and changes stay in this
process, which is the only one that can change the database. They are written to a log beside the table only
for sketches that were saved and lag behind, which follow after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import CatalogException
from sqlglot import exp

from viewlet.backends.base import Change
from viewlet.core.types import Column, Type, Value
from viewlet.sketches.backends.base import (
    Version,
    arrow_limits,
    arrow_rows,
    catalog_of,
    missing_rows,
    weighted_batch,
)
from viewlet.sketches.backends.duckdb_restrictions import Restrictions
from viewlet.sketches.backends.duckdb_state import Applied, Describe, Memory, State
from viewlet.sketches.backends.duckdb_watch import HAS_TRIGGERS, LOST, RowCounts, Statements, Watch
from viewlet.sketches.cost import Skipping
from viewlet.sketches.lineage import by_value
from viewlet.sketches.operators.base import Row
from viewlet.sketches.partition import Partition
from viewlet.sketches.scans import WEIGHT
from viewlet.sql.catalog import Catalog, Table

SCHEMA = "viewlet_sketches"
SAMPLE = 200_000
VERSION = "_version"
BATCH = "_viewlet_batch"


class DuckDB:
    """A DuckDB connection."""

    dialect = "duckdb"
    text_is_bytes = True
    small = 5_000_000
    large = 500_000

    def __init__(self, connection: Any, *, triggers: bool = True) -> None:
        self._connection = connection
        self._described: object = None
        self._catalog = Catalog()
        self._columns: dict[str, tuple[str, list[Any], Table]] = {}
        self._nested = self._looked = False
        self._counted: frozenset[str] = frozenset()
        self._since, self._at_hand = 0, False
        self._unnamed: frozenset[str] = frozenset()
        self._parsed: dict[str, Any] = {}
        for statement in (
            f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
            f"CREATE TABLE IF NOT EXISTS {SCHEMA}.state (number BIGINT, tables VARCHAR)",
            f"INSERT INTO {SCHEMA}.state SELECT 0, '{{}}' WHERE NOT EXISTS (FROM {SCHEMA}.state)",
            f"CREATE TABLE IF NOT EXISTS {SCHEMA}.saved (name VARCHAR, content BLOB)",
        ):
            connection.execute(statement)
        self._restrictions = Restrictions(self._fetch, self.limits)
        self._watch: Watch = (
            Statements(self._fetch, self._ask, SCHEMA) if triggers and HAS_TRIGGERS else RowCounts(self._ask)
        )
        ((number, tables),) = self._fetch(f"SELECT number, tables FROM {SCHEMA}.state")
        state = State.read(number, tables)
        self._memory = Memory(state, logs=frozenset(state.tables))
        self._keeps_log = bool(self.saved())

    def _fetch(self, text: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows: an unfinished result would block the connection."""
        rows: list[Any] = self._connection.execute(text, list(values)).fetchall()
        return rows

    def _ask(self, text: str, values: Sequence[Any] = ()) -> list[Any]:
        """The same for what is asked with every batch: most of its time would be spent on parsing."""
        if text not in self._parsed:
            (self._parsed[text],) = self._connection.extract_statements(text)
        rows: list[Any] = self._connection.execute(self._parsed[text], list(values)).fetchall()
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

    def described(self, name: str) -> Table:
        """As the catalog told, unless the columns are other ones since."""
        known = self._columns.get(name)
        with suppress(CatalogException):  # a table that is gone is the catalog's to refuse
            if known is not None and known[1] == self._ask(known[0]):
                return known[2]
        table = self.catalog()[name]
        quoted = exp.Literal.string(f'"{table.name}"').sql("duckdb")
        text = f'SELECT name, type, "notnull", pk FROM pragma_table_info({quoted})'
        self._columns[table.name] = text, self._ask(text), table
        return table

    def table(self, name: str) -> exp.Table:
        """The table as it is."""
        return exp.to_table(name)

    def staged(self, name: str) -> exp.Table:
        """A name that means the changes which the sketch has not seen, from the first query on that reads it.

        So texts of queries are made once and run for any version.
        """
        return exp.Table(this=exp.to_identifier(_staged(name), quoted=True))

    def condition(self, partition: Partition, fragments: frozenset[int]) -> exp.Expr:
        """A semi-join with values, or an OR of ranges."""
        return self._restrictions.condition(partition, fragments)

    def skipping(self, partition: Partition, fragments: frozenset[int]) -> Skipping:
        """By the least and greatest value of every row group."""
        return self._restrictions.skipping(partition, fragments)

    def reduced(self, restrictions: Sequence[tuple[Partition, frozenset[int]]]) -> exp.Table | None:
        """The table itself."""
        return None

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
        """The result of a query; staged changes that it is the first to read get their name."""
        for name in self._unnamed:
            if f'"{_staged(name)}"' in text:
                self._name_staged(name)
        return self._connection.sql(text).to_arrow_table()

    def _name_staged(self, name: str) -> None:
        """Let the name of the staged changes mean the batches at hand, or what the log has of them."""
        self._unnamed = self._unnamed - {name}
        if self._at_hand:
            self._ask(f'DROP VIEW IF EXISTS temp."{_staged(name)}"')
            self._connection.register(_staged(name), self._recent(name))
        else:
            log = f"FROM {_log(name)} WHERE {VERSION} > {self._since}"
            self._fetch(f'CREATE OR REPLACE TEMP VIEW "{_staged(name)}" AS {log}')

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
        self._look()
        new = [table for table in tables if table.name not in self._memory.state.tables]
        for table in new:
            self._fetch(
                f"CREATE OR REPLACE TABLE {_log(table.name)} AS "
                f'SELECT *, 0::BIGINT AS {WEIGHT}, 0::BIGINT AS {VERSION} FROM "{table.name}" LIMIT 0'
            )
        if new:
            names = [table.name for table in new]
            self._watch.begin(names)
            begun = self._watch.marks(names, self._nested)
            self._describe(lambda state: state.begun(begun, step=0))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction."""
        if self._nested:
            yield
            return
        self._connection.begin()
        self._nested, self._looked, self._counted = True, False, frozenset()
        memory = self._memory
        try:
            yield
            self._connection.commit()
        except BaseException:
            self._memory = memory
            self._watch.undone()
            self._connection.rollback()
            raise
        finally:
            self._nested = self._looked = False

    def version(self) -> Version:
        """A number that grows with every batch; within a transaction it is read once."""
        self._look()
        return self._memory.state.number

    def _look(self) -> None:
        """Read the state, unless this transaction knows it."""
        if self._nested and self._looked:
            return
        ((number, tables),) = self._ask(f"SELECT number, tables FROM {SCHEMA}.state")
        if (number, tables) != self._memory.state.written():
            self._memory = replace(self._memory, state=State.read(number, tables))
        self._looked = True

    def _describe(self, describe: Describe) -> None:
        """Change the state; where it is not as this store left it, another one was there, so it is read."""
        if not self._replace(describe(self._memory.state)):
            self._looked = False
            self._look()
            self._replace(describe(self._memory.state))

    def _replace(self, state: State) -> bool:
        """Let a state follow the known one, if this is still the present one."""
        known = self._memory.state.written()
        text = f"UPDATE {SCHEMA}.state SET number = ?, tables = ? WHERE number = ? AND tables = ?"
        ((replaced,),) = self._ask(text, [*state.written(), *known])
        if replaced:
            self._memory, self._looked = replace(self._memory, state=state), True
        return bool(replaced)

    def apply(self, changes: Mapping[Table, Sequence[Change]], lagging: bool) -> None:
        """Write the version, which tells whether another store was there, then the tables, then logs."""
        batches = {table: weighted_batch(table, part) for table, part in changes.items()}
        moves = {table.name: self._moves(rows) for table, rows in batches.items()}
        logged = lagging and self._keeps_log
        with self.snapshot():
            self._describe(lambda state: state.moved(moves, logged=logged))
            watched = {name: n for name, n in moves.items() if name in self._memory.state.tables}
            self._notice(watched)
            for table, rows in batches.items():
                self._write(table, rows)
            self._watch.moved(watched)
            version = self._memory.state.number
            new = tuple(Applied(version, table.name, rows, False) for table, rows in batches.items())
            self._memory = replace(self._memory, applied=self._memory.applied + new)
            if logged:
                self._write_logs(version - 1)
            self._watch.tidy()

    def _notice(self, moves: Mapping[str, int]) -> bool:
        """Are marks not where they should be, before they move so much? Then the logs begin anew.

        That is asked before a table is changed: counting rows of a transaction's own takes ten times as long.
        """
        strange = {
            name: mark + moves[name]
            for name, mark in self._marks([name for name in moves if name not in self._counted]).items()
            if mark == LOST or not self._is_expected(name, mark + moves[name])
        }
        lost = [name for name, mark in strange.items() if mark - moves[name] == LOST]
        if lost:
            self._watch.begin(lost)
            strange |= {name: mark + moves[name] for name, mark in self._marks(lost).items()}
        if self._nested:
            self._counted |= moves.keys()
        if strange:
            self._describe(lambda state: state.begun(strange))
        return bool(strange)

    def _write(self, table: Table, rows: pa.Table) -> None:
        """Change a table; what is inserted is given to DuckDB as it is, without a name, which takes time."""
        inserted, deleted = rows, rows.slice(0, 0)
        if pc.min(rows[WEIGHT]).as_py() == -1:
            inserted, deleted = (rows.filter(c) for c in (_sign(rows, pc.greater), _sign(rows, pc.less)))
        if len(deleted):
            self._connection.register(BATCH, deleted)
            try:
                self._delete(table, len(deleted))
            finally:
                self._connection.unregister(BATCH)
        if len(inserted):
            self._insert(f'"{table.name}"', inserted.select(table.column_names))

    def _insert(self, name: str, rows: pa.Table) -> None:
        self._connection.from_arrow(rows).insert_into(name)

    def _delete(self, table: Table, asked: int) -> None:
        columns = ", ".join(f'"{name}"' for name in table.column_names)
        same = " AND ".join(f't."{c}" IS NOT DISTINCT FROM b."{c}"' for c in table.column_names)
        grouped = f"SELECT {columns}, count(*) AS _copies FROM {BATCH} GROUP BY ALL"
        partition = ", ".join(f't."{c}"' for c in table.column_names)
        ((found,),) = self._fetch(
            f'DELETE FROM "{table.name}" WHERE rowid IN (SELECT _id FROM ('
            f"SELECT t.rowid AS _id, b._copies, row_number() OVER (PARTITION BY {partition}) AS _place "
            f'FROM "{table.name}" t '
            f"JOIN ({grouped}) b ON {same}) WHERE _place <= _copies)"
        )
        if found != asked:
            raise missing_rows(table, asked, found)

    def _write_logs(self, after: int) -> None:
        """Write the changes of this process after a version into the logs."""
        applied = list(self._memory.applied)
        for place, entry in enumerate(applied):
            if entry.version > after and entry.name in self._memory.state.tables:
                versions = pa.array([entry.version] * len(entry.rows), pa.int64())
                self._insert(_log(entry.name), entry.rows.append_column(VERSION, versions))
                applied[place] = entry._replace(logged=True)
        logs = self._memory.logs | {entry.name for entry in applied if entry.logged}
        self._memory = replace(self._memory, applied=tuple(applied), logs=logs)

    def stage(self, since: Version, tables: Iterable[Table]) -> dict[str, int] | None:
        """What came after a version, unless a table changed behind the store's back."""
        names = tuple(table.name for table in tables)
        self._since, self._unnamed = since, frozenset(names)
        self._look()
        if self._notice(dict.fromkeys(names, 0)):
            return None
        state = self._memory.state
        counts = self._counts_at_hand(since, state.number, names)
        if counts is None:
            if any(since < state.tables[name].since for name in names):
                return None
            after = f"WHERE {VERSION} > {since}"
            counts = {name: self._fetch(f"SELECT count(*) FROM {_log(name)} {after}")[0][0] for name in names}
        return {name: count for name, count in counts.items() if count}

    def at_hand(self, since: Version, tables: Iterable[Table]) -> tuple[Version, dict[str, int]] | None:
        """Those that went through this object, if no others did."""
        names = tuple(table.name for table in tables)
        self._since, self._unnamed = since, frozenset(names)
        # Outside of a transaction triggers tell enough: whoever changes a table moves its mark. Without them
        # the version is read first: of two moments, it is the earlier one's, and what came between them is
        # noticed now, by the numbers of rows, or with the next look.
        knows = self._watch.sees_every_change and not self._nested
        version = self._memory.state.number if knows else self.version()
        counts = self._counts_at_hand(since, version, names)
        marks = self._marks([name for name in names if not (self._nested and name in self._counted)])
        if counts is None or not all(self._is_expected(name, mark) for name, mark in marks.items()):
            return None
        return version, {name: count for name, count in counts.items() if count}

    def _moves(self, rows: pa.Table) -> int:
        """How far a batch moves the mark of its table."""
        signs = pc.min_max(rows[WEIGHT]).as_py()
        return self._watch.moves(pc.sum(rows[WEIGHT]).as_py() or 0, signs["max"] == 1, signs["min"] == -1)

    def _marks(self, names: Sequence[str]) -> Mapping[str, int]:
        return self._watch.marks(names, self._nested) if names else {}

    def _is_expected(self, name: str, mark: int) -> bool:
        tracked = self._memory.state.tables.get(name)
        return tracked is not None and mark == tracked.mark

    def _counts_at_hand(self, since: int, until: int, names: Sequence[str]) -> dict[str, int] | None:
        """How many changes came between versions, if all of them went through this object."""
        recent = [entry for entry in self._memory.applied if since < entry.version <= until]
        self._at_hand = {entry.version for entry in recent} == set(range(since + 1, until + 1))
        if not self._at_hand:
            return None
        return {name: sum(len(entry.rows) for entry in recent if entry.name == name) for name in names}

    def pending(self, since: Version, tables: Iterable[Table]) -> int | None:
        """By what went through this object: whether to use a sketch is decided for every query."""
        names = {table.name for table in tables}
        return sum(len(e.rows) for e in self._memory.applied if e.version > since and e.name in names)

    def staged_columns(
        self, table: Table, columns: Sequence[Column], selection: exp.Expr | None
    ) -> pa.Table | None:
        """The batches that went through this object, if there were no others; triggers select among them."""
        if not self._at_hand:
            return None
        return self._recent(table.name).select([*(column.name for column in columns), WEIGHT])

    def _recent(self, name: str) -> pa.Table:
        """The changes of a table that are staged and at hand."""
        recent = [e.rows for e in self._memory.applied if e.version > self._since and e.name == name]
        return recent[0] if len(recent) == 1 else pa.concat_tables(recent)

    def staged_limits(self, table: Table, column: Column) -> tuple[Value, Value]:
        """Of the batches at hand, or of the log."""
        at_hand = self.staged_columns(table, [column], None)
        if at_hand is not None:
            return arrow_limits(at_hand, column)
        name, appeared = f'"{column.name}"', f"{VERSION} > {self._since} AND {WEIGHT} > 0"
        text = f"SELECT min({name}), max({name}) FROM {_log(table.name)} WHERE {appeared}"
        ((low, high),) = self.rows(text, [column.type] * 2)
        return low, high

    def forget(self, versions: Sequence[Version]) -> None:
        """Drop what every sketch has seen, and shorten the logs that may have some of it."""
        oldest = min(versions, default=self._memory.state.number)
        kept = tuple(entry for entry in self._memory.applied if entry.version > oldest)
        self._memory = replace(self._memory, applied=kept)
        if self._memory.logs:
            with self.snapshot():
                self._shorten_logs(oldest)

    def _shorten_logs(self, oldest: int) -> None:
        logs = self._memory.logs
        for name in logs:
            self._fetch(f"DELETE FROM {_log(name)} WHERE {VERSION} <= {oldest}")
        # A sketch that is older, saved or of another store, must not take the silence for no change.
        self._describe(lambda state: state.shortened(logs, oldest))
        if oldest >= self._memory.state.number:
            self._memory = replace(self._memory, logs=frozenset())

    # States of sketches.

    def save(self, name: str, content: bytes | None) -> None:
        """A row of a table of its own; from now on logs have what it will need after a restart."""
        self._fetch(f"DELETE FROM {SCHEMA}.saved WHERE name = ?", [name])
        if content is not None:
            self._fetch(f"INSERT INTO {SCHEMA}.saved VALUES (?, ?)", [name, content])
            self._keeps_log = True
            self._log_all()

    def _log_all(self) -> None:
        """Complete the logs by the changes in this process, as far back as these go without a gap."""
        if all(entry.logged for entry in self._memory.applied):
            return
        oldest, versions = self.version(), {entry.version for entry in self._memory.applied}
        while oldest in versions:
            oldest -= 1
        for name in self._memory.state.tables:  # of another store's forgetting there may be some or none
            self._fetch(f"DELETE FROM {_log(name)} WHERE {VERSION} > {oldest}")
        self._write_logs(oldest)
        self._describe(lambda state: state.completed(oldest))

    def saved(self) -> Mapping[str, bytes]:
        """The rows of that table."""
        return dict(self._fetch(f"SELECT name, content FROM {SCHEMA}.saved"))


def _sign(rows: pa.Table, compare: Callable[..., Any]) -> Any:
    return compare(rows[WEIGHT], 0)


def _staged(name: str) -> str:
    return f"viewlet_staged_{name}"


def _log(name: str) -> str:
    return f'{SCHEMA}."changes_{name}"'
