"""Changes by key against a dictionary, and messages of PostgreSQL against noise."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewlet.connectors.base import ConnectorError
from viewlet.connectors.keyed import by_key
from viewlet.connectors.pgoutput import Commit, Relation, Row, Truncate, decode

STATES = st.lists(
    st.dictionaries(st.tuples(st.integers(0, 3), st.none() | st.just("k")), st.integers(0, 2)), max_size=6
)


@settings(max_examples=150)
@given(states=STATES)
def test_net_changes_lead_from_the_first_state_to_the_last(
    states: list[dict[tuple[int, str | None], int]],
) -> None:
    rows = []
    for before, after in zip([{}, *states], states, strict=False):
        gone, come = before.items() - after.items(), after.items() - before.items()
        rows += [(*key, value, "delete") for key, value in gone] + [
            (*key, value, "insert") for key, value in come
        ]
    names = ["a", "b", "v", "_change_type"]
    types = [pa.int64(), pa.string(), pa.int64(), pa.string()]
    changes = pa.table([pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)], names)
    start = states[0] if states else {}
    for first, target in (({}, {}), (start, dict(start))):
        part = changes.slice(len(first))  # the first state alone is all inserts
        net = by_key(part, ("a", "b"))
        for row in net.gone.to_pylist():
            del target[row["a"], row["b"]]
        for row in net.updated.to_pylist():
            assert (row["a"], row["b"]) in target
            target[row["a"], row["b"]] = row["v"]
        for row in net.fresh.to_pylist():
            assert (row["a"], row["b"]) not in target
            target[row["a"], row["b"]] = row["v"]
        assert target == (states[-1] if states else {})


def test_two_rows_with_one_key_are_refused() -> None:
    rows = pa.table({"a": [1, 1], "v": [1, 2], "_change_type": ["insert", "insert"]})
    with pytest.raises(ConnectorError, match="no key"):
        by_key(rows, ("a",))
    with pytest.raises(ConnectorError, match="no column 'z'"):
        by_key(rows, ("z",))


@settings(max_examples=400)
@given(kind=st.sampled_from(b"BCRIUDTOYMxz"), rest=st.binary(max_size=60))
def test_noise_is_a_message_or_an_error(kind: int, rest: bytes) -> None:
    try:
        message = decode(bytes([kind]) + rest)
    except ConnectorError:
        return
    assert message is None or isinstance(message, Relation | Row | Truncate | Commit)


@given(values=st.lists(st.none() | st.text(st.characters(codec="utf-8")), max_size=5))
def test_values_are_read_as_they_were_written(values: list[str | None]) -> None:
    parts = [b"n" if v is None else b"t" + struct.pack("!I", len(v.encode())) + v.encode() for v in values]
    row = struct.pack("!H", len(values)) + b"".join(parts)
    number = struct.pack("!I", 7)
    assert decode(b"I" + number + b"N" + row) == Row(7, None, list(values))
    assert decode(b"D" + number + b"O" + row) == Row(7, list(values), None)
    kept = struct.pack("!H", len(values)) + b"u" * len(values)
    assert decode(b"U" + number + b"O" + row + b"N" + kept) == Row(7, list(values), list(values))
