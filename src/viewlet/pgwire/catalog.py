"""The system catalog that PostgreSQL's clients ask: what there is, in the words of ``pg_catalog``.

Each relation is built when a query names it. Those that say nothing about Viewlet (triggers, policies,
publications, ...) exist with their columns and no rows, so that clients' joins with them work. Views appear
as plain views: many tools overlook materialized ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import pyarrow as pa

from viewlet.core.types import Column, Kind, Type
from viewlet.pgwire import types
from viewlet.pgwire.errors import WireError
from viewlet.pgwire.types import WireType
from viewlet.sql.catalog import Catalog, Table, TableKind

PUBLIC, PG_CATALOG, INFORMATION_SCHEMA = 2200, 11, 13000
OWNER, DATABASE, HEAP, BTREE = 10, 5, 2, 403
FIRST_FREE = 16384

Record: TypeAlias = dict[str, Any]

_ARROW = {
    "text": pa.string(),
    "oid": pa.uint32(),
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "timestamptz": pa.timestamp("us", "UTC"),
}

_WIRE = {
    Kind.BOOLEAN: types.BOOL,
    Kind.TINYINT: types.INT2,
    Kind.SMALLINT: types.INT2,
    Kind.INT: types.INT4,
    Kind.BIGINT: types.INT8,
    Kind.FLOAT: types.FLOAT4,
    Kind.DOUBLE: types.FLOAT8,
    Kind.DECIMAL: types.NUMERIC,
    Kind.DATE: types.DATE,
    Kind.TIMESTAMP: types.TIMESTAMP,
    Kind.VARCHAR: types.TEXT,
    Kind.NULL: types.TEXT,
}

SPELLED = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
    "varchar": "character varying",
    "bpchar": "character",
    "char": '"char"',
}

_CATEGORY = {"bool": "B", "int2": "N", "int4": "N", "int8": "N", "float4": "N", "float8": "N", "numeric": "N"}
_CATEGORY |= {"oid": "N", "text": "S", "varchar": "S", "bpchar": "S", "name": "S", "char": "Z"}
_CATEGORY |= {"date": "D", "time": "D", "timestamp": "D", "timestamptz": "D", "interval": "T", "unknown": "X"}


@dataclass(frozen=True, slots=True)
class Described:
    """What the system catalog tells about: relations, definitions of views, and who asks which database."""

    relations: Catalog
    definitions: Mapping[str, str]
    user: str
    database: str
    settings: Mapping[str, str]


def oid_of(name: str) -> int:
    """The OID of a relation or index: the same as long as it has its name, in every session.

    >>> oid_of("bids") == oid_of("bids"), FIRST_FREE <= oid_of("bids") < 2**31
    (True, True)
    """
    return FIRST_FREE + zlib.crc32(name.encode()) % (2**31 - FIRST_FREE)


def wire_type(kind: Type) -> WireType:
    """The type in which a column's values travel."""
    return _WIRE[kind.kind]


@cache
def catalog_columns() -> dict[str, pa.Schema]:
    """The columns of every catalog relation, those of information_schema with its name in front."""
    lines = files("viewlet.pgwire").joinpath("columns.txt").read_text(encoding="utf-8").splitlines()
    relations = {}
    for line in lines:
        name, _, listed = line.partition(": ")
        columns = [column.split(" ") for column in listed.split(", ")]
        relations[name] = pa.schema([(column, _arrow(kind)) for column, kind in columns])
    return relations


def _arrow(word: str) -> pa.DataType:
    return pa.list_(_ARROW[word[:-2]]) if word.endswith("[]") else _ARROW[word]


def is_catalog(name: str) -> bool:
    """Is it the name of a catalog relation?"""
    return name in catalog_columns()


def catalog_relation(name: str, described: Described) -> pa.Table:
    """The rows of a catalog relation."""
    schema = catalog_columns()[name]
    rows = list(_ROWS[name](described)) if name in _ROWS else []
    for row in rows:
        if unknown := row.keys() - set(schema.names):
            raise WireError("XX000", f"{name} has no columns {sorted(unknown)}")
    return pa.Table.from_pylist([_filled(schema, row) for row in rows], schema=schema)


def _filled(schema: pa.Schema, row: Record) -> Record:
    """Flags that are not given are false and numbers are zero, as PostgreSQL has few NULLs there."""
    blank = {f.name: False if f.type == pa.bool_() else 0 for f in schema if _never_null(f.type)}
    return {**blank, **row}


def _never_null(kind: pa.DataType) -> bool:
    return kind in (pa.bool_(), pa.uint32(), pa.int16(), pa.float32())


def _pg_namespace(_: Described) -> Iterator[Record]:
    for oid, name in (
        (PG_CATALOG, "pg_catalog"),
        (INFORMATION_SCHEMA, "information_schema"),
        (PUBLIC, "public"),
    ):
        yield {"oid": oid, "nspname": name, "nspowner": OWNER}


def _pg_class(described: Described) -> Iterator[Record]:
    for table in described.relations.values():
        is_view = table.kind is TableKind.VIEW
        yield {
            "oid": oid_of(table.name),
            "relname": table.name,
            "relnamespace": PUBLIC,
            "relowner": OWNER,
            "relam": 0 if is_view else HEAP,
            "reltuples": -1.0,
            "relhasindex": bool(table.key),
            "relpersistence": "p",
            "relkind": "v" if is_view else "r",
            "relnatts": len(table.columns),
            "relispopulated": True,
            "relreplident": "d",
        }
        if table.key:
            yield {
                "oid": oid_of(f"{table.name}_pkey"),
                "relname": f"{table.name}_pkey",
                "relnamespace": PUBLIC,
                "relowner": OWNER,
                "relam": BTREE,
                "relpersistence": "p",
                "relkind": "i",
                "relnatts": len(table.key),
                "relispopulated": True,
                "relreplident": "n",
            }


def _pg_attribute(described: Described) -> Iterator[Record]:
    for table in described.relations.values():
        for number, column in enumerate(table.columns, 1):
            kind = wire_type(column.type)
            yield {
                "attrelid": oid_of(table.name),
                "attname": column.name,
                "atttypid": kind.oid,
                "attlen": kind.size,
                "attnum": number,
                "atttypmod": _modifier(column.type),
                "attstorage": "p" if kind.size > 0 else "x",
                "attalign": "i",
                "attnotnull": not column.nullable,
                "attidentity": "",
                "attgenerated": "",
                "attcompression": "",
                "attislocal": True,
                "attstattarget": -1,
            }


def _modifier(kind: Type) -> int:
    return ((kind.precision << 16) | kind.scale) + 4 if kind.kind is Kind.DECIMAL else -1


def _pg_type(_: Described) -> Iterator[Record]:
    for kind in types.TYPES:
        base = {"typnamespace": PG_CATALOG, "typowner": OWNER, "typisdefined": True, "typdelim": ","}
        scalar = {"typtype": "p" if kind is types.UNKNOWN else "b", "typtypmod": -1, "typalign": "i"}
        io = {"typinput": f"{kind.name}in", "typoutput": f"{kind.name}out", "typreceive": f"{kind.name}recv"}
        yield {
            **base,
            **scalar,
            **io,
            "oid": kind.oid,
            "typname": kind.name,
            "typlen": kind.size,
            "typcategory": _CATEGORY.get(kind.name, "U"),
            "typarray": 0 if kind is types.UNKNOWN else kind.array_oid,
            "typispreferred": kind.name in ("text", "float8", "bool", "timestamptz"),
        }
        if kind is not types.UNKNOWN:
            yield {
                **base,
                **scalar,
                "typinput": "array_in",
                "typoutput": "array_out",
                "typreceive": "array_recv",
                "typsubscript": "array_subscript_handler",
                "oid": kind.array_oid,
                "typname": f"_{kind.name}",
                "typlen": -1,
                "typcategory": "A",
                "typelem": kind.oid,
            }


def _keyed(described: Described) -> Iterator[tuple[Table, list[int]]]:
    """The tables with a primary key, and the numbers of its columns."""
    for table in described.relations.values():
        if table.key:
            yield table, [table.column_names.index(name) + 1 for name in table.key]


def _pg_index(described: Described) -> Iterator[Record]:
    for table, numbers in _keyed(described):
        yield {
            "indexrelid": oid_of(f"{table.name}_pkey"),
            "indrelid": oid_of(table.name),
            "indnatts": len(numbers),
            "indnkeyatts": len(numbers),
            "indisunique": True,
            "indisprimary": True,
            "indimmediate": True,
            "indisvalid": True,
            "indisready": True,
            "indislive": True,
            "indkey": numbers,
            "indclass": [0] * len(numbers),
            "indcollation": [0] * len(numbers),
            "indoption": [0] * len(numbers),
        }


def _pg_constraint(described: Described) -> Iterator[Record]:
    for table, numbers in _keyed(described):
        yield {
            "oid": oid_of(f"{table.name}_pkey constraint"),
            "conname": f"{table.name}_pkey",
            "connamespace": PUBLIC,
            "contype": "p",
            "convalidated": True,
            "conrelid": oid_of(table.name),
            "conindid": oid_of(f"{table.name}_pkey"),
            "conislocal": True,
            "conkey": numbers,
        }


def _pg_roles(described: Described) -> Iterator[Record]:
    yield {
        "oid": OWNER,
        "rolname": described.user,
        "rolinherit": True,
        "rolcanlogin": True,
        "rolconnlimit": -1,
        "rolpassword": "********",
    }


def _pg_user(described: Described) -> Iterator[Record]:
    yield {"usename": described.user, "usesysid": OWNER, "passwd": "********"}


def _pg_database(described: Described) -> Iterator[Record]:
    yield {
        "oid": DATABASE,
        "datname": described.database,
        "datdba": OWNER,
        "encoding": 6,
        "datlocprovider": "c",
        "datallowconn": True,
        "datconnlimit": -1,
        "datcollate": "C",
        "datctype": "C",
    }


def _pg_am(_: Described) -> Iterator[Record]:
    yield {"oid": HEAP, "amname": "heap", "amtype": "t"}
    yield {"oid": BTREE, "amname": "btree", "amtype": "i"}


def _pg_settings(described: Described) -> Iterator[Record]:
    for name, value in described.settings.items():
        yield {"name": name, "setting": value, "vartype": "string", "context": "user", "source": "session"}


def _pg_tables(described: Described) -> Iterator[Record]:
    for table in described.relations.values():
        if table.kind is not TableKind.VIEW:
            yield {
                "schemaname": "public",
                "tablename": table.name,
                "tableowner": described.user,
                "hasindexes": bool(table.key),
            }


def _pg_views(described: Described) -> Iterator[Record]:
    for name, text in described.definitions.items():
        yield {"schemaname": "public", "viewname": name, "viewowner": described.user, "definition": text}


def _pg_indexes(described: Described) -> Iterator[Record]:
    for table, _ in _keyed(described):
        yield {
            "schemaname": "public",
            "tablename": table.name,
            "indexname": f"{table.name}_pkey",
            "indexdef": index_definition(table),
        }


def index_definition(table: Table) -> str:
    """The statement that would make the index of a primary key."""
    return (
        f"CREATE UNIQUE INDEX {table.name}_pkey ON public.{table.name} USING btree ({', '.join(table.key)})"
    )


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
    for table, _ in _keyed(described):
        deferral = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"}
        yield {**_constraint(described, table), "constraint_type": "PRIMARY KEY", **deferral}


def _key_column_usage(described: Described) -> Iterator[Record]:
    for table, _ in _keyed(described):
        for number, name in enumerate(table.key, 1):
            yield {**_constraint(described, table), "column_name": name, "ordinal_position": number}


_ROWS: dict[str, Callable[[Described], Iterator[Record]]] = {
    "pg_namespace": _pg_namespace,
    "pg_class": _pg_class,
    "pg_attribute": _pg_attribute,
    "pg_type": _pg_type,
    "pg_index": _pg_index,
    "pg_constraint": _pg_constraint,
    "pg_roles": _pg_roles,
    "pg_user": _pg_user,
    "pg_database": _pg_database,
    "pg_am": _pg_am,
    "pg_settings": _pg_settings,
    "pg_tables": _pg_tables,
    "pg_views": _pg_views,
    "pg_indexes": _pg_indexes,
    "information_schema_schemata": _schemata,
    "information_schema_tables": _tables,
    "information_schema_columns": _columns,
    "information_schema_views": _views,
    "information_schema_table_constraints": _table_constraints,
    "information_schema_key_column_usage": _key_column_usage,
    "information_schema_constraint_column_usage": lambda described: (
        {key: value for key, value in row.items() if key != "ordinal_position"}
        for row in _key_column_usage(described)
    ),
}
