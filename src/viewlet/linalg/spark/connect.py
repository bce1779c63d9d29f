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
from viewlet.linalg.spark.cluster import SparkWorkers
from viewlet.linalg.spark.run import compute_in_levels

# Seconds that a job takes on a session of this machine, whatever it does.
JOB_SECONDS = 0.08


def on_spark(
    spark: Any, arithmetic: Arrays, machine: Machine | None, store: Any
) -> tuple[Arrays, Compute, Machine]:
    """Blocks on the executors of a session, each of whose tasks is taken for one machine of this speed."""
    if not isinstance(arithmetic, Blas | Modular):
        raise BackendError(f"{type(arithmetic).__name__} does not run on Spark; leave out arrays= or spark=")
    if not hasattr(spark, "sparkContext"):
        raise BackendError(f"spark= takes a SparkSession, not {type(spark).__name__}")
    workers = SparkWorkers(spark, arithmetic, store)
    one = machine if machine is not None else Machine()
    speeds = replace(
        one,
        flops=one.flops * workers.partitions,
        bandwidth=one.bandwidth * workers.partitions,
        job=one.job or JOB_SECONDS,
        thin=THIN,
    )
    return SparkArrays(workers, arithmetic), compute_in_levels, speeds
