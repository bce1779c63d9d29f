"""Rows of a batch that go to the partitions themselves, and where sums of them are sent instead.

That dealing rows changes no result is for the random programs of ``test_distribute.py`` to show.
"""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark.test_distribute import MOVE_MAPS, small, tpch
from viewlet.backends.spark.distribute import distribute
from viewlet.backends.spark.exchange import partition_of
from viewlet.backends.spark.local import local_program
from viewlet.backends.spark.native import site_codes
from viewlet.backends.spark.nodes import Block, Compute, Dealt, DistProgram, DistTrigger, Local, Transfer
from viewlet.backends.spark.shares import deal_out
from viewlet.backends.spark.site import Changes
from viewlet.backends.spark.text import show_distributed
from viewlet.calculus.nodes import Delta, Term
from viewlet.core.scalar import Var
from viewlet.core.types import BIGINT, DATE, INT, VARCHAR, Column, Type, decimal
from viewlet.loops.from_triggers import triggers_to_loops
from viewlet.loops.nodes import Loop, operations
from viewlet.sql.catalog import Table
from viewlet.workloads import queries


def test_rows_are_dealt_where_that_sends_less() -> None:
    program, arriving = tpch("q17")
    held = distribute(program, arriving.placement, Local())
    trigger = held.batch["lineitem"]
    assert trigger.dealt == Dealt("l_partkey", ("l_partkey", "l_quantity", "l_extendedprice"))
    assert "rows by l_partkey: l_partkey, l_quantity, l_extendedprice" in show_distributed(program, held)
    moves = [s for block in trigger.blocks for s in block.statements if isinstance(s, Transfer)]
    assert {move.movement for move in moves} == {"Gather"}
    assert trigger.stages == 1


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=pytest.mark.native)])
def test_rows_that_differ_in_what_is_left_out_do_not_cancel(native: bool) -> None:
    """An absolute change says for which keys anything may be new, whatever columns the rows came with."""
    a = Var("a", BIGINT)
    touched = Compute("distributed", "t", (a,), ":=", (Term((Delta("r", (("a", a),), absolute=True),)),))
    moved = Transfer("Gather", "u", "t", None, "distributed")
    blocks = (Block("distributed", (touched,)), Block("local", (moved,)))
    table = Table("r", (Column("a", BIGINT), Column("b", BIGINT)))
    trigger = DistTrigger("r", blocks, Dealt("a", ("a",)))
    program = DistProgram(Local(), {"r": table}, {}, {}, {"r": trigger}, {}, {})
    _, code = site_codes(program, native)
    site = code.open()
    site.begin("r", *deal_out(Changes([(7, 1), (7, 2)], [1, -1]), table, Dealt("a", ("a",)), 1))
    site.compute("r", 0, 0)
    (piece,) = site.send("r", "t", None, 1)
    assert len(piece) == 1


def test_few_rows_that_pass_conditions_are_sent_as_sums() -> None:
    program, arriving = tpch("q12")
    assert distribute(program, arriving.placement, Local()).batch["lineitem"].dealt is None


def test_rows_that_arrive_in_partitions_are_not_dealt() -> None:
    assert all(trigger.dealt is None for trigger in tpch("q17")[1].batch.values())


def test_a_key_of_another_type_than_its_column_does_not_tell_the_partition() -> None:
    """DECIMALs are integers at their scale, so equal numbers of two scales are different integers."""
    _, same = small("SELECT r.a, sum(b) AS x, count(*) AS n, min(b) AS y FROM r GROUP BY r.a")
    assert same.batch["r"].dealt is not None
    _, other = small("SELECT CAST(r.a AS DECIMAL(20, 2)) AS k, sum(b) AS x FROM r GROUP BY 1")
    assert other.batch["r"].dealt is None


KEYS: dict[Type, tuple[pa.DataType, list[Any], list[Any]]] = {  # in Arrow, values there, physical values
    BIGINT: (pa.int64(), [0, -1, 7, 2**62, None], [0, -1, 7, 2**62, None]),
    INT: (pa.int32(), [0, -1, 7, None], [0, -1, 7, None]),
    DATE: (pa.date32(), [date(1970, 1, 1), date(1995, 3, 15), None], [0, 9204, None]),
    decimal(12, 2): (pa.decimal128(12, 2), [Decimal("1.25"), Decimal("-7.00"), None], [125, -700, None]),
    VARCHAR: (pa.string(), ["", "MED BOX", "ä", None], ["", "MED BOX", "ä", None]),
}


@pytest.mark.parametrize("kind", KEYS, ids=str)
@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_shares_of_columns_are_those_of_rows(kind: Type, partitions: int, weighted: bool) -> None:
    rng = random.Random(partitions)
    arrow, values, physical = KEYS[kind]
    table = Table("r", (Column("a", BIGINT), Column("k", kind), Column("b", BIGINT)))
    picks = [rng.randrange(len(values)) for _ in range(40)]
    weights = [rng.choice([-2, -1, 1]) if weighted else 1 for _ in picks]
    dealt = Dealt("k", ("k", "b"))
    rows = [(i, physical[pick], -i) for i, pick in enumerate(picks)]
    shares = deal_out(Changes(rows, weights), table, dealt, partitions)
    assert sorted(row[1] for share in shares for row in share.rows) == sorted(-i for i in range(40))
    for number, share in enumerate(shares):
        assert all(partition_of(row[0], partitions) == number for row in share.rows)
    columns = [pa.array(range(40)), pa.array([values[p] for p in picks], arrow), pa.array(range(0, -40, -1))]
    batch = pa.RecordBatch.from_arrays(columns, names=["a", "k", "b"])
    in_arrow = Changes(batch, np.array(weights) if weighted else None)
    for share, own in zip(deal_out(in_arrow, table, dealt, partitions), shares, strict=True):
        assert isinstance(share.rows, pa.RecordBatch)
        assert share.rows.schema.names == ["k", "b"]
        assert share.rows.column("b").to_pylist() == [row[1] for row in own.rows]
        assert (share.weights is None) == (not weighted)
        if share.weights is not None:
            assert list(share.weights) == own.weights


@pytest.mark.parametrize("name", sorted(queries("tpch")))
def test_a_batch_goes_through_what_it_brought_and_not_through_maps(name: str) -> None:
    program, arriving = tpch(name)
    local = local_program(distribute(program, arriving.placement, Local()), "distributed")
    lowered = triggers_to_loops(local.program, batches="all")
    kept = {lowered.places[m].record for m, d in local.program.maps.items() if d.keys and not d.brief}
    running = {event.table for events in local.events.values() for event in events}
    scans = {
        op.record
        for table in running
        for block in (lowered.tables[table].on_tuple, lowered.tables[table].on_batch)
        for op in operations(block)
        if isinstance(op, Loop) and not op.bound and op.record in kept
    }
    assert bool(scans) == (name in MOVE_MAPS), scans
