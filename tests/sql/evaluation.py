"""Plans evaluated over the tables of a random case."""

from __future__ import annotations

from collections import Counter

from strategies import Case
from viewlet.changes import read_changes
from viewlet.core.types import Value
from viewlet.errors import ViewletError
from viewlet.plan.evaluate import evaluate_query
from viewlet.plan.nodes import Query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse

Contents = dict[str, dict[tuple[Value, ...], int]]


def catalog_of(ddl: str) -> Catalog:
    """The tables that CREATE TABLE statements make."""
    return Catalog(statement.table for statement in parse(ddl) if isinstance(statement, CreateTable))


def contents_of(case: Case, catalog: Catalog) -> Contents:
    """What the tables of a case hold after all its changes."""
    bags: dict[str, Counter[tuple[Value, ...]]] = {name: Counter() for name in catalog}
    for batch in case.batches(1_000):
        for name, data in batch.items():
            for change in read_changes(catalog[name], data).changes:
                bags[name][change.row] += change.weight
    return {name: {row: weight for row, weight in bag.items() if weight} for name, bag in bags.items()}


def outcome(query: Query, contents: Contents, catalog: Catalog) -> object:
    """The result of a query, or that it is an error."""
    try:
        return evaluate_query(query, contents, catalog)
    except ViewletError as error:
        return type(error)
