"""Arrays that are used again: never while anything still shows them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import viewlet.signals as vs
from viewlet.signals import memory


def test_results_that_are_kept_do_not_change():
    """Batches large enough to use memory again; every result is read only after the last push."""
    rng = np.random.default_rng(0)
    keys, values = np.tile(np.arange(4), 300_000), rng.normal(size=1_200_000)
    times = np.repeat(np.arange(300_000), 4)
    table = pa.table({"k": keys, "t": times, "v": values})
    session = vs.source(key="k", time="t", value="v").sample(1).fir([1.0, 1.0]).start()
    results = [session.push(table.slice(low, 200_000)) for low in range(0, 1_200_000, 200_000)]
    whole = pa.concat_tables([*results, session.flush()])
    order = np.lexsort((whole["t"].to_numpy(), whole["k"].to_numpy()))
    expected = values.reshape(-1, 4).T.copy()
    expected[:, 1:] += values.reshape(-1, 4).T[:, :-1]
    np.testing.assert_allclose(whole["v"].to_numpy()[order], expected.ravel(), atol=1e-12)


def test_memory_is_used_again_only_when_free():
    first = memory.empty((3, 1 << 17), np.float64)
    part = first[1, 5:10]
    part[:] = 7.0
    del first
    again = memory.empty((3, 1 << 17), np.float64)
    again[:] = 0.0
    assert (part == 7.0).all()
