"""Spectral analysis of many sensors at once: the example of section 7.1.1 of the thesis, as a script.

Sensors report temperatures at irregular times, and some reports get lost. One query, for all sensors: bring
each signal to a grid by linear interpolation, take windows of 512 samples every 256, keep the few strongest
frequencies of each, go back, and add up where windows overlap. The same query then runs online, batch by
batch, with the same result.

    python docs/guide/spectral_analysis.py [picture.png]
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

import viewlet.signals as vs

PERIOD = 100  # milliseconds between samples


def readings(sensors: int = 4, count: int = 6_000, seed: int = 0) -> tuple[pa.Table, dict[int, np.ndarray]]:
    """Noisy waves read about every 100 ms, one report in ten lost; and the true waves on the grid."""
    rng = np.random.default_rng(seed)
    truth, parts = {}, []
    for sensor in range(sensors):
        period = 2_000 + 1_500 * sensor

        def wave(t: np.ndarray, period: int = period) -> np.ndarray:
            return 20 + 5 * np.sin(2 * np.pi * t / period) + 2 * np.sin(2 * np.pi * t / (0.31 * period))

        times = np.unique(np.arange(count) * PERIOD + rng.integers(-40, 41, count))
        times = times[rng.random(len(times)) > 0.1]
        values = wave(times) + rng.normal(scale=1.5, size=len(times))
        parts.append(pa.table({"sensor": np.full(len(times), sensor), "t": times, "temp": values}))
        truth[sensor] = wave(np.arange(count) * PERIOD)
    return pa.concat_tables(parts).sort_by("t"), truth


def strongest(spectra: np.ndarray, keep: int = 16) -> np.ndarray:
    """Zero all but the strongest frequencies of each window: rows are windows, never a single one."""
    threshold = np.partition(np.abs(spectra), -keep, axis=1)[:, -keep, None]
    return np.where(np.abs(spectra) >= threshold, spectra, 0)


QUERY = (
    vs.source(key="sensor", time="t", value="temp")
    .where("temp < 100")
    .sample(PERIOD, interpolate="linear", max_gap=2_000)
    .window(512, hop=256, taper="hann")
    .fft()
    .map(strongest)
    .ifft()
    .real()
    .overlap_add()
)


def main(picture: str | None = None) -> dict[str, float]:
    """Run offline and online, compare, measure the noise removed, draw one sensor."""
    events, truth = readings()
    offline = QUERY.run(events)
    session = QUERY.start()
    pieces = [session.push(events.slice(low, 1_000)) for low in range(0, events.num_rows, 1_000)]
    online = pa.concat_tables([*pieces, session.flush()], promote_options="default")
    orders = [("sensor", "ascending"), ("t", "ascending")]
    a, b = offline.sort_by(orders), online.sort_by(orders)
    apart = float(np.abs(np.array(a["temp"]) - np.array(b["temp"])).max())

    def mine(table: pa.Table, sensor: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.array(table["sensor"]) == sensor
        return np.array(table["t"])[rows], np.array(table["temp"])[rows]

    before, after = [], []
    for sensor, wave in truth.items():
        t, v = mine(a, sensor)
        inside = (t >= 300 * PERIOD) & (t < 5_700 * PERIOD)  # whole windows on both sides
        after.append(v[inside] - wave[t[inside] // PERIOD])
        before.append(
            mine(events, sensor)[1] - np.interp(mine(events, sensor)[0], np.arange(len(wave)) * PERIOD, wave)
        )
    if picture:
        draw(picture, mine(events, 0), mine(a, 0))
    return {
        "noise before": float(np.concatenate(before).std()),
        "noise after": float(np.concatenate(after).std()),
        "offline and online apart": apart,
    }


def draw(path: str, raw: tuple[np.ndarray, np.ndarray], clean: tuple[np.ndarray, np.ndarray]) -> None:
    """Thirty seconds of one sensor, as read and as cleaned."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.5))
    for (t, v), style, label in ((raw, ".", "readings"), (clean, "-", "strongest frequencies")):
        shown = (t > 60_000) & (t < 90_000)
        axes.plot(t[shown] / 1000, v[shown], style, label=label)
    axes.set(xlabel="seconds", ylabel="temperature (°C)", ylim=(9, 33))
    axes.legend(loc="upper right", ncols=2)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    for name, value in main(sys.argv[1] if len(sys.argv) > 1 else None).items():
        print(f"{name}: {value:.3g}")
