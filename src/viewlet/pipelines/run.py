"""Running a pipeline: every flow becomes batches of changes, each applied exactly once.

A flow that streams goes through ``foreachBatch``. The number of the batch, with the identity of the streaming
query, is the token of its commit: a batch that Spark delivers again is not applied again. What survives a
restart is decided by the database: a durable one goes on where it was, together with ``checkpoint``; one on
Spark or in memory starts from nothing, and so do the streams.

Sinks are written after the commit. A run that is interrupted ends between two batches, never between a commit
and its sinks. After a crash there, a sink of all rows is right with the batch that is delivered again, and
changes are written when the next run starts, from the outbox beside the database (``outbox.py``).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewlet.changes import CHANGE_TYPE, COMMIT_VERSION
from viewlet.connecting import connect
from viewlet.database import Database
from viewlet.pipelines.definitions import FlowDefinition, Pipeline, PipelineError, SinkDefinition
from viewlet.pipelines.lateness import (
    LATEST,
    LATEST_SCHEMA,
    Bound,
    as_datetime,
    check_time_column,
    read_delay,
)
from viewlet.pipelines.normalize import REASON, ROW, normalize, spark_type
from viewlet.pipelines.outbox import Outbox
from viewlet.spark_database import SparkDatabase, collected, folder_of

QUARANTINE = "quarantine"
QUARANTINE_SCHEMA = "flow VARCHAR NOT NULL, batch BIGINT NOT NULL, reason VARCHAR NOT NULL, content VARCHAR"


@dataclass(slots=True)
class Progress:
    """What a run has done so far: batches, rows taken and rows refused, per flow.

    A batch that a run before it had committed, and that Spark delivers again, is none of its own.
    """

    batches: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)

    def count(self, flow: str, rows: int, refused: int) -> None:
        """One more batch."""
        for counts, number in ((self.batches, 1), (self.rows, rows), (self.quarantined, refused)):
            counts[flow] = counts.get(flow, 0) + number


def run(
    pipeline: Pipeline,
    spark: Any,
    database: Database | str | None = None,
    *,
    checkpoint: str | None = None,
    every: str | None = None,
    told: Callable[[Progress], object] = lambda progress: None,
) -> Progress:
    """Create what is missing, feed every flow, and write the sinks after every batch.

    ``database`` is one that is open, the path of a durable one, or nothing for one on the session, which is
    durable if the session's ``spark.viewlet.database`` names a folder. Without
    ``every``, all that the sources have now is taken and the run ends. With it, say ``"1 second"``, streams
    are asked that often until they are stopped. ``told`` is called after every batch.
    """
    pipeline.check()
    if not isinstance(database, Database):
        with connect(spark if database is None else database) as opened:
            place = folder_of(spark) if database is None else f"file://{os.path.abspath(database)}"
            return _run(pipeline, spark, opened, place, checkpoint, every, told)
    return _run(pipeline, spark, database, None, checkpoint, every, told)


def _run(
    pipeline: Pipeline,
    spark: Any,
    database: Database,
    place: str | None,
    checkpoint: str | None,
    every: str | None,
    told: Callable[[Progress], object],
) -> Progress:
    if checkpoint is not None and place is None:
        raise PipelineError(
            "a checkpoint outlives a database that is not durable: what streams have read before a restart "
            "would be missing; give the path of a database, or leave the checkpoint out"
        )
    outbox = None
    if place is not None and any(sink.emits == "changes" for sink in pipeline.sinks.values()):
        outbox = Outbox(spark, f"{place.rstrip('/')}-outbox/{pipeline.name}")
    with tempfile.TemporaryDirectory(prefix="viewlet-streams-") as scratch:
        running = _Running(pipeline, spark, database, outbox, checkpoint or scratch, told)
        running.define()
        running.write_left()
        running.feed(every)
        return running.progress


class _Running:
    def __init__(
        self,
        pipeline: Pipeline,
        spark: Any,
        database: Database,
        outbox: Outbox | None,
        checkpoint: str,
        told: Callable[[Progress], object],
    ) -> None:
        self._pipeline, self._spark, self._database = pipeline, spark, database
        self._outbox, self._checkpoint, self._told = outbox, checkpoint, told
        self.progress = Progress()
        self._lock = Lock()
        self._ended = False
        self._changes: dict[str, list[pa.Table]] = {}
        self._token = ""

    def define(self) -> None:
        """Tables, the quarantine, views in order, and subscriptions of sinks."""
        execute = self._database.execute
        for table in self._pipeline.tables.values():
            execute(f"CREATE {table.kind} IF NOT EXISTS {table.name} ({table.schema})")
        execute(f"CREATE TABLE IF NOT EXISTS {QUARANTINE} ({QUARANTINE_SCHEMA})")
        for table in self._pipeline.tables.values():
            if table.late is not None:
                check_time_column(self._database.catalog[table.name], table.late[0])
                execute(f"CREATE TABLE IF NOT EXISTS {LATEST} ({LATEST_SCHEMA})")
        for view in self._pipeline.views.values():
            query = view.function()
            if not isinstance(query, str):
                if not isinstance(self._database, SparkDatabase):
                    raise PipelineError(
                        f"view {view.name!r}: a DataFrame needs a database on Spark; return SQL"
                    )
                query = self._database.sql_of(query)
            execute(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {view.name} AS {query}")
        for sink in self._pipeline.sinks.values():
            if sink.select:
                self._check(sink)
            if sink.emits == "changes":
                kept = self._changes.setdefault(sink.name, [])
                subscribe = partial(self._database.subscribe, sink.view, snapshot=False, weights=False)
                subscribe(kept.append)
                if self._outbox is not None:
                    subscribe(partial(self._put, self._outbox, sink.name), early=True)

    def _put(self, outbox: Outbox, sink: str, changes: pa.Table) -> None:
        outbox.put(sink, self._token, changes)

    def write_left(self) -> None:
        """Give sinks the changes of commits after which a run before this one ended at once."""
        if self._outbox is None:
            return
        for letter in self._outbox.left():
            committed = self._database.version_of(letter.token) == letter.version
            if committed and letter.sink in self._changes:
                self._save(self._pipeline.sinks[letter.sink], letter.changes, "append")
            self._outbox.discard(letter)

    def _check(self, sink: SinkDefinition) -> None:
        """Refuse expressions of a sink that Spark cannot read, before anything is committed."""
        columns = [f"`{c.name}` {spark_type(c.type)}" for c in self._database.view(sink.view).columns]
        if sink.emits == "changes":
            columns += [f"{CHANGE_TYPE} string", f"{COMMIT_VERSION} bigint"]
        try:
            _selected(self._spark.createDataFrame([], ", ".join(columns)), sink)
        except Exception as reason:
            raise PipelineError(f"sink {sink.name!r}: {str(reason).splitlines()[0]}") from reason

    def feed(self, every: str | None) -> None:
        """Apply whole DataFrames, then start the streams and wait for them."""
        queries = []
        for flow in self._pipeline.flows.values():
            frame = flow.function()
            if not frame.isStreaming:
                self._apply(flow, frame, f"{self._pipeline.name}/{flow.name}", 0)
                continue
            trigger = {"availableNow": True} if every is None else {"processingTime": every}
            queries.append(
                frame.writeStream.foreachBatch(self._batch(flow))
                .queryName(flow.name)
                .option("checkpointLocation", f"{self._checkpoint.rstrip('/')}/{flow.name}")
                .trigger(**trigger)
                .start()
            )
        try:
            for query in queries:
                query.awaitTermination()
        finally:
            with self._lock:  # what is committed reaches the sinks before Spark ends the jobs of the streams
                self._ended = True
            for query in queries:
                query.stop()

    def _batch(self, flow: FlowDefinition) -> Callable[[Any, int], None]:
        def apply(frame: Any, number: int) -> None:
            stream = frame._jdf.sparkSession().sparkContext().getLocalProperty("sql.streaming.queryId")
            self._apply(flow, frame, f"{self._pipeline.name}/{flow.name}/{stream}/{number}", number)

        return apply

    def _apply(self, flow: FlowDefinition, frame: Any, token: str, number: int) -> None:
        """One batch of a flow: one commit, of good rows and refused ones together."""
        definition = self._pipeline.tables[flow.target]
        table = self._database.catalog[flow.target]
        bound = None if definition.late is None else self._bound(table.name, *definition.late)
        found = collected(normalize(frame, table, definition.unique, bound))
        refused = pc.is_valid(found[REASON])
        good = found.filter(pc.invert(refused)).drop_columns([REASON, ROW])
        bad = [
            {"flow": flow.name, "batch": number, "reason": row[REASON], "content": row[ROW]}
            for row in found.filter(refused).to_pylist()
        ]
        changes = {table.name: good, **({QUARANTINE: bad} if bad else {})}
        with self._lock:
            if self._ended:
                raise PipelineError(
                    f"flow {flow.name!r}: the run has ended; batch {number} is for the next one"
                )
            if definition.late is not None:
                changes |= self._later(table.name, good[definition.late[0]])
            before, self._token = self._database.version, token
            after = self._database.apply(changes, token=token)
            for sink in self._pipeline.sinks.values():
                self._write(sink)
            if after > before:
                self.progress.count(flow.name, good.num_rows, len(bad))
            self._told(self.progress)

    def _latest(self, target: str) -> list[tuple[str, datetime]]:
        """The latest time that a table has taken, as the row that says so; none before the first."""
        return [row for row in self._database.table(LATEST).rows() if row[0] == target]

    def _bound(self, target: str, column: str, delay: str) -> Bound | None:
        known = self._latest(target)
        return Bound(column, known[0][1] - read_delay(delay)) if known else None

    def _later(self, target: str, times: pa.ChunkedArray) -> dict[str, list[dict[str, Any]]]:
        """The change of the latest time that a batch makes, if it is later."""
        found, known = pc.max(times).as_py(), self._latest(target)
        if found is None or (known and as_datetime(found) <= known[0][1]):
            return {}
        rows = [*((time, -1) for _, time in known), (as_datetime(found), 1)]
        return {LATEST: [{"target": target, "latest": time, "_weight": weight} for time, weight in rows]}

    def _write(self, sink: SinkDefinition) -> None:
        if sink.emits == "rows":
            self._save(sink, self._database.view(sink.view).to_arrow(), "overwrite")
            return
        waiting = self._changes[sink.name]
        if waiting:
            self._save(sink, pa.concat_tables(waiting), "append")
            waiting.clear()
            if self._outbox is not None:
                self._outbox.done(sink.name)

    def _save(self, sink: SinkDefinition, rows: pa.Table, mode: str) -> None:
        frame = _selected(self._spark.createDataFrame(rows), sink)
        frame.write.format(sink.format).mode(mode).options(**sink.options).save()


def _selected(frame: Any, sink: SinkDefinition) -> Any:
    return frame.selectExpr(*sink.select) if sink.select else frame
