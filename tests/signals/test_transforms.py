"""The native transforms and filters against SciPy: every length, odd numbers of rows, rows that overlap."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import fft
from scipy import signal as dsp

import viewlet.signals as vs
from signals.laws import assert_same, cuts_of, pushed
from viewlet.signals import reference
from viewlet.signals.kernels import using

pytestmark = pytest.mark.native
SIZES = (32, 64, 128, 512, 4096, 8192)


@pytest.fixture(scope="module")
def native():
    from viewlet.signals.native import library

    return library


def close(got, want):
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, atol=1e-12 * max(1.0, abs(want).max(initial=0.0)), rtol=0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_spectra_of_real_windows(native, size, rows):
    windows = np.random.default_rng(rows).normal(size=(rows, size))
    close(native.rfft(windows), fft.rfft(windows))
    close(native.fft(windows), fft.fft(windows))
    half = fft.rfft(windows)
    close(native.irfft(half, size), fft.irfft(half, size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [1, 3])
def test_spectra_of_complex_windows(native, size, rows):
    rng = np.random.default_rng(size)
    windows = rng.normal(size=(rows, size)) + 1j * rng.normal(size=(rows, size))
    close(native.fft(windows), fft.fft(windows))
    close(native.ifft(windows), fft.ifft(windows))


def test_first_and_last_bin_of_a_half_spectrum_count_as_real(native):
    rng = np.random.default_rng(3)
    spectra = rng.normal(size=(3, 33)) + 1j * rng.normal(size=(3, 33))
    close(native.irfft(spectra, 64), fft.irfft(spectra, 64))


@pytest.mark.parametrize("size", [8, 31, 48, 65, 100, 129])
def test_other_lengths_are_transformed_too(native, size):
    windows = np.random.default_rng(size).normal(size=(3, size))
    close(native.rfft(windows), fft.rfft(windows))
    close(native.ifft(windows + 0j), fft.ifft(windows + 0j))
    close(native.irfft(fft.rfft(windows), size), fft.irfft(fft.rfft(windows), size))


def test_rows_may_overlap_lie_apart_or_be_turned(native):
    line = np.random.default_rng(0).normal(size=1000)
    for windows in (
        np.lib.stride_tricks.sliding_window_view(line, 64)[::7],
        line[:960].reshape(5, 192)[:, :64],
        line[:640].reshape(64, 10).T,
        line[:640].reshape(10, 64)[::-1],
        np.broadcast_to(line[:64], (3, 64)),
    ):
        close(native.rfft(windows), fft.rfft(windows))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_window_is_not_felt_in_another(native, bad):
    windows = np.random.default_rng(1).normal(size=(4, 64))
    spectra = native.rfft(windows), native.fft(windows), native.fft(windows + 0j)
    windows[1, 5] = bad
    for before, after in zip(
        spectra, (native.rfft(windows), native.fft(windows), native.fft(windows + 0j)), strict=True
    ):
        np.testing.assert_array_equal(before[[0, 2, 3]], after[[0, 2, 3]])
    half = np.array(spectra[0])
    back = native.irfft(half, 64)
    half[1, 5] = bad
    np.testing.assert_array_equal(native.irfft(half, 64)[[0, 2, 3]], back[[0, 2, 3]])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_filter_feels_a_sample_only_after_it(bad):
    values = np.random.default_rng(2).normal(size=3000)
    values[1500] = bad
    table = pa.table({"t": np.arange(3000), "v": values})
    out = vs.source(time="t", value="v").sample(1).fir(np.ones(200)).run(table)["v"].to_numpy()
    assert np.isfinite(out[:1500]).all()
    assert not np.isfinite(out[1500:1700]).any()
    assert np.isfinite(out[1700:]).all()


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("taps", [65, 130, 700])
def test_long_filters_over_gaps_and_splits(channels, taps):
    """Runs of many lengths, some through the spectrum and some not, equal one long direct convolution."""
    rng = np.random.default_rng(taps)
    weights = rng.normal(size=taps)
    ticks = np.sort(rng.choice(9000, 8000, replace=False))
    ticks = ticks[(ticks < 1000) | (ticks > 1000 + 2 * taps)]
    dense = np.zeros((ticks[-1] + 1, *channels))
    dense[ticks] = rng.normal(size=(len(ticks), *channels))
    names = [f"v{c}" for c in range(*channels)] if channels else ["v0"]
    columns = dense[ticks].reshape(len(ticks), -1)
    table = pa.table({"t": ticks} | {name: columns[:, c] for c, name in enumerate(names)})
    query = vs.source(time="t", value=names).sample(1).fir(weights)
    want = dsp.oaconvolve(dense, weights.reshape(-1, *(1,) * len(channels)), axes=0)[ticks]
    for cuts in ([], cuts_of(len(ticks), taps, 6)):
        got = pushed(query, table, cuts, restore_at=2 if cuts else None)
        values = np.stack([got[name].to_numpy() for name in names], axis=1).reshape(want.shape)
        np.testing.assert_allclose(values, want, atol=1e-10)


def test_complex_taps_and_samples(native):
    rng = np.random.default_rng(8)
    taps = rng.normal(size=100) + 1j * rng.normal(size=100)
    values = rng.normal(size=2000) + 1j * rng.normal(size=2000)
    table = pa.table({"t": np.arange(2000), "v": vs.from_values(values)})
    got = vs.to_values(vs.source(time="t", value="v").sample(1).fir(taps).run(table)["v"])
    np.testing.assert_allclose(got, np.convolve(values, taps)[:2000], atol=1e-11)


@pytest.mark.parametrize("hop", [32, 64, 100])
def test_pipelines_of_long_windows_agree_with_reference(hop):
    table = interleaved()
    grid = vs.source(key="k", time="t", value="v").sample(10)
    for query in (
        grid.window(64, hop).rfft().map(lambda a: a * 0.5).irfft().overlap_add(),
        grid.window(64, hop).fft().ifft().real().overlap_add(),
    ):
        native = pushed(query, table, cuts_of(table.num_rows, hop))
        with using(reference):
            assert_same(native, query.run(table))


def interleaved():
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 3, 900)
    ticks = np.zeros(900, np.int64)
    for key in range(3):
        ticks[keys == key] = np.cumsum(np.where(rng.random((keys == key).sum()) < 0.9, 10, 70))
    return pa.table({"k": keys, "t": ticks, "v": rng.normal(size=900)})
