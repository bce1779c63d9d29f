"""The short way for one row and for one value: from the caller straight into native code, and back.

``table.add(..)`` and ``view.value`` often need nothing of a database but its trigger: no log to write, no key
to look up elsewhere, nobody to tell. Where that is so, a handle gets a *gate* (``runtime/gate.h``): it checks
the values, runs the trigger, keeps the row if it is a table's, and counts the version up, all in C. Gates
share a clock with the database: while a call is inside the database, or once anything has changed that a gate
relies on, it is closed, and the call goes the long way. So does a row whose key is there already, or one that
is deleted and did not come one by one.
"""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Callable, Mapping
from typing import Any

from viewlet.backends.native.engine import NativeEngine
from viewlet.backends.native.library import Gate, Takes
from viewlet.converters import converter
from viewlet.core.types import Kind
from viewlet.kept import KeptRows
from viewlet.sql.catalog import Catalog, Table, TableKind
from viewlet.views import Views

VERSION, INSIDE, GENERATION = range(3)
"""The words of a clock, as in ``runtime/gate.h``."""

CONVERTED, NULLABLE, MOST_CONVERTED = 7, 16, 64
_TAKES: Mapping[Kind, int] = {
    kind: number
    for number, kind in enumerate(
        (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DOUBLE, Kind.BOOLEAN, Kind.VARCHAR)
    )
}


class Gates:
    """The clock of one database, and the gates that its handles were given."""

    def __init__(self) -> None:
        self.clock = array("q", [0, 0, 0])
        self._rows: list[tuple[str, Gate]] = []
        _ALL.add(self)

    def close(self) -> None:
        """Close all gates: something changes that they may rely on."""
        self.clock[GENERATION] += 1

    def settle(self, views: Views, catalog: Catalog) -> None:
        """Account for the rows that went through: views have seen more of their tables since."""
        passed = [(table, gate) for table, gate in self._rows if gate.count]
        for table, gate in passed:
            for view in views.reading(table):
                view.refreshes += gate.count
            gate.count = 0
        if any(catalog[table].kind is TableKind.STREAM for table, _ in passed):
            views.separate(catalog)
        self._rows = [(table, gate) for table, gate in self._rows if self.is_current(gate)]

    def is_current(self, gate: Gate | None) -> bool:
        """Is it a gate that can be open?"""
        return gate is not None and gate.generation == self.clock[GENERATION]

    def for_rows(
        self,
        table: str,
        weight: int,
        views: Views,
        catalog: Catalog,
        kept: KeptRows | None,
        otherwise: Callable[..., Any],
    ) -> Gate | None:
        """A gate for rows of a table or stream whose views one native program keeps, and nobody reads.

        ``kept`` are the rows of a table that no enforced key ties to another one.
        """
        takes = _takes(catalog[table])
        affected = views.affected([table])
        engines = {id(view.engine): view.engine for view in affected}
        kind = catalog[table].kind
        passes = kind is TableKind.STREAM or (kind is TableKind.TABLE and kept is not None)
        if not passes or takes is None or len(engines) != 1:
            return None
        (engine,) = engines.values()
        if not isinstance(engine, NativeEngine) or any(views.readers(view.name) for view in affected):
            return None
        names = [view.name for view in affected]
        gate = engine.row_gate(table, names, weight, takes, kept, self.clock, otherwise)
        if gate is not None:
            self._rows.append((table, gate))
        return gate

    def for_value(
        self, view: str, views: Views, catalog: Catalog, otherwise: Callable[[], Any]
    ) -> Gate | None:
        """A gate for the value of a view with one column that looks the same inside and outside."""
        engine = views[view].engine
        columns = catalog[view].columns
        if not isinstance(engine, NativeEngine) or len(columns) != 1 or columns[0].type.kind not in _TAKES:
            return None
        return engine.value_gate(view, self.clock, otherwise)


def _takes(table: Table) -> Takes | None:
    """What ``runtime/gate.h`` is told of the columns; nothing of too many whose values are converted."""
    columns = table.columns
    kinds = [_TAKES.get(column.type.kind, CONVERTED) for column in columns]
    flags = bytes(kind + NULLABLE * column.nullable for kind, column in zip(kinds, columns, strict=True))
    if CONVERTED not in kinds:
        return flags, ()
    if len(kinds) > MOST_CONVERTED:
        return None
    converters = tuple(
        converter(column, table.name) if kind == CONVERTED else None
        for kind, column in zip(kinds, columns, strict=True)
    )
    return flags, converters


_ALL: weakref.WeakSet[Gates] = weakref.WeakSet()


def _close_all() -> None:
    """In a forked child nothing may use the state that it got from its parent."""
    for gates in _ALL:
        gates.close()


os.register_at_fork(after_in_child=_close_all)
