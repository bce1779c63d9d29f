"""Every access path along an order is reached from SQL and named by ``explain``, with its cost per change."""

from __future__ import annotations

import pytest

import viewlet

PATHS = {
    "O(log bids): range aggregate along bids": """SELECT SUM(b.volume) FROM bids b
        WHERE b.price > (SELECT AVG(a.price) FROM bids a)""",
    "threshold search along bids, range aggregate along bids": """
        SELECT SUM(b.volume) FROM bids b WHERE (SELECT SUM(a.volume) FROM bids a)
            > 4 * (SELECT SUM(c.volume) FROM bids c WHERE c.price > b.price)""",
    "threshold search along bids, ordered multiset along bids": """SELECT SUM(b.volume) FROM bids b
        WHERE (SELECT SUM(a.volume) FROM bids a)
            < 2 * (SELECT MAX(c.volume) FROM bids c WHERE c.price <= b.price)""",
    "that cross): crossing along bids": """SELECT broker, SUM(volume) AS s FROM bids GROUP BY broker
        HAVING SUM(volume) > (SELECT SUM(volume) / 10 FROM bids)""",
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_are_named_with_their_cost(path: str) -> None:
    db = viewlet.connect(backend="reference")
    db.execute("CREATE TABLE bids (price BIGINT NOT NULL, volume BIGINT NOT NULL, broker BIGINT NOT NULL)")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {PATHS[path]}")
    assert path in str(db.explain("v"))
