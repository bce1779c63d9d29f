"""Every signal operator against NumPy and SciPy on whole arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import fft, interpolate
from scipy import signal as dsp

import viewlet.signals as vs

rng = np.random.default_rng(7)
SOURCE = vs.source(key="k", time="t", value="v")
X = rng.normal(size=300)
TABLE = pa.table({"k": np.zeros(300, np.int64), "t": np.arange(300) * 10, "v": X})
GRID = SOURCE.sample(10)


def values(query, table=TABLE, column="v"):
    return vs.to_values(query.run(table)[column])


def frames(x: np.ndarray, size: int, hop: int) -> np.ndarray:
    """Windows at multiples of hop that hold at least one sample, zero outside."""
    first = -((size - 1) // hop) * hop
    starts = range(first, len(x), hop)
    padded = np.concatenate((np.zeros(-first), x, np.zeros(size + hop)))
    return np.array([padded[s - first : s - first + size] for s in starts])


@pytest.mark.parametrize("taps", [1, 5, 64, 97, 128, 200])
@pytest.mark.parametrize("dtype", [float, complex])
def test_fir_is_lfilter(taps, dtype):
    h = rng.normal(size=taps) + (1j * rng.normal(size=taps) if dtype is complex else 0)
    x = rng.normal(size=2000)
    table = pa.table({"k": np.zeros(2000, np.int64), "t": np.arange(2000) * 10, "v": x})
    np.testing.assert_allclose(values(GRID.fir(h), table), dsp.lfilter(h, 1, x), atol=1e-10)


def test_correlate_is_numpy_correlate():
    a = rng.normal(size=32)
    np.testing.assert_allclose(
        values(GRID.correlate(a, missing="skip")), np.correlate(X, a, "valid"), atol=1e-12
    )


def test_convolve_is_numpy_convolve():
    np.testing.assert_allclose(values(GRID.convolve([1, 2, 3])), np.convolve(X, [1, 2, 3])[:300], atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_iir_is_lfilter_and_sos_is_sosfilt(order):
    b, a = dsp.butter(order, 0.25)
    np.testing.assert_allclose(values(GRID.iir(2 * b, 2 * a)), dsp.lfilter(b, a, X), atol=1e-12)
    sos = dsp.butter(2 * order, 0.25, output="sos")
    np.testing.assert_allclose(values(GRID.sos(sos)), dsp.sosfilt(sos, X), atol=1e-12)


@pytest.mark.parametrize("gap", [1, 5, 1000, 10**6])
def test_missing_samples_are_zero_inputs_for_filters(gap):
    """A gap counts as that many zeros, whatever its length, and yields no output of its own."""
    ticks = np.concatenate((np.arange(20), np.arange(20) + 20 + gap))
    table = pa.table({"k": np.zeros(40, np.int64), "t": ticks * 10, "v": X[:40]})
    full = np.zeros(40 + gap)
    full[ticks] = X[:40]
    b, a = dsp.butter(3, 0.01)
    sos = dsp.butter(4, 0.01, output="sos")
    np.testing.assert_allclose(values(GRID.iir(b, a), table), dsp.lfilter(b, a, full)[ticks], atol=1e-12)
    np.testing.assert_allclose(values(GRID.sos(sos), table), dsp.sosfilt(sos, full)[ticks], atol=1e-12)
    h = rng.normal(size=15)
    np.testing.assert_allclose(values(GRID.fir(h), table), dsp.lfilter(h, 1, full)[ticks], atol=1e-12)


@pytest.mark.parametrize(("size", "hop"), [(16, 16), (16, 4), (16, 5), (7, 1), (8, 20)])
def test_spectra_are_numpy_ffts(size, hop):
    expected = frames(X, size, hop)
    expected = expected[[bool(np.any(row)) for row in expected]]
    for query, oracle in (
        (GRID.window(size, hop).fft(), fft.fft(expected)),
        (GRID.window(size, hop).rfft(), fft.rfft(expected)),
        (GRID.window(size, hop).fft(incremental=True), fft.fft(expected)),
        (GRID.window(size, hop, taper="hann").fft(), fft.fft(expected * dsp.get_window("hann", size))),
        (GRID.window(size, hop).fft().ifft().real(), expected),
        (GRID.window(size, hop).rfft().irfft(), expected),
    ):
        np.testing.assert_allclose(values(query), oracle, atol=1e-10)


def test_sliding_spectrum_does_not_drift():
    x = rng.normal(size=20_000) * 100
    table = pa.table({"k": np.zeros(len(x), np.int64), "t": np.arange(len(x)), "v": x})
    out = values(SOURCE.sample(1).window(64, 1, missing="skip").rfft(), table)
    expected = fft.rfft(np.lib.stride_tricks.sliding_window_view(x, 64))
    np.testing.assert_allclose(out, expected, atol=1e-8)


def test_windows_stand_at_the_time_of_their_last_sample():
    result = GRID.window(4, hop=2, missing="skip").run(TABLE)
    assert result["t"].to_pylist()[:3] == [30, 50, 70]


@pytest.mark.parametrize(("taper", "size", "hop"), [("hann", 16, 8), ("hann", 32, 8), ("boxcar", 12, 4)])
def test_overlap_add_reconstructs_where_windows_sum_to_a_constant(taper, size, hop):
    """The taper's shifted copies sum to a constant, so the signal comes back, ends included."""
    constant = dsp.get_window(taper, size).reshape(-1, hop).sum(0)[0]
    query = GRID.window(size, hop, taper=taper).rfft().irfft().overlap_add()
    result = query.run(TABLE)
    assert result["t"].to_pylist() == TABLE["t"].to_pylist()
    np.testing.assert_allclose(vs.to_values(result["v"]) / constant, X, atol=1e-12)


def test_correlation_windows():
    expected = frames(X, 8, 8)
    out = values(GRID.window(8).autocorrelate())
    np.testing.assert_allclose(out, [np.correlate(w, w, "full") for w in expected], atol=1e-12)
    pattern = rng.normal(size=3)
    out = values(GRID.window(8).cross_correlate(pattern))
    np.testing.assert_allclose(out, [np.correlate(w, pattern, "full") for w in expected], atol=1e-12)


def test_interpolation_is_numpy_interp():
    t = np.cumsum(rng.integers(1, 30, 200))
    v = rng.normal(size=200)
    table = pa.table({"k": np.zeros(200, np.int64), "t": t, "v": v})
    result = SOURCE.sample(7, 2, interpolate="linear").run(table)
    beats = np.array(result["t"])
    assert beats[0] == -(-(t[0] - 2) // 7) * 7 + 2
    assert (np.diff(beats) == 7).all()
    np.testing.assert_allclose(result["v"], np.interp(beats, t, v), atol=1e-12)


def test_second_order_is_the_parabola_through_two_earlier_points_and_the_next():
    t, v = np.array([0, 4, 9, 20]), np.array([1.0, 3.0, -2.0, 5.0])
    result = SOURCE.sample(1, interpolate="second").run(pa.table({"k": [0] * 4, "t": t, "v": v}))
    got = dict(zip(result["t"].to_pylist(), result["v"].to_pylist(), strict=True))
    assert sorted(got) == [0, *range(4, 21)]
    for low, beats in ((0, range(5, 9)), (1, range(10, 20))):
        curve = interpolate.KroghInterpolator(t[low : low + 3], v[low : low + 3])
        np.testing.assert_allclose([got[b] for b in beats], curve(list(beats)), atol=1e-12)


def test_last_holds_for_its_window_also_at_the_end():
    table = pa.table({"k": [0, 0], "t": [0, 100], "v": [1.0, 2.0]})
    result = SOURCE.sample(10, interpolate="last", max_gap=25).run(table)
    assert result["t"].to_pylist() == [0, 10, 20, 100, 110, 120]
    assert result["v"].to_pylist() == [1.0] * 3 + [2.0] * 3


def test_max_gap_separates_sequences():
    """Figure 7.4: reference points more than the interpolation window apart are not joined."""
    table = pa.table({"k": [0] * 4, "t": [0, 40, 100, 190], "v": [0.0, 4.0, 10.0, 19.0]})
    result = SOURCE.sample(30, interpolate="linear", max_gap=60).run(table)
    assert result["t"].to_pylist() == [0, 30, 60, 90]
    np.testing.assert_allclose(result["v"], [0.0, 3.0, 6.0, 9.0])


def test_reference_points_of_intervals():
    """An event [a, b) gives a, the beats inside and b - 1; beats beyond are interpolated from b - 1."""
    query = vs.source(time="t", end="e", value="v").sample(10, interpolate="linear")
    result = query.run(pa.table({"t": [5, 45], "e": [26, 46], "v": [1.0, 3.0]}))
    assert result["t"].to_pylist() == [10, 20, 30, 40]
    np.testing.assert_allclose(result["v"], [1.0, 1.0, 1 + 2 * 5 / 20, 1 + 2 * 15 / 20])


@pytest.mark.parametrize(("keep", "expected"), [("first", 1.0), ("last", 2.0)])
def test_duplicates(keep, expected):
    table = pa.table({"k": [0, 0, 0], "t": [0, 0, 10], "v": [1.0, 2.0, 5.0]})
    result = SOURCE.sample(5, interpolate="linear", duplicates=keep).run(table)
    np.testing.assert_allclose(result["v"], [expected, (expected + 5) / 2, 5.0])
    with pytest.raises(vs.OverlapError, match=r"key 0.*at 0"):
        SOURCE.sample(5).run(table)


def test_hopping_aggregates():
    for name, oracle in (("sum", np.sum), ("mean", np.mean), ("min", np.min), ("max", np.max)):
        result = GRID.aggregate_windows(name, 4, 4).run(TABLE)
        np.testing.assert_allclose(result["v"], [oracle(w) for w in X.reshape(-1, 4)], atol=1e-12)
        assert result["t"].to_pylist()[:2] == [30, 70]
    np.testing.assert_allclose(values(GRID.energy(5)), (X.reshape(-1, 5) ** 2).sum(1), atol=1e-12)
    np.testing.assert_allclose(values(GRID.power(5)), (X.reshape(-1, 5) ** 2).mean(1), atol=1e-12)


def test_arithmetic_resamples_the_slower_signal():
    """Figure 7.11: periods 20 and 5; the slower is interpolated to the grid of the faster."""
    slow = vs.source(time="t", value="v", name="a").sample(20, interpolate="linear")
    fast = vs.source(time="t", value="v", name="b").sample(5)
    a = pa.table({"t": np.arange(0, 200, 20), "v": rng.normal(size=10)})
    b = pa.table({"t": np.arange(0, 200, 5), "v": rng.normal(size=40)})
    result = (slow + fast).run({"a": a, "b": b})
    beats = np.arange(0, 181, 5)
    assert result["t"].to_pylist() == beats.tolist()
    expected = np.interp(beats, a["t"], a["v"]) + np.array(b["v"])[: len(beats)]
    np.testing.assert_allclose(result["v"], expected, atol=1e-12)


def test_rates():
    up = SOURCE.sample(10, interpolate="linear").upsample(2)
    np.testing.assert_allclose(values(up)[::2], X)
    np.testing.assert_allclose(values(up)[1::2], (X[1:] + X[:-1]) / 2)
    result = GRID.downsample(3).run(TABLE)
    assert result["t"].to_pylist() == list(range(0, 3000, 30))
    np.testing.assert_array_equal(result["v"], X[::3])


def test_user_filters_with_feedback_are_lfilter():
    b, a = [0.3, 0.2], [1.0, -0.5, 0.1]

    def compute(x, y):
        return x @ np.array(b[::-1]) - y @ np.array(a[:0:-1])

    np.testing.assert_allclose(values(GRID.filter(compute, 2, 2)), dsp.lfilter(b, a, X), atol=1e-12)


def test_window_operator_updates_agree_with_recomputation():
    calls = {"update": 0}

    def update(total, old, new):
        calls["update"] += len(total)
        return total + (new - old).sum(1, keepdims=True)

    @vs.window_op(update=update)
    def total(windows):
        return windows.sum(1, keepdims=True)

    result = values(GRID.window(6, 3, missing="skip").apply(total))
    expected = [[X[s : s + 6].sum()] for s in range(0, 295, 3)]
    np.testing.assert_allclose(result, expected, atol=1e-12)
    assert calls["update"] == len(expected) - 1
