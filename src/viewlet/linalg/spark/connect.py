"""From a SparkSession to arithmetic on its executors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from viewlet.errors import BackendError
from viewlet.linalg.arrays import Arrays
from viewlet.linalg.blas import Blas
from viewlet.linalg.cost import Machine
from viewlet.linalg.modular import Modular
from viewlet.linalg.run import Compute
from viewlet.linalg.spark.arrays import THIN, SparkArrays
from viewlet.linalg.spark.cluster import SparkHolders
from viewlet.linalg.spark.run import compute_in_levels

# Seconds that a round of messages to the workers takes, whatever they do.
ROUND_SECONDS = 0.005


def on_spark(
    spark: Any, arithmetic: Arrays, machine: Machine | None, store: Any
) -> tuple[Arrays, Compute, Machine]:
    """Blocks on the executors of a session, each of whose tasks is taken for one machine of this speed."""
    if not isinstance(arithmetic, Blas | Modular):
        raise BackendError(f"{type(arithmetic).__name__} does not run on Spark; leave out arrays= or spark=")
    if not hasattr(spark, "sparkContext"):
        raise BackendError(f"spark= takes a SparkSession, not {type(spark).__name__}")
    holders = SparkHolders(spark, arithmetic, store)
    one = machine if machine is not None else Machine()
    speeds = replace(
        one,
        flops=one.flops * holders.partitions,
        bandwidth=one.bandwidth * holders.partitions,
        vector=one.vector * holders.partitions,
        cached=one.cached * holders.partitions,
        round=one.round or ROUND_SECONDS,
        thin=THIN,
    )
    return SparkArrays(holders, arithmetic), compute_in_levels, speeds
