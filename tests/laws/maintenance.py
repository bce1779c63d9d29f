"""What the laws of maintenance are checked on: random queries, and the maps that keep them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from strategies import Case, seeded_case
from viewlet.backends.base import Bag, Change
from viewlet.changes import read_row
from viewlet.errors import ProgramSizeError, UnsupportedError
from viewlet.plan.bags import consolidate
from viewlet.plan.nodes import Query
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.triggers.compile import compile_views
from viewlet.triggers.program import Program


@cache
def compiled(seed: int) -> tuple[Case, Catalog, Query] | None:
    """A random case with its query resolved; ``None`` where the front end refuses the query."""
    case = seeded_case(seed)
    catalog = Catalog(statement.table for statement in parse(case.ddl))  # type: ignore[union-attr]
    try:
        return case, catalog, compile_query(case.sql, catalog)
    except UnsupportedError:
        return None


@cache
def program(seed: int) -> Program | None:
    """The higher-order program of a random case; ``None`` also where it is too long to be written down."""
    found = compiled(seed)
    try:
        return compile_views({"v": found[2]}, found[1]) if found else None
    except ProgramSizeError:
        return None


def contents_of(case: Case, catalog: Catalog, share: float = 1.0) -> dict[str, Bag]:
    """The tables after (some of) the case's changes."""
    contents: dict[str, Bag] = {name: {} for name in catalog}
    for table, change in steps(case, catalog, share):
        contents[table] = consolidate([*contents[table].items(), (change.row, change.weight)])
    return contents


def steps(case: Case, catalog: Catalog, share: float = 1.0) -> Iterator[tuple[str, Change]]:
    """The case's changes in physical values."""
    for change in case.changes[: int(len(case.changes) * share)]:
        yield change.table, Change(read_row(catalog[change.table], change.row), change.weight)
