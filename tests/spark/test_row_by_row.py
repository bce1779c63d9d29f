"""Tables without a trigger for batches: their rows come one by one, on the driver and in the partitions."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from spark.simulated import agree, compare
from viewlet.backends.base import Bag, Change
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.backends.spark.distribute import distribute
from viewlet.backends.spark.local import inlined
from viewlet.backends.spark.nodes import Compute, Dist, Local
from viewlet.backends.spark.place import place
from viewlet.calculus.nodes import MapRef, Term, Value
from viewlet.core.scalar import Const, Var
from viewlet.core.types import BIGINT
from viewlet.plan.bags import consolidate
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse

DDL = "CREATE TABLE b (k BIGINT, p BIGINT, v BIGINT)"
CATALOG = Catalog(statement.table for statement in parse(DDL) if isinstance(statement, CreateTable))

# Which rows are looked for is computed, so only single rows restrict what changes: no trigger for batches.
VIEWS = {
    "those met": "SELECT x.k FROM b x WHERE EXISTS (SELECT 1 FROM b y WHERE y.p + y.v = x.p)",
    "those not met": "SELECT x.k FROM b x WHERE NOT EXISTS (SELECT 1 FROM b y WHERE y.p + y.v = x.p)",
    "not among": "SELECT x.k, x.v FROM b x WHERE x.p NOT IN (SELECT y.p + y.v FROM b y)",
    "sums of those met": "SELECT x.k, SUM(x.v) AS s FROM b x "
    "WHERE EXISTS (SELECT 1 FROM b y WHERE y.p - y.v = x.p) GROUP BY x.k",
    "as many as": "SELECT x.k FROM b x WHERE x.v = (SELECT COUNT(*) FROM b y WHERE y.p + y.v = x.p)",
    "less than": "SELECT x.k, x.v FROM b x WHERE x.v < (SELECT SUM(y.v) FROM b y WHERE y.p + y.v = x.p)",
    "with or without": "SELECT x.k, y.v FROM b x LEFT JOIN b y ON y.p + y.v = x.p",
}
NATIVE = [False, pytest.param(True, marks=pytest.mark.native)]


def batches(random: Random) -> Iterator[dict[str, list[Change]]]:
    """A few rows come and go at a time, alone or several together; some are there twice, values are NULL."""
    bag: Bag = {}
    for _ in range(40):
        present = [row for row, n in bag.items() for _ in range(n)]
        gone = random.sample(present, min(len(present), random.randrange(3)))
        come = [
            (
                random.choice([None, 1, 2]),
                random.choice([None, 1, 2, 3, 4]),
                random.choice([None, -1, 0, 1, 2]),
            )
            for _ in range(random.choice([0, 1, 3]))
        ]
        changes = [Change(row, -1) for row in gone] + [Change(row, random.choice([1, 1, 2])) for row in come]
        bag = consolidate([*bag.items(), *((change.row, change.weight) for change in changes)])
        yield {"b": changes}


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize(("column", "partitions"), [(None, 1), ("k", 1), ("k", 3), ("p", 3)])
@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 12))])
def test_views_without_triggers_for_batches(
    seed: int, column: str | None, partitions: int, native: bool
) -> None:
    reference = ReferenceEngine()
    for name, sql in VIEWS.items():
        reference.create(name, compile_query(sql, CATALOG), CATALOG, {"b": {}}, "higher_order")
    program = reference.program
    assert not program.batch_triggers
    placement = place(program, {}, {"b": column} if column else {})
    assert any(isinstance(where, Dist) for where in placement.values()) == (column is not None)
    distributed = distribute(program, placement, Local())
    changes = batches(Random(seed))
    compare(reference, distributed, partitions, changes, native=native, what=f"seed {seed}")


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("seed", [1, 51, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 50))])
def test_random_programs_row_by_row(seed: int, native: bool) -> None:
    if agree(seed, native=native, by_row=True) is None:
        pytest.skip("the query is refused")


K = Var("k", BIGINT)
M, T = MapRef("m", (K,), BIGINT), MapRef("t", (K,), BIGINT)
MADE = Compute("distributed", "t", (K,), ":=", (Term((M,)),))
USED = Compute("distributed", "m", (K,), "+=", (Term((T,), -1),))
OTHER = Compute("distributed", "m", (Const(1, BIGINT),), "+=", (Term((Value(Const(1, BIGINT)),)),))


def test_what_is_read_once_is_computed_where_it_is_read() -> None:
    assert inlined((MADE, USED, OTHER), {"t"}) == (
        Compute("distributed", "m", (K,), "+=", (Term((M,), -1),)),
        OTHER,
    )


def test_but_not_after_a_change_of_what_it_reads() -> None:
    assert inlined((MADE, OTHER, USED), {"t"}) == (MADE, OTHER, USED)
