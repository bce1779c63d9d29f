"""Arrow batches that are what a table declares: one look at every value in C, no column of them in Python.

Most batches of a producer look alike, and nothing is wrong with them. So a table remembers the schema of the
last one, where its columns stand there, and that their types are those declared; native code then looks at
the values of the next one (``runtime/sound.h``). Whatever is not told so goes the long way (``changes.py``),
which converts it, or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from viewlet.backends.base import ArrowChanges, merged
from viewlet.backends.native.library import bridge
from viewlet.changes import WEIGHT, rows_of
from viewlet.core.types import Column, Kind
from viewlet.sql.catalog import Table
from viewlet.values import arrow_schema, integers

NOT_TOLD, ALL_ONCE = range(2)
"""What native code may answer, as in ``runtime/sound.h``: else some rows come more often, or go."""

MOST_BYTES = (1 << 31) - 1
"""Texts of a batch have offsets of 32 bits."""

ANY_BITS, MAY_BE_NULL = 0, 16
WEIGHTS = bytes([ANY_BITS, 0])
_LOOKED_AT: Mapping[Kind, int] = {
    kind: number
    for number, kind in enumerate(
        (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE, Kind.VARCHAR, Kind.DATE, Kind.TIMESTAMP), start=1
    )
}


@dataclass(frozen=True, slots=True)
class _Form:
    """Batches with one schema: where the columns of the table are in them, and then the weights, if any."""

    schema: pa.Schema
    order: list[int]
    is_weighted: bool
    is_renamed: bool


class Declared:
    """Reads batches of one table that are as declared.

    >>> from viewlet.core.types import BIGINT
    >>> reader = Declared(Table("r", (Column("a", BIGINT, nullable=False),)))
    >>> reader.changes(pa.table({"_weight": [2, -1], "A": [7, 8]})).rows()
    [Change(row=(7,), weight=2), Change(row=(8,), weight=-1)]
    >>> reader.changes(pa.table({"a": [None]}, pa.schema([("a", pa.int64())]))) is None
    True
    """

    def __init__(self, table: Table) -> None:
        self._schema = arrow_schema(table.columns)
        self._columns = list(range(len(table.columns)))
        self._read = partial(rows_of, table.columns)
        self._declared = b"".join(map(_declared, table.columns))
        self._form: _Form | None = None

    def changes(self, data: pa.Table) -> ArrowChanges | None:
        """The changes in data with a column ``_weight``, or else insertions; nothing if not told so."""
        form, batches = self._form_of(data.schema), data.to_batches()
        if form is None or not batches or (len(batches) > 1 and data.nbytes > MOST_BYTES):
            return None
        parts = [part for batch in batches if (part := self._in_batch(form, batch)) is not None]
        return merged(parts) if len(parts) == len(batches) else None

    def _in_batch(self, form: _Form, batch: pa.RecordBatch) -> ArrowChanges | None:
        try:
            batch.validate()
        except pa.ArrowInvalid:
            return None
        given = batch.select(form.order)
        capsules = given.__arrow_c_array__()
        declared = self._declared + WEIGHTS if form.is_weighted else self._declared
        found = bridge().sound(capsules[1], declared, form.is_weighted)
        if found == NOT_TOLD:
            return None
        rows = given.select(self._columns) if form.is_weighted else given
        if form.is_renamed:
            rows = pa.RecordBatch.from_arrays(rows.columns, schema=self._schema)
        weights = None if found == ALL_ONCE else integers(given.column(len(self._columns)))
        return ArrowChanges(rows, weights, self._read, capsules)

    def insertions(self, data: pa.Table) -> ArrowChanges | None:
        """The rows in a batch that has no column of weights; nothing if that is not told."""
        form = self._form_of(data.schema)
        return None if form is None or form.is_weighted else self.changes(data)

    def _form_of(self, schema: pa.Schema) -> _Form | None:
        """How batches of a schema are to be read; nothing if their columns are not those of the table."""
        if self._form is not None and self._form.schema.equals(schema, check_metadata=True):
            return self._form
        names = [name.lower() for name in schema.names]
        columns, is_weighted = self._schema.names, WEIGHT in names
        if sorted(names) != sorted([*columns, WEIGHT] if is_weighted else columns):
            return None
        order = [names.index(name) for name in columns]
        types = [schema.types[at] for at in order]
        if types != self._schema.types or (
            is_weighted and schema.field(names.index(WEIGHT)).type != pa.int64()
        ):
            return None
        chosen = pa.schema([schema.field(at) for at in order], schema.metadata)
        is_renamed = not chosen.equals(self._schema, check_metadata=True)
        if is_weighted:
            order.append(names.index(WEIGHT))
        self._form = _Form(schema, order, is_weighted, is_renamed)
        return self._form


def _declared(column: Column) -> bytes:
    """What native code is told of a column."""
    what = _LOOKED_AT.get(column.type.kind, ANY_BITS)
    return bytes([what + MAY_BE_NULL * column.nullable, column.type.precision])
