"""The questions that BI tools and drivers ask about a database are answered.

The texts are shortened forms of what pgJDBC (and so DBeaver and Metabase), Metabase, DBeaver, Power BI and
Grafana send: the same relations, functions, casts and oddities.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import viewlet
from pgwire.served import Served, serving

psycopg = pytest.importorskip("psycopg", reason="needs psycopg")

ASKED: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "pgJDBC, schemas": (
        "SELECT nspname AS TABLE_SCHEM, current_database() FROM pg_catalog.pg_namespace "
        "WHERE nspname <> 'pg_toast' AND (nspname !~ '^pg_temp_' "
        "OR nspname = (pg_catalog.current_schemas(true))[1]) ORDER BY TABLE_SCHEM",
        [("information_schema", "market"), ("pg_catalog", "market"), ("public", "market")],
    ),
    "pgJDBC, tables": (
        "SELECT n.nspname, c.relname, CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' "
        "WHEN true THEN 'SYSTEM' WHEN false THEN CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' "
        "WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END ELSE NULL END AS TABLE_TYPE, d.description "
        "FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d "
        "ON (c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass) "
        "WHERE c.relnamespace = n.oid AND n.nspname LIKE 'public' AND (false OR (c.relkind = 'r') "
        "OR (c.relkind = 'v') OR (c.relkind = 'm')) ORDER BY TABLE_TYPE, c.relname",
        [("public", "bids", "TABLE", None), ("public", "brokers", "VIEW", None)],
    ),
    "pgJDBC, columns": (
        "SELECT c.relname, a.attname, a.atttypid, a.attnotnull OR (t.typtype = 'd' AND t.typnotnull), "
        "row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum, "
        "nullif(a.attidentity, ''), pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc "
        "FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid) "
        "JOIN pg_catalog.pg_attribute a ON (a.attrelid = c.oid) "
        "JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN pg_catalog.pg_attrdef def "
        "ON (a.attrelid = def.adrelid AND a.attnum = def.adnum) "
        "WHERE c.relkind IN ('r', 'v', 'm') AND a.attnum > 0 AND NOT a.attisdropped "
        "AND c.relname LIKE 'bids' ORDER BY attnum",
        [
            ("bids", "id", 20, True, 1, None, None),
            ("bids", "broker", 25, False, 2, None, None),
            ("bids", "volume", 20, False, 3, None, None),
        ],
    ),
    "pgJDBC, primary keys": (
        "SELECT r.COLUMN_NAME, r.KEY_SEQ, r.PK_NAME FROM (SELECT a.attname AS COLUMN_NAME, "
        "(information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ, ci.relname AS PK_NAME, "
        "information_schema._pg_expandarray(i.indkey) AS KEYS, a.attnum AS A_ATTNUM "
        "FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_attribute a ON (ct.oid = a.attrelid) "
        "JOIN pg_catalog.pg_index i ON (a.attrelid = i.indrelid) "
        "JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) "
        "WHERE ct.relname = 'bids' AND i.indisprimary) r WHERE r.A_ATTNUM = (r.KEYS).x ORDER BY r.KEY_SEQ",
        [("id", 1, "bids_pkey")],
    ),
    "pgJDBC, indexes": (
        "SELECT trim(both '\"' from pg_catalog.pg_get_indexdef(ci.oid, 1, false)), am.amname "
        "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ci ON (ci.oid = i.indexrelid) "
        "JOIN pg_catalog.pg_am am ON (ci.relam = am.oid)",
        [("id", "btree")],
    ),
    "pgJDBC, keywords": (
        "SELECT count(*) > 50 FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs}'::text[])",
        [(True,)],
    ),
    "Metabase, privileges": (
        "WITH p AS (SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table, "
        "pg_catalog.has_any_column_privilege(current_user, '\"' || replace(t.schemaname, '\"', '\"\"') "
        "|| '\".\"' || t.objectname || '\"', 'update') AS update, "
        "pg_catalog.has_table_privilege(current_user, t.objectname, 'select') AS select, "
        "pg_catalog.has_table_privilege(current_user, t.objectname, 'delete') AS delete "
        "FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables UNION "
        "SELECT schemaname, viewname AS objectname FROM pg_catalog.pg_views UNION "
        "SELECT schemaname, matviewname AS objectname FROM pg_catalog.pg_matviews) t "
        "WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema' "
        "AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')) "
        "SELECT p.* FROM p ORDER BY 3",
        [
            (None, "public", "bids", False, True, False),
            (None, "public", "brokers", False, True, False),
        ],
    ),
    "Metabase, tables": (
        "SELECT c.relname, stat.n_live_tup FROM pg_catalog.pg_class AS c "
        "INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid "
        "LEFT JOIN pg_stat_user_tables AS stat ON (n.nspname = stat.schemaname) "
        "AND (c.relname = stat.relname) WHERE n.nspname IN ('public') "
        "AND c.relkind IN ('r', 'p', 'v', 'f', 'm') ORDER BY 1",
        [("bids", None), ("brokers", None)],
    ),
    "Metabase, fields": (
        'SELECT c.column_name, c.udt_name, c.ordinal_position - 1, pk.column_name IS NOT NULL AS "pk?", '
        "col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS TEXT), CAST(c.table_name AS TEXT)) "
        "AS REGCLASS) AS OID), c.ordinal_position) FROM information_schema.columns AS c LEFT JOIN "
        "(SELECT tc.table_name, kc.column_name FROM information_schema.table_constraints AS tc "
        "INNER JOIN information_schema.key_column_usage AS kc "
        "ON (tc.constraint_name = kc.constraint_name) WHERE tc.constraint_type = 'PRIMARY KEY') AS pk "
        "ON (c.table_name = pk.table_name) AND (c.column_name = pk.column_name) "
        "WHERE c.table_name = 'bids' ORDER BY 3",
        [
            ("id", "int8", 0, True, None),
            ("broker", "text", 1, False, None),
            ("volume", "int8", 2, False, None),
        ],
    ),
    "Metabase, the time": (
        "SELECT to_char(TIMESTAMP '2026-01-02 03:04:05.678', 'YYYY-MM-DD HH24:MI:SS.MS')",
        [("2026-01-02 03:04:05.678",)],
    ),
    "DBeaver, tables": (
        "SELECT c.relname, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid), "
        "pg_catalog.pg_get_partkeydef(c.oid) FROM pg_catalog.pg_class c "
        "LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 "
        "AND d.classoid = 'pg_class'::regclass WHERE c.relnamespace = 2200 "
        "AND c.relkind NOT IN ('i', 'I', 'c') ORDER BY 1",
        [("bids", None, None, None), ("brokers", None, None, None)],
    ),
    "Power BI, tables": (
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.tables "
        "WHERE TABLE_SCHEMA NOT IN ('information_schema', 'pg_catalog') ORDER BY TABLE_NAME",
        [("public", "bids", "BASE TABLE"), ("public", "brokers", "VIEW")],
    ),
    "Grafana, tables": (
        "SELECT quote_ident(table_name) FROM information_schema.tables WHERE quote_ident(table_schema) "
        "NOT IN ('information_schema', 'pg_catalog') ORDER BY 1",
        [("bids",), ("brokers",)],
    ),
}


@pytest.fixture(scope="module")
def market() -> Iterator[Served]:
    with viewlet.connect(backend="reference", dialect="postgres") as db, serving(db) as running:
        db.execute("CREATE TABLE bids (id BIGINT PRIMARY KEY, broker TEXT, volume BIGINT)")
        db.execute(
            "CREATE MATERIALIZED VIEW brokers AS "
            "SELECT broker, sum(volume) AS volume FROM bids GROUP BY broker"
        )
        yield running


@pytest.mark.parametrize("question", ASKED)
def test_tools_are_answered(market: Served, question: str) -> None:
    text, expected = ASKED[question]
    with psycopg.connect(market.dsn, autocommit=True) as client:
        assert client.execute(text).fetchall() == expected
