"""What exists: tables, streams, static tables and views, with their columns and keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from graphlib import TopologicalSorter

from viewlet.core.types import Schema
from viewlet.errors import CatalogError, choices


class TableKind(Enum):
    """How a relation changes, and what is kept of it."""

    TABLE = "TABLE"
    STREAM = "STREAM"
    STATIC = "STATIC TABLE"
    VIEW = "MATERIALIZED VIEW"


@dataclass(frozen=True, slots=True)
class Table:
    """A relation by name. ``key`` lists the columns of the primary key, ``references`` the foreign keys."""

    name: str
    columns: Schema
    kind: TableKind = TableKind.TABLE
    key: tuple[str, ...] = ()
    references: tuple[ForeignKey, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Every non-NULL value of ``columns`` occurs among ``target``'s ``target_columns``.

    That is a hint, and may be wrong for a while or for ever, unless it is ``enforced``.
    """

    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]
    enforced: bool = False


class Catalog(Mapping[str, Table]):
    """Tables by lower-case name; an unknown name is refused together with the names there are."""

    def __init__(self, tables: Iterable[Table] = ()) -> None:
        self._tables = {table.name: table for table in tables}

    def __getitem__(self, name: str) -> Table:
        try:
            return self._tables[name.lower()]
        except (KeyError, AttributeError):  # the second: it is no text
            known = choices(name, sorted(self._tables), "existing:")
            raise CatalogError(f"there is no table or view {name!r}; {known}") from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def children(self, parent: str) -> tuple[tuple[str, ForeignKey], ...]:
        """The enforced foreign keys that refer to a table, each with the table that has it."""
        return tuple(
            (table.name, key)
            for table in self._tables.values()
            for key in table.references
            if key.enforced and key.target == parent
        )

    def parents_first(self, names: Iterable[str]) -> list[str]:
        """Some tables in an order in which each comes after those that it refers to by enforced keys.

        >>> key = ForeignKey(("p",), "p", ("k",), enforced=True)
        >>> Catalog([Table("c", (), references=(key,)), Table("p", ())]).parents_first(["c", "p"])
        ['p', 'c']
        """
        wanted = list(names)
        graph: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(wanted, ()))
        for table in self._tables.values():
            graph.add(table.name, *(key.target for key in table.references if key.enforced))
        return [name for name in graph.static_order() if name in wanted]

    def with_table(self, table: Table) -> Catalog:
        """A catalog that also holds ``table``, replacing one of the same name."""
        return Catalog([*(t for t in self._tables.values() if t.name != table.name), table])

    def without(self, name: str) -> Catalog:
        """A catalog without the table of that name."""
        return Catalog(t for t in self._tables.values() if t.name != self[name].name)
