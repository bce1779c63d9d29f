"""Order and lateness: errors that name key and time, policies for late events, revisions."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewlet.signals as vs
from signals.laws import assert_same, cuts_of, interval_events, pushed, readings
from signals.queries import IRREGULAR

SOURCE = vs.source(key="k", time="t", value="v")
QUERY = SOURCE.sample(10, interpolate="linear")


def table(*rows):
    k, t, v = zip(*rows, strict=True)
    return pa.table({"k": list(k), "t": list(t), "v": [float(x) for x in v]})


def test_time_running_backwards_names_key_and_time():
    session = QUERY.start()
    session.push(table(("a", 0, 1), ("b", 50, 1)))
    with pytest.raises(vs.OrderError, match=r"key 'b'.* at 40.*before 51|key 'b'.*at 40"):
        session.push(table(("a", 60, 1), ("b", 40, 1)))
    assert session.push(table(("a", 10, 2))).num_rows == 1, "a refused batch changes nothing"


def test_events_before_an_advance_are_refused():
    session = QUERY.start()
    session.push(table(("a", 0, 1)))
    session.advance(100)
    with pytest.raises(vs.OrderError, match="advanced to 100"):
        session.push(table(("z", 99, 1)))


def test_overlapping_lifetimes_are_refused():
    query = vs.source(key="k", time="t", end="e", value="v").sample(1)
    with pytest.raises(vs.OverlapError, match=r"key 1.*at 5.*until 9"):
        query.run(pa.table({"k": [1, 2, 1], "t": [0, 0, 5], "e": [9, 1, 6], "v": [1.0, 1.0, 1.0]}))
    stream = vs.events(key="k", time="t", end="e").signal("v")
    with pytest.raises(vs.OverlapError, match=r"key 1.*at 5.*until 9"):
        stream.run(pa.table({"k": [1, 2, 1], "t": [0, 0, 5], "e": [9, 1, 6], "v": [1.0, 1.0, 1.0]}))


@pytest.mark.parametrize("name", ["linear", "last", "different rates", "irregular product", "spectral"])
def test_shuffled_within_lateness(name):
    query = IRREGULAR[name]

    @settings(max_examples=15, deadline=None)
    @given(readings(), st.integers(0, 2**32 - 1))
    def law(data, seed):
        data = data.sort_by("t")
        rng = np.random.default_rng(seed)
        times = np.array(data["t"])
        order = np.argsort(times + rng.integers(0, 31, len(times)), kind="stable")
        shuffled = data.take(pa.array(order))
        cuts = cuts_of(data.num_rows, seed)
        assert_same(pushed(query, shuffled, cuts, seed % 5, lateness=30), query.run(data))

    law()


def late_rows():
    return table(("a", 0, 0), ("a", 30, 3), ("a", 100, 10), ("a", 20, 99), ("a", 130, 13))


def test_late_events_raise_are_dropped_or_adjusted():
    with pytest.raises(vs.OrderError, match=r"k='a' at 20 is late.*before 50"):
        QUERY.run(late_rows(), lateness=50)
    assert QUERY.run(late_rows(), lateness=50, late="drop").equals(
        QUERY.run(table(("a", 0, 0), ("a", 30, 3), ("a", 100, 10), ("a", 130, 13)))
    )
    assert QUERY.run(late_rows(), lateness=50, late="adjust").equals(
        QUERY.run(table(("a", 0, 0), ("a", 30, 3), ("a", 50, 99), ("a", 100, 10), ("a", 130, 13)))
    )


@settings(max_examples=15, deadline=None)
@given(interval_events(rows=15), st.integers(0, 2**32 - 1))
def test_what_is_late_does_not_depend_on_the_split(data, seed):
    query = vs.events(key="k", time="s", end="e").aggregate(n="count(*)")
    shuffled = data.take(pa.array(np.random.default_rng(seed).permutation(data.num_rows)))
    for late in ("drop",):
        whole = query.run(shuffled, lateness=4, late=late)
        assert_same(pushed(query, shuffled, cuts_of(data.num_rows, seed), lateness=4, late=late), whole)


@pytest.mark.parametrize(
    "query",
    [QUERY, SOURCE.sample(10, interpolate="linear").window(4, 2).rfft().irfft().overlap_add()],
    ids=["linear", "overlap add"],
)
def test_revisions_add_up_to_the_result_in_order(query):
    @settings(max_examples=15, deadline=None)
    @given(readings(keys=2, rows=30), st.integers(0, 2**32 - 1))
    def law(data, seed):
        rng = np.random.default_rng(seed)
        shuffled = data.take(pa.array(rng.permutation(data.num_rows)))
        session = query.start(lateness=10, late="revise", horizon=10**6)
        bounds = [0, *sorted(cuts_of(data.num_rows, seed)), data.num_rows]
        changes = []
        for number, (a, b) in enumerate(itertools.pairwise(bounds)):
            if number == seed % 5:  # a restart in the middle
                saved = session.checkpoint()
                session = query.start(lateness=10, late="revise", horizon=10**6).restore(saved)
            changes.append(session.push(shuffled.slice(a, b - a)))
        changes.append(session.flush())
        rows = query.run(data.sort_by("t")).to_pylist()
        assert net(changes) == {(r["k"], r["t"], round(r["v"], 6) + 0.0): 1 for r in rows}

    law()


def net(changes: list[pa.Table]) -> dict:
    """What is left of rows with weights."""
    weights: dict = {}
    for row in (row for part in changes if "_weight" in part.column_names for row in part.to_pylist()):
        key = (row["k"], row["t"], round(row["v"], 6) + 0.0)
        weights[key] = weights.get(key, 0) + row["_weight"]
    return {key: weight for key, weight in weights.items() if weight}


@settings(max_examples=20, deadline=None)
@given(readings(keys=2, rows=20), readings(keys=2, rows=20), st.integers(0, 2**32 - 1))
def test_revisions_of_two_sources_add_up(left, right, seed):
    """Each source is late in its own way and at its own pace; now and then only one of them has events."""
    rng = np.random.default_rng(seed)
    a = vs.source(key="k", time="t", value="v", name="a").sample(10, interpolate="linear")
    query = a + vs.source(key="k", time="t", value="v", name="b").sample(10, interpolate="last", max_gap=50)
    tables = {"a": left, "b": right}
    shuffled = {n: t.take(pa.array(rng.permutation(t.num_rows))) for n, t in tables.items()}
    session, changes, at = query.start(lateness=10, late="revise", horizon=10**6), [], {"a": 0, "b": 0}
    while any(at[n] < t.num_rows for n, t in shuffled.items()):
        sizes = {n: int(rng.integers(0, 8)) for n in shuffled if rng.random() < 0.8}
        if not sizes:
            continue
        changes.append(session.push({n: shuffled[n].slice(at[n], size) for n, size in sizes.items()}))
        at |= {n: at[n] + size for n, size in sizes.items()}
        if rng.random() < 0.2:
            saved = session.checkpoint()
            session = query.start(lateness=10, late="revise", horizon=10**6).restore(saved)
    changes.append(session.flush())
    rows = query.run({n: t.sort_by("t") for n, t in tables.items()}).to_pylist()
    assert net(changes) == {(r["k"], r["t"], round(r["v"], 6) + 0.0): 1 for r in rows}


def test_events_older_than_the_horizon_are_refused():
    session = QUERY.start(lateness=0, late="revise", horizon=20)
    for t in range(0, 200, 10):
        session.push(table(("a", t, t)))
    with pytest.raises(vs.OrderError, match="horizon"):
        session.push(table(("a", 5, 1)))


def test_a_failed_operator_stops_the_session():
    def broken(values):
        if len(values) > 1:
            raise ValueError("no")
        return values

    session = SOURCE.sample(10).map(broken).start()
    session.push(table(("a", 0, 1)))
    with pytest.raises(ValueError, match="no"):
        session.push(table(("a", 10, 1), ("a", 20, 1)))
    with pytest.raises(vs.SessionError, match="restore a checkpoint"):
        session.push(table(("a", 30, 1)))


def test_a_later_batch_without_a_column_is_refused():
    session = QUERY.start()
    session.push(table(("a", 0, 1)))
    with pytest.raises(vs.SignalTypeError, match="no column 't'"):
        session.push({"k": ["a"], "v": [1.0]})


def test_a_checkpoint_knows_its_query(tmp_path):
    session = QUERY.start()
    session.push(table(("a", 0, 1), ("a", 15, 2)))
    session.checkpoint(tmp_path / "state")
    other = QUERY.start().restore(tmp_path / "state")
    assert other.push(table(("a", 40, 4))).equals(session.push(table(("a", 40, 4))))
    with pytest.raises(vs.SessionError, match="another query"):
        SOURCE.sample(7).start().restore(tmp_path / "state")
    with pytest.raises(vs.SessionError, match="another query"):
        QUERY.fir([1.0, 2.0]).start().restore(QUERY.fir([1.0, 3.0]).start().checkpoint())
    with pytest.raises(vs.SessionError, match="revise"):
        QUERY.start(lateness=0, late="revise", horizon=9).restore(tmp_path / "state")
    session.flush()
    with pytest.raises(vs.SessionError, match="flushed"):
        session.push(table(("a", 50, 4)))


def test_results_feed_a_table_and_lookups_read_one():
    places = pa.table({"k": ["a", "b"], "room": ["hall", "attic"]})
    named = vs.events(key="k", time="t").lookup(places, on="k").where("room = 'attic'")
    rows = table(("a", 0, 1), ("b", 0, 2), ("c", 0, 3))
    assert named.run(rows).to_pylist() == [{"k": "b", "t": 0, "v": 2.0, "room": "attic"}]
    kept = vs.events(key="k", time="t").lookup(places, on="k", keep=True).run(rows)
    assert kept["room"].to_pylist() == ["hall", "attic", None]
    received = []
    session = QUERY.start(into=received.append)
    session.push(rows)
    assert [t.num_rows for t in received] == [3]


def test_group_reduces_by_another_column():
    rows = pa.table(
        {"k": ["a", "b", "a", "b"], "t": [0, 1, 2, 3], "v": [1.0, 2.0, 3.0, 4.0], "floor": [1, 1, 2, 1]}
    )
    query = vs.events(key="k", time="t").group("floor").lasting(10).aggregate(n="count(*)", top="max(v)")
    result = query.run(rows)
    assert result.column_names == ["floor", "t", "end", "n", "top"]
    ones = [r for r in result.to_pylist() if r["floor"] == 1]
    assert [(r["t"], r["n"], r["top"]) for r in ones] == [
        (0, 1, 1.0),
        (1, 2, 2.0),
        (3, 3, 4.0),
        (10, 2, 4.0),
        (11, 1, 4.0),
    ]


def test_two_sources_need_their_data():
    a, b = (vs.source(time="t", value="v", name=n).sample(1) for n in "ab")
    with pytest.raises(vs.SignalError, match="no data for source b"):
        (a + b).run({"a": pa.table({"t": [0], "v": [1.0]})})
