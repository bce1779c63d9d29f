"""The loops of known queries: one lookup per record and key, reads before writes, indexes that are used."""

from __future__ import annotations

import pytest

from golden_cases import Case, cases, check
from viewlet.loops.from_triggers import triggers_to_loops
from viewlet.loops.text import show_loops
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.triggers.compile import compile_views
from viewlet.workloads import queries, schema

TABLES = "CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE q (a BIGINT, c BIGINT NOT NULL)"


def catalog(ddl: str) -> Catalog:
    return Catalog(statement.table for statement in parse(ddl))  # type: ignore[union-attr]


@pytest.mark.parametrize("case", cases("loops/programs"))
def test_workload_program(case: Case, update: bool) -> None:
    def produce(text: str) -> str:
        suite, name = text.split()
        tables = catalog(schema(suite))
        return show_loops(
            triggers_to_loops(compile_views({name: compile_query(queries(suite)[name], tables)}, tables))
        )

    check(case, produce, update)


@pytest.mark.parametrize("case", cases("loops/sql"))
def test_query(case: Case, update: bool) -> None:
    def produce(text: str) -> str:
        tables = catalog(TABLES)
        return show_loops(
            triggers_to_loops(compile_views({"v": compile_query(text, tables)}, tables), batches="all")
        )

    check(case, produce, update)


@pytest.mark.parametrize("case", cases("loops/order_statistics"))
def test_order_statistics(case: Case, update: bool) -> None:
    def produce(text: str) -> str:
        tables = catalog(TABLES)
        program = compile_views({"v": compile_query(text, tables)}, tables, searches=True)
        return show_loops(triggers_to_loops(program))

    check(case, produce, update)
