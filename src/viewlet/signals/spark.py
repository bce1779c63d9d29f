"""Signal queries on Spark: each partition holds whole keys in time order and runs the local executor.

Batch: repartition by key, sort within partitions by time, one executor per partition through ``mapInArrow``;
cost does not depend on the number of keys. Streaming: the same executor, one per bucket of keys, whose state
is a single checkpoint blob per bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from viewlet.signals.errors import SignalTypeError
from viewlet.signals.lower import walk
from viewlet.signals.nodes import Group, Source


def run_on_spark(query: Any, data: Any, buckets: int, lateness: Any, late: str) -> Any:
    """The result of a query over a DataFrame, as a DataFrame."""
    source = _only_source(query)
    if late == "revise":
        raise SignalTypeError("a stream of final rows cannot revise them; choose late='drop' or 'adjust'")
    if data.isStreaming:
        from viewlet.signals.spark_streaming import run_streaming

        return run_streaming(query, source, data, buckets, {"lateness": lateness, "late": late})
    if lateness is not None:
        raise SignalTypeError("lateness is for streams; a batch DataFrame is sorted by time")
    placed = data.repartition(*source.key) if source.key else data.coalesce(1)
    ordered = placed.sortWithinPartitions(source.time)
    schema = result_schema(query, ordered)
    return ordered.mapInArrow(_partition_function(query, schema), to_spark_schema(schema))


def _only_source(query: Any) -> Source:
    sources = {node for node in walk(query.node) if isinstance(node, Source)}
    if len({source.name for source in sources}) != 1:
        raise SignalTypeError(
            "on Spark a query reads one DataFrame; union the inputs and tell them apart by a column"
        )
    if any(isinstance(node, Group) for node in walk(query.node)):
        raise SignalTypeError(
            "group() would need a second exchange on Spark; put the key into the DataFrame and the source"
        )
    return sources.pop()


def _partition_function(query: Any, schema: pa.Schema) -> Any:
    def run_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        session = query.start()
        for batch in batches:
            yield from conform(session.push(batch), schema)
        if any(source.index is not None for source in session.executor.sources):
            yield from conform(session.flush(), schema)

    return run_partition


def conform(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of a result in the schema that Spark was told."""
    if table.num_rows:
        yield from table.cast(schema).to_batches()


def result_schema(query: Any, data: Any) -> pa.Schema:
    """The schema of a result, from a run over made-up rows with the DataFrame's column types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    incoming = to_arrow_schema(data.schema)
    source = _only_source(query)
    missing = [name for name in (*source.key, source.time, *source.value) if name not in incoming.names]
    if missing:
        raise SignalTypeError(
            f"the DataFrame has no column {missing[0]!r}; there are {', '.join(incoming.names)}"
        )
    result = query.run(_probe(query, source, incoming))
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
