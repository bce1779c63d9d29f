"""The tables of a database: the rows that they keep, their rules for conflicts, and the keys between them.

A batch is first brought down to its net changes and checked (:meth:`Tables.net`, :meth:`Tables.steps`), and
taken over only when engines and journal have agreed to it (:meth:`Tables.commit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from viewlet.backends.base import Bag, Change, MapStats, Row
from viewlet.changes import Batch, Data, as_arrow, read_changes, read_inserts
from viewlet.declared import Declared
from viewlet.errors import DataError
from viewlet.kept import Image, KeptRows, OnConflict
from viewlet.references import References, Step
from viewlet.sql import parse
from viewlet.sql.catalog import Catalog, Table, TableKind

Changes: TypeAlias = Mapping[str, Sequence[Change]]

_RULES: Mapping[parse.OnConflict, OnConflict] = {
    parse.OnConflict.ERROR: "error",
    parse.OnConflict.REPLACE: "update",
    parse.OnConflict.IGNORE: "nothing",
}
_WORDS = {rule: word for word, rule in _RULES.items()}


class Tables:
    """The tables, static tables and streams of one database; a stream keeps no rows.

    >>> from viewlet.core.types import BIGINT, Column
    >>> pairs = Table("pairs", (Column("a", BIGINT), Column("b", BIGINT)), key=("a",))
    >>> tables = Tables()
    >>> tables.add(parse.CreateTable(pairs, on_conflict=parse.OnConflict.REPLACE), Catalog(), native=False)
    >>> tables.commit({"pairs": [Change((1, 10), 1)]})
    >>> tables.net(pairs, Batch([Change((1, 20), 1)]))
    [Change(row=(1, 10), weight=-1), Change(row=(1, 20), weight=1)]
    """

    def __init__(self) -> None:
        self._rules: dict[str, OnConflict] = {}
        self._kept: dict[str, KeptRows] = {}
        self._declared: dict[str, Declared] = {}
        self._references = References()

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def add(self, statement: parse.CreateTable, catalog: Catalog, *, native: bool) -> None:
        """Keep the rows of a new table; ``catalog`` has those to which it may refer."""
        table = statement.table
        parents = {key.target for key in table.references if key.enforced}
        self._references.add(table, catalog, {name: self._kept[name].bag for name in parents})
        self._rules[table.name] = _RULES[statement.on_conflict]
        if table.kind is not TableKind.STREAM:
            self._kept[table.name] = KeptRows(table, native=native)
        if native:
            self._declared[table.name] = Declared(table)

    def refuse_if_referred(self, name: str) -> None:
        """A table to which another one refers may not be dropped."""
        self._references.refuse_if_referred(name)

    def drop(self, name: str) -> None:
        """Forget a table."""
        self._references.drop(name)
        self._kept.pop(name, None)
        self._declared.pop(name, None)
        del self._rules[name]

    def changes(self, table: Table, data: Data) -> Batch:
        """The changes in data of any kind, checked; see :func:`viewlet.changes.read_changes`."""
        reader, arrow = self._declared.get(table.name), as_arrow(table, data)
        found = reader.changes(arrow) if reader is not None and arrow is not None else None
        return read_changes(table, data if arrow is None else arrow) if found is None else Batch(found)

    def insertions(self, table: Table, data: Data) -> Batch:
        """The rows in data of any kind, checked; see :func:`viewlet.changes.read_inserts`."""
        reader, arrow = self._declared.get(table.name), as_arrow(table, data)
        found = reader.insertions(arrow) if reader is not None and arrow is not None else None
        return read_inserts(table, data if arrow is None else arrow) if found is None else Batch(found)

    def net(self, table: Table, batch: Batch, on_conflict: OnConflict | None = None) -> Sequence[Change]:
        """The changes that a batch comes down to, refused if the rows do not allow them.

        Without ``on_conflict`` the table's own rule holds.
        """
        rule = on_conflict or self._rules[table.name]
        if rule not in _RULES.values():
            raise DataError(f"on_conflict={rule!r}: use 'error', 'update' or 'nothing'")
        if table.kind is not TableKind.STREAM:
            return self._kept[table.name].net(batch, rule)
        if batch.keyed:
            raise DataError(f"stream {table.name!r} keeps no rows: a deletion must give all columns")
        return batch.changes

    def steps(self, changes: Changes, catalog: Catalog) -> list[Step]:
        """The changes in an order in which every enforced key holds in between; refused if there is none."""
        self._references.check(changes)
        return self._references.steps(changes, catalog)

    def commit(self, changes: Changes) -> None:
        """Take over changes that were allowed."""
        for name, part in changes.items():
            if name in self._kept:
                self._kept[name].commit(part)
        self._references.commit(changes)

    def alone(self, name: str) -> KeptRows | None:
        """The kept rows of a table that no enforced key ties to another one."""
        return None if self._references.concern(name) else self._kept.get(name)

    def bag(self, name: str) -> Bag:
        """The present rows of a table; of a stream there are none."""
        return self._kept[name].bag if name in self._kept else {}

    def having(self, name: str, keys: Sequence[Row]) -> Bag:
        """The present rows with some primary keys."""
        return self._kept[name].having(keys)

    def present(self, name: str) -> Image:
        """The present rows, to be looked at before the next commit."""
        return self._kept[name].present() if name in self._kept else Image({})

    def image(self, name: str) -> Image | None:
        """The present rows as they will stay whatever comes; of a stream there are none."""
        return self._kept[name].image() if name in self._kept else None

    def definition(self, table: Table) -> parse.CreateTable:
        """The statement that makes the table again."""
        return parse.CreateTable(table, on_conflict=_WORDS[self._rules[table.name]])

    def counts(self) -> dict[str, int]:
        """How many rows each table keeps."""
        return {name: kept.count() for name, kept in self._kept.items()}

    def sizes(self) -> list[MapStats]:
        """What the rows of each table take."""
        return [kept.stats() for kept in self._kept.values()]

    def growth(self, changes: Changes) -> int:
        """The bytes that changes would add at most."""
        return sum(self._kept[name].growth(part) for name, part in changes.items() if name in self._kept)
