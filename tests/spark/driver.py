"""A driver with a durable database on Spark that is killed at some moment; run as a program.

    python tests/spark/driver.py FOLDER PARTITIONS SECONDS

Applies the batches of ``test_durable.py`` from where the folder's database is. Killed so many seconds after
its first batch, or never if that is 0; then it compares the views with those of a database in this process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import viewlet
import viewlet.backends.spark.native as native
from agree.agreement import QUICK
from spark.test_durable import batches, define, same


def main() -> None:
    folder, partitions, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    native.DEFAULT_FLAGS = QUICK
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.viewlet.partitions", partitions)
        .getOrCreate()
    )
    db = viewlet.connect(spark, folder, checkpoint_bytes=20_000)
    if "most" not in db.catalog:
        for name in [name for name in ("joined",) if name in db.catalog]:
            db.execute(f"DROP MATERIALIZED VIEW {name}")
        for name in [name for name in ("s", "r") if name in db.catalog]:
            db.execute(f"DROP {db.catalog[name].kind.value} {name}")
        define(db)
    stream = batches(9, 200)
    print(f"from batch {db.version}")
    sys.stdout.flush()
    begin = db.version
    for number in range(begin, len(stream)):
        db.apply(stream[number], token=f"batch {number}")
        if seconds and number == begin:  # the first batch starts workers, which takes as long as it takes
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    if seconds:
        return
    oracle = viewlet.connect(backend="reference")
    define(oracle)
    for batch in stream:
        oracle.apply(batch)
    same(db, oracle)
    print("the same")
    db.close()
    spark.stop()


if __name__ == "__main__":
    main()
