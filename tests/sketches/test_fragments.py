"""Fragments of whole columns are those of their values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewlet.core.types import BIGINT, DATE, DOUBLE, INT, SMALLINT, TINYINT, Type
from viewlet.sketches.feeds import fragments_of
from viewlet.sketches.partition import Partition

LIMITS = {
    "TINYINT": (TINYINT, pa.int8(), -(2**7), 2**7 - 1),
    "SMALLINT": (SMALLINT, pa.int16(), -(2**15), 2**15 - 1),
    "INT": (INT, pa.int32(), -(2**31), 2**31 - 1),
    "BIGINT": (BIGINT, pa.int64(), -(2**63), 2**63 - 1),
    "DATE": (DATE, pa.date32(), -(2**31), 2**31 - 1),
    "DOUBLE": (DOUBLE, pa.float64(), -1e300, 1e300),
}


def numbers(low: Any, high: Any) -> st.SearchStrategy[Any]:
    """Of the whole domain, of its ends, and close to zero."""
    if isinstance(low, float):
        return st.one_of(st.floats(low, high), st.integers(-50, 50).map(float))
    near = st.integers(max(low, -50), min(high, 50))
    return st.one_of(near, st.integers(low, high), st.sampled_from([low, low + 1, high - 1, high]))


def test_fragments_at_the_end_of_the_domain() -> None:
    partition = Partition("r", "a", BIGINT, (2**63 - 1,))
    assert fragments_of(partition, pa.chunked_array([[0, 2**63 - 1]])).to_pylist() == [0, 1]


@pytest.mark.parametrize("name", LIMITS)
@given(data=st.data())
def test_fragments_of_a_column_are_those_of_its_values(name: str, data: st.DataObject) -> None:
    kind: Type
    kind, arrow, low, high = LIMITS[name]
    number = numbers(low, high)
    spread = data.draw(st.sampled_from([number, numbers(-50, 50) if isinstance(low, int) else number]))
    bounds = tuple(sorted(data.draw(st.sets(spread, max_size=6))))
    values = data.draw(st.lists(st.one_of(st.none(), number), max_size=20))
    partition = Partition("r", "a", kind, bounds)
    column = pa.chunked_array([pa.array(values, pa.int32() if name == "DATE" else arrow).cast(arrow)])
    assert fragments_of(partition, column).to_pylist() == [partition.fragment_of(v) for v in values]
