"""Batches of no rows in every form, and of ten million."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import viewlet

EMPTY = {"a": pa.array([], pa.int64()), "s": pa.array([], pa.string())}
NOTHING: dict[str, Any] = {
    "list": [],
    "arrow": pa.table(EMPTY),
    "record batch": pa.RecordBatch.from_pydict(EMPTY),
    "no chunks": pa.table({name: pa.chunked_array([], values.type) for name, values in EMPTY.items()}),
    "pandas": pd.DataFrame({"a": pd.Series([], dtype="int64"), "s": pd.Series([], dtype="str")}),
    "polars": pl.DataFrame({"a": [], "s": []}, schema={"a": pl.Int64, "s": pl.String}),
    "weights of zero": [{"a": 1, "s": "x", "_weight": 0}],
}


@pytest.mark.parametrize("form", NOTHING)
def test_no_rows(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.viewlet"
    with viewlet.connect(path, backend="reference", durability="off") as db:
        db.execute("CREATE TABLE r (a BIGINT, s VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, max(s) AS s FROM r")
        seen: list[pa.Table] = []
        db.view("n").subscribe(seen.append)
        assert db.apply({"r": NOTHING[form]}) == 1
        assert db.apply({}) == 2
        db.insert("r", [(1, "x")])
        db.apply({"r": NOTHING[form]}, token="again")
        assert db.view("n").rows() == [(1, "x")]
        assert [change.num_rows for change in seen if change.num_rows] == [2]
    with viewlet.connect(path, backend="reference") as db:
        assert db.version == 4
        assert db.view("n").rows() == [(1, "x")]
        assert db.apply({"r": NOTHING[form]}, token="again") == 4


@pytest.mark.slow
@pytest.mark.native
def test_ten_million_rows(tmp_path: Path) -> None:
    rows, path = 10_000_000, tmp_path / "a.viewlet"
    keys = np.arange(rows) % 1000
    values = np.random.default_rng(1).integers(-1000, 1000, rows)
    batch = pa.table({"k": keys, "v": values})
    sums, counts = np.bincount(keys, values).astype(int), np.bincount(keys)
    expected = [(k, int(sums[k]), int(counts[k])) for k in range(1000)]
    with viewlet.connect(path, durability="batch") as db:
        db.execute("CREATE TABLE r (k BIGINT, v BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW g AS SELECT k, sum(v) AS v, count(*) AS n FROM r GROUP BY k")
        db.insert("r", batch)
        assert db.view("g").rows() == expected
        half = batch.slice(0, rows // 2)
        db.apply({"r": half.append_column("_weight", pa.array(np.full(rows // 2, -1)))})
        rest = np.bincount(keys[rows // 2 :], values[rows // 2 :]).astype(int)
        assert db.view("g").rows() == [(k, int(rest[k]), rows // 2000) for k in range(1000)]
    with viewlet.connect(path) as db:
        assert len(db.table("r")) == rows // 2
        assert db.view("g").rows() == [(k, int(rest[k]), rows // 2000) for k in range(1000)]
