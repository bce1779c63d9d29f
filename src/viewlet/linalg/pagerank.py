"""PageRank of a changing graph by residual push.

With z = (I - a P')^-1 1, where P has the rows of nodes without out-edges left at zero, PageRank with uniform
teleport and uniform jumps out of dangling nodes is z / sum(z). So dangling nodes need no special rule, and a
new node is a new equation, not a change of all others.

Kept are an estimate z and its residual r = 1 + a P' z - z. A change of one edge of u changes r at the
out-neighbours of u only; *pushing* node i moves r_i into z_i and a r_i / d_i to each of its out-neighbours.

Exactness: the entries of (I - a P')^-1 are not negative and its row sums are the true z*, so |r_i| <= e for
every i gives |z_i - z*_i| <= e z*_i for every i. Pushing goes on until this puts *every single rank* within
the relative error ``tol`` of the true one; :attr:`PageRank.error_bound` states the bound reached.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.linalg.errors import LinalgError

# A frontier with more out-edges than this share of all edges is pushed by a sweep over the whole graph.
SWEEP_SHARE = 1 / 4
# A refresh pushes this much further than the limit: residuals just below it would topple at every touch.
REFRESH_SHARE = 0.05


class PageRank:
    """Ranks of the nodes of a directed graph under insertion and deletion of edges.

    Equal edges count as often as they are given; nodes stay when their last edge goes.

    >>> ranks = PageRank([("a", "b"), ("b", "a"), ("c", "a")])
    >>> _ = ranks.add([("a", "c")])
    >>> ranks.top(1)[0][0]
    'a'
    """

    def __init__(
        self,
        edges: Iterable[tuple[Hashable, Hashable]] | np.ndarray[Any, Any] = (),
        *,
        damping: float = 0.85,
        tol: float = 1e-3,
    ) -> None:
        if not 0 < damping < 1:
            raise LinalgError(f"damping={damping} must lie between 0 and 1")
        if not 1e-12 <= tol <= 0.04:
            raise LinalgError(f"tol={tol} must lie between 1e-12 and 0.04; it bounds the error of every rank")
        self.damping, self.tol = damping, tol
        self._limit = 0.49 * tol  # |r| <= t/2 bounds z and its sum by t/2 each, hence their ratio by about t
        self.nodes: list[Hashable] = []
        self._index: dict[Hashable, int] = {}
        self._z, self._r = np.zeros(0), np.zeros(0)
        self._start, self._degree = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._pool = np.zeros(
            0, dtype=np.int64
        )  # out-neighbours of node i: pool[start[i] : start[i] + degree[i]]
        self._position = np.zeros(0, dtype=np.int64)  # scratch of _distinct
        self._used = 0
        self._total = 0.0
        self.edge_count = self.pushes = self.edges_walked = self.sweeps = 0
        sources, targets = self._number(edges)
        self._lay_out(sources, targets)
        self.refresh()

    @property
    def ranks(self) -> dict[Hashable, float]:
        """Rank per node; the ranks sum to one."""
        return dict(zip(self.nodes, self.vector.tolist(), strict=True))

    @property
    def vector(self) -> np.ndarray[Any, Any]:
        """Ranks in the order of ``nodes``."""
        return np.asarray(self._z / self._z.sum()) if self.nodes else np.zeros(0)

    @property
    def error_bound(self) -> float:
        """A bound on the relative error of every single rank (up to rounding)."""
        largest = float(np.abs(self._r).max(initial=0.0))
        return 2 * largest / (1 - largest)

    def rank(self, node: Hashable) -> float:
        """The rank of one node."""
        return float(self._z[self._find(node)]) / self._total

    def top(self, count: int) -> list[tuple[Hashable, float]]:
        """The nodes of highest rank, best first; equal ranks by age."""
        count = min(count, len(self.nodes))
        if count < 1:
            return []
        vector = self.vector
        best = np.argpartition(-vector, count - 1)[:count]
        best = best[np.lexsort((best, -vector[best]))]
        return [(self.nodes[i], float(vector[i])) for i in best]

    def add(self, edges: Iterable[tuple[Hashable, Hashable]]) -> PageRank:
        """Insert edges; unknown nodes are new nodes."""
        before = len(self.nodes)
        sources, targets = self._number(edges)
        added: dict[int, list[int]] = {}
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
            added.setdefault(source, []).append(target)
        changed = {node: np.concatenate([self._out(node), more]) for node, more in added.items()}
        return self._replace(changed, np.arange(before, len(self.nodes)))

    def remove(self, edges: Iterable[tuple[Hashable, Hashable]]) -> PageRank:
        """Delete edges; an edge that is not there is refused, and nothing changes."""
        left: dict[int, list[int]] = {}
        for edge in edges:
            source, target = self._pair(edge)
            u, v = self._find(source), self._find(target)
            rest = left.setdefault(u, self._out(u).tolist())
            if v not in rest:
                raise DataError(
                    f"there is no edge {source!r} -> {target!r} (left) to remove; nothing changed"
                )
            rest.remove(v)
        changed = {node: np.array(rest, dtype=np.int64) for node, rest in left.items()}
        return self._replace(changed, np.zeros(0, dtype=np.int64))

    def refresh(self) -> None:
        """Recompute the residual from the ranks and push it: what many pushes rounded away comes back."""
        flow = np.bincount(self._pool_in_order(), weights=self._shares(self._z), minlength=len(self.nodes))
        self._r = 1.0 + flow - self._z
        self._total = float(self._z.sum())
        self._settle(np.arange(len(self.nodes)), REFRESH_SHARE * self._limit)

    def _pair(self, edge: Any) -> tuple[Hashable, Hashable]:
        try:
            source, target = edge
            hash((source, target))
        except (TypeError, ValueError):
            raise DataError(
                f"{edge!r} is not an edge; give pairs (source, target) of hashable nodes"
            ) from None
        return source, target

    def _find(self, node: Hashable) -> int:
        if node not in self._index:
            raise DataError(f"there is no node {node!r}")
        return self._index[node]

    def _number(self, edges: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Node numbers of edges; nodes are numbered by first appearance, and start with z = 0, r = 1."""
        pairs = [self._pair(edge) for edge in (edges.tolist() if isinstance(edges, np.ndarray) else edges)]
        before = len(self.nodes)
        numbers = np.empty((len(pairs), 2), dtype=np.int64)
        for position, pair in enumerate(pairs):
            for side, node in enumerate(pair):
                index = self._index.get(node)
                if index is None:
                    index = self._index[node] = len(self.nodes)
                    self.nodes.append(node)
                numbers[position, side] = index
        fresh = len(self.nodes) - before
        if fresh:
            self._z = np.concatenate([self._z, np.zeros(fresh)])
            self._r = np.concatenate([self._r, np.ones(fresh)])
            self._start = np.concatenate([self._start, np.zeros(fresh, dtype=np.int64)])
            self._degree = np.concatenate([self._degree, np.zeros(fresh, dtype=np.int64)])
            self._position = np.concatenate([self._position, np.zeros(fresh, dtype=np.int64)])
        return numbers[:, 0], numbers[:, 1]

    def _lay_out(self, sources: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> None:
        """Out-neighbours of all nodes one after the other, with room for changed nodes behind them."""
        self._degree = np.bincount(sources, minlength=len(self.nodes)).astype(np.int64)
        self._start = np.cumsum(self._degree) - self._degree
        self._used = self.edge_count = len(targets)
        self._pool = np.empty(self._used + self._used // 2 + 64, dtype=np.int64)
        self._pool[: self._used] = targets[np.argsort(sources, kind="stable")]

    def _out(self, node: int) -> np.ndarray[Any, Any]:
        return self._pool[self._start[node] : self._start[node] + self._degree[node]]

    def _edges_of(self, frontier: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The targets of all edges that leave the frontier, and how many leave each of its nodes."""
        degrees = self._degree.take(frontier)
        offsets = (self._start.take(frontier) - degrees.cumsum() + degrees).repeat(degrees)
        offsets += np.arange(len(offsets))
        return self._pool.take(offsets), degrees

    def _pool_in_order(self) -> np.ndarray[Any, Any]:
        return self._edges_of(np.arange(len(self.nodes)))[0]

    def _shares(self, amounts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """What each edge carries when every node passes on its amount."""
        return np.repeat(self.damping * amounts / np.maximum(self._degree, 1), self._degree)

    def _replace(self, changed: dict[int, np.ndarray[Any, Any]], fresh: np.ndarray[Any, Any]) -> PageRank:
        """Give nodes new out-edges: only the residuals of their old and new neighbours change."""
        touched = [fresh]
        for node, targets in changed.items():
            moved = self.damping * self._z[node]
            old = self._out(node).copy()
            for neighbours, amount in ((old, -moved), (targets, moved)):
                if len(neighbours):
                    np.add.at(self._r, neighbours, amount / len(neighbours))
            touched += [old, targets]
            self.edge_count += len(targets) - len(old)
            self._write(node, targets)
        self._settle(self._distinct(np.concatenate(touched)), self._limit)
        return self

    def _write(self, node: int, targets: np.ndarray[Any, Any]) -> None:
        if self._used + len(targets) > len(self._pool):
            sources = np.repeat(np.arange(len(self.nodes)), self._degree)
            edge_count = self.edge_count
            self._lay_out(sources, self._pool_in_order())
            self.edge_count = edge_count
            self._pool = np.concatenate([self._pool, np.empty(len(targets), dtype=np.int64)])
        self._pool[self._used : self._used + len(targets)] = targets
        self._start[node], self._degree[node] = self._used, len(targets)
        self._used += len(targets)

    def _settle(self, touched: np.ndarray[Any, Any], limit: float) -> None:
        """Push every node whose residual is above the limit, all at once, until there is none.

        Most frontiers are short, so that the cost of a NumPy call counts: ``take`` and ``compress`` do what
        an index does in two thirds of its time.
        """
        z, r = self._z, self._r
        frontier = touched.compress(np.abs(r.take(touched)) > limit)
        while len(frontier):
            amounts = r.take(frontier)
            z[frontier] = z.take(frontier) + amounts
            r[frontier] = 0.0
            self._total += float(amounts.sum())
            self.pushes += len(frontier)
            targets, degrees = self._edges_of(frontier)
            self.edges_walked += len(targets)
            shares = (self.damping * amounts / np.maximum(degrees, 1)).repeat(degrees)
            if len(targets) > SWEEP_SHARE * self.edge_count:
                self.sweeps += 1
                r += np.bincount(targets, weights=shares, minlength=len(self.nodes))
                frontier = np.flatnonzero(np.abs(r) > limit)
            else:
                np.add.at(r, targets, shares)
                frontier = self._distinct(targets.compress(np.abs(r.take(targets)) > limit))

    def _distinct(self, nodes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Every node once, without sorting: of equal ones the last written is found again."""
        places = np.arange(len(nodes))
        self._position[nodes] = places
        return nodes.compress(self._position.take(nodes) == places)
