"""Queries that no ordered index helps: nested sums under conditions that are not monotone in any key."""

from __future__ import annotations

DDL = """
CREATE TABLE a (x INT, z INT, v INT);
CREATE TABLE b (y INT, w INT);
CREATE TABLE c (z INT, u INT);
"""

# Of a row of a, and a row of b under the name t.
CONDITIONS = {
    "product": "a.x * t.y > 5",
    "modulo": "(a.x + t.y) % 3 = 1",
    "unequal": "a.x <> t.y",
    "two_inputs": "a.x * t.y > a.z * t.w",
    "either": "a.x * t.y > 5 OR a.z + t.w = 3",
    "nullable": "coalesce(a.x, 2) * coalesce(t.y, 1) % 2 = 0",
}

FORMS = {
    "threshold": "SELECT sum(a.v) AS s FROM a WHERE a.v > (SELECT sum(t.w) FROM b t WHERE {})",
    "rows": "SELECT a.x, a.v FROM a WHERE a.v >= (SELECT count(*) FROM b t WHERE {})",
    "shown": "SELECT a.x, a.v, (SELECT sum(t.w) FROM b t WHERE {}) AS t FROM a",
    "exists": "SELECT a.z, count(*) AS n FROM a WHERE EXISTS (SELECT 1 FROM b t WHERE {}) GROUP BY a.z",
    "not_exists": "SELECT a.x, a.z FROM a WHERE NOT EXISTS (SELECT 1 FROM b t WHERE {})",
    "joined": "SELECT sum(a.v * c.u) AS s FROM a JOIN c ON a.z = c.z "
    "WHERE a.v > (SELECT avg(t.w) FROM b t WHERE {})",
    "itself": "SELECT count(*) AS n FROM a "
    "WHERE a.v < (SELECT sum(t.w) FROM (SELECT z AS y, v AS w FROM a) t WHERE {})",
    "inner_join": "SELECT sum(a.v) AS s FROM a "
    "WHERE a.v > (SELECT sum(t.w * c.u) FROM b t JOIN c ON t.y = c.z WHERE {})",
}


def cached_query(form: str, condition: str) -> str:
    """One query of the family."""
    return FORMS[form].format(CONDITIONS[condition])
