"""NumPy recomputation after every update, with the tolerance of the arithmetic stated."""

from __future__ import annotations

import numpy as np
import pytest

import viewlet.linalg as vl

DOUBLE = {"rtol": 1e-10, "atol": 1e-10}
SINGLE = {"rtol": 2e-3, "atol": 2e-3}


def contraction(rng, n):
    return 0.9 * rng.standard_normal((n, n)) / np.sqrt(n)


def random_update(rng, view, name, scale):
    rows, columns = view.program.shapes[name]
    match rng.integers(4):
        case 0:
            view.update(name, rows={int(rng.integers(rows)): scale * rng.standard_normal(columns)})
        case 1:
            view.update(name, cols={int(rng.integers(columns)): scale * rng.standard_normal(rows)})
        case 2:
            view.update(name, entries={(int(rng.integers(rows)), int(rng.integers(columns))): scale})
        case _:
            thin = scale * rng.standard_normal((rows, 2)) / rows, rng.standard_normal((columns, 2)) / columns
            view.update(name, factors=thin)


@pytest.mark.parametrize("model", ["auto", "linear", "exponential", "skip", "krylov"])
@pytest.mark.parametrize("strategy", ["auto", "incremental", "hybrid", "reevaluate"])
def test_powers_sums_and_iterations(model, strategy):
    rng = np.random.default_rng(1)
    n, p, k = 24, 3, 11
    A, B, T0 = vl.input("A", (n, n)), vl.input("B", (n, p)), vl.input("T0", (n, p))
    outputs = {"P": vl.power(A, k), "S": vl.power_sum(A, k), "T": vl.iterate(lambda T: A @ T + B, T0, k)}
    values = {"A": contraction(rng, n), "B": rng.standard_normal((n, p)), "T0": rng.standard_normal((n, p))}
    view = vl.maintain(outputs, model=model, strategy=strategy, inputs=values)
    for _ in range(8):
        random_update(rng, view, str(rng.choice(["A", "B", "T0"])), 1 / np.sqrt(n))
        T = view["T0"]
        for _ in range(k):
            T = view["A"] @ T + view["B"]
        np.testing.assert_allclose(view["P"], np.linalg.matrix_power(view["A"], k), **DOUBLE)
        powers = [np.linalg.matrix_power(view["A"], i) for i in range(k)]
        np.testing.assert_allclose(view["S"], sum(powers), **DOUBLE)
        np.testing.assert_allclose(view["T"], T, **DOUBLE)
    assert view.error() < 1e-12


@pytest.mark.parametrize(
    "arrays", [vl.Blas(), vl.Blas(np.float32), vl.ArrayApi(np)], ids=["double", "single", "api"]
)
def test_least_squares_as_a_program_on_every_arithmetic(arrays):
    rng = np.random.default_rng(2)
    X, Y = vl.input("X", (60, 7)), vl.input("Y", (60, 2))
    beta = (X.T @ X + 0.5 * vl.identity(7)).inv() @ X.T @ Y
    view = vl.maintain(
        {"beta": beta},
        X=rng.standard_normal((60, 7)),
        Y=rng.standard_normal((60, 2)),
        arrays=arrays,
        tol=1e-4,
    )
    tolerance = SINGLE if arrays.itemsize == 4 else DOUBLE
    for _ in range(30):
        random_update(rng, view, str(rng.choice(["X", "Y"])), 1.0)
        x, y = np.asarray(view["X"], dtype=float), np.asarray(view["Y"], dtype=float)
        expected = np.linalg.solve(x.T @ x + 0.5 * np.eye(7), x.T @ y)
        np.testing.assert_allclose(arrays.to_numpy(view["beta"]), expected, **tolerance)


def test_the_reported_change_is_the_change():
    rng = np.random.default_rng(3)
    A = vl.input("A", (30, 30))
    view = vl.maintain({"C": vl.power(A, 8)}, A=contraction(rng, 30), strategy="incremental")
    before = view["C"].copy()
    change = view.update("A", rows={3: rng.standard_normal(30), 5: rng.standard_normal(30)})["C"]
    assert change.rank == 16
    np.testing.assert_allclose(change.to_dense(), view["C"] - before, atol=1e-10 * np.abs(view["C"]).max())
    np.testing.assert_allclose(
        change.compress().to_dense(), change.to_dense(), atol=1e-9 * np.abs(view["C"]).max()
    )
    assert change.compress().rank <= change.rank


def test_a_change_of_one_view_feeds_another():
    rng = np.random.default_rng(4)
    A, C = vl.input("A", (20, 20)), vl.input("C", (20, 20))
    first = vl.maintain({"C": vl.power(A, 4)}, A=contraction(rng, 20), strategy="incremental")
    second = vl.maintain({"W": (vl.identity(20) + C).inv()}, C=first["C"])
    for row in range(5):
        change = first.update("A", rows={row: rng.standard_normal(20) / 5})["C"]
        second.update("C", factors=change)
    np.testing.assert_allclose(second["W"], np.linalg.inv(np.eye(20) + first["C"]), **DOUBLE)


def test_no_temporary_as_large_as_a_view():
    import tracemalloc

    n = 800
    rng = np.random.default_rng(5)
    A = vl.input("A", (n, n))
    view = vl.maintain(
        {"C": vl.power(A, 8)}, A=contraction(rng, n), model="exponential", strategy="incremental"
    )
    view.update("A", rows={0: rng.standard_normal(n) / n})
    row = rng.standard_normal(n) / n
    tracemalloc.start()
    view.update("A", rows={1: row})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * n * 8 / 4


def test_gradient_descent_follows_its_data():
    rng = np.random.default_rng(6)
    X, Y, T0 = vl.input("X", (50, 6)), vl.input("Y", (50, 2)), np.zeros((6, 2))
    values = {"X": rng.standard_normal((50, 6)), "Y": rng.standard_normal((50, 2))}
    view = vl.maintain({"theta": vl.gradient_descent(X, Y, T0, rate=0.01, k=12)}, **values)
    for _ in range(6):
        random_update(rng, view, str(rng.choice(["X", "Y"])), 1.0)
        theta = T0
        for _ in range(12):
            theta = theta - 0.01 * (view["X"].T @ (view["X"] @ theta - view["Y"]))
        np.testing.assert_allclose(view["theta"], theta, **DOUBLE)


def test_markov_chain_against_direct_computation():
    rng = np.random.default_rng(7)
    chain = vl.MarkovChain(rng.integers(1, 9, (6, 6)), steps=5, stationary=True)
    for _ in range(10):
        chain.observe([(int(rng.integers(6)), int(rng.integers(6))) for _ in range(3)])
        P = chain.counts / chain.counts.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(chain.transitions, np.linalg.matrix_power(P, 5), **DOUBLE)
        np.testing.assert_allclose(chain.stationary @ P, chain.stationary, **DOUBLE)
        assert chain.stationary.sum() == pytest.approx(1.0)
    before = chain.counts.copy()
    with pytest.raises(vl.LinalgError.__mro__[1], match="taken back"):
        chain.observe([(0, 0)], times=-1000)
    np.testing.assert_array_equal(chain.counts, before)


@pytest.mark.parametrize("seed", range(3))
def test_iteration_to_convergence_stops_where_a_fresh_start_would(seed):
    rng = np.random.default_rng(seed)
    A, B = vl.input("A", (8, 8)), vl.input("B", (8, 2))
    values = {"A": 0.5 * contraction(rng, 8), "B": rng.standard_normal((8, 2))}
    view = vl.converge(lambda T: A @ T + B, np.zeros((8, 2)), until=1e-6, **values)
    lengths = set()
    for scale in (0.1, 0.3, 0.5, 0.6, 0.2, 0.05, 0.4):
        view.update("A", rows={int(i): scale * rng.standard_normal(8) / 3 for i in range(8)})
        T, steps = np.zeros((8, 2)), 0
        while True:
            new = view.view["A"] @ T + view.view["B"]
            steps += 1
            done = np.linalg.norm(new - T) <= 1e-6
            T = new
            if done:
                break
        assert view.steps == steps
        np.testing.assert_allclose(view.value, T, **DOUBLE)
        lengths.add(steps)
    assert len(lengths) > 2
    assert view.error() < 1e-10
    with pytest.raises(vl.LinalgError, match="no convergence"):
        view.update("A", factors=(5 * np.eye(8), np.eye(8)))


def test_a_saved_view_goes_on(tmp_path):
    rng = np.random.default_rng(8)
    A, B = vl.input("A", (12, 12)), vl.input("B", (12, 2))
    outputs = {"C": vl.power(A, 6) + np.eye(12), "W": (A + 3 * vl.identity(12)).inv() @ B / 3}
    view = vl.maintain(outputs, A=contraction(rng, 12), B=rng.standard_normal((12, 2)))
    view.update("A", rows={1: rng.standard_normal(12) / 4})
    view.save(tmp_path / "view.npz")
    loaded = vl.load(tmp_path / "view.npz")
    for name in ("C", "W", "A"):
        np.testing.assert_array_equal(loaded[name], view[name])
    row = rng.standard_normal(12) / 4
    for one in (view, loaded):
        one.update("A", rows={2: row})
    np.testing.assert_array_equal(loaded["C"], view["C"])
    np.testing.assert_allclose(
        loaded["W"], np.linalg.inv(view["A"] + 3 * np.eye(12)) @ view["B"] / 3, **DOUBLE
    )
    assert loaded.health.updates == view.health.updates == 2
    (tmp_path / "bad.npz").write_bytes(b"no such file format")
    with pytest.raises(vl.LinalgError.__mro__[1], match="not a saved"):
        vl.load(tmp_path / "bad.npz")


def test_exact_views_are_saved_too(tmp_path):
    A = vl.input("A", (3, 3))
    view = vl.maintain({"C": vl.power(A, 5)}, A=np.arange(9).reshape(3, 3), arrays=vl.Modular(101))
    view.save(tmp_path / "exact.npz")
    loaded = vl.load(tmp_path / "exact.npz")
    loaded.update("A", entries={(0, 0): 7})
    view.update("A", entries={(0, 0): 7})
    np.testing.assert_array_equal(loaded["C"], view["C"])
