"""Random queries that put features inside of each other, over tables with and without keys; DuckDB tells."""

from __future__ import annotations

from datetime import datetime
from random import Random

import pytest

from oracle.composed_sql import Composer, spellings
from oracle.harness import Engine, connect, opposite, replay
from strategies import VALUES, Case, Change, Column, Pick, Row, Table, random_row
from viewlet.errors import ProgramSizeError, UnsupportedError

QUICK = 12
ENGINES: list[Engine] = [
    ("reference", "higher_order"),
    ("reference", "reevaluate"),
    ("native", "higher_order"),
    ("reference", "view_caches"),
]
MOMENTS = [
    datetime(1995, 12, 31, 23, 59, 59),
    datetime(1996, 1, 1),
    datetime(1996, 2, 29, 12),
    datetime(1996, 2, 29, 12, 0, 0, 500_000),
]


def columns(text: str) -> tuple[Column, ...]:
    """Columns given as ``name kind SQL-type``; names in capitals are NOT NULL."""
    parts = [part.split() for part in text.split(";")]
    return tuple(
        Column(name.lower(), kind, sql_type, nullable=name.islower()) for name, kind, sql_type in parts
    )


TABLES = (
    Table("r", columns("a int BIGINT; b int INT; d dec DECIMAL(6,2); s str VARCHAR; e date DATE")),
    Table("t", columns("K int BIGINT; a int SMALLINT; d dec DECIMAL(9,3); s str VARCHAR"), keys=1),
    Table("u", columns("K int BIGINT; G str VARCHAR; x dbl DOUBLE; m ts TIMESTAMP"), keys=2),
)


def changes(rng: Random, most: int = 24) -> tuple[Change, ...]:
    """Rows come, twice or to cancel, go, and are replaced by others with the same key."""
    present: dict[tuple[str, Row], Row] = {}
    free: list[Row] = []
    made: list[Change] = []
    pool = [row_of(rng.choice, TABLES[0]) for _ in range(rng.randint(2, 7))]
    for _ in range(rng.randint(8, most)):
        table = rng.choice(TABLES)
        row = row_of(rng.choice, table) if table.keys else rng.choice(pool)
        place = (table.name, row[: table.keys])
        action = rng.choice(["insert", "insert", "insert", "delete", "twice", "cancel"])
        if table.keys:
            old = present.pop(place, None)
            made += [Change(table.name, old, -1)] if old is not None else []
            if old is None or action in ("insert", "twice"):
                made.append(Change(table.name, row, 1))
                present[place] = row
        elif action == "delete":
            made += [Change("r", free.pop(rng.randrange(len(free))), -1)] if free else []
        else:
            copies = 2 if action == "twice" else 1
            made.append(Change("r", row, copies))
            if action == "cancel":
                made.append(Change("r", row, -1))
            else:
                free += [row] * copies
    return tuple(made)


def row_of(pick: Pick, table: Table) -> Row:
    return random_row(pick, table, VALUES | {"ts": MOMENTS})


def check(seed: int, depth: int = 3) -> bool:
    """Was there a query to compare? One that asks for more than there is, or is too large, is refused."""
    rng = Random(seed)
    named = {table.name: ([(c.name, c.type) for c in table.columns], table.keys) for table in TABLES}
    ours, theirs = spellings(Composer(rng, named).query(depth))
    case = Case(TABLES, ours, changes(rng))
    engine = ENGINES[seed % len(ENGINES)]
    try:
        for size in (8,) if engine[1] == "reevaluate" else (1, 8):
            batches = list(case.batches(size))
            late = size % 2 == 0
            if not late:
                batches += [opposite(whole) for whole in case.batches(len(case.changes))]
            replay(
                connect(engine),
                case.ddl,
                {"fuzzed": ours},
                batches[late:],
                before=batches[:late],
                asked={"fuzzed": theirs},
            )
    except (UnsupportedError, ProgramSizeError):
        return False
    return True


def test_features_inside_of_each_other() -> None:
    assert sum(check(seed, depth=2) for seed in range(QUICK)) > QUICK * 0.7


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 11))
def test_a_hundred_of_them(hundred: int) -> None:
    assert sum(check(seed) for seed in range(100 * hundred, 100 * hundred + 100)) > 70
