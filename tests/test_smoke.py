"""The whole of Viewlet in small: SQL text to a maintained result, on every backend and strategy there is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import ViewletError

ENGINES = [("reference", "auto"), ("reference", "first_order"), ("reference", "reevaluate"), ("auto", "auto")]


@pytest.fixture(params=ENGINES, ids="-".join)
def db(request: pytest.FixtureRequest) -> Any:
    backend, strategy = request.param
    with viewlet.connect(backend=backend, strategy=strategy) as database:
        yield database


def test_from_sql_to_a_fresh_result(db: Any) -> None:
    db.execute("CREATE TABLE x (k BIGINT, g VARCHAR, v BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT sum(v) AS total FROM x")
    db.execute("CREATE MATERIALIZED VIEW by_g AS SELECT g, sum(v) AS total, count(*) AS n FROM x GROUP BY g")
    seen: list[pa.Table] = []
    subscription = db.view("by_g").subscribe(seen.append)

    db.insert("x", [(1, "a", 10), (2, "b", 20)])
    db.insert("x", [{"k": 3, "g": "a", "v": 5}])
    db.insert("x", pa.table({"k": [4], "g": ["b"], "v": [1]}))
    db.delete("x", [(2, "b", 20)])
    weighted = pa.table({"k": [5, 1], "g": ["c", "a"], "v": [7, 10], "_weight": [1, -1]})
    words = ["update_preimage", "update_postimage"]
    update = pa.table({"k": [5, 5], "g": ["c", "c"], "v": [7, 8], "_change_type": words})
    first = db.apply({"x": weighted})
    assert db.apply({"x": update}, trigger="tuple") == first + 1

    assert db.view("s").value == 14
    assert db.view("by_g").rows() == [("a", 5, 1), ("b", 1, 1), ("c", 8, 1)]
    assert db.view("by_g").to_arrow().schema.names == ["g", "total", "n"]
    assert db.view("by_g").to_pandas().shape == db.view("by_g").to_polars().shape == (3, 3)
    assert seen[-1].select(["g", "total", "_change_type"]).to_pylist() == [
        {"g": "c", "total": 7, "_change_type": "delete"},
        {"g": "c", "total": 8, "_change_type": "insert"},
    ]
    subscription.close()

    lane = db.table("x")
    lane.add(9, "z", 100)
    assert db.view("s").value == 114
    lane.remove(9, "z", 100)
    assert db.view("s").value == 14
    assert len(lane.rows()) == lane.to_arrow().num_rows == 3
    assert len(seen) == 6

    db.execute("CREATE MATERIALIZED VIEW late AS SELECT max(total) AS m FROM by_g")
    assert db.view("late").value == 8
    db.insert("x", [(10, "a", 90)])
    assert db.view("late").value == 95
    assert db.sql("SELECT count(*) AS n FROM by_g").to_pylist() == [{"n": 3}]
    assert "by_g" in db.explain("by_g")
    assert db.explain("SELECT g, max(v) FROM x GROUP BY g")
    assert db.stats().tables == {"x": 4}
    for bad in ("SELECT nope FROM x", "CREATE MATERIALIZED VIEW s AS SELECT 1"):
        with pytest.raises(ViewletError):
            db.execute(bad)
    with pytest.raises(ViewletError):
        db.insert("x", [(1, "a")])
    db.execute("CREATE STREAM e (a BIGINT); CREATE STATIC TABLE st (a BIGINT); DROP MATERIALIZED VIEW late")
