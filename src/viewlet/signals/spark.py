"""Signal queries on Spark: each partition holds whole keys in time order and runs the local executor.

Batch: repartition by key, then one executor per partition through ``mapInArrow``; cost does not depend on the
number of keys. A worker holds its partition and brings it into the order of time itself, which is cheap where
stretches of it are in order already, as they are behind an exchange; Spark's sort is paid for all rows alike.
Without a key there is but one partition, which may be longer than memory: Spark sorts it, and it streams.
Several sources become one DataFrame with a column for each.
Streaming: the same executor, one per bucket of keys, whose state is a single checkpoint blob per bucket.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.signals.errors import SignalTypeError
from viewlet.signals.lower import walk
from viewlet.signals.nodes import Group, Source
from viewlet.signals.runnable import named_inputs


def run_on_spark(query: Any, data: Any, buckets: int, lateness: Any, late: str) -> Any:
    """The result of a query over a DataFrame, or over several by source name, as a DataFrame."""
    sources = _sources(query)
    frames = named_inputs(data, list(sources))
    if missing := sorted(set(sources) - set(frames)):
        raise SignalTypeError(f"no DataFrame for source {missing[0]!r}; give a mapping by source name")
    if late == "revise":
        raise SignalTypeError("a stream of final rows cannot revise them; choose late='drop' or 'adjust'")
    if any(frame.isStreaming for frame in frames.values()):
        if len(sources) > 1:
            raise SignalTypeError(
                "a stream on Spark is one DataFrame; union the inputs and tell them apart by a column"
            )
        from viewlet.signals.spark_streaming import run_streaming

        ((name, source),) = sources.items()
        return run_streaming(query, source, frames[name], buckets, {"lateness": lateness, "late": late})
    if lateness is not None:
        raise SignalTypeError("lateness is for streams; a batch DataFrame is sorted by time")
    schema = result_schema(query, frames)
    function = _partition_function(query, schema)
    return _placed(sources, frames).mapInArrow(function, to_spark_schema(schema))


def _sources(query: Any) -> dict[str, Source]:
    """The sources of a query by name; a query that combines them has matched their keys."""
    found = {node.name: node for node in walk(query.node) if isinstance(node, Source)}
    if any(isinstance(node, Group) for node in walk(query.node)):
        raise SignalTypeError(
            "group() would need a second exchange on Spark; put the key into the DataFrame and the source"
        )
    return found


def _placed(sources: dict[str, Source], frames: Mapping[str, Any]) -> Any:
    """Rows of all sources, whole keys in one partition; without keys all rows, in the order of time.

    Where there are several, a row is a struct in the column of its source, which is NULL in rows of others;
    its key and its time are copied out of it, under names that are the same for all sources.
    """
    from pyspark.sql import functions as sql

    (only, source), *others = sources.items()
    if not others:
        rows = frames[only]
        return rows.repartition(*source.key) if source.key else _in_one(rows, source.time)
    keys = [f"_key{i}" for i in range(len(source.key))]
    parts = []
    for name, source in sources.items():
        columns = [sql.col(f"`{column}`") for column in frames[name].columns]
        copies = [sql.col(f"`{key}`").alias(alias) for key, alias in zip(source.key, keys, strict=True)]
        time = sql.col(f"`{source.time}`").alias("_time")
        parts.append(frames[name].select(*copies, time, sql.struct(*columns).alias(name)))
    rows = functools.reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    placed = rows.repartition(*keys) if keys else _in_one(rows, "_time")
    return placed.drop(*keys, "_time")


def _in_one(rows: Any, time: str) -> Any:
    return rows.coalesce(1).sortWithinPartitions(time)


def _partition_function(query: Any, schema: pa.Schema) -> Any:
    """A run over each partition: whole where it holds keys, batch by batch where it is one long signal."""
    sources = _sources(query)

    def run_whole(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if held:
            tables = _by_source(pa.Table.from_batches(held), list(sources))
            in_order = {name: _in_order(table, sources[name].time) for name, table in tables.items()}
            yield from conform(query.run(in_order), schema)

    def run_stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        session = query.start()
        for batch in batches:
            yield from conform(
                session.push(_by_source(pa.Table.from_batches([batch]), list(sources))), schema
            )
        if any(source.index is not None for source in session.executor.sources):
            yield from conform(session.flush(), schema)

    return run_whole if query.key else run_stream


def _in_order(table: pa.Table, time: str) -> pa.Table:
    """Rows by time; those of equal times keep their order. A NULL time is left for the session to refuse."""
    times = table.column(time).to_numpy()
    if table.column(time).null_count or not (times[1:] < times[:-1]).any():
        return table
    return table.take(pa.array(np.argsort(times, kind="stable")))


def _by_source(table: pa.Table, names: list[str]) -> dict[str, pa.Table]:
    """The rows of each source that a table holds, of some perhaps none."""
    if len(names) == 1:
        return {names[0]: table}
    parts = {name: table.column(name).combine_chunks().drop_null() for name in names}
    return {
        name: pa.table(part.flatten(), names=[field.name for field in part.type])
        for name, part in parts.items()
    }


def conform(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of a result in the schema that Spark was told."""
    if table.num_rows:
        yield from table.cast(schema).to_batches()


def result_schema(query: Any, frames: Mapping[str, Any]) -> pa.Schema:
    """The schema of a result, from a run over made-up rows with the DataFrames' column types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    probes = {}
    for name, source in _sources(query).items():
        incoming = to_arrow_schema(frames[name].schema)
        for column in (*source.key, source.time, *source.value):
            if column not in incoming.names:
                raise SignalTypeError(
                    f"the DataFrame of source {name!r} has no column {column!r}; there are "
                    f"{', '.join(incoming.names)}"
                )
        probes[name] = _probe(query, source, incoming)
    result = query.run(probes)
    if any(pa.types.is_null(field.type) for field in result.schema):
        raise SignalTypeError("the types of the result depend on the data in a way that Spark cannot be told")
    return pa.schema([_plain(field) for field in result.schema])


def _probe(query: Any, source: Source, schema: pa.Schema) -> pa.Table:
    """Two events of one key, a grid apart, so that every operator yields something."""
    period: Any = getattr(query, "period", None) or getattr(getattr(query, "signal", None), "period", 1)
    step = int(period) if query.clock != "ns" else 1
    columns = {}
    for field in schema:
        if field.name in (source.time, source.end):
            shift = 0 if field.name == source.time else 1
            columns[field.name] = pa.array([shift, step + shift], pa.int64()).cast(field.type)
        elif pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            columns[field.name] = pa.array([1, 1], pa.int64()).cast(field.type)
        elif pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            columns[field.name] = pa.array(["a", "a"], field.type)
        else:
            columns[field.name] = pa.nulls(2, field.type)
    return pa.table(columns)


def _plain(field: pa.Field) -> pa.Field:
    """Spark has lists of any length only."""
    return pa.field(field.name, _variable(field.type))


def _variable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_variable(kind.value_type))
    return kind


def to_spark_schema(schema: pa.Schema) -> Any:
    """A schema for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
