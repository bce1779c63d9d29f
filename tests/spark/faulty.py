"""A database on a cluster of real executor processes, to which accidents happen; run as a program.

    python tests/spark/faulty.py SEED BATCHES

Tasks of the first partition end their own worker process, or the executor above it, or remove its directory,
before or after they do their work. After every batch the view is compared with one in this process.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import viewlet
import viewlet.backends.spark.native as native
import viewlet.spark_database as spark_database
from agree.agreement import QUICK
from viewlet.backends.spark.cluster import SparkCluster, state_directory
from viewlet.backends.spark.partition import Run
from viewlet.workloads import miniature, queries, schema
from viewlet.workloads.stream import churn

ACCIDENTS = ("worker", "executor", "directory", None)
QUERY = queries("tpch")["q03"]
DDL = schema("tpch").replace("PRIMARY KEY (l_orderkey, l_linenumber),", "")  # small data repeats line numbers


def meet(accident: str | None, directory: Path) -> None:
    """What happens to the process that runs a task."""
    if accident == "directory":
        shutil.rmtree(directory, ignore_errors=True)
    elif accident == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    elif accident == "executor":
        daemon = os.getppid()  # of the Python workers; its parent is the executor
        fields = Path(f"/proc/{daemon}/stat").read_text().rsplit(")", 1)[1].split()
        os.kill(int(fields[1]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class Unlucky(SparkCluster):
    """A cluster whose first partition meets accidents, each once."""

    marks = Path(tempfile.mkdtemp(prefix="viewlet-accidents-"))
    luck = random.Random(0)
    jobs = 0

    def task(self, operations: Any) -> Any:
        task, name, marks = super().task(operations), self._name, self.marks
        if not isinstance(operations[0], Run):
            return task
        Unlucky.jobs += 1
        accident, after, mark = self.luck.choice(ACCIDENTS), self.luck.random() < 0.5, marks / str(self.jobs)

        def unlucky(partition: int, rows: Iterator[int]) -> Any:
            due = partition == 0 and accident is not None and not mark.exists()
            if due:
                mark.touch()
            if due and not after:
                meet(accident, state_directory(name))
            answer = list(task(partition, rows))
            if due and after:
                meet(accident, state_directory(name))
            return iter(answer)

        return unlucky


def main() -> None:
    seed, batches = int(sys.argv[1]), int(sys.argv[2])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    native.DEFAULT_FLAGS = QUICK
    spark = (
        SparkSession.builder.master("local-cluster[2,1,2048]")
        .config("spark.ui.enabled", "false")
        .config("spark.task.maxFailures", "8")
        .config("spark.speculation", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    Unlucky.luck = random.Random(seed)
    spark_database.on_spark = lambda session: lambda code: Unlucky(session, code, 2)
    tables = {name: miniature.tables(orders=40)[name] for name in ("customer", "orders", "lineitem")}
    stream = churn(tables, seed=seed, deletions=0.3, duplicates=0.0)
    here, there = viewlet.connect(backend="reference"), viewlet.connect(spark)
    for db in (here, there):
        db.execute(DDL)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    for batch in stream.batches(max(1, len(stream) // batches)):
        here.apply(batch)
        there.apply(batch)
        assert there.view("v").rows() == here.view("v").rows()
    assert here.view("v").rows()
    happened = len(list(Unlucky.marks.iterdir()))
    assert happened >= batches
    print(f"{happened} accidents, results as without them")
    there.close()
    spark.stop()
    shutil.rmtree(Unlucky.marks)


if __name__ == "__main__":
    main()
