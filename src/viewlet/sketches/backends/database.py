"""A viewlet Database: a sketch of it is a view of it.

The annotated query (``lineage.py``), counted per value of the attribute, is created as a materialized view.
So the database's own trigger programs keep the sketch fresh, whoever changes the data; what a sketch assumes
of a column is a view of the exceptions. Queries are answered by DuckDB over Arrow, as by ``Database.sql``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from viewlet.backends.base import Change, MapStats
from viewlet.core.types import BIGINT, INT, Column, Type, Value
from viewlet.sketches.backends.base import Version, arrow_rows, weighted_batch
from viewlet.sketches.cost import Skipping
from viewlet.sketches.facts import Assumption
from viewlet.sketches.lineage import by_fragment, by_value, fragment_column
from viewlet.sketches.operators.base import Row
from viewlet.sketches.partition import Partition
from viewlet.sketches.plan_to_sql import type_to_sql
from viewlet.sketches.use import in_ranges
from viewlet.sql.catalog import Catalog, Table
from viewlet.storage.checkpoint import write_checkpoint
from viewlet.storage.container import Container
from viewlet.storage.recover import Recovery

if TYPE_CHECKING:
    from viewlet.database import Database
    from viewlet.sketches.state import Keep


class ViewletDatabase:
    """A database in this process."""

    dialect = "spark"
    text_is_bytes = True
    small = 0
    large = 0

    def __init__(self, database: Database) -> None:
        self._database = database
        self._views = 0

    # Views.

    def create_view(self, query: exp.Query) -> str:
        """Keep the result of a query fresh, and give the view's name."""
        self._views += 1
        name = f"_sketch_{self._views}"
        self._database.execute(f"CREATE MATERIALIZED VIEW {name} AS {self.sql(query)}")
        return name

    def drop_view(self, name: str) -> None:
        """Forget a view."""
        self._database.execute(f"DROP MATERIALIZED VIEW {name}")

    def view_marks(self, name: str) -> list[Value]:
        """The first column of a view, as physical values."""
        rows, _ = self._database.ordered(name)
        return [row[0] for row in rows]

    def exceptions_view(self, assumption: Assumption) -> str:
        """A view with one row per value that breaks an assumption."""
        column = exp.column(assumption.column, quoted=True)
        broken: list[exp.Expr] = []
        if assumption.low is not None:
            broken.append(column.copy() < assumption.low)
        if assumption.high is not None:
            broken.append(column.copy() > assumption.high)
        select = exp.select(column, exp.alias_(exp.Count(this=exp.Star()), "n")).from_(assumption.table)
        return self.create_view(select.where(exp.or_(*broken)).group_by(column.copy()))

    # Reading.

    def catalog(self) -> Catalog:
        """The database's own."""
        return self._database.catalog

    def described(self, name: str) -> Table:
        """From the catalog, which is in this process."""
        return self._database.catalog[name]

    def condition(self, partition: Partition, fragments: frozenset[int]) -> exp.Expr:
        """An OR of ranges."""
        return in_ranges(partition, fragments, exp.column(partition.column, quoted=True))

    def reduced(self, restrictions: Sequence[tuple[Partition, frozenset[int]]]) -> exp.Table | None:
        """The table itself."""
        return None

    def skipping(self, partition: Partition, fragments: frozenset[int]) -> Skipping:
        """Tables are handed to DuckDB whole."""
        return Skipping(len(fragments) / partition.size, 1.0, 0.14 * len(partition.intervals(fragments)))

    def table(self, name: str) -> exp.Table:
        """The table as it is."""
        return exp.to_table(name)

    def staged(self, name: str) -> exp.Table:
        """Never asked for: views follow the changes."""
        raise AssertionError(f"changes of {name} are not staged")

    def mark(self, partition: Partition) -> tuple[str, Type]:
        """Values tell fragments."""
        return by_value(partition)

    def fragment(self, partition: Partition) -> exp.Expr:
        """Never asked for: values tell fragments."""
        raise AssertionError(f"{partition.name} is marked by value")

    staged_fragment = fragment

    def sql(self, query: exp.Query) -> str:
        """The query in Spark's SQL, the database's dialect."""
        return query.sql(self.dialect)

    def run(self, text: str) -> pa.Table:
        """The result of a query."""
        return self._database.sql(text)

    def arrow(self, text: str, kinds: Sequence[Type]) -> pa.Table:
        """Results come in columns."""
        return self.run(text)

    def rows(self, text: str, kinds: Sequence[Type]) -> list[Row]:
        """The rows of a query as physical values."""
        return arrow_rows(self.run(text), kinds)

    def limits(self, table: str, column: Column) -> tuple[Value, Value]:
        """By a scan."""
        text = f"SELECT min(`{column.name}`), max(`{column.name}`) FROM `{table}`"
        ((low, high),) = self.rows(text, [column.type] * 2)
        return low, high

    def quantiles(self, table: str, column: Column, ranges: int) -> list[Value]:
        """By rank."""
        text = f"SELECT `{column.name}` AS x FROM `{table}` WHERE `{column.name}` IS NOT NULL ORDER BY x"
        values = [row[0] for row in self.rows(text, [column.type])]
        return [values[len(values) * place // ranges] for place in range(1, ranges)] if values else []

    def count(self, table: str) -> int:
        """Exact."""
        ((count,),) = self.rows(f"SELECT count(*) FROM `{table}`", [BIGINT])
        assert isinstance(count, int)
        return count

    # Versions.

    def track(self, tables: Iterable[Table]) -> None:
        """Nothing to do: views follow the changes."""

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Nothing to do: one process, one writer."""
        yield

    def version(self) -> Version:
        """The number of the last commit."""
        return self._database.version

    def apply(self, changes: Mapping[Table, Sequence[Change]], lagging: bool) -> None:
        """One commit."""
        self._database.apply({table.name: weighted_batch(table, part) for table, part in changes.items()})

    def stage(self, since: Version, tables: Iterable[Table]) -> dict[str, int] | None:
        """Changes are not kept: what no view follows is captured again."""
        return {} if since == self.version() else None

    def at_hand(self, since: Version, tables: Iterable[Table]) -> None:
        """Nothing is: views follow the changes."""

    def pending(self, since: Version, tables: Iterable[Table]) -> int | None:
        """Changes are not kept."""
        return 0 if since == self.version() else None

    def staged_columns(
        self, table: Table, columns: Sequence[Column], selection: exp.Expr | None
    ) -> pa.Table | None:
        """Never asked for: nothing is staged."""
        raise AssertionError(f"changes of {table.name} are not staged")

    def staged_limits(self, table: Table, column: Column) -> tuple[Value, Value]:
        """Never asked for: nothing is staged."""
        raise AssertionError(f"changes of {table.name} are not staged")

    def forget(self, versions: Sequence[Version]) -> None:
        """Nothing is kept."""

    def save(self, name: str, content: bytes | None) -> None:
        """Nothing to keep: the views are the state, and as durable as the database."""

    def saved(self) -> Mapping[str, bytes]:
        """Nothing."""
        return {}


class Streams(ViewletDatabase):
    """A database of our own, of streams that other databases feed; rows of a stream tell their fragment."""

    fragment_type = INT

    def __init__(self, keep: Keep, streams: Sequence[Table]) -> None:
        from viewlet.connecting import connect

        super().__init__(connect(backend="reference" if keep == "reference" else "auto"))
        self.filled = False
        self._news: dict[str, list[pa.Table]] = {}
        for stream in streams:
            columns = ", ".join(
                f"`{c.name}` {type_to_sql(c.type).sql(self.dialect)}{'' if c.nullable else ' NOT NULL'}"
                for c in stream.columns
            )
            self._database.execute(f"CREATE STREAM `{stream.name}` ({columns})")

    def mark(self, partition: Partition) -> tuple[str, Type]:
        """A column of the stream."""
        return by_fragment(partition)

    def fragment(self, partition: Partition) -> exp.Expr:
        """A column of the stream."""
        return exp.column(fragment_column(partition), quoted=True)

    staged_fragment = fragment

    def view_marks(self, name: str) -> list[Value]:
        """Fragments, never NULL and in any order, by way of an array: read after every batch, into a set."""
        marks: list[Value] = self._database.unordered(name).column(0).to_numpy().tolist()
        return marks

    def view_rows(self, name: str) -> pa.Table:
        """All rows of a view, in any order."""
        return self._database.read([name])[name]

    def watch(self, name: str) -> None:
        """From now on remember what every batch changes in a view."""
        changes = self._news[name] = []
        self._database.subscribe(name, changes.append, snapshot=False, weights=True)

    def news(self, name: str) -> list[pa.Table]:
        """What has changed in a view since this was asked last: its rows with ``_weight``."""
        changes, self._news[name][:] = list(self._news[name]), ()
        return changes

    def feed(self, batch: Mapping[str, pa.Table]) -> None:
        """One batch for all streams."""
        self.filled = True
        self._database.apply(batch)

    def image(self) -> bytes:
        """The views with all that they hold of the streams, in the form of a database in a file."""
        with TemporaryDirectory() as folder:
            container = Container(Path(folder) / "streams.viewlet", "off", self.dialect)
            with closing(container):
                snapshot = self._database.snapshot(Path(folder))
                with closing(snapshot.frozen):
                    write_checkpoint(container, snapshot, container.head)
            return container.path.read_bytes()

    def resume(self, image: bytes) -> None:
        """Take over the streams and views of an image; there must be none yet."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "streams.viewlet"
            path.write_bytes(image)
            with closing(Container(path, "off", self.dialect)) as container:
                Recovery(self._database, container, lambda done, total: None).run()
        self.filled = True

    def maps(self) -> Sequence[MapStats]:
        """What the views keep."""
        return self._database.stats().maps

    def entries(self) -> int:
        """The records of all maps."""
        return sum(stats.records for stats in self.maps())

    def close(self) -> None:
        """Free the memory."""
        self._database.close()
