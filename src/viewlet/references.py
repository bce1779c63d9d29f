"""Foreign keys that are enforced: ``REFERENCES parent (key) ON DELETE RESTRICT``.

A child needs its parent, and a parent that has children neither goes nor changes. Programs rely on that
(``calculus/childless.py``), so it must hold at every step of a batch, not only around it: children go before
their parents and come after them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from viewlet.backends.base import ArrowChanges, Change, Row
from viewlet.core.casts import show
from viewlet.core.types import Column, same_identity
from viewlet.errors import CatalogError, DataError
from viewlet.sql.catalog import Catalog, ForeignKey, Table, TableKind
from viewlet.values import physical_values

Changes = Mapping[str, Sequence[Change]]
Step = tuple[str, Sequence[Change]]


def check_declared(table: Table, catalog: Catalog) -> None:
    """Refuse a table with an enforced foreign key that cannot be enforced, and say why."""
    for key in table.references:
        if key.enforced:
            reason = _obstacle(table, key, catalog)
            if reason:
                names = ", ".join(key.columns)
                raise CatalogError(
                    f"table {table.name!r}: ({names}) REFERENCES {key.target} ON DELETE RESTRICT cannot be "
                    f"enforced: {reason}; without ON DELETE RESTRICT it is a hint"
                )


def _obstacle(table: Table, key: ForeignKey, catalog: Catalog) -> str | None:
    if table.kind is TableKind.STREAM:
        return "a stream keeps no rows, so nobody knows who refers to a row"
    if key.target == table.name:
        return "a table that refers to itself has no order of parents and children"
    if key.target not in catalog:
        return f"there is no table {key.target!r} yet: create it first"
    parent = catalog[key.target]
    if parent.kind not in (TableKind.TABLE, TableKind.STATIC):
        return f"{key.target!r} is a {parent.kind.value.lower()} and keeps no rows of its own"
    if not parent.key or sorted(key.target_columns) != sorted(parent.key):
        return f"({', '.join(key.target_columns)}) is not the PRIMARY KEY of {key.target!r}"
    if table.kind is TableKind.STATIC and parent.kind is not TableKind.STATIC:
        return f"rows of a static table are there before those of {key.target!r}, which is none"
    own, theirs = _columns(table, key.columns), _columns(parent, key.target_columns)
    for mine, other in zip(own, theirs, strict=True):
        if not same_identity(mine.type, other.type):
            return f"{mine.name} is {mine.type} and {key.target}.{other.name} is {other.type}"
    return None


class References:
    """The enforced foreign keys of a database: who is there to be referred to, and how often that happens."""

    def __init__(self) -> None:
        self._links: list[_Link] = []

    def add(self, table: Table, catalog: Catalog, rows: Mapping[str, Iterable[Row]]) -> None:
        """Enforce the keys of a new table; ``rows`` are the present rows of the tables that it refers to."""
        for key in table.references:
            if key.enforced:
                link = _Link(table, catalog[key.target], key)
                link.commit({key.target: [Change(row, 1) for row in rows[key.target]]})
                self._links.append(link)

    def concern(self, table: str) -> bool:
        """Does some key refer to a table, or one of its own to another?"""
        return any(table in (link.parent.name, link.child.name) for link in self._links)

    def refuse_if_referred(self, table: str) -> None:
        """A table to which another one refers may not be dropped."""
        for link in self._links:
            if link.parent.name == table:
                raise CatalogError(f"table {table!r} is referred to by {link.child.name!r}: drop that first")

    def drop(self, table: str) -> None:
        """Forget the keys of a table that is dropped."""
        self._links = [link for link in self._links if link.child.name != table]

    def check(self, changes: Changes) -> None:
        """Refuse a batch that leaves a child without its parent, or touches a parent that has children."""
        for link in self._links:
            link.check(changes)

    def commit(self, changes: Changes) -> None:
        """Take note of changes that were allowed."""
        for link in self._links:
            link.commit(changes)

    def steps(self, changes: Changes, catalog: Catalog) -> list[Step]:
        """The changes in an order in which every key holds in between.

        Children that go, parents that go, parents that come, children that come.
        """
        linked = [link for link in self._links if {link.parent.name, link.child.name} <= changes.keys()]
        if not linked:
            return list(changes.items())
        tables = {name for link in linked for name in (link.parent.name, link.child.name)}
        order = catalog.parents_first(tables)
        going = [(name, _part(changes[name], going=True)) for name in reversed(order)]
        coming = [(name, _part(changes[name], going=False)) for name in order]
        return [*((n, part) for n, part in changes.items() if n not in tables), *going, *coming]


@dataclass(slots=True)
class _Link:
    """One enforced key: the keys of the parents there are, and how many children refer to each."""

    child: Table
    parent: Table
    key: ForeignKey
    parents: set[Row] = field(default_factory=set)
    children: Counter[Row] = field(default_factory=Counter)

    def check(self, changes: Changes) -> None:
        if changes.keys().isdisjoint((self.parent.name, self.child.name)):
            return
        parents_gone, parents_new = self._moves(changes, self.parent, self.key.target_columns)
        gone, new = self._moves(changes, self.child, self.key.columns)
        for key in parents_gone:
            left = self.children[key] - gone[key]
            if left:
                raise DataError(
                    f"table {self.parent.name!r}: the row with {self._told(key)} can neither go nor change: "
                    f"{left} row{'s' * (left > 1)} of {self.child.name!r} refer{'s' * (left == 1)} to it; "
                    "delete these before, or in the same batch"
                )
        for key in new:
            if key not in parents_new and (key not in self.parents or key in parents_gone):
                raise DataError(
                    f"table {self.child.name!r}: a row refers to the row of {self.parent.name!r} with "
                    f"{self._told(key)}, which is not there; insert that before, or in the same batch"
                )

    def commit(self, changes: Changes) -> None:
        gone, new = self._moves(changes, self.parent, self.key.target_columns)
        self.parents -= gone.keys()
        self.parents |= new.keys()
        gone, new = self._moves(changes, self.child, self.key.columns)
        self.children.update(new)
        self.children.subtract(gone)
        for key in gone:
            if not self.children[key]:
                del self.children[key]

    def _moves(
        self, changes: Changes, table: Table, columns: tuple[str, ...]
    ) -> tuple[Counter[Row], Counter[Row]]:
        """How many rows with each key go, and how many come; NULL refers to nothing."""
        gone, new = Counter[Row](), Counter[Row]()
        for key, weight in _weighted_keys(changes.get(table.name, ()), table, columns):
            if None not in key:
                (gone if weight < 0 else new)[key] += abs(weight)
        return gone, new

    def _told(self, key: Row) -> str:
        columns = _columns(self.parent, self.key.target_columns)
        return ", ".join(f"{c.name} = {show(value, c.type)}" for value, c in zip(key, columns, strict=True))


def _columns(table: Table, names: tuple[str, ...]) -> list[Column]:
    found = {column.name: column for column in table.columns}
    return [found[name] for name in names]


def _weighted_keys(
    changes: Sequence[Change], table: Table, names: tuple[str, ...]
) -> Iterator[tuple[Row, int]]:
    slots = [table.column_names.index(name) for name in names]
    if isinstance(changes, ArrowChanges):
        columns = [physical_values(changes.batch.column(i), table.columns[i].type) for i in slots]
        weights = [1] * len(changes) if changes.weights is None else changes.weights.tolist()
        return zip(zip(*columns, strict=True), weights, strict=True)
    return ((tuple([change.row[i] for i in slots]), change.weight) for change in changes)


def _part(changes: Sequence[Change], *, going: bool) -> Sequence[Change]:
    """The rows that go, or those that come."""
    if isinstance(changes, ArrowChanges):
        weights = np.ones(len(changes), np.int64) if changes.weights is None else changes.weights
        return changes.where(weights < 0 if going else weights > 0)
    return [change for change in changes if (change.weight < 0) == going]
