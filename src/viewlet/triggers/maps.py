"""The maps of a program: one per definition, however it is spelled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from viewlet.calculus.canonical import canonical_form
from viewlet.calculus.nodes import Argument, Delta, MapRef, Query, Rel, Value, nested_factors, tables
from viewlet.calculus.simplify import drop_unused
from viewlet.core.names import Names
from viewlet.core.scalar import Call, Var
from viewlet.core.types import BIGINT, DOUBLE, Type, wide
from viewlet.sql.catalog import Catalog
from viewlet.triggers.program import MapDefinition
from viewlet.triggers.settle import Held, Settled


@dataclass(slots=True)
class MapRegistry:
    """Finds the map with a given definition, or founds one; new maps wait in ``pending``."""

    catalog: Catalog
    epochs: dict[str, int] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    maps: dict[str, MapDefinition] = field(default_factory=dict)
    pending: list[MapDefinition] = field(default_factory=list)
    _by_text: dict[str, str] = field(default_factory=dict)

    def reference(
        self, keys: tuple[Var, ...], access: tuple[Argument, ...], query: Query, stem: str | None = None
    ) -> MapRef:
        """The map ``keys -> query``, read at ``access`` (in the order of ``keys``).

        Queries that differ by names, order of factors or order of keys share one map: the reference reorders
        its arguments to suit. A map is named after its tables unless a ``stem`` is given.
        """
        wanted = frozenset(key.name for key in keys)
        query = tuple(drop_unused(term, wanted) for term in query)
        form = canonical_form(query, keys)
        place = {key.name: argument for key, argument in zip(keys, access, strict=True)}
        ordered = tuple(place[key.name] for key in form.keys)
        text = f"{len(keys)}: {form.text}{self._epoch(query)}"
        name = self._by_text.get(text)
        if name is None:
            name = self._by_text[text] = self.names.fresh(stem or "_".join(tables_in_order(query)))
            settled = Settled(query, self.columns)
            own_keys = tuple(settled.variable(key) for key in form.keys)
            definition = MapDefinition(name, own_keys, settled.query(query), value_type(query))
            self.maps[name] = definition
            self.pending.append(definition)
        return MapRef(name, ordered, self.maps[name].type)

    def _epoch(self, query: Query) -> str:
        """Maps over a stream are shared only by views that have seen the same part of it."""
        seen = sorted((table, self.epochs[table]) for table in tables(query) if table in self.epochs)
        return "".join(f" since {table} {epoch}" for table, epoch in seen)

    def columns(self, atom: Rel | Delta | MapRef) -> list[Held]:
        """What the table or map of an atom holds in the place of each of its arguments."""
        if isinstance(atom, MapRef):
            return [(key.type, key.nullable) for key in self.maps[atom.name].keys]
        columns = {column.name: (column.type, column.nullable) for column in self.catalog[atom.table].columns}
        return [columns[column] for column, _ in atom.binds]

    def take_pending(self) -> list[MapDefinition]:
        """The maps founded since the last call."""
        taken, self.pending = self.pending, []
        return taken

    def withdraw(self, names: Iterable[str]) -> None:
        """Drop maps that were just founded, and are not needed after all."""
        gone = set(names)
        self.pending = [definition for definition in self.pending if definition.name not in gone]
        self.forget(gone)

    def forget(self, names: Iterable[str]) -> None:
        """Drop maps that no view needs any more."""
        gone = set(names)
        self._by_text = {text: name for text, name in self._by_text.items() if name not in gone}
        for name in gone:
            del self.maps[name]


def value_type(query: Query) -> Type:
    """The type of a query's sums: BIGINT for plain counts, exact at the values' scale, or DOUBLE."""
    values = [f.scalar for term in query for f in term.factors if isinstance(f, Value)]
    if any(scalar.type.is_floating for scalar in values):
        return DOUBLE
    if all(isinstance(scalar, Call) and scalar.op == "nn" for scalar in values):
        return BIGINT
    scales = {sum(f.scalar.type.scale for f in term.factors if isinstance(f, Value)) for term in query}
    return wide(min(38, max(scales, default=0)))


def tables_in_order(query: Query) -> list[str]:
    """The tables of a query in order of first occurrence, those of nested queries last."""
    outer = [f.table for term in query for f in term.factors if isinstance(f, Rel)]
    inner = [table for factor in nested_factors(query) for table in tables_in_order(factor.query)]
    return list(dict.fromkeys(outer + inner))
