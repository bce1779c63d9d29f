"""Every construct on a small stream with NULLs, duplicates and deletions; errors leave no trace."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from agree.agreement import QUICK, Pair, catalog_of
from viewlet.backends.base import Bag, Change
from viewlet.backends.native.engine import NativeEngine
from viewlet.errors import ValueRangeError
from viewlet.sql import compile_query

pytestmark = pytest.mark.native

DDL = """
CREATE TABLE r (a BIGINT, b INT, s VARCHAR(10), d DECIMAL(6,2), x DOUBLE, e DATE, f BOOLEAN, m TIMESTAMP);
CREATE TABLE q (a BIGINT, c BIGINT NOT NULL, h DECIMAL(30,4));
"""
HOSTILE = ['"', "\\", "??/", "a\0b", "'; DROP", "é\U0001f600", "\ud800", "%d%s", "*/", ""]
VALUES: dict[str, list[list[Any]]] = {
    "r": [
        [None, 1, 2, 3],
        [None, 0, 5, -7, 2_147_483_647],
        [None, "a", "ab", "b%", *HOSTILE],
        [None, 0, 100, -250, 999_999],
        [None, 0.0, 0.5, -1.25],
        [None, 0, 9_200, -1, 11_016],
        [None, True, False],
        [None, 0, -1, 1_500_000, 86_400_000_000 * 9_200 + 3_723_000_001],
    ],
    "q": [[None, 1, 2, 3], [0, 1, 5, -3], [None, 0, 12_345, -(10**27)]],
}
QUERIES = {
    "aggregates": "SELECT s, COUNT(*) n, COUNT(b) k, SUM(b) t, AVG(d) v, AVG(x) w FROM r GROUP BY s",
    "extremes": "SELECT a, MIN(s) i, MAX(s) j, MIN(x) k, MAX(d) l, MIN(e) m FROM r GROUP BY a",
    "join": "SELECT r.a, SUM(b * c) t, SUM(d * h) u, SUM(x * c) v FROM r, q WHERE r.a = q.a GROUP BY r.a",
    "self join": "SELECT p.a, COUNT(*) n FROM r p, r o WHERE p.b = o.b AND p.s < o.s GROUP BY p.a",
    "triangle": "SELECT COUNT(*) n FROM q x, q y, q z WHERE x.c = y.a AND y.c = z.a AND z.c = x.a",
    "left join": "SELECT r.a, COUNT(c) n, SUM(c) t FROM r LEFT JOIN q ON r.a = q.a AND c > 0 GROUP BY r.a",
    "full join": "SELECT r.s, q.c FROM r FULL JOIN q ON r.a = q.a",
    "exists": "SELECT a, COUNT(*) n FROM r WHERE EXISTS (SELECT 1 FROM q WHERE a = r.a AND c > b) GROUP BY a",
    "not in": "SELECT b, COUNT(*) n FROM r WHERE a NOT IN (SELECT a FROM q) GROUP BY b",
    "nested": "SELECT SUM(b) t FROM r WHERE 2 * b > (SELECT AVG(c) FROM q WHERE q.a = r.a)",
    "uncorrelated": "SELECT a, SUM(d) t FROM r WHERE d > (SELECT AVG(h) FROM q) GROUP BY a",
    "prefix": "SELECT SUM(p.b) t FROM r p WHERE 3 > (SELECT COUNT(*) FROM r o WHERE o.d < p.d)",
    "texts": "SELECT CAST(a AS STRING) a, CAST(d AS STRING) d, CAST(x AS STRING) x, CAST(e AS STRING) e,"
    " CAST(f AS STRING) f, CAST(m AS STRING) m FROM r",
    "spreads": "SELECT a, VAR_POP(b) b, VAR_POP(d) d, VAR_POP(x) x FROM r GROUP BY a",
    "having": "SELECT a FROM q GROUP BY a HAVING SUM(c) > 2 AND COUNT(*) < 4",
    "distinct": "SELECT DISTINCT s, f FROM r WHERE f OR b > 0",
    "count distinct": "SELECT a, COUNT(DISTINCT b) n, SUM(DISTINCT d) t FROM r GROUP BY a",
    "union": "SELECT a, b FROM r UNION SELECT a, c FROM q",
    "except all": "SELECT a FROM r EXCEPT ALL SELECT a FROM q",
    "intersect": "SELECT a FROM r INTERSECT SELECT a FROM q",
    "top": "SELECT a, SUM(c) t FROM q GROUP BY a ORDER BY t DESC, a LIMIT 2",
    "strings": "SELECT UPPER(s) u, LENGTH(s) l, COUNT(*) n FROM r WHERE s LIKE '%a%' OR s IN ('b%', '??/') "
    "GROUP BY UPPER(s), LENGTH(s)",
    "concat": "SELECT CONCAT(s, '\"', CAST(a AS VARCHAR(9))) u FROM r WHERE SUBSTRING(s, 1, 1) <> '*'",
    "dates": "SELECT YEAR(e) y, MONTH(e) m, DAY(e) d, QUARTER(e) q, DAYOFWEEK(e) w, COUNT(*) n FROM r "
    "GROUP BY YEAR(e), MONTH(e), DAY(e), QUARTER(e), DAYOFWEEK(e)",
    "moments": "SELECT HOUR(m) h, MINUTE(m) i, SECOND(m) s, CAST(m AS DATE) d, "
    "DATE_TRUNC('MONTH', m) t, COUNT(*) n FROM r GROUP BY 1, 2, 3, 4, 5",
    "intervals": "SELECT e + INTERVAL 1 MONTH n, e - INTERVAL 3 DAY p, LAST_DAY(e) l FROM r "
    "WHERE e < DATE '2000-02-29'",
    "case": "SELECT SUM(CASE WHEN f THEN d WHEN b > 1 THEN d * 2 ELSE 0 END) t, "
    "SUM(COALESCE(b, a, 7)) u, COUNT(*) FILTER (WHERE f) v FROM r",
    "numbers": "SELECT ROUND(d, 1) r1, FLOOR(d) f1, CEIL(d) c1, ABS(d) a1, -d n1, d % 0.7 m1, SIGN(d) s1, "
    "CAST(d AS INT) i1, CAST(b AS DOUBLE) x1, GREATEST(r.a, b) g1, LEAST(r.a, c) l1 FROM r, q "
    "WHERE r.a = q.a",
    "three values": "SELECT a, b FROM r WHERE NOT (a = 1 AND b > 0) OR (f IS NULL AND s IS NOT NULL)",
    "variance": "SELECT a, VAR_POP(x) v, STDDEV(c) w FROM r JOIN q USING (a) GROUP BY a",
}


def random_steps(seed: int, count: int) -> list[tuple[str, list[Change]]]:
    """Batches of one table each, with insertions, duplicates and deletions."""
    rng = random.Random(seed)
    present: list[tuple[str, tuple[Any, ...]]] = []
    steps = []
    for _ in range(count):
        table = rng.choice("rq")
        changes = []
        for _ in range(rng.randrange(1, 5)):
            mine = [at for at, (name, _) in enumerate(present) if name == table]
            if mine and rng.random() < 0.4:
                changes.append(Change(present.pop(rng.choice(mine))[1], -1))
            else:
                row = tuple(rng.choice(values) for values in VALUES[table])
                weight = rng.choice([1, 1, 1, 2])
                present += [(table, row)] * weight
                changes.append(Change(row, weight))
        steps.append((table, changes))
    return steps


@pytest.mark.parametrize("name", QUERIES)
def test_constructs(name):
    pair = Pair(catalog_of(DDL), {"v": QUERIES[name]})
    for i, (table, changes) in enumerate(random_steps(7, 30)):
        pair.apply(table, changes, "tuple" if i % 2 else "batch")
        pair.check()


def test_views_come_and_go_and_keep_their_contents():
    catalog = catalog_of(DDL)
    pair = Pair(catalog, {"one": QUERIES["join"]})
    contents: dict[str, Bag] = {"r": {}, "q": {}}
    names = ["left join", "strings"]
    for i, (table, changes) in enumerate(random_steps(3, 16)):
        pair.apply(table, changes, "auto")
        for change in changes:
            bag = contents[table]
            bag[change.row] = bag.get(change.row, 0) + change.weight
            if not bag[change.row]:
                del bag[change.row]
        if i % 8 == 3:
            pair.create(f"v{i}", QUERIES[names[i // 8]], contents)
        if i == 13:
            for engine in (pair.native, pair.reference):
                engine.drop("one")
        pair.check()


def test_many_first_rows_run_through_the_triggers():
    contents: dict[str, Bag] = {"r": {}, "q": {(a, c, None): 1 + a % 2 for a in range(40) for c in range(40)}}
    pair = Pair(catalog_of(DDL), {"v": QUERIES["having"], "w": QUERIES["triangle"]}, contents)
    pair.check()
    pair.apply("q", [Change((1, 2, None), -1), Change((7, 3, 5), 1)], "tuple")
    pair.check()


@pytest.mark.parametrize("granularity", ["tuple", "batch"])
def test_a_failing_batch_leaves_no_trace(granularity):
    ddl = "CREATE TABLE t (g BIGINT, v BIGINT NOT NULL, w BIGINT NOT NULL)"
    views = {
        "sums": "SELECT g, SUM(v) s, SUM(v * w) p FROM t GROUP BY g",
        "ratio": "SELECT g, SUM(v) s FROM t WHERE 10 / w > 1 GROUP BY g",
        "one": "SELECT v FROM t WHERE v = (SELECT x.w FROM t x WHERE x.g = 99)",
    }
    pair = Pair(catalog_of(ddl), views)
    good = [Change((1, 5, 2), 1), Change((2, 2**62, 1), 1), Change((None, -3, 1), 2)]
    assert pair.apply("t", good, granularity)
    pair.check()
    refused = {
        "overflow of a product": [Change((1, 1, 1), 1), Change((1, 2**40, 2**40), 1)],
        "division by zero": [Change((3, 1, 4), 1), Change((3, 1, 0), 1)],
        "two rows where one is needed": [Change((99, 1, 5), 1), Change((99, 2, 6), 1)],
    }
    for changes in refused.values():
        assert not pair.apply("t", changes, granularity)
        pair.check()
    assert pair.apply("t", [Change((1, 5, 2), -1)], granularity)
    pair.check()


def test_squares_beyond_128_bits_are_refused_and_undone_natively():
    """The reference engine adds them up, and both take the way round that the guide names."""
    catalog = catalog_of("CREATE TABLE t (k BIGINT NOT NULL, d DECIMAL(38,10))")
    spread = "SELECT STDDEV({}) s, COUNT(*) n FROM t"
    pair = Pair(catalog, {"v": spread.format("d")})
    engines = (pair.native, pair.reference)
    kept = [Change((i, i * 10**18), 1) for i in (1, -1)]
    for engine in engines:
        engine.apply("t", kept, "tuple", frozenset())
    pair.check()
    large = [Change((2, 13_100_000_000_000_000_000), 1)]  # its square alone is more than 2^127
    with pytest.raises(ValueRangeError, match="DECIMAL is out of range"):
        pair.native.apply("t", large, "tuple", frozenset())
    pair.check()
    pair.reference.apply("t", large, "tuple", frozenset())
    pair.reference.apply("t", [Change(change.row, -1) for change in large], "tuple", frozenset())
    for engine in engines:
        engine.apply("t", [Change((3, 5), 1)], "tuple", frozenset())
    pair.check()
    rounded = Pair(catalog, {"v": spread.format("CAST(d AS DOUBLE)")})
    assert rounded.apply("t", [*kept, *large], "tuple")
    rounded.check()


def test_sums_beyond_128_bits_are_refused_and_undone():
    ddl = "CREATE TABLE t (v DECIMAL(38,0) NOT NULL)"
    catalog = catalog_of(ddl)
    engine = NativeEngine(flags=QUICK)
    engine.create(
        "v", compile_query("SELECT COUNT(*) n FROM t WHERE v > 0", catalog), catalog, {"t": {}}, "auto"
    )
    engine.create("s", compile_query("SELECT SUM(v) s FROM t", catalog), catalog, {"t": {}}, "auto")
    large = 10**38 - 1
    engine.apply("t", [Change((large,), 1)], "tuple", frozenset())
    with pytest.raises(ValueRangeError, match="DECIMAL is out of range"):
        engine.apply("t", [Change((5,), 1), Change((large,), 1)], "tuple", frozenset())
    assert engine.output("v") == {(1,): 1}
    assert engine.output("s") == {(large,): 1}


def test_arrow_batches_agree_with_rows():
    catalog = catalog_of(DDL)
    types = [pa.int64(), pa.int32(), pa.string(), pa.decimal128(38, 2), pa.float64(), pa.date32(), pa.bool_()]
    types.append(pa.timestamp("us"))
    rng = random.Random(5)
    rows = [
        tuple(rng.choice([v for v in values if v != "\ud800"]) for values in VALUES["r"]) for _ in range(50)
    ]
    weights = [rng.choice([1, 2]) for _ in rows]
    by_row, by_arrow = NativeEngine(flags=QUICK), NativeEngine(flags=QUICK)
    for name in ("aggregates", "strings", "moments", "case"):
        query = compile_query(QUERIES[name], catalog)
        for engine in (by_row, by_arrow):
            engine.create(name, query, catalog, {"r": {}, "q": {}}, "auto")
    by_row.apply("r", [Change(*change) for change in zip(rows, weights, strict=True)], "tuple", frozenset())
    columns = []
    for values, kind in zip(zip(*rows, strict=True), types, strict=True):
        if pa.types.is_decimal(kind):
            scaled = pa.array(values, pa.int64()).cast(pa.decimal128(38, 0))
            columns.append(pa.Array.from_buffers(kind, len(scaled), scaled.buffers(), offset=scaled.offset))
        else:
            columns.append(pa.array(values, kind))
    batch = pa.record_batch(columns, names=[c.name for c in catalog["r"].columns])
    padded = pa.concat_batches([batch.slice(0, 3), batch]).slice(3)
    by_arrow.apply_arrow("r", padded, pa.array(weights, pa.int64()).buffers()[1])
    for name in ("aggregates", "strings", "moments", "case"):
        assert by_arrow.output(name) == by_row.output(name)
    assert len(by_row.output("aggregates")) > 5


def test_one_row_at_a_time():
    catalog = catalog_of(DDL)
    engine = NativeEngine(flags=QUICK)
    engine.create("v", compile_query(QUERIES["having"], catalog), catalog, {"r": {}, "q": {}}, "auto")
    add, remove = engine.lane("q", 1), engine.lane("q", -1)
    assert add(7, 2, None) is None
    assert add(7, 3, 10**25) is None
    assert engine.output("v") == {(7,): 1}
    assert remove(7, 3, 10**25) is None
    assert engine.output("v") == {}
    engine.create(
        "s", compile_query("SELECT SUM(c) s FROM q", catalog), catalog, {"q": {(7, 2, None): 1}}, "auto"
    )
    assert engine.value("s") == 2
    add = engine.lane("q", 1)
    assert add(8, 40, None) is None
    assert engine.value("s") == 42
    assert engine.value("v") == 8
    assert engine.lane("q", -1)(8, 40, None) is None
    with pytest.raises(LookupError, match="not one row"):
        engine.value("v")
    with pytest.raises(TypeError, match="3 values"):
        add(1, 2)
    with pytest.raises(TypeError):
        add("seven", 2, None)


def test_the_feed_of_a_watched_view_is_its_difference():
    catalog = catalog_of(DDL)
    pair = Pair(catalog, {"v": QUERIES["having"], "w": QUERIES["aggregates"]})
    for table, changes in random_steps(11, 20):
        watched = frozenset({"v", "w"})
        native = pair.native.apply(table, changes, "auto", watched)
        assert native == pair.reference.apply(table, changes, "auto", watched)


def test_a_batch_beyond_the_memory_limit_is_refused_and_undone():
    catalog = catalog_of("CREATE TABLE t (g BIGINT NOT NULL, s VARCHAR(20))")
    engine = NativeEngine(flags=QUICK, limit=2_000_000)
    query = compile_query("SELECT s, g, COUNT(*) n FROM t GROUP BY s, g", catalog)
    engine.create("v", query, catalog, {"t": {}}, "auto")
    few = [Change((i, str(i % 3)), 1) for i in range(50)]
    engine.apply("t", few, "tuple", frozenset())
    before = engine.output("v")
    for _ in range(3):
        with pytest.raises(MemoryError, match="limit"):
            engine.apply("t", [Change((i, f"text {i}"), 1) for i in range(100_000)], "tuple", frozenset())
        assert engine.output("v") == before
    engine.apply("t", [Change(change.row, -1) for change in few], "tuple", frozenset())
    assert engine.output("v") == {}


@pytest.mark.parametrize(
    "query", ["SELECT g, SUM(g) n FROM t GROUP BY g", "SELECT s, g, COUNT(*) n FROM t GROUP BY s, g"]
)
def test_rows_beyond_the_memory_limit_are_refused_one_by_one(query):
    """Tables that may not grow run denser, and refuse new keys while there is room to undo them."""
    catalog = catalog_of("CREATE TABLE t (g BIGINT NOT NULL, s VARCHAR(20))")
    engine = NativeEngine(flags=QUICK, limit=1_000_000)
    engine.create("v", compile_query(query, catalog), catalog, {"t": {}}, "auto")
    accepted, refused = [], 0
    while refused < 3_000:
        row = len(accepted) + refused, str(len(accepted) % 3)
        try:
            engine.apply("t", [Change(row, 1)], "tuple", frozenset())
            accepted.append(row)
        except MemoryError:
            refused += 1
    assert sum(engine.output("v").values()) == len(accepted) > 1_000
    engine.apply("t", [Change(accepted[0], 1)], "tuple", frozenset())  # a key that is there needs no memory
    for row in [accepted[0], *accepted]:
        engine.apply("t", [Change(row, -1)], "tuple", frozenset())
    assert engine.output("v") == {}


def test_patterns_and_parts_of_strings():
    """LIKE with any escape and SUBSTRING at any place, over strings that try to confuse them."""
    catalog = catalog_of("CREATE TABLE t (s VARCHAR(20))")
    conditions = ["'%a%'", "'_'", "'a_%b'", "''", "'%'", "'a!%b' ESCAPE '!'", "'é%'", "'%\\\\%%'", "'_%_'"]
    likes = ", ".join(
        f"SUM(CASE WHEN s LIKE {c} THEN 1 ELSE 0 END) AS c{i}" for i, c in enumerate(conditions)
    )
    places = [(1, 2), (0, 3), (-2, 1), (-5, 4), (2, 0), (3, 9)]
    parts = ", ".join(f"SUBSTRING(s, {start}, {size}) AS p{i}" for i, (start, size) in enumerate(places))
    views = {"likes": f"SELECT {likes} FROM t", "parts": f"SELECT s, {parts}, SUBSTRING(s, 2) r FROM t"}
    pair = Pair(catalog, views)
    rng = random.Random(1)
    texts = ["".join(rng.choice("ab%_\\é\U0001f600\n") for _ in range(rng.randrange(6))) for _ in range(200)]
    pair.apply("t", [Change((text,), 1) for text in [*texts, *HOSTILE, None]], "tuple")
    pair.check()
    pair.apply("t", [Change((text,), -1) for text in texts[:100]], "batch")
    pair.check()
