"""PageRank on a changing graph against power iteration; a part of ``linalg.py``."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse

import viewlet.linalg as vl
from linalg_report import Report, held_megabytes


def web(nodes: int, edges: int, rng: np.random.Generator) -> np.ndarray:
    """Sites of 100 pages: four links of five stay on the site, the fifth prefers popular pages."""
    sources = rng.integers(0, nodes, edges)
    near = np.minimum(sources // 100 * 100 + rng.integers(0, 100, edges), nodes - 1)
    far = (nodes * rng.random(edges) ** 3).astype(np.int64)
    return np.column_stack([sources, np.where(rng.random(edges) < 0.8, near, far)])


def scattered(nodes: int, edges: int, rng: np.random.Generator) -> np.ndarray:
    """Links without locality: power iteration mixes quickly here, and a push spreads quickly."""
    return np.column_stack([rng.integers(0, nodes, edges), (nodes * rng.random(edges) ** 3).astype(np.int64)])


def pagerank(report: Report, nodes: int, edges: int) -> None:
    rows = []
    for make in (web, scattered):
        rng = np.random.default_rng(8)
        graph = make(nodes, edges, rng)
        for tol in (1e-3, 1e-4):
            rows.append([make.__name__, *one_pagerank(graph, tol, rng)])
    report.table(
        f"PageRank, {nodes:,} nodes, {edges:,} edges, one edge added",
        "The rival is power iteration on a SciPy matrix: 'cold' and 'warm' (from the ranks before) stop "
        "at the L1 error of the maintained ranks after 30 single edges, which they are told at no cost; "
        "'sure' starts cold and stops when it can guarantee the same bound on every rank. 'web' links mostly "
        "within sites, 'scattered' has no locality. Times in ms of CPU; push: median and maximum of 30. "
        "Memory: graph, ranks and residuals held, and the rival's matrix.",
        [
            "graph",
            "tol",
            "L1 error",
            "bound",
            "cold",
            "steps",
            "warm",
            "steps",
            "sure",
            "steps",
            "push",
            "push max",
            "over cold",
            "over warm",
            "over sure",
            "held MB",
            "matrix MB",
        ],
        rows,
    )
    times = {"cold": 4, "warm": 6, "sure": 8, "push": 10}
    for graph in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == graph]
        plotted = {label: [(row[1], row[column]) for row in mine] for label, column in times.items()}
        report.plot(f"pagerank_{graph}", f"PageRank, one edge added, {graph}", "tol", "ms", plotted)


def one_pagerank(graph: np.ndarray, tol: float, rng: np.random.Generator) -> list[Any]:
    ranks, truth = vl.PageRank(graph, tol=tol), vl.PageRank(graph, tol=1e-9)
    numbers = {node: i for i, node in enumerate(truth.nodes)}
    before = ranks.vector
    times, added = [], []
    for _ in range(30):
        edge = tuple(truth.nodes[int(i)] for i in rng.integers(0, len(truth.nodes), 2))
        added.append(edge)
        start = time.process_time()
        ranks.add([edge])
        times.append(1000 * (time.process_time() - start))
    truth.add(added)
    error = float(np.abs(ranks.vector - truth.vector).sum())
    every = [[numbers[u], numbers[v]] for u, v in [*graph.tolist(), *added]]
    matrix, dangling = transition_matrix(every, len(truth.nodes))
    cold, cold_steps = power_iteration(matrix, dangling, None, truth.vector, error)
    warm, warm_steps = power_iteration(matrix, dangling, before, truth.vector, error)
    sure, sure_steps = guaranteed_iteration(matrix, dangling, 0.49 * tol)
    push = float(np.median(times))
    measured = [cold, cold_steps, warm, warm_steps, sure, sure_steps, push, max(times)]
    memory = held_megabytes(ranks), 1e-6 * (matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
    return [tol, error, ranks.error_bound, *measured, cold / push, warm / push, sure / push, *memory]


def transition_matrix(edges: list[list[int]], nodes: int) -> tuple[Any, np.ndarray]:
    pairs = np.array(edges)
    degrees = np.bincount(pairs[:, 0], minlength=nodes)
    weights = 1.0 / degrees[pairs[:, 0]]
    return scipy.sparse.csr_matrix((weights, (pairs[:, 1], pairs[:, 0])), shape=(nodes, nodes)), degrees == 0


def power_iteration(
    matrix: Any, dangling: np.ndarray, start: np.ndarray | None, truth: np.ndarray, error: float
) -> tuple[float, int]:
    n = len(truth)
    x = np.full(n, 1.0 / n) if start is None else start.copy()
    taken, count = 0.0, 0
    while np.abs(x - truth).sum() > error and count < 500:
        begin = time.process_time()
        x = 0.85 * (matrix @ x + x[dangling].sum() / n) + 0.15 / n
        taken += time.process_time() - begin
        count += 1
    return max(1000 * taken, 1e-6), count


def guaranteed_iteration(matrix: Any, dangling: np.ndarray, limit: float) -> tuple[float, int]:
    """Cold power iteration until its residual guarantees what ``PageRank`` guarantees for every rank."""
    n = matrix.shape[0]
    x = np.full(n, 1.0 / n)
    count, start = 0, time.process_time()
    while True:
        lost = x[dangling].sum()
        new = 0.85 * (matrix @ x + lost / n) + 0.15 / n
        residual = np.abs(new - x).max() * n / (0.85 * lost + 0.15)
        x, count = new, count + 1
        if residual <= limit:
            return 1000 * (time.process_time() - start), count
