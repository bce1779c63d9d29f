"""The relations of ``information_schema`` that say something about Viewlet, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from viewlet.core.types import Column
from viewlet.pgwire import types
from viewlet.pgwire.described import SPELLED, Described, Record, keyed, wire_type
from viewlet.sql.catalog import Table, TableKind


def _schemata(described: Described) -> Iterator[Record]:
    for name in "pg_catalog", "information_schema", "public":
        owner = described.user
        yield {"catalog_name": described.database, "schema_name": name, "schema_owner": owner}


def _place(described: Described, table: Table) -> Record:
    return {
        "table_catalog": described.database,
        "table_schema": "public",
        "table_name": table.name,
    }


def _tables(described: Described) -> Iterator[Record]:
    for table in described.relations.values():
        kind = "VIEW" if table.kind is TableKind.VIEW else "BASE TABLE"
        yield {**_place(described, table), "table_type": kind, "is_insertable_into": "NO", "is_typed": "NO"}


def _columns(described: Described) -> Iterator[Record]:
    for table in described.relations.values():
        for number, column in enumerate(table.columns, 1):
            yield {**_place(described, table), "ordinal_position": number, **_column(column)}


def _column(column: Column) -> Record:
    kind = wire_type(column.type)
    is_exact = column.type.is_exact
    precision = column.type.precision or kind.size * 8
    return {
        "column_name": column.name,
        "is_nullable": "YES" if column.nullable else "NO",
        "data_type": SPELLED.get(kind.name, kind.name),
        "udt_schema": "pg_catalog",
        "udt_name": kind.name,
        "numeric_precision": precision if is_exact else None,
        "numeric_precision_radix": (10 if column.type.precision else 2) if is_exact else None,
        "numeric_scale": column.type.scale if is_exact else None,
        "datetime_precision": 6 if kind is types.TIMESTAMP else None,
        "is_identity": "NO",
        "is_generated": "NEVER",
        "is_updatable": "NO",
    }


def _views(described: Described) -> Iterator[Record]:
    for name, text in described.definitions.items():
        yield {
            **_place(described, described.relations[name]),
            "view_definition": text,
            "check_option": "NONE",
            "is_updatable": "NO",
            "is_insertable_into": "NO",
        }


def _constraint(described: Described, table: Table) -> Record:
    return {
        "constraint_catalog": described.database,
        "constraint_schema": "public",
        "constraint_name": f"{table.name}_pkey",
        **_place(described, table),
    }


def _table_constraints(described: Described) -> Iterator[Record]:
    for table, _ in keyed(described):
        deferral = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"}
        yield {**_constraint(described, table), "constraint_type": "PRIMARY KEY", **deferral}


def _key_column_usage(described: Described) -> Iterator[Record]:
    for table, _ in keyed(described):
        for number, name in enumerate(table.key, 1):
            yield {**_constraint(described, table), "column_name": name, "ordinal_position": number}


def _constraint_column_usage(described: Described) -> Iterator[Record]:
    for row in _key_column_usage(described):
        yield {key: value for key, value in row.items() if key != "ordinal_position"}


INFORMATION_SCHEMA_ROWS: Mapping[str, Callable[[Described], Iterator[Record]]] = {
    "information_schema_schemata": _schemata,
    "information_schema_tables": _tables,
    "information_schema_columns": _columns,
    "information_schema_views": _views,
    "information_schema_table_constraints": _table_constraints,
    "information_schema_key_column_usage": _key_column_usage,
    "information_schema_constraint_column_usage": _constraint_column_usage,
}
