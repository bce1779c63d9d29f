"""SQL out of arbitrary text: whatever it says, it works or is refused with an error of ours.

Half of the inputs are words of SQL in any order, the others known queries with parts taken out, doubled and
exchanged. Afterwards the database must still do what it did before.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache

import viewlet
from viewlet.errors import ViewletError
from viewlet.workloads import queries, schema

WORDS = r"""
    SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT FULL ON USING AS IN EXISTS NOT AND OR IS NULL LIKE
    BETWEEN CASE WHEN THEN ELSE END CAST DISTINCT UNION ALL EXCEPT INTERSECT WITH RECURSIVE VALUES INSERT INTO
    DELETE UPDATE CREATE TABLE STREAM STATIC MATERIALIZED VIEW DROP IF REFRESH EXPLAIN INTERVAL DATE TIMESTAMP
    DECIMAL BIGINT VARCHAR sum count avg min max a b r s v 1 0 -1 9223372036854775808 1e400 0.1 'x' '' '\''
    " ` ( ) [ ] , ; . * + - / % = <> < >= || :: ? $1 @ # -- /* */ { } \ ä 𝄞 OVER PARTITION ROLLUP LATERAL
    ATTACH COPY PRAGMA SET CALL read_csv('/etc/passwd') PRIMARY KEY CONFLICT REPLACE IGNORE REFERENCES
"""
TOKENS = [*WORDS.split(), "\0", "\u202e"]


@lru_cache(maxsize=1)
def known() -> list[str]:
    """Queries and definitions that are sound."""
    simple = [
        "SELECT a, sum(a) AS s FROM r GROUP BY a",
        "SELECT r.b FROM r JOIN s ON r.a = s.a WHERE r.a > 1",
    ]
    return [*simple, *queries("finance").values(), schema("finance").replace("bids", "others")]


def text_of(data: bytes) -> str:
    """A text out of arbitrary bytes."""
    rng = random.Random(data)
    if len(data) % 2:
        return " ".join(TOKENS[byte % len(TOKENS)] for byte in data)
    words = known()[rng.randrange(len(known()))].split()
    for byte in data[: len(data) % 5]:
        at, to = rng.randrange(len(words)), rng.randrange(len(words) + 1)
        match byte % 4:
            case 0:
                del words[at : at + byte // 32 + 1]
            case 1:
                words[to:to] = words[at : at + byte // 8]
            case 2:
                words[at] = TOKENS[byte * 7 % len(TOKENS)]
            case _:
                words[at] = words[rng.randrange(len(words))]
        words = words or ["SELECT"]
    return " ".join(words)


def attempt(data: bytes) -> str:
    """Run a text, plain and as a view and to be explained; says what became of it."""
    text, outcomes = text_of(data), []
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE r (a BIGINT, b VARCHAR); CREATE STREAM s (a BIGINT, b VARCHAR)")
        db.execute(schema("finance"))
        db.execute("CREATE MATERIALIZED VIEW steady AS SELECT sum(a) AS a FROM s")
        for statement in (text, f"CREATE MATERIALIZED VIEW v AS {text}", f"EXPLAIN {text}"):
            try:
                db.execute(statement)
                outcomes.append("worked")
            except ViewletError:
                outcomes.append("refused")
        if "steady" in db.catalog and "s" in db.catalog:
            before = db.view("steady").value or 0
            db.insert("s", [(2, "x")])
            assert db.view("steady").value == before + 2
    return max(outcomes)


def random_inputs(seed: int, count: int) -> list[bytes]:
    """Inputs without guidance."""
    rng = random.Random(seed)
    return [rng.randbytes(rng.randrange(1, 30)) for _ in range(count)]


def starts() -> Callable[[bytes], str]:
    """What ``run.py`` calls with every input."""
    return attempt
