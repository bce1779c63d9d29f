"""Bloom filters: what has a partner always passes, and what has none mostly does not get into a join."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from sketches.databases import load, random_changes, random_data
from sketches.model import Having, Spec, fragments
from viewlet import sketches
from viewlet.sketches.backends.duckdb import DuckDB
from viewlet.sketches.operators import bloom
from viewlet.sketches.operators.bloom import Bloom

JOIN = Spec(groups=("a",), join="s", having=(Having("sum", "y", ">", 6),))


@pytest.mark.parametrize("seed", range(5))
def test_no_false_negatives(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(-(2**62), 2**62, 5000)
    found = Bloom(5000)
    found.add(values[:2500])
    assert found.passes(values[:2500]).all()
    assert found.passes(values[2500:]).mean() < 0.02


def test_changes_without_partners_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckDB, "small", 0)
    store = sketches.open(load({"r": [(1, 1, 1, 9)], "s": [(1, 7), (2, 9)]}))
    sketch = store.capture(JOIN.sql(), on="r.a", ranges=[1, 2, 3], maintain="incremental", keep="operators")
    backend: Any = store._backend
    texts: list[str] = []
    rows = backend.rows
    monkeypatch.setattr(backend, "rows", lambda text, kinds: texts.append(text) or rows(text, kinds))
    store.apply({"r": [(2, 50, 1, 1), (3, 51, 1, 1)]})
    assert not [text for text in texts if "JOIN" in text], "no row has a partner: nothing is joined"
    store.apply({"r": [(2, 2, 1, 1), (2, 60, 1, 1), (2, 61, 1, 1), (2, 62, 1, 1)]})
    (joined,) = [text for text in texts if "JOIN" in text]
    assert "IN (2)" in joined
    assert "60" not in joined
    assert sketch.fragments == {1, 2}
    told = sketch.explain()
    assert "Bloom filter of s.x" in told
    assert "let 1 of 6 changed values into joins" in told


def test_partners_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that appears on both sides in one batch passes; one that has gone does no harm."""
    monkeypatch.setattr(DuckDB, "small", 0)
    random = Random(4)
    data = random_data(random, 20)
    store = sketches.open(load(data))
    bounds = [1, 2, 3, 4]
    sketch = store.capture(JOIN.sql(), on="r.a", ranges=bounds, maintain="incremental", keep="operators")
    for batch in (
        {"r": [(9, 70, 1, 1)], "s": [(70, 9)]},
        {"s": [{"x": 70, "y": 9, "_weight": -1}]},
        {"s": [(70, 8)]},
    ):
        store.apply(batch)  # type: ignore[arg-type]
        for table, rows in batch.items():
            for row in rows:
                if isinstance(row, dict):
                    data[table].remove((70, 9))
                else:
                    data[table].append(row)
        assert sketch.fragments == fragments(JOIN.lineage(data), data, "r", "a", bounds)
    store.apply(random_changes(random, data))
    assert sketch.fragments == fragments(JOIN.lineage(data), data, "r", "a", bounds)
    assert sketch.costs.captures == 1


def test_useless_filters_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckDB, "small", 0)
    monkeypatch.setattr(bloom, "TRIED", 3)
    store = sketches.open(load({"r": [(1, 1, 1, 9)], "s": [(n, 7) for n in range(9)]}))
    sketch = store.capture(JOIN.sql(), on="r.a", ranges=[1, 2, 3], maintain="incremental", keep="operators")
    for place in range(3):
        store.apply({"r": [(place, n, 1, 1) for n in range(9)]})
    assert "let 9 of 9 changed values" in sketch.explain()
    assert "Bloom filter of s.x" not in sketch.explain()
    assert sketch.fragments == {0, 1, 2}
