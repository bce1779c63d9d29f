"""Queries with a meaning of their own: SQL text on one side, result and lineage by brute force on the other.

Nothing here knows about plans, fragments or Viewlet: a row's lineage is the set of base rows it was computed
from, and all rows of a group count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq as equal
from operator import ge, gt, le, lt
from typing import Any

Row = tuple[Any, ...]
Data = dict[str, list[Row]]
Lineage = frozenset[tuple[str, int]]
COLUMNS = {"r": ("a", "b", "c", "d"), "s": ("x", "y")}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": equal}


@dataclass(frozen=True)
class Item:
    """A row under way: its values by column name, and the base rows behind it."""

    values: dict[str, Any]
    lineage: Lineage


@dataclass(frozen=True)
class Having:
    """``aggregate(column) op constant``."""

    aggregate: str
    column: str
    op: str
    constant: int

    def sql(self) -> str:
        return f"{call(self.aggregate, self.column)} {self.op} {self.constant}"

    def holds(self, items: Sequence[Item]) -> bool:
        value = aggregate_of(self.aggregate, self.column, items)
        return value is not None and OPERATORS[self.op](value, self.constant)


@dataclass(frozen=True)
class Top:
    """ORDER BY aggregate(column), then all groups; LIMIT."""

    aggregate: str
    column: str
    descending: bool
    limit: int
    offset: int = 0


@dataclass(frozen=True)
class Spec:
    """A query over r, possibly joined with s or with itself, grouped, filtered, limited, grouped again."""

    groups: tuple[str, ...] = ()
    where: tuple[str, str, int] | None = None
    join: str | None = None
    having: tuple[Having, ...] = ()
    connective: str = "AND"
    top: Top | None = None
    outer: tuple[tuple[str, ...], Having] | None = None
    distinct: bool = False
    union: tuple[str, str, int] | None = None

    # The text.

    def sql(self) -> str:
        text = self._block()
        if self.outer is not None:
            groups, having = self.outer
            listed = ", ".join(groups)
            text = f"SELECT {listed} FROM ({text}) AS t GROUP BY {listed} HAVING {having.sql()}"
        return text

    def _block(self) -> str:
        source = {
            None: "r",
            "s": "r JOIN s ON b = x",
            "self": "r JOIN (SELECT a AS a2, b AS x, c AS y FROM r) AS q ON b = x",
            "left": "r LEFT JOIN s ON b = x",
        }[self.join]
        where = f" WHERE {' '.join(map(str, self.where))}" if self.where else ""
        if not self.groups:
            columns = "a, b, c, d" if self.join is None else "a, b, c, d, y"
            body = f"SELECT {'DISTINCT ' * self.distinct}{columns} FROM {source}{where}"
            if self.union is not None:
                body += f" UNION ALL SELECT a, b, c, d FROM r WHERE {' '.join(map(str, self.union))}"
            if self.top is not None:
                listed = ", ".join(f"{c} NULLS LAST" for c in columns.split(", ")[1:])
                direction = "DESC" if self.top.descending else "ASC"
                body += f" ORDER BY a {direction} NULLS LAST, {listed} LIMIT {self.top.limit}"
            return body
        keys = ", ".join(self.groups)
        values = [call(h.aggregate, h.column) for h in self.having] or ["count(*)"]
        if self.top is not None:
            values = [call(self.top.aggregate, self.top.column)]
        listed = ", ".join(f"{value} AS v{place}" for place, value in enumerate(values))
        body = f"SELECT {keys}, {listed} FROM {source}{where} GROUP BY {keys}"
        if self.having:
            body += " HAVING " + f" {self.connective} ".join(h.sql() for h in self.having)
        if self.top is not None:
            direction = "DESC" if self.top.descending else "ASC"
            ties = ", ".join(f"{key} NULLS LAST" for key in self.groups)
            body += f" ORDER BY v0 {direction} NULLS LAST, {ties} LIMIT {self.top.limit}"
            if self.top.offset:
                body += f" OFFSET {self.top.offset}"
        return body

    # The meaning.

    def lineage(self, data: Data) -> Lineage:
        """The base rows behind the result."""
        items = list(self._items(data))
        if self.groups:
            items = self._grouped(items)
        elif self.top is not None:
            items = self._first_rows(items)
        if self.outer is not None:
            groups, having = self.outer
            items = [
                Item({}, union(members)) for _, members in grouped(items, groups) if having.holds(members)
            ]
        return union(items)

    def _items(self, data: Data) -> Iterator[Item]:
        for number, row in enumerate(data["r"]):
            own = Item(dict(zip(COLUMNS["r"], row, strict=True)), frozenset({("r", number)}))
            for item in self._joined(own, data):
                if self.where is None or compare(item.values[self.where[0]], *self.where[1:]):
                    yield item
            if self.union is not None and compare(own.values[self.union[0]], *self.union[1:]):
                yield own

    def _joined(self, own: Item, data: Data) -> Iterator[Item]:
        if self.join is None:
            yield own
            return
        matched = False
        partners = data["s"] if self.join != "self" else [(row[1], row[2]) for row in data["r"]]
        for number, (x, y) in enumerate(partners):
            if x is not None and x == own.values["b"]:
                matched = True
                base = "r" if self.join == "self" else "s"
                yield Item({**own.values, "x": x, "y": y}, own.lineage | {(base, number)})
        if self.join == "left" and not matched:
            yield Item({**own.values, "x": None, "y": None}, own.lineage)

    def _grouped(self, items: list[Item]) -> list[Item]:
        kept = []
        check = all if self.connective == "AND" else any
        for key, members in grouped(items, self.groups):
            if not self.having or check([having.holds(members) for having in self.having]):
                values = dict(zip(self.groups, key, strict=True))
                aggregate = self.top or (self.having[0] if self.having else None)
                if aggregate is not None:
                    values["v0"] = aggregate_of(aggregate.aggregate, aggregate.column, members)
                else:
                    values["v0"] = len(members)
                kept.append(Item(values, union(members)))
        if self.top is None:
            return kept
        kept.sort(key=lambda item: [last(item.values[key]) for key in self.groups])
        direction = -1 if self.top.descending else 1
        kept.sort(key=lambda item: last(item.values["v0"], direction))
        return kept[: self.top.limit + self.top.offset]

    def _first_rows(self, items: list[Item]) -> list[Item]:
        assert self.top is not None
        columns = ["b", "c", "d"] + ["y"] * (self.join is not None)
        items.sort(key=lambda item: [last(item.values[c]) for c in columns])
        items.sort(key=lambda item: last(item.values["a"], -1 if self.top.descending else 1))
        cut = items[: self.top.limit]
        # Copies of the last row are as good as the one that was taken.
        return [item for item in items if any(item.values == kept.values for kept in cut)]


def call(aggregate: str, column: str) -> str:
    if aggregate == "countd":
        return f"count(DISTINCT {column})"
    return "count(*)" if column == "*" else f"{aggregate}({column})"


def aggregate_of(aggregate: str, column: str, items: Sequence[Item]) -> Any:
    if column == "*":
        return len(items)
    present = [item.values[column] for item in items if item.values[column] is not None]
    match aggregate:
        case "count":
            return len(present)
        case "countd":
            return len(set(present))
        case "sum":
            return sum(present) if present else None
        case "avg":
            return sum(present) / len(present) if present else None
        case "min":
            return min(present, default=None)
        case "max":
            return max(present, default=None)
    raise AssertionError(aggregate)


def compare(value: Any, op: str, constant: int) -> bool:
    return value is not None and OPERATORS[op](value, constant)


def last(value: Any, direction: int = 1) -> tuple[bool, Any]:
    return (True, 0) if value is None else (False, direction * value)


def grouped(items: Sequence[Item], keys: Sequence[str]) -> list[tuple[Row, list[Item]]]:
    groups: dict[Row, list[Item]] = {}
    for item in items:
        groups.setdefault(tuple(item.values[key] for key in keys), []).append(item)
    return list(groups.items())


def union(items: Sequence[Item]) -> Lineage:
    return frozenset().union(*(item.lineage for item in items))


def fragments(lineage: Lineage, data: Data, table: str, column: str, bounds: Sequence[int]) -> frozenset[int]:
    """The fragments that hold the lineage: the number of bounds that are not above the value, -1 for NULL."""
    place = COLUMNS[table].index(column)
    values = [data[table][number][place] for name, number in lineage if name == table]
    return frozenset(-1 if value is None else sum(bound <= value for bound in bounds) for value in values)
