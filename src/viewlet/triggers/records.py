"""Records: maps over the same body share one entry per key, with a field each.

Two maps go together if their definitions differ only in values and coefficients, so that they have entries
for the same keys: COUNT(*), SUM(x) and SUM(y) of one group are three fields of one record, found at once.
A map whose terms are some of another's joins it too (the sums of a left join have no padded rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from viewlet.calculus.canonical import canonical_form, numbered_text, strip_values
from viewlet.calculus.nodes import Query
from viewlet.calculus.simplify import drop_unused
from viewlet.core.types import Type
from viewlet.triggers.program import MapDefinition


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a record; it is the value of the map ``map`` at the record's key."""

    name: str
    type: Type
    map: str


@dataclass(frozen=True, slots=True)
class Record:
    """Maps stored together. ``keys`` are the types of the key columns; ``counted`` names the field that is
    zero exactly when the entry is gone, if there is one."""

    name: str
    keys: tuple[tuple[str, Type, bool], ...]
    fields: tuple[Field, ...]
    counted: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a map's value is: a field of a record. ``order[i]`` is the map's key at the record's key i."""

    record: str
    field: str
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The records of a program, and the place of each map."""

    records: Mapping[str, Record]
    places: Mapping[str, Place]


def lay_out(maps: Iterable[MapDefinition]) -> Layout:
    """Group maps into records: by equal bodies, then bodies that are part of another's."""
    shapes = [_shape(definition) for definition in maps]
    groups: list[list[_Shape]] = []
    for shape in sorted(shapes, key=lambda s: -len(s.terms)):
        home = next((g for g in groups if g[0].width == shape.width and shape.terms <= g[0].terms), None)
        if home is None:
            groups.append([shape])
        else:
            home.append(shape)
    records: dict[str, Record] = {}
    places: dict[str, Place] = {}
    position = {shape.map.name: i for i, shape in enumerate(shapes)}
    for group in sorted(groups, key=lambda g: min(position[s.map.name] for s in g)):
        group.sort(key=lambda s: position[s.map.name])
        record = _record(group)
        records[record.name] = record
        for shape, field in zip(group, record.fields, strict=True):
            places[shape.map.name] = Place(record.name, field.name, shape.order)
    return Layout(records, places)


@dataclass(frozen=True, slots=True)
class _Shape:
    map: MapDefinition
    width: int
    terms: frozenset[str]
    order: tuple[int, ...]
    is_count: bool


def _shape(definition: MapDefinition) -> _Shape:
    """A map's body, term by term, in the key order of the whole body's canonical form."""
    needed = frozenset(key.name for key in definition.keys)
    body = tuple(drop_unused(term, needed) for term in strip_values(definition.definition))
    form = canonical_form(body, definition.keys)
    names = [key.name for key in definition.keys]
    order = tuple(names.index(key.name) for key in form.keys)
    alone = len(body) == 1
    terms = frozenset([form.text] if alone else (numbered_text((term,), form.keys) for term in body))
    return _Shape(definition, len(names), terms, order, _is_count(definition.definition, body))


def _is_count(query: Query, body: Query) -> bool:
    """Is the map a plain count of its body, so that zero means absent?"""
    plain = {term.factors: term.coefficient for term in query}
    return all(plain.get(term.factors) == 1 for term in body) and len(query) == len(body)


def _record(group: list[_Shape]) -> Record:
    first = group[0].map
    names = _field_names(group)
    fields = tuple(
        Field(name, shape.map.type, shape.map.name) for name, shape in zip(names, group, strict=True)
    )
    widest = max(len(shape.terms) for shape in group)
    counted = next(
        (f.name for f, s in zip(fields, group, strict=True) if s.is_count and len(s.terms) == widest), None
    )
    keys = tuple(first.keys[i] for i in group[0].order)
    return Record(first.name, tuple((key.name, key.type, key.nullable) for key in keys), fields, counted)


def _field_names(group: list[_Shape]) -> list[str]:
    names: list[str] = []
    for shape in group:
        stem = "n" if shape.is_count else "s"
        taken = sum(name.startswith(stem) for name in names)
        names.append(stem if not taken else f"{stem}{taken + 1}")
    return names
