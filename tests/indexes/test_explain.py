"""Every access path along an order is reached from SQL and named by ``explain``, with its cost per change."""

from __future__ import annotations

import pytest

import viewlet
from viewlet.calculus.nodes import Cond, Extremum, Let, Lift, MapRef, Term, Value, product
from viewlet.core.scalar import Const, Var, call
from viewlet.triggers.work import AllBut, order_of

SCHEMA = "CREATE TABLE bids (price BIGINT NOT NULL, volume BIGINT NOT NULL, broker BIGINT NOT NULL, t BIGINT)"
EDGE = "O(log bids): range aggregate along bids, threshold search along bids (in place of a key shift)"
PATHS = {
    "O(log bids): range aggregate along bids": """SELECT SUM(b.volume) FROM bids b
        WHERE b.price > (SELECT AVG(a.price) FROM bids a)""",
    EDGE: """
        SELECT SUM(b.volume) FROM bids b WHERE (SELECT SUM(a.volume) FROM bids a)
            > 4 * (SELECT SUM(c.volume) FROM bids c WHERE c.price > b.price)""",
    "O(log bids + log bids_4): range aggregate along bids, threshold search along bids_4\n": """
        SELECT SUM(b.volume) FROM bids b WHERE (SELECT SUM(a.volume) FROM bids a)
            < 2 * (SELECT MAX(c.volume) FROM bids c WHERE c.price <= b.price)""",
    "that cross): crossing along bids": """SELECT broker, SUM(volume) AS s FROM bids GROUP BY broker
        HAVING SUM(volume) > (SELECT SUM(volume) / 10 FROM bids)""",
    "O(bids x log bids): general algorithm over bids": """SELECT SUM(b.volume) FROM bids b
        WHERE (SELECT SUM(a.volume) FROM bids a WHERE a.price <= b.price)
            < 2 * (SELECT SUM(c.volume) FROM bids c WHERE c.price <= 2 * b.price)""",
    "general algorithm over groups of bids_2": """SELECT SUM(b.volume) FROM bids b
        WHERE (SELECT SUM(a.volume) FROM bids a WHERE a.t <= b.t)
            < (SELECT SUM(c.volume) FROM bids c WHERE c.price <= b.price)""",
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_are_named_with_their_cost(path: str) -> None:
    assert path in viewlet.compile(PATHS[path], SCHEMA).explain()


ROWS = "SELECT x.t, x.price FROM bids x WHERE {}"
IN_GROUP = "FROM bids y WHERE y.broker = x.broker"
APART = "SELECT SUM(x.volume) AS s FROM bids x, bids y WHERE x.broker = y.broker AND {}"


@pytest.mark.parametrize(
    ("query", "path"),
    [
        (
            ROWS.format(f"NOT EXISTS (SELECT 1 {IN_GROUP} AND y.price > x.price)"),
            "ordered multiset along bids",
        ),
        (ROWS.format(f"x.price <= ALL (SELECT y.price {IN_GROUP})"), "ordered multiset along bids"),
        (ROWS.format(f"x.t >= ALL (SELECT y.t {IN_GROUP})"), "ordered multiset along bids"),
        (APART.format("ABS(x.price - y.price) > 10"), "range aggregate along bids"),
        (APART.format("5 >= ABS(x.price - y.price)"), "range aggregate along bids"),
    ],
)
def test_no_group_is_gone_through(query: str, path: str) -> None:
    """What none exceeds is at the old and the new extremum, what is apart lies in an interval."""
    explained = viewlet.compile(query, SCHEMA).explain()
    assert path in explained
    costs = [line for line in explained.splitlines() if line.strip().startswith("O(")]
    assert not any("by key x" in cost or "O(bids by key)" in cost for cost in costs), explained


ABOVE = "(SELECT SUM(a.volume) FROM bids a WHERE a.price > b.price)"
TOTAL = "(SELECT SUM(c.volume) FROM bids c)"


@pytest.mark.parametrize(
    "condition",
    [
        f"{TOTAL} > 4 * {ABOVE} OR {ABOVE} < 100",
        f"{TOTAL} > 4 * {ABOVE} OR {TOTAL} < 2 * {ABOVE}",
        f"{TOTAL} > 4 * {ABOVE} OR {ABOVE} > (SELECT AVG(c.volume) FROM bids c WHERE c.broker = 7)",
    ],
)
def test_either_of_two_conditions_is_searched(condition: str) -> None:
    """Whether they hold on the same side of an edge or on both sides of two."""
    explained = viewlet.compile(f"SELECT SUM(b.volume) FROM bids b WHERE {condition}", SCHEMA).explain()
    assert "threshold search along bids" in explained
    assert "general algorithm" not in explained


@pytest.mark.parametrize("function", ["sum", "max"])
@pytest.mark.parametrize(("way", "cost"), [("s", "O(log m + log v)"), ("p", "O(log m x log v)")])
def test_what_is_computed_on_the_way_costs_no_search(function: str, way: str, cost: str) -> None:
    """``m[p] * (s := sum<p>(v[q] * {2 * q <= p})) * (t := s + 1) * {t > 4}`` is one walk along each; with
    ``t := s + p`` the sum is sought at every p that is met."""
    p, q, s, t, u, x = map(Var, "pqstux")
    extent = Cond(call("<=", call("*", Const(2), q), p))
    nested = {
        "sum": Lift(s, (p,), (Term((MapRef("v", (q,)), extent)),)),
        "max": Extremum(s, "max", u, (p,), (Term((MapRef("v", (q, u)), extent)),)),
    }[function]
    computed = Let(t, call("+", s, Const(1) if way == "s" else p))
    inner = Term((MapRef("m", (p,)), nested, computed, Cond(call(">", t, Const(4)))))
    assert order_of(product(Lift(x, (), (inner,)), Value(x)), AllBut(frozenset())) == cost


def test_the_reference_engine_asks_at_keys() -> None:
    """It walks down by keys, so what is asked there is sought in turn; its ``explain`` says so."""
    db = viewlet.connect(backend="reference")
    db.execute(SCHEMA)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {PATHS[EDGE]}")
    assert "O(log bids x log bids): threshold search along bids" in str(db.explain("v"))


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "SELECT SUM(a) FROM r WHERE (SELECT MAX(s.x) FROM r s WHERE s.a <= r.a) > 'm'",
            "is by text, of which they keep no best",
        ),
    ],
)
def test_what_is_scanned_says_why(sql: str, reason: str) -> None:
    explained = viewlet.compile(sql, "CREATE TABLE r (a BIGINT, d DOUBLE, x VARCHAR)").explain()
    assert "backend='reference' has ordered indexes for that" in explained
    assert reason in explained
