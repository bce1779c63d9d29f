"""What the readers of a query share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewlet.core.names import Names
from viewlet.core.scalar import Scalar, Var, nullable
from viewlet.core.text import RESERVED
from viewlet.core.types import Type
from viewlet.plan.nodes import Plan, Project, SortKey
from viewlet.plan.scope import outputs
from viewlet.sql.catalog import Catalog
from viewlet.sql.position import unsupported
from viewlet.sql.scope import Scope

MOST_COPIES = 100
"""So many copies of one WITH item take seconds to compile; items that read each other twice double them."""


@dataclass(frozen=True, slots=True)
class Body:
    """A query that has been read: its plan, its columns, and the order that it asks for.

    The plan may produce further variables (sort keys), and one variable may be two columns.
    """

    plan: Plan
    columns: tuple[tuple[str, Var], ...]
    keys: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A WITH item: read anew, with fresh variables, wherever it is used."""

    query: exp.Query
    columns: tuple[str, ...]
    visible: Mapping[str, CommonTable]
    outer: Scope | None


@dataclass(frozen=True, slots=True)
class Context:
    """What is the same everywhere in a query, except for ``common``: the WITH items in sight.

    ``mentioned`` are all names in the query, ``None`` if a star may mean any column. ``read`` reads a nested
    query, given the scope around it. ``copies`` counts how often each WITH item has been read.
    """

    catalog: Catalog
    names: Names
    mentioned: frozenset[str] | None
    read: Callable[[exp.Query, Scope | None, Context], Body]
    common: Mapping[str, CommonTable]
    copies: Counter[int] = field(default_factory=Counter)

    def read_common(self, node: exp.Table, item: CommonTable) -> Body:
        """The query of a WITH item, anew; an error where its copies outgrow what can be compiled."""
        self.copies[id(item.query)] += 1
        if self.copies[id(item.query)] > MOST_COPIES:
            raise unsupported(
                node,
                f"reading a WITH item more than {MOST_COPIES} times, also through its readers,",
                f"each time makes a copy: create a materialized view of {node.name} and of its readers, and "
                "select from these",
            )
        return self.read(item.query, item.outer, self.with_common(item.visible))

    def with_common(self, common: Mapping[str, CommonTable]) -> Context:
        """The same context with other WITH items in sight."""
        return replace(self, common=common)

    def fresh(self, stem: str, kind: Type, may_be_null: bool) -> Var:
        """A new variable whose name starts like ``stem``."""
        word = re.sub(r"\W+", "_", stem.lower()).strip("_") or "column"
        if word in RESERVED or word[0].isdigit():
            word += "_" if word in RESERVED else ""
            word = f"c_{word}" if word[0].isdigit() else word
        return Var(self.names.fresh(word), kind, may_be_null)

    def define(self, stem: str, scalar: Scalar) -> Var:
        """A new variable that will stand for a scalar."""
        return self.fresh(stem, scalar.type, nullable(scalar))

    def positional(self, body: Body) -> Plan:
        """A plan whose variables are exactly the query's columns, in their order."""
        wanted = tuple(var for _, var in body.columns)
        if wanted == outputs(body.plan):
            return body.plan
        seen: set[str] = set()
        columns: list[tuple[Var, Scalar]] = []
        for name, var in body.columns:
            columns.append((self.define(name, var) if var.name in seen else var, var))
            seen.add(var.name)
        return Project(body.plan, tuple(columns))
