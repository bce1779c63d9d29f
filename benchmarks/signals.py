"""Signal queries against SciPy, a pandas groupby loop and polars: the figures 7.8-7.12 of the thesis.

    python benchmarks/signals.py [--events 10000000] [--quick] [--spark] [--out DIRECTORY]

Every number is million events per second of CPU time (all threads of the process), the better of two runs
where a run takes less than two seconds. Rivals read the same arrays in the same process; before anything is
timed, all contenders of a task are compared on a small input. "online" pushes batches of 1,048,576 events and
drops each result; "run" keeps the whole result, as SciPy does. polars gets at most two million events.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import fft
from scipy import signal as dsp

import viewlet.signals as vs

RESULTS = Path(__file__).parent / "results" / "signals"
BATCH = 1 << 20
POLARS_EVENTS = 2_000_000
KEYED = vs.source(key="k", time="t", value="v")
PLAIN = vs.source(time="t", value="v")
PATTERN = np.random.default_rng(5).normal(size=32)


def cpu_seconds(action: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
        if best > 2:
            break
    return best


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


# -- grouped tasks: viewlet, pandas, polars --------------------------------------------------------------


def loop(table: pa.Table, each: Callable) -> pd.DataFrame:
    """The pandas way: split by key, compute with NumPy and SciPy, put together."""
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
        "pandas loop": lambda: loop(table, interpolate_each(period)),
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

    return {"viewlet": lambda: query.run(table), "pandas loop": lambda: loop(table, each), "polars": polars}


def join_and_filter(events: int, groups: int):
    """Periods 20 and 5: interpolate the slow signal, add the fast one, keep extreme sums."""
    slow, fast = regular(events // 5, groups, 20, 3), regular(events - events // 5, groups, 5, 4)
    a = vs.source(key="k", time="t", value="v", name="a").sample(20, interpolate="linear", max_gap=20)
    b = vs.source(key="k", time="t", value="v", name="b").sample(5)
    query = (a.resample(5) + b).where("v < 0.05 or v > 1.95")

    def pandas():
        left, right = loop(slow, interpolate_each(5)), fast.to_pandas()
        both = left.merge(right, on=["k", "t"])
        both["v"] = both.pop("v_x") + both.pop("v_y")
        return both[(both["v"] < 0.05) | (both["v"] > 1.95)]

    def polars():
        left = polars_interpolated(pl.from_arrow(slow), 5)
        both = left.join(pl.from_arrow(fast), on=["k", "t"])
        sums = both.select("k", "t", v=pl.col("v") + pl.col("v_right"))
        return sums.filter((pl.col("v") < 0.05) | (pl.col("v") > 1.95))

    return {"viewlet": lambda: query.run({"a": slow, "b": fast}), "pandas loop": pandas, "polars": polars}


def overlap_add(events: int, groups: int, size: int = 256, hop: int = 128):
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

    return {"viewlet": lambda: query.run(table), "pandas loop": lambda: loop(table, each)}


GROUPED = {
    "interpolation": interpolation,
    "correlation, 32": correlation,
    "interpolate, join, filter": join_and_filter,
    "overlap-add 256/128": overlap_add,
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
                size = events
                if who == "polars" and events > POLARS_EVENTS:
                    size, run = POLARS_EVENTS, task(POLARS_EVENTS, count)[who]
                row[who] = size / cpu_seconds(run)
                print(f"  {name}, {count:,} groups, {who}: {row[who] / 1e6:.2f} M/s", flush=True)
            rows.append(row)
    return rows


def figure_hops(events: int) -> list[dict]:
    rows = []
    for hop in (32, 64, 128, 256):
        contenders = overlap_add(events, 100, 256, hop)
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


def per_group(period: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def interpolated(part: pd.DataFrame) -> pd.DataFrame:
        part = part.sort_values("t")
        beats, values = interpolate_each(period)(part["t"].to_numpy(), part["v"].to_numpy())
        return pd.DataFrame({"k": part["k"].iloc[0], "t": beats, "v": values})

    return interpolated


def figure_spark(events: int, groups: list[int]) -> list[dict]:
    """CPU seconds of the whole process tree, since the work is done by the JVM and its Python workers."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    rows = []
    for count in groups:
        path = Path(tempfile.gettempdir()) / f"viewlet-signals-{os.getpid()}-{count}.parquet"
        pq.write_table(irregular(events, count), path)
        frame = spark.read.parquet(str(path))
        query = KEYED.sample(count, interpolate="linear")

        def write(result) -> None:
            result.write.format("noop").mode("overwrite").save()

        pandas_way = frame.groupBy("k").applyInPandas(per_group(count), "k long, t long, v double")
        row: dict = {"groups": count}
        for who, result in (("viewlet", query.spark(frame)), ("applyInPandas", pandas_way)):
            if who == "applyInPandas" and count > 2_000:
                continue  # about 3 ms of CPU per group
            write(result.limit(10))
            start = tree_cpu()
            write(result)
            row[who] = events / (tree_cpu() - start)
            print(f"  spark, {count:,} groups, {who}: {row[who] / 1e6:.3f} M/s", flush=True)
        rows.append(row)
        path.unlink()
    spark.stop()
    return rows


def tree_cpu() -> float:
    """CPU seconds of this process and all its descendants, living and waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / ticks
    mine = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        if not more:
            return sum(times.get(pid, 0.0) for pid in mine)
        mine |= more


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


def plot(path: Path, rows: list[dict], x: str, names: list[str], title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for name in names:
        points = [(row[x], row[name] / 1e6) for row in rows if name in row]
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel="million events per CPU second", title=title)
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="one million events, fewer sizes")
    parser.add_argument("--spark", action="store_true", help="also Spark against applyInPandas")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    events = min(options.events, 1_000_000) if options.quick else options.events
    sizes = [64, 1024] if options.quick else [64, 256, 1024, 4096]
    taps = [64, 1024] if options.quick else [64, 256, 1024, 2048]
    groups = [10, 1_000] if options.quick else [10, 1_000, 100_000]
    options.out.mkdir(parents=True, exist_ok=True)
    check_agreement()
    load = os.getloadavg()[0]
    sections = {
        "FFT over tumbling windows (Figure 7.8)": (figure_fft(events, sizes), 2),
        "FIR filter (Figure 7.9)": (figure_fir(events, taps), 1),
        "Grouped queries (Figures 7.10, 7.11)": (figure_grouped(events, groups), 2),
        "Overlap-add, 256 samples, 100 groups, by hop (Figure 7.12)": (figure_hops(events), 1),
        "Spectra of 512-sample windows, sliding or recomputed": (figure_sliding(events), 1),
    }
    if options.spark:
        rows = figure_spark(min(events, 2_000_000), [10, 1_000, 20_000])
        sections["Interpolation on Spark, local[2], CPU of the process tree"] = (rows, 1)
    machine = (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at start"
    )
    text = [
        "# Signals\n",
        f"`python benchmarks/signals.py {' '.join(sys.argv[1:])}` with {events:,} events; {machine}; "
        f"Python {platform.python_version()}, NumPy {np.__version__}, polars {pl.__version__}.",
        "Million events per second of CPU time, one process; larger is better. What each column means is in",
        "the script's docstring.\n",
        *(markdown(title, rows, labels) for title, (rows, labels) in sections.items()),
    ]
    (options.out / "README.md").write_text("\n".join(text))
    (options.out / "figures.json").write_text(
        json.dumps({t: rows for t, (rows, _) in sections.items()}, indent=1)
    )
    draw(options.out, {title: rows for title, (rows, _) in sections.items()})
    print("\n".join(text))


def draw(out: Path, sections: dict[str, list[dict]]) -> None:
    transforms, filters, grouped, hops, sliding, *_ = sections.values()
    half = [row for row in transforms if row["transform"] == "rfft"]
    contenders = ["viewlet online", "viewlet run", "SciPy whole array", "SciPy per window"]
    plot(out / "fft.png", half, "window", contenders, "rfft over tumbling windows")
    plot(
        out / "fir.png",
        filters,
        "taps",
        ["viewlet online", "viewlet run", "lfilter", "oaconvolve"],
        "FIR filter",
    )
    for task in dict.fromkeys(row["task"] for row in grouped):
        rows = [row for row in grouped if row["task"] == task]
        name = task.split(",")[0].split(" ")[0] + ("-join" if "join" in task else "")
        plot(
            out / f"{name}.png",
            rows,
            "groups",
            ["viewlet", "pandas loop", "polars"][: len(rows[0]) - 2],
            task,
        )
    plot(out / "hop.png", hops, "hop", ["viewlet", "pandas loop"], "overlap-add of 256-sample windows")
    plot(out / "sliding.png", sliding, "hop", ["sliding", "recomputed"], "257 bins of 512-sample windows")


if __name__ == "__main__":
    main()
