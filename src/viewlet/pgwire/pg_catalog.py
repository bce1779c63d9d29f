"""The relations of ``pg_catalog`` that say something about Viewlet, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from viewlet.core.types import Kind, Type
from viewlet.pgwire import types
from viewlet.pgwire.described import (
    BTREE,
    DATABASE,
    HEAP,
    INFORMATION_SCHEMA,
    OWNER,
    PG_CATALOG,
    PUBLIC,
    Described,
    Record,
    keyed,
    oid_of,
    wire_type,
)
from viewlet.sql.catalog import Table, TableKind

_USES = {"input": "in", "output": "out", "receive": "recv", "send": "send"}

_CATEGORY = {"bool": "B", "int2": "N", "int4": "N", "int8": "N", "float4": "N", "float8": "N", "numeric": "N"}
_CATEGORY |= {"oid": "N", "text": "S", "varchar": "S", "bpchar": "S", "name": "S", "char": "Z"}
_CATEGORY |= {"date": "D", "time": "D", "timestamp": "D", "timestamptz": "D", "interval": "T", "unknown": "X"}


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


def type_functions() -> dict[str, int]:
    """The functions that read and write values of each type, by name, with their OIDs."""
    names = [f"{kind.name}{end}" for kind in types.TYPES for end in _USES.values()]
    names += [f"array_{end}" for end in _USES.values()] + ["array_subscript_handler"]
    return {name: oid_of(f"{name}()") for name in names}


def _pg_proc(_: Described) -> Iterator[Record]:
    for name, oid in type_functions().items():
        yield {"oid": oid, "proname": name, "pronamespace": PG_CATALOG, "proowner": OWNER, "prokind": "f"}


def _pg_type(_: Described) -> Iterator[Record]:
    for kind in types.TYPES:
        base = {"typnamespace": PG_CATALOG, "typowner": OWNER, "typisdefined": True, "typdelim": ","}
        scalar = {"typtype": "p" if kind is types.UNKNOWN else "b", "typtypmod": -1, "typalign": "i"}
        io = {f"typ{use}": oid_of(f"{kind.name}{end}()") for use, end in _USES.items()}
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
                **{f"typ{use}": oid_of(f"array_{end}()") for use, end in _USES.items()},
                "typsubscript": oid_of("array_subscript_handler()"),
                "oid": kind.array_oid,
                "typname": f"_{kind.name}",
                "typlen": -1,
                "typcategory": "A",
                "typelem": kind.oid,
            }


def _pg_index(described: Described) -> Iterator[Record]:
    for table, numbers in keyed(described):
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
    for table, numbers in keyed(described):
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
    for table, _ in keyed(described):
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


PG_CATALOG_ROWS: Mapping[str, Callable[[Described], Iterator[Record]]] = {
    "pg_namespace": _pg_namespace,
    "pg_class": _pg_class,
    "pg_attribute": _pg_attribute,
    "pg_type": _pg_type,
    "pg_proc": _pg_proc,
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
}
