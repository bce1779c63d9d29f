"""Random nested queries for the ordered access paths, and random rows that tie, cancel and change sign.

Every query compares rows or groups of ``r`` with aggregates of ``r`` or ``s``: uncorrelated, correlated by
equality or by an inequality in any linear arrangement, at one or two levels, combined by AND and OR, with
EXISTS, below a GROUP BY or not aggregated at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from viewlet.backends.base import Bag, Change
from viewlet.plan.bags import consolidate
from viewlet.sql.catalog import Catalog, Table

DDL = """
CREATE TABLE r (a BIGINT, b BIGINT, d DECIMAL(6,2), f DOUBLE);
CREATE TABLE s (a BIGINT, b BIGINT, d DECIMAL(7,1), f DOUBLE);
"""
COLUMNS = ("a", "b", "d", "f")
T = TypeVar("T")
ORDERS = ("<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Generator:
    """Draws the parts of a query; ``depth`` tells how many levels of nesting are left."""

    random: Random

    def query(self) -> str:
        """A whole query."""
        where = self.condition("r", 2)
        match self.random.randrange(7):
            case 0:
                return f"SELECT a, b, d FROM r WHERE {where}"
            case 1:
                return (
                    f"SELECT {self.column()} AS g, SUM(b) AS x, COUNT(d) AS n FROM r WHERE {where} GROUP BY 1"
                )
            case 2:
                return f"SELECT r.a, s.b AS c FROM r JOIN s ON r.a = s.a WHERE {where}"
            case 3:
                group = "SELECT a, SUM(b) AS t, MAX(d) AS m FROM r GROUP BY a"
                against = self.pick("0.5 * SUM(b)", "AVG(b)", "MAX(a)", "COUNT(*)")
                op, side = self.pick(*ORDERS, "="), self.pick("x.t", "x.m")
                rows, value = self.pick(
                    (f"s JOIN ({group}) x ON s.a = x.a", "s.b AS c, x.t"),
                    (f"({group}) x", "x.a, x.m"),
                    (f"({group}) x", "SUM(x.t), COUNT(*)"),
                )
                return f"SELECT {value} FROM {rows} WHERE {side} {op} (SELECT {against} FROM r)"
            case 4:
                column = self.column()
                tests = [
                    f"r.{column} {self.pick(*ORDERS)} (SELECT {self.pick('AVG', 'SUM', 'COUNT', 'MAX')}(b) "
                    f"FROM {self.pick('r', 's')})"
                    for _ in range(self.pick(1, 1, 2))
                ]
                return f"SELECT a, {column} AS x FROM r WHERE {' AND '.join(tests)}"
            case _:
                value = self.pick("SUM(b)", "SUM(a * b)", "SUM(d), COUNT(*)", "MIN(b)", "COUNT(f)")
                return f"SELECT {value} FROM r WHERE {where}"

    def condition(self, outer: str, depth: int) -> str:
        """One comparison, or two combined."""
        parts = [self.comparison(outer, depth) for _ in range(self.pick(1, 1, 2))]
        return f" {self.pick('AND', 'AND', 'OR')} ".join(parts)

    def comparison(self, outer: str, depth: int) -> str:
        """A row of ``outer`` against an aggregate, or two aggregates against each other."""
        if self.random.random() < 0.15:
            word = self.pick("EXISTS", "NOT EXISTS")
            return f"{word} (SELECT 1 FROM {self.source(outer, depth, correlated=True)})"
        right = self.aggregate(outer, depth, correlated=self.random.random() < 0.75)
        left = self.pick(
            f"{outer}.{self.column()}",
            f"{self.pick('0.5', '2', '0.75')} * {self.aggregate(outer, 1, correlated=False)}",
            self.aggregate(outer, 1, correlated=True),
        )
        return f"{left} {self.pick(*ORDERS, '=')} {right}"

    def aggregate(self, outer: str, depth: int, *, correlated: bool) -> str:
        """A scalar subquery."""
        function = self.pick("SUM", "SUM", "MIN", "MAX", "COUNT", "AVG")
        source = self.source(outer, depth, correlated=correlated)
        return f"(SELECT {function}({source[2:4]}.{self.column()}) FROM {source})"

    def source(self, outer: str, depth: int, *, correlated: bool) -> str:
        """A table under an alias of two letters, correlated with the row outside, perhaps nested further."""
        alias = f"{outer[0]}{'xyz'[depth]}"
        conditions = []
        if correlated:
            own, other, op = self.column(), self.column(), self.pick(*ORDERS, "=")
            conditions.append(
                self.pick(
                    f"{alias}.{own} {op} {outer}.{other}",
                    f"2 * {alias}.{own} {op} {outer}.{other} + 1",
                    f"{outer}.{other} - {alias}.{own} {op} 1",
                )
            )
            if depth > 1 and self.random.random() < 0.3:
                conditions.append(self.comparison(alias, depth - 1))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"{self.pick('r', 's')} {alias}{where}"

    def column(self) -> str:
        """A column that both tables have."""
        return self.pick(*COLUMNS)

    def pick(self, *choices: T) -> T:
        """One of them."""
        return self.random.choice(choices)


def changes(random: Random, catalog: Catalog, count: int, negatives: float) -> Iterator[tuple[str, Change]]:
    """Rows that come and go, few enough values for ties, and towards the end more that go."""
    contents: dict[str, Bag] = {name: {} for name in catalog}
    for step in range(count):
        table = random.choice(sorted(catalog))
        present = sorted(contents[table], key=repr)
        if present and random.random() < (0.35 if step < 0.7 * count else 0.8):
            change = Change(random.choice(present), -1)
        else:
            change = Change(_row(random, catalog[table], negatives), random.choice((1, 1, 2)))
        contents[table] = consolidate([*contents[table].items(), (change.row, change.weight)])
        yield table, change


def _row(random: Random, table: Table, negatives: float) -> tuple[int | float | None, ...]:
    """Physical values: a DECIMAL is an integer at its scale, half of them whole numbers."""
    row: list[int | float | None] = []
    for column in table.columns:
        value = random.randint(0, 5) * (-1 if random.random() < negatives else 1)
        unit = 10**column.type.scale // random.choice((1, 2)) if column.type.scale else 1
        number = value / 2 if column.type.is_floating else value * unit
        row.append(None if random.random() < 0.1 else number)
    return tuple(row)
