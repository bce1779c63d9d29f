"""Statements: Viewlet's own words, names, keys, and places in messages as in the original text."""

from __future__ import annotations

import pytest

from viewlet.core.types import BIGINT, VARCHAR, Column, decimal
from viewlet.errors import SqlError, UnsupportedError
from viewlet.sql.catalog import ForeignKey, TableKind
from viewlet.sql.parse import (
    CreateTable,
    CreateView,
    Delete,
    Drop,
    Explain,
    Insert,
    OnConflict,
    Refresh,
    RefreshView,
    Select,
    Statement,
    parse,
)


def one(sql: str) -> Statement:
    (statement,) = parse(sql)
    return statement


def test_table_with_keys() -> None:
    statement = one(
        """create TABLE if not exists Lines (
            K bigint NOT NULL, n INT, price decimal(15,2), flag CHAR(1) REFERENCES flags (f),
            PRIMARY KEY (k, n), FOREIGN KEY (k) REFERENCES orders (o)
        ) ON CONFLICT REPLACE"""
    )
    assert isinstance(statement, CreateTable)
    table = statement.table
    assert (table.name, table.kind, table.key) == ("lines", TableKind.TABLE, ("k", "n"))
    assert table.columns[0] == Column("k", BIGINT, False)
    assert not table.columns[1].nullable, "a key column is NOT NULL"
    assert table.columns[2:] == (Column("price", decimal(15, 2)), Column("flag", VARCHAR))
    assert table.references == (ForeignKey(("flag",), "flags", ("f",)), ForeignKey(("k",), "orders", ("o",)))
    assert statement.if_not_exists
    assert statement.on_conflict is OnConflict.REPLACE


@pytest.mark.parametrize(
    ("words", "kind"),
    [("TABLE", TableKind.TABLE), ("STREAM", TableKind.STREAM), ("STATIC TABLE", TableKind.STATIC)],
)
def test_kinds_of_tables(words: str, kind: TableKind) -> None:
    created, dropped = parse(f"CREATE {words} x (a BIGINT PRIMARY KEY); DROP {words} IF EXISTS x")
    assert isinstance(created, CreateTable)
    assert (created.table.kind, created.table.key) == (kind, ("a",))
    assert dropped == Drop("x", kind, True)


@pytest.mark.parametrize("refresh", list(Refresh))
def test_views(refresh: Refresh) -> None:
    statement = one(f"CREATE OR REPLACE MATERIALIZED VIEW V\nREFRESH {refresh.value}\nAS SELECT a FROM r;")
    assert isinstance(statement, CreateView)
    assert (statement.name, statement.refresh, statement.or_replace) == ("v", refresh, True)
    assert statement.text == "SELECT a FROM r"
    plain = one("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS WITH w AS (SELECT 1 AS x) SELECT x FROM w")
    assert isinstance(plain, CreateView)
    assert (plain.refresh, plain.or_replace, plain.if_not_exists) == (Refresh.AUTO, False, True)


def test_other_statements() -> None:
    assert one("REFRESH MATERIALIZED VIEW v") == RefreshView("v")
    assert one("DROP MATERIALIZED VIEW v") == one("DROP VIEW v RESTRICT") == Drop("v", TableKind.VIEW)
    assert one("DROP TABLE r CASCADE") == Drop("r", TableKind.TABLE, cascade=True)
    assert one("EXPLAIN v") == Explain("v", "v")
    explain = one("EXPLAIN SELECT 1 AS x")
    assert isinstance(explain, Explain)
    assert (explain.text, isinstance(explain.target, str)) == ("SELECT 1 AS x", False)
    insert = one("INSERT INTO R (b, A) VALUES (1, 'x'), (-2, NULL)")
    assert isinstance(insert, Insert)
    assert (insert.table, insert.columns, len(insert.rows)) == ("r", ("b", "a"), 2)
    delete = one("DELETE FROM r WHERE a = 1")
    assert isinstance(delete, Delete)
    assert (delete.table, delete.where is None) == ("r", False)


def test_comments_and_semicolons_are_no_statements() -> None:
    statements = parse("-- a comment; with a semicolon\nSELECT ';' AS x; ; /* and */ ;")
    assert [type(statement) for statement in statements] == [Select]
    assert parse("  ;\n") == ()


def test_places_are_those_of_the_text() -> None:
    with pytest.raises(SqlError, match="line 4, column 18"):
        parse("SELECT 1 AS x;\nCREATE\n  STREAM s\n (a BIGINT,      b DECIMAL(99,1))")
    with pytest.raises(SqlError, match="line 3"):
        parse("CREATE MATERIALIZED VIEW v REFRESH FULL AS\nSELECT a\nFROM r WHERE")


def test_division_and_cast_follow_the_dialect() -> None:
    from sql.evaluation import catalog_of
    from viewlet.plan.text import show
    from viewlet.sql import compile_query

    catalog = catalog_of("CREATE TABLE r (a INT, b INT)")

    def plan(sql: str, dialect: str) -> str:
        return show(compile_query(sql, catalog, dialect))

    assert "x:DOUBLE? = a / b" in plan("SELECT a / b AS x FROM r", "spark")
    assert "x:BIGINT? = div(a, b)" in plan("SELECT a / b AS x FROM r", "postgres")
    assert "cast(a as VARCHAR)" in plan("SELECT a::text AS x FROM r", "postgres")


def test_what_dialects_spell_alike_but_mean_differently() -> None:
    from sql.evaluation import catalog_of
    from viewlet.plan.text import show
    from viewlet.sql import compile_query

    catalog = catalog_of("CREATE TABLE r (t VARCHAR, e DATE, x DOUBLE)")
    for dialect, item in (
        ("mysql", "extract(dow FROM e)"),
        ("postgres", "log(x)"),
        ("mysql", "substr(t, -2)"),
    ):
        sql = f"SELECT {item} AS i FROM r"
        compile_query(sql, catalog)
        with pytest.raises(UnsupportedError):
            compile_query(sql, catalog, dialect)
    assert "concat(coalesce(t, ''), " in show(
        compile_query("SELECT concat(t, 'x') AS c FROM r", catalog, "postgres")
    )
    assert "concat(t, 'x')" in show(compile_query("SELECT concat(t, 'x') AS c FROM r", catalog))
