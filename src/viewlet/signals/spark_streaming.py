"""Signal queries over streaming DataFrames: one session per bucket of keys, its state one binary blob.

State per key would cost Spark a round trip and small Arrow batches for each key of each micro-batch; a
bucket of many keys costs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from viewlet.signals import checkpoint
from viewlet.signals.nodes import Source
from viewlet.signals.spark import conform, result_schema, to_spark_schema


def run_streaming(query: Any, source: Source, data: Any, buckets: int, disorder: dict[str, Any]) -> Any:
    """A streaming DataFrame of what became final, in append mode.

    Within a micro-batch events are sorted by time; across micro-batches each key must come in time order, or
    be no later than ``disorder`` allows. A result that waits for later events of its key waits in the state,
    for a stream has no flush.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BinaryType, StructField, StructType

    query.start(**disorder)  # what it refuses, it refuses here and not in a worker
    schema = result_schema(query, {source.name: data})
    bucket = sql.abs(sql.hash(*source.key)) % buckets if source.key else sql.lit(0)
    state = StructType([StructField("session", BinaryType())])
    grouped = data.withColumn("_bucket", bucket).groupBy("_bucket")
    function = _bucket_function(query, source, schema, disorder)
    return grouped.applyInPandasWithState(function, to_spark_schema(schema), state, "append", _no_timeout())


def _no_timeout() -> Any:
    from pyspark.sql.streaming.state import GroupStateTimeout

    return GroupStateTimeout.NoTimeout


def _bucket_function(query: Any, source: Source, schema: pa.Schema, disorder: dict[str, Any]) -> Any:
    def run_bucket(bucket: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        session = query.start(**disorder)
        if state.exists:
            session.restore_snapshot(checkpoint.load(bytes(state.get[0])))
        parts = [pa.Table.from_pandas(frame, preserve_index=False) for frame in frames]
        table = pa.concat_tables(parts).drop_columns(["_bucket"]).sort_by(source.time)
        result = session.push(table)
        state.update((checkpoint.dump(session.snapshot()),))
        for batch in conform(result, schema):
            yield batch.to_pandas()

    return run_bucket
