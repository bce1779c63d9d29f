"""What every signal query must satisfy, and random inputs to check it with."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from viewlet.signals import to_values


def by_key(table: pa.Table, key: str | None = "k") -> dict:
    """Rows per key, in the order in which they came: {key: {column: array}}."""
    out: dict = {}
    labels = table.column(key).to_pylist() if key else [None] * table.num_rows
    for label in dict.fromkeys(labels):
        rows = np.flatnonzero(np.array([x == label for x in labels], bool))
        part = table.take(pa.array(rows))
        columns = {n: column_values(part.column(n)) for n in part.column_names if n != key}
        times = next(iter(columns.values()))
        assert (np.diff(times) >= 0).all(), "rows of one key come in time order"
        flat = [c for c in reversed(columns.values()) if c.ndim == 1 and c.dtype.kind != "c"]
        ties = np.lexsort(flat)  # events that start together come in any order
        out[label] = {name: column[ties] for name, column in columns.items()}
    return out


def column_values(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_numpy()
    if pa.types.is_string(column.type):
        return np.array(column.to_pylist())
    return to_values(column)


def assert_same(left: pa.Table, right: pa.Table, key: str | None = "k", tolerance: float = 1e-9) -> None:
    """Equal rows, in equal order within each key."""
    a, b = by_key(left, key), by_key(right, key)
    assert a.keys() == b.keys()
    for label in a:
        assert a[label].keys() == b[label].keys()
        for name in a[label]:
            x, y = a[label][name], b[label][name]
            assert x.shape == y.shape, (label, name, x, y)
            if x.dtype.kind in "US":
                assert x.tolist() == y.tolist()
            else:
                np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=f"{label} {name}")


def pushed(query, table: pa.Table, cuts: list[int], restore_at: int | None = None, **options) -> pa.Table:
    """The result of pushing the pieces between cuts, with a checkpoint and a new session at one of them."""
    session = query.start(**options)
    bounds = [0, *sorted(cuts), table.num_rows]
    out = []
    for number, (low, high) in enumerate(itertools.pairwise(bounds)):
        if number == restore_at:
            session = query.start(**options).restore(session.checkpoint())
        out.append(session.push(table.slice(low, high - low)))
    out.append(session.flush())
    return pa.concat_tables(out, promote_options="default")


@st.composite
def readings(draw, keys: int = 3, rows: int = 60, gap: int = 40, on_grid: int = 0) -> pa.Table:
    """Interleaved irregular readings: strictly increasing times inside each key, sometimes with long gaps."""
    n = draw(st.integers(0, rows))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    key = rng.integers(0, keys, n)
    steps = np.where(rng.random(n) < 0.15, rng.integers(1, gap * 6, n), rng.integers(1, gap, n))
    if on_grid:
        steps = np.where(rng.random(n) < 0.85, on_grid, on_grid * rng.integers(1, 12, n))
    times = np.zeros(n, np.int64)
    for k in range(keys):
        mine = key == k
        times[mine] = np.cumsum(steps[mine]) + draw(st.integers(-100, 100)) * (on_grid or 1)
    return pa.table({"k": key, "t": times, "v": rng.normal(size=n).round(3)})


@st.composite
def interval_events(draw, keys: int = 2, rows: int = 25, horizon: int = 60) -> pa.Table:
    """Events that may overlap, ordered by start."""
    n = draw(st.integers(1, rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    start = np.sort(rng.integers(0, horizon, n))
    return pa.table(
        {
            "k": rng.integers(0, keys, n),
            "s": start,
            "e": start + rng.integers(1, 15, n),
            "v": rng.integers(-5, 6, n).astype(float),
        }
    )


def cuts_of(rows: int, seed: int, pieces: int = 4) -> list[int]:
    return np.random.default_rng(seed).integers(0, rows + 1, pieces).tolist()
