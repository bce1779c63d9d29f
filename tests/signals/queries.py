"""Queries that between them use every operator; each must give one answer however its input arrives."""

from __future__ import annotations

import numpy as np
from scipy import signal as dsp

import viewlet.signals as vs

SOURCE = vs.source(key="k", time="t", value="v")
EVENTS = vs.events(key="k", time="s", end="e")
GRID = SOURCE.sample(10)
rng = np.random.default_rng(0)
TAPS = rng.normal(size=7)
LONG_TAPS = rng.normal(size=130)
SOS = dsp.butter(4, 0.2, output="sos")
B, A = dsp.butter(3, 0.3)


def midpoint(t, t0, v0, t1, v1):
    return (v0 + v1) / 2


@vs.window_op(update=lambda total, old, new: total - old.sum(1, keepdims=True) + new.sum(1, keepdims=True))
def total(windows):
    return windows.sum(1, keepdims=True)


# Over irregular readings (k, t, v).
IRREGULAR = {
    "exact": SOURCE.sample(5),
    "linear": SOURCE.sample(7, 3, interpolate="linear"),
    "linear within": SOURCE.sample(7, interpolate="linear", max_gap=30),
    "second": SOURCE.sample(7, 2, interpolate="second", max_gap=90),
    "step": SOURCE.sample(6, interpolate="step", max_gap=50),
    "last": SOURCE.sample(6, interpolate="last", max_gap=25),
    "constant": SOURCE.sample(9, interpolate="constant", constant=-1.0, max_gap=50),
    "user": SOURCE.sample(9, interpolate=midpoint, max_gap=50),
    "resample": SOURCE.sample(12, interpolate="linear").resample(5, 1, interpolate="step", max_gap=24),
    "upsample": SOURCE.sample(12, interpolate="linear", max_gap=60).upsample(3),
    "downsample": SOURCE.sample(4, interpolate="linear").downsample(3),
    "where": SOURCE.where("v > -0.5").sample(5, interpolate="linear").where("value < 0.5 or v > 1"),
    "map scale": (SOURCE.map(np.abs) * 3.0).sample(5, interpolate="linear").map(np.sqrt),
    "different rates": SOURCE.sample(20, interpolate="linear") + SOURCE.sample(5, interpolate="step"),
    "different offsets": SOURCE.sample(10, interpolate="linear") - SOURCE.sample(10, 3, interpolate="step"),
    "shift": SOURCE.sample(10, interpolate="linear") * SOURCE.sample(10, interpolate="linear").shift(25),
    "irregular product": SOURCE.until_next().signal("v") * SOURCE.shift(7).until_next().signal("v"),
    "irregular and uniform": SOURCE.until_next().signal("v") + SOURCE.sample(5, interpolate="linear"),
    "shifted": SOURCE.shift(13).sample(5, interpolate="linear"),
    "spectral": SOURCE.sample(10, interpolate="linear")
    .window(8, hop=4, taper="hann")
    .fft()
    .ifft()
    .overlap_add(),
}

# Over readings on a grid of 10 with gaps.
UNIFORM = {
    "fir": GRID.fir(TAPS),
    "fir skip": GRID.fir(TAPS[:3], missing="skip"),
    "fir long": SOURCE.sample(1, interpolate="step").fir(LONG_TAPS),
    "fir complex": GRID.fir([1, 2j, -0.5]),
    "correlate": GRID.correlate(TAPS[:4]),
    "iir": GRID.iir(B, A),
    "sos": GRID.sos(SOS),
    "user filter": GRID.filter(lambda x, y: x @ np.array([0.25, 0.5, 0.25]), forward=3),
    "user feedback": GRID.filter(lambda x, y: x[:, -1] + 0.5 * y[:, -1] - 0.1 * y[:, 0], 1, 2),
    "user skip": GRID.filter(lambda x, y: x.max(1) + 0.1 * y[:, 0], 3, 1, missing="skip"),
    "windows": GRID.window(4, hop=2),
    "windows skip": GRID.window(3, hop=1, missing="skip"),
    "windows far": GRID.window(3, hop=5),
    "fft": GRID.window(8).fft(),
    "rfft taper": GRID.window(8, hop=4, taper="hann").rfft(),
    "sliding fft": GRID.window(8, hop=1).fft(incremental=True),
    "sliding far": GRID.window(4, hop=10).rfft(incremental=True),
    "sliding rfft skip": GRID.window(6, hop=2, missing="skip").rfft(incremental=True),
    "auto sliding": SOURCE.sample(2, interpolate="linear").window(64, hop=2).rfft(),
    "autocorrelate": GRID.window(5, hop=3).autocorrelate(),
    "cross": GRID.window(5, hop=5).cross_correlate(TAPS[:3]),
    "times": GRID.window(4).times([1, 2, 3, 4]).overlap_add(),
    "overlap add": GRID.window(8, hop=2).rfft().map(lambda a: a).irfft().overlap_add(),
    "overlap add 16": GRID.window(16, hop=8).rfft().map(lambda a: a * 2).irfft().overlap_add(),
    "overlap add 32 skip": GRID.window(32, hop=4, missing="skip").rfft().irfft().overlap_add(),
    "overlap add 64": SOURCE.sample(1, interpolate="step").window(64, hop=48).rfft().irfft().overlap_add(),
    "overlap mean 16": GRID.window(16, hop=5).rfft().map(np.conj).irfft().unwindow("mean"),
    "overlap max 16": GRID.window(16, hop=20).rfft().irfft().unwindow("max"),
    "rfft 16": GRID.window(16).rfft(),
    "overlap complex": GRID.window(8, hop=4).fft().ifft().overlap_add(),
    "unwindow mean": GRID.window(6, hop=2).map(lambda a: a - a.mean(1, keepdims=True)).unwindow("mean"),
    "unwindow max": GRID.window(6, hop=4).unwindow("max"),
    "unwindow longer": GRID.window(3, hop=3).autocorrelate().overlap_add(),
    "unwindow skip": GRID.window(4, hop=2, missing="skip").overlap_add(),
    "incremental": GRID.window(6, hop=2).apply(total).reduce(lambda a: a[:, 0]),
    "sum": GRID.sum(4, 2),
    "energy": GRID.energy(3),
    "power": GRID.power(5, 1),
    "mean": GRID.aggregate_windows("mean", 4, 2),
    "min max": GRID.aggregate_windows("max", 4) - GRID.aggregate_windows("min", 4),
    "reduce chain": GRID.sum(2).fir([1, 1]).window(2).overlap_add(),
    "to stream": GRID.select(v="v * 2").lasting(15).aggregate(n="count(*)", s="sum(v)"),
}

# Over events with overlapping lifetimes (k, s, e, v).
INTERVALS = {
    "snapshot": EVENTS.aggregate(n="count(*)", total="sum(v)", lo="min(v)", hi="max(v)", m="avg(v)"),
    "energy": EVENTS.aggregate(p="power(v)", e2="energy(v)"),
    "user": EVENTS.aggregate(spread=(np.ptp, "v")),
    "hopping": EVENTS.hopping(20, 5).aggregate(n="count(*)"),
    "tumbling": EVENTS.tumbling(10, 3).aggregate(total="sum(v)"),
    "sparse hopping": EVENTS.hopping(4, 10).aggregate(total="sum(v)"),
    "sessions": EVENTS.sessions(6).aggregate(n="count(*)", total="sum(v)"),
    "until next": EVENTS.until_next(),
    "step signal": EVENTS.until_next().signal("v").sample(3),
    "clip shift": EVENTS.clip(4).shift(2),
    "extend": EVENTS.extend(3).where("v > 0"),
    "union": EVENTS.union(EVENTS.shift(5)).aggregate(n="count(*)"),
    "join": EVENTS.select("v").join(EVENTS.select(w="v + 1").shift(4)),
    "join on": EVENTS.select("v").join(EVENTS.select(w="v").shift(4), on={"v": "w"}),
    "signal sum": EVENTS.aggregate(a="sum(v)") + EVENTS.shift(3).aggregate(b="count(*)"),
    "duration": EVENTS.aggregate(hot="max(v)").where("hot > 2"),
}
