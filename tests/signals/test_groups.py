"""Many groups: more than the cache holds, few of many, keys far apart, all in one pass."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import viewlet.signals as vs
from signals.laws import assert_same, cuts_of, pushed
from signals.queries import IRREGULAR, UNIFORM

QUERY = vs.source(key="k", time="t", value="v").sample(1).fir([1.0, 0.5])


def expected(keys, times, values):
    """Rows by key and time: each value plus half of the one a tick before, where there is one."""
    order = np.lexsort((times, keys))
    k, t, v = keys[order], times[order], values[order]
    follows = np.concatenate(([False], (k[1:] == k[:-1]) & (t[1:] == t[:-1] + 1)))
    return k, t, v + 0.5 * np.where(follows, np.roll(v, 1), 0.0)


@pytest.mark.parametrize("groups", [3, 9_000, 40_000])
@pytest.mark.parametrize("regular", [True, False])
def test_every_group_is_filtered_by_itself(groups, regular):
    rng = np.random.default_rng(groups)
    names = rng.permutation(10 * groups)[:groups] - 5 * groups
    rounds = max(3, 3000 // groups)
    if regular:
        keys, times = np.tile(names, rounds), np.repeat(np.arange(rounds), groups)
    else:
        keys, times = rng.choice(names, rounds * groups), np.arange(rounds * groups)
    values = rng.normal(size=len(keys))
    table = pa.table({"k": keys, "t": times, "v": values})
    got = pushed(QUERY, table, cuts_of(len(keys), groups, 2), restore_at=1)
    columns = [got[name].to_numpy() for name in ("k", "t", "v")]
    order = np.lexsort((columns[1], columns[0]))
    for column, want in zip(columns, expected(keys, times, values), strict=True):
        np.testing.assert_allclose(column[order], want, atol=1e-12)


def test_a_batch_of_few_among_many_groups():
    session = QUERY.start()
    session.push({"k": np.arange(50_000), "t": np.zeros(50_000, int), "v": np.ones(50_000)})
    out = session.push({"k": [49_999, 7, 49_999, 7], "t": [1, 1, 2, 2], "v": [4.0, 2.0, 0.0, 0.0]})
    rows = sorted(zip(*(out[name].to_pylist() for name in "ktv"), strict=True))
    assert rows == [(7, 1, 2.5), (7, 2, 1.0), (49_999, 1, 4.5), (49_999, 2, 2.0)]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()])
def test_null_is_a_key_among_integers(kind):
    keys = [3, None, 3, None, None, 7]
    table = pa.table(
        {"k": pa.array(keys, kind), "t": [0, 0, 1, 1, 2, 2], "v": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]}
    )
    got = pushed(QUERY, table, [1, 3, 4], restore_at=1)
    assert got.schema.field("k").type == kind
    rows = {(row["k"], row["t"]): row["v"] for row in got.to_pylist()}
    assert rows == {(3, 0): 1, (3, 1): 4.5, (None, 0): 2, (None, 1): 9, (None, 2): 20, (7, 2): 32}
    with pytest.raises(vs.OrderError, match="key NULL"):
        QUERY.run({"k": pa.array([None, None], kind), "t": [5, 4], "v": [0.0, 0.0]})


def test_the_least_integer_is_a_key_unless_null_is():
    least = np.iinfo(np.int64).min
    table = pa.table({"k": [least, 1], "t": [0, 0], "v": [1.0, 2.0]})
    assert sorted(QUERY.run(table)["k"].to_pylist()) == [least, 1]
    session = QUERY.start()
    session.push(table)
    with pytest.raises(vs.SignalTypeError, match="stands for"):
        session.push({"k": pa.array([None], pa.int64()), "t": [1], "v": [1.0]})


@pytest.mark.parametrize("names", [[5, 9], [0, 1 << 20], [-4, 1 << 40], list(range(30))])
def test_keys_in_turns_equal_keys_out_of_turn(names):
    """Rounds of all keys, cut anywhere, and the same rows with one key missing in one round."""
    rounds = 20
    keys, times = np.tile(names, rounds), np.repeat(np.arange(rounds), len(names))
    values = np.random.default_rng(1).normal(size=len(keys))
    for kept in (np.arange(len(keys)), np.delete(np.arange(len(keys)), len(keys) // 2)):
        table = pa.table({"k": keys[kept], "t": times[kept], "v": values[kept]})
        got = pushed(QUERY, table, cuts_of(len(kept), 7, 3), restore_at=2)
        columns = [got[name].to_numpy() for name in ("k", "t", "v")]
        order = np.lexsort((columns[1], columns[0]))
        for column, want in zip(columns, expected(keys[kept], times[kept], values[kept]), strict=True):
            np.testing.assert_allclose(column[order], want, atol=1e-12)


@pytest.mark.parametrize("query", [*IRREGULAR.values(), *UNIFORM.values()], ids=[*IRREGULAR, *UNIFORM])
def test_readings_in_even_turns_equal_readings_key_by_key(query):
    """Times at equal distances do not exist as an array until an operator asks for them."""
    rounds = 90
    keys, times = np.tile([4, 2, 7], rounds), np.repeat(10 * np.arange(-20, rounds - 20), 3)
    times += np.tile([0, 10, 30], rounds)
    table = pa.table({"k": keys, "t": times, "v": np.random.default_rng(2).normal(size=len(keys)).round(3)})
    assert_same(pushed(query, table, [100, 200], restore_at=1), query.run(table.sort_by("k")))
