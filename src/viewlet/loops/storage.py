"""The records of a program: those of its maps, of the changes in a batch, and temporaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from operator import itemgetter

from viewlet.calculus.keys import decided
from viewlet.calculus.nodes import Argument, Delta, MapRef, is_parameter
from viewlet.core.scalar import Const, Scalar, Var, nullable
from viewlet.core.types import BIGINT, INTEGER_BITS, Kind, Type
from viewlet.errors import CompileError
from viewlet.loops.nodes import Field, KeyColumn, Record
from viewlet.sql.catalog import Table
from viewlet.triggers.program import Program
from viewlet.triggers.records import Layout, lay_out


@dataclass(frozen=True, slots=True)
class AtomPlace:
    """An atom as an access to a record: the field that holds its multiplicity, an argument per key column."""

    record: Record
    field: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A record of changes: which columns of a table it keeps, and which rows count for it."""

    record: str
    columns: tuple[int, ...]
    constants: tuple[tuple[int, Const], ...]


@dataclass(slots=True)
class Storage:
    """Finds the record behind an atom; makes records for changes and temporaries as they are needed."""

    program: Program
    layout: Layout
    records: dict[str, Record]
    changes: dict[str, list[Change]] = field(default_factory=dict)
    keys: dict[tuple[str, int], KeyColumn] = field(default_factory=dict)
    ordered: bool = True
    scanned: set[str] = field(default_factory=set)
    _temporaries: dict[object, str] = field(default_factory=dict)
    _single: dict[tuple[str, tuple[int, ...]], bool] = field(default_factory=dict)

    def place(self, atom: MapRef | Delta) -> AtomPlace:
        """Where an atom finds its entries."""
        if isinstance(atom, MapRef):
            at = self.layout.places[atom.name]
            return AtomPlace(self.records[at.record], at.field, tuple(atom.keys[i] for i in at.order))
        table = self.program.tables[atom.table]
        places = {name: i for i, name in enumerate(table.column_names)}
        binds = sorted(((places[column], argument) for column, argument in atom.binds), key=itemgetter(0))
        constants = tuple((i, arg) for i, arg in binds if isinstance(arg, Const))
        columns = tuple(i for i, arg in binds if isinstance(arg, Var))
        change = self._change(table, columns, constants)
        arguments = tuple(arg for _, arg in binds if isinstance(arg, Var))
        return AtomPlace(self.records[change.record], "a" if atom.absolute else "n", arguments)

    def decide(self, record: Record, positions: tuple[int, ...]) -> bool:
        """Do primary keys make some key positions of a map's record decide the others?"""
        if record.role != "map":
            return False
        for field_ in record.fields:
            assert field_.map is not None, "the fields of a map's record are maps"
            definition, order = self.program.maps[field_.map], self.layout.places[field_.map].order
            keys = {key.name for key in definition.keys}
            known = {definition.keys[order[i]].name for i in positions}
            if any(
                not keys <= decided(term.factors, known, self.program.tables)
                for term in definition.definition
            ):
                return False
        return True

    def is_constant(self, record: Record) -> bool:
        """Are all maps of a record over static tables alone?"""
        return record.role == "map" and all(
            field_.map is not None and self.program.is_constant(field_.map) for field_ in record.fields
        )

    def is_single(self, atom: MapRef, known: set[str]) -> bool:
        """Do primary keys leave one entry at most that agrees with the known arguments of an atom?"""
        place = self.place(atom)
        positions = tuple(
            i
            for i, argument in enumerate(place.arguments)
            if isinstance(argument, Const) or is_parameter(argument) or argument.name in known
        )
        what = (place.record.name, positions)
        if what not in self._single:
            self._single[what] = self.decide(place.record, positions)
        return self._single[what]

    def is_brief(self, atom: MapRef) -> bool:
        """Has an atom what a batch brought?"""
        return self.program.maps[atom.name].brief

    def _change(
        self, table: Table, columns: tuple[int, ...], constants: tuple[tuple[int, Const], ...]
    ) -> Change:
        """Rows of a batch that agree on some columns, added up: ``n`` by weight, ``a`` by absolute weight."""
        known = self.changes.setdefault(table.name, [])
        for change in known:
            if (change.columns, change.constants) == (columns, constants):
                return change
        change = Change(self._unused(f"d{table.name}_", len(known)), columns, constants)
        known.append(change)
        keys = tuple(
            KeyColumn(column.name, column.type, column.nullable)
            for column in (table.columns[i] for i in columns)
        )
        fields = (Field("n", BIGINT), Field("a", BIGINT))
        self.records[change.record] = Record(change.record, "change", keys, fields, None)
        return change

    def temporary(self, body: object, keys: tuple[Scalar, ...], fields: tuple[tuple[str, Type], ...]) -> str:
        """A temporary for what ``body`` adds up; equal bodies share one, whatever their keys are called."""
        what = (body, tuple((key.type, nullable(key)) for key in keys), fields)
        name = self._temporaries.get(what)
        if name is None:
            name = self._temporaries[what] = self._unused("t", len(self._temporaries))
            columns = tuple(
                self.keys.get((name, i)) or KeyColumn(_name(key, i), key.type, nullable(key))
                for i, key in enumerate(keys)
            )
            own = tuple(Field(field_name, kind) for field_name, kind in fields)
            self.records[name] = Record(name, "temporary", columns, own, None)
        return name

    def _unused(self, stem: str, after: int) -> str:
        """The first of ``stem1``, ``stem2``, .. past ``after`` that no record has: users name maps too."""
        return next(name for n in count(after + 1) if (name := f"{stem}{n}") not in self.records)


def open_storage(
    program: Program, keys: Mapping[tuple[str, int], KeyColumn], *, ordered: bool = True
) -> Storage:
    """The records of a program's maps; ``keys`` gives key columns that turned out to be wider."""
    layout = lay_out(program.maps.values())
    records: dict[str, Record] = {}
    for record in layout.records.values():
        columns = [KeyColumn(*column) for column in record.keys]
        for own in record.fields:
            definition, order = program.maps[own.map], layout.places[own.map].order
            for i, at in enumerate(order):
                columns[i] = widened(columns[i], definition.keys[at])
        columns = [keys.get((record.name, i), column) for i, column in enumerate(columns)]
        fields = tuple(Field(f.name, f.type, f.map) for f in record.fields)
        records[record.name] = Record(record.name, "map", tuple(columns), fields, record.counted)
    return Storage(program, layout, records, keys=dict(keys), ordered=ordered)


def widened(column: KeyColumn, scalar: Scalar) -> KeyColumn:
    """The key column that also holds the values of a scalar."""
    kind = wider(column.type, scalar.type, column.name)
    return replace(column, type=kind, nullable=column.nullable or nullable(scalar))


def wider(a: Type, b: Type, name: str) -> Type:
    """The type that holds the physical values of both.

    >>> from viewlet.core.types import INT, decimal
    >>> str(wider(INT, BIGINT, "x")), str(wider(decimal(9, 2), decimal(15, 2), "x"))
    ('BIGINT', 'DECIMAL(15,2)')
    """
    if a == b or b.kind is Kind.NULL:
        return a
    if a.kind is Kind.NULL:
        return b
    if a.is_integer and b.is_integer:
        return max(a, b, key=lambda kind: INTEGER_BITS[kind.kind])
    if a.is_exact and b.is_exact and a.scale == b.scale:
        return Type(Kind.DECIMAL, max(_digits(a), _digits(b)), a.scale)
    if a.is_floating and b.is_floating:
        return Type(Kind.DOUBLE)
    raise CompileError(f"key {name!r} is {a} here and {b} there: cast one of them")


def _digits(kind: Type) -> int:
    return kind.precision if kind.kind is Kind.DECIMAL else 19


def _name(key: Scalar, position: int) -> str:
    return key.name if isinstance(key, Var) else f"k{position + 1}"
