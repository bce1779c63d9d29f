"""Signal queries against SciPy, a pandas groupby loop and polars: the figures 7.8-7.12 of the thesis.

    python benchmarks/signals.py [--events 10000000] [--quick] [--out DIRECTORY]
    python benchmarks/signals.py --spark    # the figures on Spark, added to the others

Every number is million events per second of CPU time (all threads of the process), the best of four runs
where a run takes less than half a second, of one where it takes more than two. Rivals read the same arrays in
the same process; before anything is timed, all contenders of a task are compared on a small input.

"online" pushes batches of 1,048,576 events and drops each result; "run", and "viewlet" among the grouped
queries, keeps the whole result, as the rivals do. "pandas loop" is ``for key, part in frame.groupby("k")``
with NumPy inside; "NumPy loop" is its fastest form, which takes rows by ``groupby.indices`` and never makes a
frame of a group. polars gets two million events, and all of them where these take it less than a second.

Grouped windows are 32 samples long, since at 100,000 groups a signal has only 100 samples; by hop they are
256 long, as in the thesis. The goals are those that the project set itself; the table says which are missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import fft
from scipy import signal as dsp

import plots
import reports
import viewlet.signals as vs

RESULTS = reports.results("signals")
RUNS = ("", "--spark")
BATCH = 1 << 20
POLARS_EVENTS = 2_000_000
KEYED = vs.source(key="k", time="t", value="v")
PLAIN = vs.source(time="t", value="v")
PATTERN = np.random.default_rng(5).normal(size=32)


def cpu_seconds(action: Callable[[], object]) -> float:
    taken: list[float] = []  # the first may be cold: it is no measure of what more of them would take
    while len(taken) < 4 and sum(taken) < 2:
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    return min(taken)


def online(query, table: pa.Table) -> None:
    session = query.start()
    for low in range(0, table.num_rows, BATCH):
        session.push(table.slice(low, BATCH))
    session.flush()


# -- inputs ------------------------------------------------------------------------------------------------


def plain(events: int) -> pa.Table:
    return pa.table({"t": np.arange(events), "v": np.random.default_rng(0).random(events)})


def irregular(events: int, groups: int) -> pa.Table:
    """Readings of random sensors, one per time unit: about ``groups`` time units apart inside a group."""
    rng = np.random.default_rng(1)
    return pa.table({"k": rng.integers(0, groups, events), "t": np.arange(events), "v": rng.random(events)})


def regular(events: int, groups: int, period: int = 1, seed: int = 2) -> pa.Table:
    """Every sensor reads at every beat, interleaved."""
    beats = max(events // groups, 1)
    values = np.random.default_rng(seed).random(beats * groups)
    times = np.repeat(np.arange(beats) * period, groups)
    return pa.table({"k": np.tile(np.arange(groups), beats), "t": times, "v": values})


# -- grouped tasks: viewlet, pandas, NumPy, polars ---------------------------------------------------------


def frames(table: pa.Table, each: Callable) -> pd.DataFrame:
    """The pandas way: a frame for every key, computed with NumPy and SciPy, put together."""
    parts = []
    for key, part in table.to_pandas().groupby("k", sort=False):
        beat, value = each(part["t"].to_numpy(), part["v"].to_numpy())
        parts.append(pd.DataFrame({"k": key, "t": beat, "v": value}))
    return pd.concat(parts)


def loop(table: pa.Table, each: Callable) -> pd.DataFrame:
    """The same without a frame per key."""
    frame = table.to_pandas()
    t, v = frame["t"].to_numpy(), frame["v"].to_numpy()
    keys, times, values = [], [], []
    for key, rows in frame.groupby("k", sort=False).indices.items():
        beat, value = each(t[rows], v[rows])
        keys.append(np.full(len(beat), key))
        times.append(beat)
        values.append(value)
    return pd.DataFrame({"k": np.concatenate(keys), "t": np.concatenate(times), "v": np.concatenate(values)})


def beats_between(t: np.ndarray, period: int) -> np.ndarray:
    return np.arange(-(-t[0] // period) * period, t[-1] + 1, period)


def interpolate_each(period: int) -> Callable:
    def each(t, v):
        beats = beats_between(t, period)
        return beats, np.interp(beats, t, v)

    return each


def polars_interpolated(frame: pl.DataFrame, period: int) -> pl.DataFrame:
    first, last = pl.col("t").min(), pl.col("t").max()
    low = ((first + period - 1) // period * period).alias("t")
    grid = frame.group_by("k").agg(pl.int_ranges(low, last + 1, period)).explode("t").drop_nulls()
    both = pl.concat([frame, grid.with_columns(v=pl.lit(None, pl.Float64)).select("k", "t", "v")])
    filled = both.sort("k", "t", "v", nulls_last=True).with_columns(pl.col("v").interpolate_by("t").over("k"))
    return filled.filter(pl.col("t") % period == 0).unique(["k", "t"], keep="first")


def interpolation(events: int, groups: int):
    table, period = irregular(events, groups), groups
    return {
        "viewlet": lambda: KEYED.sample(period, interpolate="linear").run(table),
        "pandas loop": lambda: frames(table, interpolate_each(period)),
        "NumPy loop": lambda: loop(table, interpolate_each(period)),
        "polars": lambda: polars_interpolated(pl.from_arrow(table), period),
    }


def correlation(events: int, groups: int):
    table = regular(events, groups)
    query = KEYED.sample(1).correlate(PATTERN, missing="skip")

    def each(t, v):
        return t[31:], np.correlate(v, PATTERN, "valid") if len(v) > 31 else v[:0]

    def polars():
        weighted = pl.col("v").rolling_sum(32, weights=PATTERN.tolist()).over("k")
        return pl.from_arrow(table).with_columns(weighted).drop_nulls()

    return {
        "viewlet": lambda: query.run(table),
        "pandas loop": lambda: frames(table, each),
        "NumPy loop": lambda: loop(table, each),
        "polars": polars,
    }


def join_and_filter(events: int, groups: int):
    """Periods 20 and 5: interpolate the slow signal, add the fast one, keep extreme sums."""
    slow, fast = regular(events // 5, groups, 20, 3), regular(events - events // 5, groups, 5, 4)
    a = vs.source(key="k", time="t", value="v", name="a").sample(20, interpolate="linear", max_gap=20)
    b = vs.source(key="k", time="t", value="v", name="b").sample(5)
    query = (a.resample(5) + b).where("v < 0.05 or v > 1.95")

    def pandas(split):
        left, right = split(slow, interpolate_each(5)), fast.to_pandas()
        both = left.merge(right, on=["k", "t"])
        both["v"] = both.pop("v_x") + both.pop("v_y")
        return both[(both["v"] < 0.05) | (both["v"] > 1.95)]

    def polars():
        left = polars_interpolated(pl.from_arrow(slow), 5)
        both = left.join(pl.from_arrow(fast), on=["k", "t"])
        sums = both.select("k", "t", v=pl.col("v") + pl.col("v_right"))
        return sums.filter((pl.col("v") < 0.05) | (pl.col("v") > 1.95))

    return {
        "viewlet": lambda: query.run({"a": slow, "b": fast}),
        "pandas loop": lambda: pandas(frames),
        "NumPy loop": lambda: pandas(loop),
        "polars": polars,
    }


def overlap_add(events: int, groups: int, size: int = 32, hop: int = 16):
    table = regular(events, groups)
    query = KEYED.sample(1).window(size, hop).rfft().map(lambda a: a).irfft().overlap_add()

    def each(t, v):
        lead = -(-(size - 1) // hop) * hop
        count = -(-(len(v) + lead) // hop)
        padded = np.zeros(count * hop + size)
        padded[lead : lead + len(v)] = v
        windows = np.lib.stride_tricks.sliding_window_view(padded, size)[: count * hop : hop]
        windows = fft.irfft(fft.rfft(windows), size)
        out = np.zeros(len(padded))
        for part in range(0, size, hop):
            width = min(hop, size - part)
            shifted = windows[:, part : part + width]
            rows = out[part : part + count * hop].reshape(count, hop)
            rows[:, :width] += shifted
        return t, out[lead : lead + len(v)]

    return {
        "viewlet": lambda: query.run(table),
        "pandas loop": lambda: frames(table, each),
        "NumPy loop": lambda: loop(table, each),
    }


GROUPED = {
    "interpolation": interpolation,
    "correlation, 32": correlation,
    "interpolate, join, filter": join_and_filter,
    "overlap-add 32/16": overlap_add,
}


def canonical(result) -> np.ndarray:
    frame = result.to_pandas() if hasattr(result, "to_pandas") else result
    frame = frame[["k", "t", "v"]].sort_values(["k", "t"])
    return frame.to_numpy(dtype=float)


def check_agreement() -> None:
    """All contenders of every grouped task give the same rows."""
    for name, task in GROUPED.items():
        results = {who: canonical(run()) for who, run in task(20_000, 10).items()}
        for who, rows in results.items():
            np.testing.assert_allclose(rows, results["viewlet"], atol=1e-9, err_msg=f"{name}: {who}")


# -- the figures --------------------------------------------------------------------------------------------


def figure_fft(events: int, sizes: list[int]) -> list[dict]:
    table = plain(events)
    values = table["v"].to_numpy()
    rows = []
    for size in sizes:
        whole = values[: events // size * size].reshape(-1, size)
        small = whole[: max(1, 200_000 // size)]
        for name, function, query in (
            ("rfft", fft.rfft, PLAIN.sample(1).window(size).rfft()),
            ("fft", fft.fft, PLAIN.sample(1).window(size).fft()),
        ):
            rows.append(
                {
                    "transform": name,
                    "window": size,
                    "viewlet online": events / cpu_seconds(lambda q=query: online(q, table)),
                    "viewlet run": events / cpu_seconds(lambda q=query: q.run(table)),
                    "SciPy whole array": events / cpu_seconds(lambda f=function, w=whole: f(w)),
                    "SciPy per window": small.size
                    / cpu_seconds(lambda f=function, s=small: [f(row) for row in s]),
                }
            )
    return rows


def figure_fir(events: int, sizes: list[int]) -> list[dict]:
    table = plain(events)
    values = table["v"].to_numpy()
    rows = []
    for size in sizes:
        taps = np.random.default_rng(size).normal(size=size)
        query = PLAIN.sample(1).fir(taps)
        short = values[: min(events, 2_000_000)]
        rows.append(
            {
                "taps": size,
                "viewlet online": events / cpu_seconds(lambda q=query: online(q, table)),
                "viewlet run": events / cpu_seconds(lambda q=query: q.run(table)),
                "lfilter": len(short) / cpu_seconds(lambda h=taps, x=short: dsp.lfilter(h, 1, x)),
                "oaconvolve": events / cpu_seconds(lambda h=taps: dsp.oaconvolve(values, h)),
            }
        )
    return rows


def figure_grouped(events: int, groups: list[int]) -> list[dict]:
    rows = []
    for name, task in GROUPED.items():
        for count in groups:
            row = {"task": name, "groups": count}
            for who, run in task(events, count).items():
                if who == "polars" and events > POLARS_EVENTS:
                    few = cpu_seconds(task(POLARS_EVENTS, count)[who])
                    row[who] = POLARS_EVENTS / few if few > 1 else events / cpu_seconds(run)
                else:
                    row[who] = events / cpu_seconds(run)
                print(f"  {name}, {count:,} groups, {who}: {row[who] / 1e6:.2f} M/s", flush=True)
            rows.append(row)
    return rows


def figure_hops(events: int) -> list[dict]:
    rows = []
    for hop in (32, 64, 128, 256):
        contenders = overlap_add(events, 100, 256, hop)
        del contenders["pandas loop"]  # with 100 groups the same as the NumPy loop
        rows.append({"hop": hop} | {who: events / cpu_seconds(run) for who, run in contenders.items()})
    return rows


def figure_sliding(events: int) -> list[dict]:
    """All 257 bins of 512-sample windows: slide the spectrum, or compute it anew."""
    rows = []
    for hop in (1, 4, 8, 16, 32, 64):
        count = min(events, 20_000 * hop)
        table = plain(count)
        row: dict = {"hop": hop}
        for name, incremental in (("sliding", True), ("recomputed", False)):
            query = PLAIN.sample(1).window(512, hop, missing="skip").rfft(incremental=incremental)
            row[name] = count / cpu_seconds(lambda q=query, t=table: online(q, t))
        rows.append(row)
    return rows


# -- goals --------------------------------------------------------------------------------------------------

AHEAD_OF_PANDAS = {10: 5, 1_000: 8, 100_000: 20}


def goals(transforms: list[dict], filters: list[dict], grouped: list[dict]) -> list[tuple[str, float, float]]:
    """What was aimed at: a description, the ratio measured (the worst, where there are several), the goal."""
    worst_transform = min(row["viewlet online"] / row["SciPy whole array"] for row in transforms)
    worst_filter = min(row["viewlet online"] / max(row["lfilter"], row["oaconvolve"]) for row in filters)
    found = [
        ("spectra of windows, online, over whole-array SciPy", worst_transform, 1.0),
        ("FIR online over the better of lfilter and oaconvolve", worst_filter, 1.0),
    ]
    for name in GROUPED:
        rows = [row for row in grouped if row["task"] == name]
        for row in rows:
            ratio = row["viewlet"] / row["pandas loop"]
            found.append(
                (f"{name}, {row['groups']:,} groups, over pandas", ratio, AHEAD_OF_PANDAS[row["groups"]])
            )
        if "polars" in rows[0]:
            found.append((f"{name}, over polars", min(r["viewlet"] / r["polars"] for r in rows), 3.0))
        rates = [row["viewlet"] for row in rows]
        found.append((f"{name}, flat in groups: least over most", min(rates) / max(rates), 0.5))
    return found


def goals_of_spark(batch: list[dict], stream: list[dict]) -> list[tuple[str, float, float]]:
    found = []
    for title, rows, rival in (
        ("Spark batch", batch, "applyInPandas"),
        ("Spark stream", stream, "state per key"),
    ):
        rates = [row["viewlet"] for row in rows]
        found.append((f"{title}, flat in groups: least over most", min(rates) / max(rates), 0.5))
        ahead = min(row["viewlet"] / row[rival] for row in rows if rival in row)
        found.append((f"{title}, over {rival}", ahead, 1.0))
    return found


def goals_table(found: list[tuple[str, float, float]]) -> str:
    lines = [
        f"| {what} | {ratio:.2f} | {goal:g} | {'yes' if ratio >= goal else '**no**'} |"
        for what, ratio, goal in found
    ]
    return "## Goals\n\n| ratio | measured | goal | met |\n|---|---|---|---|\n" + "\n".join(lines) + "\n"


# -- report --------------------------------------------------------------------------------------------------


def markdown(title: str, rows: list[dict], labels: int) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    head = "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns)
    lines = [
        "| "
        + " | ".join(
            str(row.get(name, "-")) if i < labels else (f"{row[name] / 1e6:.2f}" if name in row else "-")
            for i, name in enumerate(columns)
        )
        + " |"
        for row in rows
    ]
    return f"## {title}\n\n{head}\n" + "\n".join(lines) + "\n"


def plot(path: Path, rows: list[dict], x: str, title: str) -> None:
    names = [name for name in rows[0] if name not in (x, "transform", "task")]
    series = {name: [(row[x], row[name] / 1e6) for row in rows if name in row] for name in names}
    plots.curves(path, series, x, "million events per second", title=title)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="one million events, fewer sizes")
    parser.add_argument("--spark", action="store_true", help="Spark alone, batch and streaming")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    events = min(options.events, 1_000_000) if options.quick else options.events
    options.out.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    check_agreement()
    measured = on_spark(events, options.quick) if options.spark else in_one_process(events, options.quick)
    command = " ".join(["python benchmarks/signals.py", *sys.argv[1:]])
    made = (
        f"Made by `{command}` with {events:,} events on {time.strftime('%Y-%m-%d')}; "
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at start; "
        f"Python {platform.python_version()}, NumPy {np.__version__}, polars {pl.__version__}."
    )
    kept = options.out / "figures.json"
    figures = json.loads(kept.read_text()) if kept.exists() else {}
    figures |= {title: {"rows": rows, "made": made} for title, rows in measured.items()}
    kept.write_text(json.dumps(figures, indent=1))
    write_report(options.out, figures)
    draw(options.out, {title: figure["rows"] for title, figure in figures.items()})


FFT = "FFT over tumbling windows (Figure 7.8)"
FIR = "FIR filter (Figure 7.9)"
GROUPS = "Grouped queries (Figures 7.10, 7.11)"
HOPS = "Overlap-add, 256 samples, 100 groups, by hop (Figure 7.12)"
SLIDING = "Spectra of 512-sample windows, sliding or recomputed"
SPARK_BATCH = "Interpolation on Spark, batch, per CPU second of the process tree"
SPARK_STREAM = "Interpolation on Spark, stream, per second of steady micro-batches"
LABELS = {
    FFT: 2,
    FIR: 1,
    GROUPS: 2,
    HOPS: 1,
    SLIDING: 1,
    SPARK_BATCH: 1,
    SPARK_STREAM: 1,
}  # columns not rates


def in_one_process(events: int, quick: bool) -> dict[str, list[dict]]:
    return {
        FFT: figure_fft(events, [64, 1024] if quick else [64, 256, 1024, 4096]),
        FIR: figure_fir(events, [64, 1024] if quick else [64, 256, 1024, 2048]),
        GROUPS: figure_grouped(events, [10, 1_000] if quick else [10, 1_000, 100_000]),
        HOPS: figure_hops(events),
        SLIDING: figure_sliding(events),
    }


def on_spark(events: int, quick: bool) -> dict[str, list[dict]]:
    from signals_spark import figure_batch, figure_stream

    return {
        SPARK_BATCH: figure_batch(
            min(events, 4_000_000), [10, 1_000] if quick else [10, 1_000, 20_000, 100_000]
        ),
        SPARK_STREAM: figure_stream([100, 1_000] if quick else [100, 1_000, 10_000]),
    }


def write_report(out: Path, figures: dict[str, dict]) -> None:
    """The page of all figures measured so far; each says which command made it."""
    rows = {title: figure["rows"] for title, figure in figures.items()}
    found = goals(rows[FFT], rows[FIR], rows[GROUPS]) if GROUPS in rows else []
    found += goals_of_spark(rows[SPARK_BATCH], rows[SPARK_STREAM]) if SPARK_BATCH in rows else []
    text = [
        "# Signals\n",
        "Million events per second of CPU time, one process (on Spark as the titles say); larger is better. "
        "What each column means is in the script's docstring.\n",
        goals_table(found),
    ]
    for title in LABELS:
        if title in figures:
            text += [markdown(title, rows[title], LABELS[title]), figures[title]["made"] + "\n"]
    (out / "README.md").write_text("\n".join(text))
    print("\n".join(text))


def draw(out: Path, figures: dict[str, list[dict]]) -> None:
    if GROUPS in figures:
        half = [row for row in figures[FFT] if row["transform"] == "rfft"]
        plot(out / "fft.png", half, "window", "rfft over tumbling windows (Figure 7.8)")
        plot(out / "fir.png", figures[FIR], "taps", "FIR filter (Figure 7.9)")
        for task, (name, number) in FIGURES.items():
            rows = [row for row in figures[GROUPS] if row["task"] == task]
            plot(out / f"{name}.png", rows, "groups", f"{task}{number}")
        plot(out / "hop.png", figures[HOPS], "hop", "overlap-add of 256-sample windows (Figure 7.12)")
        plot(out / "sliding.png", figures[SLIDING], "hop", "257 bins of 512-sample windows")
    for title, name in ((SPARK_BATCH, "batch"), (SPARK_STREAM, "stream")):
        if title in figures:
            plot(out / f"spark_{name}.png", figures[title], "groups", f"interpolation on Spark, {name}")


FIGURES = {
    "interpolation": ("interpolation", ""),
    "correlation, 32": ("correlation", " (Figure 7.10)"),
    "interpolate, join, filter": ("interpolate-join", " (Figure 7.11)"),
    "overlap-add 32/16": ("overlap-add", ""),
}


if __name__ == "__main__":
    main()
