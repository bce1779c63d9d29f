# ruff: noqa: E402  the number of BLAS threads is set before NumPy is imported
"""Incremental linear algebra against re-evaluation: Figures 6.3-6.8, Tables 6.3-6.4 of the thesis, and more.

    python benchmarks/linalg.py --quick              # small sizes, a minute
    python benchmarks/linalg.py --sizes 1000 2000 4000 --large 8000 [--parts powers ols ...]

BLAS runs on one thread and times are CPU seconds of this process, the smallest of a few repetitions: ratios
are comparable across loaded machines. Re-evaluation is bound by arithmetic and gains from more cores,
maintenance by memory bandwidth and does not, so expect smaller ratios on many cores. The parts on Spark give
wall times, with one BLAS thread per task: they need a quiet machine.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy loads its BLAS

import argparse
import math
import platform
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import scipy.linalg

import viewlet.linalg as vl
from linalg_pagerank import pagerank
from linalg_report import (
    RESULTS,
    K,
    Report,
    contraction,
    held_megabytes,
    milliseconds,
    stored_megabytes,
    update_time,
)
from linalg_spark import on_spark, workers
from viewlet.linalg.delta import FactorShape


def numpy_exponential(A: np.ndarray) -> Callable[[int, np.ndarray], None]:
    """The obvious hand-written INCR-EXP for A^16: factored deltas, but ``P += U @ V.T``."""
    powers = [A.copy()]
    for _ in range(4):
        powers.append(powers[-1] @ powers[-1])

    def update(row: int, values: np.ndarray) -> None:
        u = np.zeros((len(A), 1))
        u[row] = 1.0
        v = (values - powers[0][row]).reshape(-1, 1)
        deltas = [(u, v)]
        for P in powers[:-1]:
            u, v = deltas[-1]
            deltas.append((np.hstack([u, P @ u + u @ (v.T @ u)]), np.hstack([P.T @ v, v])))
        for P, (u, v) in zip(powers, deltas, strict=True):
            P += u @ v.T

    return update


def first_evaluation(make: Callable[[], vl.MatrixView]) -> tuple[vl.MatrixView, float]:
    """A view, and the CPU time in ms of evaluating it for the first time, without its probe."""
    start = time.process_time()
    view = make()
    taken = 1000 * (time.process_time() - start)
    return view, taken - milliseconds(view.error, 1)


def powers_once(n: int) -> tuple[list[Any], list[Any]]:
    """A^16 in the exponential model, where every evaluation takes a minute: the first one is the rival."""
    A0, A = contraction(n, np.random.default_rng(n)), vl.input("A", (n, n))
    view, rival = first_evaluation(
        lambda: vl.maintain({"C": vl.power(A, K)}, A=A0, model="exponential", strategy="incremental")
    )
    taken, megabytes, plain = (
        update_time(view, "A", 1 / n**0.5, 3),
        stored_megabytes(view),
        2 * n * n * 8 / 1e6,
    )
    row = [n, "exponential", rival, math.nan, taken, rival / taken, megabytes, view.error()]
    memory = [n, "exponential", plain, megabytes, rival, taken, (rival / taken) / (megabytes / plain)]
    return row, memory


def powers(report: Report, sizes: list[int], large: list[int]) -> None:
    rng = np.random.default_rng(0)
    rows, plotted = [], {"re-evaluation": [], "exponential": [], "krylov": [], "NumPy lines": []}
    memory_rows = []
    for n in sizes:
        A0, A = contraction(n, rng), vl.input("A", (n, n))
        repeats = 5 if n <= 2000 else 3
        rival = milliseconds(lambda A0=A0: np.linalg.matrix_power(A0, K), 2 if n <= 2000 else 1)
        obvious = math.nan  # its own four products would double the time of the largest n
        if n <= 2000:
            by_hand = numpy_exponential(A0)
            obvious = milliseconds(
                lambda n=n, f=by_hand: f(int(rng.integers(n)), rng.standard_normal(n) / n**0.5), repeats
            )
            plotted["NumPy lines"].append((n, obvious))
            del by_hand
        plotted["re-evaluation"].append((n, rival))
        for model in ("exponential", "krylov", "skip", "linear"):
            if model in ("linear", "skip") and n > 2000:
                continue
            view = vl.maintain(
                {"C": vl.power(A, K)},
                A=A0,
                model=model,
                skip=4 if model == "skip" else None,
                strategy="incremental",
            )
            taken = update_time(view, "A", 1 / n**0.5, repeats)
            megabytes = stored_megabytes(view)
            rows.append(
                [n, str(view.program.model), rival, obvious, taken, rival / taken, megabytes, view.error()]
            )
            if model in plotted:
                plotted[model].append((n, taken))
            if model in ("exponential", "krylov"):
                plain = 2 * n * n * 8 / 1e6
                memory_rows.append(
                    [n, model, plain, megabytes, rival, taken, (rival / taken) / (megabytes / plain)]
                )
            del view
    for n in large:
        row, memory = powers_once(n)
        rows.append(row)
        memory_rows.append(memory)
        plotted["re-evaluation"].append((n, row[2]))
        plotted["exponential"].append((n, row[4]))
    report.table(
        "A^16, one row of A replaced (Figures 6.5a, 6.5c)",
        "Re-evaluation is `np.linalg.matrix_power`, four products (for the largest n, the first evaluation "
        "of the view, which is the same four). 'NumPy lines' is the same factored maintenance written by "
        "hand with `P += U @ V.T`. Times in ms of CPU.",
        ["n", "model", "re-evaluation", "NumPy lines", "viewlet", "speed-up", "stored MB", "error after"],
        rows,
    )
    report.plot("powers", "A^16, one row replaced", "n", "ms", plotted)
    report.table(
        "Memory beside speed (Table 6.3)",
        "The last column is the speed-up divided by the growth of memory over A and the result alone.",
        [
            "n",
            "model",
            "re-evaluation MB",
            "maintained MB",
            "re-evaluation ms",
            "maintained ms",
            "speed-up per memory",
        ],
        memory_rows,
    )


def steps(report: Report, n: int) -> None:
    rng = np.random.default_rng(1)
    A0, A = contraction(n, rng), vl.input("A", (n, n))
    rows, plotted = [], {"re-evaluation": [], "maintained": []}
    for k in (2, 4, 8, 16, 32, 64, 128, 256):
        rival = milliseconds(lambda k=k: np.linalg.matrix_power(A0, k), 1)
        view = vl.maintain({"C": vl.power(A, k)}, A=A0, model="exponential", strategy="incremental")
        taken = update_time(view, "A", 1 / n**0.5, 3)
        chosen = view.plan({"A": (FactorShape(1, selects_rows=True),)})
        rows.append([k, rival, taken, rival / taken, chosen.trigger.ranks["C"], stored_megabytes(view)])
        plotted["re-evaluation"].append((k, rival))
        plotted["maintained"].append((k, taken))
    report.table(
        f"A^k, exponential model, n = {n} (Figure 6.5e)",
        "Times in ms of CPU; the rank is that of the factored change of A^k.",
        ["k", "re-evaluation", "maintained", "speed-up", "rank", "stored MB"],
        rows,
    )
    report.plot("steps", f"A^k, n = {n}", "k", "ms", plotted)


def sums(report: Report, sizes: list[int]) -> None:
    rng = np.random.default_rng(2)
    rows, plotted = [], {"re-evaluation": [], "exponential": [], "krylov": []}
    for n in sizes:
        A0, A = contraction(n, rng), vl.input("A", (n, n))
        for model in ("exponential", "krylov"):
            view = vl.maintain({"S": vl.power_sum(A, K)}, A=A0, model=model, strategy="incremental")
            rival = milliseconds(view.recompute, 1)
            taken = update_time(view, "A", 1 / n**0.5, 3)
            rows.append([n, model, rival, taken, rival / taken, stored_megabytes(view)])
            plotted[model].append((n, taken))
            del view
        plotted["re-evaluation"].append((n, rival))
    report.table(
        "I + A + ... + A^15 (Figure 6.6)",
        "Re-evaluation by doubling, S_2i = A^i S_i + S_i. Times in ms of CPU.",
        ["n", "model", "re-evaluation", "maintained", "speed-up", "stored MB"],
        rows,
    )
    report.plot("sums", "sum of 16 powers, one row replaced", "n", "ms", plotted)


def ols(report: Report, sizes: list[int], large: list[int]) -> None:
    rng = np.random.default_rng(3)
    rows, plotted = [], {"solve": [], "Cholesky": [], "X'X kept, Cholesky": [], "maintained": []}
    for m, n in [*((n, n) for n in [*sizes, *large]), (20_000, 500)]:
        X0, Y0 = rng.standard_normal((m, n)), rng.standard_normal((m, 1))
        if m == n:
            X0 += 2 * np.sqrt(n) * np.eye(n)  # a square random matrix alone is nearly singular
        X, Y = vl.input("X", (m, n)), vl.input("Y", (m, 1))
        repeats = 3 if n <= 2000 else 1
        cholesky = milliseconds(
            lambda X0=X0, Y0=Y0: scipy.linalg.cho_solve(scipy.linalg.cho_factor(X0.T @ X0), X0.T @ Y0),
            repeats,
        )
        if n in large:  # the best rival is enough where everything takes half a minute
            solve = kept = math.nan
        else:
            solve = milliseconds(lambda X0=X0, Y0=Y0: np.linalg.solve(X0.T @ X0, X0.T @ Y0), repeats)
            gram, cross = X0.T @ X0, X0.T @ Y0
            kept = milliseconds(lambda g=gram, c=cross, X0=X0: kept_gram(g, c, X0), repeats)
        view = vl.maintain({"beta": (X.T @ X).inv() @ X.T @ Y}, X=X0, Y=Y0, strategy="incremental")
        taken = update_time(view, "X", 1.0, 5)
        best = np.nanmin([solve, cholesky])
        memory = stored_megabytes(view), 8e-6 * (m * n + m + n)
        ratios = best / taken, kept / taken
        rows.append([m, n, solve, cholesky, kept, taken, *ratios, *memory, view.error()])
        if m == n:
            for label, value in zip(plotted, (solve, cholesky, kept, taken), strict=True):
                if not math.isnan(value):
                    plotted[label].append((n, value))
        del view
    report.table(
        "Ordinary least squares, one row of X replaced (Figure 6.3)",
        "'X'X kept' is the fair rival for tall X: it updates X'X and X'y by rank two and solves by Cholesky. "
        "Square X has 2 sqrt(n) added on its diagonal; replaced rows lack it, so X'X is ill-conditioned: "
        "the error stands above the default tolerance until the next probe. Times in ms of CPU.",
        [
            *("rows", "n", "solve", "Cholesky", "X'X kept", "maintained", "speed-up", "over X'X kept"),
            *("stored MB", "X, Y, beta MB", "error"),
        ],
        rows,
    )
    report.plot("ols", "least squares, one row replaced (m = n)", "n", "ms", plotted)


def kept_gram(gram: np.ndarray, cross: np.ndarray, X0: np.ndarray) -> None:
    rows = X0[:2]  # any rank-two change costs the same; adding keeps X'X positive definite
    changed = gram + rows.T @ rows
    scipy.linalg.cho_solve(scipy.linalg.cho_factor(changed, overwrite_a=True), cross)


def general(report: Report, points: list[tuple[int, int]], offset: bool, title: str, name: str) -> None:
    """T_(i+1) = A T_i, or A T_i + B, for pairs of n and p of which one varies."""
    rng = np.random.default_rng(4)
    axis = 0 if len({n for n, _ in points}) > 1 else 1
    rows, plotted = [], {"re-evaluation": [], "incremental": [], "hybrid": [], "auto": []}
    for n, p in points:
        A0, B0, T0 = contraction(n, rng), rng.standard_normal((n, p)), rng.standard_normal((n, p))
        A, B, T = vl.input("A", (n, n)), vl.input("B", (n, p)), vl.input("T0", (n, p))

        def step(t: Any, A: Any = A, B: Any = B) -> Any:
            return A @ t + B if offset else A @ t

        values = {"A": A0, "T0": T0, **({"B": B0} if offset else {})}
        program = {"T": vl.iterate(step, T, K)}
        of_this = []
        for strategy, model in strategies(n, p):
            view = vl.maintain(
                program,
                strategy=strategy,
                model=model,
                skip=4 if model == "skip" else None,
                machine=machine(),
                inputs=values,
            )
            taken = update_time(view, "A", 1 / n**0.5, repetitions(n, p))
            served = view.update("A", rows={0: rng.standard_normal(n) / n**0.5}).strategy
            of_this.append([n, p, strategy, str(view.program.model), served, taken, stored_megabytes(view)])
            if strategy == "auto" or model == ("auto" if (strategy, p) == ("hybrid", 1) else "linear"):
                label = "re-evaluation" if strategy == "reevaluate" else strategy
                plotted[label].append(((n, p)[axis], taken))
            del view
        baseline = min(row[5] for row in of_this if row[2] == "reevaluate")
        best = min(row[5] for row in of_this)
        rows += [[*row, baseline / row[5], row[5] / best] for row in of_this]
    report.table(
        title,
        f"k = {K}, one row of A replaced; speed-up over the quickest re-evaluation, and time over the best "
        "of all strategies, for the same n and p. 'auto' lets the cost model choose model and strategy. "
        "Times in ms of CPU." + worst_hybrid(rows),
        ["n", "p", "strategy", "model", "served by", "ms", "stored MB", "speed-up", "over the best"],
        rows,
    )
    shown = {label: line for label, line in plotted.items() if line}
    report.plot(name, title, "np"[axis], "ms", shown)


def worst_hybrid(rows: list[list[Any]]) -> str:
    """For vectors: how far hybrid evaluation, its model chosen by cost, is from the best of all."""
    over = {row[0]: row[8] for row in rows if row[1] == 1 and row[2] == "hybrid"}
    if not over:
        return ""
    n = max(over, key=lambda one: over[one])
    return f" For p = 1 hybrid evaluation takes at most {over[n]:.2f} times the best (at n = {n})."


def repetitions(n: int, p: int) -> int:
    """Of which the quickest counts: many where an update takes microseconds, one where it takes seconds."""
    return 1 if n * p > 10**6 else 3 if n * p > 10**4 else max(6, min(n - 2, 60_000 // n))


def strategies(n: int, p: int) -> list[tuple[str, str]]:
    chosen = [("reevaluate", "linear"), ("incremental", "linear"), ("hybrid", "linear"), ("auto", "auto")]
    if p > 1:
        chosen.insert(2, ("incremental", "krylov"))
    if n <= 2000:
        chosen += [("incremental", "exponential"), ("incremental", "skip"), ("hybrid", "skip")]
    if p == 1:
        chosen.append(("hybrid", "auto"))  # the goal for p = 1: never 10 % worse than the best of all
    return chosen if n * p < 4 * 10**6 else [one for one in chosen if one[0] != "hybrid"]


_MACHINE: list[vl.Machine] = []


def machine() -> vl.Machine:
    if not _MACHINE:
        _MACHINE.append(vl.calibrate())
    return _MACHINE[0]


def batches(report: Report, n: int) -> None:
    rng = np.random.default_rng(5)
    A0, A = contraction(n, rng), vl.input("A", (n, n))
    program = {"C": vl.power(A, K)}
    view = vl.maintain(program, A=A0, model="exponential", strategy="incremental", machine=machine())
    auto = vl.maintain(program, A=A0, model="exponential", strategy="auto", machine=machine())
    again = milliseconds(auto.recompute, 2)
    rows, measured = [], []
    for rank in (1, 4, 16, 32, 64, 96, 128, 192, 256):
        if rank > n // 2:
            break
        chosen = rng.choice(n, rank, replace=False)
        change = {int(i): rng.standard_normal(n) / n**0.5 for i in chosen}
        view.plan({"A": (FactorShape(rank, selects_rows=True),)})
        taken = milliseconds(lambda change=change: view.update("A", rows=change), 1)
        costs = auto.plan({"A": (FactorShape(rank, selects_rows=True),)}).costs
        measured.append((rank, taken))
        rows.append([rank, taken, again, again / taken, 1000 * costs["incremental"].seconds,
                     1000 * costs["reevaluate"].seconds])  # fmt: skip
    predicted = next(
        (
            r
            for r in range(1, n)
            if auto.plan({"A": (FactorShape(r, selects_rows=True),)}).strategy == "reevaluate"
        ),
        n,
    )
    held, plain = stored_megabytes(view), 2 * 8e-6 * n * n
    memory = f"Maintained views hold {held:.0f} MB, A and the result alone {plain:.0f} MB."
    report.table(
        f"Batches of distinct rows, A^16, n = {n}",
        f"Crossover predicted by the cost model at rank {predicted}, measured at rank "
        f"{crossover(measured, again):.0f}. Times in ms of CPU. {memory}",
        [
            "rows",
            "maintained",
            "re-evaluation",
            "speed-up",
            "predicted maintained",
            "predicted re-evaluation",
        ],
        rows,
    )
    lines = {"maintained": 1, "re-evaluation": 2, "predicted maintained": 4, "predicted re-evaluation": 5}
    plotted = {label: [(row[0], row[column]) for row in rows] for label, column in lines.items()}
    report.plot("batches", f"batches of distinct rows, A^16, n = {n}", "rows", "ms", plotted)
    zipf_rows, plotted = [], {"incremental": [], "auto": [], "re-evaluation": []}
    for exponent in (5.0, 4.0, 3.0, 2.0, 1.0, 0.0):
        weights = 1.0 / np.arange(1, n + 1) ** exponent
        drawn = rng.choice(n, 1000, p=weights / weights.sum())
        batch = [("A", vl.Change(rows={int(i): rng.standard_normal(n) / n**0.5})) for i in drawn]
        distinct = len(set(drawn.tolist()))
        if distinct <= n // 3:
            incremental: Any = milliseconds(lambda batch=batch: view.apply(batch), 1)
        else:
            incremental = "not run"
        start = time.process_time()
        served = auto.apply(batch).strategy
        taken = 1000 * (time.process_time() - start)
        zipf_rows.append([exponent, distinct, incremental, taken, served, again])
        if distinct <= n // 3:
            plotted["incremental"].append((distinct, incremental))
        plotted["auto"].append((distinct, taken))
        plotted["re-evaluation"].append((distinct, again))
    report.table(
        f"Batches of 1,000 row updates with Zipf-distributed rows, A^16, n = {n} (Table 6.4)",
        "Updates of the same row coalesce; 'auto' re-evaluates where the model says so. Times in ms of CPU, "
        f"coalescing included. {memory}",
        ["Zipf factor", "distinct rows", "incremental", "auto", "auto served by", "re-evaluation"],
        zipf_rows,
    )
    report.plot("zipf", f"1,000 row updates, A^16, n = {n}", "distinct rows", "ms", plotted)


def crossover(measured: list[tuple[int, float]], again: float) -> float:
    """The rank at which maintaining costs as much as re-evaluation, interpolated."""
    for (r0, t0), (r1, t1) in pairwise(measured):
        if t0 <= again <= t1:
            return r0 + (r1 - r0) * (again - t0) / (t1 - t0)
    return float(measured[-1][0])


def drift(report: Report, updates: int) -> None:
    n = 40
    rng = np.random.default_rng(6)
    A, X, Y = vl.input("A", (n, n)), vl.input("X", (3 * n, n)), vl.input("Y", (3 * n, 1))
    cases = {
        "A^16": ({"C": vl.power(A, 16)}, {"A": contraction(n, rng)}, "A", 1 / n**0.5),
        "A^-1": ({"W": A.inv()}, {"A": np.eye(n) + 0.1 * contraction(n, rng)}, "A", 1 / n**0.5),
        "least squares": (
            {"beta": (X.T @ X).inv() @ X.T @ Y},
            {"X": rng.standard_normal((3 * n, n)), "Y": rng.standard_normal((3 * n, 1))},
            "X",
            1.0,
        ),
    }
    rows = []
    marks = [updates // 100, updates // 10, updates]
    for label, (program, values, name, scale) in cases.items():
        for monitored in (False, True):
            view = vl.maintain(program, strategy="incremental", refresh=monitored, inputs=values)
            errors = []
            for i in range(1, updates + 1):
                row = int(rng.integers(view.program.shapes[name][0]))
                new = scale * rng.standard_normal(n)
                if label == "A^-1":
                    new[row] += 3.0
                view.update(name, rows={row: new})
                if i in marks:
                    errors.append(true_error(view))
            health = view.health
            rows.append(
                [label, "on" if monitored else "off", *errors, health.refreshes, health.ill_conditioned]
            )
    report.table(
        f"Drift after up to {updates:,} row replacements, n = {n}",
        "Largest relative error of an output (Frobenius norm) against recomputation from the inputs.",
        [
            "program",
            "monitor",
            *(f"after {mark:,}" for mark in marks),
            "refreshes",
            "ill-conditioned updates",
        ],
        rows,
    )
    plotted = {f"{row[0]}, monitor {row[1]}": list(zip(marks, row[2:5], strict=True)) for row in rows}
    report.plot("drift", f"drift, n = {n}", "updates", "relative error", plotted)


def true_error(view: vl.MatrixView) -> float:
    fresh = vl.maintain(view.expressions, inputs={name: view[name] for name in view.program.inputs})
    return max(
        float(np.linalg.norm(view[name] - fresh[name]) / np.linalg.norm(fresh[name]))
        for name in view.program.outputs
    )


def groups(report: Report, counts: list[int]) -> None:
    rows, plotted = [], {"lstsq per group": [], "grouped kernel": []}
    for count in counts:
        row = one_grouped(count)
        rows.append(row)
        plotted["lstsq per group"].append((count, row[2]))
        plotted["grouped kernel"].append((count, row[3]))
    report.table(
        "Small regressions, 5 features, 20 rows each, a batch of 10,000 rows out and in again",
        "The rival solves each touched group afresh by `np.linalg.lstsq` (timed on 1,000 groups and scaled). "
        "Times in ms of CPU.",
        ["groups", "touched", "lstsq per group", "grouped kernel", "speed-up", "held MB", "all rows MB"],
        rows,
    )
    report.plot("groups", "10,000 rows out and in again", "groups", "ms", plotted)


def one_grouped(count: int) -> list[Any]:
    rng = np.random.default_rng(9)
    n, rows_each, batch = 5, 20, 10_000
    keys = np.repeat(np.arange(count), rows_each)
    X, y = rng.standard_normal((len(keys), n)), rng.standard_normal(len(keys))
    model = vl.GroupedOLS().add(keys, X, y)
    _ = model.coefs_
    chosen = rng.choice(len(keys), batch, replace=False)

    def maintained() -> None:
        model.remove(keys[chosen], X[chosen], y[chosen])
        model.add(keys[chosen], X[chosen], y[chosen])
        _ = model.coefs_

    def one_by_one() -> None:
        for key in np.unique(keys[chosen])[:1000]:
            rows = slice(key * rows_each, (key + 1) * rows_each)
            np.linalg.lstsq(X[rows], y[rows], rcond=None)

    taken = milliseconds(maintained, 2)
    touched = len(np.unique(keys[chosen]))
    alone = milliseconds(one_by_one, 1) * touched / min(1000, touched)
    return [count, touched, alone, taken, alone / taken, held_megabytes(model), 1e-6 * (X.nbytes + y.nbytes)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000])
    parser.add_argument("--large", type=int, nargs="*", default=[8000], help="measured once: A^16, OLS")
    parser.add_argument("--spark", type=int, nargs="+", default=[4000, 8000], help="A^16 on Spark")
    parser.add_argument("--spark-narrow", type=int, default=20_000, help="T = A T + B on Spark")
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--updates", type=int, default=100_000, help="updates of the drift table")
    parser.add_argument("--parts", nargs="+", default=None, help="only these parts")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.edges, options.updates = [200, 400], 20_000, 2_000
        options.large, options.spark, options.spark_narrow = [600], [800], 1000
    options.out.mkdir(parents=True, exist_ok=True)
    report, sizes = Report(folder=options.out), options.sizes
    middle = sizes[-2] if len(sizes) > 1 else sizes[-1]
    widths = [p for p in (1, 10, 100, 1000) if p <= middle]
    parts: dict[str, Callable[[], None]] = {
        "powers": lambda: powers(report, sizes, options.large),
        "steps": lambda: steps(report, sizes[0]),
        "sums": lambda: sums(report, sizes[:-1] or sizes),
        "ols": lambda: ols(report, sizes, options.large),
        "narrow": lambda: general(
            report, [(middle, p) for p in widths], False, "T = A T (Figure 6.7)", "narrow"
        ),
        "wide": lambda: general(
            report, [(n, min(1000, n)) for n in sizes], True, "T = A T + B (Figure 6.8)", "wide"
        ),
        "vector": lambda: general(
            report,
            [(n, 1) for n in [sizes[0] // 4, sizes[0] // 2, *sizes]],
            True,
            "T = A T + B, p = 1",
            "vector",
        ),
        "batches": lambda: batches(report, middle),
        "drift": lambda: drift(report, options.updates),
        "pagerank": lambda: pagerank(report, options.edges // 5, options.edges),
        "groups": lambda: groups(
            report, [1000, max(options.edges // 100, 2000), max(options.edges // 20, 4000)]
        ),
        "spark": lambda: on_spark(report, options.spark, options.spark_narrow),
        "workers": lambda: workers(report, middle if middle > 512 else 600),
    }
    options_given = [word for word in sys.argv[1:] if word not in parts and word != "--parts"]
    for name in options.parts or parts:
        report.lines.clear()
        parts[name]()
        command = " ".join(["python benchmarks/linalg.py", *options_given, "--parts", name])
        made = (
            f"Made by `{command}` on {time.strftime('%Y-%m-%d')}; Python {platform.python_version()}, "
            f"NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.machine()}, one BLAS thread."
        )
        (options.out / f"{name}.md").write_text("\n".join([*report.lines, made, ""]))
    write_overview(options.out, list(parts))


def write_overview(folder: Path, names: list[str]) -> None:
    """All parts measured so far as one page; every section says which command made it."""
    sections = [(folder / f"{name}.md").read_text() for name in names if (folder / f"{name}.md").exists()]
    title = (
        "# Incremental linear algebra: measured\n\n"
        "Times are CPU times of one process, one BLAS thread, the smallest of a few repetitions. The drift "
        "monitor is on; its probes, planned to take at most a tenth of the time on average, fall outside the "
        "smallest repetition.\n"
    )
    (folder / "README.md").write_text("\n".join([title, *sections]))


if __name__ == "__main__":
    main()
