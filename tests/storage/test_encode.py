"""Whatever is written to the log comes back: rows as JSON, as Arrow, with weights and without."""

from __future__ import annotations

import random

import numpy as np
import pytest

from viewlet.backends.base import Change
from viewlet.changes import arrow_changes
from viewlet.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, VARCHAR, Column, decimal
from viewlet.sql.catalog import Catalog, Table
from viewlet.storage.encode import FEW_ROWS, decode_changes, encode_changes
from viewlet.values import to_arrow

VALUES = {
    "weight": (BIGINT, [0, -(2**63), 2**63 - 1]),
    "d": (decimal(38, 4), [0, -(10**38) + 1, 10**38 - 1]),
    "f": (DOUBLE, [0.0, 0.1, -1.7976931348623157e308, 5e-324]),
    "t": (VARCHAR, ["", "straße\n\x00\"'", "\U0001f600"]),
    "b": (BOOLEAN, [True, False]),
    "day": (DATE, [0, -719162, 2932896]),
    "at": (TIMESTAMP, [0, -1, 253402300799999999]),
}
TABLE = Table("r", tuple(Column(name, kind) for name, (kind, _) in VALUES.items()))


@pytest.mark.parametrize("count", [0, 1, FEW_ROWS, FEW_ROWS + 1])
@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_rows_come_back(count: int, compress: bool, weighted: bool) -> None:
    rng = random.Random(count)
    rows = [tuple(rng.choice([None, *values]) for _, values in VALUES.values()) for _ in range(count)]
    changes = [Change(row, rng.choice([-3, 1, 2]) if weighted else 1) for row in rows]
    weights = np.array([change.weight for change in changes], np.int64)
    arrow = arrow_changes(TABLE, to_arrow(rows, TABLE.columns).columns, weights)
    for given in (changes, arrow):
        body = b"".join(encode_changes({"r": given}, Catalog([TABLE]), compress=compress))
        assert decode_changes(body, Catalog([TABLE]))["r"].rows() == changes


def test_what_is_kept_is_what_was_written() -> None:
    """The copy that a table keeps is the message in the log: the array that came may change."""
    numbers = np.arange(1_000)
    table = Table("r", (Column("a", BIGINT),))
    weights = np.where(numbers % 3 == 0, -1, 1)
    arrow = arrow_changes(table, to_arrow([(int(n),) for n in numbers], table.columns).columns, weights)
    owned = arrow.owned()
    assert owned.batch.column(0).buffers()[1].address != arrow.batch.column(0).buffers()[1].address
    message = arrow.message
    assert message.address <= owned.batch.column(0).buffers()[1].address < message.address + message.size
    assert owned.rows() == arrow.rows()
