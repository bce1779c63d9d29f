"""A database on a cluster of real executor processes, to which accidents happen; run as a program.

    python tests/spark/faulty.py SEED BATCHES [lines | jobs]

Partitions are reached by lines: processes that hold them are killed before they are told something or while
they work, and so are executors. Or by jobs: tasks of the first partition end their own worker process, or the
executor above it, or remove its directory, before or after they do their work. After every batch the view is
compared with one in this process.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import viewlet
import viewlet.backends.spark.native as native
import viewlet.spark_database as spark_database
from agree.agreement import QUICK
from viewlet.backends.spark.cluster import SparkCluster
from viewlet.backends.spark.partition import PartitionCode
from viewlet.workers import Workers
from viewlet.workers.jobs import Jobs, state_directory
from viewlet.workers.lines import Lines
from viewlet.workers.operations import Run
from viewlet.workloads import miniature, queries, schema
from viewlet.workloads.stream import churn

ACCIDENTS = {"worker": 35, "directory": 25, "executor": 4, None: 36}  # of 100: another executor takes long
QUERY = queries("tpch")["q03"]
DDL = schema("tpch").replace("PRIMARY KEY (l_orderkey, l_linenumber),", "")  # small data repeats line numbers
MARKS = Path(tempfile.mkdtemp(prefix="viewlet-accidents-"))
LUCK = random.Random()


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


def _accident() -> str | None:
    return LUCK.choices(list(ACCIDENTS), list(ACCIDENTS.values()))[0]


class UnluckyJobs(Jobs):
    """Jobs whose first partition meets accidents, each once."""

    def task(self, sequence: int, blobs: Sequence[bytes | None]) -> Any:
        task, name = super().task(sequence, blobs), self._executors.name
        if blobs[0] is None or not isinstance(pickle.loads(blobs[0]), Run):
            return task
        accident, after, mark = _accident(), LUCK.random() < 0.5, MARKS / str(sequence)

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


class UnluckyLines(Lines):
    """Lines to processes that are killed, and once in a while an executor with all of its own.

    No operation is struck more than twice: what fails four times is taken to be its own fault.
    """

    struck: tuple[int, int] = (0, 0)

    def ask(self, sequence: int, blobs: Sequence[bytes | None]) -> dict[int, bytes]:
        luck, times = LUCK.random(), self.struck[1] if self.struck[0] == sequence else 0
        if self._lines and luck < 0.3 and times < 2:
            self.struck = (sequence, times + 1)
            (MARKS / str(len(list(MARKS.iterdir())))).touch()
            if luck < 0.04:
                self._kill_executor()
            else:
                self._kill_process(while_it_works=luck < 0.17)
        return super().ask(sequence, blobs)

    def _kill_process(self, while_it_works: bool) -> None:
        victim = LUCK.choice(sorted(self.processes().values()))
        if while_it_works:
            os.kill(victim, signal.SIGSTOP)  # so that it is told, and dies of it
            threading.Timer(0.02, os.kill, (victim, signal.SIGKILL)).start()
        else:
            os.kill(victim, signal.SIGKILL)

    def _kill_executor(self) -> None:
        own = f"--app-id\0{self._executors.context.applicationId}".encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:
                continue
            if own in words and b"CoarseGrainedExecutorBackend" in words:
                os.kill(int(path.parent.name), signal.SIGKILL)
                time.sleep(0.2)  # its processes notice
                return


def main() -> None:
    seed, batches = int(sys.argv[1]), int(sys.argv[2])
    way = UnluckyJobs if sys.argv[3:] == ["jobs"] else UnluckyLines
    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [sys.path[0], os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # to find daemon.py
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    native.DEFAULT_FLAGS = QUICK
    spark = (
        SparkSession.builder.master("local-cluster[2,1,2048]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.task.maxFailures", "8")
        .config("spark.speculation", "false")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.shuffle.io.retryWait", "100ms")  # for blocks that only a dead executor had
        .config("spark.python.daemon.module", "spark.daemon")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    LUCK.seed(seed)
    spark_database.on_spark = lambda session, *_: (
        lambda code: SparkCluster(Workers(session, PartitionCode(code), 2, way))
    )
    tables = {name: miniature.tables(orders=40)[name] for name in ("customer", "orders", "lineitem")}
    here, there = viewlet.connect(backend="reference"), viewlet.connect(spark)
    for db in (here, there):
        db.execute(DDL)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    done = shown = 0
    while done < batches:
        stream = churn(
            tables, seed=seed + done, deletions=0.3, duplicates=0.0, cancelling=0.0
        )  # keys are enforced
        several = list(stream.batches(max(1, len(stream) // min(batches, 40))))[: batches - done]
        for batch in several:
            here.apply(batch)
            there.apply(batch)
            assert there.view("v").rows() == here.view("v").rows()
            shown += bool(here.view("v").rows())
        done += len(several)
        for name in tables:
            for db in (here, there):
                db.delete(name, db.table(name).to_arrow())
    assert shown
    happened = len(list(MARKS.iterdir()))
    assert happened >= batches // 8
    print(f"{done} batches, {happened} accidents, results as without them")
    there.close()
    spark.stop()
    shutil.rmtree(MARKS)


if __name__ == "__main__":
    main()
