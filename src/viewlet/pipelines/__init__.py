"""Pipelines: sources, views and sinks on Spark, stated once and run as a batch or for ever.

The words are those of Spark Declarative Pipelines; what differs is that a view costs what its changes cost::

    from pyspark.sql import SparkSession
    from viewlet.pipelines import append_flow, create_sink, materialized_view, table

    @table(schema="id BIGINT NOT NULL, customer VARCHAR, amount BIGINT")
    def orders():
        return SparkSession.active().readStream.schema(...).json("incoming/")

    @materialized_view
    def spending():
        return "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"

    create_sink("report", view="spending", format="parquet", options={"path": "report/"})

``viewlet run FILE`` runs such a file; a :class:`Pipeline` has the same words, for programs that run it
themselves.
"""

from __future__ import annotations

from viewlet.pipelines.definitions import (
    Pipeline,
    append_flow,
    create_sink,
    materialized_view,
    table,
)
from viewlet.pipelines.load import load
from viewlet.pipelines.run import Progress, run

__all__ = [
    "Pipeline",
    "Progress",
    "append_flow",
    "create_sink",
    "load",
    "materialized_view",
    "run",
    "table",
]
