"""A database on a Spark session: the state of views lives in partitions on its executors.

Tables with kept rows (CREATE TABLE) are kept and checked on the driver, and so are batches on their way to
the partitions; a STREAM keeps nothing there. Views are read where their rows lie, and come to the driver in
columns. With a folder, or in a session whose ``spark.viewlet.database`` names one, it is durable
(``spark_journal.py``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from viewlet import adhoc
from viewlet.backends import Backend
from viewlet.backends.base import Granularity, Strategy
from viewlet.backends.spark.catalyst import MARK, dataframe_to_sql
from viewlet.backends.spark.catalyst.tree import quoted
from viewlet.backends.spark.engine import SparkEngine, on_spark
from viewlet.changes import Data
from viewlet.database import Database
from viewlet.errors import BackendError, DataError, SqlError
from viewlet.kept import OnConflict
from viewlet.spark_journal import attach_folder
from viewlet.sql import parse
from viewlet.sql.foreign import spark_means
from viewlet.subscriptions import Subscription
from viewlet.values import to_arrow
from viewlet.workers import Traffic

FOLDER = "spark.viewlet.database"
PARTITION = "spark.viewlet.partition."


def connect_spark(
    target: object,
    folder: str | os.PathLike[str] | None,
    backend: Backend,
    strategy: Strategy,
    dialect: str,
    checkpoint_bytes: int,
    options: Mapping[str, object],
) -> SparkDatabase:
    """A database on a Spark session; options that only databases in this process have are refused."""
    kind = type(target)
    if not (kind.__module__.startswith("pyspark.") and kind.__name__ == "SparkSession"):
        raise BackendError(f"cannot connect to a {kind.__name__}: give nothing, a path, or a SparkSession")
    if kind.__module__.startswith("pyspark.sql.connect"):
        raise BackendError("Spark Connect gives no access to executors: use a classic SparkSession")
    if backend != "auto":
        raise BackendError(f"backend={backend!r} runs in this process: leave it out on Spark")
    for name, value in options.items():
        if value is not None:
            raise BackendError(f"{name}={value!r} is for databases in this process, not on Spark")
    database = SparkDatabase(target, strategy, dialect)
    uri = folder_of(target) if folder is None else _uri(folder)
    if uri is not None:
        try:
            attach_folder(database, target, uri, checkpoint_bytes)
        except BaseException:
            database.close()
            raise
    return database


def folder_of(spark: Any) -> str | None:
    """The folder of a session's durable database, if it has one."""
    found: str | None = spark.conf.get(FOLDER, None)
    return found


def declared_columns(spark: Any) -> dict[str, str]:
    """The columns by which a session declares maps of tables to be partitioned, by table."""
    settings: Mapping[str, str] = spark.conf.getAll
    return {
        name.removeprefix(PARTITION).lower(): column.lower()
        for name, column in settings.items()
        if name.startswith(PARTITION)
    }


def _uri(folder: str | os.PathLike[str]) -> str:
    """A Hadoop path as it is; a path of this machine with its scheme."""
    return folder if isinstance(folder, str) else Path(folder).absolute().as_uri()


class SparkDatabase(Database):
    """A database whose views are kept by the executors of a Spark session; see :class:`Database`."""

    def __init__(self, spark: Any, strategy: Strategy, dialect: str) -> None:
        self._spark = spark
        self._started: list[SparkEngine] = []
        super().__init__(backend=self._engine, strategy=strategy, dialect=dialect)

    def _create_table(self, statement: parse.CreateTable) -> None:
        if any(key.enforced for key in statement.table.references):
            raise BackendError(
                f"table {statement.table.name!r}: foreign keys are not enforced on Spark, where partitions "
                "start from rows in any order; leave out ON DELETE RESTRICT"
            )
        super()._create_table(statement)

    def _engine(self, strategy: Strategy) -> SparkEngine:
        engine = SparkEngine(on_spark(self._spark), declared_columns(self._spark))
        self._started.append(engine)
        return engine

    def insert(self, table: str, data: Data, *, on_conflict: OnConflict | None = None) -> int:
        """Insert rows, also of a Spark DataFrame; see :meth:`Database.insert`."""
        return super().insert(table, local(data), on_conflict=on_conflict)

    def delete(self, table: str, data: Data) -> int:
        """Delete rows, also of a Spark DataFrame; see :meth:`Database.delete`."""
        return super().delete(table, local(data))

    def apply(
        self, batch: Mapping[str, Data], *, trigger: Granularity = "auto", token: str | None = None
    ) -> int:
        """Apply changes, also given as Spark DataFrames; see :meth:`Database.apply`."""
        if isinstance(batch, Mapping):
            batch = {name: local(data) for name, data in batch.items()}
        return super().apply(batch, trigger=trigger, token=token)

    def frame(self, name: str) -> Any:
        """An empty DataFrame that stands for a table or view in :meth:`create_view`."""
        with self._open():
            table = self.catalog[name]
        return self._spark.createDataFrame(to_arrow([], table.columns)).alias(f"{MARK}{table.name}")

    def create_view(self, name: str, frame: Any) -> None:
        """Create a materialized view from a DataFrame over :meth:`frame` of tables and views."""
        view = exp.to_identifier(name, quoted=True).sql(self.dialect)
        self.execute(f"CREATE MATERIALIZED VIEW {view} AS {self.sql_of(frame)}")

    def sql_of(self, frame: Any) -> str:
        """The SQL text of a DataFrame over :meth:`frame` of tables and views, in the database's dialect."""
        if not hasattr(frame, "_jdf"):
            raise SqlError(
                f"a view is made of a DataFrame over db.frame(name), not of a {type(frame).__name__}: "
                'for SQL there is db.execute("CREATE MATERIALIZED VIEW name AS ...")'
            )
        if self.dialect != "spark":
            raise SqlError("a DataFrame means what Spark means: connect with dialect='spark'")
        return dataframe_to_sql(frame)

    def to_spark(self, name: str) -> Any:
        """The present rows of a table or view as a DataFrame."""
        return self._spark.createDataFrame(self.read([name])[name])

    def register(self, view: str, name: str | None = None) -> Subscription:
        """Give a view's rows to Spark SQL as a temporary view of the session, anew whenever they change.

        It has the view's name, or another one. A query that has begun keeps the rows that it began with. Once
        the subscription is closed, the rows of that time stay.
        """
        chosen = quoted(view if name is None else name)

        def refresh(_: object = None) -> None:
            self.to_spark(view).createOrReplaceTempView(chosen)

        subscription = self.view(view).subscribe(refresh)
        refresh()
        return subscription

    def sql(self, text: str) -> pa.Table:
        """The result of an ad-hoc query, answered by Spark SQL; views of the session are left alone."""
        from pyspark.errors import PySparkException

        with self._open():
            query = spark_means(parse.parse_query(text, self.dialect))
            names = {name: f"viewlet_{name}" for name in adhoc.named_relations(query)}
            for table in list(query.find_all(exp.Table)):
                if table.name.lower() in names:
                    table.set("alias", table.args.get("alias") or exp.TableAlias(this=table.this.copy()))
                    table.set("this", exp.to_identifier(names[table.name.lower()], quoted=True))
            for name, rows in self.read(names).items():
                self._spark.createDataFrame(rows).createOrReplaceTempView(names[name])
            try:
                return self._spark.sql(query.sql("spark")).toArrow()
            except PySparkException as reason:
                raise SqlError(f"Spark refuses the query: {reason}") from None
            finally:
                for own in names.values():
                    self._spark.catalog.dropTempView(own)

    def traffic(self) -> list[Traffic]:
        """What has passed between the driver and the partitions so far, one for each group of views."""
        with self._open():
            return [found for engine in self._started if (found := engine.traffic()) is not None]

    def close(self) -> None:
        """Give up the data, also in the partitions."""
        super().close()
        for engine in self._started:
            engine.close()
        self._started.clear()


def local(data: Data) -> Data:
    """Data that the driver holds: a Spark DataFrame is collected as Arrow.

    TIMESTAMP has no time zone here, so a moment becomes what a clock of the session's zone shows then.
    """
    if not type(data).__module__.startswith("pyspark."):
        return data
    frame: Any = data.to_spark() if type(data).__module__.startswith("pyspark.pandas") else data
    if not hasattr(frame, "toArrow"):
        return data
    if frame.isStreaming:
        raise DataError("a DataFrame that streams has no rows yet: use foreachBatch, or a pipeline")
    moments = [name for name, kind in frame.dtypes if kind == "timestamp"]
    if moments:
        frame = frame.withColumns({name: frame[quoted(name)].cast("timestamp_ntz") for name in moments})
    return collected(frame)


def collected(frame: Any) -> pa.Table:
    """The rows of a DataFrame on the driver, in Arrow; refuses more than Spark's driver may take."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        return frame.toArrow()
    except Py4JJavaError as reason:
        if "spark.driver.maxResultSize" not in str(reason):
            raise
        raise DataError(
            "the DataFrame is larger than spark.driver.maxResultSize: raise that setting, and "
            "spark.driver.memory with it, or apply the rows in several batches"
        ) from None
