"""Texts that no row holds any more are given back, also where somebody follows a view from batch to batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

import viewlet
from viewlet.backends.native.engine import NativeEngine

pytestmark = pytest.mark.native

TEXTS, STEPS = 3_000, 24


def batch(step: int, weight: int) -> pa.Table:
    keys = range(step * TEXTS, (step + 1) * TEXTS)
    texts = [f"a text that comes once {key}" for key in keys]
    return pa.table({"k": pa.array(keys, pa.int64()), "s": texts, "_weight": [weight] * TEXTS})


@pytest.mark.parametrize("followed", [False, True])
def test_texts_go_with_their_rows(followed: bool) -> None:
    with viewlet.connect(backend="native") as db:
        db.execute("CREATE STREAM r (k BIGINT, s VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW by_s AS SELECT s, count(*) AS n FROM r GROUP BY s")
        db.execute(
            "CREATE MATERIALIZED VIEW by_k AS SELECT k % 10 AS g, count(*) AS n FROM r GROUP BY k % 10"
        )
        if followed:
            db.view("by_k").subscribe(lambda change: None)
        sizes = []
        for step in range(STEPS):
            db.apply({"r": batch(step, 1)})
            assert len(db.view("by_s")) == TEXTS
            db.apply({"r": batch(step, -1)})
            engine = db._views["by_s"].engine
            assert isinstance(engine, NativeEngine)
            sizes.append(engine.running().opened.bytes())
        assert max(sizes[STEPS // 2 :]) <= max(sizes[: STEPS // 2]), "memory grows with texts that are gone"
