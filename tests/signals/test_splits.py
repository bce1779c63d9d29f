"""One answer however the input arrives: any split, a restore in the middle, advances, either kernel."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signals.laws import assert_same, cuts_of, interval_events, pushed, readings
from signals.queries import INTERVALS, IRREGULAR, UNIFORM
from viewlet.signals import reference
from viewlet.signals.kernels import using

QUICK = settings(max_examples=5, deadline=None)
LONG = settings(max_examples=400, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)
CASES = (
    [(name, query, readings()) for name, query in IRREGULAR.items()]
    + [(name, query, readings(on_grid=10)) for name, query in UNIFORM.items()]
    + [(name, query, interval_events()) for name, query in INTERVALS.items()]
)
ALL = pytest.mark.parametrize(("query", "data"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])


def check_splits(query, data, settings_):
    @settings_
    @given(data, SEEDS, st.integers(0, 4))
    def law(table, seed, restore_at):
        whole = query.run(table)
        assert_same(pushed(query, table, cuts_of(table.num_rows, seed), restore_at), whole)
        with_advances = advanced(query, table, cuts_of(table.num_rows, seed + 1))
        assert_same(with_advances, whole)

    law()


def advanced(query, table: pa.Table, cuts: list[int]) -> pa.Table:
    """Push pieces of the input sorted by time, declaring after each that time has passed."""
    time = "t" if "t" in table.column_names else "s"
    table = table.sort_by(time)
    session = query.start()
    out, bounds = [], [0, *sorted(cuts), table.num_rows]
    for low, high in itertools.pairwise(bounds):
        out.append(session.push(table.slice(low, high - low)))
        if high < table.num_rows:
            out.append(session.advance(table.column(time)[high].as_py()))
    return pa.concat_tables([*out, session.flush()], promote_options="default")


@ALL
def test_any_split_with_restore_and_advances(query, data):
    check_splits(query, data, QUICK)


@pytest.mark.slow
@ALL
def test_any_split_with_restore_and_advances_at_length(query, data):
    check_splits(query, data, LONG)


@pytest.mark.native
@ALL
def test_native_kernels_agree_with_reference(query, data):
    @QUICK
    @given(data, SEEDS)
    def law(table, seed):
        native = pushed(query, table, cuts_of(table.num_rows, seed))
        with using(reference):
            assert_same(pushed(query, table, cuts_of(table.num_rows, seed + 1)), native)

    law()


@ALL
def test_grouped_is_a_loop_over_groups(query, data):
    @settings(max_examples=6, deadline=None)
    @given(data)
    def law(table):
        parts = [table.filter(pc.equal(table["k"], k)) for k in sorted(set(table["k"].to_pylist()))]
        loop = [query.run(part) for part in parts]
        if loop:
            assert_same(query.run(table), pa.concat_tables(loop, promote_options="default"))

    law()
