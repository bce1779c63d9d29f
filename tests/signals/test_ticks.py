"""Interval semantics against a brute-force evaluator that looks at every tick of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings

import viewlet.signals as vs
from signals.laws import interval_events

EVENTS = vs.events(key="k", time="s", end="e")
TICKS = range(-5, 140)
QUICK = settings(max_examples=40, deadline=None)


def active(table: pa.Table, key: int, tick: int) -> list[dict]:
    return [row for row in table.to_pylist() if row["k"] == key and row["s"] <= tick < row["e"]]


def snapshots(result: pa.Table, column: str) -> dict[tuple[int, int], float]:
    """What a result says at each tick; a second answer for one tick is a failure."""
    out: dict = {}
    for row in result.to_pylist():
        for tick in range(row["s"], row["end"]):
            assert (row["k"], tick) not in out, "two events at once"
            out[row["k"], tick] = row[column]
    return out


def expected(table: pa.Table, function, members=active) -> dict[tuple[int, int], float]:
    return {
        (k, tick): function([row["v"] for row in rows])
        for k in set(table["k"].to_pylist())
        for tick in TICKS
        if (rows := members(table, k, tick))
    }


@QUICK
@given(interval_events())
def test_snapshot_aggregates(table):
    result = EVENTS.aggregate(
        n="count(*)", total="sum(v)", low="min(v)", high="max(v)", mean="avg(v)", spread=(np.ptp, "v")
    ).run(table)
    for column, function in (
        ("n", len), ("total", sum), ("low", min), ("high", max), ("mean", np.mean), ("spread", np.ptp),
    ):  # fmt: skip
        assert snapshots(result, column) == expected(table, function)


@QUICK
@given(interval_events())
def test_hopping_windows(table):
    """At a grid point g, and until the next, exactly the events that started in [g - size, g) count."""
    size, hop, offset = 12, 4, 1

    def members(table, key, tick):
        point = (tick - offset) // hop * hop + offset
        return [r for r in table.to_pylist() if r["k"] == key and point - size <= r["s"] < point]

    result = EVENTS.hopping(size, hop, offset).aggregate(n="count(*)").run(table)
    assert snapshots(result, "n") == expected(table, len, members)


@QUICK
@given(interval_events())
def test_sessions_leave_once(table):
    timeout = 5
    result = EVENTS.sessions(timeout).aggregate(n="count(*)").run(table).to_pylist()
    sessions = []
    for key in sorted(set(table["k"].to_pylist())):
        starts = [r["s"] for r in table.to_pylist() if r["k"] == key]
        open_from = 0
        for i in range(1, len(starts) + 1):
            if i == len(starts) or starts[i] - starts[i - 1] >= timeout:
                sessions.append((key, starts[open_from], starts[i - 1] + timeout, i - open_from))
                open_from = i
    assert sorted((r["k"], r["s"], r["end"], r["n"]) for r in result) == sorted(sessions)


@QUICK
@given(interval_events(), interval_events())
def test_temporal_join_and_union(left, right):
    a = vs.events(key="k", time="s", end="e", name="a").select("v")
    b = vs.events(key="k", time="s", end="e", name="b").select(w="v")
    joined = a.join(b).run({"a": left, "b": right}).to_pylist()
    for key in (0, 1):
        for tick in TICKS:
            got = sorted((r["v"], r["w"]) for r in joined if r["k"] == key and r["s"] <= tick < r["end"])
            pairs = [(x["v"], y["v"]) for x in active(left, key, tick) for y in active(right, key, tick)]
            assert got == sorted(pairs)
    merged = a.union(b.select(v="w")).aggregate(n="count(*)").run({"a": left, "b": right})
    both = pa.concat_tables([left, right])
    assert snapshots(merged, "n") == expected(both, len)


@QUICK
@given(interval_events())
def test_sampling_takes_the_active_event(table):
    signal = EVENTS.until_next().signal("v").sample(3, 1)
    got = {(r["k"], r["s"]): r["v"] for r in signal.run(table).to_pylist()}
    want = {}
    for key in (0, 1):
        mine = [r for r in table.to_pylist() if r["k"] == key]
        for tick in TICKS:
            begun = [r for r in mine if r["s"] <= tick]
            if tick % 3 == 1 and begun and begun[-1]["e"] > tick:
                want[key, tick] = begun[-1]["v"]
    assert got == want


@QUICK
@given(interval_events())
def test_products_of_irregular_signals(table):
    step = EVENTS.until_next().signal("v")
    product = step * EVENTS.shift(4).until_next().signal("v")
    got = snapshots(product.run(table), "v")
    plain = snapshots(step.run(table), "v")
    want = {(k, t): v * plain[k, t - 4] for (k, t), v in plain.items() if (k, t - 4) in plain}
    assert got == want
