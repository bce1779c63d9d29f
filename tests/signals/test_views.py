"""Signals and SQL views in one program: results feed tables, reference data comes from maintained views."""

from __future__ import annotations

import pyarrow as pa

import viewlet
import viewlet.signals as vs


def test_a_signal_between_two_views():
    """Sensors are told by a view; interpolated samples go into a table that another view sums up."""
    db = viewlet.connect(backend="reference")
    db.execute("CREATE TABLE rooms (sensor BIGINT, room VARCHAR)")
    db.execute("CREATE TABLE samples (sensor BIGINT, t BIGINT, v DOUBLE)")
    db.execute("CREATE MATERIALIZED VIEW lived_in AS SELECT sensor, room FROM rooms WHERE room <> 'attic'")
    db.execute(
        "CREATE MATERIALIZED VIEW peaks AS SELECT sensor, MAX(v), COUNT(*) FROM samples GROUP BY sensor"
    )
    db.insert("rooms", [(1, "hall"), (2, "attic")])
    known = vs.events(key="sensor", time="t").lookup(db.view("lived_in"), on="sensor")
    query = known.signal("v").sample(10, interpolate="linear")
    session = query.start(into=lambda part: db.insert("samples", part))

    session.push(pa.table({"sensor": [1, 2, 1], "t": [0, 0, 20], "v": [0.0, 5.0, 4.0]}))
    assert db.view("peaks").rows() == [(1, 4.0, 3)]
    db.delete("rooms", [(2, "attic")])
    db.insert("rooms", [(2, "hall")])
    session.push(pa.table({"sensor": [2, 2], "t": [30, 40], "v": [1.0, 9.0]}))
    assert sorted(db.view("peaks").rows()) == [(1, 4.0, 3), (2, 9.0, 2)]


def test_revisions_keep_a_view_right():
    """A late event changes rows already given; the view over them ends as if it had come in time."""
    query = vs.source(key="sensor", time="t", value="v").sample(10, interpolate="linear")
    readings = pa.table({"sensor": [1, 1, 1, 1], "t": [0, 40, 80, 20], "v": [0.0, 4.0, 0.0, 9.0]})
    totals = {}
    for order, late in (([0, 1, 2, 3], "revise"), ([0, 3, 1, 2], "error")):
        db = viewlet.connect(backend="reference")
        db.execute("CREATE TABLE samples (sensor BIGINT, t BIGINT, v DOUBLE)")
        db.execute(
            "CREATE MATERIALIZED VIEW total AS SELECT sensor, SUM(v), COUNT(*) FROM samples GROUP BY sensor"
        )

        def change(part: pa.Table, db: viewlet.Database = db) -> None:
            for row in part.to_pylist():
                verb = db.delete if row.pop("_weight", 1) < 0 else db.insert
                verb("samples", [tuple(row.values())])

        horizon = 1000 if late == "revise" else None
        session = query.start(lateness=0, late=late, horizon=horizon, into=change)
        for row in order:
            session.push(readings.slice(row, 1))
        session.flush()
        totals[late] = db.view("total").rows()
    assert totals["revise"] == totals["error"] == [(1, 4.5 + 9 + 6.5 + 4 + 3 + 2 + 1, 9)]
