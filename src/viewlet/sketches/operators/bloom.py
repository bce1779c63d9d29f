"""Bloom filters for joins: changed rows that have no partner are not sent into a join.

For ``R.x = S.y`` the filter of ``S.y`` holds every value that ``S`` has, or had since the filter was made:
values that disappear stay in it. So a value that is not in the filter has no partner, neither before a change
nor after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from viewlet.core.scalar import Call, Scalar, Var, conjuncts
from viewlet.core.types import Type
from viewlet.plan.nodes import Filter, Join, Plan, Project, Scan
from viewlet.plan.scope import walk
from viewlet.sketches.operators.reader import Reader
from viewlet.sketches.plan_to_sql import literal

WASTED = 0.8
"""If more than this share of the values passes, testing them is a waste."""
TRIED = 1_000
"""So many values are tested before that is decided."""
LISTED = 5_000
"""At most so many values with partners are listed in the text of a query."""
BITS = 12
"""Bits per value: with five hashes one value in three hundred passes by mistake."""
HASHES = 5


Values: TypeAlias = "Sequence[int] | NDArray[np.int64]"


class Bloom:
    """A set of integers that may say yes by mistake, but never no.

    >>> bloom = Bloom(100)
    >>> bloom.add([3, 5])
    >>> bloom.passes([3, 4, 5]).tolist()
    [True, False, True]
    """

    def __init__(self, expected: int) -> None:
        self._mask = (1 << max(expected * BITS, 64).bit_length()) - 1
        self._bits = np.zeros(self._mask + 1, np.bool_)

    def add(self, values: Values) -> None:
        """Take values in."""
        for places in self._places(values):
            self._bits[places] = True

    def passes(self, values: Values) -> NDArray[np.bool_]:
        """Which values may be in."""
        found = np.ones(len(values), np.bool_)
        for places in self._places(values):
            found &= self._bits[places]
        return found

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self._bits.nbytes)

    def _places(self, values: Values) -> Iterator[NDArray[np.uint64]]:
        # Two mixed halves of one product give all hashes: h1 + i * h2, by Kirsch and Mitzenmacher.
        mixed = np.asarray(values, np.int64).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        low, high = mixed & np.uint64(0xFFFFFFFF), mixed >> np.uint64(32)
        for turn in range(HASHES):
            yield (low + np.uint64(turn) * (high | np.uint64(1))) & np.uint64(self._mask)


@dataclass(frozen=True, slots=True)
class Link:
    """An equality by which rows of one access find partners in another table."""

    column: str
    type: Type
    table: str
    partner: str


@dataclass(slots=True)
class JoinFilters:
    """The filters of one stateless plan: which of its accesses have partners where."""

    links: Sequence[Sequence[Link]]
    reader: Reader
    blooms: dict[tuple[str, str], Bloom | None] = field(default_factory=dict)
    tested: int = 0
    passed: int = 0

    def begin(self, changed: frozenset[str]) -> None:
        """Take in what appears in this batch, before any of it is tested."""
        for (table, column), bloom in self.blooms.items():
            if bloom is not None and table in changed:
                bloom.add(self._values(exp.column(column, quoted=True), self.reader.staged(table)))

    def restriction(self, place: int, table: str, changed: frozenset[str]) -> exp.Expr | None:
        """The changed rows of an access that may have partners: FALSE for none, ``None`` if all may."""
        parts: list[exp.Expr] = []
        for link in self.links[place]:
            bloom = self._bloom(link, changed)
            if bloom is None:
                continue
            column = exp.column(link.column, quoted=True)
            values = self._values(column, self.reader.staged(table))
            joined = values[bloom.passes(values)]
            self.tested += len(values)
            self.passed += len(joined)
            if not len(joined):
                return exp.false()
            if self.tested > TRIED and self.passed > WASTED * self.tested:
                self.blooms[link.table, link.partner] = None
            elif len(joined) <= min(LISTED, len(values) // 2):
                parts.append(
                    exp.In(this=column, expressions=[literal(int(value), link.type) for value in joined])
                )
        return exp.and_(*parts) if parts else None

    def _bloom(self, link: Link, changed: frozenset[str]) -> Bloom | None:
        key = (link.table, link.partner)
        if key not in self.blooms:
            count = self.reader.count(link.table)
            self.blooms[key] = None if count < self.reader.small else self._filled(link, count, changed)
        return self.blooms[key]

    def _filled(self, link: Link, count: int, changed: frozenset[str]) -> Bloom:
        bloom = Bloom(count)
        column = exp.column(link.partner, quoted=True)
        bloom.add(self._values(column, self.reader.table(link.table)))
        if link.table in changed:  # what disappears in this batch was there before it
            bloom.add(self._values(column, self.reader.staged(link.table)))
        return bloom

    def _values(self, column: exp.Expr, source: Any) -> NDArray[np.int64]:
        present = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
        select = exp.select(column).distinct().from_(source).where(present)
        values: NDArray[np.int64] = (
            self.reader.run(self.reader.sql(select)).column(0).cast("int64").to_numpy()
        )
        return values

    def explain(self) -> Iterator[str]:
        """The filters there are, and how many changed values they have kept out."""
        for (table, column), bloom in self.blooms.items():
            if bloom is not None:
                yield f"Bloom filter of {table}.{column}: {bloom.size} bytes"
        if self.tested:
            yield f"Bloom filters let {self.passed} of {self.tested} changed values into joins"


def links_of(plan: Plan, accesses: Sequence[Scan]) -> list[list[Link]]:
    """Per access the equalities with a column of another: conjuncts that every row of the plan satisfies."""
    origins: dict[str, str] = {}
    conditions: list[Scalar] = []
    for node in walk(plan):
        match node:
            case Project(_, columns):
                origins.update({var.name: of.name for var, of in columns if isinstance(of, Var)})
            case Filter(_, condition) | Join("inner", _, _, condition):
                conditions += conjuncts(condition)
    bound = {
        var.name: (place, column, var.type)
        for place, access in enumerate(accesses)
        for column, var in access.binds
    }
    links: list[list[Link]] = [[] for _ in accesses]
    for condition in conditions:
        match condition:
            case Call("=", (Var(left), Var(right))):
                ends = [bound.get(_origin(name, origins)) for name in (left, right)]
                for one, other in (ends, ends[::-1]):
                    if one and other and one[0] != other[0] and one[2].is_integer and other[2].is_integer:
                        links[one[0]].append(Link(one[1], one[2], accesses[other[0]].table, other[1]))
    return links


def _origin(name: str, origins: Mapping[str, str]) -> str:
    """The variable that a column passes on."""
    while name in origins and origins[name] != name:
        name = origins[name]
    return name
