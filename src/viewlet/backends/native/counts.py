"""How often each row of a table is there, in a native map: what a deletion is checked against."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.backends.base import ArrowChanges, Row
from viewlet.backends.native.emit import emit
from viewlet.backends.native.engine import program_error
from viewlet.backends.native.library import open_program
from viewlet.calculus.nodes import Rel
from viewlet.core.types import Column
from viewlet.loops.from_triggers import triggers_to_loops
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog, Table
from viewlet.triggers.compile import compile_views

VIEW, TABLE = "kept", "t"

MOST_COLUMNS = 32
"""Of more the C compiler makes a program for seconds; wider rows stay in Python."""


class RowCounts:
    """The rows of one table with their numbers of copies: the program of ``SELECT * FROM t``.

    Columns go by number, so that tables with the same types share compiled code.
    """

    def __init__(self, table: Table) -> None:
        columns = tuple(Column(f"c{i}", c.type, c.nullable) for i, c in enumerate(table.columns))
        catalog = Catalog([Table(TABLE, columns)])
        program = compile_views({VIEW: compile_query(f"SELECT * FROM {TABLE}", catalog)}, catalog)
        loops = triggers_to_loops(program)
        source = emit(loops)
        (definition,) = program.maps.values()
        place = loops.places[definition.name]
        ((rows,),) = (term.factors for term in definition.definition)
        assert isinstance(rows, Rel), "the map of a whole table is the table"
        binds = {argument: int(column[1:]) for column, argument in rows.binds}
        self._columns = [binds[definition.keys[i]] for i in place.order]
        self._record = source.records.index(place.record)
        self._program = open_program(source)
        self.name = table.name

    def apply(self, changes: ArrowChanges) -> None:
        """Take over changes."""
        self.add(changes.batch, changes.weights)

    def add(self, batch: pa.RecordBatch, weights: NDArray[np.int64] | None) -> None:
        """Count each row of a batch so many times more, or once more."""
        schema, array = batch.__arrow_c_array__()
        failed = self._program.apply_arrow(0, schema, array, weights, False)
        if failed is not None:
            raise program_error(failed[0], f"table {self.name!r}")

    def of(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """How often each row of a batch is there."""
        keys = batch.select(self._columns)
        schema, array = keys.__arrow_c_array__()
        return np.frombuffer(self._program.counts(self._record, schema, array), np.int64)

    def finder(self) -> Callable[[Row], int]:
        """Tells how often a row, of physical values, is there; runs no Python code."""
        return self._program.finder(self._record, bytes(self._columns))

    def bytes(self) -> int:
        """The memory that it takes."""
        return self._program.bytes()
