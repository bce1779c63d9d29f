"""Regressions against statsmodels and least squares from scratch."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.regression.rolling import RollingOLS

import viewlet.linalg as vl
from viewlet.errors import DataError


def data(rng, m, n, targets=None):
    X = rng.standard_normal((m, n))
    noise = rng.standard_normal(m if targets is None else (m, targets))
    return X, X @ rng.standard_normal(n if targets is None else (n, targets)) + noise


@pytest.mark.parametrize("intercept", [False, True])
def test_coefficients_and_statistics_are_those_of_statsmodels(intercept):
    rng = np.random.default_rng(0)
    X, y = data(rng, 120, 4)
    model = vl.OLS(intercept=intercept).add(X, y).remove(X[:30], y[:30])
    design = np.hstack([X[30:], np.ones((90, 1))]) if intercept else X[30:]
    fit = sm.OLS(y[30:], design).fit()
    np.testing.assert_allclose(model.coef_, fit.params[:4], rtol=1e-10)
    np.testing.assert_allclose(model.stderr_, fit.bse[:4], rtol=1e-10)
    np.testing.assert_allclose(model.tvalues_, fit.tvalues[:4], rtol=1e-9)
    assert model.r2_ == pytest.approx(fit.rsquared, rel=1e-9)
    assert model.sigma2_ == pytest.approx(fit.mse_resid, rel=1e-9)
    np.testing.assert_allclose(model.predict(X[:5]), (design_of(X[:5], intercept)) @ fit.params, rtol=1e-9)


def design_of(X, intercept):
    return np.hstack([X, np.ones((len(X), 1))]) if intercept else X


def test_a_window_is_rolling_regression():
    rng = np.random.default_rng(1)
    X, y = data(rng, 80, 3)
    rolled = RollingOLS(y, X, window=20).fit().params
    model = vl.OLS(window=20)
    for i in range(80):
        model.add(X[i : i + 1], y[i : i + 1])
        if i >= 19:
            np.testing.assert_allclose(model.coef_, rolled[i], rtol=1e-8)
    assert model.count == 20


def test_forgetting_is_weighted_least_squares():
    rng = np.random.default_rng(2)
    X, y = data(rng, 60, 3)
    model = vl.OLS(forgetting=0.9)
    for start, stop in ((0, 1), (1, 25), (25, 60)):
        model.add(X[start:stop], y[start:stop])
    fit = sm.WLS(y, X, weights=0.9 ** np.arange(59, -1, -1.0)).fit()
    np.testing.assert_allclose(model.coef_, fit.params, rtol=1e-9)
    with pytest.raises(vl.LinalgError, match="forgetting"):
        model.remove(X[:1], y[:1])


def test_ridge_with_several_targets():
    rng = np.random.default_rng(3)
    X, y = data(rng, 50, 4, targets=2)
    model = vl.OLS(ridge=2.5).add(X, y).remove(X[:10], y[:10])
    expected = np.linalg.solve(X[10:].T @ X[10:] + 2.5 * np.eye(4), X[10:].T @ y[10:])
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-10)
    assert model.stderr_.shape == (4, 2)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_any_order_of_rows_in_and_out_equals_a_fresh_fit(seed, n):
    rng = np.random.default_rng(seed)
    model, held_X, held_y = vl.OLS(), np.empty((0, n)), np.empty(0)
    for _ in range(12):
        if len(held_X) > 2 * n and rng.random() < 0.5:
            gone = rng.choice(len(held_X), int(rng.integers(1, n + 1)), replace=False)
            model.remove(held_X[gone], held_y[gone])
            held_X, held_y = np.delete(held_X, gone, axis=0), np.delete(held_y, gone)
        else:
            X, y = data(rng, int(rng.integers(1, 8)), n)
            model.add(X, y)
            held_X, held_y = np.vstack([held_X, X]), np.concatenate([held_y, y])
        expected = np.linalg.lstsq(held_X, held_y, rcond=None)[0]
        scale = max(1.0, np.abs(expected).max()) * np.linalg.cond(held_X) ** 2
        np.testing.assert_allclose(model.coef_, expected, atol=1e-13 * scale, rtol=1e-9)
        assert np.isfinite(model.coef_).all()


def test_many_single_rows_on_the_fast_path_equal_a_fresh_fit():
    rng = np.random.default_rng(4)
    X, y = data(rng, 400, 60)
    model = vl.OLS().add(X[:200], y[:200])
    for i in range(150):
        model.add(X[200 + i : 201 + i], y[200 + i : 201 + i]).remove(X[i : i + 1], y[i : i + 1])
        if i % 10 == 0:
            expected = np.linalg.lstsq(X[i + 1 : 201 + i], y[i + 1 : 201 + i], rcond=None)[0]
            np.testing.assert_allclose(model.coef_, expected, rtol=1e-8, atol=1e-11)
    assert model.health.solver == "woodbury"
    fit = sm.OLS(y[150:350], X[150:350]).fit()
    np.testing.assert_allclose(model.stderr_, fit.bse, rtol=1e-8)


def test_hard_cases_are_handled_or_reported():
    rng = np.random.default_rng(5)
    X, y = data(rng, 200, 5)
    truth = np.linalg.lstsq(X, y, rcond=None)[0]

    outlier = vl.OLS().add(X, y)
    outlier.add([[1e7] * 5], [1e7])
    _ = outlier.coef_
    outlier.remove([[1e7] * 5], [1e7])
    np.testing.assert_allclose(outlier.coef_, truth, rtol=1e-11)
    assert outlier.health.rebuilds == 1

    unkept = vl.OLS(keep_rows=False).add(X, y).add([[1e7] * 5], [1e7]).remove([[1e7] * 5], [1e7])
    _ = unkept.coef_
    assert "lost digits" in unkept.health.status

    nearly = X.copy()
    nearly[:, 4] = nearly[:, 3] + 1e-6 * rng.standard_normal(200)
    close = vl.OLS().add(nearly, y)
    np.testing.assert_allclose(close.coef_, np.linalg.lstsq(nearly, y, rcond=None)[0], rtol=1e-7)
    assert close.health.solver == "svd of the rows"
    with pytest.raises(vl.SingularError, match="keep_rows"):
        _ = vl.OLS(keep_rows=False).add(nearly, y).coef_

    exactly = X.copy()
    exactly[:, 4] = exactly[:, 3]
    collinear = vl.OLS().add(exactly, y)
    np.testing.assert_allclose(collinear.coef_, np.linalg.lstsq(exactly, y, rcond=None)[0], rtol=1e-9)
    assert "rank 4 of 5" in collinear.health.status
    assert np.isfinite(vl.OLS(ridge=0.1).add(exactly, y).coef_).all()


def test_a_passage_through_a_near_singular_window():
    rng = np.random.default_rng(6)
    X, y = data(rng, 300, 4)
    X[100:160, 3] = X[100:160, 2] + 1e-7 * rng.standard_normal(60)
    model = vl.OLS(window=40)
    for i in range(300):
        model.add(X[i : i + 1], y[i : i + 1])
        if i >= 40:
            window = slice(i - 39, i + 1)
            expected = np.linalg.lstsq(X[window], y[window], rcond=None)[0]
            assert np.abs(model.coef_ - expected).max() <= 1e-6 * np.abs(expected).max()


def test_wrong_rows_are_refused_and_change_nothing():
    rng = np.random.default_rng(7)
    X, y = data(rng, 30, 3)
    model = vl.OLS().add(X, y)
    before = model.coef_.copy()
    for attempt in (
        lambda: model.remove(np.vstack([X[:1], [[9.0, 9.0, 9.0]]]), [y[0], 0.0]),
        lambda: model.remove(np.vstack([X[:1], X[:1]]), [y[0], y[0]]),
        lambda: model.add([[1.0, 2.0]], [1.0]),
        lambda: model.add([[np.nan, 0.0, 0.0]], [1.0]),
        lambda: model.add(X, y[:5]),
    ):
        with pytest.raises((DataError, vl.LinalgError)):
            attempt()
        np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(vl.LinalgError, match="no rows"):
        _ = vl.OLS().coef_
    with pytest.raises(vl.LinalgError, match="no rows"):
        _ = vl.OLS().add(X, y).remove(X, y).coef_
    with pytest.raises(vl.SingularError, match="degree of freedom"):
        _ = vl.OLS().add(X[:3], y[:3]).stderr_
    for options in ({"ridge": -1.0}, {"forgetting": 0.0}, {"window": 0}, {"window": 5, "keep_rows": False}):
        with pytest.raises(vl.LinalgError):
            vl.OLS(**options)


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_as_if_each_were_alone(seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 25, 600)
    X, y = data(rng, 600, 3)
    model = vl.GroupedOLS()
    for start in range(0, 600, 150):
        model.add(keys[start : start + 150], X[start : start + 150], y[start : start + 150])
        _ = model.coefs_
    model.remove(keys[:200], X[:200], y[:200])
    for position, key in enumerate(model.keys):
        rows = np.flatnonzero(keys[200:] == key) + 200
        expected = np.linalg.lstsq(X[rows], y[rows], rcond=None)[0]
        if len(rows) > 3:
            fit = sm.OLS(y[rows], X[rows]).fit()
            np.testing.assert_allclose(model.coef(key), expected, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(model.stderr_[position], fit.bse, rtol=1e-6)
            assert model.status(key) == "ok"
        assert model.counts_[position] == len(rows)


def test_groups_without_enough_rows_say_so():
    model = vl.GroupedOLS().add(["a", "a", "b"], [[1.0, 0.0], [2.0, 0.0], [1.0, 1.0]], [2.0, 4.0, 1.0])
    np.testing.assert_allclose(model.coef("a"), [2.0, 0.0], atol=1e-12)
    assert model.status("a").startswith("rank 1 of 2")
    assert np.isinf(model.stderr_[1]).all()
    model.remove(["b"], [[1.0, 1.0]], [1.0])
    np.testing.assert_array_equal(model.coef("b"), [0.0, 0.0])
    for attempt in (
        lambda: model.remove(["b"], [[1.0, 1.0]], [1.0]),
        lambda: model.coef("c"),
        lambda: model.add(["a"], [[np.inf, 0.0]], [1.0]),
        lambda: model.add(["a"], [[1.0]], [1.0]),
        lambda: model.add(["a", "b"], [[1.0, 1.0]], [1.0]),
    ):
        with pytest.raises((DataError, vl.LinalgError)):
            attempt()
    model.add(["a"], [[1e9, 1e9]], [1.0]).add(["a"], [[1.0, 3.0]], [1.0]).remove(["a"], [[1e9, 1e9]], [1.0])
    assert "took digits" in model.status("a") or "rank" in model.status("a")
