"""Values other than real numbers, keys other than integers, times other than integers, and wrong ones."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import signal as dsp

import viewlet.signals as vs

rng = np.random.default_rng(1)


def test_complex_samples():
    z = rng.normal(size=50) + 1j * rng.normal(size=50)
    table = pa.table({"t": np.arange(50), "z": vs.from_values(z)})
    grid = vs.source(time="t", value="z").sample(1)
    h = rng.normal(size=5)
    np.testing.assert_allclose(vs.to_values(grid.fir(h).run(table)["z"]), dsp.lfilter(h, 1, z))
    np.testing.assert_allclose(vs.to_values((grid * grid).run(table)["z"]), z * z)
    spectrum = vs.to_values(grid.window(10).fft().run(table)["z"])
    np.testing.assert_allclose(spectrum, np.fft.fft(z.reshape(-1, 10)))
    struct = pa.StructArray.from_arrays([pa.array(z.real), pa.array(z.imag)], ["re", "im"])
    again = vs.source(time="t", value="z").sample(1).run(pa.table({"t": np.arange(50), "z": struct}))
    np.testing.assert_array_equal(vs.to_values(again["z"]), z)
    np.testing.assert_allclose(
        vs.to_values(grid.energy(5).run(table)["z"]), (abs(z) ** 2).reshape(-1, 5).sum(1)
    )


def test_channels_side_by_side():
    xyz = rng.normal(size=(40, 3))
    table = pa.table({"t": np.arange(40) * 2, "x": xyz[:, 0], "y": xyz[:, 1], "z": xyz[:, 2]})
    grid = vs.source(time="t", value=["x", "y", "z"]).sample(1, interpolate="linear")
    out = grid.iir([1.0], [1.0, -0.5]).run(table)
    assert out.column_names == ["t", "x", "y", "z"]
    for i, name in enumerate("xyz"):
        dense = np.interp(np.arange(79), np.arange(40) * 2, xyz[:, i])
        np.testing.assert_allclose(out[name], dsp.lfilter([1], [1, -0.5], dense), atol=1e-12)
    back = grid.window(8, 4, taper="hann").fft().ifft().real().overlap_add().run(table)
    dense = np.interp(np.arange(79), np.arange(40) * 2, xyz[:, 1])
    np.testing.assert_allclose(back["y"], dense, atol=1e-12)
    top = grid.aggregate_windows("max", 4).run(table)
    assert top.column_names == ["t", "x", "y", "z"]


@dataclass(frozen=True)
class Dual:
    """A number with its derivative: a payload type of the user's own."""

    value: float
    slope: float

    def __add__(self, other):
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other):
        return Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other):
        if isinstance(other, Dual):
            return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)
        return Dual(self.value * other, self.slope * other)

    __rmul__ = __mul__


def decode(column):
    out = np.empty(len(column), object)
    out[:] = [Dual(row["value"], row["slope"]) for row in column.to_pylist()]
    return out


def encode(values):
    return pa.array([{"value": d.value, "slope": d.slope} for d in values])


DUALS = vs.Payload(zero=Dual(0.0, 0.0), decode=decode, encode=encode)


def test_a_payload_type_of_the_users():
    rows = [{"value": float(i), "slope": 1.0} for i in range(5)]
    table = pa.table({"t": [0, 2, 4, 6, 8], "d": rows})
    source = vs.source(time="t", value="d", payload=DUALS)
    half = source.sample(1, interpolate="linear").run(table)["d"].to_pylist()
    assert half[1] == {"value": 0.5, "slope": 1.0}
    squares = (source.sample(2) * source.sample(2)).run(table)["d"].to_pylist()
    assert squares[3] == {"value": 9.0, "slope": 6.0}
    pairs = source.sample(2).fir([1.0, 1.0], missing="skip").run(table)["d"].to_pylist()
    assert pairs[0] == {"value": 1.0, "slope": 2.0}
    session = source.sample(1, interpolate="linear").start()
    session.push(table)
    with pytest.raises(vs.SessionError, match="payload"):
        session.checkpoint()


def test_homogeneous_functional_payloads():
    """One function for the signal; its arguments are the payload (thesis 7.3.2)."""
    table = pa.table({"s": [0, 100], "e": [100, 150], "freq": [40.0, 20.0], "phase": [0.0, 1.0]})
    wave = vs.events(time="s", end="e").signal("freq", "phase")
    wave = wave.with_function(lambda t, e: np.sin(2 * np.pi * t / e.freq + e.phase))
    t = np.arange(0, 150, 10)
    freq, phase = np.where(t < 100, 40.0, 20.0), np.where(t < 100, 0.0, 1.0)
    expected = np.sin(2 * np.pi * t / freq + phase)
    np.testing.assert_allclose(wave.sample(10).run(table)["value"], expected, atol=1e-12)
    np.testing.assert_allclose((wave * wave).sample(10).run(table)["value"], expected**2, atol=1e-12)
    np.testing.assert_allclose((wave * 3.0).sample(10).run(table)["value"], expected * 3, atol=1e-12)
    with pytest.raises(vs.SignalTypeError, match="without interpolation"):
        wave.sample(10, interpolate="linear")


def test_heterogeneous_functional_payloads():
    """A function per event; modulation is multiplication of signals."""
    shapes = {"sine": vs.Function(np.sin), "line": vs.Function(lambda t: 2.0 * t)}

    def functions(column):
        out = np.empty(len(column), object)
        out[:] = [shapes[name] for name in column.to_pylist()]
        return out

    payload = vs.Payload(zero=None, decode=functions, encode=lambda values: pa.array([None] * len(values)))
    source = vs.source(time="s", end="e", value="shape", payload=payload).functions()
    table = pa.table({"s": [0, 5], "e": [5, 9], "shape": ["sine", "line"]})
    expected = [np.sin(t) if t < 5 else 2.0 * t for t in range(9)]
    np.testing.assert_allclose(source.sample(1).run(table)["value"], expected)
    np.testing.assert_allclose((source + source).sample(1).run(table)["value"], np.multiply(expected, 2))


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_any_table_in_arrow_out(convert):
    data = {"k": ["a", "b", "a"], "t": [0, 0, 20], "v": [0.0, 1.0, 2.0]}
    result = vs.source(key="k", time="t", value="v").sample(10, interpolate="linear").run(convert(data))
    assert sorted(result.to_pylist(), key=str) == [
        {"k": "a", "t": 0, "v": 0.0},
        {"k": "a", "t": 10, "v": 1.0},
        {"k": "a", "t": 20, "v": 2.0},
        {"k": "b", "t": 0, "v": 1.0},
    ]


def test_several_keys_and_null_keys():
    data = pa.table({"a": ["x", None, "x"], "b": [1, 1, 1], "t": [0, 0, 1], "v": [1.0, 2.0, 3.0]})
    result = vs.source(key=["a", "b"], time="t", value="v").sample(1).run(data)
    assert result.column_names == ["a", "b", "t", "v"]
    assert sorted(result.to_pylist(), key=str) == sorted(data.to_pylist(), key=str)


def test_null_values_are_missing_samples():
    data = pa.table({"t": [0, 1, 2], "v": [1.0, None, 3.0]})
    source = vs.source(time="t", value="v")
    assert source.sample(1).run(data)["t"].to_pylist() == [0, 2]
    assert source.sample(1, interpolate="linear").run(data)["v"].to_pylist() == [1.0, 2.0, 3.0]
    with pytest.raises(vs.UnitError, match="'t' is NULL in row 1"):
        source.sample(1).run(pa.table({"t": [0, None], "v": [1.0, 2.0]}))


def test_timestamps_and_durations_with_units():
    start = dt.datetime(2024, 3, 31, 0, 59, 59, tzinfo=dt.UTC)  # a second before daylight saving begins
    times = pa.array([start, start + dt.timedelta(seconds=3)], pa.timestamp("us", "Europe/Zurich"))
    query = vs.source(time="t", value="v").sample("500ms", interpolate="linear", max_gap="5s")
    result = query.run(pa.table({"t": times, "v": [0.0, 3.0]}))
    assert result.schema.field("t").type == times.type
    assert result["v"].to_pylist() == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    plain = pa.table({"t": [0, 1000], "v": [0.0, 1.0]})
    with pytest.raises(vs.UnitError, match="unit='ms'"):
        query.run(plain)
    unit = vs.source(time="t", value="v", unit="ms").sample("500ms", interpolate="linear")
    assert unit.run(plain)["t"].to_pylist() == [0, 500, 1000]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.sample("1s").window(4).overlap_add() + s.sample(5), "use one form"),
        (lambda s: s.sample("1s", max_gap=5), "mixes units"),
        (lambda s: s.sample(0), "must be positive"),
        (lambda s: s.sample("1 fortnight"), "no duration"),
        (lambda s: s.sample(1.5), "no duration"),
        (lambda s: s.sample(1, interpolate="cubic"), "constant, last, step, linear, second"),
        (lambda s: s.sample(1).window(0), "positive integer"),
        (lambda s: s.sample(1).window(4, missing="nan"), "'zero' or 'skip'"),
        (lambda s: s.sample(1).window(4, taper=[1, 2]), "shape"),
        (lambda s: s.sample(7).upsample(2), "not divisible"),
        (lambda s: s.aggregate(n="median(v)"), "functions: count"),
        (lambda s: s.aggregate(t="count(*)"), "choose another name"),
        (lambda s: s.sample(1).iir([1], [0, 1]), "must not be zero"),
        (lambda s: s.sample(1).window(4).unwindow("median"), "sum, max, min, mean"),
        (lambda s: vs.join(s, s, "/"), "no operation"),
    ],
)
def test_nonsense_is_refused_where_it_is_written(build, message):
    with pytest.raises(vs.SignalError, match=message):
        build(vs.source(time="t", value="v"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda s: s.where("w > 1").sample(1), "no column 'w'"),
        (lambda s: s.where("v + 1").sample(1), "not a condition"),
        (lambda s: s.sample(1).window(2).map(lambda a: a[:1]), "one row"),
        (lambda s: s.sample(1).map(lambda a: a[:1]), "keep their number"),
        (lambda s: s.sample(1).window(2).reduce(lambda a: a.sum()[None]), "one each"),
    ],
)
def test_nonsense_is_refused_when_it_meets_data(query, message):
    data = pa.table({"t": [0, 1, 2, 3], "v": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(vs.SignalError, match=message):
        query(vs.source(time="t", value="v")).run(data)


def test_missing_columns_are_named():
    with pytest.raises(vs.SignalTypeError, match="no column 'v'; there are t, w"):
        vs.source(time="t", value="v").sample(1).run(pa.table({"t": [0], "w": [1.0]}))
