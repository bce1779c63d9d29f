"""Stage 1: SQL text to a resolved query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse_query

if TYPE_CHECKING:
    from viewlet.plan.nodes import Query


def compile_query(query: str | exp.Query, catalog: Catalog, dialect: str = "spark") -> Query:
    """The relational algebra of a query, resolved against a catalog and simplified.

    >>> from viewlet.sql.parse import parse
    >>> catalog = Catalog(s.table for s in parse("CREATE TABLE r (a BIGINT, b BIGINT)"))
    >>> [name for name, _ in compile_query("SELECT a, sum(b) AS s FROM r GROUP BY a", catalog).columns]
    ['a', 's']
    """
    # The front door to stages 1 and 2: imported here because plan/ itself builds on this package.
    from viewlet.plan.from_sql import resolve
    from viewlet.plan.pipeline import optimize

    return optimize(resolve(parse_query(query, dialect) if isinstance(query, str) else query, catalog))
