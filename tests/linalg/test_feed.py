"""Change streams drive models: the model equals one built from the rows that remain."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import viewlet
import viewlet.linalg as vl
from linalg.fed import check_fed_models
from viewlet.errors import DataError


@pytest.mark.parametrize("backend", ["reference", pytest.param("native", marks=pytest.mark.native)])
def test_views_of_a_database_feed_models(backend):
    db = viewlet.connect(backend=backend)
    check_fed_models(db, batches=8)
    db.close()


def test_rows_of_a_cofactor_view_feed_a_regression_program():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    Z, C = vl.input("Z", (3, 3)), vl.input("C", (3, 1))
    view = vl.maintain({"beta": (Z + vl.identity(3)).inv() @ C}, Z=np.zeros((3, 3)), C=np.zeros((3, 1)))
    take_gram = vl.feed_matrix(view, "Z", row="i", col="j", value="v")
    take_cross = vl.feed_matrix(view, "C", row="i", col="j", value="v")
    gram, cross = np.zeros((3, 3)), np.zeros((3, 1))
    for start in range(0, 40, 10):
        rows = slice(start, start + 10)
        new_gram, new_cross = gram + X[rows].T @ X[rows], cross + (X[rows].T @ y[rows])[:, None]
        take_gram(replaced(gram, new_gram, first=start == 0))
        take_cross(replaced(cross, new_cross, first=start == 0))
        gram, cross = new_gram, new_cross
    expected = np.linalg.solve(X.T @ X + np.eye(3), X.T @ y)
    np.testing.assert_allclose(view["beta"][:, 0], expected, rtol=1e-9)


def replaced(old, new, first):
    """What a GROUP BY i, j view emits when its sums change: old rows out, new rows in."""
    places = list(np.ndindex(*new.shape))
    rows = [(i, j, new[i, j], "insert" if first else "update_postimage") for i, j in places]
    if not first:
        rows = [(i, j, old[i, j], "update_preimage") for i, j in places] + rows
    i, j, v, kind = zip(*rows, strict=True)
    return pa.table({"i": i, "j": j, "v": v, "_change_type": kind})


def test_weights_and_words_mean_the_same():
    X, y = [[1.0], [2.0], [2.0]], [1.0, 3.0, 3.0]
    worded, weighted = vl.OLS(), vl.OLS()
    vl.feed_regression(worded, features=["x"], target="y")(
        pa.table({"x": [1.0, 2.0, 2.0, 9.0, 9.0], "y": [1.0, 3.0, 3.0, 9.0, 9.0],
                  "_change_type": ["insert", "insert", "insert", "insert", "delete"]})
    )  # fmt: skip
    vl.feed_regression(weighted, features=["x"], target="y")(
        pa.record_batch({"x": [1.0, 2.0, 9.0], "y": [1.0, 3.0, 9.0], "_weight": [1, 2, 0]})
    )
    assert worded.count == weighted.count == 3
    np.testing.assert_allclose(worded.coef_, weighted.coef_)
    np.testing.assert_allclose(worded.coef_, np.linalg.lstsq(X, y, rcond=None)[0])


def test_groups_and_graphs():
    groups = vl.GroupedOLS()
    take = vl.feed_regression(groups, features=["x"], target="y", key="g")
    take(pa.table({"g": ["a", "b", "a"], "x": [1.0, 1.0, 2.0], "y": [2.0, 5.0, 5.0]}))
    take(pa.table({"g": ["a"], "x": [2.0], "y": [5.0], "_weight": [-1]}))
    np.testing.assert_allclose(groups.coefs_[:, 0], [2.0, 5.0])

    graph = vl.PageRank([(0, 1), (1, 0)], tol=1e-9)
    take = vl.feed_graph(graph, source="u", target="v")
    take(pa.table({"u": [0, 2], "v": [2, 0]}))
    take(pa.table({"u": [0], "v": [2], "_change_type": ["delete"]}))
    fresh = vl.PageRank([(0, 1), (1, 0), (2, 0)], tol=1e-9)
    np.testing.assert_allclose(graph.vector, fresh.vector, rtol=1e-8)


def test_bad_batches_are_refused():
    model = vl.OLS()
    take = vl.feed_regression(model, features=["x"], target="y")
    for batch in (
        pa.table({"x": [1.0]}),
        pa.table({"x": [None], "y": [1.0]}),
        pa.table({"x": [1.0], "y": [1.0], "_change_type": ["upsert"]}),
        pa.table({"x": [1.0], "y": [1.0], "_weight": pa.array([None], pa.int64())}),
    ):
        with pytest.raises(DataError):
            take(batch)
    assert model.count == 0
    with pytest.raises(DataError, match="key"):
        vl.feed_regression(vl.GroupedOLS(), features=["x"], target="y")


def test_a_batch_that_removes_unknown_rows_changes_nothing():
    model = vl.OLS().add([[1.0], [2.0]], [1.0, 3.0])
    before = model.coef_.copy()
    with pytest.raises(DataError, match="not in the data"):
        vl.feed_regression(model, features=["x"], target="y")(
            pa.table({"x": [5.0, 7.0], "y": [5.0, 7.0], "_weight": [2, -1]})
        )
    assert model.count == 2
    np.testing.assert_allclose(model.coef_, before, rtol=1e-12)
    graph = vl.PageRank([(0, 1)])
    with pytest.raises(DataError, match="no edge"):
        vl.feed_graph(graph, source="u", target="v")(pa.table({"u": [0, 1], "v": [1, 0], "_weight": [1, -1]}))
    assert graph.edge_count == 1
    with pytest.raises(DataError, match="windowed"):
        vl.feed_regression(vl.OLS(window=5), features=["x"], target="y")
