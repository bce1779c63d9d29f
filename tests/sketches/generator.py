"""Random queries with a meaning of their own: every node has its SQL text, and its rows by brute force.

Nothing here knows about plans, fragments or Viewlet. A row under way carries its lineage, the base rows that
it was computed from; all rows of a group, and all copies of a row that DISTINCT makes one, count. Columns of
a query have names of their own, so that any two queries can be joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TypeAlias

from sketches.model import (
    COLUMNS,
    OPERATORS,
    Data,
    Item,
    Lineage,
    Row,
    aggregate_of,
    call,
    compare,
    grouped,
    last,
    union,
)

AGGREGATES = ("sum", "count", "countd", "avg", "min", "max")


@dataclass(frozen=True)
class Condition:
    """``column op constant`` or ``column op column``; several of them, all or any."""

    parts: tuple[tuple[str, str, int | str], ...]
    connective: str = "AND"

    def sql(self) -> str:
        return f" {self.connective} ".join(f"{left} {op} {right}" for left, op, right in self.parts)

    def holds(self, item: Item) -> bool:
        found = [
            compare(item.values[left], op, item.values[right] if isinstance(right, str) else right)
            for left, op, right in self.parts
            if not isinstance(right, str) or item.values[right] is not None
        ]
        return all(found) and len(found) == len(self.parts) if self.connective == "AND" else any(found)


@dataclass(frozen=True)
class Access:
    """A table under new column names."""

    table: str
    columns: tuple[str, ...]

    def sql(self) -> str:
        named = zip(COLUMNS[self.table], self.columns, strict=True)
        return f"SELECT {', '.join(f'{old} AS {new}' for old, new in named)} FROM {self.table}"

    def items(self, data: Data) -> list[Item]:
        return [
            Item(dict(zip(self.columns, row, strict=True)), frozenset({(self.table, number)}))
            for number, row in enumerate(data[self.table])
        ]


@dataclass(frozen=True)
class Selected:
    """σ"""

    input: Node
    condition: Condition

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    def sql(self) -> str:
        listed = ", ".join(self.columns)
        return f"SELECT {listed} FROM ({self.input.sql()}) AS q WHERE {self.condition.sql()}"

    def items(self, data: Data) -> list[Item]:
        return [item for item in self.input.items(data) if self.condition.holds(item)]


@dataclass(frozen=True)
class Projected:
    """π: each column is one of the input, or one plus another column or a constant."""

    input: Node
    sources: tuple[tuple[str, str, str | int | None], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.sources)

    def sql(self) -> str:
        listed = ", ".join(
            f"{source if other is None else f'{source} + {other}'} AS {name}"
            for name, source, other in self.sources
        )
        return f"SELECT {listed} FROM ({self.input.sql()}) AS q"

    def items(self, data: Data) -> list[Item]:
        return [
            Item({name: self._value(item, *of) for name, *of in self.sources}, item.lineage)
            for item in self.input.items(data)
        ]

    @staticmethod
    def _value(item: Item, source: str, other: str | int | None) -> int | None:
        value = item.values[source]
        addend = item.values[other] if isinstance(other, str) else other or 0
        return None if value is None or addend is None else value + addend


@dataclass(frozen=True)
class Joined:
    """⋈ on one equality, or on none."""

    left: Node
    right: Node
    on: tuple[str, str] | None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.left.columns + self.right.columns

    def sql(self) -> str:
        sides = f"({self.left.sql()}) AS q, ({self.right.sql()}) AS p"
        where = f" WHERE {self.on[0]} = {self.on[1]}" if self.on else ""
        return f"SELECT {', '.join(self.columns)} FROM {sides}{where}"

    def items(self, data: Data) -> list[Item]:
        rights = self.right.items(data)
        return [
            Item({**a.values, **b.values}, a.lineage | b.lineage)
            for a in self.left.items(data)
            for b in rights
            if self.on is None or compare(a.values[self.on[0]], "=", b.values[self.on[1]])
        ]


@dataclass(frozen=True)
class United:
    """∪ of as many columns, under the names of the left side."""

    left: Node
    right: Node
    distinct: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return self.left.columns

    def sql(self) -> str:
        return f"({self.left.sql()}) UNION {'' if self.distinct else 'ALL '}({self.right.sql()})"

    def items(self, data: Data) -> list[Item]:
        items = self.left.items(data)
        for item in self.right.items(data):
            values = [item.values[name] for name in self.right.columns]
            items.append(Item(dict(zip(self.columns, values, strict=True)), item.lineage))
        return _unique(items, self.columns) if self.distinct else items


@dataclass(frozen=True)
class Unique:
    """δ"""

    input: Node

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    def sql(self) -> str:
        return f"SELECT DISTINCT {', '.join(self.columns)} FROM ({self.input.sql()}) AS q"

    def items(self, data: Data) -> list[Item]:
        return _unique(self.input.items(data), self.columns)


def _unique(items: Sequence[Item], columns: Sequence[str]) -> list[Item]:
    return [
        Item(dict(zip(columns, key, strict=True)), union(members)) for key, members in grouped(items, columns)
    ]


@dataclass(frozen=True)
class Grouped:
    """γ with aggregates ``(name, aggregate, column)`` and a condition on them."""

    input: Node
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str, str], ...]
    having: Condition | None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.keys + tuple(name for name, _, _ in self.aggregates)

    def sql(self) -> str:
        calls = {name: call(aggregate, column) for name, aggregate, column in self.aggregates}
        listed = [*self.keys, *(f"{text} AS {name}" for name, text in calls.items())]
        text = f"SELECT {', '.join(listed)} FROM ({self.input.sql()}) AS q GROUP BY {', '.join(self.keys)}"
        if self.having is None:
            return text
        # Not every database knows the names of the SELECT list in HAVING.
        parts = tuple(
            (calls[left], op, calls.get(str(right), right)) for left, op, right in self.having.parts
        )
        return f"{text} HAVING {Condition(parts, self.having.connective).sql()}"

    def items(self, data: Data) -> list[Item]:
        found = []
        for key, members in grouped(self.input.items(data), self.keys):
            values = dict(zip(self.keys, key, strict=True))
            for name, aggregate, column in self.aggregates:
                values[name] = aggregate_of(aggregate, column, members)
            item = Item(values, union(members))
            if self.having is None or self.having.holds(item):
                found.append(item)
        return found


@dataclass(frozen=True)
class First:
    """The first rows in a total order: by one column, then by all others."""

    input: Node
    by: str
    descending: bool
    limit: int

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    def _others(self) -> list[str]:
        return [column for column in self.columns if column != self.by]

    def sql(self) -> str:
        others = "".join(f", {column} NULLS LAST" for column in self._others())
        order = f"{self.by} {'DESC' if self.descending else 'ASC'} NULLS LAST{others}"
        listed = ", ".join(self.columns)
        return f"SELECT {listed} FROM ({self.input.sql()}) AS q ORDER BY {order} LIMIT {self.limit}"

    def items(self, data: Data) -> list[Item]:
        return self.ordered(data)[: self.limit]

    def ordered(self, data: Data) -> list[Item]:
        items = self.input.items(data)
        items.sort(key=lambda item: [last(item.values[column]) for column in self._others()])
        items.sort(key=lambda item: last(item.values[self.by], -1 if self.descending else 1))
        return items


Node: TypeAlias = "Access | Selected | Projected | Joined | United | Unique | Grouped | First"


def rows_of(query: Node, data: Data) -> Counter[Row]:
    """The result."""
    return Counter(tuple(item.values[name] for name in query.columns) for item in query.items(data))


def lineage_of(query: Node, data: Data) -> Lineage:
    """The base rows behind the result. Copies of the last row of a LIMIT are as good as the one taken."""
    items = query.items(data)
    if isinstance(query, First):
        items = [i for i in query.ordered(data) if any(i.values == kept.values for kept in items)]
    return union(items)


def features(query: Node) -> Iterator[str]:
    """The operators and aggregates of a query."""
    yield type(query).__name__
    match query:
        case Access():
            return
        case Joined() | United():
            yield from features(query.left)
            yield from features(query.right)
        case Grouped():
            yield from (aggregate for _, aggregate, _ in query.aggregates)
            if query.having is not None:
                yield "HAVING"
            if any(isinstance(node, Grouped) for node in _below(query.input)):
                yield "nested aggregation"
            yield from features(query.input)
        case Selected() | Projected() | Unique() | First():
            yield from features(query.input)


def _below(query: Node) -> Iterator[Node]:
    yield query
    match query:
        case Access():
            return
        case Joined() | United():
            yield from _below(query.left)
            yield from _below(query.right)
        case _:
            yield from _below(query.input)


class Generator:
    """Draws queries over the tables of ``databases.py``."""

    def __init__(self, random: Random) -> None:
        self._random, self._numbers = random, count()

    def query(self) -> Node:
        """Rows or groups or groups of groups, at times only the first of them."""
        random = self._random
        query = self.rows(random.choice((0, 1, 1, 2)))
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            query = self._grouped(query)
        if random.random() < 0.25:
            query = First(query, random.choice(query.columns), random.random() < 0.6, random.randint(1, 3))
        return query

    def rows(self, depth: int) -> Node:
        """A query without aggregation."""
        random = self._random
        if depth == 0:
            table = random.choice("rrs")
            access = Access(table, tuple(self._name() for _ in COLUMNS[table]))
            return Selected(access, self._condition(access.columns, 5)) if random.random() < 0.4 else access
        below = self.rows(depth - 1)
        match random.choice(("join", "join", "union", "distinct", "project", "select")):
            case "join":
                other = self.rows(0)
                on = (random.choice(below.columns), random.choice(other.columns))
                return Joined(below, other, on if random.random() < 0.95 else None)
            case "union":
                other = self.rows(random.choice((0, depth - 1)))
                width = min(len(below.columns), len(other.columns))
                sides = self._projected(below, width), self._projected(other, width)
                return United(*sides, distinct=random.random() < 0.3)
            case "distinct":
                return Unique(self._projected(below, random.randint(1, len(below.columns))))
            case "project":
                return self._projected(below, random.randint(1, len(below.columns)))
            case _:
                return Selected(below, self._condition(below.columns, 5))

    def _name(self) -> str:
        return f"c{next(self._numbers)}"

    def _projected(self, query: Node, width: int) -> Node:
        random = self._random
        sources: list[tuple[str, str, str | int | None]] = []
        for source in random.sample(query.columns, width):
            other = random.choice((None, None, None, 1, random.choice(query.columns)))
            sources.append((self._name(), source, other))
        return Projected(query, tuple(sources))

    def _condition(self, columns: Sequence[str], width: int) -> Condition:
        random = self._random
        parts = []
        for _ in range(random.choice((1, 1, 2))):
            right = random.choice(columns) if random.random() < 0.15 else random.randint(0, width)
            parts.append((random.choice(columns), random.choice([*OPERATORS, ">", ">="]), right))
        return Condition(tuple(parts), random.choice(("AND", "AND", "OR")))

    def _grouped(self, query: Node) -> Node:
        random = self._random
        keys = tuple(random.sample(query.columns, random.randint(1, min(2, len(query.columns)))))
        aggregates = tuple(
            (self._name(), aggregate, "*" if aggregate == "count" and random.random() < 0.5 else column)
            for aggregate, column in (
                (random.choice(AGGREGATES), random.choice(query.columns))
                for _ in range(random.choice((1, 1, 2)))
            )
        )
        having = None
        if random.random() < 0.75:
            having = self._condition([name for name, _, _ in aggregates], 12)
        return Grouped(query, keys, aggregates, having)
