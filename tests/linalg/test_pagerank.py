"""PageRank against networkx, within the bound it states."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewlet.linalg as vl
from viewlet.errors import DataError


def truth(nodes, edges):
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    return nx.pagerank(graph, alpha=0.85, tol=1e-14, max_iter=2000)


def check(ranks, edges):
    expected = truth(ranks.nodes, edges)
    assert ranks.error_bound <= ranks.tol
    for node, rank in ranks.ranks.items():
        assert abs(rank / expected[node] - 1) <= ranks.error_bound + 1e-10
        assert ranks.rank(node) == pytest.approx(rank, rel=1e-9)
    assert sum(ranks.ranks.values()) == pytest.approx(1.0)


EDGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40)


@settings(max_examples=25, deadline=None)
@given(EDGES, EDGES, st.integers(0, 2**32), st.sampled_from([1e-3, 1e-6]))
def test_any_edges_in_and_out(start, more, seed, tol):
    rng = np.random.default_rng(seed)
    ranks = vl.PageRank(start, tol=tol)
    edges = list(start)
    for edge in more:
        if edges and rng.random() < 0.5:
            gone = [edges.pop(int(rng.integers(len(edges)))) for _ in range(min(2, len(edges)))]
            ranks.remove(gone)
        else:
            edges.append(edge)
            ranks.add([edge])
        assert ranks.edge_count == len(edges)
    if ranks.nodes:
        check(ranks, edges)
        everything = ranks.remove(edges).ranks
        np.testing.assert_allclose(list(everything.values()), 1 / len(everything), rtol=2 * tol)


def test_a_batch_equals_its_single_edges_and_a_fresh_start():
    rng = np.random.default_rng(0)
    start = [tuple(edge) for edge in rng.integers(0, 300, (1500, 2)).tolist()]
    more = [tuple(edge) for edge in rng.integers(0, 320, (200, 2)).tolist()]
    batch, singles = vl.PageRank(start, tol=1e-9), vl.PageRank(start, tol=1e-9)
    batch.add(more)
    for edge in more:
        singles.add([edge])
    fresh = vl.PageRank(start + more, tol=1e-9)
    for node, rank in fresh.ranks.items():
        assert batch.rank(node) == pytest.approx(rank, rel=4e-9)
        assert singles.rank(node) == pytest.approx(rank, rel=4e-9)
    check(singles, start + more)


def test_many_updates_of_few_nodes_do_not_grow_the_graph():
    ranks = vl.PageRank([(0, 1), (1, 2), (2, 0)])
    for _ in range(500):
        ranks.add([(0, 2), (1, 0)]).remove([(0, 2), (1, 0)])
    assert ranks.edge_count == 3
    assert len(ranks._pool) < 2000
    check(ranks, [(0, 1), (1, 2), (2, 0)])


def test_one_edge_touches_little_of_a_large_graph():
    rng = np.random.default_rng(1)
    n, m = 5_000, 25_000
    sites = rng.integers(0, n, m)
    ranks = vl.PageRank(
        np.column_stack([sites, np.minimum(sites // 50 * 50 + rng.integers(0, 50, m), n - 1)])
    )
    before = ranks.edges_walked
    ranks.add([(17, 4711)])
    assert 0 < ranks.edges_walked - before < m
    assert ranks.top(3)[0][1] >= ranks.top(3)[2][1]


def test_top_of_equal_ranks_goes_by_age():
    assert [node for node, _ in vl.PageRank([("x", "y"), ("y", "x")]).top(5)] == ["x", "y"]
    assert vl.PageRank().top(3) == []
    assert vl.PageRank().ranks == {}


def test_wrong_edges_are_refused_and_change_nothing():
    ranks = vl.PageRank([(0, 1), (1, 0)])
    before = ranks.ranks
    for attempt in (
        lambda: ranks.remove([(0, 1), (0, 1)]),
        lambda: ranks.remove([(1, 1)]),
        lambda: ranks.remove([(7, 1)]),
        lambda: ranks.add([(0, 1, 2)]),
        lambda: ranks.add([(0, [1])]),
        lambda: ranks.rank("nobody"),
    ):
        with pytest.raises(DataError):
            attempt()
        assert ranks.ranks == before
    for options in ({"damping": 1.0}, {"tol": 0.0}, {"tol": 0.5}):
        with pytest.raises(vl.LinalgError):
            vl.PageRank([(0, 1)], **options)
