"""Matrix programs on Spark against re-evaluation there; a part of ``linalg.py``."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import viewlet.linalg as vl
from linalg_report import K, Report, contraction, row_changes, stored_megabytes

# Evaluated a single time: at this size it takes a minute.
ONCE_ON_SPARK = 8000


def spark_session(tasks: int) -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(f"local[{tasks}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def wall(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def on_spark(report: Report, sizes: list[int], narrow: int) -> None:
    session = spark_session(2)
    rows, plotted = [], {"re-evaluation": [], "maintained": []}
    for n in sizes:
        A0, A = contraction(n, np.random.default_rng(n)), vl.input("A", (n, n))
        program = {"C": vl.power(A, K)}
        rows.append(["A^16", n, "", *one_on_spark(session, program, {"A": A0}, "exponential", 1 / n**0.5, 9)])
        plotted["re-evaluation"].append((n, rows[-1][3]))
        plotted["maintained"].append((n, rows[-1][4]))
    n, p = narrow, 100
    with tempfile.TemporaryDirectory() as folder:
        A0 = contraction_on_disk(n, Path(folder) / "A.npy")
        A, B, T = vl.input("A", (n, n)), vl.input("B", (n, p)), vl.input("T0", (n, p))
        values = {"A": A0, "B": np.ones((n, p)), "T0": np.zeros((n, p))}
        program = {"T": vl.iterate(lambda t: A @ t + B, T, K)}
        rows.append(["T = A T + B", n, p, *one_on_spark(session, program, values, "linear", 1 / n**0.5, 3)])
    session.stop()
    report.table(
        "On Spark, local[2], one row of A replaced (Figures 6.5d, 6.8, Table 6.3)",
        f"k = {K}. Wall times in seconds. Re-evaluation is that of all views on Spark without its probe (at "
        f"n = {ONCE_ON_SPARK:,} the first, with the start of the workers' processes); maintained is the mean "
        "over updates, with the flushes among them, without probes. Memory is that of all blocks and of what "
        "the driver holds.",
        [
            "program",
            "n",
            "p",
            "re-evaluation s",
            "maintained s",
            "speed-up",
            "rounds per update",
            "flushes",
            "stored MB",
            "over inputs and results alone",
            "error after",
        ],
        rows,
    )
    if len(sizes) > 1:
        report.plot("spark", "A^16 on Spark, one row replaced", "n", "s", plotted)


def workers(report: Report, n: int) -> None:
    A0, A = contraction(n, np.random.default_rng(n)), vl.input("A", (n, n))
    rows = []
    for tasks in (1, 2):
        session = spark_session(tasks)
        measured = one_on_spark(session, {"C": vl.power(A, K)}, {"A": A0}, "exponential", 1 / n**0.5, 9)
        session.stop()
        rows.append([tasks, *measured[:5]])
    report.table(
        f"Workers on Spark, A^16, n = {n} (Figure 6.4)",
        "Tasks at once on one machine, one block of every matrix each. Wall times in seconds.",
        ["workers", "re-evaluation s", "maintained s", "speed-up", "rounds per update", "flushes"],
        rows,
    )
    plotted = {
        label: [(row[0], row[i]) for row in rows] for i, label in ((1, "re-evaluation"), (2, "maintained"))
    }
    report.plot("workers", f"A^16 on Spark, n = {n}", "workers", "s", plotted)


def contraction_on_disk(n: int, path: Path) -> Any:
    """As :func:`contraction`, made strip by strip in a file: the workers' blocks are the only other copy."""
    rng = np.random.default_rng(n)
    whole = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, n), fortran_order=True)
    for start in range(0, n, 500):
        strip = whole[:, start : start + 500]
        strip[:] = 0.9 * rng.standard_normal(strip.shape[::-1]).T / np.sqrt(n)
    return whole


def one_on_spark(
    session: Any, program: dict[str, Any], values: dict[str, Any], model: Any, scale: float, repeats: int
) -> list[Any]:
    made: list[vl.MatrixView] = []
    taken = wall(
        lambda: made.append(
            vl.maintain(program, inputs=values, spark=session, model=model, strategy="incremental")
        )
    )
    (view,) = made
    if max(map(max, view.program.shapes.values())) == ONCE_ON_SPARK:  # a minute: the start is little of it
        again = taken - wall(view.error)
    else:
        again = wall(view.recompute) - wall(view.error)
    changes = row_changes(view, "A", scale, np.random.default_rng(7))
    next(changes)  # compiles the trigger
    before, flushes, probes = view.arrays.rounds, view.arrays.flushes, view.health.probes
    mean = wall(lambda: [next(changes) for _ in range(repeats)]) / repeats
    assert view.health.probes == probes, "a probe fell among the measured updates"
    rounds, flushed = view.arrays.rounds - before, view.arrays.flushes - flushes
    plain = sum(
        math.prod(view.program.shapes[name]) for name in [*view.program.inputs, *view.program.outputs]
    )
    growth = view.program.stored_numbers() / plain
    row = [again, mean, again / mean, rounds / repeats, flushed, stored_megabytes(view), growth, view.error()]
    view.close()
    return row
