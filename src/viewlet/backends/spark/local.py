"""What one site does, as an ordinary trigger program that native code can be made of.

A site holds maps, and relations that live for one batch. Here both are maps of a :class:`Program`, and
whatever happens at the site is an event on a table of its own:

==================  ====================================================================================
event               what it does
==================  ====================================================================================
a piece arrives     a table with the columns of the relation; each row is added to it
a batch begins      its relations become empty; so do copies of maps before a view is read from them
statements run      one table per group of statements that do not depend on each other. Statements that
                    are linear in the change run row by row; those that read nothing of the change run once
==================  ====================================================================================

``t := q`` becomes ``t += q``, since relations are empty when a batch begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewlet.backends.spark.exchange import Shape, shape_of
from viewlet.backends.spark.fuse import reads
from viewlet.backends.spark.levels import Feed, Level, levels
from viewlet.backends.spark.nodes import (
    Compute,
    Dist,
    DistProgram,
    DistTrigger,
    Local,
    Mode,
    Replicated,
    Segment,
    Transfer,
    segments,
    view_maps,
)
from viewlet.calculus.events import WEIGHT
from viewlet.calculus.nodes import (
    Argument,
    Cond,
    Delta,
    Factor,
    Let,
    MapRef,
    Query,
    Term,
    Value,
)
from viewlet.core.node import transform, walk
from viewlet.core.scalar import Call, Const, Var, call
from viewlet.core.types import BIGINT, DOUBLE, Schema, Type, wide
from viewlet.sql.catalog import Table, TableKind
from viewlet.triggers.program import MapDefinition, Program, Statement, Trigger


@dataclass(frozen=True, slots=True)
class Event:
    """An event on a table of the local program, fed with the rows of the batch or with nothing."""

    table: str
    feed: Feed


@dataclass(frozen=True, slots=True)
class LocalProgram:
    """The program of a site.

    ``shapes`` has every map and relation; ``scopes`` the relations of each trigger by the name that they have
    in it; ``events`` what runs for a segment of a block of a trigger.
    """

    program: Program
    shapes: Mapping[str, Shape]
    scopes: Mapping[str, Mapping[str, str]]
    events: Mapping[tuple[str, int, int], tuple[Event, ...]]


def arrivals(name: str) -> str:
    """The table by which entries get into a map or relation."""
    return f"{name}@"


def emptying(what: str) -> str:
    """The table whose event empties the relations of a table's trigger, or the copies behind a view."""
    return f"{what}!"


def local_program(distributed: DistProgram, mode: Mode) -> LocalProgram:
    """The program of the driver or of a partition, with the views that are read there.

    The driver reads them from copies of maps, partitions from what they hold.
    """
    here = (Local, Replicated) if mode == "local" else (Dist, Replicated)
    held = {name for name, where in distributed.placement.items() if isinstance(where, here)}
    views = {
        name: view
        for name, view in distributed.views.items()
        if (name in distributed.spread) == (mode == "distributed")
    }
    copies = {name: sorted(view_maps(view) - held) for name, view in views.items()}
    held.update(*copies.values())
    building = _Building(distributed, mode)
    for name in distributed.maps:
        if name in held:
            building.hold(name, distributed.maps[name])
    for trigger in distributed.batch.values():
        building.trigger(trigger, by_row=False)
    for trigger in distributed.tuple.values():
        building.trigger(trigger, by_row=True)
    for name, copied in copies.items():
        if copied:
            building.empty(name, copied)
    tables = {**distributed.tables, **building.tables}  # definitions of maps speak of the former
    program = Program(tables, building.maps, building.triggers, building.batch_triggers, views)
    return LocalProgram(program, building.shapes, building.scopes, building.events)


class _Building:
    """A local program as it grows."""

    def __init__(self, distributed: DistProgram, mode: Mode) -> None:
        self.distributed, self.mode = distributed, mode
        self.tables: dict[str, Table] = {}
        self.maps: dict[str, MapDefinition] = {}
        self.triggers: dict[str, Trigger] = {}
        self.batch_triggers: dict[str, Trigger] = {}
        self.shapes: dict[str, Shape] = {}
        self.scopes: dict[str, dict[str, str]] = {}
        self.events: dict[tuple[str, int, int], tuple[Event, ...]] = {}

    def hold(self, name: str, definition: MapDefinition) -> None:
        """A map or relation, and the table by which entries arrive."""
        self.maps[name] = definition
        shape = self.shapes[name] = shape_of(definition.keys, definition.type)
        table = Table(arrivals(name), shape.columns, TableKind.STREAM)
        values = [Var(f"@{column.name}", column.type, nullable=False) for column in shape.columns]
        width = len(shape.keys)
        keys = tuple(Var(f"@{column.name}", column.type, column.nullable) for column in shape.keys)
        sums = tuple(Term((Value(value), Value(WEIGHT))) for value in values[width:])
        self.tables[table.name] = table
        self.triggers[table.name] = Trigger(table.name, (Statement(name, keys, "+=", sums),), ())

    def empty(self, what: str, names: Iterable[str]) -> None:
        """An event after which some maps or relations are empty."""
        table = Table(emptying(what), (), TableKind.STREAM)
        self.tables[table.name] = table
        statements = tuple(Statement(name, self.maps[name].keys, ":=", ()) for name in sorted(names))
        self.triggers[table.name] = Trigger(table.name, (), statements)

    def trigger(self, trigger: DistTrigger, by_row: bool) -> None:
        """The relations of a trigger that are here, and the events of its blocks."""
        scope = self.scopes[trigger.table] = {
            name: f"{trigger.table}.{name}"
            for name in trigger.relations()
            if name not in self.distributed.maps
        }
        types: dict[str, tuple[tuple[Argument, ...], Type]] = {
            name: (definition.keys, definition.type) for name, definition in self.distributed.maps.items()
        }
        for name, statement in trigger.relations().items():
            if name not in scope:
                continue
            if isinstance(statement, Transfer):
                types[name] = types[statement.source]
            else:
                renamed = _renamed(statement.query, scope, types)
                types[name] = statement.keys, _sum_type(renamed)
        own = self._segments(trigger)
        used = {name for s in own.values() for c in s for name in (c.target, *reads(c))}
        for name in scope:
            if name in used or self._is_sent(trigger, name):
                keys, kind = types[name]
                self._relation(scope[name], keys, kind)
        self.empty(trigger.table, [name for name in scope.values() if name in self.maps])
        for (index, number), segment in own.items():
            self.events[trigger.table, index, number] = tuple(
                self._level(f"{trigger.table}.{index}.{number}", at, trigger.table, level, scope, types)
                for at, level in enumerate(levels(segment, by_row, self.distributed.maps))
            )

    def _columns(self, table: str) -> Schema:
        """The columns that rows of a batch have at this site."""
        columns, dealt = self.distributed.tables[table].columns, self.distributed.trigger(table).dealt
        if dealt is None or self.mode == "local":
            return columns
        return tuple(column for column in columns if column.name in dealt.columns)

    def _segments(self, trigger: DistTrigger) -> dict[tuple[int, int], Segment]:
        """The computations of a trigger at this site, by block and place in it."""
        found = {
            (index, number): segment
            for index, block in enumerate(trigger.blocks)
            if block.mode == self.mode
            for number, segment in enumerate(segments(block, self.distributed.maps))
            if not isinstance(segment, Transfer)
        }
        uses = Counter(name for segment in found.values() for c in segment for name in mentions(c.query))
        sent = [s.source for b in trigger.blocks for s in b.statements if isinstance(s, Transfer)]
        once = {name for name, count in uses.items() if count == 1} - {*sent, *self.distributed.maps}
        return {at: inlined(segment, once) for at, segment in found.items()}

    def _is_sent(self, trigger: DistTrigger, name: str) -> bool:
        """Is a relation made at this site and sent away?"""
        made = trigger.relations()[name]
        return (
            isinstance(made, Compute)
            and made.mode == self.mode
            and any(
                isinstance(s, Transfer) and s.source == name
                for block in trigger.blocks
                for s in block.statements
            )
        )

    def _relation(self, name: str, keys: Sequence[Argument], kind: Type) -> None:
        """A relation of a batch, whose sums may cancel: it counts nothing, and shares its entries with none.

        So its definition only has to differ from all others, and to be no plain count.
        """
        own = tuple(
            Var(f"k{i}", key.type, key.nullable if isinstance(key, Var) else True)
            for i, key in enumerate(keys)
        )
        definition = (Term((MapRef(name, own, kind), Value(Const(1, kind)))),)
        self.hold(name, MapDefinition(name, own, definition, kind, brief=True))

    def _level(
        self,
        stem: str,
        number: int,
        table: str,
        level: Level,
        scope: Mapping[str, str],
        types: Mapping[str, tuple[tuple[Argument, ...], Type]],
    ) -> Event:
        """Statements that run together, as the trigger of a table of their own."""
        name = f"{stem}.{number}"
        columns = () if level.feed == "once" else self._columns(table)
        self.tables[name] = Table(name, columns, TableKind.STREAM)
        statements = [
            Statement(
                scope.get(s.target, s.target),
                s.keys,
                "+=" if s.target in scope else s.op,
                _fed(_renamed(s.query, scope, types), level.feed, name),
            )
            for s in level.statements
        ]
        trigger = Trigger(
            name,
            tuple(s for s in statements if s.op == "+="),
            tuple(s for s in statements if s.op == ":="),
        )
        (self.batch_triggers if level.feed == "batch" else self.triggers)[name] = trigger
        return Event(name, level.feed)


def _renamed(
    query: Query, scope: Mapping[str, str], types: Mapping[str, tuple[tuple[Argument, ...], Type]]
) -> Query:
    """Relations under the names of the local program, with the types of their sums."""

    def name(node: Any) -> Any:
        if isinstance(node, MapRef):
            return MapRef(scope.get(node.name, node.name), node.keys, types[node.name][1])
        return node

    return tuple(transform(term, name) for term in query)


def _sum_type(query: Query) -> Type:
    """The type of a relation's sums: BIGINT for counts, 128 bits for other exact numbers, or DOUBLE."""
    factors = [factor for term in query for factor in term.factors]
    kinds = [f.type for f in factors if isinstance(f, MapRef)]
    kinds += [
        BIGINT
        if f.scalar == WEIGHT or (isinstance(f.scalar, Call) and f.scalar.op == "nn")
        else f.scalar.type
        for f in factors
        if isinstance(f, Value)
    ]
    if any(kind.is_floating for kind in kinds):
        return DOUBLE
    counts = all(not isinstance(f, Value) or f.scalar == WEIGHT or _is_count(f) for f in factors)
    return BIGINT if counts and all(kind == BIGINT for kind in kinds) else wide(0)


def _is_count(factor: Value) -> bool:
    return isinstance(factor.scalar, Call) and factor.scalar.op == "nn"


def mentions(query: Query) -> list[str]:
    """The maps and relations that a query reads, as often as it does."""
    return [node.name for term in query for node in walk(term) if isinstance(node, MapRef)]


def inlined(segment: Segment, once: Collection[str]) -> Segment:
    """``t[k] := q; M[k] += c * t[k]``  ->  ``M[k] += c * q``, for relations that are read once.

    Only if no statement between the two changes what ``q`` reads: ``t`` holds sums of the state before it.
    Between ``t[k] := M[k]`` and ``M[k] += -1 * t[k]`` there may be ``M[@p] += 1``, for the row itself.
    """
    kept: list[Compute] = []
    unread: dict[str, Compute] = {}
    for statement in segment:
        read = {only.name for term in statement.query for only in _alone(term)} & unread.keys()
        query = tuple(opened for term in statement.query for opened in _opened(term, unread))
        kept = [*(s for s in kept if s.target not in read), replace(statement, query=query)]
        unread = {
            t: made for t, made in unread.items() if t not in read and statement.target not in reads(made)
        }
        if statement.target in once and statement.op == ":=":
            unread[statement.target] = kept[-1]
    return tuple(kept)


def _alone(term: Term) -> tuple[MapRef, ...]:
    """The only factor of a term, if that is a map or relation."""
    match term.factors:
        case (MapRef() as only,):
            return (only,)
        case _:
            return ()


def _opened(term: Term, made: Mapping[str, Compute]) -> Query:
    for only in _alone(term):
        if only.name in made:
            inner = made[only.name]
            lets = tuple(
                Let(name, key)
                for name, key in zip(only.keys, inner.keys, strict=True)
                if name != key and isinstance(name, Var)
            )
            return tuple(
                Term((*own.factors, *lets), own.coefficient * term.coefficient) for own in inner.query
            )
    return (term,)


def _fed(query: Query, feed: Feed, table: str) -> Query:
    """A query over the rows of an event: ``dR(a: x, b: 1) -> x := @a * {@b == 1} * <@W>`` row by row."""

    def row(factor: Factor) -> tuple[Factor, ...]:
        if not isinstance(factor, Delta):
            return (factor,)
        return (*(_matched(column, argument) for column, argument in factor.binds), Value(WEIGHT))

    match feed:
        case "rows":
            return tuple(
                replace(term, factors=tuple(f for g in term.factors for f in row(g))) for term in query
            )
        case "batch":
            return tuple(
                transform(term, lambda n: replace(n, table=table) if isinstance(n, Delta) else n)
                for term in query
            )
        case "once":
            return query


def _matched(column: str, argument: Argument) -> Factor:
    parameter = Var(f"@{column}", argument.type, argument.nullable if isinstance(argument, Var) else True)
    if isinstance(argument, Const):
        return Cond(call("==", parameter, argument))
    return Let(argument, parameter)
